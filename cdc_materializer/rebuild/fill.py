"""What raw lacks of its topic, read from there: `cdcm replay --from kafka` folds raw, which needs to have it all first.

Raw may have been begun behind the topic's first message, or another program may have deleted messages of it. They are
read on a branch of raw, in batches, and come to `main` in one commit when all of them are there; so whoever folds raw
sees it as it was, or whole. The branch is the progress: what it has is not looked for again, and one that was killed is
gone on with.

A run that lands meanwhile is not in the way. Its commits go to `main`, whose offsets the last one here leaves as they
are, and that one commit takes the files as they were written, so it can be tried again until it is first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer import crash_points
from cdc_materializer.batch import batch
from cdc_materializer.batch.rows import raw_rows
from cdc_materializer.errors import CommitConflict, TimeOver, UsageError
from cdc_materializer.holes import Bucket, Hole, exactly, holes_in, never_landed, parted, spans_of, without
from cdc_materializer.invariants import Cut, cut_in
from cdc_materializer.lake.branches import drop_branches
from cdc_materializer.lake.commit import newest_marker
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.lake.line import snapshot_line, snapshots_of
from cdc_materializer.lake.metadata import summary_of
from cdc_materializer.lanes import other_topics, topic_of
from cdc_materializer.line import quarantine
from cdc_materializer.line.checks import check_raw
from cdc_materializer.line.landing import append_read
from cdc_materializer.line.line import Line, marker_of, raw_columns, reload
from cdc_materializer.marker.foreign import is_foreign
from cdc_materializer.marker.marker import GENESIS_TAG, Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span, batch_id
from cdc_materializer.pipeline import plan_landing
from cdc_materializer.retry import NEVER, REFILL, Deadline
from cdc_materializer.source import TopicState, as_raw_counts, read_span, state_of

if TYPE_CHECKING:
    from cdc_materializer.lake.stage import Stage

_LOG = logging.getLogger(__name__)

#: The branch of raw that what it lacks is read on.
REFILL_BRANCH = "cdcm-refill"
#: Where its commits, and the one that brings it to `main`, are staged.
_STAGING = f"{REFILL_BRANCH}_"
#: How many offsets Spark's bitmap functions count in one bitmap (4 KiB): a thousand million messages are 30,000 rows.
_WIDTH = 32_768
#: How many spans of what is gone are named.
_NAMED_MAX = 20


def refill(line: Line, *, restart: bool = False, deadline: Deadline = NEVER) -> int:
    """Land in raw what it lacks of its topic; each message is there once, and offsets stay as they are.

    Args:
        line: the table's way.
        restart: whether what an earlier one has read is thrown away, and not gone on with.
        deadline: no further part is read behind it.

    Returns:
        How many messages that were; 0 where raw had them all, or there is no mirror to rebuild.

    Raises:
        UsageError: raw lacks what the topic does not have any more, or cannot be asked for; says what and why.
        OffsetRegression, OffsetGap: the topic was made again, or lost messages that nobody has read.
        SourceUnavailable: the topic cannot be read.
        TimeOver: the deadline came before all was read; what was stays for the next time.
        CommitConflict: another process fills raw, or was faster again and again.
    """
    raw, beside = line.lake.load(line.mirror.raw), replace(line.lake, branch=REFILL_BRANCH)
    if raw is None or line.load_mirror() is None:
        return 0
    with translated(raw.name):
        check_raw(raw)
        raw = raw_columns(line, raw)
        begun = beside.load(raw.name)
        if begun is None or restart or _base_of(line, begun, raw) is None:
            # Also what one that was killed had staged before there was a branch.
            drop_branches(line.lake, raw.name, REFILL_BRANCH)
            begun = None
        filled = begun or raw
        topic = as_raw_counts(state_of(line.source, line.table.topic, line.table.topics), marker_of(filled))
        holes = find_holes(line.lake, filled)
        there = _there_of(line, raw, filled, topic, holes)
        plan_landing(line, raw, topic, quarantine.rewound_topics(line, line.lake.load(line.mirror.quarantine)))
        for span in spans_of(line.table.topic, there, line.table.records_max):
            if deadline.is_over:
                what = f"The time was over before all that {raw.name} lacks was read from the topic."
                raise TimeOver(what, "What was read is kept; run the replay again, and it goes on.")
            filled = _read(line, beside, filled, span, topic)
            _LOG.info("%s: %d of the offsets that it had no message of were read from the topic.", raw.name, span.count)
        return _bring(line, filled) if filled is not raw else 0


def find_holes(lake: Lake, table: LakeTable) -> list[Hole]:
    """Where a raw table has no message before its offsets; see `holes_in`."""
    ends = marker_of(table).offsets
    whole = Span("", Offsets(dict.fromkeys(ends, 0)), ends)
    # Spark's bitmaps count from 1.
    number = F.bitmap_bucket_number(F.col("offset") + 1)
    place = F.bitmap_construct_agg(F.bitmap_bit_position(F.col("offset") + 1))
    found = (
        lake.rows(table)
        .where(batch.within(whole, "partition", "offset"))
        .groupBy("partition", (number - 1).alias("number"))
        .agg(F.bitmap_count(place).alias("count"), F.min("offset").alias("first"), F.max("offset").alias("last"))
    )
    return holes_in((Bucket(*row) for row in found.collect()), ends, _WIDTH)


def _there_of(line: Line, raw: LakeTable, filled: LakeTable, topic: TopicState, holes: Sequence[Hole]) -> list[Hole]:
    """What of holes can be read from the topic; all else that was in them raw has, or never had.

    Args:
        line: the table's way.
        raw: raw as everyone sees it.
        filled: raw with what is on the branch.
        topic: the topic, as raw counts.
        holes: those of the latter.

    Raises:
        UsageError: messages may be missing that the topic cannot give; says which offsets, and why.
    """
    if not holes:
        return []
    reach, why = _reach(line, marker_of(filled), topic, {hole.partition for hole in holes})
    there, gone = parted(holes, reach)
    cut = cut_in(snapshots_of(line.lake.iceberg(raw.name), raw.head))
    gone = without(gone, _never_had(line, raw, cut)) if gone else []
    lost: list[Hole] = []
    for at in range(0, len(gone), _NAMED_MAX):
        # Where a topic begins in the middle of a bucket, raw may have all that is before that.
        lost += missing_in(line.lake.rows(filled), gone[at : at + _NAMED_MAX])
        if len(lost) > _NAMED_MAX:
            break
    if not lost:
        return there
    places = ", ".join(map(str, lost[:_NAMED_MAX])) + (" and more" if len(lost) > _NAMED_MAX else "")
    reasons = "; ".join(dict.fromkeys(why(hole) for hole in lost))
    what = f"{raw.name} has no message at {places}, and the topic cannot tell what was there: {reasons}."
    do = "`--from earliest` folds what raw has." if cut is None else cut.told(str(raw.name))[1]
    raise UsageError(what, f"Nothing was written. {do}")


def _never_had(line: Line, raw: LakeTable, cut: Cut | None) -> list[Hole]:
    """Where raw had no message before another program took some, because no run was to land any there."""
    table, known = line.lake.iceberg(raw.name), marker_of(raw)
    first = table.snapshot(GENESIS_TAG)
    begun = Marker.from_summary(summary_of(first)) if first is not None else None
    found = never_landed(begun.offsets if begun is not None else {}, known.adopted)
    if not found or cut is None or not known.refilled:
        return found
    # An earlier one may have read them from the topic, which had them then.
    if cut.before is None or table.snapshot(cut.before) is None:
        return []
    return missing_in(line.lake.rows(replace(raw, head=cut.before)), found)


def _reach(
    line: Line, raw: Marker, topic: TopicState, partitions: set[int]
) -> tuple[dict[int, tuple[int, int]], Callable[[Hole], str]]:
    """The offsets of partitions that the topic has as they were written, as raw counts; and why it has not others."""
    beginnings, ends = raw.in_table(topic.beginnings), raw.in_table(topic.ends)
    again, names = other_topics(raw.topic_id, topic.topic_id), topic.topics or (topic.topic,)
    there = sorted({topic_of(partition) for partition in partitions if partition in ends} - again)
    compacted = {number for number in there if line.source.is_compacted(names[number])}
    kept = {p: (beginnings[p], ends[p]) for p in partitions if p in ends and topic_of(p) in {*there} - compacted}

    def why(hole: Hole) -> str:
        partition, number = hole.partition, topic_of(hole.partition)
        if number in again or hole.start < raw.bases.get(partition, 0):
            return f"{names[number]} was made again"
        if partition not in ends:
            return f"{names[number]} has no such partition"
        if number in compacted:
            return f"{names[number]} is compacted (`cleanup.policy`), and what it removed leaves no trace"
        first, end = kept[partition]
        return f"its head is gone (before {partition}/{first})" if hole.start < first else f"it ends before {end}"

    return kept, why


def missing_in(rows: DataFrame, holes: Sequence[Hole]) -> list[Hole]:
    """Where there is no message inside of holes, exactly; of many such spans only the first.

    Args:
        rows: of a raw table.
        holes: some holes.
    """
    inside = F.lit(False)
    for hole in holes:
        inside = inside | ((F.col("partition") == hole.partition) & F.col("offset").between(hole.start, hole.end - 1))
    bounds = [(hole.partition, at) for hole in holes for at in (hole.start - 1, hole.end)]
    around = rows.sparkSession.createDataFrame(bounds, "partition INT, offset BIGINT")
    known = rows.where(inside).select("partition", "offset").unionByName(around).distinct()
    before = F.lag("offset").over(Window.partitionBy("partition").orderBy("offset"))
    gaps = known.withColumn("before", before).where(F.col("offset") > F.col("before") + 1)
    # What lies between two of the holes looks like a gap too.
    found = gaps.orderBy("partition", "offset").limit(_NAMED_MAX + len(holes) + 1).collect()
    return exactly(holes, [Hole(row["partition"], row["before"] + 1, row["offset"]) for row in found])


def _read(line: Line, beside: Lake, raw: LakeTable, span: Span, topic: TopicState) -> LakeTable:
    """Land what raw lacks of a span on the branch, in one commit; and raw as it is there then."""
    before = marker_of(raw)
    marker = replace(before, batch=batch_id(line.pipeline, raw.uuid, span), refilled=before.refilled + span.count)
    wanted = Span(span.topic, before.in_topic(span.start), before.in_topic(span.end))
    messages = read_span(line.source, line.lake.spark, wanted, topic.topics)
    found = raw_rows(messages, marker.batch, before.bases, line.id_bytes)
    there = line.lake.rows(raw).where(batch.within(span, "partition", "offset")).select("partition", "offset")
    lacking = found.join(there, ["partition", "offset"], "left_anti").select(*found.columns)

    def stage() -> None:
        with _unstaged(line, raw.name):
            beside.publish(raw, marker, lambda stage: append_read(stage, lacking, line, topic, span))

    def may_pass(lost: Exception) -> bool:
        now = beside.load(raw.name) if isinstance(lost, CommitConflict) else None
        return isinstance(lost, CommitConflict) and (now is None or now.head == raw.head)

    REFILL.call(stage, may_pass=may_pass)
    crash_points.reach("refilled", raw.name)
    now = beside.load(raw.name)
    if now is None:
        what = f"The branch on which {raw.name} is filled is gone."
        raise CommitConflict(what, "Another process fills it, or has; run this again.")
    return now


def _bring(line: Line, filled: LakeTable) -> int:
    """Let everyone see what was read: in one commit on top of whatever was landed meanwhile."""
    files = REFILL.call(partial(_put, line, filled))
    if files is None:
        what = f"{filled.name} was filled or changed by another process while it was being filled."
        raise CommitConflict(what, "Nothing was added; run this again.")
    drop_branches(line.lake, filled.name, REFILL_BRANCH)
    return sum(int(file.recordCount()) for file in files)


def _put(line: Line, filled: LakeTable) -> list[Any] | None:
    """The files of what was read, once readers see them; None where they may not be what raw lacks any more."""
    name, lake = filled.name, replace(line.lake, staging=_STAGING)
    raw, table = reload(line, name), line.lake.iceberg(name)
    base = _base_of(line, filled, raw)
    if base is None:
        return None
    own = snapshot_line(table, filled.head, base)[:-1]
    files = [file for number in own for file in table.snapshot(number).addedDataFiles(table.io())]
    if files:
        told, began = marker_of(filled), newest_marker(table, table.snapshot(base))
        refilled = told.refilled - (began.refilled if began is not None else 0)
        marker = replace(marker_of(raw), batch=told.batch, refilled=marker_of(raw).refilled + refilled)
        with _unstaged(line, name):
            lake.publish(raw, marker, partial(_take, files))
    return files


@contextmanager
def _unstaged(line: Line, name: TableName) -> Iterator[None]:
    """Leave nothing staged where a commit is lost to a run's, as to a landing while something was being staged."""
    try:
        yield
    except CommitConflict:
        drop_branches(line.lake, name, _STAGING)
        raise


def _take(files: Sequence[Any], stage: Stage) -> None:
    stage.take(files)


def _base_of(line: Line, filled: LakeTable, raw: LakeTable) -> int | None:
    """The snapshot of raw that the branch was begun on; None where what is on it may not be what raw lacks any more.

    It is, if nothing but landings of ours came since: these are behind the offsets that raw had then.
    """
    table = line.lake.iceberg(raw.name)
    main = snapshot_line(table, raw.head)
    base = next((number for number in snapshot_line(table, filled.head) if number in set(main)), None)
    if base is None:
        return None
    since = [table.snapshot(number) for number in main[: main.index(base)]]
    began = newest_marker(table, table.snapshot(base))
    if began is None or began.refilled != marker_of(raw).refilled:
        return None
    # Where `main` was rolled back, something that the branch was begun on is on the branch alone: a landing, which is
    # made again, or what another program has written.
    for number in snapshot_line(table, filled.head, base)[:-1]:
        part = Marker.from_summary(summary_of(table.snapshot(number)))
        if part is None or part.offsets != began.offsets or part.refilled <= began.refilled:
            return None
    return None if any(is_foreign(one.operation(), summary_of(one)) for one in since) else base
