"""The snapshots in a topic: where each begins and ends, and which of them tell what rows are gone.

Pure. A connector that reads a whole table again sends the rows that are there, and nothing for those that were deleted
while it was away (changelog-semantics §1.5). It marks the table's first record (`first…`) and its last (`last…`). Of
several that fit one record, Debezium writes the first of `last`, `first`, `last_in_data_collection`,
`first_in_data_collection`: so a table of one row shows an end alone, or, as the first of several tables, a beginning
alone; such a snapshot is told from half of one by nothing. All records of a snapshot have one position; those of the
next have another, unless the database stood still.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from cdc_materializer.marker.reach import is_older
from cdc_materializer.strict_json import as_offset, as_text, read_object, read_partitions, refuse

FIRST = ("first", "first_in_data_collection")
LAST = ("last", "last_in_data_collection")

Place = tuple[int, int]


@dataclass(frozen=True)
class Records:
    """What a batch has of a snapshot in one partition.

    Attributes:
        partition: the partition.
        position: the snapshot's; None where the source gives none.
        first: lowest offset.
        last: highest offset.
        begins: offsets of those that are marked as first.
        ends: offsets of those that are marked as last.
        ahead: the highest position, of a change or of a snapshot, that the partition shows ahead of an offset: for
            `first` and each of `begins`, where there is one.
        followed: offset of the first row from the source's log behind all of them; None where the batch has none.
    """

    partition: int
    position: str | None
    first: int
    last: int
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    ahead: Mapping[int, str] = field(default_factory=dict)
    followed: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether some are behind the last end."""
        return not self.ends or self.ends[-1] < self.last

    def within(self, end: int) -> Records:
        """The same, where nobody looks behind an offset."""
        return replace(self, followed=None) if self.followed is not None and self.followed >= end else self


@dataclass(frozen=True)
class Reached:
    """How far a batch has come in one partition.

    Attributes:
        first: lowest offset of a message; None where the batch has none there.
        streamed: lowest and highest offset of a row from the source's log; None where the batch has none there.
        position: the highest position of a change from there, a delete too, in the batch or before it.
        begun: how far the first change that it has ever shown reaches (`reach_of`), empty where that has no position;
            None where nobody has looked. What is sent again later can be from before it.
    """

    first: int | None = None
    streamed: tuple[int, int] | None = None
    position: str | None = None
    begun: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that has not been followed to its end yet, as the marker remembers it.

    Attributes:
        position: its position; None where the source gives none.
        begins: its first record in each partition that has one.
        ends: its last record so far.
        ahead: the highest position, of a change or of a snapshot, that each of those partitions showed ahead of it.
        has_begin: whether its first record was seen.
        has_end: whether its last record was seen.
        is_fresh: whether it is what the topic began with, in each partition that was read, so it has nothing to sweep.
    """

    position: str | None
    begins: Mapping[int, int]
    ends: Mapping[int, int]
    ahead: Mapping[int, str] = field(default_factory=dict)
    has_begin: bool = False
    has_end: bool = False
    is_fresh: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether both ends are known, and it is no older than what was read before it.

        One that is says nothing of what came since: its records were sent again, or its topic is read anew.
        """
        at = self.position
        is_behind = at is not None and any(is_older(at, ahead) for ahead in self.ahead.values())
        return self.has_end and self.has_begin and not is_behind

    def joined(self, other: Snapshot) -> Snapshot:
        """A snapshot with what a later batch has of it."""
        return replace(
            self,
            begins={**other.begins, **self.begins},
            ends={**self.ends, **other.ends},
            ahead={**{p: at for p, at in other.ahead.items() if p not in self.begins}, **self.ahead},
            has_begin=self.has_begin or other.has_begin,
            has_end=self.has_end or other.has_end,
        )


@dataclass(frozen=True)
class Swept:
    """A snapshot that has ended the rows which it did not show.

    Attributes:
        position: its position; None where the source gives none.
        begins: its first record in each partition that has one.
        ends: its last record in each.
    """

    position: str | None
    begins: Mapping[int, int]
    ends: Mapping[int, int]


@dataclass(frozen=True)
class Followed:
    """What the marker remembers of snapshots.

    Attributes:
        running: those that go on.
        tables: the source tables that the topic has shown.
        swept: the last of those that have swept: once partitions were added, they do not look whole any more.
    """

    running: tuple[Snapshot, ...] = ()
    tables: tuple[str, ...] = ()
    swept: tuple[Swept, ...] = ()

    def to_json(self) -> str:
        """Return it as JSON; without `swept` where there is none, as versions read it that do not know of them."""
        found = {name: part for name, part in asdict(self).items() if part or name != "swept"}
        return json.dumps(found, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; raise InvariantBroken for anything else."""
        found = read_object(text)
        found = {"swept": [], **found}
        lists = [part for part in (found.get(name) for name in cls.__dataclass_fields__) if isinstance(part, list)]
        if not len(lists) == len(found) == len(cls.__dataclass_fields__):
            return refuse("`snapshots` that are none")
        running, tables, swept = lists
        return cls(tuple(map(_snapshot, running)), tuple(map(as_text, tables)), tuple(map(_swept, swept)))


def _swept(found: object) -> Swept:
    if not isinstance(found, dict) or found.keys() != set(Swept.__dataclass_fields__):
        return refuse("a snapshot that is none")
    return Swept(**_extent(found))


def _snapshot(found: object) -> Snapshot:
    if not isinstance(found, dict) or found.keys() != set(Snapshot.__dataclass_fields__):
        return refuse("a snapshot that is none")
    flags = {name: found[name] for name in ("has_begin", "has_end", "is_fresh")}
    if not all(isinstance(flag, bool) for flag in flags.values()):
        return refuse("a snapshot that is none")
    return Snapshot(**_extent(found), ahead=read_partitions(json.dumps(found["ahead"]), as_text), **flags)


def _extent(found: Mapping[str, Any]) -> dict[str, Any]:
    """Where a snapshot lies: its position, its first record in each partition, and its last."""
    return {
        "position": None if found["position"] is None else as_text(found["position"]),
        "begins": read_partitions(json.dumps(found["begins"]), as_offset),
        "ends": read_partitions(json.dumps(found["ends"]), as_offset),
    }
