"""Which messages had happened by a moment of their source, told by the positions of its log; and what that leaves open.

A message without a position (a tombstone, what cannot be read) counts where it stands: before the first message of its
partition that is from later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.errors import UsageError
from cdc_materializer.marker.adopted import Adoption
from cdc_materializer.marker.reach import reach_of
from cdc_materializer.marker.sweeps import Sweep
from cdc_materializer.order.resends import reach
from cdc_materializer.order.sweeping import Watch, follow
from cdc_materializer.report.wording import quantity

#: What has to be known of each message.
KNOWN = (
    m.PARTITION, m.OFFSET, m.OP, m.KEY, m.POSITION, m.SOURCE_TIME, m.STREAMING, m.SNAPSHOT, m.LOG, m.LOG_NUMBER,
    m.SOURCE_TABLE, m.CODE,
)  # fmt: skip

_SHOWN = "Write it as `cdcm why TABLE` and `__cdc.position` show it."
_OTHERWISE = "See `cdcm why TABLE` or `__cdc.position` for positions that it has."


@dataclass(frozen=True)
class Known:
    """What is known of all messages that a mirror was folded from.

    Attributes:
        changes: with the columns KNOWN, cached.
        partitions: those that the topic has.
        adopted: what was accepted as lost or rewound.
        alone: how far partition 0 was alone (`Recorded.alone`).
    """

    changes: DataFrame
    partitions: tuple[int, ...]
    adopted: tuple[Adoption, ...] = ()
    alone: int = 0


@dataclass(frozen=True)
class Cut:
    """Which messages had happened by a moment.

    Attributes:
        position: the highest position that counts.
        reached: whether a row of `Known.changes` stands at it or before; NULL for one without a position.
        included: whether a row of `Known.changes` is one of them.
        last: the last of them in each partition that has one.
        first: the first that is none of them in each partition that has one.
    """

    position: str
    reached: Column
    included: Column
    last: Mapping[int, int]
    first: Mapping[int, int]

    def has_read_too_much(self, reached: Mapping[int, int]) -> bool:
        """Whether there is one that is none of them before some offsets."""
        return any(reached.get(partition, 0) > first for partition, first in self.first.items())


def cut_at(log: Known, position: str | None, time: datetime | None) -> Cut:
    """Part the messages at a position of the log, or at the highest one that was committed by a time.

    Raises:
        UsageError: the source tells no positions, the text is none, or nothing is known of so early a moment.
    """
    _check_positions(log, position)
    own = F.col(m.POSITION)
    is_then = own == F.lit(position) if time is None else F.col(m.SOURCE_TIME) <= F.lit(time)
    ends = [F.max(F.when(test, own)) for test in (_is_read(), ~_is_read())]
    read, change = log.changes.where(is_then).agg(*ends).collect()[0]
    is_read = read is not None and (change is None or (read >= reach_of(change) and read != change))
    position = position or (read if is_read else change)
    if position is None:
        raise UsageError("Raw has no message from then or before that says where it stands in the log.", _OTHERWISE)
    reached = _is_reached(position, is_read=is_read)
    later = log.changes.where(~reached).groupBy(m.PARTITION).agg(F.min(m.OFFSET).alias("first")).collect()
    beyond = {row[m.PARTITION]: row["first"] for row in later}
    stands = _before(beyond)
    included = F.coalesce(reached, stands)
    told = log.changes.groupBy(m.PARTITION).agg(
        F.max(F.when(included, F.col(m.OFFSET))).alias("last"),
        F.min(F.when(~included, F.col(m.OFFSET))).alias("first"),
        F.count_if(reached).alias("placed"),
    )
    rows = told.collect()
    if not any(row["placed"] for row in rows):
        raise UsageError("Raw begins after that: it knows nothing of what the source had then.", _OTHERWISE)
    last, first = ({row[m.PARTITION]: row[name] for row in rows if row[name] is not None} for name in ("last", "first"))
    return Cut(position, reached, included, last, first)


def _is_read() -> Column:
    """Whether a message is a snapshot's, whose position knows no last commit (`reach`)."""
    return F.coalesce(F.col(m.OP) == "r", F.lit(False))


def _is_reached(position: str, *, is_read: bool) -> Column:
    """Whether a message stands at a position or before it; NULL for one without a position.

    Args:
        position: where.
        is_read: whether what stands there are rows of a snapshot.
    """
    own = F.col(m.POSITION)
    if is_read:
        return F.when(_is_read(), own).otherwise(reach(own)) <= position
    return (own <= position) | (_is_read() & (own < reach_of(position)))


def _before(bounds: Mapping[int, int]) -> Column:
    """Whether a message stands before the bound of its partition, or that has none."""
    found = F.lit(True)
    for partition, bound in bounds.items():
        found = F.when(F.col(m.PARTITION) == partition, F.col(m.OFFSET) < bound).otherwise(found)
    return found


def _check_positions(log: Known, position: str | None) -> None:
    """Refuse what would be compared as a text, and not as a place in the log."""
    own = F.col(m.POSITION)
    asked = F.coalesce(F.max(own == F.lit(position)), F.lit(False)).alias("is_one")
    found = log.changes.agg(F.min(own).alias("lowest"), F.max(own).alias("highest"), asked).collect()[0]
    if found["highest"] is None:
        what = "The messages do not say where they stand in the source's log, so nothing tells what was earlier."
        raise UsageError(what, "Iceberg's time travel tells what readers saw at a time.")
    if position is None or found["is_one"]:
        return
    if _shape(position) not in {_shape(found["lowest"]), _shape(found["highest"])}:
        raise UsageError("That is no position as this table's source has them.", _SHOWN)


def _shape(position: str) -> str:
    """A position without its digits, of which some logs have hexadecimal ones: equal for those that can be compared."""
    return re.sub("[0-9a-f]", "0", position)


def snapshots_by(log: Known, cut: Cut) -> tuple[Sweep, ...]:
    """The snapshots of the whole table that were complete by a moment, and that had something before them."""
    found = follow(log.changes, None, Watch(log.partitions, alone=log.alone))
    return tuple(
        one for one in found.sweeps if all(cut.last.get(partition, -1) >= end for partition, end in one.ends.items())
    )


# --- what is not certain
# ----------------------------------------------------------------------------------------------------


def doubts(log: Known, cut: Cut, *, time: datetime | None, wipes: bool) -> list[str]:
    """What the log leaves open about a moment, in sentences.

    Args:
        log: the messages.
        cut: which of them count.
        time: the time that was asked for; None where a position was.
        wipes: whether truncates end rows in this table.
    """
    found = [*_waiting(log, cut), *_unplaced(log, cut), *_unseen(log, cut), *_lost(log, cut), *_split(log, cut)]
    found += _read_anew(log, cut)
    found += _times(log, cut, time) if time is not None else ()
    found += () if wipes else _kept(log, cut)
    return found


def _waiting(log: Known, cut: Cut) -> Iterator[str]:
    waiting = sorted(set(log.partitions) - set(cut.first))
    if waiting:
        told = ", ".join(map(str, waiting))
        which = f"Partition {told} has" if len(waiting) == 1 else f"Partitions {told} have"
        yield f"{which} shown nothing from after it yet: more from before it may come."


def _unplaced(log: Known, cut: Cut) -> Iterator[str]:
    """Messages without a position between the last that counts and the first that does not.

    The tombstone of a delete that counts says no more than the delete.
    """
    own, beyond = F.col(m.POSITION), [*cut.first]
    # What was sent again later says nothing of where in the log these stand.
    sent = log.changes.where(cut.reached & _before(cut.first))
    placed = sent.groupBy(F.col(m.PARTITION).alias("placed_in"))
    ends = placed.agg(F.max(m.OFFSET).alias("end"), F.max_by(F.struct(m.OP, m.KEY), m.OFFSET).alias("at"))
    says = F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE, m.TRUNCATE)
    free = log.changes.where(own.isNull() & cut.included & says & F.col(m.PARTITION).isin(*beyond))
    known = free.join(F.broadcast(ends), F.col(m.PARTITION) == F.col("placed_in"), "left")
    repeats = (F.col(m.OP) == m.TOMBSTONE) & (F.col("at")[m.OP] == "d") & F.col(m.KEY).eqNullSafe(F.col("at")[m.KEY])
    is_between = F.coalesce(F.col(m.OFFSET) > F.col("end"), F.lit(True))
    count = known.where(is_between & ~F.coalesce(repeats, F.lit(False))).select(m.PARTITION, m.OFFSET).distinct()
    between = count.count()
    if between:
        told = quantity(between, "message")
        yield f"{told} without a position, between what came before it and what came after it, may be from after it."


def _unseen(log: Known, cut: Cut) -> Iterator[str]:
    """Rows that the log first speaks of after the moment, and not as new: they may have been there already."""
    told = F.col(m.OP).isin(*m.CHANGE_OPS) & F.col(m.KEY).isNotNull()
    after = F.when(~cut.included, F.col(m.OFFSET))
    keys = log.changes.where(told).groupBy(m.KEY)
    rows = keys.agg(F.max(cut.included).alias("had"), F.min_by(m.OP, after).alias("then"))
    count = rows.where(~F.col("had") & (F.col("then") != "c")).count()
    if count:
        yield f"{quantity(count, 'row')} may have been there already: a later snapshot or change first speaks of them."


def _lost(log: Known, cut: Cut) -> Iterator[str]:
    bounds = {p: cut.first.get(p, cut.last.get(p, -1) + 1) for p in log.partitions}
    own = log.changes.where(_before(bounds)).select(m.PARTITION, m.OFFSET).distinct()
    missing = sum(bounds.values()) - own.count()
    if missing:
        why = "compacted away, gone from the topic before they were read, or marks of transactions"
        yield f"Raw has no message at {quantity(missing, 'offset')} up to then: {why}."
    for one in log.adopted:
        # Behind a gap nothing has to be known yet; where positions went back, something is.
        begun = {p: at + (one.what == "positions") for p, at in one.offsets.items()}
        if any(p not in cut.first or at <= cut.first[p] for p, at in begun.items()):
            yield f"Source data that was lost or rewound before then was accepted on {one.at} (`adopt`)."


def _read_anew(log: Known, cut: Cut) -> Iterator[str]:
    """Whether a snapshot of the whole table comes next, and nothing tells that the log was read up to the moment.

    A connector that has lost its place in the log takes one: what was deleted, and changed again, before it was is in
    no message. Only a change from the log that came before it, from behind the moment, shows that nothing is missing.
    """
    own, is_record = F.col(m.POSITION), F.col(m.SNAPSHOT).isNotNull()
    later = log.changes.where(~cut.reached)
    records = later.where(is_record).groupBy(m.PARTITION)
    found = records.agg(F.min(m.OFFSET).alias("first"), F.min(own).alias("at")).collect()
    begins = {row[m.PARTITION]: row["first"] for row in found}
    places = [row["at"] for row in found if cut.first.get(row[m.PARTITION]) == row["first"]]
    if not places:
        return
    streamed = later.where(F.col(m.STREAMING) & _before(begins) & (reach(own) < F.lit(min(places))))
    if streamed.isEmpty():
        yield "A snapshot of the table was read after it, and no message tells what changed between."


def _split(log: Known, cut: Cut) -> Iterator[str]:
    """Whether the transaction of the last change goes on after the moment: by its number, else by its commit time."""
    own, streaming = F.col(m.POSITION), log.changes.where(F.col(m.STREAMING))
    marks = F.struct(m.SOURCE_TIME, m.LOG, m.LOG_NUMBER)
    last = streaming.where(cut.reached).agg(F.max_by(marks, own).alias("at"))
    at = F.col("at")
    is_same = F.when(
        F.col(m.LOG_NUMBER).isNotNull() & at[m.LOG_NUMBER].isNotNull(),
        (F.col(m.LOG) == at[m.LOG]) & (F.col(m.LOG_NUMBER) == at[m.LOG_NUMBER]),
    ).otherwise(F.col(m.SOURCE_TIME) == at[m.SOURCE_TIME])
    if streaming.where(~cut.reached).crossJoin(F.broadcast(last)).where(is_same).count():
        yield "What was committed at the same time goes on after it: it may show a part of a transaction."


def _times(log: Known, cut: Cut, time: datetime) -> Iterator[str]:
    """Whether the source's times follow its log, and are those of commits."""
    found = (
        log.changes.where(F.col(m.STREAMING))
        .agg(
            F.max(F.col(m.LOG).isNotNull()).alias("is_binlog"),
            F.max(F.unix_micros(m.SOURCE_TIME) % 1_000_000).alias("fraction"),
            F.count_if(cut.reached & (F.col(m.SOURCE_TIME) > F.lit(time))).alias("later"),
        )
        .collect()[0]
    )
    if found["is_binlog"] and not found["fraction"]:
        yield "The source's times are whole seconds, in which its statements began; commits came later."
    if found["later"]:
        yield f"The source's times do not follow its log: {quantity(found['later'], 'change')} before it are later."


def _kept(log: Known, cut: Cut) -> Iterator[str]:
    if log.changes.where(cut.included & (F.col(m.OP) == m.TRUNCATE)).count():
        yield "The source truncated the table before then, and this table keeps its rows (`truncate`)."
