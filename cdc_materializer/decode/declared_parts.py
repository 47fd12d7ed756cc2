"""Texts and numbers of JSON without a schema, and what stands in arrays and structs there, by a contract's types.

Read as variants, which alone tell a number from a text and keep its digits: Spark's JSON reader makes 1.23E39 of forty
digits in a text, and 1.24 of 1.239 in an array of decimals.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode.decimals import decimal, declared_decimal, plain_digits, scaled_decimal
from cdc_materializer.decode.reading import Convert, Reading, Settings
from cdc_materializer.decode.units import CONNECTS, UNSIGNED, VARIABLE
from cdc_materializer.decode.untyped import plain_text, text_of, untyped
from cdc_materializer.decode.wire import BASE64, BYTES, WireType
from cdc_materializer.schema.types import entry_of, fields_of, item_of

#: How a variant describes Debezium's VariableScaleDecimal, its bytes in Base64.
_VARIABLE_SCALE = "OBJECT<scale: BIGINT, value: STRING>"
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\\z"
#: An unsigned integer of eight bytes that is sent as a signed one is so much less.
_WRAPPED = Decimal(2**64)
_NEGATIVE, _NEGATIVE_INTEGER = r"^-[0.]*[1-9]", r"^-\d+\z"


def declared_text(settings: Settings, wire: WireType) -> Reading:
    """A text, and a number as its digits; of a number with a scale of its own, where the contract declares such."""
    plain = plain_text()

    def unavailable(given: Column) -> Column:
        return settings.text_is_placeholder(text_of(given))

    if VARIABLE not in wire.parameters:
        return replace(plain, unavailable=unavailable)

    def value(given: Column) -> Column:
        is_plain = ~F.schema_of_variant(given).rlike("^(OBJECT|ARRAY)")
        return F.coalesce(_of_scaled(given, plain_digits), F.when(is_plain, plain.apply(given)))

    def invalid(given: Column) -> Column:
        return text_of(given).isNotNull() & value(given).isNull()

    return Reading("string", "variant", value, invalid=invalid, unavailable=unavailable)


def declared_octets(settings: Settings, wire: WireType) -> Reading:
    """Bytes, in the spelling that the contract says; Spark's JSON reader takes Base64 for them."""
    if wire.parameters.get(BYTES, BASE64) == BASE64:
        return Reading("binary", "binary", unavailable=settings.bytes_are_placeholder)
    return replace(untyped(settings, wire), unavailable=lambda given: settings.text_is_placeholder(text_of(given)))


def declared_number(settings: Settings, wire: WireType) -> Reading:
    """A decimal, exactly, as the declared type's parameters say that it comes."""
    if CONNECTS in wire.parameters:
        return _connect_number(settings, wire)
    return (_unsigned if UNSIGNED in wire.parameters else _number)(wire.parameters["ddl"])


def _number(ddl: str) -> Reading:
    """A decimal: a number, the text of one, or one with a scale of its own."""
    plain = declared_decimal(ddl)

    def value(given: Column) -> Column:
        return F.coalesce(plain.apply(given), _of_scaled(given, lambda struct: scaled_decimal(struct, ddl)))

    return Reading(ddl, "variant", value, invalid=lambda given: text_of(given).isNotNull() & value(given).isNull())


def _unsigned(ddl: str) -> Reading:
    """An unsigned integer of eight bytes, also as the negative one that a signed integer of its bytes is."""
    plain = _number(ddl)

    def value(given: Column) -> Column:
        text = text_of(given)
        signed = F.when(text.rlike(_NEGATIVE_INTEGER), text).try_cast("bigint")
        wrapped = (signed.cast(ddl) + F.lit(_WRAPPED)).cast(ddl)
        return F.when(text.rlike(_NEGATIVE), wrapped).otherwise(plain.apply(given))

    return Reading(ddl, "variant", value, invalid=lambda given: text_of(given).isNotNull() & value(given).isNull())


def _connect_number(settings: Settings, wire: WireType) -> Reading:
    """Connect's Decimal in JSON: a number by its digits, a text as its unscaled bytes in base64, and never as digits.

    Args:
        settings: of the reader.
        wire: the declared decimal, with Connect's scale and precision.
    """
    plain = declared_decimal(wire.parameters["ddl"])
    octets = decimal(settings, replace(wire, literal="bytes"))

    def value(given: Column) -> Column:
        is_text = F.schema_of_variant(given) == "STRING"
        written = F.when(is_text, text_of(given))
        sent = F.unbase64(F.when(written.rlike(_BASE64), written))
        return F.when(is_text, octets.apply(sent)).otherwise(plain.apply(given))

    return Reading(
        plain.ddl, "variant", value, invalid=lambda given: text_of(given).isNotNull() & value(given).isNull()
    )


def _of_scaled(given: Column, made: Convert) -> Column:
    """What is made of a number with a scale of its own, a struct of scale and value; NULL for anything else."""
    written = F.try_variant_get(given, "$.value", "string")
    octets = F.unbase64(F.when(written.rlike(_BASE64), written))
    struct = F.struct(F.try_variant_get(given, "$.scale", "int").alias("scale"), octets.alias("value"))
    # As a variable, because it is named six times: a decimal's plan is a quarter as long, and few come like that.
    found = F.get(F.transform(F.array(struct), made), F.lit(0))
    return F.when(F.schema_of_variant(given) == _VARIABLE_SCALE, found)


def parts_of(ddl: str) -> WireType | None:
    """An array, a map or a struct as a type whose parts are declared in turn; None for what has no parts."""
    item, entry, fields = item_of(ddl), entry_of(ddl), fields_of(ddl)
    if item is not None:
        return WireType("array", optional=True, items=_part(item))
    if fields is not None:
        return WireType("record", optional=True, fields=tuple((name, _part(part)) for name, part in fields.items()))
    return WireType("map", optional=True, items=_part(entry[1])) if entry is not None else None


def _part(ddl: str) -> WireType:
    return WireType("declared", optional=True, parameters={"ddl": ddl})


def with_keys(read: Reading, key: str) -> Reading:
    """A map whose keys are of another type than text: JSON writes all of them as texts."""

    def is_none(given: Column) -> Column:
        return F.coalesce(
            F.exists(F.map_keys(given), lambda one: ~one.try_cast(key).cast("string").eqNullSafe(one)), F.lit(False)
        )

    def value(given: Column) -> Column:
        # Only of those that are keys of the type: two that become one would stop Spark.
        return F.when(~is_none(given), F.transform_keys(read.apply(given), lambda one, _: one.try_cast(key)))

    def invalid(given: Column) -> Column:
        return is_none(given) | (read.invalid(given) if read.invalid else F.lit(False))

    _, item = entry_of(read.ddl) or ("", "")
    return replace(read, ddl=f"map<{key},{item}>", value=value, invalid=invalid)
