"""Other types for a mirror's columns, which a replay gives them when what writers send has outgrown the ones they have.

Iceberg changes few types in place, and a schema is the table's, not a branch's. So the rebuilt values are written to a
column of the new type beside the one that readers see, empty in what they see, and take its place with the swap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer import merge
from cdc_materializer.batch import batch, verdict
from cdc_materializer.changes import model as m
from cdc_materializer.decode.fit import conformed, ddl_of, fit
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.errors import Code, SchemaRefused
from cdc_materializer.lake.columns import REBUILT_PREFIX, drop_left_over
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.offsets import Offsets, Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.schema.schema import TableSchema

#: What one message is known by; topics of a table are partitions of one numbering.
_PLACE = ("partition", "offset")


def find_retypes(line: Line, raw: LakeTable, mirror: LakeTable, held: LakeTable | None) -> dict[str, str]:
    """The types that columns of a mirror would have, were it made for all writers that raw knows.

    By the names that readers see, also of columns that are to be renamed.

    A message that could not be decoded is none of its writer's: anyone can put a schema's id before other bytes.

    Args:
        line: the mirror's way.
        raw: its raw table.
        mirror: as it is.
        held: its quarantine; None where there is none.

    Raises:
        SchemaRefused: the table is partitioned or sorted by such a column, or its key has one.
    """
    end = marker_of(mirror).offsets
    span = Span(line.table.topic, Offsets(dict.fromkeys(end, 0)), end)
    rows = line.lake.rows(raw)
    if held is not None:
        is_garbage = (F.col("code") == str(Code.UNDECODABLE)) & (F.col("status") != verdict.RELEASED)
        garbage = line.lake.rows(held).where(is_garbage).select(*_PLACE).distinct()
        rows = rows.join(garbage, list(_PLACE), "left_anti")
    messages = batch.messages(rows, span, line.id_bytes)
    names = {new: old for old, new in mirror.pending}
    outgrown = find_decoders(messages, line.lookup(mirror.schema)).outgrown
    found = {names.get(name, name): ddl for name, ddl in dict(outgrown).items()}
    table = line.lake.iceberg(mirror.name)
    laid_out = {field.sourceId() for part in (table.spec(), table.sortOrder()) for field in part.fields()}
    fixed = sorted(name for name in found if table.schema().findField(name).fieldId() in laid_out)
    if fixed:
        what = f"{mirror.name} is partitioned or sorted by {', '.join(fixed)}, whose type its source has changed."
        raise SchemaRefused(what, "Such a column keeps its type: mirror the topic under another `mirror` name.")
    return found


def make_room(lake: Lake, mirror: LakeTable, types: Mapping[str, str]) -> None:
    """Add the columns that rebuilt values are written to, empty, and drop those that another replay has left."""
    wanted = {REBUILT_PREFIX + name: ddl for name, ddl in types.items()}
    frame = lake.spark.table(merge.table_path(lake.catalog, mirror.name))
    missing = drop_left_over(lake.iceberg(mirror.name), wanted, frame)
    for name in missing:
        seen = name.removeprefix(REBUILT_PREFIX)
        column = mirror.schema.column(dict(mirror.pending).get(seen, seen))
        lake.add_column(mirror.name, replace(column, name=name, type=wanted[name]), behind=seen)


def as_rebuilt(rows: DataFrame, target: TableSchema) -> DataFrame:
    """Rows with the former types of a mirror's columns in those that it was rebuilt with, or NULL."""
    types = {field.name: ddl_of(field.dataType) for field in rows.schema}
    values = {
        column.name: fit(m.column(column.name), types[column.name], column.type, retyped=True)[0]
        if column.retyped
        else conformed(m.column(column.name), types[column.name], column.type)
        for column in target.columns
        if column.name in types
    }
    absent = {column.name: F.lit(None).cast(column.type) for column in target.columns if column.name not in types}
    found = values | absent
    return rows.select(*[found[name].alias(name) for name in target.types], merge.CDC)
