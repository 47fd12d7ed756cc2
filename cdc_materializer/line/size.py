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

from cdc_materializer.lake.line import landings, stored_since
from cdc_materializer.line.line import marker_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.lake.lake import LakeTable
    from cdc_materializer.line.line import Line
    from cdc_materializer.offsets import Offsets

#: Of the memory that Spark has for data, the share that a batch's messages may fill as raw's files have them. These are
#: compressed, JSON to a tenth or so, and a message is there several times while it is decoded.
SHARE = 1 / 8
#: How many snapshots of raw are looked at. What landed before these is taken to be as large as raw is on average.
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
    table, end = line.lake.iceberg(raw.name), marker_of(raw).offsets
    found = landings(table, raw.head, start, _SNAPSHOTS_MAX)
    landed = landed_since(start, end, found, stored_since(table, raw.head))
    return fitting(line.table.records_max, landed, start, int(SHARE * memory_for_data(line.lake.spark)))


def landed_since(
    start: Offsets, end: Offsets, found: Sequence[tuple[Offsets, int]], whole: tuple[Offsets, int]
) -> list[Landing]:
    """What raw has got from somewhere on, in order.

    Args:
        start: where that is.
        end: how far raw goes.
        found: where landings ended, and their bytes, oldest first (`lake.line.landings`). Where the first ended behind
            the start, or there is none, what came before is not known: its snapshots have expired, or are too many.
        whole: where raw began, and its bytes; what is not known is taken to be as large as an offset is on average.
    """
    landed = [Landing(before, behind, stored) for (before, _), (behind, stored) in pairwise(found)]
    reached = found[0][0] if found else end
    if not reached.is_ahead_of(start):
        return landed
    began, stored = whole
    return [Landing(start, reached, stored * _between(start, reached) // max(_between(began, end), 1)), *landed]


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
    """The bytes that a JVM which computes has at this time for what Spark computes and keeps; of several the most.

    Where there are executors, the driver's JVM computes nothing.
    """
    context: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark has no public way to ask
    told, found = context.getExecutorMemoryStatus().iterator(), {}
    while told.hasNext():
        one = told.next()
        found[str(one._1())] = int(one._2()._1())  # noqa: SLF001 - parts of tuples, as Scala calls them
    driver = str(context.env().blockManager().blockManagerId().hostPort())
    return max([size for name, size in found.items() if name != driver] or found.values())
