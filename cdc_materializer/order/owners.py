"""Whose row a key is, where several source tables feed one mirror: behind a topic router, say, or a table's partitions.

A key of such a mirror has an owner: the source table of its live row. Another table's change of that key is about
another row, and nothing tells the two apart in the mirror; it is held as `KEY_COLLISION`, and the owner's row stays.
With its owner's delete a key is free again, so a row that moves from one partition of a table to another, deleted there
and inserted here, stays one row. A message that names no table speaks of whoever owns the key.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.decode import java_class
from cdc_materializer.errors import Code

#: The source table of the row that the mirror has of a key before the batch; NULL where it has none.
OWNER = "__cdc_owner"
_HERE = "__cdc_owner_here"
_SOURCE = Path(__file__).with_name("KeyOwner.java")


def hold_collisions(guarded: DataFrame, changes_a_row: Column, ends_a_row: Column, ordered: WindowSpec) -> DataFrame:
    """Give the code `KEY_COLLISION` to changes of rows that are not their key's, and no operation to what follows them.

    One after the other is the only way to tell: with three tables, which deletes count depends on all before them. So
    an aggregate over the window of the key carries the owner, and a key costs as many steps as it has changes.

    Args:
        guarded: changes, with OWNER.
        changes_a_row: whether a change counts: understood, and not sent before.
        ends_a_row: whether it is a delete of any kind.
        ordered: the changes of one key, in their order.

    Returns:
        The changes, those without a source table with the one that they speak of.
    """
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    everywhere = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # A tombstone belongs to the delete before it, and so to that one's table.
    follows = (F.col(m.OP) == m.TOMBSTONE) & (F.lag(m.OP).over(ordered) == "d")
    table = F.when(follows, F.lag(m.SOURCE_TABLE).over(ordered)).otherwise(F.col(m.SOURCE_TABLE))
    named = guarded.withColumns({m.SOURCE_TABLE: table, OWNER: F.max(OWNER).over(everywhere)})
    owner = _after(F.col(m.SOURCE_TABLE), F.when(changes_a_row, ~ends_a_row), F.col(OWNER)).over(before)
    # Nothing is before the first one.
    is_first = F.row_number().over(ordered) == 1
    told = named.withColumn(_HERE, F.when(is_first, F.col(OWNER)).otherwise(owner))
    collides = F.coalesce(changes_a_row & (F.col(_HERE) != F.col(m.SOURCE_TABLE)), F.lit(False))
    is_told = collides & F.col(m.OP).isin(*m.CHANGE_OPS)
    held = {
        m.CODE: F.when(is_told, F.lit(str(Code.KEY_COLLISION))).otherwise(F.col(m.CODE)),
        m.OP: F.when(~collides, F.col(m.OP)),
        m.SOURCE_TABLE: F.coalesce(m.SOURCE_TABLE, _HERE),
    }
    return told.withColumns(held).drop(_HERE)


def _after(table: Column, lives: Column, first: Column) -> Column:
    """An aggregate, for windows in the order of a key's changes: who owns the key after the last one.

    Args:
        table: a change's source table; NULL where it speaks of whoever owns the key.
        lives: whether the change leaves a row; NULL where it is none that counts.
        first: who owns the key before its first change.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn

    given: list[Any] = [table, lives, first]
    return ClassicColumn(java_class.new(_SOURCE).inOrder(*[column._jc for column in given]))  # noqa: SLF001
