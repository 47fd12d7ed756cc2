"""The straight line: from the messages of a topic to a checked mirror, one batch at a time.

Read `advance` from top to bottom: its numbered steps are those of design §3. Everything that it decides it decides from
the tables themselves, so that after any crash the same code runs again and converges.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, markers, rows, verdict
from cdc_materializer.batch.key_ranges import delete_rows
from cdc_materializer.batch.past import Past
from cdc_materializer.batch.steps import Batch, Decided, Reading
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.errors import STOPS_OF_MIRRORS, Code, SchemaRefused, SchemaReplaced
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.stage import Stage
from cdc_materializer.lanes import kept_ids
from cdc_materializer.line import audit, history, judging, quarantine, stops, swept, tally
from cdc_materializer.line.checks import check_columns, check_deletes, check_layout, check_masks, check_pair, check_raw
from cdc_materializer.line.landing import append_read
from cdc_materializer.line.ledger import ledger_after
from cdc_materializer.line.line import Line, Tables, marker_of, new_marker, raw_columns, reload
from cdc_materializer.line.quarantine_retries import as_waiting, find_retries, limited, turn_of
from cdc_materializer.line.renames import told_by_raw
from cdc_materializer.line.schemas import remember_batch
from cdc_materializer.line.settling import settled, tell_quarantine
from cdc_materializer.line.size import offsets_max
from cdc_materializer.marker.marker import Marker
from cdc_materializer.merge import RAW_SCHEMA, Origin, delete_keys, end_truncated, mark_deleted
from cdc_materializer.offsets import Offsets, Span, batch_id, plan_span
from cdc_materializer.progress import plan_up_to
from cdc_materializer.session.few import planned_for
from cdc_materializer.source import TopicState, as_raw_counts, read_span

#: Raw is only ever appended to, so the oldest format that all engines read will do. Parquet looks how large a page has
#: become from its fourth message on, and not from its hundredth: 1,500 messages of 2 MB are landed in a JVM of 2 GB.
_RAW_PROPERTIES = {"format-version": "2", "write.parquet.row-group-check-min-record-count": "4"}
_KEYS_VIEW, _UNSEEN_VIEW = "__cdc_keys", "__cdc_unseen"


def advance(line: Line, topic: TopicState) -> Batch | None:
    """Bring one table forward by at most one batch; None when nothing was left to do. Safe to call again after a crash.

    Args:
        line: the table's way.
        topic: the ends up to which to go.

    Raises:
        CdcError: nothing of the batch is published then; what was landed in raw stays.
    """
    # Step 1. Where are we? The tables are the only memory.
    try:
        tables = load(line)
    except (SchemaRefused, SchemaReplaced):  # What a column is called somebody has to say; the topic does not wait.
        land_rest(line, topic)
        raise
    # Step 2. What is next? Decided on the driver, before any work.
    with translated(line.mirror), quarantine.noting_stops(line, tables):
        landing = plan_landing(line, tables.raw, topic, quarantine.rewound_topics(line, tables.quarantine))
    # Step 3. Keep everything, unread, with its offsets, in one commit.
    with translated(line.mirror), quarantine.noting_stops(line, tables):
        raw = land(line, tables.raw, landing, topic)
    try:
        with translated(line.mirror):
            told = told_by_raw(line, raw, tables)
        done = fold_next(*told, more_to_land=not landing.is_empty)
        return replace(done, foreign=tables.foreign) if done is not None else None
    except STOPS_OF_MIRRORS:
        # The mirror waits for the registry, or for what somebody has to mend: a contract, say. The topic may not wait.
        land_rest(line, topic)
        raise


def fold_next(line: Line, raw: LakeTable, tables: Tables, *, more_to_land: bool = False) -> Batch | None:
    """Steps 4 and 5: decode, fold and publish what raw has and the mirror has not, at most a batch of it.

    Args:
        line: the table's way.
        raw: raw as it is, or its marker set to where this is to end.
        tables: mirror and quarantine as they are.
        more_to_land: whether the topic may have messages that raw has not got yet.
    """
    # Step 4. From here on the input is a pinned snapshot: the same bytes on every retry.
    with translated(line.mirror):
        tables = settle(line, raw, tables)
    with translated(line.mirror), quarantine.noting_stops(line, tables):
        reading = read(line, raw, tables)
        if reading is None:
            return None
        if tables.mirror is None and not reading.decoders.make_a_table and more_to_land:
            # What a mirror needs to be made may stand in messages that have not landed yet.
            return Batch({}, {}, marker_of(raw).in_topic(reading.span.start), raw.head or 0, None)
        decided = decide(line, tables, reading)
        try:
            # Step 5. Publish what is held and why, then the rows with their marker: or nothing.
            done = publish(line, raw, tables, decided)
            return replace(done, limit=reading.limit) if done is not None else None
        finally:
            judging.release(decided.states)


# --- steps 1 to 3
# -------------------------------------------------------------------------------------------------------


def load(line: Line) -> Tables:
    """The line's tables as they are now, none of them half made.

    The mirror first: what another process publishes meanwhile, raw and quarantine have had before.
    """
    mirror, found = line.mirror, line.load_mirror()
    tables = Tables(
        raw=line.lake.load(mirror.raw),
        mirror=found,
        quarantine=line.lake.load(mirror.quarantine),
        history=line.lake.load(mirror.history) if line.table.history else None,
    )
    check_deletes(line, tables.mirror)
    check_pair(tables)
    return tables


def plan_landing(line: Line, raw: LakeTable | None, topic: TopicState, rewound: frozenset[int] = frozenset()) -> Span:
    """The messages that raw has not got yet, at most a batch of them.

    Args:
        line: the table's way.
        raw: the raw table; None where there is none yet.
        topic: its beginnings and ends, as they were asked at any time before.
        rewound: the numbers of the topics that the table stopped for; those may have grown to their length again.

    Raises:
        OffsetRegression, OffsetGap: the topic was made again, or lost messages before they were read.
    """
    return plan_up_to(line.source, line.table, topic, None if raw is None else marker_of(raw), rewound)


def land(line: Line, raw: LakeTable | None, span: Span, topic: TopicState) -> LakeTable:
    """Append the span's messages to raw; a bad message, a missing schema or a broken rule never stops this."""
    topic = as_raw_counts(topic, marker_of(raw) if raw is not None else None)
    if raw is None:
        new = new_marker(line, Span(span.topic, span.start, span.start), "", topic.topic_id)
        start = replace(new, topics=topic.topics)
        raw = line.lake.create(line.mirror.raw, RAW_SCHEMA, start, _RAW_PROPERTIES)
    if span.is_empty:
        return raw
    check_raw(raw)
    raw = raw_columns(line, raw)
    before = marker_of(raw)
    marker = replace(
        before,
        batch=batch_id(line.pipeline, raw.uuid, span),
        topic=span.topic,
        topic_id=kept_ids(before.topic_id, topic.topic_id),
        topics=topic.topics,
        offsets=Offsets({**before.offsets, **span.end}),
    )
    wanted = Span(span.topic, before.in_topic(span.start), before.in_topic(span.end))
    messages = read_span(line.source, line.lake.spark, wanted, topic.topics)
    found = rows.raw_rows(messages, marker.batch, before.bases, line.id_bytes)
    with planned_for(line.lake.spark, span.count):
        line.lake.publish(raw, marker, lambda stage: append_read(stage, found, line, topic, span))
    return reload(line, line.mirror.raw)


def land_rest(line: Line, topic: TopicState) -> None:
    """Land everything up to the topic's ends, batch by batch, or until the line is over."""
    with translated(line.mirror):
        held = line.lake.load(line.mirror.quarantine)
        rewound = quarantine.rewound_topics(line, held)
        with quarantine.noting_stops(line, Tables(None, None, held)):
            while True:
                raw = line.lake.load(line.mirror.raw)
                span = plan_landing(line, raw, topic, rewound)
                if span.is_empty or line.is_over():
                    return
                land(line, raw, span, topic)


# --- step 4
# -------------------------------------------------------------------------------------------------------------


def plan_folding(line: Line, raw: LakeTable, mirror: LakeTable | None) -> Span:
    """The messages of raw that the mirror has not got yet, all of them."""
    landed = marker_of(raw).offsets
    if mirror is not None and marker_of(mirror).offsets:
        return batch.whole(marker_of(mirror).offsets, landed, line.table.topic)
    first = line.lake.rows(raw).groupBy("partition").agg(F.min("offset").alias("offset")).collect()
    known = Offsets({row["partition"]: row["offset"] for row in first})
    start = Offsets({partition: min(known.get(partition, end), end) for partition, end in landed.items()})
    return Span(line.table.topic, start, landed)


def read(line: Line, raw: LakeTable, tables: Tables) -> Reading | None:
    """The next messages, and those that can be read only now, with their decoders; None where there are none.

    A batch has at most `offsets_max` messages. Before there is a mirror it has more, if that many are needed to find
    out what the mirror's columns and key are: a topic may begin with tombstones, a truncate or garbage.
    """
    waiting = plan_folding(line, raw, tables.mirror)
    retried = find_retries(line, raw, tables)
    if waiting.is_empty and retried is None:
        return None
    limit = offsets_max(line, raw, waiting.start)
    while True:
        span = plan_span(waiting.topic, waiting.start, waiting.start, waiting.end, limit)
        reading = reading_of(line, line.lake.rows(raw), span, retried, tables)
        if tables.mirror is not None or reading.decoders.make_a_table or span.end == waiting.end:
            return replace(reading, limit=limit)
        limit *= 4


def reading_of(line: Line, stored: DataFrame, span: Span, retried: DataFrame | None, tables: Tables) -> Reading:
    """The messages of a span, and of raw's rows those from before it that are read once more, with their decoders."""
    mirror = tables.mirror
    before = Span(span.topic, Offsets(dict.fromkeys(span.start, 0)), span.start)
    partitions = len(span.end) if line.recorded(mirror, span.end).keys_stay else 1
    own = batch.messages(stored, span, line.id_bytes, partitions)
    earlier = as_waiting(line, batch.messages(stored, before, line.id_bytes), mirror, tables.quarantine)
    if retried is not None:
        # What a batch that was not published held for its schema is in the span itself.
        retried = retried.where(batch.within(before, "partition", "offset"))
        own = own.unionByName(batch.messages(retried, None, line.id_bytes, partitions), allowMissingColumns=True)
        earlier = earlier.join(F.broadcast(retried.select("partition", "offset")), ["partition", "offset"], "left_anti")
    with planned_for(line.lake.spark, span.count if retried is None else None):
        lookup = line.lookup(mirror.schema if mirror is not None else None)
        # Without a mirror nothing is held yet that would have its turn later.
        decoders = find_decoders(limited(line, own, before), lookup, turn_of(line) if mirror is None else None)
    past, again = (None if before.is_empty else earlier), (None if retried is None else before)
    return Reading(span, own, past, again, decoders)


def decide(line: Line, tables: Tables, reading: Reading) -> Decided:
    """Decode, fold and judge the messages; nothing is written."""
    check_masks(line, tables.mirror)
    decoders, earlier = reading.decoders, reading.retried
    check_columns(tables.mirror, decoders.plan.target)
    check_layout(line, tables.mirror, decoders.plan.target)
    marker, landed = (marker_of(table) if table is not None else None for table in (tables.mirror, tables.raw))
    unread = quarantine.unread(line, tables.quarantine, reading.span) if line.table.snapshot_sweep else None
    past = Past(
        raw=reading.earlier,
        retried=earlier,
        lookup=replace(decoders.lookup, current=decoders.plan.target),
        mirror=line.lake.rows(tables.mirror) if tables.mirror is not None and not tables.mirror.is_empty else None,
        held=quarantine.held_messages(line, tables.quarantine, reading.span),
        recorded=line.recorded(tables.mirror, reading.span.end),
        truncate=line.table.truncate,
        span=reading.span,
        lives=line.keeps_lives,
        watch=line.watch(marker, landed, reading.span.end, unread, again=earlier is not None),
        judges=line.contract is not None or line.table.strict,
    )
    again = reading.own.where(batch.within(earlier, "partition", "offset")).count() if earlier is not None else 0
    folded = batch.fold_batch(reading.own, decoders, past)
    try:
        judgement = line.judgement(folded.target, past.recorded, folded)
        with planned_for(line.lake.spark, past.rows):
            judged, counted = judging.judge(line, folded, judgement, decoders.plan.target)
    finally:
        folded.release()
    return Decided(
        states=judged,
        decoders=decoders,
        facts=folded.facts,
        truncates=folded.truncates,
        span=reading.span,
        counts={outcome: counted[outcome] or 0 for outcome in verdict.OUTCOMES},
        violations={str(code): counted[f"code_{code}"] for code in Code if counted[f"code_{code}"]},
        blocked=tuple(sorted(counted["blocked"])),
        **{name: counted[name] for name in ("published", "marked", "applied", *tally.OF_ROWS) if name in counted},
        snapshots=folded.snapshots,
        again=again,
    )


def settle(line: Line, raw: LakeTable, tables: Tables) -> Tables:
    """The tables, once quarantine was told what the mirror's newest batch has ended; as a rule it was."""

    def again(earlier: Tables, span: Span) -> Decided:
        return decide(line, earlier, reading_of(line, line.lake.rows(raw), span, None, earlier))

    return settled(line, raw, tables, again)


# --- step 5
# -------------------------------------------------------------------------------------------------------------


def publish(line: Line, raw: LakeTable, tables: Tables, decided: Decided) -> Batch | None:
    """Quarantine, history once the rows are staged and audited, then these, and the marker; None without a mirror."""
    span, stop = decided.span, stops.asked_for(line, decided)
    mirror = _prepare_mirror(line, raw, tables, decided, goes_on=stop is None)
    earlier = marker_of(mirror) if mirror is not None else None
    reached = earlier.offsets if earlier is not None else span.start
    read = tally.check(line, raw, earlier.offsets if earlier else Offsets(), decided, partial(tally.stored, line))
    marker = Marker(
        pipeline=line.pipeline,
        batch=batch_id(line.pipeline, (mirror or raw).uuid, span, earlier.state if earlier and decided.again else None),
        topic=span.topic,
        topic_id=marker_of(raw).topic_id,
        offsets=Offsets({**reached, **span.end}),
        **markers.reached(earlier, decided.facts, decided.truncates, span.end, line.table.truncate),
        # A replay writes no history, and takes nothing from the one that there is.
        unkept=earlier.unkept if line.replays and earlier is not None else not line.table.history,
        adopted=earlier.adopted if earlier is not None else (),
        snapshots=decided.snapshots.followed if line.table.snapshot_sweep else None,
        masks=line.masks.told(),
        source_snapshot=raw.head,
        raw_table=raw.uuid,
        contract=line.contract.fingerprint if line.contract is not None else None,
        counts=decided.counts | {"read": read},
        untried=decided.untried,
    )
    tally.check_keys(line, decided)
    untold = marker.untold(earlier)
    if span.is_empty:  # Where it ends, a batch has ended that was published: it is told behind the commit.
        marker, untold = replace(marker, warned=untold), ()
    held = quarantine.hold(line, tables.quarantine, reached, marker, decided, untold)
    if stop is not None:
        raise stop
    if mirror is None:
        stops.refuse_without_mirror(line, decided)
        return None
    unseen = swept.unseen_keys(line, mirror, held, decided)
    gone = unseen.count() if unseen is not None else 0
    kept = ledger_after(line, mirror, decided, unseen, tables.mirror)
    settles = held is not None and (
        quarantine.has_stops(held) or decided.facts.ends_held or quarantine.has_of(line, tables.quarantine, span)
    )
    counts = {**marker.counts, **({"swept": gone} if gone else {})}
    uuid, wrongs = held.uuid if held is not None else None, decided.wrongs if settles else None
    marker = replace(marker, counts=counts, ledger=kept.text, settles=wrongs, held_table=uuid)
    audited: list[audit.Remarks] = []

    def stage_and_audit(stage: Stage) -> None:
        _stage(stage, mirror, decided, unseen)
        kept.check(stage, decided.decoders.plan.target)
        # In a replay nobody reads what lies between its beginning and its end.
        if not line.replays or span.end == marker_of(raw).offsets:
            audited.append(audit.audit(line, stage, decided.decoders.plan.target))
            if (told := audited[-1].on(marker, earlier)) != marker:
                stage.tell(told)
        remember_batch(line, raw, decided)

    # History behind the audit: what a rule about the table blocks, the next run may decide otherwise.
    keep = partial(history.keep, line, tables, reached, marker, decided, unseen)
    head = line.lake.publish(mirror, marker, stage_and_audit, keep)
    remarks = audited[-1] if audited else audit.Remarks()
    tell_quarantine(line, raw, held, remarks.on(marker, earlier), decided)
    offsets = marker_of(raw).in_topic(marker.offsets)
    violations = decided.violations_with(len(remarks.broken))
    return Batch(decided.counts, violations, offsets, raw.head or 0, head, gone, covered=span.count)


def _prepare_mirror(line: Line, raw: LakeTable, tables: Tables, decided: Decided, *, goes_on: bool) -> LakeTable | None:
    """The mirror, with the columns of a batch that goes on; None where the messages do not tell what it would be."""
    mirror, span, plan, routed = tables.mirror, decided.span, decided.decoders.plan, decided.facts.routed
    if mirror is not None:
        is_ready = plan.is_empty and not mirror.pending and (mirror.routed or not routed)
        return mirror if is_ready or not goes_on else line.lake.evolve(mirror, plan, routed=routed)
    if not decided.decoders.make_a_table:
        return None
    new = new_marker(line, Span(span.topic, span.start, span.start), "", marker_of(raw).topic_id)
    start = replace(new, masks=line.masks.told(), truncates=0)
    layout = (tuple(line.table.partitioned_by), tuple(line.table.sorted_by))
    properties = line.table.format_properties()
    return line.lake.create(line.mirror, plan.target, start, properties, layout, soft=line.is_soft, routed=routed)


def _stage(stage: Stage, mirror: LakeTable, decided: Decided, unseen: DataFrame | None) -> None:
    target, soft, routed = decided.decoders.plan.target, mirror.keeps_deleted, mirror.routed
    branch = (stage.lake.catalog, mirror.name, stage.branch)
    if soft and decided.marked and not mirror.is_empty:
        stage.name(_KEYS_VIEW, rows.marked_keys(decided.states, target, routed=routed))
        stage.execute(mark_deleted(*branch, _KEYS_VIEW, target))
    if unseen is not None:
        # Ahead of the truncates, which find them ended: those from before the snapshot were thought of.
        keys = swept.marks(unseen, decided.snapshots.sweeps, target, routed=routed) if soft else unseen
        stage.name(_UNSEEN_VIEW, keys)
        stage.execute((mark_deleted if soft else delete_keys)(*branch, _UNSEEN_VIEW, target))
    origin = Origin(marker_of(mirror).source_table) if routed else None
    for truncate in decided.truncates if not mirror.is_empty else ():
        stage.execute(*end_truncated(*branch, truncate, origin, soft=soft))
    if decided.published == 0:
        return
    if not mirror.is_empty:
        keys = rows.published_keys(decided.states, target, soft=soft)
        delete_rows(stage, mirror, keys, target, decided.written if soft else decided.published)
    with planned_for(stage.lake.spark, decided.written):
        stage.append(rows.final_rows(decided.states, target, soft=soft, routed=routed), decided.written)
