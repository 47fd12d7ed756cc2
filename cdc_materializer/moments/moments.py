"""`cdcm as-of`: the rows of a table as its source had them at a position of its log, or at a time.

What had happened by then is told by the source's positions, not by when it was read: messages come late, again, and in
several partitions. They are folded anew from raw, with today's contract and masks, and nothing is written. A snapshot
of the mirror that holds just these rows is named, and what the log cannot tell is said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, life, verdict
from cdc_materializer.batch.earlier import at_places
from cdc_materializer.batch.past import changes_of
from cdc_materializer.batch.rows import instant, is_written, with_source_tables
from cdc_materializer.changes import model as m
from cdc_materializer.differences import compare_rows
from cdc_materializer.errors import UsageError
from cdc_materializer.explain.log import Log, log_of
from cdc_materializer.fold.fold import is_delete
from cdc_materializer.lake.columns import is_of_other_columns
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.line import brought_by_others, heads, summaries
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.line.then import at_snapshot
from cdc_materializer.marker.marker import Marker
from cdc_materializer.moments.cut import KNOWN, Cut, Known, cut_at, doubts, snapshots_by
from cdc_materializer.order.sweeping import is_before, is_inside
from cdc_materializer.proof.proof import Refolded, refolded
from cdc_materializer.query.query import told_rows
from cdc_materializer.rebuild.base import Base
from cdc_materializer.report.query_models import AsOfReport
from cdc_materializer.report.wording import quantity
from cdc_materializer.session import caching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config
    from cdc_materializer.marker.sweeps import Sweep


@dataclass(frozen=True)
class Moment:
    """A moment in the life of a source: one of the two.

    Attributes:
        position: a position of its log, as `__cdc.position` and `cdcm why` show it.
        time: the source's commit time, with a zone.
        limit: the most rows to show.
    """

    position: str | None = None
    time: datetime | None = None
    limit: int = 100


def as_of(config: Config, table: str, moment: Moment, spark: SparkSession | None = None) -> AsOfReport:
    """Tell the rows of a table as its source had them at a moment, and how exact that is.

    Args:
        config: from `load_config`.
        table: name of the mirror.
        moment: which.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        UsageError: there is no such mirror, the moment is none, or raw knows nothing of it.
        CdcError: the tables, the registry or the contract cannot be used.
    """
    if (moment.position is None) == (moment.time is None):
        raise UsageError("One of them says when: --position, or --time.", "For example: --time 2026-11-01T12:00Z.")
    with log_of(config, table, spark) as log:
        if log.line.table.shard is not None:
            what = f"{table} has rows of several servers, whose logs have no common order."
            raise UsageError(what, "Mirror one server's topic under another `mirror` name, and ask that one.")
        return _told(log, moment)


def _told(log: Log, moment: Moment) -> AsOfReport:
    line, raw, mirror = log.line, log.raw, log.mirror
    # What no batch has read yet may begin an epoch that nobody knows of.
    messages = log.messages.where(batch.within(log.read, "partition", "offset"))
    # Cached: Spark would decode the messages once more for each look at them.
    changes = changes_of(messages, log.decoders, log.target, log.past.seeing_snapshots())
    known = caching.cached(changes.select(*KNOWN))
    try:
        partitions = tuple(sorted(marker_of(mirror).offsets))
        adopted = (*marker_of(raw).adopted, *marker_of(mirror).adopted)
        every = Known(known, partitions, adopted, marker_of(mirror).alone)
        cut = cut_at(every, moment.position, moment.time)
        notes = [*_of_others(line, raw), *doubts(every, cut, time=moment.time, wipes=line.table.truncate == "apply")]
        places = known.where(cut.included).select(
            F.col(m.PARTITION).alias("partition"), F.col(m.OFFSET).alias("offset")
        )
        there = at_places(messages, places.distinct().localCheckpoint())
        with refolded(line, raw, mirror, log.held, there) as fold:
            notes += _held(fold)
            notes += [] if line.table.snapshot_sweep else _unshown(line, snapshots_by(every, cut), fold)
            snapshot = _snapshot(line, mirror, cut, fold)
            return _report(line, mirror, moment, cut, fold, snapshot, notes)
    finally:
        caching.release(known)


def _of_others(line: Line, raw: LakeTable) -> list[str]:
    if not brought_by_others(line.lake.iceberg(raw.name), raw.head):
        return []
    return [f"Another program has written messages to {raw.name}: `cdcm verify` says what is wrong with it."]


def _held(fold: Refolded) -> list[str]:
    """What was held by then, or published with something missing or in an order that is not certain."""
    is_doubted = F.exists(verdict.VIOLATIONS, lambda one: (one["status"] == verdict.OPEN) | (one["action"] == "report"))
    rows = F.count_distinct(F.when(is_doubted, F.col(m.KEY))).alias("rows")
    unnamed = F.count_if(is_doubted & F.col(m.KEY).isNull()).alias("unnamed")
    found = fold.decided.agg(rows, unnamed).collect()[0]
    told = []
    if found["rows"]:
        count = quantity(found["rows"], "row")
        told.append(f"{count} may be of an earlier version, or lack a value: quarantine tells what came for it.")
    if found["unnamed"]:
        count = quantity(found["unnamed"], "message")
        told.append(f"{count} in quarantine could be of any row: no key can be read, or the order is not known.")
    return told


def _unshown(line: Line, snapshots: Sequence[Sweep], fold: Refolded) -> list[str]:
    """Rows that a snapshot of the whole table did not show, and that this table keeps.

    A connector that has lost its place in the log takes one, and what was deleted before it is in no message.
    """
    if not snapshots:
        return []
    live = fold.decided.where(is_written(soft=line.is_soft) & ~is_delete())
    # What a snapshot showed of a row may be held.
    unshown = [
        live.where(is_before(one, m.PARTITION, m.OFFSET))
        .join(fold.decided.where(is_inside(one, m.PARTITION, m.OFFSET)).select(m.KEY), m.KEY, "left_anti")
        .select(m.KEY)
        for one in snapshots
    ]
    count = reduce(DataFrame.unionByName, unshown).distinct().count()
    if not count:
        return []
    told = f"{quantity(count, 'row')} may have been deleted: a snapshot of the table that was read before then"
    return [f"{told} did not show them, and this table keeps those (`snapshot_sweep`)."]


def _snapshot(line: Line, mirror: LakeTable, cut: Cut, fold: Refolded) -> int | None:
    """The newest snapshot of the mirror that was folded from none but these messages, if it holds just these rows.

    It need not: some may have come later, and how rows were masked and judged, what was held and what other engines did
    may differ from today's fold.
    """
    table = line.lake.iceberg(mirror.name)
    # A replay's batches, and the mark that it begins with, are among the ancestors of what it has published.
    seen = heads(table)
    for number, _, _, summary in summaries(table, mirror.head):
        marker = Marker.from_summary(summary)
        if marker is None or number not in seen or cut.has_read_too_much(marker.offsets):
            continue
        if is_of_other_columns(table, number):
            return None
        then = at_snapshot(line, mirror, number)
        found, expected = Base(then, None).rows(line, mirror), fold.expected
        if mirror.routed:
            first = marker_of(mirror).source_table
            found, expected = (with_source_tables(side, first) for side in (found, expected))
        return number if compare_rows(expected, found, mirror.schema).is_none else None
    return None


def _report(
    line: Line, mirror: LakeTable, moment: Moment, cut: Cut, fold: Refolded, snapshot: int | None, notes: list[str]
) -> AsOfReport:
    live = life.without_deleted(fold.expected)
    shown = live.select(*[m.column(name) for name in mirror.schema.types])
    columns, values = told_rows(shown.orderBy(*_key(mirror)).limit(moment.limit + 1))
    return AsOfReport(
        pipeline=line.pipeline,
        table=str(line.mirror),
        topic=line.table.topic,
        position=cut.position,
        time=instant(moment.time),
        snapshot=snapshot,
        exact=not notes,
        notes=notes,
        count=live.count(),
        columns=columns,
        rows=values[: moment.limit],
        more=len(values) > moment.limit,
    )


def _key(mirror: LakeTable) -> list[Column]:
    return [m.column(name) for name in mirror.schema.key]
