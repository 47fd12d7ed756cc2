"""In which batch a row was swept that a snapshot did not show, where that is not the one that read the snapshot's end.

A fold of all messages knows only where a snapshot ended. A run ends it later where it cannot be sure yet that each
partition is past it, as of one that was added; and one that did not sweep leaves it to the first that does.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.order import key_order
from cdc_materializer.report.row_story import Publication, sweeping_batches


def in_sweeping_batches(states: DataFrame, batches: Sequence[Publication], column: str) -> DataFrame:
    """States of which those that a snapshot swept are in the batch that did it.

    Readers saw such a row until then. One that came again before that was never swept for them: its end stands in the
    batch in which it came.

    Args:
        states: all states of some rows, each in the batch that read its message.
        batches: from `publications`.
        column: the name of the column with the batches' numbers.
    """
    by_batch, by_place = sweeping_batches(batches)
    if not by_batch and not by_place:
        return states
    number = found = F.col(column)
    for then in sorted(set(by_batch.values())):
        # One condition for all batches in a row.
        first = min(one for one, to in by_batch.items() if to == then)
        found = F.when((number >= first) & (number < then), then).otherwise(found)
    for (partition, offset), then in by_place.items():
        found = F.when((F.col(m.PARTITION) == partition) & (F.col(m.OFFSET) == offset), then).otherwise(found)
    behind = Window.partitionBy(key_order.GROUP).orderBy(key_order.ORDER).rowsBetween(1, Window.unboundedFollowing)
    # The least skips NULL: nothing came behind it.
    moved = F.greatest(number, F.least(found, F.min(number).over(behind)))
    return states.withColumn(column, F.when(F.col(m.OP).eqNullSafe(m.SWEEP), moved).otherwise(number))
