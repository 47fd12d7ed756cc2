"""What a contract says of a column's values in JSON without a schema beside their type, without Spark."""

from enum import StrEnum


class TimeUnit(StrEnum):
    """The unit of a count of time, as a contract spells it."""

    MILLISECONDS = "milliseconds"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"

    UNSETTLED = "unsettled"
    """The column is a time, and nothing says how one is counted: none of these is guessed."""


#: The parameter of a wire type that has the unit of its counts, where it is a time.
UNIT = "unit"
#: The parameter of a wire type whose numbers may have a scale of their own each: PostgreSQL's `numeric` alone.
VARIABLE = "variable"
