"""Which selectors messages have, and of how many it is asked at a time what they are.

Garbage may name any of 2^31 schemas, and bring any number of others. Each is a question to the registry or a decoder in
the plan, so a batch looks up those that most of its messages have; the rest is held and has its turn later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from cdc_materializer.decode.framing import BLOCK, UNASKED, names_schema, of_one_kind, schema_block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row

    from cdc_materializer.decoders.decoders import Lookup

#: So many schemas of values are looked up at a time, and so many of keys, beside those that the process has already:
#: ten times what a year of `ALTER TABLE` makes, and two thousand questions to the registry, which take some seconds.
SCHEMAS_MAX = 1_000
#: A column of messages: whether one may be held because too many schemas were met before its own. Messages without the
#: column are looked up whole, as is whatever was published: it is to be read as it was.
MAY_WAIT = "__cdc_may_wait"
#: How many numbers a lot is drawn from: as many as a double tells apart.
_LOTS = 2**53
_SIDES = ("value", "key")


def selectors_of(messages: DataFrame, lookup: Lookup, turn: int | None = None) -> list[Row]:
    """The pairs of value and key writers in the order of their first messages, each with the schema blocks it has.

    What is not looked up is `UNASKED` in them.

    Args:
        messages: with the selectors `value_writer` and `key_writer`, and MAY_WAIT where too many are cut.
        lookup: where their schemas are found.
        turn: a lot's seed, where those are drawn that are looked up, the more messages have one the sooner. None: those
            that most messages have are.
    """
    pairs = _pairs(messages)
    if MAY_WAIT not in messages.columns:
        return in_order(pairs.collect())
    few = pairs.orderBy("last").limit(SCHEMAS_MAX + 1).collect()
    if len(few) <= SCHEMAS_MAX:
        return in_order(few)
    for side in _SIDES:
        name, asked = F.col(f"{side}_writer"), _asked(messages, side, lookup, turn)
        is_other = names_schema(name) & ~name.isin(*asked)
        messages = messages.withColumn(f"{side}_writer", F.when(is_other, F.lit(UNASKED)).otherwise(name))
    return in_order(_pairs(messages).collect())


def in_order(pairs: Sequence[Row]) -> list[Row]:
    """The pairs in the order of their first messages.

    Offsets of partitions say nothing of each other, so between partitions the messages' times count. Inside of one it
    is the offset, and a clock that went back decides nothing: no message was written before those that lie before it.
    """
    places = sorted((*place, at) for at, row in enumerate(pairs) for place in row["first"])
    reached, first = dict[int, int](), dict[int, tuple[int, int, int]]()
    for partition, offset, micros, at in places:
        reached[partition] = max(reached.get(partition, micros), micros)
        place = (reached[partition], offset, partition)
        first[at] = min(first.get(at, place), place)
    return [pairs[at] for at in sorted(first, key=first.__getitem__)]


def _pairs(messages: DataFrame) -> DataFrame:
    """Each pair once, with the partition, offset and time of its first message in each partition (`first`)."""
    blocks = [
        F.first(F.when(F.col(f"{side}_writer").startswith(BLOCK), schema_block(F.col(side)))).alias(f"{side}_block")
        for side in _SIDES
    ]
    names = ("value_writer", "key_writer")
    micros = F.coalesce(F.unix_micros("timestamp"), F.lit(0)).alias("micros")
    there = messages.groupBy(*[of_one_kind(F.col(name)).alias(name) for name in names], "partition").agg(
        F.min(F.struct("offset", micros)).alias("first"),
        # Of partitions one that is idle for long may have the highest offset.
        F.max(F.struct(micros, "offset", "partition")).alias("last"),
        *blocks,
    )
    return there.groupBy(*names).agg(
        F.collect_list(F.struct("partition", "first.offset", "first.micros")).alias("first"),
        F.max("last").alias("last"),
        *[F.first(f"{side}_block").alias(f"{side}_block") for side in _SIDES],
    )


def _asked(messages: DataFrame, side: str, lookup: Lookup, turn: int | None) -> list[str]:
    """The selectors of schemas of one side that are looked up: all of what may not wait, and some of the rest."""
    # Values and keys each by themselves: a key in bytes that looks like an id is another schema in every message.
    name, options = F.col(f"{side}_writer"), lookup.options
    # Without a registry no name is known, and none is to take the place of what messages bring along.
    is_asked = names_schema(name) if lookup.registry is not None else name.startswith(BLOCK)
    # Where `key:` is set, and a key cannot be a delete, nothing of it is needed.
    is_idle = side == "key" and bool(options.key) and not options.format.tombstones_delete
    found = (
        messages.where(is_asked)
        .groupBy(name.alias("name"))
        .agg(
            F.bool_and(F.lit(True) if is_idle else F.col(MAY_WAIT)).alias("may_wait"),
            F.count(F.lit(1)).alias("messages"),
        )
    )
    # What the process has is no question any more, and not to be crowded out by what is.
    known = lookup.found
    is_found = F.col("name").isin(*known) | F.substring_index("name", "/", 1).isin(*known)
    group = F.when(~F.col("may_wait"), 0).when(is_found, 1).otherwise(2)
    rank = F.row_number().over(Window.partitionBy(group).orderBy(*_order(turn)))
    ranked = found.select("name", "may_wait", rank.alias("rank"))
    return [row["name"] for row in ranked.where(~F.col("may_wait") | (F.col("rank") <= SCHEMAS_MAX)).collect()]


def _order(turn: int | None) -> list[Column]:
    """In which order names are looked up.

    By lot, one that a thousand messages have comes a thousand times as readily as one that a single one has, and each
    comes some time, whatever the registry does not know.
    """
    if turn is None:
        # Of equally many the lowest: registries count from 1, and garbage seldom does.
        return [F.desc("messages"), F.asc("name")]
    lot = (F.pmod(F.xxhash64("name", F.lit(turn)), F.lit(_LOTS)) + 1) / _LOTS
    return [F.asc(-F.log(lot) / F.col("messages")), F.asc("name")]
