"""Whose row a key is, where several source tables feed one mirror: behind a topic router, say, or a table's partitions.

A key of such a mirror has an owner: the source table of its live row. Another table's change of that key is about
another row, and nothing tells the two apart in the mirror; it is held as `KEY_COLLISION`, and the owner's row stays.
With its owner's delete a key is free again, so a row that moves from one partition of a table to another, deleted there
and inserted here, stays one row. A message that names no table speaks of whoever owns the key.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.errors import Code

#: The source table of the row that the mirror has of a key before the batch; NULL where it has none.
OWNER = "__cdc_owner"
_PREVIOUS, _RUNS, _HERE = "__cdc_previous_owned", "__cdc_owned_runs", "__cdc_owner_here"


def hold_collisions(guarded: DataFrame, changes_a_row: Column, ends_a_row: Column, ordered: WindowSpec) -> DataFrame:
    """Give the code `KEY_COLLISION` to changes of rows that are not their key's, and no operation to what follows them.

    One after the other is the only way to tell, but a run of changes of one table is accepted or not as a whole. So
    each change has to look at no more than the runs before its own; most keys have one.

    Args:
        guarded: changes, with OWNER.
        changes_a_row: whether a change counts: understood, and not sent before.
        ends_a_row: whether it is a delete of any kind.
        ordered: the changes of one key, in their order.

    Returns:
        The changes, those without a source table with the one that they speak of.
    """
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    so_far = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    everywhere = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # A tombstone belongs to the delete before it, and so to that one's table.
    follows = (F.col(m.OP) == m.TOMBSTONE) & (F.lag(m.OP).over(ordered) == "d")
    table = F.when(follows, F.lag(m.SOURCE_TABLE).over(ordered)).otherwise(F.col(m.SOURCE_TABLE))
    named = guarded.withColumns({m.SOURCE_TABLE: table, OWNER: F.max(OWNER).over(everywhere)})
    change = F.struct(F.col(m.SOURCE_TABLE).alias("table"), (~ends_a_row).alias("lives"))
    placed = named.withColumn(_PREVIOUS, F.last(F.when(changes_a_row, change), ignorenulls=True).over(before))
    goes_on = F.coalesce(F.col(m.SOURCE_TABLE) == F.col(_PREVIOUS)["table"], F.lit(False))
    # What begins a run shows how the one before it ended.
    runs = F.collect_list(F.when(changes_a_row & ~goes_on, F.col(_PREVIOUS))).over(so_far)
    told = placed.withColumn(_RUNS, runs).withColumn(_HERE, F.aggregate(_RUNS, F.col(OWNER), _after))
    collides = F.coalesce(changes_a_row & (F.col(_HERE) != F.col(m.SOURCE_TABLE)), F.lit(False))
    is_told = collides & F.col(m.OP).isin(*m.CHANGE_OPS)
    held = {
        m.CODE: F.when(is_told, F.lit(str(Code.KEY_COLLISION))).otherwise(F.col(m.CODE)),
        m.OP: F.when(~collides, F.col(m.OP)),
        m.SOURCE_TABLE: F.coalesce(m.SOURCE_TABLE, _HERE),
    }
    return told.withColumns(held).drop(_PREVIOUS, _RUNS, _HERE)


def _after(owner: Column, run: Column) -> Column:
    """Who owns a key after a run of changes of one table, of which the last one left a row or left none."""
    is_its_own = owner.isNull() | run["table"].isNull() | (owner == run["table"])
    return F.when(is_its_own, F.when(run["lives"], F.coalesce(run["table"], owner))).otherwise(owner)
