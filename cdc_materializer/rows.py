"""Frames as the tables store them (design §4.4): messages, final rows, violations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_materializer import fold, verdict
from cdc_materializer.changes import model as m
from cdc_materializer.decode.framing import schema_id
from cdc_materializer.merge import CDC, CDC_STRUCT
from cdc_materializer.schema import TableSchema


def raw_rows(messages: DataFrame, batch: str, bases: Mapping[int, int]) -> DataFrame:
    """Messages of a source, bytes as they came, as rows of the raw table.

    Args:
        messages: as `Source.read` gives them.
        batch: the batch's id.
        bases: what raw's offsets are more than the topic's own, by partition; see `Marker`.
    """
    offset = F.col("offset")
    for partition, base in bases.items():
        offset = F.when(F.col("partition") == partition, F.col("offset") + base).otherwise(offset)
    return messages.select(
        "topic",
        "partition",
        offset.alias("offset"),
        "timestamp",
        F.col("timestampType").alias("timestamp_type"),
        "key",
        "value",
        "headers",
        schema_id(F.col("key")).alias("key_schema_id"),
        schema_id(F.col("value")).alias("value_schema_id"),
        F.lit(batch).alias("batch_id"),
    )


def final_rows(decided: DataFrame, target: TableSchema) -> DataFrame:
    """The rows that the mirror is to hold for the batch's keys."""
    cdc = F.struct(
        F.col(m.OP).alias("op"),
        F.col(m.SOURCE_TIME).alias("source_ts"),
        F.col(m.POSITION).alias("position"),
        F.col(m.EPOCH).alias("epoch"),
        F.col(m.TOPIC).alias("topic"),
        F.col(m.PARTITION).alias("partition"),
        F.col(m.OFFSET).alias("offset"),
    )
    rows = decided.where(F.col(verdict.PUBLISHED) & ~fold.is_delete())
    return rows.select(*[m.column(name) for name in target.types], cdc.cast(CDC_STRUCT).alias(CDC))


def published_keys(decided: DataFrame, target: TableSchema) -> DataFrame:
    """The keys whose rows the batch replaces or deletes, each once."""
    return decided.where(F.col(verdict.PUBLISHED)).select(*[m.column(name) for name in target.key])


def violation_rows(decided: DataFrame, batch: str, detected_at: datetime) -> DataFrame:
    """One row a message and code (and rule), without any value of the row."""
    # A key that is none: later messages of the row which has it do not say that this one is over.
    key = F.when(~F.col(m.NAMELESS), F.col(m.KEY)).alias(m.KEY)
    found = decided.where(F.size(verdict.VIOLATIONS) > 0).select(
        *[F.col(name) for name in (m.TOPIC, m.PARTITION, m.OFFSET, m.TIME)],
        key,
        F.explode(verdict.VIOLATIONS).alias("violation"),
    )
    return found.select(
        F.col(m.TOPIC).alias("topic"),
        F.col(m.PARTITION).alias("partition"),
        F.col(m.OFFSET).alias("offset"),
        F.col(m.TIME).alias("timestamp"),
        F.col(m.KEY).alias("key"),
        *[F.col(f"violation.{name}") for name in ("code", "rule", "severity", "action", "status", "column")],
        F.lit(detected_at).cast("timestamp").alias("detected_at"),
        F.lit(batch).alias("batch_id"),
    )
