"""Writer schemas as they come with the messages: Avro from a registry, or the `schema` block of Connect's JSON.

Both say the same things in two spellings. `WireType` is the one form that the rest of the package reads: the literal
type, and the name (`connect.name`) and parameters that tell what the value means (changelog-semantics §3).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastavro.schema import parse_schema

from cdc_materializer.decode.units import DeclaredType

_CONNECT_LITERALS = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "float32": "float",
    "double": "double",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
}
#: How deep types may stand in one another, and how many there may be with each named type counted wherever it is used:
#: more than any table has, and what can still be planned.
DEPTH_MAX = 50
TYPES_MAX = 50_000

#: The literal of a type that has no value but NULL.
NULL = "null"

_AVRO_LITERALS = frozenset({"boolean", "int", "long", "float", "double", "string", "bytes"})
#: The names in an Avro schema that no definition has: they are types everywhere, whatever the namespace.
PRIMITIVES = _AVRO_LITERALS | {NULL}

#: The literal of a type that only a contract tells, in JSON that may spell its values in many ways (`decode.untyped`).
#: Its parameters are the column's type (`ddl`), how bytes are spelled (`BYTES`: one of those below), whether an
#: array is a set of MySQL's (`SET`), and whether a column that a message leaves out keeps its value (`ABSENT`): else it
#: is NULL.
UNTYPED = "untyped"
BYTES, SET, ABSENT = "bytes", "set", "absent"
#: Base64 in the one alphabet or the other, characters of one byte each, and hexadecimal digits with `0x` before them or
#: without.
BASE64, BASE64_URL, LATIN_1, HEX, DIGITS_OF_HEX = "base64", "base64url", "latin1", "hex", "digits"

_DIGITS_OF_A_BIT = math.log10(2)

#: The name of an entry of a map whose keys are no texts, in JSON.
PAIR = "__cdc_pair"


class WireSchemaInvalid(ValueError):
    """Raised when a writer schema cannot be understood; the message holds no part of a row."""


@dataclass(frozen=True)
class WireType:
    """One type of a writer schema.

    `literal` is one of boolean, int, long, float, double, string, bytes, fixed, enum, array, map, record, union, null;
    `name` the schema's own name for its meaning (`io.debezium.time.Date`, or an Avro logical type), "" if it has none;
    `logical` Avro's logical type, which says what a value is where the name is one of somebody's own;
    `contract` what a contract declares the value to be, where it is read so (`contract_types`);
    `aliases` the names that Avro says a record's field had;
    `nulls` the fields of a record that can be nothing but NULL or empty, of which no column can be made;
    `default` what Connect's schema names for a value that was not told, as the wire writes it: never data of a row.
    """

    literal: str
    name: str = ""
    optional: bool = False
    logical: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[tuple[str, WireType], ...] = ()
    items: WireType | None = None
    doc: str | None = None
    default: Any = None
    nulls: tuple[str, ...] = ()
    contract: DeclaredType | None = None
    aliases: tuple[str, ...] = ()

    def get(self, name: str) -> WireType | None:
        """The type of a record's field, None where it has no such field."""
        return dict(self.fields).get(name)


def checked(wire: WireType, depth: int = 0) -> WireType:
    """The type itself, unless what stands in a schema's places is not what belongs there.

    Raises:
        TypeError, ValueError: a name is no text, a field comes twice, or types stand too deep in one another.
    """
    if depth > DEPTH_MAX:
        message = "types are nested too deep"
        raise ValueError(message)
    names = [name for name, _ in wire.fields]
    told = (wire.name, wire.logical)
    if not all(isinstance(name, str) and name for name in names) or not all(isinstance(name, str) for name in told):
        message = "a name is no text"
        raise TypeError(message)
    if len(set(names)) < len(names):
        message = "a record has two fields of one name"
        raise ValueError(message)
    for part in (*[kind for _, kind in wire.fields], *([wire.items] if wire.items is not None else [])):
        checked(part, depth + 1)
    return wire


def with_fields(record: WireType, fields: Iterable[tuple[str, WireType]]) -> WireType:
    """A record with these fields, apart those that are always NULL, or a record without fields, which tells as much."""
    told = tuple(fields)
    kept = tuple((name, kind) for name, kind in told if not _tells_nothing(kind))
    return replace(record, fields=kept, nulls=tuple(name for name, kind in told if _tells_nothing(kind)))


def _tells_nothing(wire: WireType) -> bool:
    return wire.literal == NULL or (wire.literal == "record" and not wire.fields)


def doc_of(told: object) -> str | None:
    """A type's documentation; what is no text documents nothing."""
    return told if isinstance(told, str) else None


def parameters_of(told: Mapping[str, Any] | None) -> dict[str, str]:
    """Connect's parameters, as texts however they are written."""
    return {str(name): str(value) for name, value in (told or {}).items()}


def parse_connect(schema: Mapping[str, Any]) -> WireType:
    """Read the `schema` block of a message written by Kafka Connect's JsonConverter.

    Raises:
        WireSchemaInvalid: the block is not a Connect schema.
    """
    try:
        return checked(_connect(schema))
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        message = "the schema block is not one that Kafka Connect writes"
        raise WireSchemaInvalid(message) from error


def _connect(schema: Mapping[str, Any]) -> WireType:
    kind = schema["type"]
    base = WireType(
        literal=kind,
        name=schema.get("name") or "",
        optional=bool(schema.get("optional")),
        parameters=parameters_of(schema.get("parameters")),
        doc=doc_of(schema.get("doc")),
        default=schema.get("default"),
    )
    if kind == "struct":
        return with_fields(
            replace(base, literal="record"), ((part["field"], _connect(part)) for part in schema["fields"])
        )
    if kind == "array":
        return replace(base, items=_connect(schema["items"]))
    if kind == "map":
        key, values = _connect(schema["keys"]), _connect(schema["values"])
        if key.literal == "string":
            return replace(base, items=values)
        # A map whose keys are no strings is written as an array of [key, value] pairs.
        pair = WireType("record", PAIR, fields=(("key", key), ("value", values)))
        return replace(base, literal="array", items=pair)
    return replace(base, literal=_CONNECT_LITERALS[kind])


def parse_avro(text: str) -> WireType:
    """Read an Avro schema, as Avro's Java parser takes it: fastavro takes fewer. Defaults are nothing to us.

    Raises:
        WireSchemaInvalid: the text is not an Avro schema, or a record contains itself.
    """
    try:
        return checked(_avro(json.loads(text), _Names(), "", ()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = "the registered text is not an Avro schema that can be read"
        raise WireSchemaInvalid(message) from error


def parsed_avro(text: str) -> Any:  # noqa: ANN401 - fastavro's form
    """An Avro schema as fastavro takes it, without the meaning of decimals that are none to Avro: those stay bytes.

    Connect's converter writes such: Oracle's NUMBER(5,-2) has that scale, its NUMBER(2,5) that precision.

    Raises:
        SchemaParseException, ValueError, KeyError, TypeError, AttributeError, RecursionError: it is no Avro schema.
    """
    return parse_schema(json.loads(text, object_hook=_without_odd_decimal))


def _without_odd_decimal(schema: dict[str, Any]) -> dict[str, Any]:
    scale, precision = schema.get("scale", 0), schema.get("precision", 0)
    is_told = schema.get("logicalType") == "decimal" and type(scale) is int and type(precision) is int
    # Without a precision, the scale is any that is not negative.
    is_odd = is_told and (scale < 0 or 0 < precision < scale)
    return {name: value for name, value in schema.items() if name != "logicalType"} if is_odd else schema


class _Names(dict[str, tuple[Any, str]]):
    """The named types of an Avro schema, each with the namespace around it.

    And how many types have been read: each use of a name reads it anew.
    """

    types = 0

    def count(self) -> None:
        """Count a type; a few names that use one another twice are more types than there is memory."""
        self.types += 1
        if self.types > TYPES_MAX:
            message = "a schema of too many types"
            raise ValueError(message)


def _avro(schema: Any, named: _Names, namespace: str, within: tuple[str, ...]) -> WireType:  # noqa: ANN401 - JSON
    named.count()
    if isinstance(schema, list):
        return _union(schema, named, namespace, within)
    if isinstance(schema, str):
        return WireType(schema) if schema in PRIMITIVES else _reference(schema, named, namespace, within)
    if isinstance(schema["type"], (list, dict)):
        return _avro(schema["type"], named, namespace, within)
    return _annotated(schema, named, namespace, within)


def _reference(name: str, named: _Names, namespace: str, within: tuple[str, ...]) -> WireType:
    full = name if "." in name else f"{namespace}.{name}".lstrip(".")
    # A name that is not known in its namespace is one without a namespace: Java's own schemas are printed so.
    full = full if full in named else name
    if full in within:
        message = "a record that contains itself has no table form"
        raise ValueError(message)
    definition, around = named[full]
    return _avro(definition, named, around, within)


def _annotated(schema: Any, named: _Names, namespace: str, within: tuple[str, ...]) -> WireType:  # noqa: ANN401 - JSON
    """A type that is written as an object: with a name, parameters or parts of its own."""
    kind = schema["type"]
    logical = "" if _is_beyond_its_size(schema) else schema.get("logicalType") or ""
    base = WireType(
        literal=kind,
        name=schema.get("connect.name") or logical,
        logical=logical,
        parameters=_parameters(schema),
        doc=doc_of(schema.get("doc") or schema.get("connect.doc")),
        default=schema.get("connect.default"),
    )
    if kind in {"array", "map"}:
        return replace(base, items=_avro(schema["items" if kind == "array" else "values"], named, namespace, within))
    if kind not in {"record", "enum", "fixed"}:
        return base if kind in PRIMITIVES else _reference(kind, named, namespace, within)
    space = schema.get("namespace", namespace)
    full = schema["name"] if "." in schema["name"] else f"{space}.{schema['name']}".lstrip(".")
    if named.setdefault(full, (schema, namespace))[0] is not schema:
        message = "two types of one name"
        raise ValueError(message)
    space = full.rpartition(".")[0]
    parts = schema["fields"] if kind == "record" else ()
    return with_fields(base, ((part["name"], _field(part, named, space, (*within, full))) for part in parts))


def _is_beyond_its_size(schema: Mapping[str, Any]) -> bool:
    """Whether a decimal has more digits than the fixed that it stands on has room for, so that it is none to Avro."""
    size, precision = schema.get("size"), schema.get("precision")
    if schema["type"] != "fixed" or schema.get("logicalType") != "decimal":
        return False
    return isinstance(size, int) and isinstance(precision, int) and precision > (8 * size - 1) * _DIGITS_OF_A_BIT


def _field(part: Mapping[str, Any], named: _Names, namespace: str, within: tuple[str, ...]) -> WireType:
    found = _avro(part["type"], named, namespace, within)
    aliases = tuple(name for name in part.get("aliases") or () if isinstance(name, str))
    return replace(found, doc=doc_of(part.get("doc")) or found.doc, aliases=aliases)


def _union(branches: list[Any], named: _Names, namespace: str, within: tuple[str, ...]) -> WireType:
    types = [_avro(branch, named, namespace, within) for branch in branches]
    present = [found for found in types if found.literal != NULL]
    if not present:
        return WireType(NULL, optional=True)
    if len(present) == 1:
        return replace(present[0], optional=len(present) < len(types))
    # Spark's Avro reader gives a union of several branches as a struct member0, member1, …
    members = tuple((f"member{index}", replace(found, optional=True)) for index, found in enumerate(present))
    return WireType("union", optional=len(present) < len(types), fields=members)


def _parameters(schema: Mapping[str, Any]) -> dict[str, str]:
    parameters = parameters_of(schema.get("connect.parameters"))
    scale = str(schema.get("scale", 0))
    if schema.get("logicalType") == "decimal" and parameters.get("scale", scale) != scale:
        message = "a decimal has two scales"
        raise ValueError(message)
    # What Avro's reader goes by is what the schema itself says; Connect has a name of its own for a precision.
    own = {name: str(schema[name]) for name in ("scale", "precision") if name in schema}
    parameters.pop("precision", None)
    return own | parameters
