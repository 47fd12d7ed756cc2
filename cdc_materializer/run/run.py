"""`cdcm run`: bring every table up to the ends of its topics, some of them side by side.

One Spark session a command; inside it a session of its own for each table, because the properties that Iceberg writes
into a snapshot are a session's. One table's failure never stops another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.causes import where_from
from cdc_materializer.clocks import Clock, SystemClock
from cdc_materializer.config import Config, RefusedTopic, ResolvedTables, TableConfig
from cdc_materializer.errors import EXIT_BUG, CdcError, LakeUnavailable, TimeOver, worst_exit_code
from cdc_materializer.lease import worked_on_by
from cdc_materializer.logs import without_texts
from cdc_materializer.names import shown
from cdc_materializer.offsets import Offsets
from cdc_materializer.progress import Backlog, backlogs
from cdc_materializer.registry import Registry, open_registry
from cdc_materializer.report.models import ContractChange, ErrorInfo, RunReport, TableRun
from cdc_materializer.retry import NEVER, REPLAN, Deadline
from cdc_materializer.run.contracts import (
    ContractFiles,
    Stated,
    read_contracts,
    readable,
    refusal,
    refuse_unreadable,
    tell_changes,
    with_changes,
)
from cdc_materializer.run.lakes import Lakes
from cdc_materializer.run.namespaces import prepared
from cdc_materializer.run.pauses import Pauses, TurnOf, endless
from cdc_materializer.run.topics import ListedTopics, not_asked, refused_runs, tables_of, with_runs
from cdc_materializer.source import Source, open_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.batch.steps import Batch

_LOG = logging.getLogger(__name__)

#: Tables brought forward at one time: more gain nothing on few cores, and share one Spark context (design §6).
TABLES_AT_ONCE = 4
#: Up to so many messages a run is worth more as a quick start than as a fast engine.
SMALL_RUN_MESSAGES = 50_000
#: Seconds between two looks at the topics under `--follow` when nothing has come.
POLL_SECONDS = 5.0

OnBatch = Callable[[TableConfig, "Batch"], None]


@dataclass(frozen=True)
class RunOptions:
    """What the caller may want of a run.

    Attributes:
        tables: names of the mirrors to bring forward; all for none.
        stop: set it, and the run ends after the batches that are being worked on.
        deadline: so does it then; broker, registry, catalog file and retries are waited for no longer.
        on_batch: called after each published batch, from the table's own thread.
        between: called after each round of `run_forever`, when no batch is being worked on.
        clock: tells the time; what is pausing, a lease or only told goes by it.
    """

    tables: Sequence[str] = ()
    stop: threading.Event = field(default_factory=threading.Event)
    deadline: Deadline = NEVER
    on_batch: OnBatch | None = None
    between: Callable[[Lakes, RunReport], None] | None = None
    clock: Clock = field(default_factory=SystemClock)

    @property
    def is_over(self) -> bool:
        """Whether no further batch is to be begun."""
        return self.stop.is_set() or self.deadline.is_over

    def asked_of(self, known: Sequence[TableConfig]) -> tuple[TableConfig, ...]:
        """Those of the tables that are to be brought forward."""
        return tuple(table for table in known if not self.tables or str(table.mirror) in self.tables)


@dataclass(frozen=True)
class Work:
    """What a run works with, opened once: `tables` are those that are asked for, of all that are `known`.

    A contract that cannot be followed is among the `contracts` as its error, which a `Line` raises; topics that no
    table can be made of are `refused`, where no tables are asked for by name.
    """

    config: Config
    source: Source
    registry: Registry | None
    tables: tuple[TableConfig, ...]
    contracts: Mapping[str, Stated]
    known: tuple[TableConfig, ...] = ()
    refused: tuple[RefusedTopic, ...] = ()


def run_once(config: Config, spark: SparkSession | None = None, options: RunOptions | None = None) -> RunReport:
    """Bring every table up to where its topic ended when the run began.

    Args:
        config: from `load_config`.
        spark: a session with Iceberg's extensions, where there is one; left out, a session is started and stopped.
        options: which tables, when to stop, whom to tell.

    Returns:
        One entry a table. A table that failed says so in its entry, as does a topic that none can be made of;
        `RunReport.exit_code` is the command's.

    Raises:
        CdcError: nothing could be begun: the configuration, the source or Spark.
    """
    options = options or RunOptions()
    work = open_work(config, options, refuse=False)
    waiting = backlogs(config, work.source, work.tables, options.deadline)
    is_late = options.deadline.is_over
    if is_late:
        _LOG.warning("The time was over before anything was begun; all that there is to read is left to the next run.")
        waiting = [not_asked(one) for one in waiting]
    changes = tell_changes(config, work.contracts, waiting, options.deadline)
    if is_late or all(backlog.is_done or backlog.error is not None for backlog in waiting):
        # Nothing to do, or nothing that can be done: neither needs Spark.
        done = _report(config, [_without_work(work, backlog) for backlog in waiting])
        return with_runs(with_changes(done, changes), refused_runs(work.refused))
    with session_for(work, spark, sum(backlog.messages for backlog in waiting)) as session:
        done = _run_tables(work, Lakes(session, config), waiting, options)
        return with_runs(with_changes(done, changes), refused_runs(work.refused))


def run_forever(
    config: Config, spark: SparkSession | None = None, options: RunOptions | None = None, poll: float = POLL_SECONDS
) -> Iterator[RunReport]:
    """Bring every table forward again and again, until `options.stop` is set; yields what each round did, if anything.

    A round works on a table for a `Turn` and its batch, however far it is behind: the others do not wait for it.
    A table that failed is left alone for longer each time it fails again; the others go on. Without Spark none does.
    So is a message that waits for a schema, until its table has others to publish.
    Between two rounds contracts are read again where their files were changed, and topics listed where there are globs.
    """
    from cdc_materializer.session.watch import has_ended

    options = options or RunOptions()
    work = open_work(config, options, refuse=False)
    pauses = Pauses(poll, options.clock)
    files = ContractFiles(config, work.tables, work.contracts)
    listed = ListedTopics(config, work.source, ResolvedTables(work.known, work.refused))
    changes: dict[str, ContractChange] = {}
    with session_for(work, spark) as session:
        lakes = Lakes(session, config)
        while not options.is_over:
            if listed.look():
                work = replace(work, known=listed.known, tables=options.asked_of(listed.known))
                files.follow(work.tables)
            for mirror in files.look():
                pauses.end(mirror)
            work = replace(work, contracts=dict(files.contracts))
            due = [table for table in work.tables if pauses.is_over(str(table.mirror))]
            found = backlogs(config, work.source, due, options.deadline)
            if options.deadline.is_over:
                return  # who was asked just before it may have had no time to answer
            changes |= files.tell(found, options.deadline)
            waiting = [one for one in found if pauses.is_to_do(one) or refusal(work.contracts, one.table) is not None]
            waiting = _leave_to_others(config, waiting, session.sparkContext.applicationId, options.clock)
            report = _run_tables(work, lakes, waiting, options, pauses.turn)
            pauses.note(waiting, report)
            news = listed.news() if not options.tables else []
            report = with_runs(report, news)
            if news or any(run.batches or run.error for run in report.tables):
                yield with_changes(report, changes)
                for run in report.tables:
                    changes.pop(run.table, None)
            if report.exit_code and has_ended(session):
                return
            if options.between is not None and not options.is_over:
                options.between(lakes, report)
            if not any(run.batches for run in report.tables):
                options.stop.wait(options.deadline.within(poll))


def _leave_to_others(config: Config, waiting: Sequence[Backlog], own: str, clock: Clock) -> list[Backlog]:
    """Those tables that no other process is at work on; of what the catalog does not tell, all."""
    found = []
    for backlog in waiting:
        try:
            other = worked_on_by(open_tables(config.catalog), backlog.table.mirror, own, clock.now())
        except LakeUnavailable:
            other = None
        if other is None:
            found.append(backlog)
        else:
            _LOG.info("%s is being worked on by %s, and left to it for now.", backlog.table.mirror, shown(other))
    return found


def open_work(config: Config, options: RunOptions, *, refuse: bool = True) -> Work:
    """Open source, registry and contracts, and find out which tables are meant.

    Args:
        config: from `load_config`.
        options: which tables, and how long to wait.
        refuse: whether a contract that cannot be followed is raised here, instead of where its table needs it.

    Raises:
        ConfigError: a table is asked for that the configuration does not have.
        ContractInvalid: a contract cannot be followed.
        SourceUnavailable: the topics cannot be listed.
        TopicMissing, InvalidName: no table can be made of any topic.
    """
    source = open_source(config.source, options.deadline)
    found = tables_of(config, source, options.tables, options.deadline)
    tables = options.asked_of(found.tables)
    contracts = read_contracts(config, tables)
    if refuse:
        refuse_unreadable(contracts, tables)
    registry = open_registry(config.registry, options.deadline)
    return Work(config, source, registry, tables, contracts, found.tables, found.refused)


@contextmanager
def session_for(work: Work, spark: SparkSession | None, messages: int | None = None) -> Iterator[SparkSession]:
    """The caller's Spark session, or one of our own that is stopped at the end.

    Args:
        work: what the session is for.
        spark: the caller's session, if there is one.
        messages: at most how many messages will be read; None where that is not known.
    """
    from cdc_materializer.session.session import adopt_session
    from cdc_materializer.session.watch import opened, watched

    if spark is not None:
        with watched(spark):
            yield adopt_session(spark, work.config)
        return
    if any(contract.row_rules for contract in readable(work.contracts).values()):
        # Great Expectations takes seconds to import, as Spark does to start; neither waits for the other.
        from cdc_materializer.contract.judge import preload

        threading.Thread(target=preload, daemon=True).start()
    with opened(work.config, small=messages is not None and messages <= SMALL_RUN_MESSAGES) as session:
        yield session


def _run_tables(
    work: Work, lakes: Lakes, waiting: Sequence[Backlog], options: RunOptions, turn_of: TurnOf = endless
) -> RunReport:
    if not waiting:
        return _report(work.config, [])
    waiting = prepared(lakes.spark, partial(lakes.of, ""), waiting)
    # Those with little to do do not wait for those with much, of which the run may end later.
    order = sorted(range(len(waiting)), key=lambda at: waiting[at].messages)
    with ThreadPoolExecutor(max_workers=min(TABLES_AT_ONCE, len(waiting))) as pool:
        found = list(pool.map(lambda at: _bring_up(work, lakes, waiting[at], options, turn_of), order))
    return _report(work.config, [run for _, run in sorted(zip(order, found, strict=True), key=lambda one: one[0])])


def _bring_up(
    work: Work, lakes: Lakes, backlog: Backlog, options: RunOptions, turn_of: TurnOf = endless
) -> tuple[TableRun, int]:
    """One table to the end of its topic, or of its turn; its failure is told in its own entry."""
    from cdc_materializer.session.watch import told

    if backlog.is_done:
        return _without_work(work, backlog)
    clock = options.clock
    began = clock.monotonic()
    batches: list[Batch] = []
    try:
        batches.extend(_batches(work, lakes, backlog, options, turn_of))
    except Exception as caught:  # noqa: BLE001 - one table's bug must not end the others; it is told, with exit code 70
        _LOG.debug("%s stopped", backlog.table.mirror, exc_info=without_texts(caught))
        failure = told(lakes.spark, caught)
        if isinstance(failure, CdcError):
            return _stopped(backlog, failure, batches, clock.monotonic() - began)
        message = (
            f"{backlog.table.mirror} stopped on an unexpected {where_from(failure)}. Run with --debug and report it."
        )
        return _table_run(backlog, batches, clock.monotonic() - began, ErrorInfo(code="BUG", message=message)), EXIT_BUG
    # Where there was nothing to land either, nobody has asked for the contract.
    refused = refusal(work.contracts, backlog.table)
    if refused is not None:
        return _stopped(backlog, refused, batches, clock.monotonic() - began)
    return _table_run(backlog, batches, clock.monotonic() - began, None), 0


def _stopped(
    backlog: Backlog, failure: CdcError, batches: Sequence[Batch] = (), seconds: float = 0.0
) -> tuple[TableRun, int]:
    error = ErrorInfo.of(failure)
    return _table_run(backlog, batches, seconds, error), failure.exit_code


def _batches(work: Work, lakes: Lakes, backlog: Backlog, options: RunOptions, turn_of: TurnOf) -> Iterator[Batch]:
    from cdc_materializer.line.line import Line
    from cdc_materializer.pipeline import advance

    if backlog.error is not None:
        raise backlog.error
    if backlog.topic is None:
        return
    mirror = str(backlog.table.mirror)
    known = work.config.name, backlog.table, work.source, work.registry, work.contracts.get(mirror), lakes.of(mirror)
    turn = turn_of(mirror)
    line = Line(*known, now=options.clock.now, is_over=lambda: options.is_over or turn.lands_no_more())
    pace, topic = lakes.pace(line), backlog.topic
    while not options.is_over:
        try:
            once = partial(pace.advance, line, lambda paced: advance(paced, topic), options.clock, lakes.spark)
            batch = REPLAN.call(once, options.stop, options.deadline)
        except TimeOver:  # within the batch, as it might have been before: what is left is the next run's
            return
        if batch is None:
            return
        if options.on_batch is not None:
            options.on_batch(backlog.table, batch)
        yield batch
        if turn.end.is_over:
            return


def _table_run(backlog: Backlog, batches: Sequence[Batch], seconds: float, error: ErrorInfo | None) -> TableRun:
    counts: dict[str, int] = {}
    violations: dict[str, int] = {}
    for batch in batches:
        for name, count in batch.counts.items():
            counts[name] = counts.get(name, 0) + count
        for name, count in batch.violations.items():
            violations[name] = violations.get(name, 0) + count
    last = batches[-1] if batches else None
    offsets = last.offsets if last is not None else backlog.published
    return TableRun(
        table=str(backlog.table.mirror),
        topic=backlog.table.topic,
        batches=len(batches),
        read=sum(counts.values()),
        violations=violations,
        offsets=_as_json(offsets),
        swept=sum(batch.swept for batch in batches),
        foreign_commits=sum(batch.foreign for batch in batches),
        raw_snapshot=last.raw_snapshot if last is not None else None,
        mirror_snapshot=last.mirror_snapshot if last is not None else None,
        seconds=round(seconds, 3),
        error=error,
        **counts,
    )


def _without_work(work: Work, backlog: Backlog) -> tuple[TableRun, int]:
    failure = backlog.error or refusal(work.contracts, backlog.table)
    return _stopped(backlog, failure) if failure is not None else (_table_run(backlog, [], 0.0, None), 0)


def _as_json(offsets: Offsets | None) -> dict[str, int]:
    return {str(partition): offset for partition, offset in (offsets or {}).items()}


def _report(config: Config, runs: Sequence[tuple[TableRun, int]]) -> RunReport:
    return RunReport(
        pipeline=config.name,
        tables=[run for run, _ in runs],
        exit_code=worst_exit_code(code for _, code in runs),
    )
