"""Which row a message is about: the one that its Kafka key names or, where key columns are configured, its images.

With configured keys an update may change the key, and is then about two rows: the old one is gone, a new one is there.
Such a message becomes two changes at one position, as a key change that Debezium itself sends in two messages does.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m

#: Which of the rows that a message speaks of, from 0.
ENTRY = "__cdc_entry"
#: Connectors whose `before` is always a whole row, whatever the Kafka key (changelog-semantics §1.6 and §1.8).
_WHOLE_BEFORE = ("mysql", "mariadb", "sqlserver", "db2")


def identified(
    images: DataFrame, configured: Sequence[str], *, with_wire_key: bool = False, may_be_partial: bool = False
) -> DataFrame:
    """One row a change, with its `op`, its `image`, its `key` and m.PART beside the columns of the images.

    Args:
        images: one row for each that a message speaks of, counted by ENTRY, with `value` (op, image, old_key, source),
            `wire_key` and `key_writer`.
        configured: the key columns of pipeline.yaml; none where the Kafka key says which row is meant.
        with_wire_key: whether the Kafka key gives those configured columns that a value does not.
        may_be_partial: whether an update may leave out columns that it did not touch, one of the key too.
    """
    value, first = F.col("value"), F.col(ENTRY) * 2
    if not configured:
        one = {m.PART: first, "op": value["op"], "image": value["image"], "key": F.col("wire_key.key")}
        return images.select("*", *[column.alias(name) for name, column in one.items()])
    is_moved = F.coalesce(_changes_key(configured), F.lit(False))
    parts = F.when(is_moved, F.array(first, first + 1)).otherwise(F.array(first))
    split = images.select("*", F.explode(parts).alias(m.PART), is_moved.alias("is_moved"))
    ends = F.col("is_moved") & (F.col(m.PART) == first)
    own = _row_key(configured)
    if with_wire_key:
        told = F.col("wire_key.key")
        both = F.struct(*[F.coalesce(own[name], told[name]).alias(name) for name in configured])
        # A key has the order of the table's columns, `key:` may have another.
        bare = F.struct(*[told[name].alias(name) for name in configured])
        own = F.when(own.isNotNull(), both).when(told.isNotNull(), bare)
    image = value["image"]
    if may_be_partial:
        # What the new row leaves out is the old one's: told as unknown it comes from there, absent it would be NULL.
        silent = F.concat(image["unavailable"], image["absent"])
        moved = image.withField("unavailable", silent).withField("absent", F.array().cast("array<string>"))
        image = F.when(F.col("is_moved"), moved).otherwise(image)
    return split.select(
        "*",
        F.when(ends, "d").when(F.col("is_moved"), "c").otherwise(value["op"]).alias("op"),
        F.when(~ends, image).alias("image"),
        F.when(ends, value["old_key"]).otherwise(own).alias("key"),
    )


def is_silent(image: Column, name: str) -> Column:
    """Whether an image does not tell a column."""
    return F.array_contains(image["absent"], name) | F.array_contains(image["unavailable"], name)


def _row_key(configured: Sequence[str]) -> Column:
    """The configured columns of the row that a message leaves behind, or of the one that it ends.

    Without a Kafka key only a full before image tells which row a delete was about (changelog-semantics §0.2, "No
    key"), and what a column is that an update leaves out.
    """
    value = F.col("value")
    has_before = value["op"].isin("u", "d") & value["old_key"].isNotNull()
    fields = []
    for name in configured:
        kept = has_before & is_silent(value["image"], name)
        fields.append(F.when(kept, value["old_key"][name]).otherwise(value["image"]["row"][name]).alias(name))
    names_old = has_before & ~F.col("is_moved")
    return F.when(names_old, value["old_key"]).when(value["image"]["present"], F.struct(*fields))


def _changes_key(configured: Sequence[str]) -> Column:
    """Whether an update shows another key before than after.

    Only where `before` is a fact. A topic without Kafka keys has updates only under REPLICA IDENTITY FULL; where there
    is a Kafka key, PostgreSQL may have filled `before` with defaults, and a key of those would be no row's.
    """
    value = F.col("value")
    is_whole = F.col("key_writer").isNull() | value["source"]["connector"].isin(*_WHOLE_BEFORE)
    known, differs = F.lit(True), F.lit(False)
    for name in configured:
        before, after = value["old_key"][name], value["image"]["row"][name]
        silent = is_silent(value["image"], name)
        known = known & before.isNotNull() & (silent | after.isNotNull())
        differs = differs | (~silent & (before != after))
    return (value["op"] == "u") & value["image"]["present"] & is_whole & known & differs
