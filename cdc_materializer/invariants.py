"""What must hold of a mirror's tables, as far as their metadata tells: for `cdcm doctor`, and for tests after a crash.

Pure. A run asserts the same before each commit (`lake.commit`, `tally`, `line.checks.check_pair`); here it is looked
for in what is there, whoever wrote it. That the mirror is the fold of raw, and has one row a key, takes a look at the
rows: `cdcm verify`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdc_materializer.catalog.local_table import SnapshotLine, rows_in
from cdc_materializer.holes import never_landed
from cdc_materializer.marker.foreign import is_foreign
from cdc_materializer.marker.marker import MARKER_PREFIX, PLANNED_ON, Marker
from cdc_materializer.offsets import Offsets

#: Counts of a batch that are no outcome of a message.
_NO_OUTCOMES = frozenset({"read", "swept", "stopped", "repaired"})


def broken_in(
    table: str, lines: Sequence[SnapshotLine], *, is_raw: bool, begun: Mapping[int, int] | None = None
) -> Iterator[str]:
    """Say what is wrong with one table's snapshots, a sentence each.

    Args:
        table: its name.
        lines: its snapshots, newest first.
        is_raw: whether each of its rows is a message.
        begun: the offset of each partition that raw was begun at; None: as its snapshots tell, if its first is kept.
    """
    marked = [(line, marker) for line in lines if (marker := Marker.from_summary(line.summary)) is not None]
    for line, marker in marked[:1]:
        total, hidden = (int(line.summary.get(f"total-{what}", "0")) for what in ("records", "position-deletes"))
        total, passed = total - hidden, _passed(marker, _first_offsets(lines) if begun is None else begun)
        if is_raw and total > passed:
            yield f"{table} has {total} messages, of {passed} offsets that were read: some are there twice."
    for line, marker in marked:
        told = sum(count for name, count in marker.counts.items() if name not in _NO_OUTCOMES)
        if told != marker.counts.get("read", told):
            read = marker.counts["read"]
            yield f"Snapshot {line.snapshot_id} of {table} read {read} messages and accounts for {told}."
    yield from _gone_back(table, lines)
    yield from _planned_elsewhere(table, lines)


def _first_offsets(lines: Sequence[SnapshotLine]) -> Mapping[int, int]:
    """Where a table began, by the first of its snapshots, which is empty; nothing where that is kept no more."""
    first = lines[-1]
    marker = Marker.from_summary(first.summary) if rows_in(first.summary) == 0 and first.parent_id is None else None
    return marker.offsets if marker is not None else {}


def _passed(marker: Marker, begun: Mapping[int, int]) -> int:
    """At how many offsets raw may have a message: at all before its own, but for those that no run was to land.

    What was read from the topic later (`rebuild.fill`) may be some of these.
    """
    ends = marker.offsets
    left_out = sum(
        max(min(hole.end, ends.get(hole.partition, 0)) - hole.start, 0) for hole in never_landed(begun, marker.adopted)
    )
    return sum(ends.values()) - max(left_out - marker.refilled, 0)


def _planned_elsewhere(table: str, lines: Sequence[SnapshotLine]) -> Iterator[str]:
    """Batches with another snapshot below them than the one that they were planned on, where both are kept."""
    known = {line.snapshot_id: line for line in lines}
    for line in lines:
        planned, below = line.summary.get(PLANNED_ON), [line, *_steps(line, known)][-1].parent_id
        if planned is not None and below in known and str(below) != planned:
            yield f"Snapshot {line.snapshot_id} of {table} was planned on {planned}, and {below} is below it."


def _steps(line: SnapshotLine, known: Mapping[int, SnapshotLine]) -> Iterator[SnapshotLine]:
    """What a batch has written below its marker, newest first: down to what it was planned on, where it says so."""
    planned, below = line.summary.get(PLANNED_ON), line.parent_id
    while planned is not None and below is not None and below in known and str(below) != planned:
        if not _is_step(known[below], line):
            return
        yield known[below]
        below = known[below].parent_id


def _is_step(below: SnapshotLine, line: SnapshotLine) -> bool:
    """Whether a snapshot belongs to the batch that stands on it.

    A batch deletes in snapshots of its own, before it appends; the same one may be tried once more on top of it. Two
    kinds have no batch's name: where whole files go, Iceberg drops them and leaves out what the session has told it to
    say; and what maintenance wrote anew, below the marker that it repeats, has the same rows whoever did it.
    """
    own = below.summary.get(f"{MARKER_PREFIX}batch")
    if own is None:
        is_of_spark = below.summary.get("engine-name") == line.summary.get("engine-name")
        return is_of_spark and below.summary.get("operation") in {"delete", "replace"}
    return own == line.summary.get(f"{MARKER_PREFIX}batch")


def _gone_back(table: str, lines: Sequence[SnapshotLine]) -> Iterator[str]:
    newer: tuple[SnapshotLine, Marker] | None = None
    for line in lines:
        marker = Marker.from_summary(line.summary)
        if marker is None:
            # A replay begins with an empty table, and reads the log once more from wherever it likes.
            newer = None if line.summary.get("total-records") == "0" else newer
            continue
        back = [p for p, at in marker.offsets.items() if newer[1].offsets.get(p, -1) < at] if newer else []
        if back and newer is not None and newer[1].batch:
            yield f"The offsets of {table} went back in partition {back[0]} with snapshot {newer[0].snapshot_id}."
        newer = line, marker


def broken_between(table: str, raw_uuid: str | None, raw: Marker | None, mirror: Marker | None) -> Iterator[str]:
    """Say what is wrong between a mirror and its raw table, a sentence each.

    Args:
        table: the mirror's name.
        raw_uuid: raw's identity; None where there is no raw table.
        raw: raw's marker.
        mirror: the mirror's.
    """
    if mirror is None:
        return
    if mirror.raw_table is not None and mirror.raw_table != raw_uuid:
        yield f"{table} was folded from another raw table than the one that is there."
    landed = raw.offsets if raw is not None else Offsets()
    ahead = next((p for p, at in mirror.offsets.items() if at > landed.get(p, 0)), None)
    if ahead is not None:
        reached = f"{mirror.offsets[ahead]} past {landed.get(ahead, 0)}" if raw is not None else "no raw"
        yield f"The mirror is ahead of raw in partition {ahead} ({reached})."


def lost_quarantine(table: str, held_uuid: str | None, mirror: Marker | None) -> Iterator[str]:
    """Say that a mirror's quarantine is not the one that it had when its newest batch was published.

    Args:
        table: the mirror's name.
        held_uuid: the identity of its quarantine; None where there is none.
        mirror: the mirror's marker.
    """
    if mirror is not None and mirror.held_table not in (None, held_uuid):
        yield f"The quarantine of {table} is gone, or another table, and nothing else tells what is held."


def foreign(lines: Sequence[SnapshotLine]) -> list[SnapshotLine]:
    """The snapshots that changed rows and that no batch of ours has made, newest first; compaction changes none.

    Between a batch and what it was planned on no other program has come: that is asserted before it is published.
    """
    known = {line.snapshot_id: line for line in lines}
    own = {step.snapshot_id for line in lines for step in _steps(line, known)}
    return [
        line
        for line in lines
        if line.snapshot_id not in own and is_foreign(line.summary.get("operation"), line.summary)
    ]


@dataclass(frozen=True)
class Cut:
    """Messages that other programs have taken from a raw table.

    Attributes:
        lost: how many.
        before: the snapshot that has them still.
        is_least: whether more may be lost: how many rows an equality delete takes, no snapshot counts.
    """

    lost: int
    before: int | None
    is_least: bool = False

    def told(self, table: str) -> tuple[str, str]:
        """What is wrong and what to do, for an error."""
        count = f"at least {self.lost}" if self.is_least else self.lost
        what = f"Another program has deleted {count} messages of {table}: nothing tells what its mirror should hold."
        there = f"Snapshot {self.before} still has them: put" if self.before is not None else "Put"
        return what, f"{there} them back, then compare with `cdcm verify`. Until then no snapshot of it is expired."


def cut_in(lines: Sequence[SnapshotLine]) -> Cut | None:
    """What other programs have taken from raw, as far as its snapshots (newest first) tell; None for nothing.

    What was taken before raw was refilled from its topic is there again (`rebuild.fill`).
    """
    others = foreign(_since_refilled(lines))
    lost = sum(_taken(line) for line in others)
    first = next((line for line in reversed(others) if _taken(line) > 0), None)
    if lost <= 0 or first is None:
        return None
    return Cut(lost, first.parent_id, is_least=any(_by_value(line) for line in others))


def _since_refilled(lines: Sequence[SnapshotLine]) -> Sequence[SnapshotLine]:
    told = [line.summary.get(f"{MARKER_PREFIX}refilled") for line in lines]
    newest = next((found for found in told if found is not None), None)
    return lines if newest is None else lines[: len(told) - told[::-1].index(newest)]


def _taken(line: SnapshotLine) -> int:
    told = ("deleted-records", "added-position-deletes", "added-records")
    deleted, masked, added = (int(line.summary.get(name, "0")) for name in told)
    by_value, counted = _by_value(line), deleted + masked - added
    # Rows that come with deletes by value are new states of some: they put no message back.
    return by_value + max(counted, 0) if by_value else counted


def _by_value(line: SnapshotLine) -> int:
    return int(line.summary.get("added-equality-deletes", "0"))
