"""Where a batch starts and ends.

Pure. An offset is always the *next* one to read: `Offsets({0: 5})` says that 0 to 4 of partition 0 are done.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from cdc_materializer.errors import InvariantBroken, OffsetGap, OffsetRegression
from cdc_materializer.strict_json import as_offset, read_partitions, write

_BATCH_ID_LENGTH = 16
_BUG = "This is a bug; please report it with the output of `--debug`."
_ADOPT = "accept it with `cdcm adopt TABLE`, best after the connector was made to snapshot the table again."


class Offsets(Mapping[int, int]):
    """The next offset of each partition; immutable, ordered by partition, equal by content.

    Raises InvariantBroken for a partition or an offset that is no whole number or below zero.
    """

    __slots__ = ("_by_partition",)

    def __init__(self, by_partition: Mapping[int, int] | None = None) -> None:
        """Copy ``by_partition``, partition number to next offset; nothing at all when left out."""
        given = by_partition or {}
        for number in (*given.keys(), *given.values()):
            if type(number) is not int or number < 0:
                raise InvariantBroken("Partition numbers and offsets must be whole numbers from zero up.", _BUG)
        self._by_partition = dict(sorted(given.items()))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raise InvariantBroken for anything else."""
        return cls(read_partitions(text, as_offset))

    def to_json(self) -> str:
        """Return the offsets as JSON, `{"0":5}`, ordered by partition number: equal offsets give equal text."""
        return write(self)

    def __getitem__(self, partition: int) -> int:
        """Return the next offset of ``partition``."""
        return self._by_partition[partition]

    def __iter__(self) -> Iterator[int]:
        """Iterate over partition numbers, lowest first."""
        return iter(self._by_partition)

    def __len__(self) -> int:
        """Return how many partitions there are."""
        return len(self._by_partition)

    def __hash__(self) -> int:
        """Hash by content: offsets never change."""
        return hash(tuple(self._by_partition.items()))

    def __repr__(self) -> str:
        """Show the content."""
        return f"Offsets({self._by_partition!r})"

    def is_ahead_of(self, other: Mapping[int, int]) -> bool:
        """Return whether some partition is done further than in other offsets; nothing is done of one they lack."""
        return any(offset > other.get(partition, 0) for partition, offset in self.items())


@dataclass(frozen=True)
class Span:
    """What one batch covers of a topic: `[start, end)` of each partition, the same partitions in both."""

    topic: str
    start: Offsets
    end: Offsets

    def __post_init__(self) -> None:
        """Refuse a span whose ends do not belong to its starts, or lie before them."""
        if self.start.keys() != self.end.keys() or any(self.end[p] < start for p, start in self.start.items()):
            raise InvariantBroken(
                f"A span of {self.topic} must end where or after it starts, in every partition.", _BUG
            )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return self.start == self.end

    @property
    def count(self) -> int:
        """How many offsets it covers: an upper bound of its messages, as compaction and transactions leave holes."""
        return sum(self.end[partition] - start for partition, start in self.start.items())

    def ranges(self) -> tuple[tuple[int, int, int], ...]:
        """Return (partition, start, end) of each partition that has something to read."""
        return tuple((p, start, self.end[p]) for p, start in self.start.items() if start < self.end[p])


def plan_span(topic: str, recorded: Offsets | None, beginnings: Offsets, ends: Offsets, limit: int) -> Span:
    """Decide what the next batch reads: from ``recorded`` towards ``ends``, `min(limit, what there is)` offsets.

    Args:
        topic: the topic, for messages.
        recorded: the next offsets as the last batch left them; None when there was none. Partitions that are not in it
            start at their beginning.
        beginnings: the first offset that the source still has, of every partition.
        ends: the offset after the last one, of every partition.
        limit: the most offsets to plan, at least 1. Partitions share it evenly; what one cannot use goes to the others.

    Raises:
        OffsetRegression: a partition ends before what was read, or is gone.
        OffsetGap: messages between what was read and what the source still has are gone.
    """
    if limit < 1:
        raise InvariantBroken(f"A batch of {topic} must be allowed at least one message.", _BUG)
    if beginnings.keys() != ends.keys():
        raise InvariantBroken(f"The source answered beginnings and ends of {topic} for different partitions.", _BUG)
    known = recorded if recorded is not None else Offsets()
    _check_not_rewound(topic, known, ends)
    _check_no_gap(topic, known, beginnings)
    start = Offsets({partition: known.get(partition, first) for partition, first in beginnings.items()})
    shares = _shares({p: ends[p] - start[p] for p in start if ends[p] > start[p]}, limit, turn=sum(start.values()))
    return Span(
        topic, start, Offsets({partition: offset + shares.get(partition, 0) for partition, offset in start.items()})
    )


def batch_id(pipeline: str, table_uuid: str, span: Span, upon: str | None = None) -> str:
    """Return a batch's id: 16 hexadecimal characters, the same for the same batch of the same table on every retry.

    Args:
        pipeline: the pipeline's name.
        table_uuid: the table's identity.
        span: what the batch reads.
        upon: for one that looks again at what was read before, which its span says nothing of: the state before it
            (`Marker.state`), and what is done to that where it is no fold. None for any other.
    """
    place = [span.start.to_json(), span.end.to_json()] if upon is None else [upon]
    identity = [pipeline, table_uuid, span.topic, *place]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:_BATCH_ID_LENGTH]


def _check_not_rewound(topic: str, recorded: Offsets, ends: Offsets) -> None:
    for partition, offset in recorded.items():
        end = ends.get(partition)
        if end is None or end < offset:
            fact = "is gone" if end is None else f"ends at offset {end}"
            raise OffsetRegression(
                f"Topic {topic}, partition {partition}: everything before offset {offset} was read, but the partition "
                f"{fact}; the topic was made again or cut, or this is another broker. Nothing was written.",
                f"If that is as it should be, {_ADOPT}",
                place=(partition, offset),
            )


def _check_no_gap(topic: str, recorded: Offsets, beginnings: Offsets) -> None:
    for partition, offset in recorded.items():
        first = beginnings[partition]
        if first > offset:
            raise OffsetGap(
                f"Topic {topic}, partition {partition}: the next offset {offset} is no longer there, the earliest is "
                f"{first}; up to {first - offset} messages are lost. Nothing was written.",
                f"Keep messages longer (`retention.ms`) than the pipeline may stand still; now {_ADOPT}",
                place=(partition, offset),
            )


def _shares(available: Mapping[int, int], limit: int, turn: int) -> dict[int, int]:
    """Share ``limit`` among partitions: each gets the same, or all it has.

    What does not divide goes one each to the partitions in turn. The turn is the sum of the offsets read so far, which
    grows by ``limit`` a batch: so even with fewer records a batch than partitions, each partition gets its turn,
    without any state.
    """
    level, left = 0, limit
    amounts = sorted(available.values())
    for filled, amount in enumerate(amounts):
        step = min(amount - level, left // (len(amounts) - filled))
        level, left = level + step, left - step * (len(amounts) - filled)
        if level < amount:
            break
    shares = {partition: min(amount, level) for partition, amount in available.items()}
    waiting = sorted(partition for partition, amount in available.items() if amount > level)
    for ordinal in range(min(left, len(waiting))):
        shares[waiting[(turn + ordinal) % len(waiting)]] += 1
    return shares
