"""Which of a message's key and value are read at all, by its table's format."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes.options import Options
from cdc_materializer.decode.framing import OWN_JSON, PLAIN_JSON, UNKNOWN


def as_told(messages: DataFrame, options: Options) -> DataFrame:
    """The messages as the table's format tells them: without those keys and values that say nothing in it.

    Kafka keys, where they do not say which row is meant. Where a message without a value is a delete, the JSON text
    `null` is none: JsonConverter writes it for a record that has a schema and no value. A datum whose schema has a name
    may have the same bytes and be a row.
    """
    nothing = F.lit(None).cast("string")
    if options.format.rows_name_themselves:
        messages = messages.withColumn("key_writer", nothing)
    own = options.format.plain_type(F.col("value").cast("string"))
    if own is not None:
        chosen = F.col("value_writer")
        known = F.when(chosen == PLAIN_JSON, F.concat(F.lit(OWN_JSON), own))
        messages = messages.withColumn("value_writer", F.coalesce(known, chosen))
    if options.format.tombstones_delete:
        is_null = (F.col("value_writer") == UNKNOWN) & (F.trim(F.col("value").cast("string")) == "null")
        messages = messages.withColumn("value_writer", F.when(is_null, nothing).otherwise(F.col("value_writer")))
    return messages
