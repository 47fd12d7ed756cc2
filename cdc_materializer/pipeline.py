"""The straight line: from the messages of a topic to a checked mirror, one batch at a time.

Read `advance` from top to bottom: its numbered steps are those of design §3. Everything that it decides it decides from
the tables themselves, so that after any crash the same code runs again and converges.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer import batch, fold, quarantine, rows, verdict
from cdc_materializer.batch import Past
from cdc_materializer.decoders import find_decoders
from cdc_materializer.errors import (
    Code,
    ContractBlocked,
    OffsetRegression,
    OutOfRange,
    SchemaIncompatible,
    SchemaRefused,
    TruncateStopped,
)
from cdc_materializer.lake import LakeTable, Stage
from cdc_materializer.line import Batch, Decided, Line, Tables, marker_of, new_marker, reload
from cdc_materializer.merge import RAW_SCHEMA, delete_keys, delete_truncated
from cdc_materializer.offsets import Marker, Offsets, Span, batch_id, plan_span
from cdc_materializer.schema import TableSchema
from cdc_materializer.source import TopicState, read_failure

#: Raw is only ever appended to, so the oldest format that all engines read will do.
_RAW_PROPERTIES = {"format-version": "2", "write.metadata.delete-after-commit.enabled": "true"}
_KEYS_VIEW = "__cdc_keys"


def advance(line: Line, topic: TopicState) -> Batch | None:
    """Bring one table forward by at most one batch; None when nothing was left to do. Safe to call again after a crash.

    Args:
        line: the table's way.
        topic: the ends up to which to go.

    Raises:
        CdcError: nothing of the batch is published then; what was landed in raw stays.
    """
    # Step 1. Where are we? The tables are the only memory.
    tables = load(line)
    # Step 2. What is next? Decided on the driver, before any work.
    landing = plan_landing(line, tables.raw, topic)
    # Step 3. Keep everything, unread, with its offsets, in one commit.
    raw = land(line, tables.raw, landing, topic)
    # Step 4. From here on the input is a pinned snapshot: the same bytes on every retry.
    span = plan_folding(line, raw, tables.mirror)
    retried = quarantine.find_retries(line, raw, tables)
    if span.is_empty and retried is None:
        return None
    decided = decide(line, raw, tables, span, retried)
    try:
        # Step 5. Publish what is held and why, then the rows with their marker: or nothing.
        return publish(line, raw, tables, decided)
    finally:
        decided.states.unpersist()


# --- steps 1 to 3
# -------------------------------------------------------------------------------------------------------


def load(line: Line) -> Tables:
    """The line's tables as they are now, none of them half made."""
    mirror = line.mirror
    return Tables(line.lake.load(mirror.raw), line.lake.load(mirror), line.lake.load(mirror.quarantine))


def plan_landing(line: Line, raw: LakeTable | None, topic: TopicState) -> Span:
    """The messages that raw has not got yet, at most a batch of them.

    Raises:
        OffsetRegression, OffsetGap: the topic was made again, or lost messages before they were read.
    """
    marker = marker_of(raw) if raw is not None else None
    if marker is not None and None not in (marker.topic_id, topic.topic_id) and marker.topic_id != topic.topic_id:
        what = f"Topic {topic.topic} was deleted and made again since it was last read; its offsets start anew."
        raise OffsetRegression(what, "Nothing was written. Mirror the new topic under another `mirror` name.")
    recorded = marker.offsets if marker is not None else None
    return plan_span(topic.topic, recorded, topic.beginnings, topic.ends, line.table.records_max)


def land(line: Line, raw: LakeTable | None, span: Span, topic: TopicState) -> LakeTable:
    """Append the span's messages to raw; a bad message, a missing schema or a broken rule never stops this."""
    if raw is None:
        start = new_marker(line, Span(span.topic, span.start, span.start), "", topic.topic_id)
        raw = line.lake.create(line.mirror.raw, RAW_SCHEMA, start, _RAW_PROPERTIES)
    if span.is_empty:
        return raw
    marker = new_marker(line, span, raw.uuid, topic.topic_id)
    messages = line.source.read(line.lake.spark, span)
    line.lake.publish(raw, marker, lambda stage: _append_read(stage, rows.raw_rows(messages, marker.batch), span.topic))
    return reload(line, line.mirror.raw)


def _append_read(stage: Stage, messages: DataFrame, topic: str) -> None:
    """Append what the source gives; Spark reads it only now, so a source that fails does so here."""
    try:
        stage.append(messages)
    except (PySparkException, Py4JJavaError) as error:
        failure = read_failure(error, topic)
        if failure is not None:
            raise failure from error
        raise


# --- step 4
# -------------------------------------------------------------------------------------------------------------


def plan_folding(line: Line, raw: LakeTable, mirror: LakeTable | None) -> Span:
    """The messages of raw that the mirror has not got yet, at most a batch of them."""
    landed = marker_of(raw).offsets
    if mirror is not None:
        start = batch.whole(marker_of(mirror).offsets, landed, line.table.topic).start
        return plan_span(line.table.topic, start, start, landed, line.table.records_max)
    first = line.lake.rows(raw).groupBy("partition").agg(F.min("offset").alias("offset")).collect()
    known = Offsets({row["partition"]: row["offset"] for row in first})
    start = Offsets({partition: known.get(partition, end) for partition, end in landed.items()})
    return plan_span(line.table.topic, None, start, landed, line.table.records_max)


def decide(line: Line, raw: LakeTable, tables: Tables, span: Span, retried: DataFrame | None) -> Decided:
    """Decode, fold and judge the span's messages, and those that can be read only now; nothing is written."""
    stored = line.lake.rows(raw)
    before = Span(span.topic, Offsets(dict.fromkeys(span.start, 0)), span.start)
    current = tables.mirror.schema if tables.mirror is not None else None
    own, earlier = batch.messages(stored, span), batch.messages(stored, before)
    if retried is not None:
        # What a batch that was not published held for its schema is in the span itself.
        retried = retried.where(batch.within(before, "partition", "offset"))
        own = own.unionByName(batch.messages(retried, None))
        earlier = earlier.join(F.broadcast(retried.select("partition", "offset")), ["partition", "offset"], "left_anti")
    decoders = find_decoders(own, line.lookup(current))
    _check_key(line, current, decoders.plan.target)
    past = Past(
        raw=earlier if not before.is_empty else None,
        retried=before if retried is not None else None,
        lookup=line.lookup(decoders.plan.target),
        mirror=line.lake.rows(tables.mirror) if tables.mirror is not None and not tables.mirror.is_empty else None,
        held=quarantine.held_keys(line, tables.quarantine),
        positions=marker_of(tables.mirror).positions if tables.mirror is not None else {},
        truncate=line.table.truncate,
    )
    folded = batch.fold_batch(own, decoders, past)
    judged = verdict.decide(folded.states, line.judgement(decoders.plan.target)).persist()
    counted = judged.agg(*_sums()).collect()[0].asDict()
    folded.release()
    return Decided(
        states=judged,
        decoders=decoders,
        facts=folded.facts,
        span=span,
        counts={outcome: counted[outcome] or 0 for outcome in verdict.OUTCOMES},
        violations={str(code): counted[f"code_{code}"] for code in Code if counted[f"code_{code}"]},
        blocked=tuple(sorted(counted["blocked"])),
        published=counted["published"] or 0,
    )


def _sums() -> list[Column]:
    own = F.col(fold.CURRENT)
    outcomes = [F.count_if(own & (F.col(verdict.OUTCOME) == outcome)).alias(outcome) for outcome in verdict.OUTCOMES]
    codes = [F.sum(F.size(verdict.with_code(F.col(verdict.VIOLATIONS), code))).alias(f"code_{code}") for code in Code]
    blocked = F.array_distinct(F.flatten(F.collect_set(F.when(own, F.col(verdict.BLOCKED))))).alias("blocked")
    return [*outcomes, *codes, blocked, F.count_if(F.col(verdict.PUBLISHED)).alias("published")]


def _check_key(line: Line, current: TableSchema | None, target: TableSchema) -> None:
    if current is not None and current.key != target.key:
        what = f"The messages of {line.table.topic} have another key than the rows of {line.mirror}."
        raise SchemaRefused(
            what, "Rows cannot change their identity in place: mirror the topic under another `mirror` name."
        )


# --- step 5
# -------------------------------------------------------------------------------------------------------------


def publish(line: Line, raw: LakeTable, tables: Tables, decided: Decided) -> Batch:
    """Quarantine first, then rows, deletes and marker together."""
    target, span = decided.decoders.plan.target, decided.span
    mirror = tables.mirror
    read = sum(decided.counts.values())
    if mirror is None:
        start = new_marker(line, Span(span.topic, span.start, span.start), "", marker_of(raw).topic_id)
        layout = (tuple(line.table.partitioned_by), tuple(line.table.sorted_by))
        mirror = line.lake.create(line.mirror, target, start, line.table.format_properties(), layout)
    elif not decided.decoders.plan.is_empty:
        mirror = line.lake.evolve(mirror, decided.decoders.plan)
    marker = Marker(
        pipeline=line.pipeline,
        batch=batch_id(line.pipeline, mirror.uuid, span),
        topic=span.topic,
        topic_id=marker_of(raw).topic_id,
        offsets=Offsets({**marker_of(mirror).offsets, **span.end}),
        positions=batch.highest(marker_of(mirror).positions, decided.facts.positions),
        source_snapshot=raw.head,
        contract=line.contract.fingerprint if line.contract is not None else None,
        counts=decided.counts | {"read": read},
    )
    held = quarantine.hold(line, tables.quarantine, mirror, marker, decided)
    _stop_if_asked(line, decided)
    head = line.lake.publish(mirror, marker, lambda stage: _stage(line, stage, mirror, decided))
    if held is not None and decided.facts.held:
        quarantine.resolve(line, held, marker, decided)
    return Batch(decided.counts, decided.violations, marker.offsets, raw.head or 0, head)


def _stage(line: Line, stage: Stage, mirror: LakeTable, decided: Decided) -> None:
    target, lake = decided.decoders.plan.target, stage.lake
    for truncate in decided.facts.truncates if not mirror.is_empty and line.table.truncate == "apply" else ():
        stage.execute(delete_truncated(lake.catalog, mirror.name, stage.branch, truncate))
    if decided.published == 0:
        return
    if not mirror.is_empty:
        rows.published_keys(decided.states, target).createOrReplaceTempView(_KEYS_VIEW)
        stage.execute(delete_keys(lake.catalog, mirror.name, stage.branch, _KEYS_VIEW, target))
    stage.append(rows.final_rows(decided.states, target))


def _stop_if_asked(line: Line, decided: Decided) -> None:
    """Stop before anything reaches the mirror, where a rule or a setting says so."""
    name = line.mirror
    raw_has = "Raw has the messages, and quarantine says which; the mirror was not changed."
    if decided.blocked:
        what = f"The contract of {name} blocks the batch: {', '.join(decided.blocked)}. {raw_has}"
        raise ContractBlocked(what, f"See `cdcm report --table {name}`, mend the data or the rule, and run again.")
    if line.table.incompatible_schema == "stop" and Code.SCHEMA_INCOMPATIBLE in decided.violations:
        what = f"Values of {name} have a type that its columns cannot take. {raw_has}"
        raise SchemaIncompatible(what, "Set `incompatible_schema: quarantine`, or mirror the topic under another name.")
    if line.table.special_values == "stop" and Code.OUT_OF_RANGE in decided.violations:
        what = f"Values of {name} are out of range. {raw_has}"
        raise OutOfRange(what, "Set `special_values: null` or `clamp` to go on.")
    if line.table.truncate == "stop" and decided.facts.truncates:
        what = f"The source table of {name} was truncated. {raw_has}"
        raise TruncateStopped(what, "Set `truncate: apply` or `ignore` to go on.")
