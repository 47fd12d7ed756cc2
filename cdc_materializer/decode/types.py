"""What a wire value means as a column: the type table of changelog-semantics §3.

Every row of that table is one function here, from a `WireType` to a `Reading`. A reading says which column type the
value gets, how it is computed from what Spark's Avro or JSON reader delivers, and when that cannot be done exactly.
"""

from __future__ import annotations

import operator
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode import declared_parts, declared_times, structured, times
from cdc_materializer.decode.columns import (
    CONNECT,
    CUT,
    DEBEZIUM,
    LITERALS,
    UNSIGNED_DDL,
    UNTOLD_SIGN,
    is_unsigned,
    meaning,
    struct_of,
    wider_number,
)
from cdc_materializer.decode.contract_readings import contract_reading
from cdc_materializer.decode.decimals import decimal, variable_scale
from cdc_materializer.decode.pairs import wire_value
from cdc_materializer.decode.reading import Convert, Reading, Settings
from cdc_materializer.decode.units import FLAG, NUMBER, UNIT
from cdc_materializer.decode.untyped import number, text_of, untyped
from cdc_materializer.decode.wire import PAIR, UNTYPED, WireSchemaInvalid, WireType
from cdc_materializer.schema.types import decimal_of, entry_of

_LENGTH = re.compile("[0-9]{1,9}")
_UUID_BYTES = 16
_SIGNED_MAX = 127
#: Where the groups of a UUID's digits begin, and how many each has.
_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


@dataclass(frozen=True)
class Reader(Settings):
    """Readings for one encoding and one set of table settings."""

    def read(self, wire: WireType) -> Reading:
        """The reading of a wire type.

        Raises:
            WireSchemaInvalid: the type has no table form.
        """
        if wire.literal == UNTYPED:
            return untyped(self, wire)
        if wire.contract is not None:
            return contract_reading(self, wire, wire.contract)
        named = _declared if wire.literal == "declared" else _NAMED.get(meaning(wire))
        if named is not None:
            return named(self, wire)
        if wire.literal in LITERALS:
            return _literal(self, wire)
        made_of = _PARTS.get(wire.literal)
        if made_of is not None:
            return made_of(self, wire)
        message = f"the wire type {wire.literal!r} has no table form"
        raise WireSchemaInvalid(message)

    def read_key(self, wire: WireType) -> Reading:
        """The reading of a part of a key: a value that another one may become too, cut or clamped, is none.

        Raises:
            WireSchemaInvalid: the type has no table form.
        """
        found = self.read(wire)
        clamped = found.special if self.special_values == "clamp" else None
        tests = [test for test in (found.finer, clamped, found.invalid) if test is not None]
        if found.finer is None and clamped is None:
            return found

        def invalid(column: Column) -> Column:
            return reduce(operator.or_, [F.coalesce(test(column), F.lit(False)) for test in tests])

        return replace(found, value=lambda column: F.when(~invalid(column), found.apply(column)), invalid=invalid)


def _literal(reader: Reader, wire: WireType) -> Reading:
    if is_unsigned(wire):
        if UNTOLD_SIGN in wire.parameters:
            plain = UNSIGNED_DDL
            return Reading(
                plain, "bigint", lambda count: F.when(count >= 0, count).cast(plain), invalid=lambda count: count < 0
            )
        return Reading(UNSIGNED_DDL, "bigint", value=_unsigned)
    if NUMBER in wire.parameters:
        return number()
    ddl = LITERALS[wire.literal]
    if ddl == "string":
        return _text(reader, wire)
    if ddl == "binary":
        return Reading(ddl, ddl, unavailable=lambda octets: reader.bytes_are_placeholder(octets, _cut(wire)))
    return Reading(ddl, ddl)


def _unsigned(signed: Column) -> Column:
    whole = signed.cast(UNSIGNED_DDL)
    return F.when(signed < 0, (whole + F.lit(Decimal(2**64))).cast(UNSIGNED_DDL)).otherwise(whole)


def _text(reader: Reader, wire: WireType) -> Reading:
    return Reading("string", "string", unavailable=lambda text: reader.text_is_placeholder(text, _cut(wire)))


def _cut(wire: WireType) -> int:
    found = _LENGTH.fullmatch(wire.parameters.get(CUT, ""))
    return int(found[0]) if found else 0


def _uuid(_: Reader, __: WireType) -> Reading:
    """Avro's uuid as the sixteen bytes that it is: as the text that others write."""

    def value(octets: Column) -> Column:
        parts = [F.substring(F.lower(F.hex(octets)), begin, size) for begin, size in _UUID_PARTS]
        return F.when(F.length(octets) == _UUID_BYTES, F.concat_ws("-", *parts))

    return Reading("string", "binary", value, invalid=lambda octets: octets.isNotNull() & value(octets).isNull())


# --- arrays, maps, structs
# ----------------------------------------------------------------------------------------------


def _array(reader: Reader, wire: WireType) -> Reading:
    if wire.items is None:
        message = "an array without an element type"
        raise WireSchemaInvalid(message)
    item = reader.read(wire.items)
    if wire.items.name == PAIR and reader.form == "json":
        return _pairs(reader, wire.items, item)
    value = item.value
    return Reading(
        f"array<{item.ddl}>",
        f"array<{item.wire}>",
        value=(lambda column: F.transform(column, value)) if value else None,
        special=_any(item.special),
        invalid=_any(item.invalid),
        unavailable=_array_placeholder(reader, wire.items, item),
        foreign=_any(item.foreign),
    )


def _pairs(reader: Reader, pair: WireType, item: Reading) -> Reading:
    """A map whose keys are no texts, which JSON writes as an array of arrays of two.

    Each pair is made the entry that Avro has in its place, and read as that is.
    """
    parts = [(name, kind, reader.read(kind).wire) for name, kind in pair.fields]

    def told(two: Column) -> list[tuple[Column, Column]]:
        # There may be fewer than two, and `two[1]` would stop Spark.
        given = [F.get(two, F.lit(at)) for at in range(len(parts))]
        return [(one, wire_value(one, kind, wire)) for one, (_, kind, wire) in zip(given, parts, strict=True)]

    def entry(two: Column) -> Column:
        return F.struct(*[read.alias(name) for (_, read), (name, _, _) in zip(told(two), parts, strict=True)])

    def is_none(two: Column) -> Column:
        lost = [text_of(given).isNotNull() & read.isNull() for given, read in told(two)]
        return (F.coalesce(F.size(two), F.lit(0)) != len(parts)) | reduce(operator.or_, lost)

    def of_entry(test: Convert | None) -> Convert | None:
        return (lambda two: F.coalesce(test(entry(two)), F.lit(False))) if test is not None else None

    tests = [test for test in (is_none, of_entry(item.invalid)) if test is not None]
    return Reading(
        f"array<{item.ddl}>",
        "array<array<variant>>",
        value=lambda column: F.transform(column, lambda two: item.apply(entry(two))),
        special=_any(of_entry(item.special)),
        invalid=_any(lambda two: reduce(operator.or_, [test(two) for test in tests])),
        foreign=_any(of_entry(item.foreign)),
    )


def _any(test: Convert | None) -> Convert | None:
    if test is None:
        return None
    return lambda column: F.coalesce(F.exists(column, lambda item: F.coalesce(test(item), F.lit(False))), F.lit(False))


def _array_placeholder(reader: Reader, wire: WireType, item: Reading) -> Convert | None:
    # Java's UUID.nameUUIDFromBytes: version 3 without a name space.
    named = [str(uuid.UUID(bytes=_md5(octets), version=3)) for octets in reader.octets()]
    if wire.name == DEBEZIUM + "data.Uuid":
        return _is_any([[one] for one in named], "string")
    declared = wire.parameters["ddl"] if wire.literal == "declared" else ""
    if item.wire in {"int", "bigint"} or declared == "date":
        # Java's bytes have signs, and each becomes a number as it is.
        signed = [[octet - 256 if octet > _SIGNED_MAX else octet for octet in octets] for octets in reader.octets()]
        return _is_any(signed, item.wire)
    placeholders = _any(item.unavailable)
    if placeholders is not None and declared == "string":
        # A contract does not tell UUIDs from other texts.
        return lambda column: placeholders(column) | _is_one_of(column, named)
    return placeholders


def _is_any(known: Sequence[Sequence[str] | Sequence[int]], ddl: str) -> Convert:
    """Whether an array of some type is one of some arrays."""

    def found(column: Column) -> Column:
        arrays = [F.array(*[F.lit(item).cast(ddl) for item in one]) for one in known]
        return reduce(operator.or_, [column == one for one in arrays])

    return found


def _is_one_of(texts: Column, known: Sequence[str]) -> Column:
    """Whether an array of variants has one of some texts and nothing else."""
    return F.coalesce((F.size(texts) == 1) & text_of(F.get(texts, F.lit(0))).isin(*known), F.lit(False))


def _md5(octets: bytes) -> bytes:
    import hashlib

    return hashlib.md5(octets, usedforsecurity=False).digest()


def _map(reader: Reader, wire: WireType) -> Reading:
    if wire.items is None:
        message = "a map without a value type"
        raise WireSchemaInvalid(message)
    item = reader.read(wire.items)
    convert = item.value
    return Reading(
        f"map<string,{item.ddl}>",
        f"map<string,{item.wire}>",
        value=(lambda column: F.transform_values(column, lambda _, value: convert(value))) if convert else None,
        special=_of_values(_any(item.special)),
        invalid=_of_values(_any(item.invalid)),
        foreign=_of_values(_any(item.foreign)),
        unavailable=lambda column: reduce(operator.or_, [F.map_contains_key(column, one) for one in reader.texts()]),
    )


def _of_values(test: Convert | None) -> Convert | None:
    return (lambda column: test(F.map_values(column))) if test else None


def _record(reader: Reader, wire: WireType) -> Reading:
    if not wire.fields:
        message = "a record without fields has no table form"
        raise WireSchemaInvalid(message)
    parts: Sequence[tuple[str, Reading]] = [(name, reader.read(kind)) for name, kind in wire.fields]
    ddl = struct_of((name, part.ddl) for name, part in parts)
    on_wire = struct_of((name, part.wire) for name, part in parts)
    special = _of_fields([(name, part.special) for name, part in parts])
    invalid = _of_fields([(name, part.invalid) for name, part in parts])
    foreign = _of_fields([(name, part.foreign) for name, part in parts])
    if all(part.value is None for _, part in parts):
        return Reading(ddl, on_wire, special=special, invalid=invalid, foreign=foreign)

    def value(struct: Column) -> Column:
        return F.when(struct.isNotNull(), F.struct(*[part.apply(struct[name]).alias(name) for name, part in parts]))

    return Reading(ddl, on_wire, value, special, invalid, foreign=foreign)


def _union(reader: Reader, wire: WireType) -> Reading:
    number = wider_number(wire)
    return Reading(number, number) if number is not None else _record(reader, wire)


def _of_fields(tests: Sequence[tuple[str, Convert | None]]) -> Convert | None:
    """Whether a test is true of any field of a struct."""
    known = [(name, test) for name, test in tests if test is not None]
    if not known:
        return None
    return lambda struct: reduce(operator.or_, [F.coalesce(test(struct[name]), F.lit(False)) for name, test in known])


# --- types that a contract declares, for JSON without a schema
# ---------------------------------------------------------


_DECLARED_TIMES: dict[str, Callable[[Settings, WireType], Reading]] = {
    "date": declared_times.declared_date,
    "timestamp": declared_times.declared_moment,
    "timestamp_ntz": declared_times.declared_moment,
    "bigint": declared_times.declared_clock,
}


_DECLARED_TEXTS: dict[str, Callable[[Settings, WireType], Reading]] = {
    "string": declared_parts.declared_text,
    "binary": declared_parts.declared_octets,
}


#: Types of which Spark's JSON reader takes less than there is: it rounds to 32 bits what the source may have in 64, and
#: MySQL's connector sends a boolean as 0 or 1 where it copies a table, and as a boolean where it follows the log.
_AS_VARIANTS = frozenset({"float", "boolean"})


def _declared(reader: Reader, wire: WireType) -> Reading:
    ddl = wire.parameters["ddl"]
    if (reading := _DECLARED_TIMES.get(ddl)) is not None and (ddl != "bigint" or UNIT in wire.parameters):
        return reading(reader, wire)
    parts = declared_parts.parts_of(ddl)
    if parts is not None:
        key, _ = entry_of(ddl) or ("string", "")
        return reader.read(parts) if key == "string" else declared_parts.with_keys(reader.read(parts), key)
    if decimal_of(ddl) is not None:
        return declared_parts.declared_number(reader, wire)
    if (made := _DECLARED_TEXTS.get(ddl)) is not None:
        return made(reader, wire)
    return untyped(reader, wire) if ddl in _AS_VARIANTS or FLAG in wire.parameters else Reading(ddl, ddl)


_PARTS: dict[str, Callable[[Reader, WireType], Reading]] = {
    "array": _array,
    "map": _map,
    "record": _record,
    "union": _union,
}

_NAMED: dict[str, Callable[[Reader, WireType], Reading]] = {
    CONNECT + "Decimal": decimal,
    "decimal": decimal,
    DEBEZIUM + "data.VariableScaleDecimal": variable_scale,
    DEBEZIUM + "time.Date": times.date,
    CONNECT + "Date": times.date,
    "date": times.date,
    DEBEZIUM + "time.Time": times.time(1000, "int"),
    CONNECT + "Time": times.time(1000, "int"),
    "time-millis": times.time(1000, "int"),
    DEBEZIUM + "time.MicroTime": times.time(1, "bigint"),
    "time-micros": times.time(1, "bigint"),
    DEBEZIUM + "time.NanoTime": times.time_nanos,
    DEBEZIUM + "time.IsoTime": times.time_text,
    DEBEZIUM + "time.MicroDuration": times.duration_double,
    DEBEZIUM + "time.NanoDuration": times.time_nanos,
    DEBEZIUM + "time.Timestamp": times.timestamp_millis,
    CONNECT + "Timestamp": times.moment_millis,
    DEBEZIUM + "time.MicroTimestamp": times.timestamp_micros,
    DEBEZIUM + "time.NanoTimestamp": times.timestamp_nanos,
    DEBEZIUM + "time.ZonedTimestamp": times.zoned("timestamp"),
    DEBEZIUM + "time.IsoTimestamp": times.zoned("timestamp_ntz"),
    DEBEZIUM + "time.IsoDate": times.zoned("date"),
    DEBEZIUM + "data.Json": _text,
    DEBEZIUM + "time.StructuredDate": structured.date,
    DEBEZIUM + "time.StructuredTime": structured.time,
    DEBEZIUM + "time.StructuredZonedTime": structured.zoned_time,
    DEBEZIUM + "time.StructuredTimestamp": structured.timestamp,
    DEBEZIUM + "time.StructuredZonedTimestamp": structured.zoned_timestamp,
    DEBEZIUM + "time.StructuredDuration": structured.duration,
    "timestamp-millis": times.moment_millis,
    "timestamp-micros": times.moment_micros,
    "timestamp-nanos": times.moment_nanos,
    "local-timestamp-millis": times.timestamp_millis,
    "local-timestamp-micros": times.timestamp_micros,
    "local-timestamp-nanos": times.timestamp_nanos,
    "uuid": _uuid,
}
