"""How much of raw a batch reads that looks into its past: keys of all messages, and values of few."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.batch import batch, earlier
from cdc_materializer.batch.earlier import NAMED_MAX, lying_at
from cdc_materializer.batch.past import Past
from cdc_materializer.changes import model as m
from cdc_materializer.config import Config, TableConfig
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.line import Line, marker_of, reload
from cdc_materializer.order.epochs import Recorded
from cdc_materializer.pipeline import advance
from cdc_materializer.source import RecordedSource
from cdc_materializer.testing import (
    MemoryRegistry,
    TopicBuilder,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    debezium_envelope,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

TOPIC = "shop.public.things"
KEY = avro_key_schema(TOPIC, {"id": "long"})
VALUE = avro_envelope_schema(TOPIC, {"id": "long", "name": ["null", "string"]})
_PLACE = (m.KEY, m.PARTITION, m.OFFSET)


@pytest.fixture
def topic() -> TopicBuilder:
    """Four changes of two keys, and a tombstone."""
    built = TopicBuilder(TOPIC)
    for at in range(4):
        _send(built, at % 2, f"n{at}", 100 + at)
    built.add(confluent_avro(1, KEY, {"id": 1}), None)
    return built


def _send(topic: TopicBuilder, key: int, name: str, lsn: int) -> None:
    value = debezium_envelope("u", None, {"id": key, "name": name}, lsn=lsn)
    topic.add(confluent_avro(1, KEY, {"id": key}), confluent_avro(2, VALUE, value))


def _truncate(topic: TopicBuilder, lsn: int) -> None:
    topic.add(None, confluent_avro(2, VALUE, debezium_envelope("t", None, None, lsn=lsn)))


@pytest.fixture
def line(spark: "SparkSession", lake_config: Config, namespace: str, tmp_path: Path) -> Line:
    """The way of one table, of which nothing was read."""
    table = TableConfig.model_validate({"topic": TOPIC, "mirror": f"{namespace}.things"})
    registry = MemoryRegistry({1: KEY, 2: VALUE})
    return Line(
        "earlier", table, RecordedSource(tmp_path), registry, None, Lake(spark.newSession(), lake_config.catalog.name)
    )


def _run(line: Line, topic: TopicBuilder, folder: Path) -> int | None:
    """One batch; how many truncates the mirror's marker counts after it."""
    topic.write(folder)
    assert advance(line, line.source.state(TOPIC)) is not None
    mirror = line.load_mirror()
    assert mirror is not None
    return marker_of(mirror).truncates


def _log(line: Line, **recorded: Any) -> earlier._Log:  # noqa: ANN401 - fields of Recorded
    mirror = line.load_mirror()
    assert mirror is not None
    messages = batch.messages(line.lake.rows(reload(line, line.mirror.raw)), None, line.id_bytes)
    return earlier._Log(Past(line.lookup(mirror.schema), recorded=Recorded(**recorded)), messages, mirror.schema)


def _read_columns(found: "DataFrame") -> set[str]:
    """The columns that the plan reads of tables."""
    plan = found._jdf.queryExecution().optimizedPlan().collectLeaves()
    leaves = [plan.apply(at) for at in range(plan.size())]
    return {leaf.output().apply(at).name() for leaf in leaves for at in range(leaf.output().size())}


def test_keys_are_found_without_reading_values(line: Line, topic: TopicBuilder, tmp_path: Path) -> None:
    """They are those of the whole messages."""
    _run(line, topic, tmp_path)
    log = _log(line)
    keys = log.keys.select(*_PLACE)

    assert sorted(keys.collect()) == sorted(log.changes.select(*_PLACE).collect())
    assert "value" not in _read_columns(keys)
    assert "value" in _read_columns(log.changes.select(m.OP))


def test_where_rows_name_themselves_their_values_are_read(line: Line, topic: TopicBuilder, tmp_path: Path) -> None:
    """A key that is configured is in them."""
    configured = line.table.model_copy(update={"key": ("id",)})
    _run(line, topic, tmp_path)
    known = Line("earlier", configured, line.source, line.registry, None, line.lake)
    log = _log(known)
    keys = log.keys.select(*_PLACE)

    assert "value" in _read_columns(keys)
    assert sorted(keys.collect()) == sorted(log.changes.select(*_PLACE).collect())


def test_raw_is_read_for_truncates_where_there_may_have_been_some(
    line: Line, topic: TopicBuilder, tmp_path: Path
) -> None:
    """The mirror's marker counts them from its first batch on; where it does not, they may be anywhere."""
    assert _run(line, topic, tmp_path) == 0
    assert _log(line, truncates=0).truncates() == ()
    _truncate(topic, 200)
    _send(topic, 0, "again", 201)
    assert _run(line, topic, tmp_path) == 1
    _send(topic, 1, "again", 202)
    assert _run(line, topic, tmp_path) == 1

    for told in (1, None):
        assert [found.offset for found in _log(line, truncates=told).truncates()] == [5]


def test_files_that_have_none_of_the_messages_are_not_opened(spark: "SparkSession", namespace: str) -> None:
    """Two files, of which one is gone: what lies in the other is read, whichever partition it is of."""
    table = f"lake.{namespace}.messages"
    spark.sql(f"CREATE TABLE {table} (partition int, offset bigint, value string) USING iceberg")
    kept = "(0, 0, 'a'), (0, 1, 'b'), (0, 4, 'c'), (1, 0, 'd'), (1, 7, 'e')"
    for rows in (kept, "(0, 5, 'f'), (0, 6, 'g'), (1, 8, 'h')"):
        spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES {rows}")
    files = spark.table(f"{table}.files").where("readable_metrics.offset.lower_bound = 5").collect()
    for file in files:
        Path(file["file_path"].removeprefix("file:")).unlink()
    places = spark.sql("SELECT * FROM VALUES (0, 1L), (0, 4L), (1, 0L), (1, 4L) AS places(partition, offset)")

    found = lying_at(spark.table(table), places.localCheckpoint()).select("value").collect()

    assert len(files) == 1
    assert sorted(row["value"] for row in found) == ["b", "c", "d"]


@pytest.mark.parametrize("count", [0, 1, NAMED_MAX, NAMED_MAX + 1])
def test_any_number_of_places_is_found(spark: "SparkSession", count: int) -> None:
    """Named or joined, the same messages: those at the places and no other, and messages are not shuffled for it."""
    messages = spark.range(3 * NAMED_MAX).selectExpr("cast(id % 2 AS int) AS partition", "id AS offset")
    places = spark.range(count).selectExpr("cast(id % 2 AS int) AS partition", "id AS offset").localCheckpoint()
    found = lying_at(messages, places)

    assert sorted(row["offset"] for row in found.collect()) == list(range(count))
    assert "Exchange hashpartitioning" not in found._jdf.queryExecution().toString()
