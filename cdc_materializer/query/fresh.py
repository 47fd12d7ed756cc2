"""A mirror with what has not been published yet: landed or still in the topic, folded as it is read, never written.

The fold and the contract are the run's own (`pipeline.decide`), so a row that the run would hold is not shown, and what
would stop the run stops the reader too. Two things wait for the run: rules about a whole table, which are judged on
what is staged, and rows that a snapshot did not show (`snapshot_sweep`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer.batch import batch, life, rows
from cdc_materializer.batch.steps import Decided
from cdc_materializer.changes import model as m
from cdc_materializer.decode.fit import conformed, ddl_of
from cdc_materializer.errors import CommitConflict, UsageError
from cdc_materializer.fold.truncated import is_ended
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line import stops
from cdc_materializer.line.checks import check_masks
from cdc_materializer.line.line import Line, Tables, marker_of
from cdc_materializer.line.quarantine import rewound_topics
from cdc_materializer.line.quarantine_retries import find_retries
from cdc_materializer.line.renames import told_by
from cdc_materializer.line.settling import held_with
from cdc_materializer.merge import CDC, DELETED, Origin, cdc_struct
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.pipeline import decide, plan_folding, reading_of
from cdc_materializer.progress import asked_again, backlogs, plan_reading
from cdc_materializer.run.run import RunOptions, open_work, session_for
from cdc_materializer.session.session import beside
from cdc_materializer.source import TopicState, as_raw_counts, read_span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.config import Config
    from cdc_materializer.lake.lake import LakeTable

#: How often the tables are looked at, where a run publishes between two looks; a batch takes seconds, a look does not.
_LOOKS = 5
#: More than any topic has.
_ALL_MESSAGES = 1 << 62
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Fresh:
    """The rows of a mirror, and how fresh they are.

    Attributes:
        rows: as the mirror has them, with its columns and `__cdc`.
        messages: how many messages are in them that the mirror has not got.
        held: how many of these would be held.
        newest: the time of the newest of them in Kafka; None where there are none.
    """

    rows: DataFrame
    messages: int = 0
    held: int = 0
    newest: datetime | None = None


def read(config: Config, table: str, spark: SparkSession, *, fresh: bool = True) -> DataFrame:
    """The rows of a mirror; with `fresh` as if a run had brought it up to the end of its topic.

    Args:
        config: from `load_config`.
        table: name of the mirror.
        spark: a session with Iceberg's extensions.
        fresh: whether messages count that are not published yet. They are folded once, when this is called.

    Returns:
        The mirror's columns and `__cdc`, masked as the contract says. Deleted rows that the mirror keeps are not among
        them, if `fresh`. How fresh they are, `read_fresh` says.

    Raises:
        UsageError: there is no such mirror.
        ContractInvalid: its rows are masked otherwise than the contract says.
        CdcError: a run of the table would stop.
    """
    return _read(config, table, spark, fresh=fresh).rows


def read_fresh(config: Config, table: str, spark: SparkSession) -> Fresh:
    """The rows of a mirror as if a run had brought it up to the end of its topic, and how fresh that is.

    Args:
        config: from `load_config`.
        table: name of the mirror.
        spark: a session with Iceberg's extensions.

    Raises:
        UsageError: there is no such mirror.
        ContractInvalid: its rows are masked otherwise than the contract says.
        CdcError: a run of the table would stop.
    """
    return _read(config, table, spark, fresh=True)


def _read(config: Config, table: str, spark: SparkSession, *, fresh: bool) -> Fresh:
    work = open_work(config, RunOptions(tables=(table,)))
    with session_for(work, spark, messages=0) as session:
        entry = work.tables[0]
        lake = Lake(beside(session, config, asks=True), config.catalog.name, read_only=True)
        line = Line(config.name, entry, work.source, work.registry, work.contracts.get(str(entry.mirror)), lake)
        backlog = backlogs(config, work.source, work.tables)[0] if fresh else None
        if backlog is not None and backlog.error is not None:
            raise backlog.error
        return fresh_rows(line, backlog.topic if backlog is not None else None)


def fresh_rows(line: Line, topic: TopicState | None) -> Fresh:
    """The mirror's rows with those of all messages up to the ends of the topic.

    Args:
        line: the table's way, through a lake that is only read.
        topic: its beginnings and ends; None to leave out what is not published.

    Raises:
        UsageError: there is no mirror, and no message that could make one.
        ContractInvalid: its rows are masked otherwise than the contract says.
        CommitConflict: the mirror was published to each time that its tables were looked at.
        CdcError: a run of the table would stop.
    """
    lake, name = line.lake, line.mirror
    with translated(name):
        line, tables = together(line) if topic is not None else (line, Tables(None, line.load_mirror(), None))
        if topic is not None and line.follows_aliases:
            line = told_by(line, batch.messages(unlanded(line, tables.raw, topic)[0], None, line.id_bytes))
            line, tables = together(line)
        check_masks(line, tables.mirror)
        decided, newest = _decide(line, tables, topic) if topic is not None else (None, None)
        if decided is None:
            if tables.mirror is None:
                raise UsageError(f"There is no mirror {name} yet.", "`cdcm run` makes it.")
            published = lake.rows(tables.mirror)
            return Fresh(life.without_deleted(published) if topic is not None else published)
        if (stop := stops.asked_for(line, decided)) is not None:
            raise stop
        if tables.mirror is None and not decided.decoders.make_a_table:
            what = f"There is no mirror {name} yet, and no message that tells what it would be."
            raise UsageError(what, "`cdcm run` says more.")
        read = sum(decided.counts.values())
        return Fresh(_together(line, tables.mirror, decided), read, decided.counts["quarantined"], newest)


def together(line: Line, lake: Lake | None = None) -> tuple[Line, Tables]:
    """The tables as they are at one moment of the mirror, and the table's way to them, whatever a run does meanwhile.

    What is held is ended in quarantine behind the commit that ends it (`settling`). A mirror from before it beside a
    quarantine from after it would lack what the held message carries: nothing would say that it has to be folded again.

    Args:
        line: the table's way.
        lake: what they are loaded from, if not the line's.

    Raises:
        CommitConflict: the mirror was published to each time.
    """
    lake = lake or line.lake
    for _ in range(_LOOKS):
        # The mirror first: what a run publishes meanwhile, raw and quarantine have had before.
        mirror = line.load_mirror(lake)
        tables = Tables(lake.load(line.mirror.raw), mirror, lake.load(line.mirror.quarantine))
        tables = replace(tables, quarantine=held_with(line, tables) or tables.quarantine)
        now = line.load_mirror(lake)
        if (now and (now.uuid, now.head)) == (mirror and (mirror.uuid, mirror.head)):
            return line, tables
        # What has landed meanwhile may say of columns what raw did not say before.
        line = replace(line)
    what = f"{line.mirror} was published to again and again while it was being read."
    raise CommitConflict(what, "Run it again when less is published; `query` answers at once without --fresh.")


def unlanded(line: Line, raw: LakeTable | None, topic: TopicState) -> tuple[DataFrame, Span]:
    """The messages of a topic that raw has not got, as rows of raw, and where they lie as raw counts.

    Raises:
        OffsetRegression, OffsetGap: the topic was made again, or lost messages before they were read.
    """
    known = marker_of(raw) if raw is not None else None
    every = line.table.model_copy(update={"records_max": _ALL_MESSAGES})
    counted = as_raw_counts(asked_again(line.source, line.table, topic, known), known)
    rewound = rewound_topics(line, line.lake.load(line.mirror.quarantine))
    span = plan_reading(every, counted, known, rewound)
    there = span if known is None else Span(span.topic, known.in_topic(span.start), known.in_topic(span.end))
    messages = read_span(line.source, line.lake.spark, there, counted.topics)
    return rows.raw_rows(messages, "", known.bases if known is not None else {}, line.id_bytes), span


def _decide(line: Line, tables: Tables, topic: TopicState) -> tuple[Decided | None, datetime | None]:
    """What a run would decide of all that is not published, as one batch; None where there is nothing."""
    tail, ahead = unlanded(line, tables.raw, topic)
    if tables.raw is None:
        stored, waiting, retried = tail, ahead, None
    else:
        landed = plan_folding(line, tables.raw, tables.mirror)
        raw = line.lake.rows(tables.raw)
        # That of an earlier version lacks some.
        raw = raw.select(*[name for name in tail.columns if name in raw.columns])
        stored = raw.unionByName(tail, allowMissingColumns=True)
        waiting = batch.whole(landed.start, Offsets({**landed.end, **ahead.end}), landed.topic)
        retried = find_retries(line, tables.raw, tables)
    if waiting.is_empty and retried is None:
        return None, None
    reading = reading_of(line, stored, waiting, retried, tables)
    micros = reading.own.agg(F.unix_micros(F.max("timestamp")).alias("newest")).collect()[0]["newest"]
    return decide(line, tables, reading), _EPOCH + timedelta(microseconds=micros) if micros is not None else None


def _together(line: Line, mirror: LakeTable | None, decided: Decided) -> DataFrame:
    """The live rows of the mirror that a batch leaves as they are, and the batch's."""
    target = decided.decoders.plan.target
    routed = decided.facts.routed or (mirror is not None and mirror.routed)
    soft = line.is_soft if mirror is None else mirror.keeps_deleted
    final = rows.final_rows(decided.states, target, soft=False, routed=routed)
    final = _as_live(final, soft=soft, routed=routed)
    if mirror is None or mirror.is_empty:
        return final
    kept = _as_live(life.live_rows(line.lake.rows(mirror), target), soft=soft, routed=routed).alias("t")
    origin = Origin(marker_of(mirror).source_table) if routed else None
    for truncate in decided.truncates:
        kept = kept.where(~is_ended(truncate, origin))
    replaced = rows.published_keys(decided.states, target, soft=False)
    return kept.join(replaced, list(target.key), "left_anti").select(*map(m.column, final.columns)).unionByName(final)


def _as_live(found: DataFrame, *, soft: bool, routed: bool) -> DataFrame:
    """Rows that are not deleted, with `__cdc` as their mirror has it."""
    cdc = conformed(F.col(CDC), ddl_of(found.schema[CDC].dataType), cdc_struct(soft=soft, routed=routed))
    return found.withColumn(CDC, cdc.withField(DELETED, F.lit(False)) if soft else cdc)
