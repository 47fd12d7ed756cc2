"""Truncates: which messages one wipes, and which of them come again (changelog-semantics §0 rule 11, §0.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.reach import reach_of


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
        log: the log whose transaction it is, where that has a number; see `changes.positions.log`.
        number: that number.
    """

    position: str | None
    partition: int
    offset: int
    epoch: int = m.FIRST_EPOCH
    micros: int | None = None
    table: str | None = None
    log: str | None = None
    number: int | None = None


def fields() -> Column:
    """The fields of a `Truncate`, in their order."""
    micros = F.unix_micros(m.SOURCE_TIME).alias("micros")
    return F.struct(m.POSITION, m.PARTITION, m.OFFSET, m.EPOCH, micros, m.SOURCE_TABLE, m.LOG, m.LOG_NUMBER)


def in_order(truncates: Sequence[Truncate]) -> tuple[Truncate, ...]:
    """Truncates in the order of their positions, those without one by their offsets."""
    return tuple(sorted(truncates, key=lambda one: (one.position or "", one.offset)))


def sent_again(truncates: Sequence[Truncate]) -> tuple[Truncate, ...]:
    """Those that repeat an earlier one, from wherever a server has it: each is a transaction of its own.

    Args:
        truncates: in their order. Only those whose transactions have numbers can be told so; replicas keep the time.
    """
    known, again = set(), []
    for truncate in truncates:
        event = (truncate.log, truncate.number, truncate.micros, truncate.table)
        again += [truncate] if truncate.number is not None and event in known else []
        known.add(event)
    return tuple(again)


def is_one_of(truncates: Sequence[Truncate]) -> Column:
    """Whether a message is one of some truncates."""
    found = F.lit(False)
    for truncate in truncates:
        found = found | ((F.col(m.PARTITION) == truncate.partition) & (F.col(m.OFFSET) == truncate.offset))
    return found


def is_wiped(truncates: Sequence[Truncate]) -> Column:
    """Whether a truncate removes what a message wrote: one at a later position, or behind it in its partition."""
    found = F.lit(False)
    for truncate in truncates:
        behind = (F.col(m.PARTITION) == truncate.partition) & (F.col(m.OFFSET) < truncate.offset)
        earlier = is_before_truncate(truncate.position) if truncate.position else F.lit(None)
        found = found | F.coalesce(earlier, behind)
    return found


def is_before_truncate(truncate: str) -> Column:
    """Whether a message is at an earlier position than a truncate; that of a snapshot's row knows no last commit."""
    return F.col(m.POSITION) < F.when(F.col(m.OP) == "r", reach_of(truncate)).otherwise(truncate)
