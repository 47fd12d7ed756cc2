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
