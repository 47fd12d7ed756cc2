"""What `strict` holds because nothing but records' timestamps places it (design §4.5, `docs/adr/0007`).

A key without positions that is in several partitions goes on with one of them: the one that its row is from, or that
told of it first. What that one says comes in the order of its offsets; where the changes of others belong nobody knows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.errors import Code
from cdc_materializer.fold import AMBIGUOUS, GROUP, ORDER, effective, is_delete

#: Whether a change is held because of its place.
DOUBTED = "__cdc_doubted"
#: The partition from whose message the mirror has a row, at the states that have left it so (`standing`).
TOLD_BY = "__cdc_told_by"
_HOME = "__cdc_home"


def with_doubted(states: DataFrame) -> DataFrame:
    """Add DOUBTED to states of a batch, unless it says already what runs have held."""
    if DOUBTED in states.columns:
        return states
    of_key = Window.partitionBy(GROUP)
    home = F.min_by(F.col(m.PARTITION), F.when(effective(), F.col(ORDER))).over(of_key)
    if TOLD_BY in states.columns:
        home = F.coalesce(F.max(TOLD_BY).over(of_key), home)
    is_doubted = effective() & F.col(AMBIGUOUS) & (F.col(m.PARTITION) != F.col(_HOME))
    return states.withColumn(_HOME, home).withColumn(DOUBTED, is_doubted).drop(_HOME)


def as_held(states: DataFrame, unreleased: DataFrame | None) -> DataFrame:
    """Add DOUBTED as runs have decided it: of two partitions they go on with the one that they have read first.

    Args:
        states: of all batches.
        unreleased: those rows of the quarantine table that are not released; None where there is no such table.
    """
    if unreleased is None:
        return states.withColumn(DOUBTED, F.lit(False))
    places = [F.col(name).alias(f"held_{name}") for name in ("topic", "partition", "offset")]
    held = unreleased.where(F.col("code") == str(Code.ORDER_AMBIGUOUS)).select(*places).distinct()
    pairs = zip((m.TOPIC, m.PARTITION, m.OFFSET), held.columns, strict=True)
    match = [F.col(ours) == F.col(theirs) for ours, theirs in pairs]
    joined = states.join(held, [F.col(AMBIGUOUS), *match], "left")
    return joined.withColumn(DOUBTED, effective() & F.col("held_offset").isNotNull()).drop(*held.columns)


def with_ends(states: DataFrame, column: str) -> DataFrame:
    """Let `column`, whether the row was gone already, leave out the ends that are held."""
    before = Window.partitionBy(GROUP).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, -1)
    told = F.last(F.when(effective() & ~F.col(DOUBTED), is_delete()), ignorenulls=True).over(before)
    return states.withColumn(column, F.when(F.col(AMBIGUOUS), F.coalesce(told, F.lit(False))).otherwise(F.col(column)))
