"""The line of snapshots that a state of a table stands on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.lake.metadata import summary_of
from cdc_materializer.marker.foreign import is_foreign
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_PREFIX, Marker
from cdc_materializer.offsets import Offsets


def snapshot_line(table: Any, head: int | None, until: int | None = None) -> list[int]:  # noqa: ANN401 - a Java object
    """A snapshot and its ancestors, newest first, down to one of them or to the first that is kept."""
    found: list[int] = []
    snapshot = table.snapshot(head) if head is not None else None
    while snapshot is not None and until not in found[-1:]:
        found.append(int(snapshot.snapshotId()))
        parent = snapshot.parentId()
        snapshot = table.snapshot(parent) if parent is not None else None
    return found


def summaries(table: Any, head: int | None) -> list[tuple[int, int, bool, dict[str, str]]]:  # noqa: ANN401 - as above
    """A snapshot and those before it that are kept, newest first: id, milliseconds since 1970, first, summary.

    The first of a table is the one that has no parent.
    """
    found = []
    for number in snapshot_line(table, head):
        snapshot = table.snapshot(number)
        made_at, is_first = int(snapshot.timestampMillis()), snapshot.parentId() is None
        found.append((number, made_at, is_first, summary_of(snapshot)))
    return found


def heads(table: Any) -> dict[int, int]:  # noqa: ANN401 - as above
    """The snapshots that readers of main have stood on, each since when, in milliseconds since 1970.

    As far back as the table's log goes, which expiry shortens. What a replay folds comes into main's line all at once,
    and only its last snapshot is one of these.
    """
    return {int(entry.snapshotId()): int(entry.timestampMillis()) for entry in table.history()}


def batches_seen(table: Any) -> frozenset[str]:  # noqa: ANN401 - as above
    """The ids of the batches that readers of main have seen, by `heads`; what was rolled back since was seen too."""
    found = [table.snapshot(number) for number in heads(table)]
    told = [Marker.from_summary(summary_of(snapshot)) for snapshot in found if snapshot is not None]
    return frozenset(marker.batch for marker in told if marker is not None)


def markers(table: Any, head: int | None) -> Iterator[tuple[int, Marker]]:  # noqa: ANN401 - a Java object
    """The marked ones of a snapshot and those before it that are kept, newest first, with what they say."""
    snapshot = table.snapshot(head) if head is not None else None
    while snapshot is not None:
        marker = Marker.from_summary(summary_of(snapshot))
        if marker is not None:
            yield int(snapshot.snapshotId()), marker
        parent = snapshot.parentId()
        snapshot = table.snapshot(parent) if parent is not None else None


def snapshots_of(table: Any, head: int | None) -> list[SnapshotLine]:  # noqa: ANN401 - a Java object
    """A snapshot and those before it that are kept, newest first, each with its operation in its summary."""
    found = []
    for number in snapshot_line(table, head):
        one = table.snapshot(number)
        summary = {**summary_of(one), "operation": str(one.operation())}
        found.append(SnapshotLine(number, one.parentId(), one.sequenceNumber(), summary, int(one.timestampMillis())))
    return found


def records(snapshot: Any) -> int:  # noqa: ANN401 - a Java object
    """How many rows a snapshot counts, those included that delete files hide."""
    return int(summary_of(snapshot).get("total-records", "0")) if snapshot is not None else 0


def stored_since(table: Any, head: int | None) -> tuple[Offsets, int]:  # noqa: ANN401 - a Java object
    """Where raw began, as its first snapshot tells, and how many bytes its files have."""
    snapshot, genesis = table.snapshot(head) if head is not None else None, table.snapshot(GENESIS_TAG)
    told = summary_of(genesis) if genesis is not None else {}
    size = _told(summary_of(snapshot), "total-files-size") if snapshot is not None else 0
    return Offsets.from_json(told.get(f"{MARKER_PREFIX}offsets", "{}")), size


def landed(table: Any, head: int | None, limit: int) -> list[tuple[Offsets, int]]:  # noqa: ANN401 - a Java object
    """How far raw went and how many messages it had, in its newest marked snapshots, newest first.

    What other programs did between two landings is left out of their difference: messages that they took away are still
    owed by the batch that reads them, and messages that they brought are none that landed.

    Down to where something was read for it that it had lacked: no difference across that tells of one span.

    Args:
        table: raw.
        head: the snapshot to begin with.
        limit: how many snapshots to look at.
    """
    found: list[tuple[Offsets, int]] = []
    refilled = ""
    snapshot = table.snapshot(head) if head is not None else None
    # Of the totals only the newest: one on the way may have begun anew (`lake.commit`), as no difference does.
    total = records(snapshot)
    while snapshot is not None and limit:
        told = summary_of(snapshot)
        if f"{MARKER_PREFIX}offsets" in told:
            before = told.get(f"{MARKER_PREFIX}refilled", "0")
            if found and before != refilled:
                return found
            refilled = before
            found.append((Offsets.from_json(told[f"{MARKER_PREFIX}offsets"]), total))
        # Above the newest landing the total is brought down to that landing's own.
        if not found or not is_foreign(snapshot.operation(), told):
            total -= _told(told, "added-records") - _told(told, "deleted-records")
        parent = snapshot.parentId()
        snapshot, limit = table.snapshot(parent) if parent is not None else None, limit - 1
    return found


def landings(table: Any, head: int | None, since: Offsets, limit: int) -> list[tuple[Offsets, int]]:  # noqa: ANN401 - as above
    """Where the landings of raw ended, and how many bytes their files have, oldest first.

    The first one ended at `since` or before it, unless there is none such any more. A commit that adds no files, such
    as the one that marks a compaction, is no landing.

    Args:
        table: raw.
        head: the snapshot to begin with.
        since: offsets that are of interest.
        limit: how many snapshots to look at.
    """
    found: list[tuple[Offsets, int]] = []
    snapshot = table.snapshot(head) if head is not None else None
    while snapshot is not None and limit:
        told = summary_of(snapshot)
        if snapshot.operation() == "append" and f"{MARKER_PREFIX}offsets" in told:
            end, stored = Offsets.from_json(told[f"{MARKER_PREFIX}offsets"]), _told(told, "added-files-size")
            is_before = not end.is_ahead_of(since)
            if stored or is_before:
                found.append((end, stored))
            if is_before:
                break
        parent = snapshot.parentId()
        snapshot, limit = table.snapshot(parent) if parent is not None else None, limit - 1
    return found[::-1]


def brought_by_others(table: Any, head: int | None) -> list[int]:  # noqa: ANN401 - a Java object
    """The snapshots that brought or changed rows and that no batch of ours has made, newest first.

    One that only removed rows has brought none; compaction changes none.
    """
    found = []
    for number in snapshot_line(table, head):
        snapshot = table.snapshot(number)
        told = summary_of(snapshot)
        # A deletion vector is written anew with all of its positions; those that it had before are removed ones.
        marked = _told(told, "added-position-deletes") - _told(told, "removed-position-deletes")
        came, by_value = _told(told, "added-records"), _told(told, "added-equality-deletes")
        is_more = came >= _told(told, "deleted-records") + marked and (came > 0 or by_value == 0)
        if is_foreign(snapshot.operation(), told) and is_more:
            found.append(number)
    return found


def _told(summary: Mapping[str, str], name: str) -> int:
    return int(summary.get(name, "0"))


def is_ours_alone(table: Any, head: int | None) -> bool:  # noqa: ANN401 - a Java object
    """Whether batches of ours are known to have written all rows: the line goes back to when there were none.

    Expiry cuts a line off, and PyIceberg's then looks like a whole one, but for the rows that its first snapshot has.
    """
    line = snapshot_line(table, head)
    if not line or records(table.snapshot(line[-1])):
        return False
    snapshots = [table.snapshot(number) for number in line]
    every = [(snapshot.operation(), summary_of(snapshot)) for snapshot in snapshots]
    return not any(is_foreign(operation, told) and _told(told, "added-records") for operation, told in every)
