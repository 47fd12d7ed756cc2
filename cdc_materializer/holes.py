"""Offsets at which a raw table has no message, and how they are read from the topic: in which spans, and which not.

Pure. A hole need not lack anything: marks of transactions, and messages of those that were aborted, leave holes in the
topic itself. Only reading it there tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from cdc_materializer.marker.adopted import Adoption
from cdc_materializer.offsets import Offsets, Span


@dataclass(frozen=True, order=True)
class Hole:
    """Offsets of a partition, `[start, end)`, some of which have no message."""

    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        """Its first and its last offset, as people name messages: `0/3 to 0/9`."""
        first, last = f"{self.partition}/{self.start}", f"{self.partition}/{self.end - 1}"
        return first if first == last else f"{first} to {last}"


@dataclass(frozen=True)
class Bucket:
    """What a raw table has in a bucket of offsets of a partition, `[number * width, (number + 1) * width)`.

    Attributes:
        partition: the partition.
        number: the bucket's, from 0.
        count: at how many of its offsets there is a message; at least 1.
        first: the lowest of them.
        last: the highest of them.
    """

    partition: int
    number: int
    count: int
    first: int
    last: int


def holes_in(buckets: Iterable[Bucket], ends: Mapping[int, int], width: int) -> list[Hole]:
    """Where a raw table has no message before some offsets.

    Exact at both ends of what a bucket has; a bucket that has holes between is one as a whole.

    Args:
        buckets: those that have a message, in any order, of offsets before the ends.
        ends: one past the last offset that is looked at, of each partition.
        width: how many offsets a bucket has.
    """
    found: dict[int, list[Bucket]] = {partition: [] for partition in ends}
    for bucket in buckets:
        found[bucket.partition].append(bucket)
    holes: list[Hole] = []
    for partition, end in ends.items():
        reached = 0
        for bucket in sorted(found[partition], key=lambda one: one.number):
            if bucket.count == bucket.last - bucket.first + 1:
                holes.append(Hole(partition, reached, bucket.first))
                reached = bucket.last + 1
            else:
                whole = min((bucket.number + 1) * width, end)
                holes.append(Hole(partition, reached, whole))
                reached = whole
        holes.append(Hole(partition, reached, end))
    return merged(holes)


def merged(holes: Iterable[Hole]) -> list[Hole]:
    """Holes in order, those that touch or overlap as one, and none that is empty."""
    found: list[Hole] = []
    for hole in sorted(one for one in holes if one.start < one.end):
        last = found[-1] if found else None
        if last is not None and last.partition == hole.partition and hole.start <= last.end:
            found[-1] = replace(last, end=max(last.end, hole.end))
        else:
            found.append(hole)
    return found


def parted(holes: Iterable[Hole], reach: Mapping[int, tuple[int, int]]) -> tuple[list[Hole], list[Hole]]:
    """What of holes a topic can still tell, and what it cannot.

    Args:
        holes: the holes.
        reach: the offsets `[first, end)` of each partition that the topic has as they were written.
    """
    there, gone = [], []
    for hole in holes:
        first, end = reach.get(hole.partition, (0, 0))
        low, high = max(hole.start, first), min(hole.end, end)
        if low >= high:
            gone.append(hole)
            continue
        there.append(replace(hole, start=low, end=high))
        gone += [replace(hole, end=low), replace(hole, start=high)]
    return merged(there), merged(gone)


def without(holes: Iterable[Hole], known: Iterable[Hole]) -> list[Hole]:
    """What of holes lies in none of some others."""
    left = merged(holes)
    for one in known:
        others = [hole for hole in left if hole.partition != one.partition]
        own = [hole for hole in left if hole.partition == one.partition]
        before = [replace(hole, end=min(hole.end, one.start)) for hole in own]
        left = merged([*others, *before, *(replace(hole, start=max(hole.start, one.end)) for hole in own)])
    return left


def never_landed(begun: Mapping[int, int], adopted: Iterable[Adoption]) -> list[Hole]:
    """What runs have passed by: all before a raw table's first offsets, and the gaps that someone has accepted.

    Args:
        begun: the offset of each partition that raw was begun at.
        adopted: what was accepted. Where it does not say how far raw had got, only that of a single partition is known:
            all that was lost is right before where it went on.
    """
    found = [Hole(partition, 0, at) for partition, at in begun.items()]
    for one in adopted:
        if one.began:
            found += [Hole(partition, one.began.get(partition, 0), at) for partition, at in one.offsets.items()]
        elif len(one.offsets) == 1:
            found += [Hole(partition, max(at - one.lost, 0), at) for partition, at in one.offsets.items()]
    return merged(found)


def accepted(adopted: Iterable[Adoption]) -> tuple[Hole, ...]:
    """Where messages were lost and somebody accepted that, of topics that were made again too.

    Those have an empty hole where the new topic begins: behind what was read of the old one came what was not. A gap of
    which a version that did not keep it tells no beginning is one offset long.
    """
    found = []
    for one in adopted:
        for partition, at in one.offsets.items() if one.what != "positions" else ():
            start = min(one.began.get(partition, 0), at) if one.began else max(at - (one.what == "gap"), 0)
            if start < at or one.what == "topic":
                found.append(Hole(partition, start, at))
    return tuple(found)


def spans_of(topic: str, holes: Iterable[Hole], limit: int) -> Iterator[Span]:
    """Spans that hold all holes, in batches of at most so many offsets, or one of each partition.

    A span goes from hole to hole, and takes what lies between with it: so their number does not grow with the holes'.
    """
    waiting: dict[int, list[Hole]] = {}
    for hole in merged(holes):
        waiting.setdefault(hole.partition, []).append(hole)
    while waiting:
        share = max(limit // len(waiting), 1)
        start = {partition: left[0].start for partition, left in waiting.items()}
        caps = {partition: first + share for partition, first in start.items()}
        end = {p: max(min(one.end, caps[p]) for one in left if one.start < caps[p]) for p, left in waiting.items()}
        yield Span(topic, Offsets(start), Offsets(end))
        rest = {p: [replace(one, start=max(one.start, end[p])) for one in left] for p, left in waiting.items()}
        waiting = {p: kept for p, left in rest.items() if (kept := [one for one in left if one.start < one.end])}


def exactly(holes: Iterable[Hole], gaps: Iterable[Hole]) -> list[Hole]:
    """What of the gaps between messages lies in holes: the offsets that have no message, and no other."""
    known = list(gaps)
    return merged(
        Hole(hole.partition, max(hole.start, gap.start), min(hole.end, gap.end))
        for hole in holes
        for gap in known
        if gap.partition == hole.partition
    )
