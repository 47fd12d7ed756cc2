"""A line's tables as they were at an earlier snapshot."""

from __future__ import annotations

from dataclasses import replace

from cdc_materializer.lake.columns import columns_of
from cdc_materializer.lake.commit import has_rows, marker_at
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.line.line import Line
from cdc_materializer.merge import table_path


def at_snapshot(line: Line, now: LakeTable, snapshot: int) -> LakeTable:
    """A table as it was at one of its snapshots, under the names that its columns have now, or are about to get."""
    table = line.lake.iceberg(now.name)
    then = table.snapshot(snapshot)
    frame = line.lake.spark.table(table_path(line.lake.catalog, now.name))
    schema, stored = columns_of(table, then, frame, {})
    marker = marker_at(table, then)
    if marker is not None and (stored.has_renamed or now.pending):
        marker = replace(marker, ledger=None)
    is_empty = not has_rows(table, then)
    found = replace(now, head=snapshot, marker=marker, schema=schema, stored=stored, pending=(), is_empty=is_empty)
    return found.renaming(now.pending)
