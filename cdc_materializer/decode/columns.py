"""Which column a wire type becomes, as a Spark DDL type: the type table of changelog-semantics §3, without Spark.

`types` says how the values get there. What only has to know a table's columns, such as `cdcm init`, asks here.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdc_materializer.decode.wire import WireSchemaInvalid, WireType
from cdc_materializer.names import quote
from cdc_materializer.schema_types import DECIMAL_DIGITS_MAX

DEBEZIUM = "io.debezium."
CONNECT = "org.apache.kafka.connect.data."

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

#: Types whose name says what they mean, all but decimals. Times of day are microseconds, because Spark has no `time`.
NAMED: Mapping[str, str] = {
    DEBEZIUM + "data.VariableScaleDecimal": "string",
    DEBEZIUM + "data.Json": "string",
    DEBEZIUM + "time.Date": "date",
    DEBEZIUM + "time.IsoDate": "date",
    CONNECT + "Date": "date",
    "date": "date",
    DEBEZIUM + "time.Time": "bigint",
    DEBEZIUM + "time.MicroTime": "bigint",
    DEBEZIUM + "time.NanoTime": "bigint",
    DEBEZIUM + "time.IsoTime": "bigint",
    CONNECT + "Time": "bigint",
    "time-millis": "bigint",
    "time-micros": "bigint",
    DEBEZIUM + "time.Timestamp": "timestamp_ntz",
    DEBEZIUM + "time.MicroTimestamp": "timestamp_ntz",
    DEBEZIUM + "time.NanoTimestamp": "timestamp_ntz",
    DEBEZIUM + "time.IsoTimestamp": "timestamp_ntz",
    CONNECT + "Timestamp": "timestamp_ntz",
    DEBEZIUM + "time.ZonedTimestamp": "timestamp",
}

#: MySQL's unsigned integers of eight bytes, which the connector sends as signed ones unless it is told otherwise. Only
#: `column.propagate.source.type` tells that a column is one.
UNSIGNED_DDL = "decimal(20,0)"

#: Decimals: unscaled bytes, the scale in the schema.
DECIMALS = (CONNECT + "Decimal", "decimal")


def column_type(wire: WireType) -> str:
    """The Spark DDL type of the column that a wire type becomes.

    Raises:
        WireSchemaInvalid: the type has no table form.
    """
    if wire.literal == "declared":
        return wire.parameters["ddl"]
    if wire.name in DECIMALS:
        return decimal_ddl(*decimal_type(wire))
    if wire.name in NAMED:
        return NAMED[wire.name]
    plain = UNSIGNED_DDL if is_unsigned(wire) else LITERALS.get(wire.literal)
    if plain is not None:
        return plain
    if wire.literal in {"array", "map"} and wire.items is not None:
        item = column_type(wire.items)
        return f"array<{item}>" if wire.literal == "array" else f"map<string,{item}>"
    if wire.literal in {"record", "union"} and wire.fields:
        return "struct<" + ",".join(f"{quote(name)}:{column_type(kind)}" for name, kind in wire.fields) + ">"
    message = f"the wire type {wire.literal!r} has no table form"
    raise WireSchemaInvalid(message)


def is_unsigned(wire: WireType) -> bool:
    """Whether a signed integer on the wire stands for an unsigned one."""
    told = wire.parameters.get("__debezium.source.column.type", "")
    return wire.literal == "long" and not wire.name and told.upper().startswith("BIGINT UNSIGNED")


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
    precision = decimal_number(told) if told else DECIMAL_DIGITS_MAX
    return max(precision if 0 < precision <= DECIMAL_DIGITS_MAX else DECIMAL_DIGITS_MAX, scale), scale


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
