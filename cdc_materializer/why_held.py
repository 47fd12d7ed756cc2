"""What quarantine has of the messages of one row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_materializer import rows
from cdc_materializer.earlier import at_places
from cdc_materializer.line import Line
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.row_models import RowViolation
from cdc_materializer.report.row_story import Told


def violations_of(line: Line, told: Sequence[Told]) -> list[tuple[MessagePlace, RowViolation]]:
    """All that quarantine has of some messages; the newest first.

    Args:
        line: the table's way.
        told: the messages.
    """
    lake, held = line.lake, line.lake.load(line.mirror.quarantine)
    if held is None or not told:
        return []
    places = _frame(lake.spark, ((one.place.partition, one.place.offset) for one in told))
    found = at_places(lake.rows(held), F.broadcast(places)).orderBy(F.desc("detected_at"), "code").collect()
    return [
        (
            MessagePlace(topic=row["topic"], partition=row["partition"], offset=row["offset"]),
            RowViolation(
                batch=row["batch_id"],
                detected_at=rows.instant(row["detected_at"]),
                **{name: row[name] for name in ("code", "rule", "column", "action", "status")},
            ),
        )
        for row in found
    ]


def _frame(spark: SparkSession, places: Iterable[tuple[int, int]]) -> DataFrame:
    """Places (partition, offset) as one literal, for which Spark needs no Python worker."""
    told = json.dumps([{"partition": partition, "offset": offset} for partition, offset in places])
    return spark.range(1).select(F.inline(F.from_json(F.lit(told), "array<struct<partition:int,offset:bigint>>")))
