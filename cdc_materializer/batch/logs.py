"""What a batch's states tell of the logs that its changes come from: binlogs, and numbered transactions.

One row of facts is of a partition, a log, and a range of its numbers (`facts.facts_of`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.positions import file_name
from cdc_materializer.marker.gtids import GtidSets, Runs, joined


def of_logs(is_latest: Column) -> list[Column]:
    """The number of a log's last transaction, and its first message.

    Args:
        is_latest: whether a change is of the epoch that goes on: what one that is over has shown says nothing of it.
    """
    is_latest = is_latest & F.col(m.LOG).isNotNull()
    begun = F.struct(F.col(m.TIME), F.col(m.OFFSET))
    last = F.max(F.when(is_latest, F.coalesce(m.LOG_NUMBER, F.lit(0))))
    return [last.alias("number"), F.min(F.when(is_latest, begun)).alias("begun")]


def numbered(is_own: Column) -> list[Column]:
    """The ends of the numbers that messages have in a log, and the first place of one that has a number."""
    number = F.when(is_own, F.col(m.LOG_NUMBER))
    first = F.min(F.when(number.isNotNull(), F.col(m.POSITION)))
    return [F.min(number).alias("first_number"), F.max(number).alias("last_number"), first.alias("first_place")]


def gtids_of(rows: Sequence[Row], placed: Sequence[Row]) -> GtidSets:
    """The numbered transactions of a batch, and those of its highest positions, which are the last of their kind.

    But where they are of several files: what is last then may be what another server has sent again. Each member of a
    group of servers takes numbers from blocks of its own; nobody has read what lies between.
    """
    sets: dict[str, dict[int, Runs]] = {}
    for row in rows:
        if row[m.LOG] is not None and row["first_number"] is not None:
            known, run = sets.setdefault(row[m.LOG], {}), (row["first_number"], row["last_number"])
            known[row[m.PARTITION]] = joined((*known.get(row[m.PARTITION], ()), run))
    files: dict[int, set[str]] = {}
    for row in rows:
        if row["first_place"] is not None:
            files.setdefault(row[m.PARTITION], set()).add(file_name(row["first_place"]))
    last = {}
    for row in placed:
        partition, at = row[m.PARTITION], row["highest"]
        if at["number"] is not None and files[partition] == {file_name(at["position"])}:
            last[partition] = (row[m.LOG], at["number"])
    return GtidSets(sets, last)


def files_of(rows: Sequence[Row]) -> tuple[str, ...]:
    """The series of files that changes are of, as they began."""
    return tuple(dict.fromkeys(row[m.LOG] for row in sorted(rows, key=lambda row: tuple(row["begun"]))))
