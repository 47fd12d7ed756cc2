"""Which changes without a position were sent before: the same stands ahead in their key (m.STAMP, ADR 20)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from cdc_materializer.built_once import built_once
from cdc_materializer.changes import model as m
from cdc_materializer.changes import signatures

#: Whether a message was sent before.
AGAIN = "__cdc_again"
#: When the latest stamped change of the key ahead of a message was made.
_LATEST = "__cdc_latest"
#: Where the same message stands ahead of one.
_PRIOR = "__cdc_prior"
#: Where the last change of the key ahead of a message stands that is older than another one, or that comes again behind
#: such a one.
_STALE, _MOVED = "__cdc_last_stale", "__cdc_last_moved"
#: What makes two messages of a key the same, be they stamped or rows of a snapshot.
_SAME = (m.POSITION, m.SIGNATURE, m.SOURCE_TIME)


@built_once
def is_stamped() -> Column:
    """Whether a change tells no place, and is known when it comes again all the same; or is the tombstone of such."""
    return signatures.is_stamped(F.col(m.STAMP)) & F.col(m.OP).isNotNull()


def with_latest(placed: DataFrame, before: WindowSpec) -> DataFrame:
    """Add what `is_in_doubt` asks of the changes of one key ahead of each, in their order."""
    return placed.withColumn(_LATEST, F.max(F.when(is_stamped(), F.col(m.SOURCE_TIME))).over(before))


def is_in_doubt() -> Column:
    """Whether a message may have been sent before: it was made no later than a stamped change ahead of it."""
    no_later = F.coalesce(F.col(m.SOURCE_TIME) <= F.col(_LATEST), F.col(_LATEST).isNotNull())
    return (_is_own() | (F.col(m.OP) == "r")) & no_later


def with_again(placed: DataFrame, group: str, order: str) -> DataFrame:
    """Add AGAIN.

    What is sent again may have messages that nobody knows: of a transaction whose changes nothing counts, or of which
    the first sending was lost. Such a one is applied, and is older than what the row showed, by its time; then what
    stands behind it is applied once more, to the end of what is sent again.

    Args:
        placed: from `with_latest`.
        group: the column of the key.
        order: the column that orders its messages.
    """
    in_order = Window.partitionBy(group).orderBy(order)
    is_own, is_reading, is_shown = _is_own(), F.col(m.OP) == "r", F.size(m.UNAVAILABLE) == 0
    same = Window.partitionBy(group, *_SAME).orderBy(order)

    def last(test: Column, window: WindowSpec = in_order) -> Column:
        return F.max(F.when(test, F.col(order))).over(window.rowsBetween(Window.unboundedPreceding, -1))

    # An update that was held for want of its document may come again with it.
    prior = F.when(is_shown, last(is_own & is_shown, same)).otherwise(last(is_own, same))
    found = placed.withColumn(_PRIOR, F.when(is_own, prior).when(is_reading, last(is_reading, same)))
    # In one millisecond there may be several, a transaction's above all.
    is_older = F.coalesce(F.col(m.SOURCE_TIME) < F.col(_LATEST), F.lit(False))
    is_stale = is_own & F.col(_PRIOR).isNull() & is_older
    found = found.withColumn(_STALE, last(is_stale))
    # What comes again behind such a one may be applied: so it may be older than what came between it and its prior.
    moves = is_stale | (is_own & F.col(_PRIOR).isNotNull() & F.col(_STALE).isNotNull())
    found = found.withColumn(_MOVED, last(moves))
    is_left = ~F.coalesce(F.col(_MOVED) > F.col(_PRIOR), F.lit(False))
    # A reading that comes again is one behind a later change of its key.
    is_told = F.when(is_own, F.col(_PRIOR).isNotNull()).when(is_reading, last(is_own) > F.col(_PRIOR))
    found = found.withColumn(AGAIN, F.coalesce(is_told & is_left, F.lit(False)))
    of_delete = F.coalesce(F.lag(AGAIN).over(in_order), F.lit(False))
    return found.withColumn(AGAIN, F.when(is_stamped() & ~is_own, of_delete).otherwise(F.col(AGAIN)))


@built_once
def _is_own() -> Column:
    return is_stamped() & (F.col(m.OP) != m.TOMBSTONE)
