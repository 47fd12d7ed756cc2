"""Values of JSON that says nothing of their types: Maxwell's, Canal's, those of AWS DMS, GoldenGate and OpenCDC.

A number may come as a number or as text, a boolean as 0 or `t`, a date as `2024-01-31` or with a midnight behind it:
the contract says what it is to be. Each value is read as a variant, which alone keeps a number's digits, and tells a
null (a variant that is one) from a column that is not there (NULL). It becomes what the column holds, or nothing:

- what is no value of the type's kind (text for a number) is foreign, and its message held as SCHEMA_INCOMPATIBLE;
- a number that the type does not hold, digit by digit, or a time that no day has, is invalid, and held as OUT_OF_RANGE;
- zero dates, impossible days and infinities are special, and go by `special_values`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode.decimals import DOUBLE_DIGITS, declared_decimal
from cdc_materializer.decode.reading import Convert, Reading, Settings
from cdc_materializer.decode.times import has_fine_fraction, with_seconds
from cdc_materializer.decode.wire import ABSENT, BASE64, BASE64_URL, BYTES, DIGITS_OF_HEX, HEX, LATIN_1, SET, WireType
from cdc_materializer.schema.types import DECIMAL_DIGITS_MAX, decimal_of

#: All of these end with \z: in Java, $ also matches before a last line break. Possessive where two parts could share
#: digits in many ways: long texts would take the square of their length.
_NUMBER = r"^[+-]?+(\d++\.?+\d*+|\.\d++)([eE][+-]?+\d++)?+\z"
_NO_NUMBERS = r"(?i)^(nan|[+-]?inf(inity)?)\z"
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_FLOATS = frozenset({"float", "double"})
#: Digits that tell every double.
_DIGITS_OF_DOUBLES = 17
_WHOLE = f"decimal({DECIMAL_DIGITS_MAX},0)"
_TRUE, _FALSE = ("true", "t", "1"), ("false", "f", "0")
#: Hours, minutes, seconds and their fraction; MySQL's reach from -838 to 838 hours.
_SIXTY = 60
_TIME = r"^(-?)(\d{1,3}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?\z"
_DAY = r"\d{4}-\d{2}-\d{2}"
#: GoldenGate writes a colon between the day and the time, others one before the fraction.
_CLOCK = r"[T :]\d{2}:\d{2}(:\d{2}([.:]\d{1,9})?)?"
_ZONE = r"(Z|[+-]\d{2}:?\d{2})"
#: What the texts of a type look like, whether or not there is such a day. One without a zone has no place for another
#: offset than none.
_FORMS: Mapping[str, str] = {
    "date": rf"^{_DAY}([T :]00:00(:00([.:]0+)?)?Z?)?\z",
    "timestamp_ntz": rf"^{_DAY}({_CLOCK}Z?)?\z",
    "timestamp": rf"^{_DAY}({_CLOCK} ?{_ZONE}?)?\z",
}
#: The infinities, years before the first, and those past 9999, which are written with a sign.
_BEFORE = r"(?i)^(-infinity\z|-\d|0000-)|BC\z"
_AFTER = r"(?i)^(infinity\z|\+?\d{5,}-)"
_ENDS: Mapping[str, tuple[str, str]] = {
    "date": ("0001-01-01", "9999-12-31"),
    "timestamp_ntz": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
    "timestamp": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
}
#: The whole text in characters of one byte each.
_ONE_BYTE_EACH = "^[\\x{0}-\\x{ff}]*\\z"
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\\z"
_BASE64_URL = "^(?:[A-Za-z0-9_-]{4})*+(?:[A-Za-z0-9_-]{2}(?:==)?|[A-Za-z0-9_-]{3}=?)?\\z"
_DIGITS_OF_HEX = "^(?:[0-9a-fA-F]{2})*+\\z"
_HEX = "^0[xX]([0-9a-fA-F]{2})*\\z"


def untyped(settings: Settings, wire: WireType) -> Reading:
    """The reading of a value in the type that a contract declares (`wire.parameters`)."""
    found = _typed(settings, wire)
    return replace(found, absent=lambda given: given.isNull()) if ABSENT in wire.parameters else found


def _typed(settings: Settings, wire: WireType) -> Reading:
    ddl = wire.parameters["ddl"]
    if ddl in _FORMS:
        return _of_calendar(settings, ddl)
    if ddl == "binary":
        return _octets(wire.parameters.get(BYTES, BASE64))
    if ddl == "string":
        return _set() if SET in wire.parameters else plain_text()
    return _boolean() if ddl == "boolean" else _numeric(ddl)


def _numeric(ddl: str) -> Reading:
    if decimal_of(ddl) is not None:
        return _number(ddl, ddl)
    if ddl in _INTEGERS:
        return _integer(ddl)
    return _double(ddl) if ddl in _FLOATS else _nested(ddl)


def text_of(given: Column) -> Column:
    """A variant as text; NULL for one that is null, and JSON for objects and arrays."""
    return F.try_variant_get(given, "$", "string")


def _kind(given: Column) -> Column:
    return F.schema_of_variant(given)


def _is(test: Column) -> Column:
    return F.coalesce(test, F.lit(False))


def _reading(ddl: str, value: Convert, foreign: Convert | None = None, invalid: Convert | None = None) -> Reading:
    return Reading(ddl, "variant", value, invalid=invalid, foreign=foreign)


# --- numbers
# ------------------------------------------------------------------------------------------------------------


def _is_number(given: Column) -> Column:
    # A number of JSON's that is too large for a double is an infinite one in a variant.
    return _is(text_of(given).rlike(_NUMBER) | (_kind(given) == "DOUBLE"))


def _is_word(given: Column) -> Column:
    """Whether a value is not a number, or infinity, in words."""
    return _is((_kind(given) == "STRING") & text_of(given).rlike(_NO_NUMBERS))


def _number(ddl: str, told: str) -> Reading:
    """A number in a type, read as a decimal of that or another one first."""
    exact = declared_decimal(told)

    def value(given: Column) -> Column:
        found = F.when(_is_number(given), exact.apply(given))
        return found if told == ddl else found.try_cast(ddl)

    def foreign(given: Column) -> Column:
        return text_of(given).isNotNull() & ~_is_number(given) & ~_is_word(given)

    # PostgreSQL's numeric has NaN and infinities, which no decimal has: special, as its connector's null for them is.
    return Reading(
        ddl,
        "variant",
        value,
        special=_is_word,
        invalid=lambda given: _is_number(given) & value(given).isNull(),
        foreign=foreign,
    )


def _integer(ddl: str) -> Reading:
    """An integer; MySQL's booleans are integers too, and a time of day is microseconds in a `bigint`."""
    whole = _number(ddl, f"decimal({DECIMAL_DIGITS_MAX},0)")

    def flag(given: Column) -> Column:
        return F.when(_kind(given) == "BOOLEAN", F.try_variant_get(given, "$", "boolean")).cast(ddl)

    def value(given: Column) -> Column:
        found = F.coalesce(whole.apply(given), flag(given))
        return F.coalesce(found, _micros(given)) if ddl == "bigint" else found

    def foreign(given: Column) -> Column:
        return text_of(given).isNotNull() & ~_is_number(given) & value(given).isNull()

    def is_finer(given: Column) -> Column:
        return _micros(given).isNotNull() & has_fine_fraction(text_of(given))

    return replace(_reading(ddl, value, foreign, whole.invalid), finer=is_finer)


def _micros(given: Column) -> Column:
    """The microseconds of a time of day, or of a span of less than 839 hours; NULL for other texts."""
    sign, hours, minutes, seconds, fraction = (F.regexp_extract(text_of(given), _TIME, at) for at in range(1, 6))
    parts = [part.try_cast("bigint") for part in (hours, minutes, seconds)]
    micros = ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1_000_000 + F.rpad(fraction, 6, "0").try_cast("bigint")
    is_clock = (parts[1] < _SIXTY) & (parts[2] < _SIXTY)
    return F.when(is_clock, F.when(sign == "-", -micros).otherwise(micros))


def _double(ddl: str) -> Reading:
    def value(given: Column) -> Column:
        found = F.when(_is_number(given) | _is_word(given), text_of(given)).try_cast(ddl)
        return F.when(_is_word(given) | (~_is_special(found) & _is_as_sent(given, found, ddl)), found)

    def invalid(given: Column) -> Column:
        return _is_number(given) & value(given).isNull()

    def foreign(given: Column) -> Column:
        return text_of(given).isNotNull() & ~_is_number(given) & ~_is_word(given)

    return _reading(ddl, value, foreign, invalid)


def _is_as_sent(given: Column, found: Column, ddl: str) -> Column:
    """Whether a number is the one that was sent, where its type may have fewer bits than the source's.

    One of 32 bits is written with the fewest digits that tell it, or with those of the same number in 64.
    """
    if ddl == "double":
        return F.lit(True)
    sent = text_of(given).try_cast("double")
    return (found.cast("double") == sent) | (found.cast("string").try_cast("double") == sent)


def number() -> Reading:
    """A number of JSON's as a double, if one tells it: nothing says in how many bits, or digits, its source has it."""

    def value(given: Column) -> Column:
        found = text_of(given).try_cast("double")
        is_told = _is_number(given) & ~is_text(given) & ~_is_special(found) & _is_told_by(found, given)
        return F.when(_is_word(given) | is_told, found)

    def is_text(given: Column) -> Column:
        return _kind(given) == "STRING"

    def invalid(given: Column) -> Column:
        return _is_number(given) & ~is_text(given) & value(given).isNull()

    def foreign(given: Column) -> Column:
        return text_of(given).isNotNull() & ~_is_word(given) & (is_text(given) | ~_is_number(given))

    return _reading("double", value, foreign, invalid)


def _is_told_by(found: Column, given: Column) -> Column:
    """Whether a double is the number that was sent.

    With a point and no more digits than tell any double, a number is one that somebody has printed. Where an exponent
    or more digits than any decimal has made it a double of the variant's, nothing tells what was sent.
    """
    text = text_of(given)
    digits = F.length(F.regexp_replace(text, r"^[-0.]+|\.", ""))
    is_whole = (found.try_cast("bigint") == text.try_cast("bigint")) | (found.try_cast(_WHOLE) == text.try_cast(_WHOLE))
    is_told = F.when(text.contains("."), digits <= _DIGITS_OF_DOUBLES).otherwise(_is(is_whole))
    return (_kind(given) == "DOUBLE") | is_told


def _is_special(number: Column) -> Column:
    # To Spark what is no number is beyond all of them; as a word it never comes here.
    return F.abs(number) >= F.lit("Infinity").cast("double")


def _boolean() -> Reading:
    def value(given: Column) -> Column:
        text = F.lower(text_of(given))
        return F.when(text.isin(*_TRUE), F.lit(True)).when(text.isin(*_FALSE), F.lit(False))

    return _reading("boolean", value, lambda given: text_of(given).isNotNull() & value(given).isNull())


# --- days and times
# -----------------------------------------------------------------------------------------------------


def moment_text(text: Column) -> Column:
    """A text of a moment as Spark reads it: a blank between day and time, a point before the fraction, and seconds."""
    spaced = F.regexp_replace(text, rf"^({_DAY}):", "$1 ")
    return with_seconds(F.regexp_replace(spaced, rf"^({_DAY}.\d{{2}}:\d{{2}}:\d{{2}}):", "$1."))


def _day_text(given: Column) -> Column:
    return F.trim(text_of(given))


def _is_before(given: Column) -> Column:
    return _is(_day_text(given).rlike(_BEFORE))


def _is_after(given: Column) -> Column:
    return _is(_day_text(given).rlike(_AFTER))


def _of_calendar(settings: Settings, ddl: str) -> Reading:
    """A day or a moment. One without a zone is UTC's where the column is an instant."""
    first, last = (F.lit(end).cast(ddl) for end in _ENDS[ddl])

    def is_told(given: Column) -> Column:
        return _is(_day_text(given).rlike(_FORMS[ddl]))

    def read(given: Column) -> Column:
        # Spark takes more forms than these, and for a date anything that follows it.
        known = moment_text(F.when(is_told(given), _day_text(given)))
        plain = F.regexp_replace(known, r"Z$", "") if ddl != "timestamp" else known
        found = (F.substring(plain, 1, 10) if ddl == "date" else plain).try_cast(ddl)
        return F.when(~_is_before(given) & ~_is_after(given), found)

    def is_special(given: Column) -> Column:
        is_no_day = F.substring(_day_text(given), 1, 10).try_cast("date").isNull()
        return _is_before(given) | _is_after(given) | (is_told(given) & is_no_day)

    def value(given: Column) -> Column:
        if settings.special_values != "clamp":
            return read(given)
        # A day that no month has is in no direction from those that there are.
        return F.when(_is_before(given), first).when(_is_after(given), last).otherwise(read(given))

    def invalid(given: Column) -> Column:
        return is_told(given) & ~is_special(given) & read(given).isNull()

    def foreign(given: Column) -> Column:
        return text_of(given).isNotNull() & ~is_special(given) & ~is_told(given)

    def is_finer(given: Column) -> Column:
        return has_fine_fraction(moment_text(_day_text(given)))

    return Reading(ddl, "variant", value, is_special, invalid, foreign=foreign, finer=is_finer)


# --- texts and bytes
# ----------------------------------------------------------------------------------------------------


def plain_text() -> Reading:
    """A text as it is; a number's plain digits; an object or array as JSON, its fields in the order of their names."""

    def is_lost(given: Column) -> Column:
        # A number that JSON has with an exponent, or with more digits than any decimal, is a double in a variant.
        digits = F.length(F.regexp_replace(text_of(given), r"[eE].*|\D", ""))
        return _is((_kind(given) == "DOUBLE") & (digits > DOUBLE_DIGITS))

    return _reading("string", lambda given: F.when(~is_lost(given), text_of(given)), invalid=is_lost)


def _set() -> Reading:
    """A set of MySQL's, which Maxwell writes as an array and all others as its members between commas."""

    def value(given: Column) -> Column:
        members = F.when(_kind(given) == "ARRAY<STRING>", F.try_variant_get(given, "$", "array<string>"))
        # The set without members.
        none = F.when(F.try_variant_get(given, "$", "string") == "[]", "")
        return F.coalesce(F.array_join(members, ","), none, F.when(_kind(given) == "STRING", text_of(given)))

    return _reading("string", value, lambda given: text_of(given).isNotNull() & value(given).isNull())


def _octets(spelling: str) -> Reading:
    decode: Callable[[Column], Column] = {
        BASE64: lambda text: F.unbase64(F.when(text.rlike(_BASE64), text)),
        BASE64_URL: lambda text: F.unbase64(F.translate(F.when(text.rlike(_BASE64_URL), text), "-_", "+/")),
        DIGITS_OF_HEX: lambda text: F.unhex(F.when(text.rlike(_DIGITS_OF_HEX), text)),
        LATIN_1: lambda text: F.encode(F.when(text.rlike(_ONE_BYTE_EACH), text), "ISO-8859-1"),
        HEX: lambda text: F.unhex(F.substring(F.when(text.rlike(_HEX), text), F.lit(3), F.length(text))),
    }[spelling]

    def value(given: Column) -> Column:
        return decode(F.when(_kind(given) == "STRING", text_of(given)))

    return _reading("binary", value, lambda given: text_of(given).isNotNull() & value(given).isNull())


def _nested(ddl: str) -> Reading:
    """An array, a map or a struct: only if what is read says all that was sent, and nothing else."""

    def value(given: Column) -> Column:
        return F.when(_is_told(given), F.try_variant_get(given, "$", ddl))

    def _is_told(given: Column) -> Column:
        # A part that does not fit would be NULL in it.
        read = F.to_json(F.try_variant_get(given, "$", ddl), {"ignoreNullFields": "false"})
        return _is(text_of(F.try_parse_json(read)) == text_of(given))

    return _reading(ddl, value, lambda given: text_of(given).isNotNull() & value(given).isNull())
