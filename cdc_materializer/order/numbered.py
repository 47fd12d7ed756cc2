"""Whether a numbered transaction (GTID) was read before, going by the numbers that were (`marker.gtids`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.positions import GTID_LOG, file_of
from cdc_materializer.marker.gtids import Runs
from cdc_materializer.strict_json import write_json

if TYPE_CHECKING:
    from cdc_materializer.order.epochs import Recorded

#: Runs of numbers in Spark, each its first and its last.
_RUNS = "array<array<bigint>>"


def is_unseen(recorded: Recorded) -> Column:
    """Whether a change has a transaction id above those of its log that were recorded, or one of another log."""
    known = {log: number for log, number in recorded.logs.items() if log.startswith(GTID_LOG)}
    if not known:
        return F.lit(False)
    last = F.coalesce(_of_key(known, "bigint", F.col(m.LOG)), F.lit(-1))
    # Recorded are those of this epoch; what was read in an earlier one is not new either.
    is_above = (F.col(m.LOG_NUMBER) > last) & ~_is_read_anywhere(recorded)
    return F.coalesce(is_above | _is_left_out(recorded), F.lit(False))


def _is_read_anywhere(recorded: Recorded) -> Column:
    """Whether a change's transaction may have been read in some partition, going by its number (`gtids`)."""
    sets = {log: recorded.gtids.of(log, None) for log in recorded.gtids.sets}
    return F.coalesce(_is_in(_of_key(sets, _RUNS, F.col(m.LOG))), F.lit(False)) if sets else F.lit(False)


def _is_left_out(recorded: Recorded) -> Column:
    """Whether a partition has read its log's transactions, but not this one: others were ahead of it."""
    here = F.concat(F.col(m.PARTITION).cast("string"), F.lit(" "), F.col(m.LOG))
    runs = _of_key(_runs_by_place(recorded, is_own=False), _RUNS, here)
    if recorded.keys_stay:
        # A truncate has no key that binds it to a partition.
        own = _of_key(_runs_by_place(recorded, is_own=True), _RUNS, here)
        runs = F.when(F.col(m.OP) == m.TRUNCATE, runs).otherwise(own)
    # What is before the first that was read may have been read when nobody kept it.
    return F.coalesce((F.col(m.LOG_NUMBER) >= runs[0][0]) & ~_is_in(runs), F.lit(False))


def _runs_by_place(recorded: Recorded, *, is_own: bool) -> dict[str, Runs]:
    """The transactions of each log that a partition has read: by the partition itself, or by any."""
    return {
        f"{partition} {log}": recorded.gtids.of(log, partition if is_own else None)
        for log, by_partition in recorded.gtids.sets.items()
        for partition in by_partition
    }


def may_be_read(recorded: Recorded) -> Column:
    """Whether a change's transaction may have been read before, going by its number (`gtids`).

    What goes on with the transaction that the last batch ended in, from the same server's file, was not. In a topic of
    several partitions nobody asks (`resends.with_copies`).
    """
    if recorded.partitions > 1:
        return F.lit(False)
    found, sets = _is_read_anywhere(recorded), recorded.gtids
    for partition, (log, number) in sets.last.items():
        file = file_of(F.lit(recorded.positions[partition]))
        goes_on = (F.col(m.LOG) == log) & (F.col(m.LOG_NUMBER) == number) & (file_of(F.col(m.POSITION)) == file)
        found = found & ~F.coalesce(goes_on, F.lit(False))
    return F.coalesce(found, F.lit(False))


def _is_in(runs: Column) -> Column:
    return F.exists(runs, lambda run: F.col(m.LOG_NUMBER).between(run[0], run[1]))


def _of_key(values: Mapping[str, int] | Mapping[str, Runs], ddl: str, key: Column) -> Column:
    """What a mapping has for a key; NULL for others.

    One literal: a condition for each key, in one another, would take Spark's planner as many calls deep.
    """
    return F.try_element_at(F.from_json(F.lit(write_json(values)), f"map<string,{ddl}>"), key)
