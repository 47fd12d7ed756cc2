"""What tells one event from another at its place: a hash of all that it says (changelog-semantics §2.3).

MongoDB's changes from Debezium 3.4 on have a wall clock, which can be set back, in place of the oplog's, and so no
place. They are in no order but that of their offsets; but what is sent again is the same to the millisecond, and known
by that (§0.2).
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.options import Options
from cdc_materializer.changes.positions import Source, numbers_count, position
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.schema.types import decimal_of

#: Types whose equal values are one and the same: a hash takes them as they are. Zeros of floats have two signs, and
#: of a map or a variant there is no hash.
_PLAIN = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date", "timestamp", "timestamp_ntz"}
)
#: Of the microseconds since 1970, and of a count of 32 bits.
_MICROS_DIGITS, _COUNT_DIGITS = 17, 10


def stamp(source: Source, time: Column, streaming: Column) -> Column:
    """m.STAMP of a change: the time, and what counts the changes of a second of the oplog.

    What comes again has the same one, so that one which is above all that were read is new.

    Args:
        source: where the change is from.
        time: as m.SOURCE_TIME.
        streaming: as m.STREAMING.
    """
    if "event" not in source.fields:
        return F.lit(None).cast("string")
    parts = ((F.unix_micros(time), _MICROS_DIGITS), (source["ord"], _COUNT_DIGITS))
    told = [F.lpad(F.coalesce(part.cast("string"), F.lit("")), digits, "0") for part, digits in parts]
    # Rows of snapshots tell no clock, and so a place.
    is_told, is_unplaced = source["event"].isNotNull(), position(source).isNull()
    return F.when(is_told & ~streaming, m.NOT_LOGGED).when(is_told & is_unplaced, F.concat(*told))


def at_most(micros: int) -> str:
    """The highest stamp of changes that were made no later than this, in microseconds since 1970."""
    return f"{micros:0{_MICROS_DIGITS}}" + "9" * _COUNT_DIGITS


def is_stamped(stamp: Column) -> Column:
    """Whether m.STAMP is that of a change of the log."""
    return F.coalesce(stamp != m.NOT_LOGGED, F.lit(False))


def signature(op: Column, target: TableSchema, source: Source, stamped: Column, options: Options) -> Column:
    """m.SIGNATURE: operation and image, the number in the transaction, and what the row was (`Options.exact`).

    Changes of one transaction can share a place: all of a compressed one in a binlog, and Oracle's of one SCN (§2.1).

    Args:
        op: the operation.
        target: the columns of the image (`image.image`).
        source: where the change is from.
        stamped: m.STAMP.
        options: of the table.
    """
    value, asks = F.col("value"), options.transactions or options.exact
    count = value["transaction"]["total_order"] if asks else F.lit(None).cast("bigint")
    numbers = [F.when(numbers_count(source), count)] if asks else []
    found = F.xxhash64(op, *_parts(F.col("image"), target), value["patch"], value["was"], *numbers)
    if "event" not in source.fields:
        return found
    return F.when(is_stamped(stamped), _of_stamped(source, op, count)).otherwise(found)


def _of_stamped(source: Source, op: Column, count: Column) -> Column:
    """The same of a change that tells no place.

    A transaction may change a document back and forth at one moment. Where nothing counts its changes, each is one of
    its own, and what is sent again is taken for new: the document is shown as it was in the midst of the transaction
    until the end of what is sent again (`stamped.with_again`), and nothing is lost.
    """
    is_uncounted = source["txnNumber"].isNotNull() & count.isNull()
    return F.xxhash64(op, source["event"], count, F.when(is_uncounted, F.struct(m.PARTITION, m.OFFSET)))


def image_hash(image: Column, target: TableSchema) -> Column:
    """A hash of an image alone."""
    return F.xxhash64(*_parts(image, target))


def _parts(image: Column, target: TableSchema) -> list[Column]:
    """What a hash takes of an image, from which it could be made again.

    Spark's hash passes over NULLs and says nothing of an array's length, so that both are told beside. As one JSON text
    for all columns this was a tenth of what decoding costs.
    """
    parts, texts = [image["present"]], []
    for column in target.columns:
        value = image["row"][column.name]
        if column.type in _PLAIN or decimal_of(column.type) is not None:
            parts += [value.isNull(), value]
        else:
            texts.append(value.alias(column.name))
    for name in ("absent", "unavailable", "problems"):
        parts += [F.size(image[name]), image[name]]
    return [*parts, *([F.to_json(F.struct(*texts), m.EXACT_TIMES)] if texts else [])]
