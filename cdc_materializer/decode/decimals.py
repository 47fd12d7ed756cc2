"""Decimals: unscaled bytes to exact columns (changelog-semantics §3)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from cdc_materializer.decode.columns import decimal_ddl, decimal_number, decimal_type
from cdc_materializer.decode.reading import Reading, Settings
from cdc_materializer.decode.wire import WireType
from cdc_materializer.schema_types import DECIMAL_DIGITS_MAX, decimal_of

#: Decimal digits that every double keeps.
_DOUBLE_DIGITS = 15
#: The scales of values that are plausible (Oracle's NUMBER ends at 10^-130): others would only fill memory with zeros.
VARIABLE_SCALE_MAX = 1000


def unscaled_decimal(octets: Column, precision: int, scale: int) -> Column:
    """A decimal from the two's complement bytes of its unscaled value; NULL where that has more digits than allowed.

    Spark has no such function, but its Avro reader has: an Avro `bytes` value is its length as a zigzag varint (one
    byte below 64, and 38 digits need 16) and the bytes themselves.
    """
    length = F.unhex(F.lpad(F.hex(F.length(octets) * 2), 2, "0"))
    schema = f'{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}'
    framed = F.when(F.length(octets).between(1, 17), F.concat(length, octets))
    return from_avro(framed, schema, {"mode": "PERMISSIVE"})


def decimal(settings: Settings, wire: WireType) -> Reading:
    """Connect's Decimal, exactly; a negative scale becomes whole numbers, more than 38 digits are out of range."""
    precision, scale = decimal_type(wire)
    if not 0 <= scale <= precision:
        return _decimal_without_fraction(precision, scale)
    ddl = decimal_ddl(precision, scale)
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
    ddl = decimal_ddl(precision, scale)

    def value(octets: Column) -> Column:
        unscaled = unscaled_decimal(octets, DECIMAL_DIGITS_MAX, 0)
        factor = F.lit(10 ** max(-scale, 0)).cast(f"decimal({DECIMAL_DIGITS_MAX},0)")
        return F.try_multiply(unscaled, factor).try_cast(ddl)

    return Reading(
        ddl,
        "binary",
        value=value,
        invalid=lambda octets: octets.isNotNull() & value(octets).isNull(),
    )


def avro_decimal_is_exact(wire: WireType) -> bool:
    """Whether Spark's Avro reader can be trusted with a decimal: it stops on more than 38 digits."""
    precision = decimal_number(wire.parameters.get("precision", "0"))
    scale = decimal_number(wire.parameters.get("scale", "0"))
    return precision > 0 and 0 <= scale <= precision <= DECIMAL_DIGITS_MAX


def declared_decimal(ddl: str) -> Reading:
    """A decimal of JSON without a schema, a number or a text there, in the type that a contract declares: exactly.

    Read as a variant, which alone keeps a number's digits: Spark's JSON reader rounds to a decimal's scale, drops the
    commas of a text, and makes a text of a number by way of a double.
    """
    precision, scale = decimal_of(ddl) or (DECIMAL_DIGITS_MAX, 0)
    finest = f"decimal({DECIMAL_DIGITS_MAX},{DECIMAL_DIGITS_MAX - (precision - scale)})"

    def text(given: Column) -> Column:
        return F.try_variant_get(given, "$", "string")

    def exact(given: Column) -> Column:
        # With an exponent, or more than 38 digits, a variant has a double; it still is what was sent if it is short.
        digits = F.length(F.regexp_replace(text(given), "[eE].*|\\D", ""))
        is_told = (F.schema_of_variant(given) != "DOUBLE") | (digits <= _DOUBLE_DIGITS)
        fits = text(given).try_cast(ddl) == text(given).try_cast(finest)
        return F.coalesce(is_told & fits, F.lit(False))

    return Reading(
        ddl,
        "variant",
        value=lambda given: F.when(exact(given), text(given).try_cast(ddl)),
        invalid=lambda given: text(given).isNotNull() & ~exact(given),
    )


def variable_scale(_: Settings, __: WireType) -> Reading:
    """Debezium's VariableScaleDecimal, each value with a scale of its own: plain digits as text.

    Without zeros at the end, because 1.0 and 1.00 are one number to the database, and one key (changelog-semantics
    §2.2).
    """

    def value(struct: Column) -> Column:
        unscaled = unscaled_decimal(struct["value"], DECIMAL_DIGITS_MAX, 0).cast("string")
        scale = F.when(F.abs(struct["scale"].cast("bigint")) <= VARIABLE_SCALE_MAX, struct["scale"])
        digits = F.regexp_replace(unscaled, "^-", "")
        sign = F.when(unscaled.startswith("-"), "-").otherwise("")
        padded = F.lpad(digits, F.greatest(F.length(digits), scale + 1), F.lit("0"))
        whole = F.substring(padded, F.lit(1), F.length(padded) - scale)
        fraction = F.substring(padded, F.length(padded) - scale + 1, scale)
        zeros = F.when(digits == "0", "").otherwise(F.repeat(F.lit("0"), -scale))
        pointed = F.regexp_replace(F.concat(sign, whole, F.lit("."), fraction), "\\.?0+$", "")
        plain = F.when(scale > 0, pointed).otherwise(F.concat(sign, digits, zeros))
        return F.when(struct.isNotNull(), plain)

    return Reading(
        "string",
        "struct<scale:int,value:binary>",
        value=value,
        invalid=lambda struct: struct.isNotNull() & struct["value"].isNotNull() & value(struct).isNull(),
    )
