"""Writer schemas in JSON Schema, as Confluent's JsonSchemaConverter registers those of Kafka Connect. Pure.

Its messages are JSON as JsonConverter writes it, without a schema block. What Connect knows and JSON Schema does not is
in keywords that begin `connect.`; without them the plain types are taken as they stand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cdc_materializer.decode.columns import DECIMALS, decimal_ddl, decimal_type
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
#: What lists the values that there may be, and their types.
_LISTS = frozenset({"enum", "const"})
#: What says of an object's properties more than `properties` does.
_MAY_TELL_MORE = frozenset({"patternProperties", "if", "then", "else", "dependentSchemas", "dependencies"})
#: What a part of an object (`allOf`) may say: which properties there are, and which of them always.
_OF_PARTS = frozenset({"$id", "$schema", "$defs", "definitions", "type", "properties", "required", "allOf"})
_OF_PARTS |= {"additionalProperties", "unevaluatedProperties"}
_OF_VALUES = {str: "string", bool: "boolean", int: "integer", type(None): NULL}


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
    branches = schema.get("oneOf") or schema.get("anyOf")
    if branches:
        present = [branch for branch in branches if branch.get("type") != NULL]
        if len(present) > 1:
            message = "a value of several types"
            raise ValueError(message)
        found = _part(present[0]) if present else WireType(NULL)
        return replace(found, optional=len(present) < len(branches))
    kind = schema["type"]
    if isinstance(kind, list):
        (one,) = [word for word in kind if word != NULL] or [NULL]
        return replace(_type({**schema, "type": one}), optional=NULL in kind)
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
        return replace(base, items=_part(schema["items"]))
    if kind == "number" and base.name in DECIMALS:
        # The converter calls every decimal a number. Whether messages have its digits or the text of its unscaled
        # bytes is `decimal.format`, of which the schema says nothing.
        ddl = decimal_ddl(*decimal_type(base))
        return replace(base, literal="declared", name="", parameters={**base.parameters, "ddl": ddl, CONNECTS: ""})
    told = schema.get("connect.type") or kind
    parameters = {**base.parameters, NUMBER: ""} if told == "number" else base.parameters
    return replace(base, literal=_LITERALS[told], parameters=parameters)


def _object(schema: Mapping[str, Any], base: WireType) -> WireType:
    if schema.get("connect.type") == "map" or not schema.keys() & {"properties", "allOf"}:
        return replace(base, literal="map", items=_part(schema["additionalProperties"]))
    listed = sorted(_properties(schema).items(), key=lambda entry: entry[1].get("connect.index", 0))
    return with_fields(replace(base, literal="record"), ((name, _part(part)) for name, part in listed))


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The properties of an object, those of all parts that it is said to have at once.

    Raises:
        ValueError: other keywords may tell more of them, by conditions or names: their columns would be lost.
    """
    if schema.keys() & _MAY_TELL_MORE:
        message = "an object with properties that it may have or not"
        raise ValueError(message)
    found = dict(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        if part.get("type", "object") != "object" or part.keys() - _REMARKS - _OF_PARTS:
            message = "an object that is to be something else too"
            raise ValueError(message)
        for name, kind in _properties(part).items():
            if found.setdefault(name, kind) != kind:
                message = "a property of two types"
                raise ValueError(message)
    return found


def _part(schema: Mapping[str, Any]) -> WireType:
    """The type of what stands in another."""
    return _type(schema) if schema.keys() & {"type", "oneOf", "anyOf"} else _untold(schema)


def _untold(schema: Mapping[str, Any]) -> WireType:
    """The type of a schema that says none: by the values that it lists, or else the text of any JSON.

    Raises:
        ValueError: it says something else of its values.
    """
    if schema.keys() - _REMARKS - _LISTS:
        message = "a value of no type"
        raise ValueError(message)
    listed = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]
    words = list(dict.fromkeys(_OF_VALUES.get(type(value), UNTYPED) for value in listed))
    if words and UNTYPED not in words and len({*words} - {NULL}) <= 1:
        return _type({**schema, "type": words})
    text = {"ddl": "string"}
    return WireType(UNTYPED, optional=True, parameters=text, doc=doc_of(schema.get("description")))
