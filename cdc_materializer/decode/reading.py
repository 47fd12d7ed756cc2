"""What every reading of a wire type is made of."""

from __future__ import annotations

import json
import operator
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

Form = Literal["avro", "json"]
Special = Literal["null", "clamp", "stop"]
Convert = Callable[[Column], Column]
#: The least double that is above each long.
LONG_END = float(2**63)
#: What Debezium sends for a value that it does not know, unless it is set up otherwise.
PLACEHOLDER = "__debezium_unavailable_value"
#: The type of what `Reading.spare` gives.
SPARE = "string"


@dataclass(frozen=True)
class Reading:
    """How one wire type becomes a column.

    Attributes:
        ddl: Spark type of the column.
        wire: Spark type in which the Avro or JSON reader has to deliver the value.
        value: the column from the wire value; None where both are the same.
        special: true where the value is an infinity or lies outside the years 1 to 9999.
        invalid: true where the wire holds a value of which no exact column value can be made.
        unavailable: true where the value is the connector's placeholder for one that it did not know (§1.7).
        foreign: true where the wire holds a value of another kind: text where the column has numbers.
        absent: true where the message does not have the column at all.
        finer: true where the wire tells parts of what the column counts, nanoseconds of a moment say: they are cut off.
        spare: the text of a number that the column's type does not hold, for the column beside it; NULL for others.
    """

    ddl: str
    wire: str
    value: Convert | None = None
    special: Convert | None = None
    invalid: Convert | None = None
    unavailable: Convert | None = None
    foreign: Convert | None = None
    absent: Convert | None = None
    finer: Convert | None = None
    spare: Convert | None = None

    def apply(self, column: Column) -> Column:
        """The column of the wire value."""
        return self.value(column) if self.value else column


@dataclass(frozen=True)
class Settings:
    """The encoding that is read, and the table's settings for values that are none."""

    form: Form
    special_values: Special = "null"
    placeholders: tuple[str, ...] = (PLACEHOLDER,)

    def octets(self) -> tuple[bytes, ...]:
        """The bytes of each placeholder; a setting that begins `hex:` names octets, as Debezium's own does."""
        found = (one.removeprefix("hex:") for one in self.placeholders)
        is_hex = (one.startswith("hex:") for one in self.placeholders)
        return tuple(bytes.fromhex(one) if named else one.encode() for one, named in zip(found, is_hex, strict=True))

    def texts(self) -> tuple[str, ...]:
        """The placeholders as texts; octets that spell none become replacement characters, as they do in Java."""
        return tuple(octets.decode(errors="replace") for octets in self.octets())

    def text_is_placeholder(self, column: Column, cut: int = 0) -> Column:
        """Whether a text is a placeholder: plain, as `hex` and `base64` modes spell bytes, or in a JSON hstore.

        Args:
            column: the text.
            cut: to how many letters the connector cuts it, placeholders too; 0 where it does not.
        """
        forms = set(self.texts()) | ({one[:cut] for one in self.texts()} if cut else set())
        forms |= {json.dumps({one: one}, separators=(",", ":"), ensure_ascii=False) for one in self.texts()}
        for octets in self.octets():
            forms |= {octets.hex(), *(encode(octets).decode() for encode in (b64encode, urlsafe_b64encode))}
        return column.isin(*sorted(forms))

    def bytes_are_placeholder(self, column: Column, cut: int = 0) -> Column:
        """Whether bytes are a placeholder's, or as many of them as the connector leaves of the column."""
        forms = [*self.octets(), *([octets[:cut] for octets in self.octets()] if cut else [])]
        return reduce(operator.or_, [column == F.lit(octets) for octets in dict.fromkeys(forms)])
