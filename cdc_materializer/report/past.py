"""A table's state at some time in the past, found among the snapshots that it keeps.

Pure. What a report says can be said of any batch again for as long as Iceberg keeps the snapshots of then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.errors import UsageError
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName, shown
from cdc_materializer.report.wording import utc

Line = Sequence[SnapshotLine]


@dataclass(frozen=True)
class Lines:
    """The snapshots of a mirror, of its raw and of its quarantine table, each newest first."""

    mirror: Line = ()
    raw: Line = ()
    quarantine: Line = ()


def newest_marker(line: Line) -> Marker | None:
    """Return the newest marker of a line; None where no batch has left one."""
    return next((marker for snapshot in line if (marker := Marker.from_summary(snapshot.summary)) is not None), None)


def parse_time(text: str) -> datetime | None:
    """Read a time in ISO 8601, in UTC where it names no zone; None for what is none."""
    try:
        at = datetime.fromisoformat(text)
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        # In UTC a time of the first or the last day may be none that there is.
        return None


def lines_at(name: TableName, lines: Lines, at: datetime) -> Lines:
    """Return the snapshots that there were at a time.

    Raises:
        UsageError: those of then are not kept any more.
    """
    return Lines(
        mirror=_until(name, lines.mirror, at),
        raw=_until(name.raw, lines.raw, at),
        quarantine=_until(name.quarantine, lines.quarantine, at),
    )


def _until(name: TableName, line: Line, at: datetime) -> Line:
    kept = [snapshot for snapshot in line if snapshot.at <= at]
    if line and not kept and line[-1].parent_id is not None:
        raise UsageError(
            f"{name} keeps no state of {utc(at)} any more; its oldest is of {utc(line[-1].at)}.",
            "Name a later time, or leave the table out with --table.",
        )
    return kept


def batch_lines(lines: Lines, batch: str) -> Lines | None:
    """Return the snapshots that there were when a batch was done; None where no snapshot tells of it.

    A batch is done with what it changed last: its own violations are committed before the mirror, and those that it
    ended after. What maintenance commits later under the name of the same batch changes neither.
    """
    published = _first(lines.mirror, batch)
    mirror = lines.mirror[published:] if published is not None else None
    following = lines.mirror[: published or 0]
    next_at = min((line.at for line in following if _batch(line) not in {None, batch}), default=None)
    own = [
        at
        for at, line in enumerate(lines.quarantine)
        if _batch(line) == batch and (next_at is None or line.at <= next_at)
    ]
    if mirror is None and not own:
        return None
    quarantine = lines.quarantine[own[0] :] if own else [s for s in lines.quarantine if mirror and s.at <= mirror[0].at]
    done = max(line[0].at for line in (mirror, quarantine) if line)
    return Lines(
        mirror=mirror if mirror is not None else [line for line in lines.mirror if line.at <= done],
        raw=[line for line in lines.raw if line.at <= done],
        quarantine=quarantine,
    )


def _first(line: Line, batch: str) -> int | None:
    """Return where in a line, newest first, the oldest snapshot of a batch is."""
    return next((at for at in range(len(line) - 1, -1, -1) if _batch(line[at]) == batch), None)


def _batch(snapshot: SnapshotLine) -> str | None:
    marker = Marker.from_summary(snapshot.summary)
    return marker.batch if marker is not None else None


def done_at(lines: Lines) -> datetime:
    """Return when the newest of some lines' snapshots was made."""
    return max(line[0].at for line in (lines.mirror, lines.quarantine) if line)


def unknown_batch(batch: str) -> UsageError:
    """Return the error for a name that is neither a time nor a batch of any table."""
    return UsageError(
        f"{shown(batch)} is neither a time nor a batch that a table still knows.",
        "Give a time such as 2026-11-21T10:00Z, or a `batch` of `cdcm report --json`.",
    )
