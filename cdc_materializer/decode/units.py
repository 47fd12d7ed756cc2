"""What a contract says of a column's values, without Spark."""

from dataclasses import dataclass, field
from enum import StrEnum


class TimeUnit(StrEnum):
    """The unit of a count of time, as a contract spells it."""

    MILLISECONDS = "milliseconds"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"

    UNSETTLED = "unsettled"
    """The column is a time, and nothing says how one is counted: none of these is guessed."""


class WrittenAs(StrEnum):
    """How JSON writes bytes, or a decimal, as a contract spells it."""

    BASE64 = "base64"
    BASE64_URL = "base64url"
    HEX = "hex"

    DIGITS = "digits"
    BYTES = "bytes"
    """The unscaled value's bytes, in Base64."""


#: The parameter of a wire type that has the unit of its counts, where it is a time.
UNIT = "unit"
#: The parameter of a wire type whose numbers may have a scale of their own each: PostgreSQL's `numeric` alone.
VARIABLE = "variable"
#: The parameter of a declared integer of eight bytes without a sign, which may come as a signed one.
UNSIGNED = "unsigned"
#: The parameter of a declared integer that may come as a boolean: MySQL's `tinyint(1)`.
FLAG = "flag"
#: The parameter of a double of which nothing says that its source has it in 64 bits: JSON Schema's `number`.
NUMBER = "number"
#: The parameter of a declared decimal that is of Connect: as a text it is unscaled bytes, and no digits.
CONNECTS = "connects"


@dataclass(frozen=True)
class DeclaredType:
    """What a contract says of a column whose source sends it in a type of its own.

    Attributes:
        ddl: the column's type.
        unit: the unit that `time_unit` names, of a time; None where it stands nowhere.
        is_clock: whether the column is a time of day, microseconds in a `bigint`.
        line: where the contract's file says it.
    """

    ddl: str
    unit: TimeUnit | None = None
    is_clock: bool = False
    line: int | None = field(default=None, compare=False)
