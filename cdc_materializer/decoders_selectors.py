"""Which selectors messages have, and of how many it is asked at a time what they are.

Garbage may name any of 2^31 schemas. Each name is a row on the driver and a question to the registry, each schema block
a decoder: so a batch looks up those that most of its messages have, and the rest is held like what nobody knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer.decode.framing import schema_block

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

#: So many pairs of selectors, of a value and a key, are looked up at a time: ten times what a year of `ALTER TABLE`
#: makes, and two thousand questions to the registry, which take seconds.
PAIRS_MAX = 1_000
#: How many numbers a lot is drawn from: as many as a double tells apart.
_LOTS = 2**53


def selectors_of(messages: DataFrame, first: Column | None) -> tuple[list[Row], bool]:
    """The pairs of value and key writers in the order of their first messages, and whether there are more than told.

    Each has the schema blocks that it has, `first` and `last`.

    Args:
        messages: with `value_writer` and `key_writer`, from `changes.readable`.
        first: which messages' pairs come first, where no more than `PAIRS_MAX` are told: before those that most
            messages have, so that what was drawn is read. None where all are told, as of messages that are read again,
            since what was published has to be read as it was.
    """
    blocks = [
        F.first(F.when(F.col(f"{side}_writer").startswith("block:"), schema_block(F.col(side)))).alias(f"{side}_block")
        for side in ("value", "key")
    ]
    found = messages.groupBy("value_writer", "key_writer").agg(
        F.min(F.struct("offset", "partition")).alias("first"),
        # Offsets of partitions say nothing of each other: one that is idle for long may have the highest.
        F.max(F.struct(F.coalesce(F.unix_micros("timestamp"), F.lit(0)), "offset", "partition")).alias("last"),
        *blocks,
        *([F.max(first).alias("drawn"), F.count(F.lit(1)).alias("messages")] if first is not None else []),
    )
    if first is not None:
        # Of equally many the lowest names: registries count from 1, and garbage seldom does.
        found = found.orderBy(F.desc("drawn"), F.desc("messages"), "value_writer", "key_writer").limit(PAIRS_MAX + 1)
    rows = found.collect()
    told = rows if first is None else rows[:PAIRS_MAX]
    return sorted(told, key=lambda row: tuple(row["first"])), len(told) < len(rows)


def drawn(messages: DataFrame, turn: int) -> tuple[list[Row], bool]:
    """Pairs of `value_writer` and `key_writer` that are asked for again, and whether there are more.

    They are drawn by lot where there are too many, others each turn: one that a thousand messages have comes a thousand
    times as readily as one that a single one has, and each comes some time.

    Args:
        messages: those that wait for their schemas.
        turn: the lots' seed.
    """
    lot = (F.pmod(F.xxhash64("value_writer", "key_writer", F.lit(turn)), F.lit(_LOTS)) + 1) / _LOTS
    pairs = messages.groupBy("value_writer", "key_writer").agg((-F.log(lot) / F.count(F.lit(1))).alias("place"))
    rows = pairs.orderBy("place", "value_writer", "key_writer").limit(PAIRS_MAX + 1).collect()
    return rows[:PAIRS_MAX], len(rows) > PAIRS_MAX
