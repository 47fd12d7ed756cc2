"""The schemas that the messages of one row were written with, as reports call them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.batch.earlier import lying_at
from cdc_materializer.decode.framing import BLOCK, schema_block
from cdc_materializer.decode.told_schema import ToldSchema, of_block, of_selector
from cdc_materializer.explain.held import frame_of
from cdc_materializer.explain.log import Log
from cdc_materializer.report.row_story import Told


def with_schemas(log: Log, told: Sequence[Told]) -> list[Told]:
    """Messages with the schemas of their values; a tombstone has none, whatever its key was written with.

    From raw itself: of those that are held for their schema, what is folded tells none.
    """
    if not told:
        return []
    spark, raw = log.line.lake.spark, log.line.lake.rows(log.raw)
    places = frame_of(spark, {(one.place.partition, one.place.offset) for one in told}).localCheckpoint()
    writer = batch.writer(raw, "value", log.line.id_bytes)
    # A text that each message brings along is most of it; messages of one writer have the same.
    block = F.when(writer.startswith(BLOCK), schema_block(F.col("value")))
    found = lying_at(raw, places).select("partition", "offset", writer.alias("writer"), block.alias("block"))
    at = F.collect_list(F.struct("partition", "offset")).alias("at")
    rows = found.groupBy("writer").agg(F.first("block").alias("block"), at).collect()
    schemas = {
        (place["partition"], place["offset"]): of_block(row["block"]) if row["block"] else of_selector(row["writer"])
        for row in rows
        for place in row["at"]
    }
    return [_with_schema(one, schemas.get((one.place.partition, one.place.offset), ToldSchema())) for one in told]


def _with_schema(told: Told, schema: ToldSchema) -> Told:
    return replace(told, place=told.place.model_copy(update={"schema_id": schema.number}), schema=schema.name)
