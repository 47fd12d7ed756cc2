"""What the rows of a few messages show of their columns, for the contract that `cdcm init` drafts; without Spark.

No text, date or other value of a row is told: counts, lengths of texts, and for numbers a range that is rounded away
from its ends to one digit. Of few rows, and of columns whose name looks like personal data, nothing but counts is.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from fastavro import schemaless_reader
from fastavro.schema import SchemaParseException

from cdc_materializer.changes.formats import find
from cdc_materializer.contract.types import Family, family
from cdc_materializer.decode.naming import ID_BYTES, named_in_bytes
from cdc_materializer.decode.wire import parsed_avro
from cdc_materializer.recognise import Recognised
from cdc_materializer.registry import Registry
from cdc_materializer.source import Message

#: With fewer rows than these nothing is suggested: too little was seen.
ROWS_MIN = 20
_UNAVAILABLE = "__debezium_unavailable_value"
#: Where a value has its row, by the format's depth: a field of it, or the value itself.
_AFTER = "after"
_FLAT_DEPTH = 1


@dataclass(frozen=True)
class Observed:
    """What the rows that were looked at show of one column.

    Attributes:
        seen: in how many of them it had a value or NULL, and not a placeholder.
        nulls: in how many of these it was NULL.
        keys: of how many rows the last state was looked at.
        different: how many different values these have; NULL is none.
        lengths: the fewest and most characters of its texts; None where it has none, or is not looked into.
        numbers: two numbers of one digit that its own lie between, likewise.
    """

    seen: int
    nulls: int
    keys: int = 0
    different: int = 0
    lengths: tuple[int, int] | None = None
    numbers: tuple[Decimal, Decimal] | None = None

    @property
    def is_enough(self) -> bool:
        """Whether so many were looked at that something can be suggested."""
        return self.seen >= ROWS_MIN

    @property
    def is_unique(self) -> bool:
        """Whether each row had a value of its own."""
        return self.keys >= ROWS_MIN and self.different == self.keys


NOTHING_SEEN: Mapping[str, Observed] = MappingProxyType({})


@dataclass
class _Tally:
    """The counts of one column while rows go by."""

    seen: int = 0
    nulls: int = 0
    lengths: list[int] = field(default_factory=list)
    low: Decimal | None = None
    high: Decimal | None = None

    def count(self, value: object) -> None:
        self.seen += 1
        if value is None:
            self.nulls += 1
        elif isinstance(value, str):
            self.lengths.append(len(value))
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            self._add(value)

    def _add(self, value: float | Decimal) -> None:
        # A whole number of any length is finite; Python cannot ask one of hundreds of digits.
        if isinstance(value, int) or math.isfinite(value):
            number = Decimal(value) if isinstance(value, int) else Decimal(str(value))
            self.low = number if self.low is None else min(self.low, number)
            self.high = number if self.high is None else max(self.high, number)


def observe(
    found: Recognised, messages: Sequence[Message], registry: Registry | None, is_private: Callable[[str], bool]
) -> Mapping[str, Observed]:
    """Look into the rows of a topic's messages; by column of the table that they make.

    Messages that cannot be read, and formats that have no row with a schema, show nothing.

    Args:
        found: what `recognise` said of these messages.
        messages: in their order.
        registry: has their schemas.
        is_private: whether nothing but counts may be kept of a column, by its name.

    Raises:
        RegistryUnavailable: a schema is named, and the registry cannot be asked.
    """
    if found.format is None:
        return {}
    types = {name: family(ddl) for name, ddl in found.schema.types.items()}
    tallies = {name: _Tally() for name in types}
    last: dict[bytes | None, Mapping[str, Any]] = {}
    read = _Reader(registry)
    depth = find(found.format).depth
    for message in messages:
        row = _row(read.value(message.value), depth)
        if row is None:
            continue
        last[message.key] = row
        for name, tally in tallies.items():
            if name in row and row[name] != _UNAVAILABLE:
                tally.count(row[name])
    return {
        name: _told(tally, _different(last, name), len(last), types[name], is_private=is_private(name))
        for name, tally in tallies.items()
        if tally.seen
    }


def _told(tally: _Tally, different: int, keys: int, kind: Family, *, is_private: bool) -> Observed:
    numbers = lengths = None
    if is_private or tally.seen < ROWS_MIN:
        return Observed(tally.seen, tally.nulls, keys, different)
    if kind is Family.NUMBER and tally.low is not None and tally.high is not None:
        low, high = rounded(tally.low, up=False), rounded(tally.high, up=True)
        # One number that has one digit only would be told as it is.
        numbers = (low, high) if low < high else None
    if kind is Family.TEXT and tally.lengths:
        lengths = min(tally.lengths), max(tally.lengths)
    return Observed(tally.seen, tally.nulls, keys, different, lengths, numbers)


def _different(last: Mapping[bytes | None, Mapping[str, Any]], name: str) -> int:
    values = [row.get(name) for row in last.values()]
    return len({repr(value) for value in values if value is not None and value != _UNAVAILABLE})


def rounded(number: Decimal, *, up: bool) -> Decimal:
    """A number of one digit that is at least, or at most, the given one: 431 is below 500 and above 400."""
    if number == 0:
        return Decimal(0)
    unit = Decimal(1).scaleb(number.adjusted())
    steps = number / unit
    return Decimal(math.ceil(steps) if up else math.floor(steps)) * unit


def _row(value: Mapping[str, Any] | None, depth: int) -> Mapping[str, Any] | None:
    """The row that a value leaves behind; None for a delete and what is no change."""
    if value is None:
        return None
    if depth == _FLAT_DEPTH:
        return None if str(value.get("__deleted")).lower() == "true" else value
    after = value.get(_AFTER)
    return after if isinstance(after, Mapping) else None


class _Reader:
    """Values as Python has them, each by the schema that it names or carries."""

    def __init__(self, registry: Registry | None) -> None:
        self._registry = registry
        self._id_bytes = registry.id_bytes if registry is not None else ID_BYTES
        self._parsed: dict[Any, Any] = {}

    def value(self, octets: bytes | None) -> Mapping[str, Any] | None:
        """A value's fields; None for what has none that can be read here."""
        return next((one for one in self._values(octets) if isinstance(one, Mapping)), None)

    def _values(self, octets: bytes | None) -> Iterator[object]:
        if octets is None:
            return
        name, begin = named_in_bytes(octets, self._id_bytes)
        try:
            if name is None:
                document = json.loads(octets)
                yield document.get("payload") if isinstance(document, dict) else None
            elif (schema := self._schema(name)) is not None:
                yield schemaless_reader(io.BytesIO(octets[begin:]), schema, None)
        except (SchemaParseException, ValueError, TypeError, LookupError, EOFError, ArithmeticError, RecursionError):
            return  # what a run would hold, which `recognise` counts and tells, or a schema that fastavro does not take

    def _schema(self, name: Any) -> Any:  # noqa: ANN401 - the registry's name, and fastavro's form
        if name not in self._parsed:
            found = self._registry.schema(name) if self._registry is not None else None
            is_avro = found is not None and found.kind == "AVRO"
            self._parsed[name] = parsed_avro(found.text) if found is not None and is_avro else None
        return self._parsed[name]
