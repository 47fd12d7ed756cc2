"""Dates and times: counts and texts to columns, without a time zone's help (changelog-semantics §3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode.columns import moment_ddl
from cdc_materializer.decode.reading import LONG_END, Convert, Reading, Settings
from cdc_materializer.decode.wire import WireType

Read = Callable[[Settings, WireType], Reading]

#: Days and microseconds since 1970-01-01 of 0001-01-01 and of the end of 9999-12-31 (proleptic Gregorian, as Iceberg
#: counts).
DAYS_MIN, DAYS_MAX = -719_162, 2_932_896
MICROS_MIN, MICROS_MAX = -62_135_596_800_000_000, 253_402_300_799_999_999
#: A fraction of a second with more than the microseconds that a column has.
FINER = r"\.\d{6}\d*[1-9]"
_NANOS = 1000
#: How texts begin that a zone, or a year 0, may put outside of the years 1 to 9999.
_AT_ENDS = "^(9999-12-31|000[01]-)"
_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"[T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
#: What stands behind the day in what Spark may read as a type: by itself it takes a clock alone for a time of today, a
#: year alone for its first day, what has no zone for UTC and `PST` for one, and leaves out the offset of what is to
#: have no zone, and the clock of a day. Java writes offsets of before there were zones with seconds (`+00:53:28`).
_BEHIND_DAY = {
    "date": r"([T ]00:00(:00(\.0+)?)?)?Z?",
    "timestamp_ntz": rf"({_CLOCK})?Z?",
    "timestamp": rf"{_CLOCK}(Z|[+-]\d{{2}}(:?\d{{2}}(:?\d{{2}})?)?)",
}
#: A time of day as ISO 8601 writes it, up to its end, which PostgreSQL has too.
CLOCK = r"(([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?|24:00(:00(\.0{1,9})?)?)"


def _ranged(settings: Settings, ddl: str, wire: str, bounds: tuple[int, int], make: Convert) -> Reading:
    """A date or time counted from 1970: outside the years 1 to 9999 it is special, as Debezium's infinities are."""
    low, high = bounds

    def value(count: Column) -> Column:
        if settings.special_values == "clamp":
            return make(F.greatest(F.lit(low), F.least(F.lit(high), count)))
        return make(F.when(count.between(low, high), count))

    def clamped(count: Column) -> Column:
        return F.when(count.isNotNull(), value(count))

    return Reading(ddl, wire, value=clamped, special=lambda count: ~count.between(low, high))


def date(settings: Settings, _: WireType) -> Reading:
    """Days since 1970-01-01."""
    return _ranged(settings, "date", "int", (DAYS_MIN, DAYS_MAX), F.date_from_unix_date)


def _micros_to_ntz(micros: Column) -> Column:
    # Exact under any session time zone: both sides of the cast use the same one, and ours is UTC (see session.py).
    return F.timestamp_micros(micros).cast("timestamp_ntz")


def timestamp_millis(settings: Settings, _: WireType) -> Reading:
    """Milliseconds since 1970-01-01 00:00, without a time zone."""
    bounds = (MICROS_MIN // 1000, MICROS_MAX // 1000)
    return _ranged(settings, "timestamp_ntz", "bigint", bounds, lambda count: _micros_to_ntz(count * 1000))


def timestamp_micros(settings: Settings, _: WireType) -> Reading:
    """Microseconds since 1970-01-01 00:00, without a time zone."""
    return _ranged(settings, "timestamp_ntz", "bigint", (MICROS_MIN, MICROS_MAX), _micros_to_ntz)


def _instant_millis(settings: Settings, _: WireType) -> Reading:
    bounds = (MICROS_MIN // 1000, MICROS_MAX // 1000)
    return _ranged(settings, "timestamp", "bigint", bounds, lambda count: F.timestamp_micros(count * 1000))


def _instant_micros(settings: Settings, _: WireType) -> Reading:
    return _ranged(settings, "timestamp", "bigint", (MICROS_MIN, MICROS_MAX), F.timestamp_micros)


def floor_thousandth(count: Column) -> Column:
    """A thousandth of a count, the part behind the point cut towards the past."""
    return F.floor(count / F.lit(1000).cast("decimal(4,0)")).cast("bigint")


def has_nanos(count: Column) -> Column:
    """Whether a count of nanoseconds is one of no whole microseconds."""
    return count % _NANOS != 0


def has_fine_fraction(text: Column) -> Column:
    """Whether a text has a fraction of a second with parts of a microsecond."""
    return text.rlike(FINER)


def with_seconds(text: Column) -> Column:
    """A text of a moment with its seconds before its zone: Spark takes `T01:30Z`, without them, for no moment."""
    return F.regexp_replace(text, rf"^({_DAY}[T ]\d{{2}}:\d{{2}})(?= ?[Z+-])", "$1:00")


def timestamp_nanos(settings: Settings, _: WireType) -> Reading:
    """Nanoseconds since 1970-01-01 00:00, without a time zone; cut to microseconds, Spark's finest."""
    ends = Ends("timestamp_ntz")

    # Debezium writes the two infinities as the ends of a long; all between lies in the years 1677 to 2262.
    def is_infinite(count: Column) -> Column:
        return count.isin(-(2**63), 2**63 - 1)

    def value(count: Column) -> Column:
        known = F.when(~is_infinite(count), _micros_to_ntz(floor_thousandth(count)))
        if settings.special_values != "clamp":
            return known
        return F.when(is_infinite(count), F.when(count < 0, ends.first).otherwise(ends.last)).otherwise(known)

    return Reading("timestamp_ntz", "bigint", value=value, special=is_infinite, finer=has_nanos)


def _instant_nanos(_: Settings, __: WireType) -> Reading:
    """Nanoseconds since 1970-01-01 00:00 in UTC, cut to microseconds; a long of them ends in 1677 and 2262."""
    return Reading(
        "timestamp", "bigint", value=lambda count: F.timestamp_micros(floor_thousandth(count)), finer=has_nanos
    )


def moment(without_zone: Read, instant: Read) -> Read:
    """A count since 1970-01-01 00:00, in UTC where the column is an instant (`columns.MOMENTS`)."""

    def reading(settings: Settings, wire: WireType) -> Reading:
        return (instant if moment_ddl(wire) == "timestamp" else without_zone)(settings, wire)

    return reading


moment_millis = moment(timestamp_millis, _instant_millis)
moment_micros = moment(timestamp_micros, _instant_micros)
moment_nanos = moment(timestamp_nanos, _instant_nanos)


@dataclass(frozen=True)
class Ends:
    """The ends of the years 1 to 9999, in UTC, as values of `date`, `timestamp_ntz` or `timestamp`."""

    ddl: str

    @property
    def first(self) -> Column:
        """0001-01-01, at 00:00."""
        return self._at("0001-01-01", " 00:00:00")

    @property
    def last(self) -> Column:
        """9999-12-31, at its last microsecond."""
        return self._at("9999-12-31", " 23:59:59.999999")

    def _at(self, day: str, clock: str) -> Column:
        text = day if self.ddl == "date" else f"{day}{clock}{'Z' if self.ddl == 'timestamp' else ''}"
        return F.lit(text).cast(self.ddl)

    def are_left_by(self, text: Column, read: Column) -> Column:
        """Whether what a text is read as lies beyond them, as 23:00 of the last day in New York does."""
        return text.rlike(_AT_ENDS) & F.coalesce(~read.between(self.first, self.last), F.lit(False))

    def within(self, read: Column) -> Column:
        """A value that lies between them; NULL for others."""
        return F.when(read.between(self.first, self.last), read)

    def clamped(self, read: Column) -> Column:
        """A value, or the end that it lies beyond."""
        return F.when(read < self.first, self.first).when(read > self.last, self.last).otherwise(read)


def zoned(ddl: str, behind_day: str | None = None) -> Callable[[Settings, WireType], Reading]:
    """ISO 8601 text in one of the types date, timestamp_ntz and timestamp; the Z of the first two is decoration.

    Args:
        ddl: the type.
        behind_day: a pattern of what stands behind the day, where it is another than that of the type.
    """
    tail = behind_day if behind_day is not None else _BEHIND_DAY[ddl]
    form, beyond = rf"^{_DAY}{tail}\z", rf"^((?:\+0*[1-9]\d{{4,}}|-\d{{4,}})-\d{{2}}-\d{{2}}{tail}|-?infinity)\z"

    def reading(settings: Settings, _: WireType) -> Reading:
        ends = Ends(ddl)

        def has_sign(text: Column) -> Column:
            # Years past 9999 and before 1 are written with a sign, and the infinities as words.
            return text.rlike(beyond)

        def read(text: Column) -> Column:
            plain = with_seconds(text) if ddl == "timestamp" else F.regexp_replace(text, "Z$", "")
            return F.when(text.rlike(form), plain).try_cast(ddl)

        def is_special(text: Column) -> Column:
            return has_sign(text) | ends.are_left_by(text, read(text))

        def value(text: Column) -> Column:
            if settings.special_values != "clamp":
                return ends.within(read(text))
            end = F.when(text.startswith("-"), ends.first).otherwise(ends.last)
            return F.when(has_sign(text), end).otherwise(ends.clamped(read(text)))

        def invalid(text: Column) -> Column:
            return text.isNotNull() & ~is_special(text) & value(text).isNull() & ~settings.text_is_placeholder(text)

        marks = settings.text_is_placeholder
        return Reading(ddl, "string", value, is_special, invalid, marks, finer=has_fine_fraction)

    return reading


def time(unit_micros: int, wire_type: str) -> Callable[[Settings, WireType], Reading]:
    """A time of day counted in a unit of so many microseconds, as microseconds of the day."""

    def reading(_: Settings, __: WireType) -> Reading:
        # Spark has no Iceberg `time`: one such column makes a table unreadable there. So microseconds of the day, as a
        # long.
        return Reading("bigint", wire_type, value=lambda count: count.cast("bigint") * unit_micros)

    return reading


def time_nanos(_: Settings, __: WireType) -> Reading:
    """Nanoseconds, of the day or of a span of time, as microseconds."""
    return Reading("bigint", "bigint", value=floor_thousandth, finer=has_nanos)


def duration_double(_: Settings, __: WireType) -> Reading:
    """A span of time as a double that counts microseconds; none where it is no number, or no long holds it.

    The connectors that send it multiply seconds, so that 8.2 of them are 8199999.999999999: what is told beside whole
    microseconds is what doubles lose, and no database that is read so has parts of them.
    """

    def value(count: Column) -> Column:
        # Of what is no number, and beyond a long, a cast makes some number.
        return F.when((count >= -LONG_END) & (count < LONG_END), F.round(count)).try_cast("bigint")

    return Reading("bigint", "double", value, invalid=lambda count: count.isNotNull() & value(count).isNull())


def time_text(settings: Settings, _: WireType) -> Reading:
    """A time of day as ISO 8601 text, whose Z is decoration, as microseconds."""

    def part(text: Column, number: int) -> Column:
        return F.regexp_extract(text, r"^(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?Z?\z", number)

    def value(text: Column) -> Column:
        hours, minutes, seconds = (part(text, number).try_cast("bigint") for number in (1, 2, 3))
        fraction = F.rpad(part(text, 4), 6, "0").try_cast("bigint")
        micros = ((hours * 60 + minutes) * 60 + F.coalesce(seconds, F.lit(0))) * 1_000_000 + fraction
        return F.when(text.rlike(rf"^{CLOCK}Z?\z"), micros)

    def invalid(text: Column) -> Column:
        return text.isNotNull() & value(text).isNull() & ~settings.text_is_placeholder(text)

    marks = settings.text_is_placeholder
    return Reading("bigint", "string", value, invalid=invalid, unavailable=marks, finer=has_fine_fraction)
