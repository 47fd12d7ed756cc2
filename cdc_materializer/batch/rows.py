"""Frames as the tables store them (design §4.4): messages, final rows, violations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc_materializer.batch import life, verdict
from cdc_materializer.built_once import built_once
from cdc_materializer.changes import model as m
from cdc_materializer.decode.framing import Side, named_in_headers, schema_id
from cdc_materializer.fold import fold
from cdc_materializer.fold.base import source_table_of
from cdc_materializer.merge import CDC, DELETED, PLACE, SOURCE_TABLE, cdc_struct, history_schema
from cdc_materializer.order import key_order
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.source import Message


def raw_rows(messages: DataFrame, batch: str, bases: Mapping[int, int], id_bytes: int) -> DataFrame:
    """Messages of a source, bytes as they came, as rows of the raw table.

    Args:
        messages: as `Source.read` gives them.
        batch: the batch's id.
        bases: what raw's offsets are more than the topic's own, by partition; see `Marker`.
        id_bytes: how many bytes a schema's id has.
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
        _schema_id("key", id_bytes).alias("key_schema_id"),
        _schema_id("value", id_bytes).alias("value_schema_id"),
        F.lit(batch).alias("batch_id"),
        _schema_name("key").alias("key_schema_name"),
        _schema_name("value").alias("value_schema_name"),
    )


@built_once
def _schema_name(side: Side) -> Column:
    return named_in_headers(F.col("headers"), side)


@built_once
def _schema_id(side: Side, id_bytes: int) -> Column:
    return schema_id(F.col(side), _schema_name(side), id_bytes)


def first_messages(raw: DataFrame, count: int) -> tuple[Message, ...]:
    """At most so many messages of the beginning of each partition that a raw table has."""
    first = raw.groupBy("partition").agg(F.min("offset").alias("offset")).collect()
    early = F.lit(False)
    for row in first:
        is_near = F.col("offset").between(row["offset"], row["offset"] + count - 1)
        early = early | ((F.col("partition") == row["partition"]) & is_near)
    found = raw.where(early).select("partition", "offset", "key", "value").orderBy("offset", "partition").collect()
    kept = [(bytes(part) if part is not None else None for part in (row["key"], row["value"])) for row in found]
    return tuple(Message(row["partition"], row["offset"], *both) for row, both in zip(found, kept, strict=True))


def is_written(*, soft: bool) -> Column:
    """Whether a state is a row that the mirror is to hold."""
    return F.col(life.WRITTEN) & ~life.is_mark() if soft else F.col(verdict.PUBLISHED) & ~fold.is_delete()


def final_rows(decided: DataFrame, target: TableSchema, *, soft: bool, routed: bool) -> DataFrame:
    """The rows that the mirror is to hold for the batch's keys; deleted ones too, where it keeps those."""
    known = decided.where(is_written(soft=soft))
    if not soft:
        return known.select(*[m.column(name) for name in target.types], _cdc(soft=False, routed=routed))
    return known.select(*[life.last_values(name).alias(name) for name in target.types], _cdc(soft=True, routed=routed))


def _cdc(*, soft: bool, routed: bool) -> Column:
    """What a row says of the message that made it what it is."""
    parts = _origin() | ({DELETED: fold.is_delete()} if soft else {})
    parts |= {SOURCE_TABLE: F.col(m.SOURCE_TABLE)} if routed else {}
    struct = F.struct(*[part.alias(name) for name, part in parts.items()])
    return struct.cast(cdc_struct(soft=soft, routed=routed)).alias(CDC)


def _origin() -> dict[str, Column]:
    """The message and the event of the source that a row comes from."""
    op = F.col(m.OP)
    return {
        "op": F.when(op == m.WIPE, m.TRUNCATE).when(op.isin(m.TOMBSTONE, m.SWEEP), "d").otherwise(op),
        "source_ts": F.col(m.SOURCE_TIME),
        "position": F.col(m.POSITION),
        "epoch": F.col(m.EPOCH),
        "topic": F.col(m.TOPIC),
        "partition": F.col(m.PARTITION),
        "offset": F.col(m.OFFSET),
    }


def with_source_tables(mirror: DataFrame, first: str | None) -> DataFrame:
    """Rows of a mirror of several source tables, each naming its own, those that name none the first one."""
    cdc = mirror.schema[CDC].dataType
    known = cdc.names if isinstance(cdc, StructType) else []
    fields = {name: F.col(CDC)[name] for name in known} | {SOURCE_TABLE: source_table_of(mirror, first)}
    return mirror.withColumn(CDC, F.struct(*[field.alias(name) for name, field in fields.items()]))


def published_keys(decided: DataFrame, target: TableSchema, *, soft: bool) -> DataFrame:
    """The keys whose rows the batch replaces or deletes, each once."""
    return decided.where(is_written(soft=True) if soft else F.col(verdict.PUBLISHED)).select(
        *[m.column(name) for name in target.key]
    )


def marked_keys(decided: DataFrame, target: TableSchema, *, routed: bool) -> DataFrame:
    """The keys whose rows the batch deletes without knowing their values, with the deletes' `__cdc`."""
    return ended_keys(decided.where(life.is_mark()), target, routed=routed)


def ended_keys(deletes: DataFrame, target: TableSchema, *, routed: bool) -> DataFrame:
    """The keys of deletes, with their `__cdc`."""
    return deletes.select(*[m.column(name) for name in target.key], _cdc(soft=True, routed=routed))


def change_rows(applied: DataFrame, target: TableSchema) -> DataFrame:
    """Applied changes as rows of the history; without deletes of rows that nobody saw."""
    row = F.struct(*[m.column(name).alias(name) for name in target.types])
    before = F.when(F.col(life.BEFORE)["live"], F.col(life.BEFORE)["row"])
    did = applied.where(~fold.is_delete() | before.isNotNull())
    place = key_order.place(F.col(life.BEFORE)["position"])
    return did.select(*_history_columns(target, before, F.when(~fold.is_delete(), row), place))


def truncate_rows(decided: DataFrame, target: TableSchema) -> DataFrame:
    """The batch's truncates as rows of the history."""
    found = decided.where(F.col(fold.CURRENT) & (F.col(m.OP) == m.TRUNCATE))
    nothing = F.lit(None)
    return found.select(*_history_columns(target, nothing, nothing, key_order.place(nothing)))


def _history_columns(target: TableSchema, before: Column, after: Column, place: Column) -> list[Column]:
    parts = {
        **_origin(),
        "before": before,
        "after": after,
        "timestamp": F.col(m.TIME),
        "transaction": F.col(m.TRANSACTION),
        SOURCE_TABLE: F.col(m.SOURCE_TABLE),
        PLACE: place,
    }
    return [parts[name].cast(ddl).alias(name) for name, ddl in history_schema(target).types.items()]


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


def instant(at: datetime | None) -> datetime | None:
    """A timestamp as Spark gives it to Python, without a zone and in the machine's own; in UTC."""
    return at.astimezone(UTC) if at is not None else None
