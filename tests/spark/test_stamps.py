"""Stamps of changes that tell no place: those above all that were read are new, and no past is looked up (ADR 20)."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F

from cdc_materializer.batch.facts import _stamps
from cdc_materializer.changes import model as m
from cdc_materializer.changes.positions import SAID_FIELDS, Source
from cdc_materializer.changes.signatures import at_most, stamp
from cdc_materializer.changes.source_fields import OF_DOCUMENTS
from cdc_materializer.order.epochs import Recorded, is_in_time_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_AT = datetime(2026, 1, 1, tzinfo=UTC)
#: Milliseconds behind _AT, the count in the oplog's second, and whether it is a change of the log, in order.
_SENT = [(0, 1, False), (5, 9, True), (5, 10, True), (5, 4_000_000_000, True), (6, 1, True), (1000, 2, True)]


def _stamped(spark: "SparkSession", sent: list[tuple[int, int, bool]]) -> list[str]:
    fields = {name: ddl for name, ddl in SAID_FIELDS.items() if name in {"connector", "event", "ord", *OF_DOCUMENTS}}
    rows = [(at, _AT + timedelta(milliseconds=ms), str(count), logged) for at, (ms, count, logged) in enumerate(sent)]
    frame = spark.createDataFrame(rows, "at int, time timestamp, ord string, logged boolean")
    known = {"connector": "mongodb", "event": "e", "version": "3.4.0.Final"}
    told = {name: F.lit(value) for name, value in known.items()}
    # A row of a snapshot tells no clock.
    told |= {"ord": F.col("ord"), "wallTime": F.when(F.col("logged"), F.unix_millis("time"))}
    struct = F.struct(*[told.get(name, F.lit(None).cast(ddl)).alias(name) for name, ddl in fields.items()])
    source = Source(struct, frozenset(fields))
    found = frame.select("at", stamp(source, F.col("time"), F.col("logged")).alias("stamp")).orderBy("at").collect()
    return [row["stamp"] for row in found]


def test_they_sort_by_time_and_count(spark: "SparkSession") -> None:
    """Whatever the number of digits; rows of a snapshot come ahead of all."""
    stamps = _stamped(spark, _SENT)

    assert stamps == sorted(stamps)
    assert len({len(one) for one in stamps[1:]}) == 1
    assert len(set(stamps)) == len(stamps)


@pytest.mark.parametrize(
    ("stamps", "doubtful"),
    [
        pytest.param({0: 2}, [1, 2], id="up to the last count of the millisecond"),
        pytest.param({0: 0}, [], id="of a snapshot alone"),
        pytest.param({}, [1, 2, 3, 4, 5], id="of a version that kept none"),
    ],
)
def test_what_is_above_all_that_was_read_is_new(
    spark: "SparkSession", stamps: dict[int, int], doubtful: list[int]
) -> None:
    """Also within the millisecond of the last change that was read."""
    found = _stamped(spark, _SENT)
    rows = [(at, 0, "u", one) for at, one in enumerate(found)]
    frame = spark.createDataFrame(rows, f"at int, {m.PARTITION} int, {m.OP} string, {m.STAMP} string")
    recorded = Recorded(offsets={0: 7}, stamps={partition: found[at] for partition, at in stamps.items()})

    assert [row["at"] for row in frame.where(is_in_time_read(recorded)).orderBy("at").collect()] == doubtful


def test_what_a_version_has_read_that_kept_none_is_known_by_its_times(spark: "SparkSession") -> None:
    """Also where another partition has told one since, and behind the first that comes again."""
    found = _stamped(spark, _SENT)
    rows = [(at, 1, "u", one) for at, one in enumerate(found)]
    frame = spark.createDataFrame(rows, f"at int, {m.PARTITION} int, {m.OP} string, {m.STAMP} string")
    frame = frame.withColumn(m.SOURCE_TIME, F.lit(None).cast("timestamp"))
    read = int((_AT + timedelta(milliseconds=5)).timestamp() * 1_000_000)
    recorded = Recorded(offsets={0: 7, 1: 7}, times={1: read}, stamps={0: found[1]}, partitions=2)

    assert [row["at"] for row in frame.where(is_in_time_read(recorded)).orderBy("at").collect()] == [1, 2, 3]
    assert _stamps([Row(**{m.PARTITION: 1, "stamp": found[1]})], recorded) == {1: at_most(read)}


def test_that_there_are_none_is_known_of_what_was_read_from_its_beginning() -> None:
    """Of a partition that an earlier version has read nobody knows."""
    recorded = Recorded(offsets={0: 7, 1: 7}, stamps={1: m.NOT_LOGGED})
    rows = [Row(**{m.PARTITION: partition, "stamp": m.NOT_LOGGED}) for partition in (0, 1, 2)]

    assert _stamps(rows, recorded) == {1: m.NOT_LOGGED, 2: m.NOT_LOGGED}
