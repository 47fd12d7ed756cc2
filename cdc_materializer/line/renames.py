"""A table whose columns registered schemas have renamed, from the batch on that has their first message in raw."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.line.aliases import Aliases, remember, selectors
from cdc_materializer.offsets import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.lake.lake import LakeTable
    from cdc_materializer.line.line import Line, Tables


def told_by_raw(line: Line, raw: LakeTable, tables: Tables) -> tuple[Line, LakeTable, Tables]:
    """The line, raw and its other tables with the names that raw's schemas give columns, which raw remembers.

    Args:
        line: the table's way.
        raw: with all that has landed.
        tables: as they were loaded before that.

    Raises:
        SchemaRefused: nothing says what a column is called at last, or the mirror has it twice.
    """
    if not line.follows_aliases:
        return line, raw, tables
    found = line.gathered(raw)
    remember(line.lake, raw, found)
    if found.pairs == line.aliases:
        return line, raw, tables
    # What was gathered before the landing went with the other line.
    renamed = replace(line)
    return renamed, raw, replace(tables, mirror=renamed.load_mirror())


def told_by(line: Line, messages: DataFrame) -> Line:
    """The line with the renames that the schemas of messages tell which raw has not got, from `batch.messages`."""
    if not line.follows_aliases:
        return line
    found = Aliases(Offsets()).with_writers(selectors(messages), line.schemas, line.format)
    return line if found.pairs <= line.aliases else replace(line, told=found.pairs)
