"""How the batches of a table went, told by the markers in its snapshots (design section 3).

Pure: snapshots of the mirror and of its quarantine in, points of a trend out. Maintenance writes the newest marker once
more, so a batch is known by its id and counted where it is met first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime  # pydantic reads the annotation at run time
from typing import Protocol

from pydantic import Field

from cdc_materializer.marker.marker import STOPPED, Marker
from cdc_materializer.report.models import Report

#: The most points of a trend: as many bars as can be told apart on a telephone.
POINTS_MAX = 60
OUTCOMES = ("upserted", "deleted", "unchanged", "superseded", "replayed", "ignored", "quarantined")


class Snapshot(Protocol):
    """The part of a snapshot that a trend is made from."""

    @property
    def summary(self) -> Mapping[str, str]:
        """Iceberg's summary, with the marker in it."""

    @property
    def at(self) -> datetime:
        """When it was made."""

    @property
    def is_seen(self) -> bool:
        """Whether readers have seen it; batches of a replay's branch nobody has."""


class TrendPoint(Report):
    """What became of the messages of one batch, or of several that follow each other."""

    batch: str = Field(
        description="Id of the batch, of several the newest; `cdcm report --as-of` takes it. Empty: the table stopped "
        "for a reason that no message of a batch carries."
    )
    batches: int = Field(ge=1, description="Batches that are added up here.")
    since: datetime = Field(description="When the first of them was published, or stopped.")
    until: datetime = Field(description="When the last of them was.")
    stopped: int = Field(
        default=0,
        ge=0,
        description="Of them, batches that were stopped; their messages count where they are published.",
    )
    read: int = Field(default=0, ge=0, description="Messages.")
    upserted: int = Field(default=0, ge=0, description="Messages that became the row of their key.")
    deleted: int = Field(default=0, ge=0, description="Messages that removed the row of their key.")
    unchanged: int = Field(default=0, ge=0, description="Messages whose outcome the mirror already had.")
    superseded: int = Field(default=0, ge=0, description="Messages overtaken by a later one of the same key.")
    replayed: int = Field(default=0, ge=0, description="Messages that the source had sent before.")
    ignored: int = Field(default=0, ge=0, description="Messages that change no row.")
    quarantined: int = Field(default=0, ge=0, description="Messages held back.")
    reported: int = Field(default=0, ge=0, description="Messages published with a remark.")


@dataclass(frozen=True)
class _Batch:
    """One batch, as the first snapshot that it left says."""

    batch: str
    at: datetime
    stopped: bool
    counts: Mapping[str, int] = field(default_factory=dict)


def trend(mirror: Sequence[Snapshot], quarantine: Sequence[Snapshot], reported: Mapping[str, int]) -> list[TrendPoint]:
    """Return the trend of a table, oldest first, with at most `POINTS_MAX` points.

    Args:
        mirror: the mirror's snapshots, newest first.
        quarantine: those of its quarantine table, likewise; a batch that is only there was stopped before it was
            published, unless it is older than what the mirror still tells of.
        reported: messages published with a remark, by the id of the batch.
    """
    published = _batches(mirror, stopped=False)
    oldest = mirror[-1].at if mirror else None
    kept = [found for found in quarantine if oldest is None or found.at >= oldest]
    tried = _batches((found for found in kept if not _is_note(found)), stopped=True)
    known = {**tried, **published}
    batches = sorted([*known.values(), *_stops(kept, known)], key=lambda batch: batch.at)
    size = -(-len(batches) // POINTS_MAX)
    # Counted from the end, so that it is the oldest point which may have fewer batches than the others.
    ends = range(len(batches), 0, -size) if batches else ()
    return [_point(batches[max(end - size, 0) : end], reported) for end in reversed(ends)]


def last_published(mirror: Iterable[Snapshot]) -> datetime | None:
    """Return when the newest batch was published; None where no snapshot (newest first) tells of any."""
    batch: str | None = None
    at: datetime | None = None
    for snapshot in mirror:
        marker = Marker.from_summary(snapshot.summary)
        if marker is None or not marker.counts or not snapshot.is_seen:
            continue
        if batch not in {None, marker.batch}:
            break
        batch, at = marker.batch, snapshot.at
    return at


def _batches(snapshots: Iterable[Snapshot], *, stopped: bool) -> dict[str, _Batch]:
    found: dict[str, _Batch] = {}
    for snapshot in snapshots:
        marker = Marker.from_summary(snapshot.summary)
        # A table's first snapshot marks where it starts, and counts nothing. What was swapped in, or taken back, is no
        # batch: those that it is made of were counted when they were read for the first time.
        is_batch = marker is not None and marker.counts and snapshot.is_seen and marker.swapped is None
        if marker is not None and is_batch:
            found[marker.batch] = _Batch(marker.batch, snapshot.at, stopped, marker.counts)
    return found


def _is_note(snapshot: Snapshot) -> bool:
    """Whether a snapshot of quarantine was made for a stop that no message carries, or for the end of one."""
    marker = Marker.from_summary(snapshot.summary)
    return marker is not None and marker.counts.keys() == {STOPPED}


def _stops(quarantine: Sequence[Snapshot], known: Mapping[str, _Batch]) -> Iterator[_Batch]:
    """Yield the stops that are no batch's; one that follows on another stop, with nothing published since, is the same.

    Args:
        quarantine: its snapshots, newest first.
        known: the batches by their ids.
    """
    published = [batch.at for batch in known.values() if not batch.stopped]
    last: datetime | None = None
    for snapshot in reversed(quarantine):
        marker = Marker.from_summary(snapshot.summary)
        if marker is None:
            continue
        if not _is_note(snapshot):
            last = snapshot.at if marker.batch in known and known[marker.batch].stopped else last
        elif marker.counts[STOPPED]:
            if last is None or any(last < at <= snapshot.at for at in published):
                yield _Batch("", snapshot.at, stopped=True)
            last = snapshot.at


def _point(batches: Sequence[_Batch], reported: Mapping[str, int]) -> TrendPoint:
    published = [batch for batch in batches if not batch.stopped]
    return TrendPoint(
        batch=next((batch.batch for batch in reversed(batches) if batch.batch), ""),
        batches=len(batches),
        since=batches[0].at,
        until=batches[-1].at,
        stopped=len(batches) - len(published),
        read=sum(batch.counts.get("read", 0) for batch in published),
        reported=sum(reported.get(batch.batch, 0) for batch in published),
        **{name: sum(batch.counts.get(name, 0) for batch in published) for name in OUTCOMES},
    )
