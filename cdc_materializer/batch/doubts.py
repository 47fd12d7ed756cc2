"""What `strict` holds because nothing but records' timestamps places it (design §4.5, `docs/adr/0007`).

A key without positions that is in several partitions stays as the mirror has it. All of its changes are held but the
one that left the row so, deletes and the tombstones behind them too: where any of them belongs nobody knows.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.errors import Code
from cdc_materializer.fold.fold import effective, is_delete
from cdc_materializer.order.key_order import AMBIGUOUS, GROUP, ORDER

#: Whether a change is held because of its place.
DOUBTED = "__cdc_doubted"


def with_doubted(states: DataFrame, stands: Column) -> DataFrame:
    """Add DOUBTED to states of a batch, unless it says already what runs have held.

    Args:
        states: from `batch.fold_batch`.
        stands: whether an earlier message has left its row as the mirror has it (`standing`).
    """
    if DOUBTED in states.columns:
        return states
    is_told = effective() & F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE) & F.col(m.POSITION).isNull()
    is_unsure = F.max(AMBIGUOUS).over(Window.partitionBy(GROUP))
    return states.withColumn(DOUBTED, is_told & is_unsure & ~(stands & ~is_delete()))


def as_held(states: DataFrame, held: DataFrame | None) -> DataFrame:
    """Add DOUBTED as runs have decided it: what they published before a key was in a second partition stays so.

    Args:
        states: of all batches.
        held: the open rows of the quarantine table; None where there is no such table.
    """
    if held is None:
        return states.withColumn(DOUBTED, F.lit(False))
    names = {"topic": m.TOPIC, "partition": m.PARTITION, "offset": m.OFFSET, "key": m.KEY}
    unsure = held.where(F.col("code") == str(Code.ORDER_AMBIGUOUS))
    places = unsure.select(*[F.col(name).alias(f"held_{name}") for name in names]).distinct()
    match = [F.col(own).eqNullSafe(F.col(f"held_{name}")) for name, own in names.items()]
    joined = states.join(places, match, "left")
    return joined.withColumn(DOUBTED, effective() & F.col("held_offset").isNotNull()).drop(*places.columns)


def with_ends(states: DataFrame, column: str) -> DataFrame:
    """Let `column`, whether the row was gone already, leave out the ends that are held."""
    of_key = Window.partitionBy(GROUP)
    before = of_key.orderBy(ORDER).rowsBetween(Window.unboundedPreceding, -1)
    told = F.last(F.when(effective() & ~F.col(DOUBTED), is_delete()), ignorenulls=True).over(before)
    is_held = F.max(DOUBTED).over(of_key)
    return states.withColumn(column, F.when(is_held, F.coalesce(told, F.lit(False))).otherwise(F.col(column)))
