"""`cdcm run --plan`: what a run would change of the tables' columns, told before it runs. Nothing is written.

It looks at what the run would read: raw's messages that no batch has read, and those of the topic that have not landed.
Of each it looks at no more than which schema it was written with, so what it tells is what schemas tell: whether a
value fits its column only the run finds out.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import reduce
from typing import TYPE_CHECKING, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.batch.key_ranges import plan_apply
from cdc_materializer.causes import where_from
from cdc_materializer.decode.refusals import REFUSALS
from cdc_materializer.decoders.decoders import Decoders, find_decoders
from cdc_materializer.decoders.selectors import MAY_WAIT
from cdc_materializer.errors import CdcError, worst_exit_code
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.line.checks import check_layout
from cdc_materializer.line.line import Line
from cdc_materializer.line.renames import told_by
from cdc_materializer.pipeline import plan_folding
from cdc_materializer.progress import Backlog, backlogs
from cdc_materializer.query.fresh import unlanded
from cdc_materializer.report.models import ErrorInfo
from cdc_materializer.report.plan_models import (
    ColumnPlan,
    DeclaredPlan,
    MisfitPlan,
    PlanReport,
    RenamePlan,
    TablePlan,
    TypePlan,
)
from cdc_materializer.run.contracts import refusal
from cdc_materializer.run.run import TABLES_AT_ONCE, RunOptions, Work, open_work, session_for
from cdc_materializer.schema.schema import Misfit, SchemaPlan
from cdc_materializer.session.session import beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config


_LOG = logging.getLogger(__name__)


def plan_tables(config: Config, tables: Sequence[str] = (), spark: SparkSession | None = None) -> PlanReport:
    """Tell what a run would change of the tables' columns.

    Args:
        config: from `load_config`.
        tables: names of the mirrors; all for none.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        CdcError: nothing could be looked at: the configuration, the source or Spark.
    """
    work = open_work(config, RunOptions(tables=tables), refuse=False)
    waiting = backlogs(config, work.source, work.tables)
    messages = sum(backlog.messages for backlog in waiting)
    workers = ThreadPoolExecutor(max_workers=TABLES_AT_ONCE)
    with session_for(work, spark, messages) as session, workers as pool:
        _begin_catalog(work, session, waiting)
        found = list(pool.map(lambda backlog: _plan_or_stop(work, session, backlog), waiting))
    found += [(_stopped(one.topic, one.topic, one.error), one.error.exit_code) for one in work.refused]
    code = worst_exit_code(code for _, code in found)
    return PlanReport(pipeline=config.name, tables=[plan for plan, _ in found], exit_code=code)


def _begin_catalog(work: Work, spark: SparkSession, waiting: Sequence[Backlog]) -> None:
    """Let the catalog make what it makes at its first use: several sessions that do so at one time collide."""
    lake = Lake(beside(spark, work.config), work.config.catalog.name, read_only=True)
    # What keeps it from being used each table tells for itself.
    with suppress(CdcError):
        for backlog in waiting[:1]:
            lake.load(backlog.table.mirror)


def _plan_or_stop(work: Work, spark: SparkSession, backlog: Backlog) -> tuple[TablePlan, int]:
    table = backlog.table
    lake = Lake(beside(spark, work.config), work.config.catalog.name, read_only=True)
    contract = work.contracts.get(str(table.mirror))
    line = Line(work.config.name, table, work.source, work.registry, contract, lake)
    try:
        failed = backlog.error or refusal(work.contracts, table)
        if failed is not None:
            raise failed
        with translated(table.mirror):
            return _plan(line, backlog), 0
    except CdcError as failure:
        _LOG.debug("%s could not be planned: %s", table.mirror, where_from(failure.__cause__ or failure))
        return _stopped(str(table.mirror), table.topic, failure), failure.exit_code


def _stopped(table: str, topic: str, failure: CdcError) -> TablePlan:
    return TablePlan(table=table, topic=topic, action="stop", error=ErrorInfo.of(failure))


def _plan(line: Line, backlog: Backlog) -> TablePlan:
    raw, mirror = line.lake.load(line.mirror.raw), line.load_mirror()
    read = _waiting(line, raw, mirror, backlog)
    told = TablePlan(table=str(line.mirror), topic=line.table.topic, action="none")
    pending = mirror.pending if mirror is not None else ()
    if not read:
        # A rename waits for messages too.
        return told.model_copy(update={"renamed": _renames(pending)})
    messages = reduce(DataFrame.unionByName, [frame for frame, _ in read])
    line = told_by(line, messages)
    mirror = line.load_mirror()
    pending = mirror.pending if mirror is not None else ()
    lookup = line.lookup(mirror.schema if mirror is not None else None)
    decoders = find_decoders(messages.withColumn(MAY_WAIT, F.lit(True)), lookup)
    check_layout(line, mirror, decoders.plan.target)
    return told.model_copy(
        update={
            "action": _action(decoders, mirror),
            "messages": (count := sum(count for _, count in read)),
            "batches": math.ceil(count / line.table.records_max),
            **_apply(mirror, decoders),
            "renamed": _renames(pending),
            "unknown_schemas": len(decoders.writers.unknown),
            "refused": sorted({REFUSALS[reason].what for _, reason in decoders.writers.refused}),
            "declared": _declared(decoders),
            **_columns(line, decoders.plan),
        }
    )


def _waiting(
    line: Line, raw: LakeTable | None, mirror: LakeTable | None, backlog: Backlog
) -> list[tuple[DataFrame, int]]:
    """The messages that a run would read, each lot with at most how many they are."""
    found = []
    if raw is not None:
        landed = plan_folding(line, raw, mirror)
        found.append((batch.messages(line.lake.rows(raw), landed, line.id_bytes), landed.count))
    if backlog.topic is not None:
        # As many as there are, for a run goes on to the end of the topic, batch by batch.
        stored, span = unlanded(line, raw, backlog.topic)
        found.append((batch.messages(stored, None, line.id_bytes), span.count))
    return [(frame, count) for frame, count in found if count]


def _action(decoders: Decoders, mirror: LakeTable | None) -> Literal["create", "change", "none"]:
    if mirror is None:
        return "create" if decoders.make_a_table else "none"
    return "change" if mirror.pending or not decoders.plan.is_empty else "none"


def _apply(mirror: LakeTable | None, decoders: Decoders) -> dict[str, object]:
    if mirror is None and not decoders.make_a_table:
        return {}
    plan = plan_apply(mirror, decoders.plan.target)
    return {"apply": plan.way, "pruned_by": plan.pruned_by}


def _columns(line: Line, plan: SchemaPlan) -> dict[str, object]:
    return {
        "key": list(plan.target.key),
        "added": [ColumnPlan(name=one.name, type=one.type, beside=one.beside) for one in plan.added],
        "types": [TypePlan(path=".".join(one.path), old=one.old, new=one.type) for one in plan.changes],
        "comments": [column.name for column in plan.documented],
        "misfits": [_misfit(line, misfit) for misfit in plan.misfits],
    }


def _declared(decoders: Decoders) -> list[DeclaredPlan]:
    types = decoders.plan.target.types
    return [DeclaredPlan(column=name, table_type=types[name], declared_type=ddl) for name, ddl in decoders.kept.items()]


def _renames(pending: Sequence[tuple[str, str]]) -> list[RenamePlan]:
    return [RenamePlan(old=old, new=new) for old, new in pending]


def _misfit(line: Line, misfit: Misfit) -> MisfitPlan:
    others: Literal["hold", "stop"] = "stop" if line.table.incompatible_schema == "stop" else "hold"
    return MisfitPlan(
        column=misfit.column,
        table_type=misfit.table_type,
        writer_type=misfit.writer_type,
        handling="new_column" if misfit.becomes is not None else others,
        beside=misfit.becomes,
    )
