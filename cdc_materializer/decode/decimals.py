"""Decimals: unscaled bytes to exact columns (changelog-semantics §3)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

from cdc_materializer.decode.columns import (
    BESIDE,
    LONG_DIGITS,
    decimal_ddl,
    decimal_number,
    decimal_type,
    variable_scale_ddl,
)
from cdc_materializer.decode.reading import Reading, Settings
from cdc_materializer.decode.wire import WireType
from cdc_materializer.schema.types import DECIMAL_DIGITS_MAX, decimal_of

#: The bytes of as many digits as Spark keeps in a long, and those of 38 digits.
_LONG_BYTES = 8
_BYTES_MAX = 17
#: Decimal digits that every double keeps.
DOUBLE_DIGITS = 15
#: A number of Java's has an exponent if so many zeros follow its point.
_ZEROS = 6
#: The zeros that a whole number ends with before its exponent; each run of them is tried from its first alone. Those
#: behind a point are none of them: 1.00e-2 has two digits behind its point.
_ZEROS_LAST = r"(?<![0.])(0++)(\.0*+)?[eE]"
#: The scales of values that are plausible (Oracle's NUMBER ends at 10^-130): others would only fill memory with zeros.
VARIABLE_SCALE_MAX = 1000


def unscaled_decimal(octets: Column, precision: int, scale: int) -> Column:
    """A decimal from the two's complement bytes of its unscaled value; NULL where that has more digits than allowed.

    Spark has no such function, but its Avro reader has: an Avro `bytes` value is its length as a zigzag varint (one
    byte below 64, and 38 digits need 16) and the bytes themselves.
    """
    # Spark takes up to 18 digits for a long, and of more bytes than that has the last ones.
    bytes_max = _LONG_BYTES if precision <= LONG_DIGITS else _BYTES_MAX
    octets = F.when(F.length(octets) > bytes_max, shortest(octets)).otherwise(octets)
    length = F.unhex(F.lpad(F.hex(F.length(octets) * 2), 2, "0"))
    framed = F.when(F.length(octets).between(1, bytes_max), F.concat(length, octets))
    return from_avro(framed, _avro_decimal(precision, scale), {"mode": "PERMISSIVE"})


def octets_of_number(given: Column, wire: WireType) -> Column:
    """The two's complement bytes of the unscaled value of a number in JSON, as a decimal's own type has them.

    No bytes at all, which are those of no number, for one that the decimal does not hold digit by digit.

    Args:
        given: a variant.
        wire: the decimal's type.
    """
    precision, scale = decimal_type(wire)
    whole = scale < 0
    number = declared_decimal(f"decimal({DECIMAL_DIGITS_MAX},0)" if whole else f"decimal({precision},{scale})")
    found = number.apply(given)
    if whole:
        # It counts units of a power of ten.
        precision, scale, zeros = DECIMAL_DIGITS_MAX, 0, "0" * -scale
        text = found.cast("string")
        units = F.when(text == "0", text).when(text.endswith(zeros), F.regexp_replace(text, f"{zeros}$", ""))
        found = units.cast(f"decimal({precision},0)")
    # The inverse of `unscaled_decimal`: behind a length of one byte.
    written = to_avro(found, _avro_decimal(precision, scale))
    octets = F.substring(written, 2, _BYTES_MAX)
    return F.when(F.try_variant_get(given, "$", "string").isNotNull(), F.coalesce(octets, F.lit(b"")))


def is_no_number(given: Column) -> Column:
    """Whether a variant is anything but a number, or NULL."""
    kind = F.schema_of_variant(given)
    return F.coalesce(~(kind.isin("BIGINT", "DOUBLE", "VOID") | kind.startswith("DECIMAL")), F.lit(False))


def _avro_decimal(precision: int, scale: int) -> str:
    return f'{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}'


def decimal(settings: Settings, wire: WireType) -> Reading:
    """Connect's Decimal, exactly; a negative scale becomes whole numbers, more than 38 digits are out of range."""
    precision, scale = decimal_type(wire)
    ddl = decimal_ddl(precision, scale)
    if settings.form == "avro" and avro_decimal_is_exact(wire):
        return _of_avro(ddl, scale)

    def of_bytes(octets: Column) -> Column:
        if 0 <= scale <= precision:
            return unscaled_decimal(octets, precision, scale)
        # NUMBER(p,-s): the unscaled value counts units of 10^s. Avro and Iceberg know no negative scale.
        factor = F.lit(10 ** max(-scale, 0)).cast(f"decimal({DECIMAL_DIGITS_MAX},0)")
        return F.try_multiply(unscaled_decimal(octets, DECIMAL_DIGITS_MAX, 0), factor).try_cast(ddl)

    return Reading(ddl, "binary", value=of_bytes, invalid=lambda octets: octets.isNotNull() & of_bytes(octets).isNull())


def _of_avro(ddl: str, scale: int) -> Reading:
    """A decimal as Spark's Avro reader gives it, of 38 digits (`writers`): one that does not fit is out of range.

    Read in its own type, it would end its message; of up to 18 digits Spark reads eight bytes and leaves the others,
    so that a longer number becomes one that was never sent.
    """
    return Reading(
        ddl,
        decimal_ddl(DECIMAL_DIGITS_MAX, scale),
        value=lambda given: given.try_cast(ddl),
        invalid=lambda given: given.isNotNull() & given.try_cast(ddl).isNull(),
    )


def shortest(octets: Column) -> Column:
    """A number's bytes without those before it that only repeat its sign; a `fixed` is filled up with them."""
    positive = F.regexp_replace(F.hex(octets), "^(00)+(?=[0-7][0-9A-F])", "")
    return F.unhex(F.regexp_replace(positive, "^(FF)+(?=[89A-F][0-9A-F])", ""))


def avro_decimal_is_exact(wire: WireType) -> bool:
    """Whether it is Spark's Avro reader that makes a decimal of bytes: it goes by the logical type.

    Of less than the 38 digits that it reads: of one with more it says nothing, and gives up the message.
    """
    precision = decimal_number(wire.parameters.get("precision", "0"))
    scale = decimal_number(wire.parameters.get("scale", "0"))
    is_decimal = wire.literal == "bytes" and wire.logical == "decimal"
    return is_decimal and precision > 0 and 0 <= scale <= precision < DECIMAL_DIGITS_MAX


def declared_decimal(ddl: str) -> Reading:
    """A decimal of JSON without a schema, a number or a text there, in the type that a contract declares: exactly.

    Read as a variant, which alone keeps a number's digits: Spark's JSON reader rounds to a decimal's scale, drops the
    commas of a text, and makes a text of a number by way of a double.
    """

    def text(given: Column) -> Column:
        return F.try_variant_get(given, "$", "string")

    return Reading(
        ddl,
        "variant",
        value=lambda given: F.when(_is_exact(given, ddl), text(given).try_cast(ddl)),
        invalid=lambda given: text(given).isNotNull() & ~_is_exact(given, ddl),
    )


def _is_exact(given: Column, ddl: str) -> Column:
    """Whether a variant is a number, or the text of one, that a decimal type holds without rounding."""
    _, scale = decimal_of(ddl) or (DECIMAL_DIGITS_MAX, 0)
    text = F.try_variant_get(given, "$", "string")
    # With an exponent, or more than 38 digits, a variant has a double. It still is what was sent if that was short, as
    # Java's numbers with an exponent are: they have their column's scale, and six zeros before the first digit.
    is_short = F.length(F.regexp_replace(text, "[eE].*|\\D", "")) <= DOUBLE_DIGITS
    is_small = F.lit(scale <= DOUBLE_DIGITS + _ZEROS) | (text.try_cast("double") == 0)
    is_told = (F.schema_of_variant(given) != "DOUBLE") | (is_short & is_small)
    return F.coalesce(is_told & fits(text, ddl), F.lit(False))


def fits(text: Column, ddl: str) -> Column:
    """Whether a decimal type holds the number that a text is, all of its digits; a cast would round."""
    _, scale = decimal_of(ddl) or (DECIMAL_DIGITS_MAX, 0)
    fraction = F.rtrim(F.regexp_extract(text, "\\.(\\d*)", 1), F.lit("0"))
    # Asked first: most numbers have none, and a cast of no text at all costs an exception in Java.
    fits_moved = _digits_behind_point(text, fraction) <= scale
    is_exact = F.when(text.rlike("[eE]"), fits_moved).otherwise(F.length(fraction) <= scale)
    return text.try_cast(ddl).isNotNull() & is_exact


def _digits_behind_point(text: Column, fraction: Column) -> Column:
    """How many digits a number has behind its point, of a text with an exponent."""
    exponent = F.coalesce(F.regexp_extract(text, "[eE]([+-]?\\d+)$", 1).try_cast("int"), F.lit(0))
    # 0E-8 is 0 and 10e-1 is 1: an exponent moves the point through zeros too, and a zero has no digits at all.
    zeros = F.when(fraction == "", F.length(F.regexp_extract(text, _ZEROS_LAST, 1)))
    digits = F.length(fraction) - F.coalesce(zeros, F.lit(0)) - exponent.cast("bigint")
    return F.when(~text.rlike("^[+-]?[0.]+[eE]"), digits).otherwise(F.lit(0))


def variable_scale(_: Settings, wire: WireType) -> Reading:
    """Debezium's VariableScaleDecimal, each value with a scale of its own: plain digits as text.

    Without zeros at the end, because 1.0 and 1.00 are one number to the database, and one key (changelog-semantics
    §2.2). Where a contract declares a decimal, or the column is one (`columns.with_open`), it is that: exactly, or out
    of range, or beside its column.
    """
    ddl, has_beside = variable_scale_ddl(wire), BESIDE in wire.parameters

    def value(struct: Column) -> Column:
        return plain_digits(struct) if ddl == "string" else scaled_decimal(struct, ddl)

    has_place = plain_digits if has_beside else value
    return Reading(
        ddl,
        "struct<scale:int,value:binary>",
        value=value,
        invalid=lambda struct: struct.isNotNull() & struct["value"].isNotNull() & has_place(struct).isNull(),
        spare=(lambda struct: F.when(value(struct).isNull(), plain_digits(struct))) if has_beside else None,
    )


def scaled_decimal(struct: Column, ddl: str) -> Column:
    """The decimal of a struct of scale and value; NULL where the type does not hold all of its digits."""
    _, scale_max = decimal_of(ddl) or (DECIMAL_DIGITS_MAX, 0)
    # Not by `plain_digits` and `fits`, which say what they are given ten times each: all of that Spark would compile.
    unscaled, scale = _unscaled(struct), _scale(struct)
    behind_point = scale - F.length(F.regexp_extract(unscaled, "0*$", 0))
    is_exact = (unscaled == "0") | (behind_point <= scale_max)
    return F.when(is_exact, F.concat(unscaled, F.lit("E"), -scale).try_cast(ddl))


def _unscaled(struct: Column) -> Column:
    return unscaled_decimal(struct["value"], DECIMAL_DIGITS_MAX, 0).cast("string")


def _scale(struct: Column) -> Column:
    return F.when(F.abs(struct["scale"].cast("bigint")) <= VARIABLE_SCALE_MAX, struct["scale"])


def plain_digits(struct: Column) -> Column:
    """The digits of a struct of scale and value, without zeros at the end; NULL for a scale that is no column's."""
    unscaled, scale = _unscaled(struct), _scale(struct)
    digits = F.regexp_replace(unscaled, "^-", "")
    sign = F.when(unscaled.startswith("-"), "-").otherwise("")
    # What is said twice here Spark plans and compiles twice, with all that it is made of.
    length = F.greatest(F.length(digits), scale + 1)
    padded = F.lpad(digits, length, F.lit("0"))
    whole, fraction = F.substring(padded, F.lit(1), length - scale), F.substring(padded, -scale, scale)
    zeros = F.when(digits == "0", "").otherwise(F.repeat(F.lit("0"), -scale))
    pointed = F.regexp_replace(F.concat(whole, F.lit("."), fraction), "\\.?0+$", "")
    plain = F.concat(sign, F.when(scale > 0, pointed).otherwise(F.concat(digits, zeros)))
    return F.when(struct.isNotNull(), plain)
