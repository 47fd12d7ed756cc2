"""How rows reach a mirror: which way, and where in it the keys of a batch lie, for files to be left out (design §7)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.stage import Stage
from cdc_materializer.merge import KeyRanges, delete_keys
from cdc_materializer.names import quote
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.session.few import compiled_for

#: Up to so many keys are named, of more the ranges that have the widest gaps between them.
VALUES_MAX = 200
RANGES_MAX = 16
#: Each row that is read is held against all ranges, and a gap that is a smaller share of what they span leaves out as
#: little. CPU-seconds to delete 40,000 of sixteen million rows, keys anywhere, in the middle of several turns: 5.2 with
#: 16 ranges, 2.8 with one, 2.4 with none.
GAP_SHARE_MIN = 0.01
#: In a mirror of fewer rows its keys are read faster than the ranges are found. CPU-seconds for 5,000 recent keys, with
#: ranges and without: 1.2 and 0.8 of four million rows, 0.7 and 1.2 of sixteen million.
ROWS_MIN = 10_000_000
_VIEW = "__cdc_published"
_NUMBER = re.compile(r"(tinyint|smallint|int|bigint|decimal\(.*)")


@dataclass(frozen=True)
class ApplyPlan:
    """The cheapest way that is right, from what is known before a batch runs.

    Attributes:
        way: with nothing to delete, rows are appended; else those with the batch's keys are deleted first, by marks
            beside their files, or by writing these anew where the mirror's readers or properties want that.
        pruned_by: the column of the key by whose values files are left out; None where all keys are read.
    """

    way: Literal["append", "merge_on_read", "copy_on_write"]
    pruned_by: str | None = None


def plan_apply(mirror: LakeTable | None, schema: TableSchema) -> ApplyPlan:
    """Choose how rows reach a mirror.

    Args:
        mirror: as it is before; None where it is yet to be made.
        schema: the columns that it has then.
    """
    if mirror is None or mirror.is_empty:
        return ApplyPlan("append")
    # Of several, the first: texts are left out, as plans are shown, and a text may be a person's.
    number = next((name for name in schema.key if _NUMBER.fullmatch(schema.types[name])), None)
    pruned_by = number if mirror.records >= ROWS_MIN else None
    return ApplyPlan("copy_on_write" if mirror.rewritten else "merge_on_read", pruned_by)


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
    pruned_by = plan_apply(mirror, schema).pruned_by
    near = find_ranges(keys, count, pruned_by) if pruned_by is not None else None
    statement = delete_keys(stage.lake.catalog, mirror.name, stage.branch, _VIEW, schema, near)
    with compiled_for(stage.lake.spark, mirror.records):
        stage.execute(statement, near.arguments if near is not None else None, rows_max=count)


def find_ranges(keys: DataFrame, count: int, name: str) -> KeyRanges | None:
    """Where keys lie: two small jobs at most over what is cached, at most `VALUES_MAX` values to the driver.

    Args:
        keys: the key columns of a batch, none of them NULL.
        count: how many there are, about.
        name: that of them to go by, a number.

    Returns:
        None where there are none.
    """
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
    sizes = [float(row["part"]) for row in found]
    widest = max(sizes, default=0.0) - min(sizes, default=0.0)
    found = [row for row in found if row["gap"] is None or row["gap"] >= widest * GAP_SHARE_MIN]
    lows = sorted(row["part"] for row in found)
    highs = sorted(row["before"] for row in found if row["before"] is not None)
    return KeyRanges(name, ranges=tuple(zip(lows, [*highs, None], strict=True))) if lows else None
