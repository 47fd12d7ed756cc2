"""`cdcm verify`: fold raw again from its first message and compare with the mirror, key by key.

The promise is `mirror = fold(raw before the marker) less held rows` (design §3). This is the same fold, on the same
snapshots, without any of the short cuts that batches take: no base rows, no positions, no earlier quarantine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, life, rows, verdict
from cdc_materializer.batch.judgement import Judgement
from cdc_materializer.batch.past import Past
from cdc_materializer.changes import model as m
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.differences import Difference, compare_rows, sides_of
from cdc_materializer.errors import LakeUnavailable, SourceBehind, TimeOver, UsageError
from cdc_materializer.fold.fold import CURRENT
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.lake.line import brought_by_others, summaries
from cdc_materializer.line import ledger
from cdc_materializer.line.checks import check_columns, check_deletes, check_masks, check_whole
from cdc_materializer.line.judging import cached, release, without_failing
from cdc_materializer.line.line import Line, Tables, marker_of, whole_log
from cdc_materializer.line.quarantine import as_held
from cdc_materializer.line.quarantine_retries import as_waiting, find_retries
from cdc_materializer.line.settling import is_given_up
from cdc_materializer.marker.marker import Marker, is_unsettled
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.pipeline import settle
from cdc_materializer.progress import landed
from cdc_materializer.proof.repair import repair, seal
from cdc_materializer.proof.source import SourceProof, check_named, database_of
from cdc_materializer.proof.wait import siblings_of
from cdc_materializer.query.fresh import together
from cdc_materializer.report.models import ErrorInfo, TableVerify, VerifyReport
from cdc_materializer.retry import NEVER, Deadline
from cdc_materializer.run.contracts import refuse_all_unreadable, refuse_unreadable
from cdc_materializer.run.run import TABLES_AT_ONCE, RunOptions, Work, open_work, session_for
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.session.session import beside
from cdc_materializer.table_errors import info_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config, TableConfig

#: What is wrong with raw itself: messages that are there twice, and messages that no landing of ours has brought.
TWICE, FOREIGN = "RAW_DUPLICATES", "RAW_FOREIGN"


@dataclass(frozen=True)
class VerifyOptions:
    """What is wanted of a comparison.

    Attributes:
        tables: names of the mirrors; all for none.
        repair: whether the differing rows are put right, as a batch of their own.
        ledger: whether mirrors are held against their ledgers alone, which reads nothing but the mirrors.
        source: whether mirrors are held against their databases instead of raw.
        plain_keys: whether reports name the first differing keys as they are; else their hashes stand for them.
        deadline: no table is begun behind it, and nobody waited for; a table that was not compared says so.
    """

    tables: Sequence[str] = ()
    repair: bool = False
    ledger: bool = False
    plain_keys: bool = False
    source: bool = False
    deadline: Deadline = NEVER

    def __post_init__(self) -> None:
        """Refuse what does not go together.

        Raises:
            UsageError: nothing can be repaired by what the mirrors are held against, or that would be two things.
        """
        if self.repair and self.ledger:
            raise UsageError("`--ledger` tells no rows, so nothing can be repaired by it.", "Give one of them.")
        if self.source and (self.repair or self.ledger):
            raise UsageError("`--source` goes with neither `--repair` nor `--ledger`.", "Give one of them.")

    @property
    def method(self) -> Literal["fold", "ledger", "source"]:
        """What mirrors are held against, as reports call it."""
        return "source" if self.source else "ledger" if self.ledger else "fold"


def verify_tables(
    config: Config, spark: SparkSession | None = None, options: VerifyOptions | None = None
) -> VerifyReport:
    """Compare mirrors with a fold of their raw tables.

    Args:
        config: from `load_config`.
        spark: a session with Iceberg's extensions, where there is one; left out, a session is started and stopped.
        options: which mirrors, and whether what differs is repaired.

    Returns:
        One entry a table. A table that could not be compared or repaired says so in its entry.

    Raises:
        CdcError: nothing could be compared: the configuration, the contracts of all of them, or Spark.
    """
    options = options or VerifyOptions()
    work = open_work(config, RunOptions(tables=options.tables, deadline=options.deadline), refuse=False)
    refuse_all_unreadable(work.contracts, work.tables)
    if options.source:
        check_named(work.tables)
    # How many rows a database has, raw does not tell.
    size = None if options.source else landed(config, work.tables, options.deadline)
    with session_for(work, spark, size) as session, ThreadPoolExecutor(max_workers=TABLES_AT_ONCE) as pool:
        found = list(pool.map(lambda table: _verify(work, session, table, options), work.tables))
    found += [_refused(one.topic, one.topic, ErrorInfo.of(one.error), options) for one in work.refused]
    return VerifyReport(pipeline=config.name, tables=found)


def _refused(table: str, topic: str, error: ErrorInfo, options: VerifyOptions) -> TableVerify:
    return TableVerify(table=table, topic=topic, method=options.method, equal=False, error=error)


def _verify(work: Work, spark: SparkSession, table: TableConfig, options: VerifyOptions) -> TableVerify:
    began = time.monotonic()
    try:
        with translated(table.mirror):
            found = _compared(work, spark, table, options)
    except Exception as failure:  # noqa: BLE001 - what became of the others, repairs too, is to be told
        found = _refused(str(table.mirror), table.topic, info_of(spark, table.mirror, failure), options)
    return found.model_copy(update={"seconds": round(time.monotonic() - began, 3)})


def _compared(work: Work, spark: SparkSession, table: TableConfig, options: VerifyOptions) -> TableVerify:
    lake = Lake(beside(spark, work.config), work.config.catalog.name, read_only=not options.repair)
    line = Line(work.config.name, table, work.source, work.registry, work.contracts.get(str(table.mirror)), lake)
    name = str(table.mirror)
    if options.deadline.is_over:
        raise TimeOver(f"The time was over before {name} was compared.", "Verify it alone, or with more time.")
    refuse_unreadable(work.contracts, (table,))
    database = database_of(line, work.config) if options.source else None
    line, tables = together(line)
    mirror, raw = tables.mirror, tables.raw
    if mirror is None and database is not None:
        what = f"There is no mirror {name} yet, so nothing of its table in `{database.name}` is in it."
        do = "See that the topic is there and the connector sends the table (PostgreSQL: the publication), then run."
        raise SourceBehind(what, do)
    if mirror is None:
        _refuse_lost(line, raw)
        return TableVerify(table=name, topic=table.topic, method=options.method, equal=True)
    if raw is None:
        what = f"{table.mirror.raw} is gone, so nothing tells what {name} should hold."
        raise LakeUnavailable(what, "Restore it, or mirror the topic anew under another `mirror` name.")
    if database is not None:
        proof = SourceProof(line, database, siblings_of(table, work.known), raw, mirror, options.deadline)
        return proof.compare(plain_keys=options.plain_keys)
    if options.ledger:
        return ledger.compare(line, mirror)
    check_whole(line, raw)
    return compare(line, raw, mirror, tables.quarantine, options)


def _refuse_lost(line: Line, raw: LakeTable | None) -> None:
    """Refuse to call a mirror equal that is not there, where raw tells what it would hold.

    Raises:
        LakeUnavailable: raw has messages that make a mirror.
    """
    if raw is None:
        return
    messages = batch.messages(line.lake.rows(raw), None, line.id_bytes)
    if find_decoders(messages, line.lookup(None)).make_a_table:
        what = f"{line.mirror} is not there, and raw has what it is made of: it was never published, or it is lost."
        raise LakeUnavailable(what, "`cdcm run` makes it again of what raw has, or says what is in the way.")


@dataclass(frozen=True)
class Refolded:
    """The fold of all that a mirror was made from.

    Attributes:
        decided: its states, judged; what `verdict.decide` gives.
        expected: the rows that the mirror should hold.
    """

    decided: DataFrame
    expected: DataFrame


@contextmanager
def refolded(
    line: Line, raw: LakeTable, mirror: LakeTable, held: LakeTable | None, messages: DataFrame | None = None
) -> Iterator[Refolded]:
    """Fold raw from its first message up to where a mirror is; cached until the block ends.

    Args:
        line: the table's way.
        raw: as it was loaded.
        mirror: the mirror, whose columns and epochs the rows get.
        held: its quarantine as it was then; None where there is none.
        messages: other messages of raw to fold, from `batch.messages`.
    """
    known, target = marker_of(mirror), mirror.schema
    span = batch.whole(Offsets(), known.offsets, line.table.topic)
    messages = batch.messages(line.lake.rows(raw), span, line.id_bytes) if messages is None else messages
    messages = as_waiting(line, messages, mirror, held)
    decoders = find_decoders(messages, line.lookup(target))
    # A column that somebody took away is in neither side of a comparison.
    check_columns(mirror, decoders.plan.target)
    recorded = whole_log(mirror, span.end)
    watch = line.watch(None, marker_of(raw), span.end, of=known)
    past = Past(
        line.lookup(target),
        recorded=recorded,
        truncate=line.table.truncate,
        marker=known,
        lives=line.is_soft,
        watch=watch,
    )
    folded = batch.fold_batch(messages, decoders, past)
    try:
        decided = _decided(line, folded, past, target)
        try:
            yield Refolded(decided, rows.final_rows(decided, target, soft=line.is_soft, routed=mirror.routed))
        finally:
            release(decided)
    finally:
        folded.release()


def _decided(line: Line, folded: batch.Folded, past: Past, target: TableSchema) -> DataFrame:
    """The states with their verdicts, cached, as a run would judge them."""
    judgement = line.judgement(folded.target, past.recorded, folded)
    states = as_held(line, folded.states)

    def ask(by: Judgement) -> tuple[DataFrame, int]:
        decided = verdict.decide(states, by)
        return cached(life.remember(decided, target) if line.is_soft else decided)

    (decided, _), _ = without_failing(line, states, judgement, ask)
    return decided


def compare(
    line: Line, raw: LakeTable, mirror: LakeTable, held: LakeTable | None, options: VerifyOptions | None = None
) -> TableVerify:
    """What differs between a mirror and the fold of its raw table, all as they were loaded; repaired if asked to.

    Raises:
        SourceBehind: it differs, held messages can be read by now, and a run was killed behind the commit that readers
            see: that commit may have read them, and only a run tells quarantine so.
    """
    options = options or VerifyOptions()
    check_deletes(line, mirror)
    check_masks(line, mirror)
    error = _raw_error(line, raw)
    tables = Tables(raw=raw, mirror=mirror, quarantine=held)
    if options.repair and error is None:
        # Its commit gets a batch of its own, and nothing would tell any more what the one before has left open. Where a
        # swap was killed, `held` is not quarantine as it is, whose stops are to stay.
        settle(line, raw, replace(tables, quarantine=line.lake.load(line.mirror.quarantine)))
    with refolded(line, raw, mirror, held) as fold:
        difference = difference_from(line, fold.expected, mirror)
        told = held.marker if held is not None else None
        is_told = not (is_unsettled(mirror.marker, told) or is_given_up(mirror.marker, told))
        is_doubtful = error is None and not (difference.is_none or is_told)
        if is_doubtful and find_retries(line, raw, tables, whole=True) is not None:
            what = f"{line.mirror} differs, and messages held for a schema that is known by now wait for a run."
            raise SourceBehind(what, f"Nothing was repaired. `cdcm run --table {line.mirror}`, then verify it again.")
        messages = F.count_if(F.col(CURRENT) & (F.col(m.PART) == 0)).alias("messages")
        log = fold.decided.agg(messages, held_keys()).collect()[0]
        repaired = None
        if options.repair and error is None and not difference.is_none:
            repaired = repair(line, mirror, fold.decided, fold.expected, difference)
            error = _left_error(line, difference_from(line, fold.expected, repaired))
        elif options.repair and error is None:
            seal(line, mirror, fold.expected)
    return TableVerify(
        table=str(line.mirror),
        topic=line.table.topic,
        equal=difference.is_none and error is None,
        expected=difference.expected,
        found=difference.found,
        missing=difference.missing,
        unexpected=difference.unexpected,
        different=difference.different,
        held=log["held"],
        columns=difference.columns,
        buckets=len(difference.buckets),
        places=difference.places,
        keys=difference.told_keys(plain=options.plain_keys),
        messages=log["messages"],
        raw_snapshot=raw.head,
        mirror_snapshot=mirror.head,
        repaired_snapshot=repaired.head if repaired is not None else None,
        judged_otherwise=not difference.is_none and _was_judged_otherwise(line, mirror),
        error=error,
    )


def _was_judged_otherwise(line: Line, mirror: LakeTable) -> bool:
    """Whether a batch since the mirror was made, or rebuilt, was judged by another contract than today's."""
    today = line.contract.fingerprint if line.contract is not None else None
    told = (Marker.from_summary(summary) for *_, summary in summaries(line.lake.iceberg(mirror.name), mirror.head))
    return judged_otherwise((known for known in told if known is not None), today)


def judged_otherwise(told: Iterable[Marker], today: str | None) -> bool:
    """Whether a batch that a mirror has rows of was judged by another contract.

    Args:
        told: the markers on the mirror's line, newest first.
        today: the contract's fingerprint.
    """
    above: Marker | None = None
    for known in told:
        if above is not None and known.offsets.is_ahead_of(above.offsets):
            # A replay has read again what this one read: from its own beginning on, or without one as earlier versions
            # put a rebuilt mirror on top of a newer one, from the first message on.
            if above.batch:
                return False
            continue
        if known.source_snapshot is None:
            return False
        if known.contract != today:
            return True
        above = known
    return False


def difference_from(line: Line, expected: DataFrame, mirror: LakeTable) -> Difference:
    """How a mirror differs from the rows that it should hold."""
    return compare_rows(*sides_of(line, expected, mirror), mirror.schema)


def _raw_error(line: Line, raw: LakeTable) -> ErrorInfo | None:
    """What is wrong with raw, which only ever gets each message once, and from us; None where nothing is."""
    reached = marker_of(raw).offsets
    landed = Span(line.table.topic, Offsets(dict.fromkeys(reached, 0)), reached)
    copies = line.lake.rows(raw).groupBy("topic", "partition", "offset").count()
    is_beyond = ~batch.within(landed, "partition", "offset")
    told = copies.agg(F.count_if(F.col("count") > 1).alias("twice"), F.count_if(is_beyond).alias("beyond")).collect()[0]
    twice, beyond = told["twice"], told["beyond"]
    others = brought_by_others(line.lake.iceberg(raw.name), raw.head)
    do = "Only `cdcm run` may write raw: take them out, or go back to the snapshot before."
    if twice:
        return ErrorInfo(code=TWICE, message=f"{raw.name} has {twice} messages more than once. {do}")
    if beyond:
        what = f"{raw.name} has {beyond} messages behind the offsets that were landed."
        return ErrorInfo(code=FOREIGN, message=f"{what} {do}")
    if others:
        what = f"Another program has written messages to {raw.name}, last in snapshot {others[0]}."
        return ErrorInfo(code=FOREIGN, message=f"{what} {do}")
    return None


def _left_error(line: Line, left: Difference) -> ErrorInfo | None:
    if left.is_none:
        return None
    what = f"{line.mirror} was repaired and does not equal the fold of its raw table."
    return ErrorInfo(code="DifferenceFound", message=f"{what} Please report this as a bug.")


def held_keys() -> Column:
    """How many keys have something of what was folded held, as `held`."""
    is_open = F.exists(verdict.VIOLATIONS, lambda violation: violation["status"] == verdict.OPEN)
    return F.count_distinct(F.when(is_open, F.col(m.KEY))).alias("held")
