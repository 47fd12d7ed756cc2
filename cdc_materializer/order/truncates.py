"""Truncates, and which messages one wipes (changelog-semantics §0 rule 11, §0.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.marker.reach import reach_of
from cdc_materializer.order.epochs import micros


@dataclass(frozen=True)
class Truncate:
    """A truncate of the batch.

    Attributes:
        position: where the source says it happened, if it does.
        partition: its partition.
        offset: its place in the partition.
        epoch: the epoch of its position.
        micros: when the source made it, in microseconds since 1970.
        table: the source table that was emptied, where the message names it.
        topic: its topic.
    """

    position: str | None
    partition: int
    offset: int
    epoch: int = m.FIRST_EPOCH
    micros: int | None = None
    table: str | None = None
    topic: str = ""


def fields() -> Column:
    """The fields of a `Truncate`, in their order."""
    return F.struct(m.POSITION, m.PARTITION, m.OFFSET, m.EPOCH, micros().alias("micros"), m.SOURCE_TABLE, m.TOPIC)


def in_order(truncates: Sequence[Truncate]) -> tuple[Truncate, ...]:
    """Truncates in the order of their positions, those without one by their offsets."""
    return tuple(sorted(truncates, key=lambda one: (one.position or "", one.offset)))


def first_sent(truncates: Iterable[Truncate], earlier: Iterable[Truncate] = ()) -> tuple[Truncate, ...]:
    """Truncates without those that their partition had before: sent again, one says nothing of what came between.

    Args:
        truncates: those that are looked at.
        earlier: what was read ahead of them.
    """
    known = {_place(one) for one in earlier}
    found = []
    for truncate in sorted(truncates, key=lambda one: (one.partition, one.offset)):
        if truncate.position is None or _place(truncate) not in known:
            found.append(truncate)
        known.add(_place(truncate))
    return tuple(found)


def was_passed_over(truncate: Truncate, passing: Sequence[Mapping[int, int]]) -> bool:
    """Whether a truncate was ignored when it was read, see `Marker.passing`."""
    return sum(truncate.offset >= since.get(truncate.partition, 0) for since in passing) % 2 == 1


def _place(truncate: Truncate) -> tuple[str | None, str | None, int]:
    """What a truncate has in common with itself when it comes again; one statement can empty several tables."""
    return truncate.position, truncate.table, truncate.partition


def beside(truncates: Iterable[Truncate], rows: Iterable[tuple[int, str | None]]) -> tuple[tuple[int, int], ...]:
    """Those truncates (partition and offset) beside which there are rows in other partitions.

    Args:
        truncates: those that wipe rows.
        rows: the partition and source table of some rows without a position.
    """
    known = list(rows)
    return tuple(
        (one.partition, one.offset)
        for one in truncates
        if any(at != one.partition and (None in (table, one.table) or table == one.table) for at, table in known)
    )


def is_wiped(truncates: Sequence[Truncate]) -> Column:
    """Whether a truncate removes what a message wrote: one at a later position, or behind it in its partition.

    What is behind a truncate in its partition has not been written when that comes, whatever its position: see
    `is_from_before`.
    """
    found = F.lit(False)
    for truncate in truncates:
        behind = (F.col(m.PARTITION) == truncate.partition) & (F.col(m.OFFSET) < truncate.offset)
        earlier = is_before_truncate(truncate.position) & ~_is_read_behind(truncate) if truncate.position else None
        found = found | F.coalesce(F.lit(earlier), behind)
    return found


def is_from_before(truncates: Sequence[Truncate], was_read: Column) -> Column:
    """Whether a message that is read behind a truncate of its partition was there before it, and is sent again.

    Its position alone does not say so: a database that was restored, or another one, begins at lower positions. So it
    has to be one that its key has shown, or that was made no later than the truncate (§0.2, §0 rule 15).

    Args:
        truncates: those that wipe rows, each where it came first.
        was_read: whether the key has shown the message.
    """
    found = F.lit(False)
    for truncate in truncates:
        if truncate.position:
            is_before = is_before_truncate(truncate.position) & (was_read | ~_is_made_later(truncate))
            found = found | (_is_read_behind(truncate) & F.coalesce(is_before, F.lit(False)))
    return found


def _is_read_behind(truncate: Truncate) -> Column:
    return (F.col(m.PARTITION) == truncate.partition) & (F.col(m.OFFSET) > truncate.offset)


def _is_made_later(truncate: Truncate) -> Column:
    return F.coalesce(micros() > F.lit(truncate.micros), F.lit(False))


def is_before_truncate(truncate: str) -> Column:
    """Whether a message is at an earlier position than a truncate; that of a snapshot's row knows no last commit."""
    return F.col(m.POSITION) < F.when(F.col(m.OP) == "r", reach_of(truncate)).otherwise(truncate)


def is_shown_before(truncate: str) -> Column:
    """Whether a message is a snapshot's row from before a truncate whose position is lower by its last commit."""
    is_higher = (F.col(m.POSITION) >= truncate) & (F.col(m.POSITION) < reach_of(truncate))
    return F.coalesce((F.col(m.OP) == "r") & is_higher, F.lit(False))
