"""What tells one event from another at its place: a hash of all that it says (changelog-semantics §2.3)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.schema.types import decimal_of

#: Types whose equal values are one and the same: a hash takes them as they are. Zeros of floats have two signs, and
#: of a map or a variant there is no hash.
_PLAIN = frozenset(
    {"boolean", "tinyint", "smallint", "int", "bigint", "string", "binary", "date", "timestamp", "timestamp_ntz"}
)


def signature(op: Column, image: Column, target: TableSchema, *others: Column) -> Column:
    """m.SIGNATURE: of an operation, its image (`image.image`), and what else tells it from others."""
    return F.xxhash64(op, *_parts(image, target), *others)


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
