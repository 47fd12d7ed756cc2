"""Writer schemas in JSON Schema, as Confluent's JsonSchemaConverter registers those of Kafka Connect. Pure.

Its messages are JSON as JsonConverter writes it, without a schema block. What Connect knows and JSON Schema does not is
in keywords that begin `connect.`; without them the plain types are taken as they stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cdc_materializer.decode.columns import DECIMALS, decimal_ddl, decimal_type, meaning
from cdc_materializer.decode.units import CONNECTS, NUMBER
from cdc_materializer.decode.wire import (
    NULL,
    UNTYPED,
    WireSchemaInvalid,
    WireType,
    checked,
    doc_of,
    parameters_of,
    with_fields,
)

#: The literal of a type by Connect's word for it, or else by JSON Schema's.
_LITERALS = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "integer": "long",
    "float32": "float",
    "float64": "double",
    "number": "double",
    "string": "string",
    "bytes": "bytes",
    NULL: NULL,
}


#: What says nothing of a value.
_REMARKS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"})
_REMARKS |= {"connect.index", "connect.version", "connect.parameters"}
#: What says of an object's properties more than `properties` does.
_MAY_TELL_MORE = frozenset({"patternProperties", "if", "then", "else", "dependentSchemas", "dependencies"})
#: What a part of an object (`allOf`) may say: which properties there are, and which of them always.
_OF_PARTS = frozenset({"$id", "$schema", "$defs", "definitions", "type", "properties", "required", "allOf"})
_OF_PARTS |= {"additionalProperties", "unevaluatedProperties"}
_OF_VALUES = {str: "string", bool: "boolean", int: "integer", type(None): NULL}
#: What tells a value's type: by name, by what it has, or by other schemas.
_TYPED = frozenset({"type", "properties", "oneOf", "anyOf", "allOf"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


class _OpenError(ValueError):
    """Raised for a schema that allows of more values than one type of a column has."""


def parse_json_schema(text: str) -> WireType:
    """Read a JSON Schema.

    Raises:
        WireSchemaInvalid: the text is none, or none that says what a value is: it refers to another, say.
    """
    try:
        return checked(_type(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = "the registered text is not a JSON Schema that can be read"
        raise WireSchemaInvalid(message) from error


def _type(schema: Mapping[str, Any]) -> WireType:
    schema = _without_wrapper(schema)
    branches = schema.get("oneOf") or schema.get("anyOf")
    if branches and not _only_narrow(schema, branches):
        return _choice(schema, branches)
    kind = schema.get("type") or ("object" if schema.keys() & {"properties", "allOf"} else schema["type"])
    if isinstance(kind, list):
        words = [word for word in kind if word != NULL] or [NULL]
        if len(words) > 1:
            message = "a value of several types"
            raise _OpenError(message)
        return replace(_type({**schema, "type": words[0]}), optional=NULL in kind)
    base = WireType(
        literal=kind,
        name=schema.get("title") or "",
        parameters=parameters_of(schema.get("connect.parameters")),
        doc=doc_of(schema.get("description")),
        default=schema.get("default"),
    )
    if kind == "object":
        return _object(schema, base)
    if kind == "array":
        # A map whose keys are no strings is an array of objects, too.
        return replace(base, items=_items(schema))
    if kind == "number" and base.name in DECIMALS:
        # The converter calls every decimal a number. Whether messages have its digits or the text of its unscaled
        # bytes is `decimal.format`, of which the schema says nothing.
        ddl = decimal_ddl(*decimal_type(base))
        return replace(base, literal="declared", name="", parameters={**base.parameters, "ddl": ddl, CONNECTS: ""})
    told = schema.get("connect.type") or kind
    parameters = {**base.parameters, NUMBER: ""} if told == "number" else base.parameters
    return replace(base, literal=_LITERALS[told], parameters=parameters)


def _without_wrapper(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema that says by `allOf` alone what it is, of one part: that part, as some generators write references."""
    while not schema.keys() & (_TYPED - {"allOf"}) and len(schema.get("allOf", ())) == 1:
        (part,) = schema["allOf"]
        beside = {name: told for name, told in schema.items() if name != "allOf"}
        if beside.keys() & part.keys() - _REMARKS:
            message = "a value of which two schemas say something"
            raise _OpenError(message)
        schema = {**part, **beside}
    return schema


def _only_narrow(schema: Mapping[str, Any], branches: list[Any]) -> bool:
    """Whether the branches of a choice only say which values of the type beside them there may be.

    Raises:
        _OpenError: they may tell more properties than those that stand beside them.
    """
    told = schema.get("type", ())
    words = {told} if isinstance(told, str) else set(told)
    if words and not words & {"object", "array"}:
        return True
    if not schema.keys() & {"properties", "allOf"}:
        return False
    if any(branch.keys() - _REMARKS - {"required"} for branch in branches):
        message = "an object with properties that it may have or not"
        raise _OpenError(message)
    return True


def _choice(schema: Mapping[str, Any], branches: list[Any]) -> WireType:
    """The one type of a choice's branches, NULL aside."""
    types = [_part(branch) for branch in branches]
    present = [found for found in types if found.literal != NULL]
    optional = len(present) < len(types) or any(found.optional for found in present)
    if not present:
        return WireType(NULL, optional=optional)
    if len(present) == 1:
        return replace(present[0], optional=optional)
    plain = [_unnamed(found) for found in present]
    if any(found != plain[0] for found in plain):
        message = "a value of several types"
        raise _OpenError(message)
    return replace(plain[0], optional=optional, doc=doc_of(schema.get("description")))


def _unnamed(wire: WireType) -> WireType:
    """A type without what is said of its branch alone."""
    return replace(wire, name=meaning(wire), optional=False, doc=None, default=None)


def _items(schema: Mapping[str, Any]) -> WireType:
    """The type of an array's items."""
    items = schema.get("items", True)
    found = _part(items) if not isinstance(items, list) and "prefixItems" not in schema else None
    if found is None or found.literal == NULL:
        message = "an array whose items are each of another type, or none"
        raise _OpenError(message)
    return found


def _object(schema: Mapping[str, Any], base: WireType) -> WireType:
    if schema.get("connect.type") == "map" or not schema.keys() & {"properties", "allOf"}:
        values = schema.get("additionalProperties", True)
        found = _part(values) if not isinstance(values, bool) else None
        if found is None or found.literal == NULL:
            message = "an object of which nothing says what is in it"
            raise _OpenError(message)
        return replace(base, literal="map", items=found)
    listed = sorted(_properties(schema).items(), key=_place)
    return with_fields(replace(base, literal="record"), ((name, _part(part)) for name, part in listed))


def _place(entry: tuple[str, Any]) -> Any:  # noqa: ANN401 - JSON
    """Where Connect has a property."""
    return entry[1].get("connect.index", 0) if not isinstance(entry[1], bool) else 0


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of an object, those of all parts that it is said to have at once.

    Raises:
        _OpenError: other keywords may tell more of them, by conditions or names: their columns would be lost.
    """
    if schema.keys() & _MAY_TELL_MORE:
        message = "an object with properties that it may have or not"
        raise _OpenError(message)
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        if part.get("type", "object") != "object" or part.keys() - _REMARKS - _OF_PARTS:
            message = "an object that is to be something else too"
            raise _OpenError(message)
        for name, kind in _properties(part).items():
            if found.setdefault(name, kind) != kind:
                message = "a property of two types"
                raise _OpenError(message)
    return found


def _part(schema: Any) -> WireType:  # noqa: ANN401 - JSON
    """The type of what stands in another: the text of its JSON where it may be of several types."""
    if isinstance(schema, bool):
        # `true` is any value, and `false` none.
        return _text({}) if schema else WireType(NULL, optional=True)
    try:
        plain = _without_wrapper(schema)
        found = _type(plain) if plain.keys() & _TYPED else _untold(plain)
    except _OpenError:
        return _text(schema)
    return _text(schema) if found.literal == "record" and not found.fields and not found.nulls else found


def _untold(schema: Mapping[str, Any]) -> WireType:
    """The type of a schema that says none: by the values that it lists, or else the text of any JSON."""
    listed = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    words = list(dict.fromkeys(_OF_VALUES.get(type(value), UNTYPED) for value in listed))
    if words and UNTYPED not in words and len({*words} - {NULL}) <= 1:
        return _type({**schema, "type": words})
    return _text(schema)


def _text(schema: Mapping[str, Any]) -> WireType:
    """A column of texts, which has a place for any JSON.

    Raises:
        ValueError: what the value is may be told by another schema, which is not there.
    """
    if _refers(schema):
        message = "a value of which a schema says more that is not known"
        raise ValueError(message)
    return WireType(UNTYPED, optional=True, parameters={"ddl": "string"}, doc=doc_of(schema.get("description")))


def _refers(part: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether a reference is left in a part of a schema; a property may be called as one, and holds no text then."""
    if isinstance(part, list):
        return any(map(_refers, part))
    if not isinstance(part, dict):
        return False
    return any(isinstance(part.get(name), str) for name in _REFERENCES) or any(map(_refers, part.values()))
