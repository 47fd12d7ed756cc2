"""Values in the type that a contract declares for what a source sends as something else (`contract_types`).

Each value is one of the declared type, exactly, or its message is held. Spark's casts alone are no test of that: they
round, trim, take `yes` for true and a date alone for a moment, so the forms of texts are told here.

- what is no value of the type's kind (text for a number) is foreign: SCHEMA_INCOMPATIBLE;
- a number, day or moment that the type does not hold, or that does not exist, is invalid: OUT_OF_RANGE;
- infinities, zero dates and years outside of 1 to 9999 are special, and go by `special_values`.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode.decimals import fits
from cdc_materializer.decode.declared_times import declared_moment
from cdc_materializer.decode.reading import Convert, Reading, Settings
from cdc_materializer.decode.times import Ends, has_fine_fraction, has_nanos, time_text, with_seconds
from cdc_materializer.decode.units import UNIT, DeclaredType, TimeUnit
from cdc_materializer.decode.wire import WireType
from cdc_materializer.schema.types import DECIMAL_DIGITS_MAX, decimal_of

#: A number in figures, possessive for the sake of long texts (`untyped`). More figures of an exponent would be a number
#: that no column holds, or nothing.
_NUMBER = r"\A[+-]?+(\d++\.?+\d*+|\.\d++)([eE][+-]?+\d{1,3})?+\z"
#: PostgreSQL's connector writes what its numeric has and no decimal by these words.
_NO_NUMBER = r"(?i)\A(nan|[+-]?inf(inity)?|(positive|negative)_infinity)\z"
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")

_DAY = r"\d{4}-\d{2}-\d{2}"
_CLOCK = r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?"
_ZONE = r"(Z|[+-]\d{2}(:?\d{2})?)"
#: What the texts of a type look like, whether or not there is such a day. One with a zone is no moment without one, nor
#: the other way round: which moment it is nobody has said.
_FORMS = {"date": "", "timestamp_ntz": f"[T ]{_CLOCK}", "timestamp": f"[T ]{_CLOCK}{_ZONE}"}
_NO_YEAR, _LATER_YEAR = r"(-\d{4,}|\+?0{4,})", r"\+?0*[1-9]\d{4,}"
#: Days that a column does not have: of years outside of 1 to 9999, of a month or a day 0, before Christ.
_NO_DAY = rf"(({_NO_YEAR}|{_LATER_YEAR})-\d{{2}}-\d{{2}}|\d{{4}}-00-\d{{2}}|\d{{4}}-\d{{2}}-00)"
_INFINITE = r"(?i)\A-?infinity\z"
_BEFORE = rf"(?i)\A(-infinity\z|{_NO_YEAR}-)| BC\z"
_AFTER = rf"(?i)\A(infinity\z|{_LATER_YEAR}-)"
_TIME_OF_DAY = r"\A(\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)\z"


def contract_reading(settings: Settings, wire: WireType, declared: DeclaredType) -> Reading:
    """The reading of a value of a source's type in the one that a contract declares."""
    ddl = declared.ddl
    if wire.literal != "string":
        return _flag(wire.literal) if ddl == "boolean" else _counted(settings, declared)
    if ddl == "boolean":
        found = _boolean()
    elif ddl in _FORMS:
        found = _of_calendar(settings, ddl)
    elif declared.is_clock:
        found = _time(settings, wire)
    else:
        found = _number(ddl)
    return replace(found, unavailable=settings.text_is_placeholder)


def _is(test: Column) -> Column:
    return F.coalesce(test, F.lit(False))


def _matches(pattern: str) -> Convert:
    return lambda text: _is(text.rlike(pattern))


# --- texts
# ---------------------------------------------------------------------------------------------------------------


def _number(ddl: str) -> Reading:
    """A number, whatever its spelling: 1.50, 1.5 and 15e-1 are one."""
    is_number, is_word = _matches(_NUMBER), _matches(_NO_NUMBER)
    exact = ddl if decimal_of(ddl) is not None else f"decimal({DECIMAL_DIGITS_MAX},0)"

    def value(text: Column) -> Column:
        figures = F.when(is_number(text), text)
        found = F.when(fits(figures, exact), figures.try_cast(exact))
        return found if exact == ddl else found.try_cast(ddl)

    return Reading(
        ddl,
        "string",
        value,
        special=is_word,
        invalid=lambda text: is_number(text) & value(text).isNull(),
        foreign=lambda text: text.isNotNull() & ~is_number(text) & ~is_word(text),
    )


def _boolean() -> Reading:
    def value(text: Column) -> Column:
        word = F.lower(text)
        return F.when(word.isin(*_TRUE), F.lit(True)).when(word.isin(*_FALSE), F.lit(False))

    return Reading("boolean", "string", value, foreign=lambda text: text.isNotNull() & value(text).isNull())


def _of_calendar(settings: Settings, ddl: str) -> Reading:
    """A day, or a moment with or without a zone, to the microsecond."""
    tail = _FORMS[ddl]
    is_told = _matches(rf"\A{_DAY}{tail}\z")
    is_no_day = _matches(rf"\A{_NO_DAY}{tail}( BC)?\z|\A{_DAY}{tail} BC\z")
    is_infinite = _matches(_INFINITE)
    ends = Ends(ddl)

    def is_special(text: Column) -> Column:
        return is_no_day(text) | is_infinite(text) | (is_told(text) & ends.are_left_by(text, read(text)))

    def read(text: Column) -> Column:
        is_exact = is_told(text) & ~is_no_day(text) & ~_is(has_fine_fraction(text))
        return F.when(is_exact, with_seconds(text)).try_cast(ddl)

    def value(text: Column) -> Column:
        if settings.special_values != "clamp":
            return ends.within(read(text))
        # A month or a day 0 is in no direction from those that there are.
        end = F.when(_is(text.rlike(_BEFORE)), ends.first).when(_is(text.rlike(_AFTER)), ends.last)
        return F.when(is_no_day(text) | is_infinite(text), end).otherwise(ends.clamped(read(text)))

    return Reading(
        ddl,
        "string",
        value,
        special=is_special,
        invalid=lambda text: is_told(text) & ~is_special(text) & read(text).isNull(),
        foreign=lambda text: text.isNotNull() & ~is_told(text) & ~is_special(text),
    )


def _time(settings: Settings, wire: WireType) -> Reading:
    """A time of day as microseconds."""
    clock, is_told = time_text(settings, wire), _matches(_TIME_OF_DAY)

    def value(text: Column) -> Column:
        return clock.apply(F.when(is_told(text) & ~_is(has_fine_fraction(text)), text))

    return Reading(
        "bigint",
        "string",
        value,
        invalid=lambda text: is_told(text) & value(text).isNull(),
        foreign=lambda text: text.isNotNull() & ~is_told(text),
    )


# --- integers
# ------------------------------------------------------------------------------------------------------------


def _flag(literal: str) -> Reading:
    """A truth value that its database has as 0 or 1; no other number is one."""

    def value(number: Column) -> Column:
        return F.when(number == 0, F.lit(False)).when(number == 1, F.lit(True))

    on_wire = "bigint" if literal == "long" else "int"
    return Reading("boolean", on_wire, value, foreign=lambda number: number.isNotNull() & value(number).isNull())


def _counted(settings: Settings, declared: DeclaredType) -> Reading:
    """A moment counted from 1970-01-01 00:00, in UTC where the column is an instant."""
    told = {"ddl": declared.ddl, UNIT: str(declared.unit)}
    texts = declared_moment(settings, WireType("declared", parameters=told))
    is_fine = declared.unit is TimeUnit.NANOSECONDS

    def of_text(test: Convert | None) -> Convert:
        return lambda count: _is(test(count.cast("string"))) if test is not None else F.lit(False)

    special, out = of_text(texts.special), of_text(texts.invalid)

    def is_finer(count: Column) -> Column:
        return _is(has_nanos(count)) & ~special(count) if is_fine else F.lit(False)

    return Reading(
        declared.ddl,
        "bigint",
        lambda count: F.when(~is_finer(count), texts.apply(count.cast("string"))),
        special=special,
        invalid=lambda count: out(count) | is_finer(count),
    )
