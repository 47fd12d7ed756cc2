"""Which column a wire type becomes, as a Spark DDL type: the type table of changelog-semantics §3, without Spark.

`types` says how the values get there. What only has to know a table's columns, such as `cdcm init`, asks here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cdc_materializer.decode.wire import UNTYPED, WireSchemaInvalid, WireType
from cdc_materializer.errors import InvalidName
from cdc_materializer.names import quote
from cdc_materializer.schema.types import DECIMAL_DIGITS_MAX, decimal_of, entry_of, fields_of, item_of

DEBEZIUM = "io.debezium."
CONNECT = "org.apache.kafka.connect.data."

#: The most decimal digits that Spark keeps in a long.
LONG_DIGITS = 18

#: Numbers each of which has a scale of its own.
VARIABLE_SCALE = DEBEZIUM + "data.VariableScaleDecimal"

#: The parameter of such a number that goes beside its column, as a text, where the column's type does not hold it.
BESIDE = "beside"

#: Types without a meaning of their own, by their literal.
LITERALS: Mapping[str, str] = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
}

#: Types whose name says what they mean, with the literal that carries it; all but decimals. Times of day are
#: microseconds, because Spark has no `time`.
NAMED: Mapping[tuple[str, str], str] = {
    (VARIABLE_SCALE, "record"): "string",
    (DEBEZIUM + "data.Json", "string"): "string",
    (DEBEZIUM + "time.Date", "int"): "date",
    (DEBEZIUM + "time.IsoDate", "string"): "date",
    (DEBEZIUM + "time.StructuredDate", "record"): "date",
    (CONNECT + "Date", "int"): "date",
    ("date", "int"): "date",
    (DEBEZIUM + "time.Time", "int"): "bigint",
    (DEBEZIUM + "time.MicroTime", "long"): "bigint",
    (DEBEZIUM + "time.NanoTime", "long"): "bigint",
    (DEBEZIUM + "time.IsoTime", "string"): "bigint",
    # A double in older versions of the connectors, and a long, which is what it is called, since.
    (DEBEZIUM + "time.MicroDuration", "double"): "bigint",
    (DEBEZIUM + "time.NanoDuration", "long"): "bigint",
    (DEBEZIUM + "time.StructuredTime", "record"): "bigint",
    (CONNECT + "Time", "int"): "bigint",
    ("time-millis", "int"): "bigint",
    ("time-micros", "long"): "bigint",
    (DEBEZIUM + "time.StructuredZonedTime", "record"): "string",
    (DEBEZIUM + "time.StructuredDuration", "record"): "string",
    (DEBEZIUM + "time.Timestamp", "long"): "timestamp_ntz",
    (DEBEZIUM + "time.MicroTimestamp", "long"): "timestamp_ntz",
    (DEBEZIUM + "time.NanoTimestamp", "long"): "timestamp_ntz",
    (DEBEZIUM + "time.IsoTimestamp", "string"): "timestamp_ntz",
    (DEBEZIUM + "time.StructuredTimestamp", "record"): "timestamp_ntz",
    (CONNECT + "Timestamp", "long"): "timestamp",
    ("timestamp-millis", "long"): "timestamp",
    ("local-timestamp-millis", "long"): "timestamp_ntz",
    ("local-timestamp-micros", "long"): "timestamp_ntz",
    ("local-timestamp-nanos", "long"): "timestamp_ntz",
    (DEBEZIUM + "time.ZonedTimestamp", "string"): "timestamp",
    (DEBEZIUM + "time.StructuredZonedTimestamp", "record"): "timestamp",
    ("timestamp-micros", "long"): "timestamp",
    ("timestamp-nanos", "long"): "timestamp",
    ("uuid", "fixed"): "string",
}

#: Moments of which their names do not tell whether the source's column has a time zone: Avro's specification calls them
#: instants, and Debezium writes columns without a zone so. Who wrote them tells it (`with_moments`).
MOMENTS = frozenset({CONNECT + "Timestamp", "timestamp-millis", "timestamp-micros", "timestamp-nanos"})
_MOMENT_DDLS = frozenset({"timestamp", "timestamp_ntz"})

_CALENDAR = dict.fromkeys(("year", "month", "day"), "int")
_CLOCK = dict.fromkeys(("hour", "minute", "second"), "int")
_OFFSET = {"offsetSeconds": "int"}
#: The fields that a named record has to have, with their literals. Others may come with later versions of a connector.
FIELDS: Mapping[str, Mapping[str, str]] = {
    VARIABLE_SCALE: {"scale": "int", "value": "bytes"},
    DEBEZIUM + "time.StructuredDate": _CALENDAR,
    DEBEZIUM + "time.StructuredTime": _CLOCK,
    DEBEZIUM + "time.StructuredTimestamp": _CALENDAR | _CLOCK,
    DEBEZIUM + "time.StructuredZonedTime": _CLOCK | _OFFSET,
    DEBEZIUM + "time.StructuredZonedTimestamp": _CALENDAR | _CLOCK | _OFFSET,
    DEBEZIUM + "time.StructuredDuration": {"seconds": "long"},
}

#: MySQL's unsigned integers of eight bytes, which the connector sends as signed ones unless it is told otherwise. Only
#: `column.propagate.source.type`, or a contract, tells that a column is one.
UNSIGNED_DDL = "decimal(20,0)"

#: The parameter of a column that the connector cuts: to how many letters or bytes (`column.truncate.to`).
CUT = "truncateLength"

#: The parameter of an unsigned integer that may be a signed one, if it is negative on the wire.
UNTOLD_SIGN = "untold"
_SOURCE_TYPE = "__debezium.source.column.type"
#: MySQL has two words for it, and the connector tells the one of the statement that made the column.
_UNSIGNED = ("BIGINT UNSIGNED", "INT8 UNSIGNED")

_MONEY_DIGITS = 19

#: Unions of two numbers, with the column of the one number that Spark's Avro reader makes of them; of all other unions
#: it makes a struct.
_WIDER: Mapping[frozenset[str], str] = {
    frozenset({"int", "long"}): "bigint",
    frozenset({"float", "double"}): "double",
}

#: Decimals: unscaled bytes, the scale in the schema.
DECIMALS = (CONNECT + "Decimal", "decimal")


def column_type(wire: WireType) -> str:
    """The Spark DDL type of the column that a wire type becomes.

    Raises:
        WireSchemaInvalid: the type has no table form.
    """
    if wire.contract is not None or wire.literal in {"declared", UNTYPED}:
        return wire.contract.ddl if wire.contract is not None else wire.parameters["ddl"]
    name = meaning(wire)
    if name in DECIMALS:
        return decimal_ddl(*decimal_type(wire))
    if name:
        told = {VARIABLE_SCALE: variable_scale_ddl, **dict.fromkeys(MOMENTS, moment_ddl)}.get(name)
        return told(wire) if told is not None else NAMED[name, wire.literal]
    plain = UNSIGNED_DDL if is_unsigned(wire) else LITERALS.get(wire.literal)
    if plain is not None:
        return plain
    if wire.literal in {"array", "map"} and wire.items is not None:
        item = column_type(wire.items)
        return f"array<{item}>" if wire.literal == "array" else f"map<string,{item}>"
    if wire.literal in {"record", "union"} and wire.fields:
        return wider_number(wire) or struct_of((name, column_type(kind)) for name, kind in wire.fields)
    message = f"the wire type {wire.literal!r} has no table form"
    raise WireSchemaInvalid(message)


def struct_of(fields: Iterable[tuple[str, str]]) -> str:
    """The Spark DDL type of a struct with fields of these names and types.

    Raises:
        WireSchemaInvalid: no table can have a field of such a name.
    """
    try:
        return "struct<" + ",".join(f"{quote(name)}:{ddl}" for name, ddl in fields) + ">"
    except InvalidName as error:
        message = "a field inside of a column has a name that no table can have"
        raise WireSchemaInvalid(message) from error


def meaning(wire: WireType) -> str:
    """The type's name where it says what a value is; "" where it says nothing that is known.

    A name on a type that cannot carry its meaning (`io.debezium.time.Date` on a text) is nothing that a connector
    writes: the value is then read as what it is, and not as what it is called. So is one with a name of somebody's own
    (`com.acme.Money`), which is a decimal all the same if Avro's logical type says so.
    """
    return next((name for name in (wire.name, wire.logical) if _carries(wire, name)), "")


def _carries(wire: WireType, name: str) -> bool:
    """Whether a name means something on a type."""
    if name in DECIMALS:
        return wire.literal in {"bytes", "fixed"}
    parts = {part: kind.literal for part, kind in wire.fields}
    has_fields = all(parts.get(part) == literal for part, literal in FIELDS.get(name, {}).items())
    return (name, wire.literal) in NAMED and has_fields


def variable_scale_ddl(wire: WireType) -> str:
    """The column of numbers with scales of their own: a text of their digits, or what `with_open` says."""
    ddl = wire.parameters.get("ddl", "")
    return ddl if _is_decimal(ddl) else NAMED[VARIABLE_SCALE, "record"]


def _is_decimal(ddl: str) -> bool:
    found = decimal_of(ddl)
    return found is not None and 0 <= found[1] <= found[0] <= DECIMAL_DIGITS_MAX and found[0] > 0


def moment_ddl(wire: WireType) -> str:
    """The column of a moment of MOMENTS: an instant, or what `with_moments` or `with_open` says."""
    ddl = wire.parameters.get("ddl", "")
    return ddl if ddl in _MOMENT_DDLS else "timestamp"


def with_moments(wire: WireType, ddl: str) -> WireType:
    """A type with each of MOMENTS in it a column of a type: `timestamp`, or `timestamp_ntz`."""
    if meaning(wire) in MOMENTS:
        return replace(wire, parameters={**wire.parameters, "ddl": ddl})
    fields = tuple((name, with_moments(kind, ddl)) for name, kind in wire.fields)
    return replace(wire, fields=fields, items=with_moments(wire.items, ddl) if wire.items is not None else None)


def is_variable_scale(wire: WireType) -> bool:
    """Whether a type is that of numbers each of which has a scale of its own."""
    return meaning(wire) == VARIABLE_SCALE


def with_open(record: WireType, types: Mapping[str, str], beside: Collection[str] = ()) -> WireType:
    """A record with what its source leaves open as a contract declares it, or a table has it.

    Numbers with scales of their own are decimals then, and texts of their digits otherwise: one that the type does not
    hold exactly is out of range. Moments are instants or have no zone, inside of others too.

    Args:
        record: a row, or an envelope.
        types: the types by the record's names.
        beside: the names of such numbers that go beside their column, as texts, where its type does not hold them.
    """
    fields = tuple((name, _as_told(kind, types.get(name, ""), name in beside)) for name, kind in record.fields)
    return replace(record, fields=fields)


def _as_told(wire: WireType, ddl: str, has_beside: bool) -> WireType:  # noqa: FBT001
    if is_variable_scale(wire) and _is_decimal(ddl):
        return replace(wire, parameters={**wire.parameters, "ddl": ddl, **({BESIDE: BESIDE} if has_beside else {})})
    return _moments_as_told(wire, ddl)


def _moments_as_told(wire: WireType, ddl: str) -> WireType:
    if meaning(wire) in MOMENTS:
        return with_moments(wire, ddl) if ddl in _MOMENT_DDLS else wire
    entry, parts = entry_of(ddl), fields_of(ddl) or {}
    item = entry[1] if entry is not None else item_of(ddl)
    if wire.items is not None and item is not None:
        return replace(wire, items=_moments_as_told(wire.items, item))
    fields = [(name, _moments_as_told(kind, parts.get(name, ""))) for name, kind in wire.fields]
    return replace(wire, fields=tuple(fields)) if parts else wire


def wider_number(wire: WireType) -> str | None:
    """The column of a union of two numbers one of which holds the other's; None for every other type.

    Raises:
        WireSchemaInvalid: one of the two is a date or the like, and nothing tells which of them a number was sent as.
    """
    kinds = [kind for _, kind in wire.fields]
    ddl = _WIDER.get(frozenset(kind.literal for kind in kinds)) if wire.literal == "union" else None
    if ddl is not None and any(meaning(kind) or is_unsigned(kind) for kind in kinds):
        message = "a union of two numbers of which one is something else by its name"
        raise WireSchemaInvalid(message)
    return ddl


def is_unsigned(wire: WireType) -> bool:
    """Whether a signed integer on the wire stands for an unsigned one."""
    return wire.literal == "long" and not wire.name and _source_type(wire).startswith(_UNSIGNED)


def as_unsigned(wire: WireType) -> WireType:
    """A type that is told to be unsigned, if it is an integer of eight bytes."""
    return replace(wire, parameters={**wire.parameters, _SOURCE_TYPE: _UNSIGNED[0]})


def tells_source(wire: WireType) -> bool:
    """Whether a type says what its column is in the source's database."""
    return bool(_source_type(wire))


def is_money(wire: WireType) -> bool:
    """Whether a decimal is PostgreSQL's money, which it counts in a signed integer of eight bytes."""
    return meaning(wire) in DECIMALS and _source_type(wire) == "MONEY"


def _source_type(wire: WireType) -> str:
    return wire.parameters.get(_SOURCE_TYPE, "").upper()


def decimal_type(wire: WireType) -> tuple[int, int]:
    """Precision and scale of a Connect Decimal; 38 digits where the writer does not say (Avro then writes 64).

    Oracle's `NUMBER(2,5)` has a scale above its precision, and is as wide as its scale.

    Raises:
        WireSchemaInvalid: one of them is not a number, or the scale is that of no column.
    """
    scale = decimal_number(wire.parameters.get("scale", "0"))
    if not -DECIMAL_DIGITS_MAX < scale <= DECIMAL_DIGITS_MAX:
        message = f"a decimal's scale is beyond the {DECIMAL_DIGITS_MAX} digits of a column"
        raise WireSchemaInvalid(message)
    told = wire.parameters.get("connect.decimal.precision") or wire.parameters.get("precision")
    precision = decimal_number(told) if told else 0
    if not 0 < precision <= DECIMAL_DIGITS_MAX:
        precision = _MONEY_DIGITS if is_money(wire) else DECIMAL_DIGITS_MAX
    return max(precision, scale), scale


def decimal_ddl(precision: int, scale: int) -> str:
    """The column of a decimal; one that counts units of a power of ten (a negative scale) is a whole number."""
    if 0 <= scale <= precision:
        return f"decimal({precision},{scale})"
    return f"decimal({min(precision - scale, DECIMAL_DIGITS_MAX)},0)"


def decimal_number(text: str) -> int:
    """A decimal's scale or precision; raises WireSchemaInvalid for what is no number."""
    try:
        return int(text)
    except ValueError as error:
        message = "a decimal's scale or precision is not a number"
        raise WireSchemaInvalid(message) from error
