"""Where in a mirror the keys of a batch lie, for files to be left out (design §7)."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.lake import LakeTable
from cdc_materializer.lake_stage import Stage
from cdc_materializer.merge import KeyRanges, delete_keys
from cdc_materializer.names import quote
from cdc_materializer.schema import TableSchema

#: Up to so many keys are named, of more the ranges that have the widest gaps between them.
VALUES_MAX = 200
RANGES_MAX = 16
#: In a mirror of fewer rows its keys are read faster than the ranges are found. CPU-seconds for 5,000 recent keys, with
#: ranges and without: 1.2 and 0.8 of four million rows, 0.7 and 1.2 of sixteen million.
ROWS_MIN = 10_000_000
_VIEW = "__cdc_published"
#: Texts are left out: plans are shown, and a text may be a person's.
_NUMBER = re.compile(r"(tinyint|smallint|int|bigint|decimal\(.*)")


def delete_rows(stage: Stage, mirror: LakeTable, keys: DataFrame, schema: TableSchema, count: int) -> None:
    """Delete what a mirror has of some keys, without reading the files that can have none of them.

    Args:
        stage: where to delete.
        mirror: as the batch found it.
        keys: the key columns of a batch, cached as a rule, none of them NULL.
        schema: of the mirror.
        count: how many keys there are; no more rows may go.
    """
    stage.name(_VIEW, keys)
    near = find_ranges(keys, count, schema) if mirror.records >= ROWS_MIN else None
    statement = delete_keys(stage.lake.catalog, mirror.name, stage.branch, _VIEW, schema, near)
    stage.execute(statement, near.arguments if near is not None else None, rows_max=count)


def find_ranges(keys: DataFrame, count: int, schema: TableSchema) -> KeyRanges | None:
    """Where keys lie: two small jobs at most over what is cached, at most `VALUES_MAX` values to the driver.

    Args:
        keys: the key columns of a batch, none of them NULL.
        count: how many there are, about.
        schema: of the mirror.

    Returns:
        None where no column of the key is a number.
    """
    name = next((name for name in schema.key if _NUMBER.fullmatch(schema.types[name])), None)
    if name is None:
        return None
    parts = keys.select(F.col(quote(name)).alias("part"))
    if count <= VALUES_MAX:
        values = [row["part"] for row in parts.distinct().limit(VALUES_MAX + 1).collect()]
        if len(values) <= VALUES_MAX:
            return KeyRanges(name, values=tuple(sorted(values))) if values else None
    # As floating point, which only ranks the gaps: a difference of whole numbers can leave their type.
    size = F.col("part").cast("double")
    in_order = Window.orderBy("part")
    ends = parts.withColumns({"before": F.lag("part").over(in_order), "gap": size - F.lag(size).over(in_order)})
    found = ends.orderBy(F.col("gap").desc_nulls_first()).limit(RANGES_MAX).collect()
    lows = sorted(row["part"] for row in found)
    highs = sorted(row["before"] for row in found if row["before"] is not None)
    return KeyRanges(name, ranges=tuple(zip(lows, [*highs, None], strict=True))) if lows else None
