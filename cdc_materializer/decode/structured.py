"""Debezium's dates and times in parts (`time.precision.mode=structured`), which keep what no calendar has.

The parts are numbers: `year`, `month`, `day`, `hour`, `minute`, `second`, a fraction in `nanos` or `picoseconds`, and
`offsetSeconds`. MySQL's zero dates have zeros there, and infinities a word in `specialValue`. A column of a date holds
none of these: they are special, as those of the other forms are (changelog-semantics §3).
"""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode.columns import LITERALS, struct_of
from cdc_materializer.decode.reading import Convert, Reading, Settings
from cdc_materializer.decode.times import MICROS_MAX, MICROS_MIN
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType

_YEAR_MAX = 9999
_MONTHS = 12
_DAYS = 31
_HOURS = 24
#: The farthest from UTC in seconds that Java has a zone.
_OFFSET_MAX = 18 * 3600
#: How many of each field that tells a fraction of a second make one second.
_FRACTIONS = {"nanos": 10**9, "picoseconds": 10**12}
#: The ends of what columns hold: the first and the last moment.
_ENDS = {
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp_ntz": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
    "timestamp": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
}


def date(settings: Settings, wire: WireType) -> Reading:
    """A day."""
    return _of_calendar(settings, wire, "date", _day)


def timestamp(settings: Settings, wire: WireType) -> Reading:
    """A moment without a time zone, cut to microseconds."""
    return _of_calendar(
        settings, wire, "timestamp_ntz", lambda parts: F.timestamp_micros(_moment(parts, wire)).cast("timestamp_ntz")
    )


def zoned_timestamp(settings: Settings, wire: WireType) -> Reading:
    """A moment with its distance from UTC, as an instant."""

    def value(parts: Column) -> Column:
        micros = _moment(parts, wire) - parts["offsetSeconds"].cast("bigint") * 1_000_000
        return F.timestamp_micros(F.when(micros.between(MICROS_MIN, MICROS_MAX), micros))

    return _of_calendar(settings, wire, "timestamp", value)


def time(_: Settings, wire: WireType) -> Reading:
    """A time of day as microseconds; PostgreSQL has 24:00:00."""

    def value(parts: Column) -> Column:
        fraction = _fraction(parts, wire, 10**6)
        micros = _seconds(parts) * 1_000_000 + fraction
        return F.when(_is_clock(parts) & (fraction >= 0) & (micros <= _HOURS * 3_600_000_000), micros)

    return _reading("bigint", wire, value, 10**6)


def zoned_time(_: Settings, wire: WireType) -> Reading:
    """A time of day with its distance from UTC, as text: `11:51:30.123789+01:00`, with `Z` for none."""

    def value(parts: Column) -> Column:
        clock = F.concat_ws(":", *[_digits(parts[name], 2) for name in ("hour", "minute", "second")])
        nanos = _fraction(parts, wire, 10**9)
        fraction = F.regexp_replace(F.concat(F.lit("."), _digits(nanos, 9)), "\\.?0+$", "")
        offset = parts["offsetSeconds"].cast("bigint")
        far = F.abs(offset)
        sign = F.when(offset < 0, "-").otherwise("+")
        seconds = F.when(far % 60 == 0, "").otherwise(F.concat(F.lit(":"), _digits(far % 60, 2)))
        zone = F.concat(sign, _digits(_whole(far, 3600), 2), F.lit(":"), _digits(_whole(far, 60) % 60, 2), seconds)
        is_time = _is_clock(parts) & (nanos >= 0) & (far <= _OFFSET_MAX)
        return F.when(is_time, F.concat(clock, fraction, F.when(offset == 0, "Z").otherwise(zone)))

    return _reading("string", wire, value, 10**9)


def duration(_: Settings, wire: WireType) -> Reading:
    """A span of time as ISO 8601 text with all of its parts, as Debezium's Interval has it: `P1Y2M3DT4H5M6.78S`."""
    known = dict(wire.fields)

    def value(parts: Column) -> Column:
        told = {
            name: F.coalesce(parts[name].cast("bigint"), F.lit(0)).cast("string") if name in known else F.lit("0")
            for name in ("years", "months", "days", "hours", "minutes")
        }
        seconds = F.coalesce(parts["seconds"], F.lit(0)).cast("decimal(20,0)")
        # A trillionth of a second is the finest part.
        fraction = _fraction(parts, wire, 10**12).cast("decimal(13,0)") * F.lit(Decimal("1E-12"))
        text = F.regexp_replace((seconds + fraction).cast("decimal(33,12)").cast("string"), "\\.?0+$", "")
        years, months, days, hours, minutes = told.values()
        return F.concat(
            *(F.lit("P"), years, F.lit("Y"), months, F.lit("M"), days, F.lit("DT")),
            *(hours, F.lit("H"), minutes, F.lit("M"), text, F.lit("S")),
        )

    return _reading("string", wire, value)


def _of_calendar(settings: Settings, wire: WireType, ddl: str, read: Convert) -> Reading:
    """A reading of what has a day; of what is no day of a column under `special_values`."""
    word = "specialValue" if wire.get("specialValue") is not None else None

    def is_special(parts: Column) -> Column:
        # A zero stands for a part that is not known, and midnight at a day's end for none that a column could tell.
        found = ~parts["year"].between(1, _YEAR_MAX) | (parts["month"] == 0) | (parts["day"] == 0)
        if wire.get("hour") is not None:
            found = found | (parts["hour"] == _HOURS)
        return F.coalesce(found, F.lit(False)) | (parts[word].isNotNull() if word else F.lit(False))

    def value(parts: Column) -> Column:
        found = F.when(~is_special(parts), read(parts))
        if settings.special_values != "clamp":
            return found
        first, last = (F.lit(end).cast(ddl) for end in _ENDS[ddl])
        before, after = parts["year"] < 1, parts["year"] > _YEAR_MAX
        if word:
            before, after = before | (parts[word] == "NEGATIVE_INFINITY"), after | (parts[word] == "POSITIVE_INFINITY")
        return (
            F.when(F.coalesce(before, F.lit(False)), first).when(F.coalesce(after, F.lit(False)), last).otherwise(found)
        )

    def invalid(parts: Column) -> Column:
        return parts.isNotNull() & ~is_special(parts) & read(parts).isNull()

    def is_told_special(parts: Column) -> Column:
        return parts.isNotNull() & is_special(parts)

    return Reading(ddl, _on_wire(wire), value, is_told_special, invalid, finer=_is_finer(wire, 10**6))


def _reading(ddl: str, wire: WireType, read: Convert, unit: int = 10**12) -> Reading:
    """A reading of parts, whose fractions of a second are cut to a unit of which so many are one."""

    def value(parts: Column) -> Column:
        return F.when(parts.isNotNull(), read(parts))

    def invalid(parts: Column) -> Column:
        return parts.isNotNull() & value(parts).isNull()

    return Reading(ddl, _on_wire(wire), value, invalid=invalid, finer=_is_finer(wire, unit))


def _on_wire(wire: WireType) -> str:
    """The struct as it comes; its parts are plain.

    Raises:
        WireSchemaInvalid: one of them is not.
    """
    if any(kind.literal not in LITERALS for _, kind in wire.fields):
        message = "a date or time in parts has a part that is no number or text"
        raise WireSchemaInvalid(message)
    return struct_of((name, LITERALS[kind.literal]) for name, kind in wire.fields)


def _digits(number: Column, count: int) -> Column:
    """A number that is not negative, with zeros before it; one of more digits would be cut off."""
    return F.lpad(number.cast("string"), count, "0")


def _whole(number: Column, divisor: int) -> Column:
    return F.floor(number / divisor).cast("int")


def _day(parts: Column) -> Column:
    """The day, NULL where the parts are none; that a month has no 31st is the cast's to say."""
    is_day = parts["year"].between(1, _YEAR_MAX) & parts["month"].between(1, _MONTHS) & parts["day"].between(1, _DAYS)
    text = F.concat_ws("-", _digits(parts["year"], 4), _digits(parts["month"], 2), _digits(parts["day"], 2))
    return F.when(is_day, text).try_cast("date")


def _is_clock(parts: Column) -> Column:
    """Whether hours, minutes and seconds are those of a day."""
    known = parts["hour"].between(0, _HOURS) & parts["minute"].between(0, 59) & parts["second"].between(0, 59)
    return F.coalesce(known, F.lit(False))


def _seconds(parts: Column) -> Column:
    return (parts["hour"].cast("bigint") * 60 + parts["minute"]) * 60 + parts["second"]


def _fraction(parts: Column, wire: WireType, unit: int) -> Column:
    """The fraction of a second in units of which so many are one; zero where it is not told, NULL where it is none."""
    for name, own in _FRACTIONS.items():
        if wire.get(name) is not None:
            told = F.coalesce(parts[name].cast("bigint"), F.lit(0))
            inside = F.when(told.between(1 - own, own - 1), told)
            return inside * (unit // own) if unit >= own else F.floor(inside / (own // unit)).cast("bigint")
    return F.lit(0).cast("bigint")


def _is_finer(wire: WireType, unit: int) -> Convert | None:
    """Whether a fraction of a second has parts of a unit of which so many are one; None where it has none."""
    for name, own in _FRACTIONS.items():
        if wire.get(name) is not None and own > unit:
            return lambda parts: parts[name] % (own // unit) != 0
    return None


def _moment(parts: Column, wire: WireType) -> Column:
    """The moment that the parts are in UTC, as microseconds since 1970; NULL where they are none."""
    fraction = _fraction(parts, wire, 10**6)
    micros = F.unix_micros(_day(parts).cast("timestamp")) + _seconds(parts) * 1_000_000 + fraction
    return F.when(_is_clock(parts) & (fraction >= 0), micros)
