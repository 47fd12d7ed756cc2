"""Rows of the mirror that a complete snapshot did not show: which they are, and what is told of those that are kept.

In the batch's own states a snapshot ends a row as a delete does. Of a row that only the mirror knows there is no state;
it ends here, at the snapshot's last record.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer.batch import life, rows, verdict
from cdc_materializer.batch.steps import Decided
from cdc_materializer.changes import model as m
from cdc_materializer.fold.truncated import is_ended
from cdc_materializer.line import quarantine
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.marker.reach import reach_of
from cdc_materializer.merge import Origin
from cdc_materializer.order import sweeping

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from cdc_materializer.lake.lake import LakeTable
    from cdc_materializer.marker.sweeps import Sweep
    from cdc_materializer.order.truncates import Truncate
    from cdc_materializer.schema.schema import TableSchema


def unseen_keys(line: Line, mirror: LakeTable, held: LakeTable | None, decided: Decided) -> DataFrame | None:
    """The keys of the live rows that a snapshot which the batch completes did not show, each with `sweeping.NUMBER`.

    None where it completes none.
    """
    sweeps = decided.snapshots.sweeps
    if not sweeps or mirror.is_empty:
        return None
    shown = quarantine.held_messages(line, held)
    target, live = decided.decoders.plan.target, life.without_deleted(line.lake.rows(mirror))
    written = decided.states.where(F.col(verdict.PUBLISHED)).select(m.KEY)
    gone = [_truncated_before(sweep, mirror, decided) for sweep in sweeps] if line.keeps_lives else []
    return sweeping.unseen_keys(live, sweeps, target, written, shown, gone).localCheckpoint()


def _truncated_before(sweep: Sweep, mirror: LakeTable, decided: Decided) -> Column:
    """Whether a truncate of the batch had ended a row `t` before a snapshot did."""
    origin = Origin(marker_of(mirror).source_table) if mirror.routed else None
    earlier = [one for one in decided.truncates if _is_before(one, sweep, len(decided.span.end))]
    return reduce(or_, (is_ended(one, origin) for one in earlier), F.lit(False))


def _is_before(truncate: Truncate, sweep: Sweep, partitions: int) -> bool:
    if partitions == 1 or truncate.position is None:
        return truncate.offset < sweep.last[1]
    position = sweep.end.position if sweep.end is not None else None
    return position is not None and reach_of(truncate.position) <= position


def changes(live: DataFrame, unseen: DataFrame, sweeps: Sequence[Sweep], target: TableSchema) -> DataFrame:
    """The ends of rows that only the mirror knows, as `rows.change_rows` takes changes.

    Args:
        live: the mirror's live rows, in the target's columns.
        unseen: from `unseen_keys`.
        sweeps: those of the batch.
        target: the mirror's columns.
    """
    return life.ended_rows(live.join(unseen, list(target.key)), sweeps, target)


def marks(unseen: DataFrame, sweeps: Sequence[Sweep], target: TableSchema, *, routed: bool) -> DataFrame:
    """The keys of rows that are to be marked as deleted, with the `__cdc` of their ends."""
    return rows.ended_keys(life.ended_rows(unseen, sweeps, target), target, routed=routed)
