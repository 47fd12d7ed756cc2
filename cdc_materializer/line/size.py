"""How many offsets the next batch reads: `records_max` at most, and fewer where the messages of raw are large.

A batch is decoded, folded and kept between its steps by Spark, in memory as far as there is any, and a partition's rows
are gathered by thousands before they can go to disk. So that many large messages do not end the JVM again and again,
their size is looked up before they are read: raw's snapshots tell it on the driver, each of what it has landed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cdc_materializer.lake.line import landings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.lake.lake import LakeTable
    from cdc_materializer.line.line import Line
    from cdc_materializer.offsets import Offsets

#: Of the memory that Spark has for data, the share that a batch's messages may fill as raw's files have them. These are
#: compressed, JSON to a tenth or so, and a message is there several times while it is decoded.
SHARE = 1 / 8
#: How many snapshots of raw are looked at. What landed before these is taken to be as large as what they tell of.
_SNAPSHOTS_MAX = 200
_NOWHERE: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True)
class Landing:
    """What one snapshot of raw has brought.

    Attributes:
        start: raw's offsets before it.
        end: those that it has reached.
        stored: the bytes of its files.
    """

    start: Offsets
    end: Offsets
    stored: int


def offsets_max(line: Line, raw: LakeTable, start: Offsets) -> int:
    """The most offsets that a batch is to cover which begins somewhere in raw."""
    landed = landed_since(start, landings(line.lake.iceberg(raw.name), raw.head, start, _SNAPSHOTS_MAX))
    return fitting(line.table.records_max, landed, start, int(SHARE * memory_for_data(line.lake.spark)))


def landed_since(start: Offsets, found: Sequence[tuple[Offsets, int]]) -> list[Landing]:
    """What raw has got from somewhere on, in order.

    Args:
        start: where that is.
        found: where landings ended, and their bytes, oldest first (`lake.line.landings`). Where the first ended behind
            the start, those before it are not known: expired, or too many.
    """
    landed = [Landing(before, end, stored) for (before, _), (end, stored) in pairwise(found)]
    if not found or not found[0][0].is_ahead_of(start):
        return landed
    end, stored = found[0]
    known = sum(_between(one.start, one.end) for one in landed)
    if known:
        stored = sum(one.stored for one in landed) * _between(start, end) // known
    return [Landing(start, end, stored), *landed]


def fitting(most: int, landed: Sequence[Landing], start: Offsets, room: int) -> int:
    """How many offsets fit, `most` of them at most, and one at least.

    Args:
        most: how many are wanted.
        landed: what raw has got from somewhere before `start` on, in order; that of each is taken to be of one size.
        start: where they begin.
        room: the bytes that they may have.
    """
    count = 0
    for landing in landed:
        whole, rest = _between(landing.start, landing.end), _between(landing.start, landing.end, start)
        stored = landing.stored * rest // whole if whole else 0
        if stored > room:
            return max(1, min(most, count + rest * room // stored))
        count, room = count + rest, room - stored
    return most


def _between(start: Mapping[int, int], end: Mapping[int, int], least: Mapping[int, int] = _NOWHERE) -> int:
    """How many offsets lie between, of them those from `least` on; a partition's begin where nothing tells it."""
    return sum(max(0, last - max(start.get(number, 0), least.get(number, 0))) for number, last in end.items())


def memory_for_data(spark: SparkSession) -> int:
    """The bytes that a JVM which computes has at this time for what Spark computes and keeps; of several the most."""
    context: Any = spark.sparkContext._jsc  # noqa: SLF001 - PySpark has no public way to ask
    told, found = context.sc().getExecutorMemoryStatus().values().iterator(), []
    while told.hasNext():
        found.append(int(told.next()._1()))  # noqa: SLF001 - a tuple's first, as Scala calls it
    return max(found)
