"""The line of snapshots that a state of a table stands on."""

from __future__ import annotations

from typing import Any


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
        found.append((number, made_at, is_first, dict(snapshot.summary())))
    return found
