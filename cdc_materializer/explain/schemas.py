"""The schemas that the messages of one row were written with, as these name them themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cdc_materializer.batch import batch
from cdc_materializer.batch.earlier import lying_at
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.explain.held import frame_of
from cdc_materializer.explain.log import Log
from cdc_materializer.report.row_story import Told

_WRITER = "writer"


def with_schemas(log: Log, told: Sequence[Told]) -> list[Told]:
    """Messages with the schemas of their values; a tombstone has none, whatever its key was written with.

    From raw itself: of those that are held for their schema, what is folded tells none.
    """
    if not told:
        return []
    spark, raw = log.line.lake.spark, log.line.lake.rows(log.raw)
    places = frame_of(spark, {(one.place.partition, one.place.offset) for one in told}).localCheckpoint()
    found = lying_at(raw, places)
    writer = batch.writer(raw, "value", log.line.id_bytes).alias(_WRITER)
    rows = found.select("partition", "offset", writer).collect()
    schemas = {(row["partition"], row["offset"]): SchemaName.parse(row[_WRITER] or "") for row in rows}
    return [_with_schema(one, schemas.get((one.place.partition, one.place.offset))) for one in told]


def _with_schema(told: Told, name: SchemaName | None) -> Told:
    if name is None or not name.is_lookup:
        return told
    return replace(told, place=told.place.model_copy(update={"schema_id": name.number}), schema=name.shown)
