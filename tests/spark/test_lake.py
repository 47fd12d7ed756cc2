"""The Iceberg tables: one writer wins, markers are found again, and no name of a source can do harm."""

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import CommitConflict, LakeUnavailable
from cdc_materializer.lake import Lake, LakeTable
from cdc_materializer.line import marker_of
from cdc_materializer.marker import Marker
from cdc_materializer.names import TableName, quote
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.models import RunReport
from cdc_materializer.run import run_once
from cdc_materializer.schema import Column, TableSchema
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from cdc_materializer.verify import verify_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = TableSchema((Column("id", "bigint"), Column("name", "string")))
_numbers = itertools.count()


def marker(batch: str, offset: int) -> Marker:
    """A marker that says how far a table was filled."""
    return Marker(
        pipeline="tests",
        batch=batch,
        topic="t",
        topic_id=None,
        offsets=Offsets({0: offset}),
        positions={},
        source_snapshot=None,
        contract=None,
        counts={},
    )


@pytest.fixture
def lake(spark: "SparkSession") -> Lake:
    """The catalog of the test run."""
    return Lake(spark, "lake")


@pytest.fixture
def table(lake: Lake, namespace: str) -> LakeTable:
    """An empty table with its first marker."""
    return lake.create(TableName.parse(f"{namespace}.t"), SCHEMA, marker("start", 0), {"format-version": "2"})


def append(lake: Lake, base: LakeTable, batch: str, offset: int) -> int:
    """Publish one row with a marker."""
    rows = lake.spark.createDataFrame([(offset, batch)], "id bigint, name string")
    return lake.publish(base, marker(batch, offset), lambda stage: stage.append(rows))


def again(lake: Lake, table: LakeTable) -> LakeTable:
    """The table as it is now."""
    found = lake.load(table.name)
    assert found is not None
    return found


def test_a_published_batch_shows_its_rows_and_its_marker(lake: Lake, table: LakeTable) -> None:
    """Both stand in one snapshot, and no branch is left."""
    head = append(lake, table, "one", 5)
    found = again(lake, table)

    assert found.head == head
    assert found.marker == marker("one", 5)
    assert [row.id for row in lake.rows(found).collect()] == [5]
    assert _refs(lake, table) == {"main"}


def _refs(lake: Lake, table: LakeTable) -> set[str]:
    namespace, name = table.name.namespace[0], table.name.name
    return {row.name for row in lake.spark.table(f"lake.`{namespace}`.`{name}`.refs").collect()}


def test_the_loser_of_two_writers_changes_nothing(lake: Lake, table: LakeTable) -> None:
    """Both planned on one head; the second is told that it lost, and readers see the first one's rows alone."""
    won = append(lake, table, "winner", 5)

    with pytest.raises(CommitConflict) as caught:
        append(lake, table, "loser", 9)

    found = again(lake, table)
    assert caught.value.exit_code == 4
    assert (found.head, found.marker) == (won, marker("winner", 5))
    assert [row.id for row in lake.rows(found).collect()] == [5]


def test_a_writer_between_staging_and_publishing_wins(lake: Lake, table: LakeTable) -> None:
    """Also when the other one comes while the batch is being staged."""

    def stage_slowly(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
        lake.spark.sql(f"INSERT INTO lake.`{table.name.namespace[0]}`.t VALUES (1, 'other')")
        stage.append(lake.spark.createDataFrame([(2, "mine")], "id bigint, name string"))

    with pytest.raises(CommitConflict):
        lake.publish(table, marker("loser", 9), stage_slowly)

    found = again(lake, table)
    assert [row.name for row in lake.rows(found).collect()] == ["other"]
    assert found.marker == marker("start", 0)


def test_left_over_branches_are_dropped_when_the_table_is_loaded(lake: Lake, table: LakeTable) -> None:
    """A killed run leaves its branch; another tool's branch is none of our business."""
    for branch in ("cdcm_killed", "someone"):
        lake.spark.sql(f"ALTER TABLE lake.`{table.name.namespace[0]}`.t CREATE BRANCH {branch}")

    again(lake, table)

    assert _refs(lake, table) == {"main", "someone"}


def test_a_failed_stage_can_be_tried_again(lake: Lake, table: LakeTable) -> None:
    """The branch of the first try, with the same batch id, does not stand in the second's way."""

    def fail(_: Any) -> None:  # noqa: ANN401 - the lake's own stage
        raise RuntimeError

    with pytest.raises(RuntimeError):
        lake.publish(table, marker("one", 5), fail)
    append(lake, again(lake, table), "one", 5)

    assert [row.id for row in lake.rows(again(lake, table)).collect()] == [5]


def test_the_marker_survives_a_snapshot_without_one(lake: Lake, table: LakeTable) -> None:
    """Compaction and the like write snapshots that say nothing of ours; the newest marker behind them counts."""
    append(lake, table, "one", 5)
    lake.spark.sql(f"INSERT INTO lake.`{table.name.namespace[0]}`.t VALUES (6, 'other')")

    found = again(lake, table)

    assert found.marker == marker("one", 5)
    assert len(lake.rows(found).collect()) == 2


def test_a_table_without_a_marker_is_refused(lake: Lake, namespace: str) -> None:
    """It is another tool's, and nobody can say what it holds."""
    lake.spark.sql(f"CREATE TABLE lake.`{namespace}`.t (id bigint) USING iceberg")
    lake.spark.sql(f"INSERT INTO lake.`{namespace}`.t VALUES (1)")
    found = lake.load(TableName.parse(f"{namespace}.t"))
    assert found is not None

    with pytest.raises(LakeUnavailable, match="no snapshot of it says how far"):
        marker_of(found)


# --- hostile names, through the whole line ---------------------------------------------------------------------------

Run = Callable[[Mapping[str, str], list[dict[str, Any]], str], RunReport]


@pytest.fixture
def run(spark: "SparkSession", lake_config: Config) -> Run:
    """Send rows of a table with the given columns (Connect types) through the pipeline and verify the mirror."""

    def go(columns: Mapping[str, str], rows: list[dict[str, Any]], mirror: str) -> RunReport:
        folder = lake_config.root / f"names_{next(_numbers)}"
        key = next(iter(columns))
        types = {name: {"type": kind, "optional": name != key} for name, kind in columns.items()}
        topic = TopicBuilder("shop.public.things")
        key_schema = connect_key_schema("t", {key: types[key]})
        schema = connect_envelope_schema("t", types)
        for at, row in enumerate(rows):
            envelope = debezium_envelope("u" if at else "c", None, row, lsn=100 + at)
            topic.add(debezium_json({key: row[key]}, key_schema), debezium_json(envelope, schema))
        topic.write(folder)
        path = lake_config.root / f"{folder.name}.yaml"
        tables = [{"topic": topic.topic, "mirror": mirror}]
        path.write_text(yaml.safe_dump({"name": "names", "source": {"files": folder.name}, "tables": tables}), "utf-8")
        config = load_config(path)
        report = run_once(config, spark)
        if report.exit_code == 0:
            assert verify_tables(config, spark).tables[0].equal
        return report

    return go


HOSTILE = ("a.b", "a`b", 'say "so"', "it's", "two words", "größe", "offset", "partition", "key", "value", "topic", "op")


def test_columns_of_any_name_are_mirrored(spark: "SparkSession", run: Run, namespace: str) -> None:
    """Dots, backticks, quotes, spaces, other scripts, and the names that messages' own columns have."""
    first = {name: f"first {at}" for at, name in enumerate(HOSTILE)}
    second = {**first, "a.b": "__debezium_unavailable_value", "offset": "second", "a`b": None}
    rows: list[dict[str, Any]] = [{"the `key`.": 1, **first}, {"the `key`.": 1, **second}]

    report = run({"the `key`.": "int64", **dict.fromkeys(HOSTILE, "string")}, rows, f"{namespace}.things")

    assert report.tables[0].error is None
    [row] = spark.table(f"lake.`{namespace}`.things").drop("__cdc").collect()
    assert row.asDict() == {"the `key`.": 1, **second, "a.b": "first 0"}


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"id": "int64", "__cdc_op": "string"}, "InvalidName"),
        ({"id": "int64", "__CDC": "string"}, "InvalidName"),
        ({"id": "int64", "Name": "string", "name": "string"}, "DUPLICATE_COLUMN"),
        ({"id": "int64", "bad\x00name": "string"}, "InvalidName"),
    ],
)
def test_columns_that_no_mirror_can_have_are_refused(
    spark: "SparkSession", run: Run, namespace: str, columns: dict[str, str], code: str
) -> None:
    """In one sentence, with exit code 2, before a mirror is made; raw keeps the messages."""
    report = run(columns, [dict.fromkeys(columns, "x") | {"id": 1}], f"{namespace}.things")
    error = report.tables[0].error

    assert report.exit_code == 2
    assert error is not None
    assert error.code == code
    assert error.message.endswith(".")
    assert not spark.catalog.tableExists(f"lake.{namespace}.things")
    assert spark.table(f"lake.{namespace}.things__raw").count() == 1


@pytest.mark.parametrize("name", ["größe", "select", "a-b", "1st", "_x"])
def test_tables_of_odd_names_are_mirrored(spark: "SparkSession", run: Run, namespace: str, name: str) -> None:
    """Whatever `names` lets through works as a table in every statement."""
    report = run({"id": "int64", "name": "string"}, [{"id": 1, "name": "a"}], f"{namespace}.{name}")

    assert report.tables[0].error is None
    assert spark.table(f"lake.{quote(namespace)}.{quote(name)}").count() == 1


def test_a_value_cannot_leave_its_column(spark: "SparkSession", run: Run, namespace: str, warehouse: Path) -> None:
    """Values that look like SQL, JSON or a path are values, in key columns too."""
    texts = ["'; DROP TABLE x; --", '{"id": 1}', "../../etc", "\\", "`", "\u0000", "\u2028", "é"]
    rows = [{"id": text, "name": text} for text in texts]

    report = run({"id": "string", "name": "string"}, rows, f"{namespace}.things")

    found = spark.table(f"lake.{namespace}.things").collect()
    assert report.tables[0].upserted == len(texts)
    assert sorted((row.id, row.name) for row in found) == sorted((text, text) for text in texts)
    assert json.dumps(sorted(path.name for path in warehouse.parent.parent.glob("etc"))) == "[]"
