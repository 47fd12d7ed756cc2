"""`cdcm why`: the life of one row, every message that it was made of and what became of each.

The same fold and the same verdict as a run's, over the messages of one key from raw's first one on. A pass over raw
decodes keys and no rows, as a batch does that looks into the past, and operations where truncates were applied; only
the key's own messages are decoded whole. Each
message is told in the batch that read it, which the markers in the mirror's snapshots know. Nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, doubts, life, rows, verdict
from cdc_materializer.batch.earlier import at_places, lying_at
from cdc_materializer.batch.judgement import Judgement
from cdc_materializer.changes import model as m
from cdc_materializer.differences import compare_rows
from cdc_materializer.errors import UsageError
from cdc_materializer.explain.changes import changed_columns, changed_values, told_changes
from cdc_materializer.explain.held import violations_of
from cdc_materializer.explain.key import key_values, typed_key
from cdc_materializer.explain.log import Log, log_of
from cdc_materializer.explain.schemas import with_schemas
from cdc_materializer.explain.sweeps import in_sweeping_batches
from cdc_materializer.fold import fold
from cdc_materializer.lake.line import heads, summaries
from cdc_materializer.line.judging import cached, release, without_failing
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.line.quarantine import as_held
from cdc_materializer.marker.marker import Marker
from cdc_materializer.merge import CDC, DELETED
from cdc_materializer.order import key_order
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.row_models import RowNow, WhyReport
from cdc_materializer.report.row_story import (
    HELD_ACTIONS,
    SEEN,
    Kept,
    Publication,
    Told,
    judged_otherwise,
    publications,
    story,
)
from cdc_materializer.report.row_summary import Standing, summary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config

_BATCH, _VALUES, _LAST = "__cdc_batch", "__cdc_values", "__cdc_last"
#: Whether a message was held and read once more, and the batch that read it first.
_LATER, _FIRST = "__cdc_later", "__cdc_first"
_CUT_PARTITION, _CUT_START, _CUT_END = "__cdc_cut_partition", "__cdc_cut_start", "__cdc_cut_end"
_CUTS = (_CUT_PARTITION, _CUT_START, _CUT_END, _BATCH)
_CUTS_DDL = f"array<struct<{','.join(f'{name}:bigint' for name in _CUTS)}>>"


@dataclass(frozen=True)
class Asked:
    """Which row is asked for: by its key, or by a message of it.

    Attributes:
        key: JSON text such as ``{"id": 42}``, or the plain value of a key of one column.
        place: partition and offset.
        limit: the most messages to tell, the newest of them.
        values: whether to tell what the changed columns were and became, masked as the contract says.
    """

    key: str | None = None
    place: tuple[int, int] | None = None
    limit: int = 200
    values: bool = False


def why(config: Config, table: str, asked: Asked, spark: SparkSession | None = None) -> WhyReport:
    """Tell the life of one row.

    Args:
        config: from `load_config`.
        table: the mirror.
        asked: which row.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        UsageError: there is no such mirror, message or key.
        CdcError: the tables, the registry or the contract cannot be used.
    """
    with log_of(config, table, spark) as log:
        return _explain(log, asked)


def _explain(log: Log, asked: Asked) -> WhyReport:
    line, raw, mirror = log.line, log.raw, log.mirror
    key = log.key_of(asked.place) if asked.place is not None else log.key(asked.key or "")
    places = log.places(key) if key is not None else log.place(asked.place)
    log = log.at(places)
    batches = batches_of(log)
    judged, read = _judged(log, batches, _is_row(key, asked.place), places)
    try:
        waiting = log.waiting(places, key)
        unread = waiting.count() if waiting is not None else 0
        total = read + unread
        if total == 0:
            if log.stop is not None:
                raise log.stop
            what = f"{line.mirror.raw} has no message of that key."
            raise UsageError(what, "Write the key as JSON, as `cdcm quarantine list` does: --key '{\"id\": 42}'.")
        told = with_schemas(log, [*_told(log, judged, asked), *_unread(waiting, asked.limit)][-asked.limit :])
        standing = Standing.of(told) if total == len(told) else replace(_standing(line, judged), waiting=unread)
        row = _row(log, judged, key) if key is not None else None
    finally:
        release(judged)
    fingerprint = line.contract.fingerprint if line.contract is not None else None
    stop = log.stop.what if log.stop is not None else None
    return WhyReport(
        pipeline=line.pipeline,
        table=str(line.mirror),
        topic=line.table.topic,
        key=key,
        summary=summary(standing, row, judged_otherwise=judged_otherwise(told, batches, fingerprint), stop=stop),
        row=row,
        total=total,
        limit=asked.limit,
        messages=story(told, batches, violations_of(log, told, key), line.masks),
        raw_snapshot=raw.head,
        mirror_snapshot=mirror.head,
    )


# --- what became of them
# ----------------------------------------------------------------------------------------------------


def batches_of(log: Log) -> list[Publication]:
    """The batches that the mirror is made of, as far as its snapshots tell; those of a replay were seen at its end."""
    table = log.line.lake.iceberg(log.mirror.name)
    seen, found = heads(table), []
    first, shown = min(seen.values(), default=2**63), None
    for number, at, is_first, told in summaries(table, log.mirror.head):
        shown = (number, at) if shown is None or number in seen or at < first else shown
        found.append(Kept(*shown, Marker.from_summary(told), is_first))
    return publications(found)


@contextmanager
def fates(log: Log) -> Iterator[DataFrame]:
    """What became of every message that the mirror was folded from, as `why` tells it; cached until the block ends.

    In one pass over raw: `topic`, `partition`, `offset` of each message, and `outcome`. Where a message is changes of
    several rows, the outcome is that of the one that weighs most, as runs count it.
    """
    judged, _ = _judged(log, batches_of(log), F.lit(True))
    try:
        names = {m.TOPIC: "topic", m.PARTITION: "partition", m.OFFSET: "offset", verdict.OUTCOME: "outcome"}
        yield verdict.by_message(judged).select(*[F.col(name).alias(short) for name, short in names.items()])
    finally:
        release(judged)


def _judged(
    log: Log, batches: Sequence[Publication], wanted: Column, places: DataFrame | None = None
) -> tuple[DataFrame, int]:
    """States of rows with their outcomes, each in its batch, cached; and how many they are.

    Args:
        log: the messages.
        batches: those that have read them.
        wanted: which states.
        places: where the messages lie that they are made from; None to fold all.
    """
    read = log.messages.where(batch.within(log.read, "partition", "offset"))
    past, own = log.past, read
    if past.watch is None and places is not None:
        others = read.join(F.broadcast(places), ["partition", "offset"], "left_anti")
        # Those truncates that ended the row are among its own messages.
        recorded = replace(past.recorded, truncates=0)
        past, own = replace(past, raw=others, recorded=recorded), lying_at(read, places)
    # Where snapshots sweep, the messages of all rows say which of them a snapshot did not show.
    folded = batch.fold_batch(own, log.decoders, past)
    try:
        states = folded.states.where(wanted)
        cuts = [(*found, number) for number, one in enumerate(batches) for found in one.ranges()]
        known = F.broadcast(_frame(log.line.lake.spark, cuts))
        inside = (F.col(m.OFFSET) >= F.col(_CUT_START)) & (F.col(m.OFFSET) < F.col(_CUT_END))
        states = states.join(known, (F.col(m.PARTITION) == F.col(_CUT_PARTITION)) & inside, "left")
        states, later = in_sweeping_batches(states, batches, _BATCH), _read_later(log, places)
        states = _in_later_batches(states, later) if later is not None else states
        judgement = log.line.judgement(folded.target, past.recorded, folded)
        line, forgets = log.line, log.line.format.tombstones_delete
        states = as_held(line, states)
        apart = verdict.Cuts(_BATCH, lives=line.keeps_lives or folded.facts.routed, forgets=forgets)

        def ask(by: Judgement) -> tuple[DataFrame, int]:
            judged = verdict.decide(states, by, apart)
            judged = life.remember(_behind_what_was_seen(judged) if later is not None else judged, log.target)
            # A truncate says nothing of a row that was not there, and no more does a snapshot.
            is_unsent = F.coalesce(F.col(m.OP).isin(m.WIPE, m.SWEEP), F.lit(False))
            was_there = F.coalesce(F.col(life.BEFORE)["live"], F.lit(False))
            # Counted before the caches that it is made from are given back.
            return cached(judged.where(~is_unsent | (F.col(life.APPLIED) & was_there)))

        found, _ = without_failing(line, states, judgement, ask)
        return found
    finally:
        folded.release()


def _read_later(log: Log, places: DataFrame | None) -> DataFrame | None:
    """Those of some messages that were held, and that a later batch has read once more (partition, offset).

    None where there are none; no places stand for all messages.
    """
    held = log.line.lake.load(log.line.mirror.quarantine)
    if held is None:
        return None
    is_later = (F.col("status") == verdict.RELEASED) & F.col("action").isin(*HELD_ACTIONS)
    found = log.line.lake.rows(held).where(is_later)
    found = at_places(found, places) if places is not None else found
    found = found.select("partition", "offset").distinct().localCheckpoint()
    return found if not found.isEmpty() else None


def _in_later_batches(states: DataFrame, later: DataFrame) -> DataFrame:
    """States of which those of messages that were read once more are in none of the known batches.

    Readers saw what their first batches published without them. No snapshot says which batch it was that read them
    again: here they are together behind all that their first ones published, and before the others.
    """
    places = later.select(*[F.col(name).alias(f"later_{name}") for name in later.columns])
    is_at = (F.col(m.PARTITION) == F.col("later_partition")) & (F.col(m.OFFSET) == F.col("later_offset"))
    known = states.join(F.broadcast(places), is_at, "left").withColumn(_LATER, F.col("later_offset").isNotNull())
    return known.withColumns({_FIRST: F.col(_BATCH), _BATCH: F.when(~F.col(_LATER), F.col(_BATCH))})


def _behind_what_was_seen(judged: DataFrame) -> DataFrame:
    """What was read once more and found a later state of its row published becomes superseded."""
    seen = F.max(F.when(F.col(verdict.PASSES) & ~F.col(_LATER), F.col(key_order.ORDER)))
    seen = seen.over(Window.partitionBy(key_order.GROUP, _FIRST))
    is_behind = F.col(_LATER) & F.col(verdict.PUBLISHED) & (seen > F.col(key_order.ORDER))
    outcome = F.when(F.coalesce(is_behind, F.lit(False)), verdict.SUPERSEDED).otherwise(F.col(verdict.OUTCOME))
    return judged.withColumn(verdict.OUTCOME, outcome)


def _frame(spark: SparkSession, cuts: Sequence[tuple[int, int, int, int]]) -> DataFrame:
    """Partition, first offset, end and number of each batch; as one literal, for which Spark needs no Python worker."""
    found = F.from_json(F.lit(json.dumps([dict(zip(_CUTS, cut, strict=True)) for cut in cuts])), _CUTS_DDL)
    return spark.range(1).select(F.inline(found))


def _is_row(key: str | None, place: tuple[int, int] | None) -> Column:
    if key is not None:
        return F.col(m.KEY).eqNullSafe(key)
    partition, offset = place or (0, 0)
    return (F.col(m.PARTITION) == partition) & (F.col(m.OFFSET) == offset)


def _told(log: Log, judged: DataFrame, asked: Asked) -> list[Told]:
    values = [changed_values(log.target, log.line.masks).alias(_VALUES)] if asked.values else []
    shown = [*_shown(log.line), changed_columns(log.target).alias("columns"), *values, F.col(key_order.ORDER)]
    newest = judged.select(*shown).orderBy(F.col(key_order.ORDER).desc()).limit(asked.limit).collect()
    return [_one(row) for row in reversed(newest)]


def _shown(line: Line) -> list[Column]:
    """What is told of a message whatever is asked for, as columns that `_one` reads."""
    is_sweep = F.col(m.OP).eqNullSafe(m.SWEEP)
    return [
        *[F.col(name) for name in (m.TOPIC, m.PARTITION, m.OFFSET, m.TIME, m.SOURCE_TIME, m.POSITION, m.EPOCH)],
        F.when(F.col(m.OP) == m.WIPE, m.TRUNCATE).when(~is_sweep, F.col(m.OP)).otherwise("d").alias(m.OP),
        F.col(verdict.OUTCOME),
        F.col(verdict.PASSES),
        F.col(_BATCH),
        is_sweep.alias("swept"),
        _broke(line).alias("broke"),
        F.when(fold.effective() & ~fold.is_delete(), F.array_union(m.ABSENT, m.UNAVAILABLE)).alias("kept"),
    ]


def _standing(line: Line, judged: DataFrame) -> Standing:
    """What all messages that were read say of how the row stands; those that wait are not among them."""
    order, outcome = F.col(key_order.ORDER), F.col(verdict.OUTCOME)
    newest = judged.where(outcome.isin(*SEEN)).orderBy(order.desc()).limit(1)
    newest = newest.select(*_shown(line), F.lit(None).alias("columns"), order).localCheckpoint()
    held = judged.where(outcome == "quarantined").select(order, _broke(line).alias("broke"))
    held = held.join(F.broadcast(newest.select(order.alias(_LAST))), order <= F.col(_LAST), "left_anti")
    broken = held.groupBy("broke").agg(F.count("*").alias("messages")).collect()
    return Standing(
        last=next((_one(row) for row in newest.collect()), None),
        held=sum(row["messages"] for row in broken),
        broke=tuple(sorted({name for row in broken for name in row["broke"]})),
    )


def _one(row: Row) -> Told:
    return Told(
        place=_place(row),
        op=row[m.OP],
        source_ts=rows.instant(row[m.SOURCE_TIME]),
        position=row[m.POSITION],
        epoch=row[m.EPOCH],
        outcome=row[verdict.OUTCOME],
        passes=row[verdict.PASSES],
        broke=tuple(row["broke"] or ()),
        columns=tuple(row["columns"] or ()),
        kept=tuple(row["kept"] or ()),
        number=row[_BATCH],
        swept=row["swept"],
        values=tuple(told_changes(row[_VALUES])) if _VALUES in row else None,
    )


def _unread(waiting: DataFrame | None, limit: int) -> list[Told]:
    if waiting is None:
        return []
    found = waiting.orderBy(F.desc(m.OFFSET), m.PARTITION).limit(limit).collect()
    return [
        Told(
            place=_place(row),
            op=row[m.OP],
            source_ts=rows.instant(row[m.SOURCE_TIME]),
            position=row[m.POSITION],
            epoch=row[m.EPOCH],
            outcome="waiting",
        )
        for row in reversed(found)
    ]


def _place(row: Row) -> MessagePlace:
    coordinates = {"topic": row[m.TOPIC], "partition": row[m.PARTITION], "offset": row[m.OFFSET]}
    return MessagePlace(timestamp=rows.instant(row[m.TIME]), **coordinates)


def _broke(line: Line) -> Column:
    """What a state breaks, whatever comes after it: codes, each with the rule or the column."""
    is_row = fold.effective() & ~fold.is_delete()
    misfits = F.transform(verdict.misfits(), lambda found: F.concat_ws(" ", found["code"], found["column"]))
    rules = F.transform(F.col(verdict.FAILED), lambda name: F.concat_ws(" ", F.lit("CONTRACT"), name))
    parts = [F.when(F.col(m.CODE).isNotNull(), F.array(m.CODE)), F.when(is_row, F.concat(misfits, rules))]
    if line.table.strict:
        lost = F.transform(F.col(fold.OPEN_COLUMNS), lambda name: F.concat_ws(" ", F.lit("UNAVAILABLE_NO_BASE"), name))
        parts += [F.when(is_row, lost), F.when(F.col(doubts.DOUBTED), F.array(F.lit("ORDER_AMBIGUOUS")))]
    nothing = F.array().cast(fold.NO_NAMES)
    return F.array_distinct(F.concat(*[F.coalesce(part, nothing) for part in parts]))


# --- the row now
# ------------------------------------------------------------------------------------------------------------


def _row(log: Log, judged: DataFrame, key: str) -> RowNow:
    line, target = log.line, log.mirror.schema
    expected = rows.final_rows(judged, target, soft=True, routed=log.mirror.routed)
    if not line.is_soft:
        expected = expected.where(~F.col(CDC)[DELETED]).withColumn(CDC, F.col(CDC).dropFields(DELETED))
    values = key_values(key, target.key)
    is_row = F.lit(True)
    for name, value in zip(target.key, typed_key(values, target), strict=True):
        is_row = is_row & (m.column(name) == value)
    found = line.lake.rows(log.mirror).where(is_row).localCheckpoint()
    sides = (expected, found)
    if log.mirror.routed:
        first = marker_of(log.mirror).source_table
        sides = (rows.with_source_tables(expected, first), rows.with_source_tables(found, first))
    difference = compare_rows(*sides, target)
    written = found.select(f"{CDC}.*").limit(1).collect()
    is_deleted = bool(written and line.is_soft and written[0][DELETED])
    # A row of another program may name no message.
    at = {name: written[0][name] for name in ("topic", "partition", "offset")} if written else {}
    return RowNow(
        present=bool(written),
        deleted=is_deleted,
        written=MessagePlace(**at) if at and None not in at.values() else None,
        agrees=difference.is_none,
        different=list(difference.columns),
    )
