"""How two states of a mirror differ: by buckets of keys first, then by keys and values where these differ."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.batch import life
from cdc_materializer.batch.rows import with_source_tables
from cdc_materializer.changes import model as m
from cdc_materializer.digests import bucket_of, comparable, digests
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.merge import CDC
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.schema.schema import TableSchema

#: Differing keys that a report names, and of which it says where they were last written.
KEYS_MAX = 10
#: So much of a key's SHA-256 stands for it in a report, in hexadecimal digits.
_HASH_DIGITS = 16


@dataclass(frozen=True)
class Difference:
    """How two states of a mirror differ: keys by kind, by column, and where the first of them were last written.

    `buckets` are those of `digests` that differ, `keys` the first differing keys as JSON text.
    """

    expected: int
    found: int
    missing: int = 0
    unexpected: int = 0
    different: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    places: list[MessagePlace] = field(default_factory=list)
    keys: tuple[str, ...] = ()
    buckets: tuple[int, ...] = ()

    @property
    def is_none(self) -> bool:
        """Whether both hold the same rows."""
        return self.missing == self.unexpected == self.different == 0

    def told_keys(self, *, plain: bool) -> list[str]:
        """The first differing keys: as they are, or only their hashes, by which two reports can be compared."""
        return list(self.keys) if plain else [hashed(key) for key in self.keys]


def hashed(key: str) -> str:
    """What stands for a key in reports: the first digits of the SHA-256 of its JSON text."""
    return hashlib.sha256(key.encode()).hexdigest()[:_HASH_DIGITS]


def compare_rows(expected: DataFrame, found: DataFrame, target: TableSchema) -> Difference:
    """Compare two states of a mirror; reads back counts and the first differing keys.

    Rows are joined only in the buckets whose digests differ. Where all of them are equal, nothing is joined.

    Args:
        expected: the rows that should be there, with our own column.
        found: the rows that are.
        target: the mirror's columns.
    """
    sides = told_alike(expected, target), told_alike(found, target)
    left, right = digests(sides, target)
    buckets = left.differing(right)
    difference = Difference(left.rows, right.rows, buckets=buckets)
    if not buckets:
        return difference
    joined = joined_rows(sides, target, buckets)
    counted = joined.agg(*_counts(target)).collect()[0]
    columns = {name: counted[f"column_{at}"] for at, name in enumerate([*target.types, CDC]) if counted[f"column_{at}"]}
    kinds = {kind: counted[kind] for kind in ("missing", "unexpected", "different")}
    places, keys = _first(joined)
    return replace(difference, **kinds, columns=columns, places=places, keys=keys)


def sides_of(line: Line, expected: DataFrame, mirror: LakeTable) -> tuple[DataFrame, DataFrame]:
    """The rows that a mirror should hold and those that it holds, in the same columns."""
    found = line.lake.rows(mirror)
    if mirror.routed:
        first = marker_of(mirror).source_table
        expected, found = (with_source_tables(side, first) for side in (expected, found))
    return told_alike(expected, mirror.schema), told_alike(found, mirror.schema)


def told_alike(rows: DataFrame, target: TableSchema) -> DataFrame:
    """Rows in the columns of the target, and our own."""
    return rows.select(*life.in_columns(rows, target), CDC)


def joined_rows(sides: tuple[DataFrame, DataFrame], target: TableSchema, buckets: Sequence[int]) -> DataFrame:
    """Both sides of every key in some buckets, as structs `expected` and `found`; NULL where one has none.

    With `left_key` and `right_key`, the key as JSON text.
    """
    one = Window.partitionBy("key").orderBy(F.col("row")[CDC]["offset"].asc_nulls_last())
    values = [comparable(m.column(name), ddl).alias(name) for name, ddl in target.types.items()]
    keyed = [
        side.where(bucket_of(target).isin(*buckets)).select(_key(target), F.struct(*values, CDC).alias("row"))
        for side in sides
    ]
    copies = keyed[1].withColumn("copy", F.row_number().over(one))
    left = keyed[0].select(F.col("key").alias("left_key"), F.col("row").alias("expected"))
    right = copies.select(F.col("key").alias("right_key"), F.col("row").alias("found"), "copy")
    # A second copy of a key in the mirror has no partner: it is a row too many.
    return left.join(right, (F.col("left_key") == F.col("right_key")) & (F.col("copy") == 1), "full_outer")


def is_unequal() -> Column:
    """Whether both sides of a joined row are not the same."""
    return ~F.col("expected").eqNullSafe(F.col("found"))


def _key(target: TableSchema) -> Column:
    return m.row_key(target).alias("key")


def _differs(name: str) -> Column:
    both = F.col("expected").isNotNull() & F.col("found").isNotNull()
    return both & ~F.col("expected")[name].eqNullSafe(F.col("found")[name])


def _any_differs(target: TableSchema) -> Column:
    found = F.lit(False)
    for name in [*target.types, CDC]:
        found = found | _differs(name)
    return found


def _counts(target: TableSchema) -> list[Column]:
    expected, found = F.col("expected").isNotNull(), F.col("found").isNotNull()
    columns = [F.count_if(_differs(name)).alias(f"column_{at}") for at, name in enumerate([*target.types, CDC])]
    return [
        F.count_if(expected & ~found).alias("missing"),
        F.count_if(~expected & found).alias("unexpected"),
        F.count_if(_any_differs(target)).alias("different"),
        *columns,
    ]


def _first(joined: DataFrame) -> tuple[list[MessagePlace], tuple[str, ...]]:
    """Where the first differing rows were last written, and their keys, each once.

    A row of another program may name no message.
    """
    side = F.coalesce(F.col("found")[CDC], F.col("expected")[CDC])
    names = ("topic", "partition", "offset")
    key = F.coalesce("right_key", "left_key").alias("key")
    wrong = joined.where(is_unequal()).select(*[side[name].alias(name) for name in names], key)
    found = wrong.orderBy("partition", "offset", "key").limit(KEYS_MAX).collect()
    told = [{name: row[name] for name in names} for row in found]
    places = [MessagePlace(**place) for place in told if None not in place.values()]
    return places, tuple(dict.fromkeys(row["key"] for row in found))
