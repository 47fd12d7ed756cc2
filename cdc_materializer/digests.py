"""Order-independent digests of a table's rows, by buckets of keys: equal tables have equal ones, in any engine's order.

A row's hash is made of the hashes of its values, each with its column's name, so that neither a column that was added
and is NULL nor the order of columns changes it, nor a type that was widened in place. A bucket adds the hashes of its
rows, so that rows can be taken out of a digest and put into it, and a row that is there twice shows.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc_materializer.changes import model as m
from cdc_materializer.errors import InvariantBroken
from cdc_materializer.merge import CDC
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.schema.types import entry_of, fields_of, item_of, struct_ddl

#: Into so many buckets keys are parted: few enough to be read back and kept, enough to leave most rows alone when a
#: few differ.
BUCKETS = 64
#: And into so many where a digest is written into each snapshot's summary; 256 characters.
_KEPT = 16
_FORMAT = f"<{3 * _KEPT}I"
BUCKET = "__cdc_bucket"
_SIDE = "__cdc_side"
_LOW, _HIGH = "__cdc_low", "__cdc_high"
_HALF = 1 << 32
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS = ("float", "double")
_NESTED = ("array<", "map<", "struct<")
#: Values inside of others as text, with every NULL and all digits of a time.
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


@dataclass(frozen=True)
class Sums:
    """What the rows of one bucket add up to: how many, and both halves of their hashes, modulo 2^32."""

    rows: int = 0
    low: int = 0
    high: int = 0

    def plus(self, other: Sums) -> Sums:
        """The sums of both buckets' rows."""
        return Sums(self.rows + other.rows, (self.low + other.low) % _HALF, (self.high + other.high) % _HALF)

    def less(self, other: Sums) -> Sums:
        """The sums of the rows that are left when those of another bucket are taken out."""
        return Sums(self.rows - other.rows, (self.low - other.low) % _HALF, (self.high - other.high) % _HALF)


@dataclass(frozen=True)
class Digest:
    """The sums of a table's rows by bucket; buckets without rows are left out."""

    buckets: Mapping[int, Sums] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return sum(sums.rows for sums in self.buckets.values())

    def differing(self, other: Digest) -> tuple[int, ...]:
        """The buckets in which two tables differ, in order."""
        known = sorted({*self.buckets, *other.buckets})
        return tuple(at for at in known if self.buckets.get(at, Sums()) != other.buckets.get(at, Sums()))

    def plus(self, other: Digest) -> Digest:
        """The digest of the rows of both."""
        return self._with(other, Sums.plus)

    def less(self, other: Digest) -> Digest:
        """The digest of the rows that are left when those of another one are taken out."""
        return self._with(other, Sums.less)

    def _with(self, other: Digest, joined: Callable[[Sums, Sums], Sums]) -> Digest:
        nothing, known = Sums(), {*self.buckets, *other.buckets}
        found = {at: joined(self.buckets.get(at, nothing), other.buckets.get(at, nothing)) for at in known}
        return Digest({at: sums for at, sums in found.items() if sums != nothing})

    def to_text(self) -> str:
        """Return it in the few characters that a snapshot's summary has for it: 16 buckets for four times as many."""
        sums = [Sums()] * _KEPT
        for at, found in self.buckets.items():
            sums[at % _KEPT] = sums[at % _KEPT].plus(found)
        numbers = [number % _HALF for one in sums for number in (one.rows, one.low, one.high)]
        return base64.b64encode(struct.pack(_FORMAT, *numbers)).decode()

    @classmethod
    def from_text(cls, text: str) -> Digest:
        """Read what `to_text` has written: a digest of 16 buckets.

        Raises:
            InvariantBroken: it is none.
        """
        try:
            numbers = struct.unpack(_FORMAT, base64.b64decode(text, validate=True))
        except (ValueError, struct.error) as error:
            what = "The ledger in a table's marker cannot be read."
            raise InvariantBroken(what, "Another program has changed it; see `cdcm doctor`.") from error
        found = {at: Sums(*numbers[3 * at : 3 * at + 3]) for at in range(_KEPT)}
        return cls({at: sums for at, sums in found.items() if sums != Sums()})


def comparable(value: Column, ddl: str) -> Column:
    """A value in a form that can be compared: maps, which Spark compares with nothing, as their sorted entries.

    Those inside of others too.
    """
    if "map<" not in ddl:
        return value
    entry, item, fields = entry_of(ddl), item_of(ddl), fields_of(ddl)
    if entry is not None:
        # As Spark calls their fields.
        parts_of = struct_ddl({"key": entry[0], "value": entry[1]})
        return F.array_sort(comparable(F.map_entries(value), f"array<{parts_of}>"))
    if item is not None:
        return F.transform(value, lambda one: comparable(one, item))
    if fields is not None:
        parts = [comparable(value[name], inside).alias(name) for name, inside in fields.items()]
        return F.when(value.isNotNull(), F.struct(*parts))
    return value


def bucket_of(target: TableSchema) -> Column:
    """The bucket of a row, by its key alone."""
    key = [_Part(name, m.column(name), target.types[name]) for name in target.key]
    return F.pmod(_hash(key), F.lit(BUCKETS)).cast("int").alias(BUCKET)


def digests(sides: tuple[DataFrame, DataFrame], target: TableSchema) -> tuple[Digest, Digest]:
    """The digests of two tables of the same columns and `__cdc`, in one job that reads back a row a bucket and side."""
    parts = [_hashed(side, target, ours=True).withColumn(_SIDE, F.lit(at)) for at, side in enumerate(sides)]
    left, right = _added_up(parts)
    return left, right


def value_digest(rows: DataFrame, target: TableSchema, bucket: Column) -> Digest:
    """The digest of a table's values alone, by a bucket of the caller's own; one job, a row a bucket."""
    found = _hashed(rows, target, ours=False, bucket=bucket).groupBy(BUCKET).agg(*_sums()).collect()
    return Digest({row[BUCKET]: _of(row.asDict()) for row in found})


def turned_over(added: DataFrame, removed: DataFrame | None, target: TableSchema) -> tuple[Digest, Digest]:
    """The digests of rows that are put into a table and taken out of it, in one job; `__cdc` counts for nothing.

    Args:
        added: the rows that are put in.
        removed: those that are taken out; None for none.
        target: the columns, which both have.
    """
    sides = (added, removed) if removed is not None else (added,)
    return _added_up([_hashed(side, target, ours=False).withColumn(_SIDE, F.lit(at)) for at, side in enumerate(sides)])


def _added_up(parts: Sequence[DataFrame]) -> tuple[Digest, Digest]:
    every = reduce(lambda one, other: one.unionByName(other), parts)
    found = every.groupBy(_SIDE, BUCKET).agg(*_sums()).collect()
    first, second = ({row[BUCKET]: _of(row.asDict()) for row in found if row[_SIDE] == at} for at in (0, 1))
    return Digest(first), Digest(second)


def _hashed(rows: DataFrame, target: TableSchema, *, ours: bool, bucket: Column | None = None) -> DataFrame:
    """The bucket of each row and the halves of its hash; with our own column, or with the source's values alone."""
    kind = rows.schema[CDC].dataType if ours else None
    fields = kind.fields if isinstance(kind, StructType) else ()
    parts = [_Part(name, m.column(name), ddl) for name, ddl in target.types.items()]
    parts += [_Part(f"{CDC}.{one.name}", F.col(CDC)[one.name], one.dataType.simpleString()) for one in fields]
    at = bucket_of(target) if bucket is None else bucket.alias(BUCKET)
    hashed = rows.select(at, _hash(parts).alias("hash"))
    low, high = F.col("hash").bitwiseAND(F.lit(_HALF - 1)), F.shiftrightunsigned(F.col("hash"), 32)
    return hashed.select(BUCKET, low.alias(_LOW), high.alias(_HIGH))


def _sums() -> list[Column]:
    # A half has 32 bits, so the halves of more rows than any table has add up in 64.
    return [F.count(F.lit(1)).alias("rows"), F.sum(_LOW).alias("low"), F.sum(_HIGH).alias("high")]


def _of(row: Mapping[str, int]) -> Sums:
    return Sums(row["rows"], row["low"] % _HALF, row["high"] % _HALF)


@dataclass(frozen=True)
class _Part:
    """One value of a row: what it is called, the value, and its type."""

    name: str
    value: Column
    ddl: str


def _hash(parts: Sequence[_Part]) -> Column:
    """The hash of some values, in whatever order; NULL counts for nothing."""
    hashes = [
        F.when(part.value.isNotNull(), F.xxhash64(F.lit(part.name), _canonical(part.value, part.ddl))).otherwise(0)
        for part in parts
    ]
    return F.xxhash64(reduce(lambda one, other: one.bitwiseXOR(other), hashes))


def _canonical(value: Column, ddl: str) -> Column:
    """A value in a form whose hash stays the same when its column is widened in place."""
    if ddl in _WHOLE:
        return value.cast("bigint")
    if ddl in _FRACTIONS:
        return value.cast("double")
    if ddl.startswith("decimal"):
        return value.cast("string")
    if ddl.startswith(_NESTED):
        return F.to_json(F.struct(comparable(value, ddl).alias("value")), _JSON)
    return value
