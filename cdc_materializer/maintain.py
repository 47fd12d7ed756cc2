"""`cdcm maintain`: fewer and fuller files, snapshots that nobody needs and files that belong to none removed.

Planned from metadata alone (`maintenance.plan`), so that where nothing is to be done no Spark is started. Each step is
one commit and can be done again: after a kill the same command goes on. See `docs/maintenance.md`.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from cdc_materializer.catalog.catalog import Tables, open_tables
from cdc_materializer.catalog.local_table import main_line
from cdc_materializer.causes import where_from
from cdc_materializer.config import Config
from cdc_materializer.errors import CdcError, LakeUnavailable, worst_exit_code
from cdc_materializer.invariants import cut_in, foreign
from cdc_materializer.logs import without_texts
from cdc_materializer.maintenance.facts import read_facts
from cdc_materializer.maintenance.plan import Rule, Steps, TableFacts, plan, why_no_orphans
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import RAW_SUFFIX, TableName
from cdc_materializer.report.maintain_models import MaintainedTable, MaintainReport, RewriteStep
from cdc_materializer.report.models import ErrorInfo, RunReport
from cdc_materializer.report.wording import quantity, size
from cdc_materializer.status import configured_tables, exit_code_of_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.lake.lake import Lake
    from cdc_materializer.run.lakes import Lakes

_LOG = logging.getLogger(__name__)

#: Bytes up to which a session that starts fast is worth more than one that works fast.
SMALL_BYTES = 64 * 2**20
#: Under `run --follow` a table is looked at again after so many batches.
BATCHES_BETWEEN = 20
_MS = 1_000


@dataclass(frozen=True)
class MaintainOptions:
    """What is wanted.

    Attributes:
        clock: tells the time, with a zone.
        tables: names of the mirrors; all for none.
        plan: whether nothing is changed.
        on_step: called before each step, with a table's name and what is done.
        is_over: tells whether no further table is to be begun, between the batches of a run.
    """

    clock: Callable[[], datetime]
    tables: Sequence[str] = ()
    plan: bool = False
    on_step: Callable[[str, str], None] = field(default=lambda _table, _what: None)
    is_over: Callable[[], bool] = field(default=lambda: False)

    def now_ms(self) -> int:
        """The time, in milliseconds since 1970."""
        return int(self.clock().timestamp() * _MS)


@dataclass(frozen=True)
class _Work:
    """One table with its plan."""

    name: TableName
    facts: TableFacts
    steps: Steps
    orphans: bool


def maintain_tables(config: Config, options: MaintainOptions, spark: SparkSession | None = None) -> MaintainReport:
    """Maintain the tables of a pipeline: mirrors, and the raw, quarantine and history tables beside them.

    Args:
        config: from `load_config`.
        options: which tables, and whether it is only a plan.
        spark: a session with Iceberg's extensions, where there is one.

    Returns:
        One entry a table. What goes wrong with one is told in its entry; its other steps were done, or can be.

    Raises:
        CdcError: nothing could be begun: the configuration, the catalog or Spark.
    """
    lake, now = open_tables(config.catalog), options.now_ms()
    found: list[MaintainedTable] = []
    waiting: list[_Work] = []
    for table in configured_tables(config, options.tables, refuse=False):
        for entry in _planned(config, lake, table.mirror, now):
            if isinstance(entry, _Work):
                waiting.append(entry)
            else:
                found.append(entry)
    if options.plan or all(work.steps.is_empty for work in waiting):
        told = [_told(work) for work in waiting]
        return _report(config, [*told, *found], planned=options.plan)
    with _session(config, spark, waiting) as session:
        from cdc_materializer.lake.lake import Lake
        from cdc_materializer.session.session import beside

        there = Lake(beside(session, config), config.catalog.name)
        done = [_done(work, there, lake, Rule.of(config.maintenance), options) for work in waiting]
    return _report(config, [*done, *found], planned=False)


def _report(config: Config, found: list[MaintainedTable], *, planned: bool) -> MaintainReport:
    code = worst_exit_code(exit_code_of_error(one.error) for one in found if one.error is not None)
    return MaintainReport(pipeline=config.name, planned=planned, tables=found, exit_code=code)


@contextmanager
def _session(config: Config, spark: SparkSession | None, waiting: Sequence[_Work]) -> Iterator[SparkSession]:
    from cdc_materializer.session.session import adopt_session
    from cdc_materializer.session.watch import opened, watched

    if spark is not None:
        with watched(spark):
            yield adopt_session(spark, config)
        return
    size = sum(work.steps.compaction.rewritten for work in waiting if work.steps.compaction is not None)
    with opened(config, small=size <= SMALL_BYTES) as session:
        yield session


# --- planning
# --------------------------------------------------------------------------------------------------------


def _planned(
    config: Config, lake: Tables, names: TableName, now: int, *, orphans: bool = True
) -> Iterator[_Work | MaintainedTable]:
    """The tables of a mirror that are there, each with its plan, or with why it has none."""
    for name in (names, names.raw, names.quarantine, names.history):
        try:
            work = _work(lake, name, Rule.of(config.maintenance), now, orphans=orphans)
            if work is not None:
                _check_whole(work)
                yield work
        except CdcError as failure:
            yield MaintainedTable(table=str(name), error=ErrorInfo.of(failure))


def _work(lake: Tables, name: TableName, rule: Rule, now: int, *, orphans: bool) -> _Work | None:
    facts = read_facts(lake, name)
    if facts is None or facts.head is None:
        return None
    return _Work(name, facts, plan(facts, rule, now, orphans=orphans), orphans)


def _check_whole(work: _Work) -> None:
    """Refuse a raw table of which another program has taken messages: its snapshots are the only way back.

    Raises:
        LakeUnavailable: says which snapshot has them still.
    """
    if work.name.name.endswith(RAW_SUFFIX):
        cut = cut_in(main_line(work.facts.snapshots, work.facts.head))
        if cut is not None:
            raise LakeUnavailable(*cut.told(str(work.name)))


def _told(work: _Work) -> MaintainedTable:
    """A plan as its entry in a report."""
    steps, facts = work.steps, work.facts
    return MaintainedTable(
        table=str(work.name),
        rewrite=_rewrite(steps),
        manifests=steps.manifests,
        marked=steps.mark,
        snapshots=len(steps.expired),
        snapshots_kept=len(facts.snapshots) - len(steps.expired),
        foreign_commits=_foreign(facts),
        orphans_due=steps.orphans,
        orphans_left=why_no_orphans(facts) if work.orphans and facts.may_delete else None,
    )


def _foreign(facts: TableFacts) -> int:
    """How many commits of other programs changed rows since the newest marker."""
    line = main_line(facts.snapshots, facts.head)
    unmarked = itertools.takewhile(lambda found: Marker.from_summary(found.summary) is None, line)
    return len(foreign(list(unmarked)))


def _rewrite(steps: Steps) -> RewriteStep | None:
    wanted = steps.compaction
    if wanted is None:
        return None
    return RewriteStep(
        reason=wanted.reason,
        files=wanted.files,
        files_after=wanted.files_after,
        delete_files=wanted.vectors,
        bytes=wanted.rewritten,
        saved=wanted.saved,
        ratio=round(wanted.ratio, 2),
    )


# --- doing
# --------------------------------------------------------------------------------------------------------


def _done(work: _Work, there: Lake, lake: Tables, rule: Rule, options: MaintainOptions) -> MaintainedTable:
    """Do what is planned for one table; what fails is told, and what was done by then stays."""
    began, so_far = time.monotonic(), _Doing(work, there, lake, rule, options)
    error = None
    try:
        if not work.steps.is_empty:
            so_far.go()
    except CdcError as failure:
        _LOG.debug("maintenance of %s stopped", work.name, exc_info=without_texts(failure))
        error = ErrorInfo.of(failure)
    seconds = round(time.monotonic() - began, 3)
    return so_far.entry.model_copy(update={"error": error, "seconds": seconds})


class _Doing:
    """The steps of one table, and what has been done of them."""

    def __init__(self, work: _Work, there: Lake, lake: Tables, rule: Rule, options: MaintainOptions) -> None:
        kept, others = len(work.facts.snapshots), _foreign(work.facts)
        self.entry = MaintainedTable(table=str(work.name), snapshots_kept=kept, foreign_commits=others)
        self._work, self._there, self._lake, self._rule, self._options = work, there, lake, rule, options

    def go(self) -> None:
        """Do each step that is due. The first that fails ends it: nothing is deleted behind an unknown outcome."""
        from cdc_materializer.maintenance import steps as maintain_steps

        name, there = self._work.name, self._there
        maintain_steps.activate(there)
        if self._work.steps.left_over:
            maintain_steps.drop_left_over(there, name)
        self._compact()
        facts, steps = self._as_it_is()
        if steps.manifests:
            self._begin(f"{steps.manifests} manifests are written anew")
            maintain_steps.rewrite_manifests(there, maintain_steps.load(there, name))
            self._note(manifests=steps.manifests)
        elif steps.mark:
            maintain_steps.mark(there, maintain_steps.load(there, name))
        self._note(marked=steps.mark)
        if steps.expired:
            self._begin(f"{len(steps.expired)} snapshots expire")
            maintain_steps.expire(there, name, steps.expired)
        self._note(snapshots=len(steps.expired), snapshots_kept=len(facts.snapshots) - len(steps.expired))
        left = why_no_orphans(facts) if self._work.orphans and facts.may_delete else None
        self._note(orphans_due=steps.orphans, orphans_left=left)
        if steps.orphans:
            self._remove_orphans()

    def _begin(self, what: str) -> None:
        self._options.on_step(str(self._work.name), what)

    def _note(self, **done: object) -> None:
        self.entry = self.entry.model_copy(update=done)

    def _as_it_is(self) -> tuple[TableFacts, Steps]:
        """The plan as things are now."""
        if self._work.steps.compaction is None:
            return self._work.facts, self._work.steps
        now, orphans = self._options.now_ms(), self._work.orphans
        again = _work(self._lake, self._work.name, self._rule, now, orphans=orphans)
        return (again.facts, again.steps) if again is not None else (self._work.facts, Steps())

    def _compact(self) -> None:
        from cdc_materializer.maintenance import steps as maintain_steps

        facts, wanted, told = self._work.facts, self._work.steps.compaction, _rewrite(self._work.steps)
        if wanted is None or told is None:
            return
        spared = f"to spare readers {size(told.saved)}"
        self._begin(f"{quantity(told.files, 'data file')} of {size(told.bytes)} are written anew, {spared}")
        base = maintain_steps.load(self._there, self._work.name)
        done = maintain_steps.compact(self._there, base, wanted, facts.target, self._rule.ratio)
        if done is not None:
            counts = {"files": done.files, "files_after": done.files_after, "bytes": done.bytes}
            self._note(rewrite=told.model_copy(update=counts))

    def _remove_orphans(self) -> None:
        from cdc_materializer.maintenance import steps as maintain_steps

        now = self._options.now_ms()
        self._begin("its folder is looked through for orphans")
        before = now - int(self._rule.orphans_after.total_seconds() * _MS)
        found = maintain_steps.find_orphans(self._there, self._work.name, before)
        maintain_steps.delete_orphans(self._there, self._work.name, found, now)
        self._note(orphans=len(found))


# --- between the batches of `run --follow`
# --------------------------------------------------------------------------------------------------------


class Between:
    """Maintains tables between their batches, where it pays; what fails is told and stops no batch.

    A table is looked at after `BATCHES_BETWEEN` batches, from its metadata alone. Orphans are left to `cdcm maintain`.
    A run that is to end waits for what is being done with one table, and for no other.
    """

    def __init__(self, config: Config, options: MaintainOptions) -> None:
        """Look at nothing yet.

        Raises:
            LakeUnavailable: only Spark can open the catalog.
        """
        self._config, self._options, self._lake = config, options, open_tables(config.catalog)
        self._batches: dict[str, int] = {}

    def after(self, lakes: Lakes, report: RunReport) -> None:
        """Take note of a round, and maintain the tables whose turn it is."""
        for run in report.tables:
            self._batches[run.table] = self._batches.get(run.table, 0) + run.batches
        for name in [name for name, batches in self._batches.items() if batches >= BATCHES_BETWEEN]:
            if self._options.is_over():
                return
            self._batches[name] = 0
            try:
                for found in self._maintained(TableName.parse(name), lakes.of(name)):
                    _log(found)
            except CdcError as failure:
                _LOG.warning("Maintenance of %s: %s", name, failure)
            except Exception as failure:  # noqa: BLE001 - it ends no batch of any table
                _LOG.warning("Maintenance of %s stopped on an unexpected %s", name, where_from(failure))

    def _maintained(self, mirror: TableName, there: Lake) -> Iterator[MaintainedTable]:
        for entry in _planned(self._config, self._lake, mirror, self._options.now_ms(), orphans=False):
            if isinstance(entry, _Work):
                yield _done(entry, there, self._lake, Rule.of(self._config.maintenance), self._options)
            else:
                yield entry
            if self._options.is_over():
                return


def _log(found: MaintainedTable) -> None:
    if found.foreign_commits:
        _LOG.warning("%s was changed by another program; compare with `cdcm verify`.", found.table)
    if found.error is not None:
        _LOG.warning("Maintenance of %s: %s", found.table, found.error.message)
    elif found.rewrite is not None or found.snapshots:
        files = f"{found.rewrite.files} files became {found.rewrite.files_after}, " if found.rewrite else ""
        _LOG.info("Maintenance of %s: %s%d snapshots expired.", found.table, files, found.snapshots)
