"""Rows that a complete snapshot did not show: which of a batch's states they are, and which of the mirror's rows.

`snapshots` says where a snapshot begins and ends; here that is found in frames and becomes columns. A sweep is no
message of the topic. It ends rows as a delete would: those of keys of which nothing was said between the snapshot's
first record and its last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.holes import Hole
from cdc_materializer.marker.snapshots import FIRST, LAST, Followed, Reached, Records, Swept
from cdc_materializer.marker.sweeps import End, Sweep, SweepPlan, plan_sweeps
from cdc_materializer.order.resends import reach
from cdc_materializer.schema.schema import TableSchema

#: Which of a batch's sweeps ends a row.
NUMBER = "__cdc_sweep"


@dataclass(frozen=True)
class Watch:
    """What a batch has to know to follow snapshots.

    Attributes:
        partitions: those that the topic has.
        known: what the marker remembers; None where they have to be followed from the topic's first message.
        is_first: whether the topic has nothing before the batch.
        positions: the highest streaming position of each partition before the batch.
        unread: where messages of unknown keys are held (partition, offset); None where there are none.
        gaps: where messages were lost and that was accepted, see `holes.accepted`.
        alone: how far partition 0 had been read while the topic had no other (`Recorded.alone`).
        readings: how far rows of snapshots reached in each partition before the batch.
        swept: the snapshots that have swept before it; of a log that is folded as a whole, those of its mirror.
    """

    partitions: tuple[int, ...]
    known: Followed | None = field(default_factory=Followed)
    is_first: bool = True
    positions: Mapping[int, str] | None = None
    unread: DataFrame | None = None
    gaps: tuple[Hole, ...] = ()
    alone: int = 0
    readings: Mapping[int, str] = field(default_factory=dict)
    swept: tuple[Swept, ...] = ()

    @property
    def ahead(self) -> dict[int, str]:
        """The highest position that each partition showed before the batch, of a change or of a snapshot."""
        told = [*(self.positions or {}).items(), *self.readings.items()]
        return {partition: max(at for other, at in told if other == partition) for partition, _ in told}


def follow(own: DataFrame, earlier: DataFrame | None, watch: Watch) -> SweepPlan:
    """Follow snapshots through a batch, or through a log that is folded as a whole.

    Args:
        own: the batch's changes.
        earlier: the changes before it, where `watch` does not know what they began.
        watch: what is known of the time before.
    """
    changes = own if earlier is None else _looked_at(own).unionByName(_looked_at(earlier))
    rows = _seen(changes, watch.alone)
    before = watch.ahead if earlier is None else {}
    records = _placed(changes, [_records(row) for row in rows if row["is_record"]], before)
    is_whole_log = earlier is not None or watch.is_first
    reached = {partition: _reached(partition, rows, watch, is_whole_log=is_whole_log) for partition in watch.partitions}
    known = watch.known or Followed()
    is_first = watch.is_first or watch.known is None
    plan = plan_sweeps(known.running, records, reached, is_first=is_first, alone=watch.alone)
    tables = {table for row in rows for table in (row["table"], row["other_table"]) if table is not None}
    plan = replace(plan, tables=tuple(sorted({*known.tables, *tables})[:2]))
    if plan.sweeps:
        plan = plan.without(_unusable_of(plan, changes, earlier, watch, known.tables))
    return plan.remembering(watch.swept, _among(rows, watch.swept) if is_whole_log else ())


def _among(rows: Sequence[Row], swept: Iterable[Swept]) -> list[Swept]:
    """The snapshots whose last records are there: what folds a log up to a moment of the past has not got the later."""
    last: dict[tuple[int, str | None], int] = {}
    for row in rows:
        if row["is_record"]:
            place = (row[m.PARTITION], row["position"])
            last[place] = max(row["last"], last.get(place, -1))
    return [
        one
        for one in swept
        if all(last.get((partition, one.position), -1) >= end for partition, end in one.ends.items())
    ]


def _unusable_of(
    plan: SweepPlan, changes: DataFrame, earlier: DataFrame | None, watch: Watch, tables: Sequence[str]
) -> list[Sweep]:
    """The snapshots of a plan that something keeps from being used."""
    # A message whose key could not be read may have shown any row; rows of another table are not in the snapshot; and
    # what was lost of it showed rows that nobody has seen.
    unusable = _unusable(changes, plan.sweeps, tables)
    if earlier is None and watch.unread is not None:
        unusable += [sweep for sweep, n in zip(plan.sweeps, _counted(watch.unread, plan.sweeps), strict=True) if n]
    at_ends = len(watch.partitions) > 1
    return unusable + [one for one in plan.sweeps if any(is_torn(one, gap, at_ends=at_ends) for gap in watch.gaps)]


def is_torn(sweep: Sweep, gap: Hole, *, at_ends: bool) -> bool:
    """Whether messages of a snapshot were lost, or may have been.

    Args:
        sweep: the snapshot.
        gap: where messages were lost. An empty one lost those that were to come, as a topic that was made again did.
        at_ends: whether a gap directly before its first record in the partition, or behind its last, may have had some
            of it: only a topic of one partition has its marks there. The mark of a transaction may lie between.
    """
    begin, end = sweep.begins.get(gap.partition), sweep.ends.get(gap.partition)
    if begin is None or end is None:
        # All that it had of the snapshot may be lost, where nothing says that it was there before.
        return gap.start == 0 < gap.end
    if not at_ends:
        return gap.start <= end and gap.end > begin
    return gap.start <= end + 2 and (gap.end > begin or gap.start < gap.end >= begin - 1)


def _looked_at(changes: DataFrame) -> DataFrame:
    return changes.select(
        m.PARTITION, m.OFFSET, m.OP, m.KEY, m.POSITION, m.STREAMING, m.SNAPSHOT, m.SOURCE_TABLE, m.CODE
    )


def _seen(changes: DataFrame, alone: int) -> list[Row]:
    """One row a partition and snapshot, and one a partition for all else: few, as a snapshot has one position.

    What a partition has of a snapshot from when it was the only one is a row for itself.
    """
    is_record, offset, streamed = F.col(m.SNAPSHOT).isNotNull(), F.col(m.OFFSET), _is_streamed()
    begun = F.coalesce(reach(F.col(m.POSITION)), F.lit(""))
    is_early = is_record & (F.col(m.PARTITION) == 0) & (offset < alone)
    position = F.when(is_record, F.col(m.POSITION)).alias("position")
    grouped = changes.groupBy(m.PARTITION, is_record.alias("is_record"), position, is_early.alias("is_early"))
    return grouped.agg(
        F.min(offset).alias("first"),
        F.max(offset).alias("last"),
        F.array_sort(F.collect_list(F.when(F.col(m.SNAPSHOT).isin(*FIRST), offset))).alias("begins"),
        F.array_sort(F.collect_list(F.when(F.col(m.SNAPSHOT).isin(*LAST), offset))).alias("ends"),
        F.min(F.when(streamed, offset)).alias("stream_first"),
        F.max(F.when(streamed, offset)).alias("stream_last"),
        F.max(F.when(F.col(m.STREAMING), F.col(m.POSITION))).alias("reached"),
        F.min(F.when(F.col(m.OP).isin(*m.CHANGE_OPS), F.struct(offset, begun))).alias("begun"),
        F.min(m.SOURCE_TABLE).alias("table"),
        F.max(m.SOURCE_TABLE).alias("other_table"),
    ).collect()


def _is_streamed() -> Column:
    return F.col(m.STREAMING) & F.col(m.OP).isin("c", "u")


def _placed(changes: DataFrame, records: Sequence[Records], before: Mapping[int, str]) -> list[Records]:
    """The records, with what is shown ahead of their beginnings, and where the log goes on behind those without an end.

    Args:
        changes: all that is looked at.
        records: what it has of snapshots.
        before: the highest position of each partition ahead of all of it.
    """
    if not records:
        return []
    tests, offset = [], F.col(m.OFFSET)
    for at, one in enumerate(records):
        logged = _is_streamed() & (F.col(m.PARTITION) == one.partition)
        behind = logged & (offset > one.last) if one.is_open else F.lit(False)
        tests.append(F.min(F.when(behind, offset)).alias(f"followed_{at}"))
        is_told = F.col(m.STREAMING) | F.col(m.SNAPSHOT).isNotNull()
        shown = is_told & (F.col(m.PARTITION) == one.partition)
        for begin in {one.first, *one.begins}:
            highest = F.max(F.when(shown & (offset < begin), F.col(m.POSITION)))
            tests.append(F.greatest(highest, F.lit(before.get(one.partition))).alias(f"ahead_{at}_{begin}"))
    found = changes.agg(*tests).collect()[0]
    placed = []
    for at, one in enumerate(records):
        ahead = {begin: found[f"ahead_{at}_{begin}"] for begin in {one.first, *one.begins}}
        known = {begin: position for begin, position in ahead.items() if position is not None}
        placed.append(replace(one, ahead=known, followed=found[f"followed_{at}"]))
    return placed


def _records(row: Row) -> Records:
    begins, ends = tuple(row["begins"]), tuple(row["ends"])
    return Records(row[m.PARTITION], row["position"], row["first"], row["last"], begins, ends)


def _reached(partition: int, rows: Sequence[Row], watch: Watch, *, is_whole_log: bool) -> Reached:
    own = [row for row in rows if row[m.PARTITION] == partition]
    other = next((row for row in own if not row["is_record"]), None)
    before = (watch.positions or {}).get(partition)
    known = [position for position in (before, other["reached"] if other else None) if position is not None]
    shown = [tuple(row["begun"]) for row in own if is_whole_log and row["begun"] is not None]
    return Reached(
        first=min((row["first"] for row in own), default=None),
        streamed=(other["stream_first"], other["stream_last"]) if other and other["stream_first"] is not None else None,
        position=max(known, default=None),
        begun=min(shown)[1] if shown else None,
    )


def _unusable(changes: DataFrame, sweeps: Sequence[Sweep], tables: Sequence[str]) -> list[Sweep]:
    """The snapshots that messages keep from being used: some of unknown keys in them, some of other tables before."""
    is_unread = F.col(m.KEY).isNull() & F.col(m.CODE).isNotNull()
    tests = []
    for sweep in sweeps:
        shown = F.when(~is_after(sweep, m.PARTITION, m.OFFSET), F.col(m.SOURCE_TABLE))
        lost = F.count_if(is_unread & is_inside(sweep, m.PARTITION, m.OFFSET))
        tests.append(F.struct(lost.alias("lost"), F.min(shown).alias("table"), F.max(shown).alias("other_table")))
    found = changes.agg(*[test.alias(f"sweep_{at}") for at, test in enumerate(tests)]).collect()[0]
    unusable = []
    for sweep, (lost, *shown) in zip(sweeps, found, strict=True):
        if lost or len({*tables, *shown} - {None}) > 1:
            unusable.append(sweep)
    return unusable


def _counted(unread: DataFrame, sweeps: Sequence[Sweep]) -> list[int]:
    tests = [F.count_if(is_inside(sweep, "partition", "offset")) for sweep in sweeps]
    return list(unread.agg(*[test.alias(f"sweep_{at}") for at, test in enumerate(tests)]).collect()[0])


# --- a sweep as columns
# ------------------------------------------------------------------------------------------------


def is_before(sweep: Sweep, partition: str, offset: str) -> Column:
    """Whether a message is from before a snapshot."""
    return _any((F.col(partition) == number) & (F.col(offset) < begin) for number, begin in sweep.begins.items())


def is_inside(sweep: Sweep, partition: str, offset: str) -> Column:
    """Whether a message is between a snapshot's first record and its last."""
    begins = sweep.begins
    return _any(
        (F.col(partition) == number) & F.col(offset).between(begins[number], end) for number, end in sweep.ends.items()
    )


def is_after(sweep: Sweep, partition: str, offset: str) -> Column:
    """Whether a message is from after a snapshot; partitions that have no record of it were added since."""
    behind_end = _any((F.col(partition) == number) & (F.col(offset) > end) for number, end in sweep.ends.items())
    return behind_end | ~F.col(partition).isin(*sweep.ends)


def is_sweep_of(sweep: Sweep) -> Column:
    """Whether a change is the end that a snapshot makes of a row."""
    partition, offset = sweep.last
    found = (F.col(m.OP) == m.SWEEP) & (F.col(m.PARTITION) == partition) & (F.col(m.OFFSET) == offset)
    return F.coalesce(found, F.lit(False))


def behind(sweeps: Sequence[Sweep]) -> Column:
    """How many of the snapshots, which are in their order, a change is behind; the end that one makes is before it."""
    found = F.lit(0)
    for sweep in sweeps:
        found = found + is_after(sweep, m.PARTITION, m.OFFSET).cast("int")
    for at, sweep in enumerate(sweeps):
        found = F.when(is_sweep_of(sweep), at).otherwise(found)
    return found


def is_at_end(sweeps: Sequence[Sweep], partition: str, offset: str) -> Column:
    """Whether a message is the last record of a snapshot, by which the rows that it ends are told."""
    return _any((F.col(partition) == number) & (F.col(offset) == at) for number, at in (one.last for one in sweeps))


def located(sweeps: Sequence[Sweep], changes: DataFrame) -> tuple[Sweep, ...]:
    """The sweeps, with the last records of their snapshots where these are among some changes."""
    if all(sweep.end is not None for sweep in sweeps):
        return tuple(sweeps)
    times = [F.unix_micros(m.SOURCE_TIME).alias("read"), F.unix_micros(m.TIME).alias("written")]
    rows = changes.where(is_at_end(sweeps, m.PARTITION, m.OFFSET) & (F.col(m.PART) == 0))
    rows = rows.select(m.TOPIC, m.PARTITION, m.OFFSET, m.POSITION, m.EPOCH, *times)
    found = {(row[m.PARTITION], row[m.OFFSET]): End(*row) for row in rows.collect()}
    return tuple(replace(sweep, end=sweep.end or found.get(sweep.last)) for sweep in sweeps)


def _any(tests: Iterable[Column]) -> Column:
    found = F.lit(False)
    for test in tests:
        found = found | test
    return found


def unseen_keys(
    mirror: DataFrame,
    sweeps: Sequence[Sweep],
    target: TableSchema,
    written: DataFrame,
    held: DataFrame | None,
    gone: Sequence[Column] = (),
) -> DataFrame:
    """The keys of rows that snapshots should have shown and did not, each with the first of these, NUMBER.

    Args:
        mirror: the mirror's live rows before the batch.
        sweeps: the snapshots.
        target: the mirror's columns.
        written: the keys (m.KEY) whose rows the batch writes or deletes.
        held: open held messages (key, partition, offset): what they showed is there, though its row was not written.
        gone: for each of the snapshots whether a row `t` had ended otherwise before it.
    """
    key = {name: m.column(name).cast(target.types[name]).alias(name) for name in target.key}
    text = m.key_json(F.struct(*key.values()), target)
    places = [F.col(f"__cdc.{name}").alias(f"__cdc_{name}_of_row") for name in ("partition", "offset")]
    ended = [F.coalesce(test, F.lit(False)).alias(f"__cdc_gone_{at}") for at, test in enumerate(gone)]
    rows = mirror.alias("t").select(*key.values(), *places, text.alias(m.KEY), *ended)
    rows = rows.join(written, m.KEY, "left_anti")
    found = []
    for at, sweep in enumerate(sweeps):
        unseen = rows.where(is_before(sweep, "__cdc_partition_of_row", "__cdc_offset_of_row"))
        unseen = unseen.where(~F.col(f"__cdc_gone_{at}")) if gone else unseen
        if held is not None:
            shown = held.where(is_inside(sweep, "partition", "offset")).select(F.col("key").alias(m.KEY))
            unseen = unseen.join(shown, m.KEY, "left_anti")
        found.append(unseen.select(*[m.column(name) for name in target.key], F.lit(at).alias(NUMBER)))
    every = found[0]
    for other in found[1:]:
        every = every.unionByName(other)
    return every.groupBy(*[m.column(name) for name in target.key]).agg(F.min(NUMBER).alias(NUMBER))
