"""Dates and times of JSON without a schema, in the types that a contract declares: texts, or counts of a known unit.

Debezium's `time.precision.mode` decides what a time is on the wire: its default counts in milliseconds, microseconds or
nanoseconds, by the precision of the database's type, `isostring` writes texts. A text says what it is; a number does
only where the contract says its unit (`units`). Otherwise it is foreign: by a wrong one it would be another time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode import times
from cdc_materializer.decode.reading import Convert, Reading, Settings
from cdc_materializer.decode.units import UNIT, TimeUnit
from cdc_materializer.decode.wire import WireType

_INTEGER = r"^-?\d+\z"
#: What a text of a date or moment begins with; Spark takes one of a clock alone for a time of today.
_DAY = r"[+-]?\d{4,}-\d{2}-\d{2}"
_DATED = rf"^({_DAY}|-?infinity\z)"
_CLOCK = r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r"(Z|[+-]\d{2}(:?\d{2}){0,2})"
#: What stands behind the day in the texts of a type. A day has no place for a time, and a moment without a zone none
#: for an offset: Spark's casts would leave them out.
_BEHIND_DAY: Mapping[str, str] = {
    "date": r"([T ]00:00(:00(\.0+)?)?)?Z?",
    "timestamp_ntz": rf"([T ]{_CLOCK})?Z?",
    "timestamp": rf"([T ]{_CLOCK} ?{_ZONE}?)?",
}
_LONG = (-(2**63), 2**63 - 1)
_INT = (-(2**31), 2**31 - 1)
#: What PostgreSQL's infinities are as microseconds, by its connector.
_INFINITIES = (-9_223_372_036_832_400_000, 9_223_372_036_825_200_000)

#: A count in microseconds.
_MICROS: Mapping[TimeUnit, Callable[[Column], Column]] = {
    TimeUnit.MILLISECONDS: lambda count: F.try_multiply(count, F.lit(1000)),
    TimeUnit.MICROSECONDS: lambda count: count,
    TimeUnit.NANOSECONDS: times.floor_thousandth,
}
#: The counts that stand for an infinity. All others that are outside of the years 1 to 9999 have another unit, sooner
#: than being meant, and no column takes them for none.
_SPECIAL: Mapping[TimeUnit, tuple[int, ...]] = {
    TimeUnit.MILLISECONDS: (*_LONG, *[-(-end // 1000) if end < 0 else end // 1000 for end in (*_LONG, *_INFINITIES)]),
    TimeUnit.MICROSECONDS: (*_LONG, *_INFINITIES),
    TimeUnit.NANOSECONDS: _LONG,
}


def unit_of(wire: WireType) -> TimeUnit:
    """The unit in which a declared time is counted."""
    return TimeUnit(wire.parameters.get(UNIT, TimeUnit.UNSETTLED))


def _is_count(text: Column) -> Column:
    return F.coalesce(text.rlike(_INTEGER), F.lit(False))


def _count(text: Column) -> Column:
    return F.when(_is_count(text), text).try_cast("bigint")


def declared_date(settings: Settings, wire: WireType) -> Reading:
    """A day: counted in days in every mode; what the connector cannot have sent as one is no day."""

    def is_special(count: Column) -> Column:
        return count.between(*_INT) & ~count.between(times.DAYS_MIN, times.DAYS_MAX)

    def made(count: Column) -> Column:
        return F.date_from_unix_date(count.cast("int"))

    bounds = (times.DAYS_MIN, times.DAYS_MAX)
    return _with_counts(settings, _texts("date")(settings, wire), bounds, made, is_special)


def declared_moment(settings: Settings, wire: WireType) -> Reading:
    """A moment with or without a zone, by the declared type."""
    ddl, unit = wire.parameters["ddl"], unit_of(wire)
    texts = _texts(ddl)(settings, wire)
    if unit is TimeUnit.UNSETTLED:
        return replace(_without_counts(settings, texts), finer=_finer(unit))

    def is_special(count: Column) -> Column:
        return count.isin(*sorted(set(_SPECIAL[unit])))

    def made(count: Column) -> Column:
        moment = F.timestamp_micros(_MICROS[unit](count))
        return moment.cast("timestamp_ntz") if ddl == "timestamp_ntz" else moment

    factor = {TimeUnit.MILLISECONDS: (1, 1000), TimeUnit.MICROSECONDS: (1, 1), TimeUnit.NANOSECONDS: (1000, 1)}[unit]
    low, high = ((end * factor[0]) // factor[1] for end in (times.MICROS_MIN, times.MICROS_MAX))
    # A long of nanoseconds ends before the years do, at its infinities: no count of them is the last moment.
    bounds, ends = (max(low, _LONG[0] + 1), min(high, _LONG[1] - 1)), times.Ends(ddl)
    counted = _with_counts(settings, texts, bounds, made, is_special, ends if unit is TimeUnit.NANOSECONDS else None)
    return replace(counted, finer=_finer(unit))


def declared_clock(settings: Settings, wire: WireType) -> Reading:
    """A time of day, as microseconds."""
    unit, texts = unit_of(wire), times.time_text(settings, wire)
    is_settled = unit is not TimeUnit.UNSETTLED

    def value(text: Column) -> Column:
        read = texts.apply(text)
        return F.when(_is_count(text), _MICROS[unit](_count(text))).otherwise(read) if is_settled else read

    def invalid(text: Column) -> Column:
        is_none = text.isNotNull() & ~settings.text_is_placeholder(text) & value(text).isNull()
        return is_none if is_settled else is_none & ~_is_count(text)

    foreign = None if is_settled else _is_count
    marks = settings.text_is_placeholder
    return Reading("bigint", "string", value, None, invalid, marks, foreign, finer=_finer(unit))


def _finer(unit: TimeUnit) -> Convert:
    """Whether a text, or a count of a unit, tells parts of a microsecond."""

    def test(text: Column) -> Column:
        found = times.has_fine_fraction(text)
        return found | _is(times.has_nanos(_count(text))) if unit is TimeUnit.NANOSECONDS else found

    return test


def _texts(ddl: str) -> times.Read:
    return times.zoned(ddl, _BEHIND_DAY[ddl])


def _is_other(text: Column, ddl: str) -> Column:
    """Whether a text is a date or moment of another kind than a type's, whether or not there is such a day."""
    return _is(text.rlike(_DATED) & ~text.rlike(rf"^({_DAY}{_BEHIND_DAY[ddl]}|-?infinity)\z"))


def _is(test: Column | None) -> Column:
    return F.lit(False) if test is None else F.coalesce(test, F.lit(False))


def _without_counts(settings: Settings, texts: Reading) -> Reading:
    def special(text: Column) -> Column:
        return _is(texts.special(text) if texts.special else None)

    def foreign(text: Column) -> Column:
        return _is_count(text) | _is_other(text, texts.ddl)

    def invalid(text: Column) -> Column:
        is_known = foreign(text) | special(text) | settings.text_is_placeholder(text)
        return text.isNotNull() & ~is_known & texts.apply(text).isNull()

    return Reading(texts.ddl, "string", texts.value, special, invalid, settings.text_is_placeholder, foreign)


def _with_counts(
    settings: Settings,
    texts: Reading,
    bounds: tuple[int, int],
    made: Callable[[Column], Column],
    is_infinite: Callable[[Column], Column],
    ends: times.Ends | None = None,
) -> Reading:
    """A reading of texts that takes counts too.

    Args:
        settings: the table's.
        texts: the reading of texts.
        bounds: the least and the largest count that stands for a moment.
        made: the moment of a count within them.
        is_infinite: whether a count is one that stands for no moment.
        ends: what stands for such a one under `special_values: clamp`; None where the bounds do.
    """
    plain = _without_counts(settings, texts)
    low, high = bounds

    def counted(text: Column) -> Column:
        count = _count(text)
        known = made(F.when(count.between(low, high), count))
        if settings.special_values != "clamp":
            return known
        first, last = (ends.first, ends.last) if ends is not None else (made(F.lit(low)), made(F.lit(high)))
        return F.when(is_infinite(count), F.when(count < 0, first).otherwise(last)).otherwise(known)

    def value(text: Column) -> Column:
        return F.when(_is_count(text), counted(text)).otherwise(plain.apply(text))

    def special(text: Column) -> Column:
        return _is(is_infinite(_count(text))) | _is(plain.special(text) if plain.special else None)

    def invalid(text: Column) -> Column:
        is_no_count = _is_count(text) & ~special(text) & value(text).isNull()
        return is_no_count | _is(plain.invalid(text) if plain.invalid else None)

    def foreign(text: Column) -> Column:
        return _is_other(text, texts.ddl)

    return Reading(texts.ddl, "string", value, special, invalid, settings.text_is_placeholder, foreign)
