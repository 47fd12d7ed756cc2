"""Where a replay begins, as `--from` says it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from cdc_materializer.errors import UsageError
from cdc_materializer.names import shown
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.past import parse_time

Kind: TypeAlias = Literal["earliest", "offset", "time", "kafka"]


@dataclass(frozen=True)
class Start:
    """Where a replay begins.

    Attributes:
        kind: raw's first message; an offset; a time; or the topic's first message.
        every: the offset from which each partition is read again; None where they are named, or none is meant.
        places: the offset of each partition that is named; the others are not read again before where the mirror is.
        at: the time of the first message that is read again.
    """

    kind: Kind = "earliest"
    every: int | None = None
    places: Mapping[int, int] | None = None
    at: datetime | None = None


EARLIEST = Start()
_DO = (
    "Write `earliest`, `kafka`, `offset:1200` (in every partition), `offset:0/1200,1/900`, or `time:2026-11-01T00:00Z`."
)


def parse_start(text: str) -> Start:
    """Read what `--from` was given.

    Raises:
        UsageError: it is nothing of that kind.
    """
    kind, _, where = text.partition(":")
    if text in ("earliest", "kafka"):
        return Start("earliest" if text == "earliest" else "kafka")
    if kind == "offset" and _is_number(where):
        return Start("offset", every=int(where))
    if kind == "offset" and where:
        places = [part.split("/") for part in where.split(",")]
        if all(len(place) == 2 and all(map(_is_number, place)) for place in places):  # noqa: PLR2004 - partition/offset
            return Start("offset", places={int(partition): int(offset) for partition, offset in places})
    if kind == "time":
        at = parse_time(where)
        if at is not None:
            return Start("time", at=at)
    raise UsageError(f"`--from {shown(text)}` says no place to begin at.", _DO)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def wanted_offsets(start: Start, reached: Offsets, first_since: Mapping[int, int]) -> Offsets:
    """The offset of each partition from which on messages are read again; that of the mirror where none is.

    Args:
        start: an offset or a time.
        reached: how far the mirror is.
        first_since: for a time, the first message of each partition from then on.

    Raises:
        UsageError: the mirror has not read so far, or has no such partition.
    """
    if start.places is not None and not start.places.keys() <= reached.keys():
        unknown = min(start.places.keys() - reached.keys())
        raise UsageError(f"The mirror has read no partition {unknown}.", "See `cdcm status` for those that it has.")
    named = first_since if start.at is not None else (start.places or {})
    found = {p: start.every if start.every is not None else named.get(p, end) for p, end in reached.items()}
    beyond = [at > reached[p] for p, at in found.items()]
    # Of a time, a partition whose messages since then have only landed has nothing to be read again.
    if all(beyond) or (any(beyond) and start.places is not None):
        what = "The mirror has not read so far yet, so there is nothing to read again."
        raise UsageError(what, "See `cdcm status` for how far it is.")
    return Offsets({p: min(at, reached[p]) for p, at in found.items()})


def is_before(offsets: Mapping[int, int], wanted: Mapping[int, int]) -> bool:
    """Whether a state of the mirror has none of the messages that are to be read again."""
    return all(at <= wanted.get(p, at) for p, at in offsets.items())
