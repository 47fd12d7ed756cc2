"""Values that a contract compares with a column, fitted to the column's type so that the comparison is exact.

Great Expectations passes a bound to Spark as Python gives it: 0.1 becomes a double, and Spark then compares a decimal
column as doubles, which is wrong past 2^53 and for most fractions. It is decided here for the exact value: a bound on
a decimal or integer column becomes a decimal of the column's own scale, rounded inwards (a minimum up, a maximum down
or, where the bound is strict, the other way round), which selects the same values as the bound itself, for every value
that the column can hold. A member of a set that the column cannot hold matches nothing and is left out.

A number beside a floating-point column is the one of its width that is printed so: 0.1 is another double than the
32-bit float 0.1, which Spark widens to 0.10000000149011612 before it compares.
"""

import math
import re
import struct
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import Enum
from typing import TypeGuard

from cdc_materializer.contract.types import DECIMAL_PRECISION_MAX, Family, family

#: Rounds no number that a contract can have.
DECIMALS = Context(prec=400)
#: YAML may have a blank before the zone of a time.
_ZONE_GAP = re.compile(r"[ \t]+(?=(?:Z|[+-][0-9:]+)$)")
#: Such as 0100, which is 64 or 100.
_ZERO_FIRST = re.compile(r"[-+]?0[0-9_]")
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_LONG_BITS = 64
#: Digits of the integer part of any value of an integer type.
_LONG_DIGITS = 19
#: So many significant digits tell every 32-bit float from its neighbours.
_SINGLE_DIGITS = 9


class Side(Enum):
    """Which way a bound that the column cannot hold is moved: to the next value up, or down."""

    UP = ROUND_CEILING
    DOWN = ROUND_FLOOR


class Misfit(ValueError):
    """Raised when a value cannot be compared with a column; the message says why."""


def decimal_shape(ddl: str) -> tuple[int, int] | None:
    """Return (digits before the point, scale) of a decimal or integer type, None for all other types."""
    kind, _, parameters = ddl.strip().lower().partition("(")
    if kind in _INTEGER_BITS:
        return _LONG_DIGITS, 0
    if kind != "decimal":
        return None
    precision, _, scale = (parameters.rstrip(")") or "10,0").partition(",")
    return int(precision) - int(scale or 0), int(scale or 0)


def limits(ddl: str) -> tuple[Decimal, Decimal] | None:
    """Return the least and the largest number of a decimal or integer type, None for all other types."""
    shape, bits = decimal_shape(ddl), _INTEGER_BITS.get(ddl.strip().lower())
    if bits is not None:
        return Decimal(-(2 ** (bits - 1))), Decimal(2 ** (bits - 1) - 1)
    if shape is None:
        return None
    most = Decimal(10) ** shape[0] - Decimal(1).scaleb(-shape[1])
    return most.copy_negate(), most


def fit_bound(value: object, ddl: str, side: Side) -> object:
    """Return a lower or upper bound as a literal that Spark compares exactly with a column of type ``ddl``.

    Raises Misfit when the two cannot be compared.
    """
    kind = family(ddl)
    if kind is Family.NUMBER:
        return _number_bound(_number(value), ddl, side)
    return _plain(value, kind)


def _number_bound(number: Decimal, ddl: str, side: Side) -> int | float | Decimal:
    shape = decimal_shape(ddl)
    if shape is None:
        return _float_bound(number, ddl, side)
    _, scale = shape
    moved = number.quantize(Decimal(1).scaleb(-scale), rounding=side.value, context=DECIMALS)
    if len(moved.as_tuple().digits) > DECIMAL_PRECISION_MAX:  # far outside the column: its whole part decides
        moved = moved.quantize(Decimal(1), rounding=side.value, context=DECIMALS)
    if len(moved.as_tuple().digits) > DECIMAL_PRECISION_MAX:
        message = f"the number has more than {DECIMAL_PRECISION_MAX} digits"
        raise Misfit(message)
    is_long = scale == 0 and -(2 ** (_LONG_BITS - 1)) <= moved < 2 ** (_LONG_BITS - 1)
    return int(moved) if is_long else moved


def _float_bound(number: Decimal, ddl: str, side: Side) -> float:
    """Return the nearest double that does not let a value through that the exact bound would not."""
    nearest, meant = float(number), _meant(number, ddl)
    if math.isinf(nearest):
        message = "the number is beyond what a double can hold"
        raise Misfit(message)
    if meant is not None:
        return meant
    if side is Side.UP and Decimal(nearest) < number:
        return math.nextafter(nearest, math.inf)
    if side is Side.DOWN and Decimal(nearest) > number:
        return math.nextafter(nearest, -math.inf)
    return nearest


def _meant(number: Decimal, ddl: str) -> float | None:
    """Return the number of the column that people mean by this text: the one printed so; None if none is."""
    value = _nearest(number, ddl)
    if math.isinf(value):
        return None
    printed = _printed_single(value) if _is_single(ddl) else repr(value)
    return value if Decimal(printed) == number else None


def _is_single(ddl: str) -> bool:
    return ddl.strip().lower() == "float"


def _nearest(number: Decimal, ddl: str) -> float:
    """Return the number of a floating-point column that is nearest to another, infinite where that is beyond it."""
    return _single(float(number)) if _is_single(ddl) else float(number)


def _single(value: float) -> float:
    """Return the nearest 32-bit float."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _printed_single(value: float) -> str:
    """Write a 32-bit float with as few digits as tell it from all others."""
    texts = (f"{value:.{digits}e}" for digits in range(_SINGLE_DIGITS))
    return next(text for text in texts if _single(float(text)) == value)


def fit_members(values: Iterable[object], ddl: str) -> list[object]:
    """Return those members of a set that a column of type ``ddl`` can hold, as exact literals; nulls are left out.

    Raises Misfit for a member that cannot be compared with the column at all.
    """
    kind = family(ddl)
    fitted = [_member(value, ddl, kind) for value in values if value is not None]
    return [value for value in fitted if value is not None]


def is_number(value: object) -> TypeGuard[int | float | Decimal]:
    """Whether a value of the file is a number; true and false are none, nor are YAML's .nan and .inf."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and Decimal(value).is_finite()


def exactly(value: object, ddl: str | None) -> object:
    """Return a value of the file in the one form in which it compares with others of a column of type ``ddl``.

    None where that cannot be told: of a column of no known type only numbers are known for what they are.
    """
    if is_number(value):
        return _number(value)
    try:
        kind = family(ddl) if ddl is not None else None
        return None if kind is None else _number(value) if kind is Family.NUMBER else _plain(value, kind)
    except Misfit:
        return None


def _member(value: object, ddl: str, kind: Family) -> object | None:
    if kind is not Family.NUMBER:
        return _plain(value, kind)
    number, shape = _number(value), decimal_shape(ddl)
    if shape is None:
        nearest = _nearest(number, ddl)
        return None if math.isinf(nearest) else nearest
    whole, scale = shape
    exact = number.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_FLOOR, context=DECIMALS)
    if exact != number or number.copy_abs() >= Decimal(10) ** whole:  # abs() would round to 28 digits
        return None
    return int(exact) if scale == 0 and abs(exact) < 2 ** (_LONG_BITS - 1) else exact


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        message = "the column holds numbers, the value is none"
        raise Misfit(message)
    if isinstance(value, str) and _ZERO_FIRST.match(value):
        message = "the number begins with 0, which some readers of YAML take for octal and others do not"
        raise Misfit(message)
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except ArithmeticError:
        number = Decimal("NaN")
    if not number.is_finite():
        message = "the column holds numbers, the value is none"
        raise Misfit(message)
    return number


def _plain(value: object, kind: Family) -> object:
    """Return text, booleans, dates and times in the one form that Spark compares without a guess."""
    match kind:
        case Family.TEXT if isinstance(value, str):
            return value
        case Family.TEXT:
            message = "the column holds texts, and without quotes YAML reads the value as another kind (yes as true)"
            raise Misfit(message)
        case Family.BOOLEAN if isinstance(value, bool):
            return value
        case Family.DATE:
            return _day(value)
        case Family.TIMESTAMP:
            instant = _moment(value)
            zoned = instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
            return zoned.replace(tzinfo=None).isoformat(" ", "microseconds") + "+00:00"
        case Family.TIMESTAMP_NTZ:
            local = _moment(value)
            if local.tzinfo is not None:
                message = "the column's timestamps have no zone, the value has one"
                raise Misfit(message)
            return local.isoformat(" ", "microseconds")
        case _:
            message = f"a value of this kind cannot be compared with a column of kind {kind}"
            raise Misfit(message)


def _day(value: object) -> str:
    try:
        return date.fromisoformat(str(value)).isoformat()
    except ValueError:
        message = "the column holds dates, the value is not written as YYYY-MM-DD"
        raise Misfit(message) from None


def _moment(value: object) -> datetime:
    try:
        return datetime.fromisoformat(_ZONE_GAP.sub("", str(value)))
    except ValueError:
        message = "the column holds timestamps, the value is not written as YYYY-MM-DDThh:mm:ss with or without a zone"
        raise Misfit(message) from None
