"""Which rows a truncate ends: those of a mirror as a column, and those that a fold has all states of.

`merge.is_truncated` says the first in statements. Both are needed: a statement takes its values as parameters, which an
expression of a frame has none of.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, WindowSpec
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.marker.reach import reach_of
from cdc_materializer.merge import CDC, SOURCE_TABLE, Origin
from cdc_materializer.order.epochs import Recorded
from cdc_materializer.order.resends import REPLAYED, reach
from cdc_materializer.order.truncates import Truncate

#: Of a truncate among the changes of a key: what the row is from that the mirror has of it, as `row_from` tells it;
#: NULL where it has none, or the key's past is among the changes.
THERE = "__cdc_there"
_CHANGE = {"partition": m.PARTITION, "position": m.POSITION, "op": m.OP}


def is_ended(truncate: Truncate, origin: Origin | None) -> Column:
    """Whether a row `t` is one that a truncate ends, of its table and from before it; never NULL.

    Args:
        truncate: the truncate.
        origin: of the mirror, where several source tables feed it.
    """
    found = _is_before(truncate)
    if origin is not None and truncate.table is not None:
        found = (F.coalesce(_of_row(SOURCE_TABLE), F.lit(origin.first)) == F.lit(truncate.table)) & found
    return F.coalesce(found, F.lit(False))


def _is_before(truncate: Truncate) -> Column:
    position = _of_row("position")
    behind = (_of_row("partition") == truncate.partition) & (_of_row("offset") < truncate.offset)
    if truncate.position is None:
        return behind
    earlier = position < F.lit(truncate.position)
    # A row that a snapshot showed is held against the truncate's own place in the log.
    earlier = earlier | ((_of_row("op") == "r") & (position < F.lit(reach_of(truncate.position))))
    return (position.isNotNull() & earlier) | (position.isNull() & behind)


def _of_row(name: str) -> Column:
    return F.col(f"t.{CDC}.{name}")


def row_from(change: Column, ends: Column) -> Column:
    """What a row is from, as `without_idle_wipes` holds a truncate against it.

    Args:
        change: a struct of partition, position and op.
        ends: whether it has ended the row.
    """
    parts = {"partition": change["partition"], "position": change["position"], "is_read": change["op"] == "r"}
    return F.struct(*[part.alias(name) for name, part in parts.items()], ends.alias("ends"))


def without_idle_wipes(
    guarded: DataFrame, recorded: Recorded, changes_a_row: Column, ends_a_row: Column, before: WindowSpec
) -> DataFrame:
    """A truncate leaves alone a row from behind it by the positions, as one that is sent again does, of snapshots too.

    What counts is the change that the row is from: that of a database that was restored is at a lower position than
    what its key had shown before. And any truncate leaves a row of another partition that has no position, of which
    nothing says that it was there (§2.2).

    Args:
        guarded: changes, among which truncates are (`life.with_endings`), with THERE where the mirror has rows.
        recorded: how far the source had got before.
        changes_a_row: whether a change counts: understood, and not sent before.
        ends_a_row: whether it is a delete of any kind.
        before: what a key has ahead of a change.
    """
    change = F.struct(*[F.col(at).alias(name) for name, at in _CHANGE.items()])
    is_told = changes_a_row & F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE)
    row = F.last(F.when(is_told, row_from(change, ends_a_row)), ignorenulls=True).over(before)
    row = F.coalesce(row, F.col(THERE)) if THERE in guarded.columns else row
    position = F.col(m.POSITION)
    is_idle = row["position"] > F.when(row["is_read"], reach(position)).otherwise(position)
    is_idle = F.coalesce(is_idle, F.lit(False))
    if recorded.partitions > 1:
        is_beside = row["position"].isNull() & ~row["ends"] & (row["partition"] != F.col(m.PARTITION))
        is_idle = is_idle | F.coalesce(is_beside, F.lit(False))
    is_wipe = F.coalesce(F.col(m.OP) == m.WIPE, F.lit(False))
    return guarded.withColumn(REPLAYED, F.when(is_wipe, is_idle).otherwise(F.col(REPLAYED)))
