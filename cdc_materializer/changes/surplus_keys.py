"""Kafka keys in JSON without a schema that have more columns than rows are known by.

A schema says which columns a key has, and a table whose key becomes another stops (`schema.keys`). Here no schema says
it: the contract, or the mirror, tells which columns identify a row, and what else stands in a key would be passed
over. Rows that only such a column tells apart would be one, and the delete of one would end the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from cdc_materializer.changes.options import Options, Writers

#: Whether a message has such a key.
SURPLUS = "surplus_key"


def has_surplus(writers: Writers, options: Options) -> Column:
    """Whether a message's key has columns that identify no row (SURPLUS), from its `key` and `key_writer`.

    With `key:` somebody has said which columns identify a row, whatever else a key has.
    """
    plain = next((writer for writer in writers.keys if writer.is_plain), None)
    if plain is None or options.key:
        return F.lit(False).alias(SURPLUS)
    known = F.array(*[F.lit(name) for name, _ in plain.wire.fields])
    more = F.size(F.array_except(F.json_object_keys(F.col("key").cast("string")), known)) > 0
    return F.coalesce((F.col("key_writer") == plain.selector) & more, F.lit(False)).alias(SURPLUS)
