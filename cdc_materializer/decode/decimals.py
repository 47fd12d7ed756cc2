"""Decimals: unscaled bytes to exact columns (changelog-semantics §3)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from cdc_materializer.decode.reading import Reading, Settings
from cdc_materializer.decode.wire import WireType

#: The most digits that Iceberg's decimal holds.
DECIMAL_DIGITS_MAX = 38


def unscaled_decimal(octets: Column, precision: int, scale: int) -> Column:
    """A decimal from the two's complement bytes of its unscaled value; NULL where that has more digits than allowed.

    Spark has no such function, but its Avro reader has: an Avro `bytes` value is its length as a zigzag varint (one
    byte below 64, and 38 digits need 16) and the bytes themselves.
    """
    length = F.unhex(F.lpad(F.hex(F.length(octets) * 2), 2, "0"))
    schema = f'{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}'
    framed = F.when(F.length(octets).between(1, 17), F.concat(length, octets))
    return from_avro(framed, schema, {"mode": "PERMISSIVE"})


def decimal_type(wire: WireType) -> tuple[int, int]:
    """Precision and scale of a Connect Decimal; 38 digits where the writer does not say (Avro then writes 64)."""
    scale = int(wire.parameters.get("scale", "0"))
    told = wire.parameters.get("connect.decimal.precision") or wire.parameters.get("precision")
    precision = int(told) if told and int(told) <= DECIMAL_DIGITS_MAX else DECIMAL_DIGITS_MAX
    return precision, scale


def decimal(settings: Settings, wire: WireType) -> Reading:
    """Connect's Decimal, exactly; a negative scale becomes whole numbers, more than 38 digits are out of range."""
    precision, scale = decimal_type(wire)
    if not 0 <= scale <= precision:
        return _decimal_without_fraction(precision, scale)
    ddl = f"decimal({precision},{scale})"
    if settings.form == "avro" and avro_decimal_is_exact(wire):
        return Reading(ddl, ddl)
    return Reading(
        ddl,
        "binary",
        value=lambda octets: unscaled_decimal(octets, precision, scale),
        invalid=lambda octets: octets.isNotNull() & unscaled_decimal(octets, precision, scale).isNull(),
    )


def _decimal_without_fraction(precision: int, scale: int) -> Reading:
    # NUMBER(p,-s): the unscaled value counts units of 10^s. Avro and Iceberg know no negative scale.
    digits = min(precision - scale, DECIMAL_DIGITS_MAX)
    factor = F.lit(10 ** max(-scale, 0)).cast(f"decimal({DECIMAL_DIGITS_MAX},0)")

    def value(octets: Column) -> Column:
        unscaled = unscaled_decimal(octets, DECIMAL_DIGITS_MAX, 0)
        return F.try_multiply(unscaled, factor).try_cast(f"decimal({digits},0)")

    return Reading(
        f"decimal({digits},0)",
        "binary",
        value=value,
        invalid=lambda octets: octets.isNotNull() & value(octets).isNull(),
    )


def avro_decimal_is_exact(wire: WireType) -> bool:
    """Whether Spark's Avro reader can be trusted with a decimal: it stops on more than 38 digits."""
    told = wire.parameters.get("precision")
    scale = int(wire.parameters.get("scale", "0"))
    return told is not None and 0 <= scale <= int(told) <= DECIMAL_DIGITS_MAX


def variable_scale(_: Settings, __: WireType) -> Reading:
    """Debezium's VariableScaleDecimal, each value with a scale of its own: plain digits as text."""

    def value(struct: Column) -> Column:
        unscaled = unscaled_decimal(struct["value"], DECIMAL_DIGITS_MAX, 0).cast("string")
        scale = struct["scale"]
        digits = F.regexp_replace(unscaled, "^-", "")
        sign = F.when(unscaled.startswith("-"), "-").otherwise("")
        padded = F.lpad(digits, F.greatest(F.length(digits), scale + 1), F.lit("0"))
        whole = F.substring(padded, F.lit(1), F.length(padded) - scale)
        fraction = F.substring(padded, F.length(padded) - scale + 1, scale)
        zeros = F.when(digits == "0", "").otherwise(F.repeat(F.lit("0"), -scale))
        plain = F.when(scale > 0, F.concat(sign, whole, F.lit("."), fraction)).otherwise(F.concat(sign, digits, zeros))
        return F.when(struct.isNotNull(), plain)

    return Reading(
        "string",
        "struct<scale:int,value:binary>",
        value=value,
        invalid=lambda struct: struct.isNotNull() & struct["value"].isNotNull() & value(struct).isNull(),
    )
