"""What complete snapshots make of a key's messages: what they end, and what is a new row behind them (ADR 12)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.marker.sweeps import Sweep
from cdc_materializer.order import resends
from cdc_materializer.order.key_order import GROUP
from cdc_materializer.order.resends import IN_DOUBT, REPLAYED
from cdc_materializer.order.sweeping import is_after, is_before, is_inside, is_sweep_of

WIPED = "__cdc_wiped"
#: Counts the complete snapshots since which nothing had been told of the key.
SWEPT = "__cdc_swept"


def with_sweeps(guarded: DataFrame, sweeps: Sequence[Sweep], rebuilt: Column, *, lives: bool, exact: bool) -> DataFrame:
    """Messages of which it is known what was sent before, with what snapshots do to their rows.

    Args:
        guarded: the messages, with WIPED, REPLAYED and IN_DOUBT.
        sweeps: the snapshots.
        rebuilt: whether the key is folded from its first message.
        lives: whether the ends that snapshots make of rows are among the messages.
        exact: whether what was sent before is told from all that the key has shown.
    """
    # What one of the past showed is told by the messages of its time, which only keys that are rebuilt have here.
    unseen = [(rebuilt if one.is_past else F.lit(True)) & ~_is_shown(one) for one in sweeps]
    again = _may_come_again(sweeps, unseen)
    flags = {REPLAYED: F.col(REPLAYED) | (again & resends.is_known())} if exact else {IN_DOUBT: F.col(IN_DOUBT) | again}
    return (_without_idle(guarded, sweeps) if lives else _swept(guarded, sweeps, unseen)).withColumns(flags)


def _swept(guarded: DataFrame, sweeps: Sequence[Sweep], unseen: Sequence[Column]) -> DataFrame:
    """Wipe what came before a complete snapshot that does not show the key; what comes after it is a new row."""
    wiped, swept = F.col(WIPED), F.lit(0)
    for sweep, is_unseen in zip(sweeps, unseen, strict=True):
        wiped = wiped | (is_unseen & is_before(sweep, m.PARTITION, m.OFFSET))
        swept = swept + (is_unseen & is_after(sweep, m.PARTITION, m.OFFSET)).cast("int")
    return guarded.withColumns({WIPED: wiped, SWEPT: swept})


def _without_idle(guarded: DataFrame, sweeps: Sequence[Sweep]) -> DataFrame:
    """A complete snapshot ends no row that it shows."""
    is_idle = F.lit(False)
    for sweep in sweeps:
        is_idle = is_idle | (is_sweep_of(sweep) & _is_shown(sweep))
    return guarded.withColumn(REPLAYED, F.col(REPLAYED) | is_idle)


def _may_come_again(sweeps: Sequence[Sweep], unseen: Sequence[Column]) -> Column:
    """Whether a row of a snapshot is from before a later one that did not show it, and stands behind that.

    It was sent again then, if the key has shown it (`docs/adr/0020`): with the change that ended the row it would lie
    below that one's place, but of this row's end no change tells.
    """
    found = F.lit(False)
    for sweep, is_unseen in zip(sweeps, unseen, strict=True):
        if sweep.position is not None:
            is_older = F.col(m.POSITION) < sweep.position
            found = found | (is_unseen & is_older & is_after(sweep, m.PARTITION, m.OFFSET))
    return F.coalesce(found & (F.col(m.OP) == "r"), F.lit(False))


def _is_shown(sweep: Sweep) -> Column:
    """Whether something was said of the key between a snapshot's ends."""
    is_told = F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE) & ~F.col(REPLAYED)
    shows = (F.col(m.CODE).isNotNull() | is_told) & is_inside(sweep, m.PARTITION, m.OFFSET)
    return F.max(F.coalesce(shows, F.lit(False))).over(Window.partitionBy(GROUP))
