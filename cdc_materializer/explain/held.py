"""What quarantine has of the messages of one row."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_materializer.batch import rows
from cdc_materializer.batch.earlier import at_places, lying_at
from cdc_materializer.changes import model as m
from cdc_materializer.explain.log import Log
from cdc_materializer.line.quarantine import is_warning
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.row_models import RowViolation
from cdc_materializer.report.row_story import Told


def violations_of(log: Log, told: Sequence[Told], key: str | None) -> list[tuple[MessagePlace, RowViolation]]:
    """The quarantine rows of some messages, as far as they are about a row; the newest first.

    A message may be changes of several rows, of which another one is held.

    Args:
        log: the messages of the table.
        told: those of the row.
        key: the row's key; None takes all.
    """
    lake, held = log.line.lake, log.line.lake.load(log.line.mirror.quarantine)
    if held is None or not told:
        return []
    places = frame_of(lake.spark, ((one.place.partition, one.place.offset) for one in told))
    found = (
        at_places(lake.rows(held).where(~is_warning()), F.broadcast(places))
        .orderBy(F.desc("detected_at"), "code")
        .collect()
    )
    at = [(row["partition"], row["offset"]) for row in found]
    others = sorted({place for place, row in zip(at, found, strict=True) if row["key"] != key})
    last = _last_parts(log, others) if key is not None and others else {}
    # A message that moves one row to another key is two changes, and what is held of it whole has no key.
    return [
        (
            MessagePlace(topic=row["topic"], partition=row["partition"], offset=row["offset"]),
            RowViolation(
                batch=row["batch_id"],
                detected_at=rows.instant(row["detected_at"]),
                **{name: row[name] for name in ("code", "rule", "column", "action", "status")},
            ),
        )
        for place, row in zip(at, found, strict=True)
        if row["key"] == key or last.get(place, 0) < (1 if row["key"] is not None else 2)
    ]


def _last_parts(log: Log, places: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The number of the last change of each message (m.PART): 0 where it is one change, 1 where it moves one row."""
    named = frame_of(log.line.lake.spark, places).localCheckpoint()
    changes = log.changes(lying_at(log.messages, named)).groupBy(m.PARTITION, m.OFFSET).agg(F.max(m.PART).alias("last"))
    return {(row[m.PARTITION], row[m.OFFSET]): row["last"] for row in changes.collect()}


def frame_of(spark: SparkSession, places: Iterable[tuple[int, int]]) -> DataFrame:
    """Places (partition, offset) as one literal, for which Spark needs no Python worker."""
    told = json.dumps([{"partition": partition, "offset": offset} for partition, offset in places])
    return spark.range(1).select(F.inline(F.from_json(F.lit(told), "array<struct<partition:int,offset:bigint>>")))
