"""Where a batch starts and ends, and the mark it leaves in a snapshot.

Pure. An offset is always the *next* one to read: `Offsets({0: 5})` says that 0 to 4 of partition 0 are done. The marker
is the only memory of progress (design section 3); it carries coordinates and counts, never anything of a row.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, Self, TypeVar

from cdc_materializer.errors import InvariantBroken, OffsetGap, OffsetRegression

#: Version of the marker's layout that this package writes, and the newest it reads.
MARKER_VERSION = 1

#: What the keys of a marker begin with in a snapshot summary.
MARKER_PREFIX = "cdcm."

_BATCH_ID_LENGTH = 16
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_BUG = "This is a bug; please report it with the output of `--debug`."
_START_AFRESH = (
    "have the connector snapshot the table again and give the topic a new `mirror`; the old tables stay as they are."
)
_V = TypeVar("_V")


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
        return cls(_partitions_from_json(text, _offset))

    def to_json(self) -> str:
        """Return the offsets as JSON, `{"0":5}`, ordered by partition number: equal offsets give equal text."""
        return _to_json(self)

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


@dataclass(frozen=True)
class Marker:
    """The progress that a commit writes into its snapshot's summary, and nothing else: no row, no key, no schema text.

    Args:
        pipeline: the pipeline's name.
        batch: the batch's id, see `batch_id`.
        topic: the topic it was read from.
        topic_id: the broker's id of that topic, which a re-created topic does not keep; None where sources have none.
        offsets: the next offset of each partition after this batch.
        positions: the highest source position of each partition, as text that only `changes` reads.
        source_snapshot: on a mirror, the raw table's snapshot that it was folded from.
        contract: fingerprint of the contract that judged the batch.
        counts: messages by what became of them.
        times: when the source made the changes of `positions`, in microseconds since 1970.
        truncated: the highest position of a truncate that was applied, behind which no change counts any more.
        version: layout of the marker.
    """

    pipeline: str
    batch: str
    topic: str
    topic_id: str | None
    offsets: Offsets
    positions: Mapping[int, str]
    source_snapshot: int | None
    contract: str | None
    counts: Mapping[str, int]
    times: Mapping[int, int] = field(default_factory=dict)
    truncated: str | None = None
    version: int = MARKER_VERSION

    def to_summary(self) -> dict[str, str]:
        """Return the marker as snapshot properties; what is None is left out."""
        snapshot = None if self.source_snapshot is None else str(self.source_snapshot)
        properties = {
            "version": str(self.version),
            "pipeline": self.pipeline,
            "batch": self.batch,
            "topic": self.topic,
            "topic-id": self.topic_id,
            "offsets": self.offsets.to_json(),
            "positions": _to_json(self.positions),
            "times": _to_json(self.times),
            "truncated": self.truncated,
            "source-snapshot": snapshot,
            "contract": self.contract,
            "counts": _to_json(self.counts),
        }
        return {MARKER_PREFIX + name: value for name, value in properties.items() if value is not None}

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> Self | None:
        """Read the marker out of a snapshot's summary; None when the snapshot carries none.

        Raises InvariantBroken for a marker that cannot be read: unreadable progress must never be taken for none.
        """
        if MARKER_PREFIX + "version" not in summary:
            return None
        version = _number(summary[MARKER_PREFIX + "version"], "version")
        if not 1 <= version <= MARKER_VERSION:
            raise InvariantBroken(
                f"The table's marker has version {version}; this cdc_materializer reads up to {MARKER_VERSION}.",
                "Use the newer version of cdc_materializer that wrote it.",
            )
        snapshot = summary.get(MARKER_PREFIX + "source-snapshot")
        return cls(
            pipeline=_text(summary, "pipeline"),
            batch=_text(summary, "batch"),
            topic=_text(summary, "topic"),
            topic_id=summary.get(MARKER_PREFIX + "topic-id"),
            offsets=Offsets.from_json(_text(summary, "offsets")),
            positions=_partitions_from_json(_text(summary, "positions"), _position),
            times=_partitions_from_json(_text(summary, "times"), _microseconds),
            source_snapshot=None if snapshot is None else _number(snapshot, "source-snapshot"),
            contract=summary.get(MARKER_PREFIX + "contract"),
            counts={name: _offset(count) for name, count in _object(_text(summary, "counts")).items()},
            truncated=summary.get(MARKER_PREFIX + "truncated"),
            version=version,
        )


def batch_id(pipeline: str, table_uuid: str, span: Span) -> str:
    """Return a batch's id: 16 hexadecimal characters, the same for the same span of the same table on every retry."""
    identity = [pipeline, table_uuid, span.topic, span.start.to_json(), span.end.to_json()]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:_BATCH_ID_LENGTH]


def _check_not_rewound(topic: str, recorded: Offsets, ends: Offsets) -> None:
    for partition, offset in recorded.items():
        end = ends.get(partition)
        if end is None or end < offset:
            fact = "is gone" if end is None else f"ends at offset {end}"
            raise OffsetRegression(
                f"Topic {topic}, partition {partition}: everything before offset {offset} was read, but the partition "
                f"{fact}; the topic was made again or cut, or this is another broker. Nothing was written.",
                f"If that is as it should be: {_START_AFRESH}",
            )


def _check_no_gap(topic: str, recorded: Offsets, beginnings: Offsets) -> None:
    for partition, offset in recorded.items():
        first = beginnings[partition]
        if first > offset:
            raise OffsetGap(
                f"Topic {topic}, partition {partition}: the next offset {offset} is no longer there, the earliest is "
                f"{first}; up to {first - offset} messages are lost. Nothing was written.",
                f"Keep messages longer (`retention.ms`) than the pipeline may stand still; now {_START_AFRESH}",
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


def _to_json(values: Mapping[int, int] | Mapping[int, str] | Mapping[str, int]) -> str:
    ordered = dict(sorted(values.items()))
    return json.dumps(ordered, separators=(",", ":"))


def _partitions_from_json(text: str, read: Callable[[object], _V]) -> dict[int, _V]:
    return {_number(key, "partition"): read(value) for key, value in _object(text).items()}


def _object(text: str) -> dict[str, object]:
    """Read a JSON object and refuse a key that is there twice: which of the two held would be a guess."""
    try:
        loaded = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        _refuse("a value that is not JSON")
    return loaded if isinstance(loaded, dict) else _refuse("a value that is no JSON object")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    return dict(pairs) if len(dict(pairs)) == len(pairs) else _refuse("a key twice")


def _offset(value: object) -> int:
    return value if type(value) is int and value >= 0 else _refuse("a number that is none")


def _position(value: object) -> str:
    return value if isinstance(value, str) else _refuse("a position that is no text")


def _microseconds(value: object) -> int:
    return value if type(value) is int else _refuse("a time that is no number")


def _number(text: str, name: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else _refuse(f"a `{name}` that is no number")


def _text(summary: Mapping[str, str], name: str) -> str:
    return summary[MARKER_PREFIX + name] if MARKER_PREFIX + name in summary else _refuse(f"no `{name}`")


def _refuse(fault: str) -> NoReturn:
    raise InvariantBroken(
        f"The table's marker has {fault}: a snapshot's summary was changed by someone else, or this is a bug.",
        "Nothing was written; do not change `cdcm.` properties of snapshots by hand.",
    )
