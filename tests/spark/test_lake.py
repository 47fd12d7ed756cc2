"""The Iceberg tables: one writer wins, markers are found again, and no name of a source can do harm."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import CommitConflict
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.names import TableName, quote
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.query.fresh import read_fresh
from cdc_materializer.report.models import RunReport
from cdc_materializer.run.run import run_once
from cdc_materializer.schema.schema import Column, TableSchema
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.model.lake_contract import LakeContract, marker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_numbers = itertools.count()


class _Bench:
    """The default catalog, as the contract of lakes handles one."""

    def __init__(self, lake: Lake, namespace: str) -> None:
        self.lake, self._namespace = lake, namespace

    def process(self) -> Lake:
        """A lake as another process has it; here they share one Spark, so its branches have the same name."""
        return replace(self.lake, read_only=True)

    def name(self) -> TableName:
        """The name of the table."""
        return TableName.parse(f"{self._namespace}.t")

    def frame(self, rows: Sequence[tuple[str, str]]) -> Any:  # noqa: ANN401 - whatever a stage takes
        """What a stage appends."""
        return self.lake.spark.createDataFrame(list(rows), "key string, value string")

    def rows(self, table: LakeTable) -> list[str]:
        """The keys that a table has."""
        return sorted(row["key"] for row in self.lake.rows(table).collect())

    def refs(self) -> set[str]:
        """The branches and tags of the table."""
        return {row["name"] for row in self.lake.spark.table(f"lake.`{self._namespace}`.t.refs").collect()}

    def insert(self, key: str) -> None:
        """Another program adds a row."""
        self._sql(f"INSERT INTO {{}} VALUES ('{key}', 'other')")

    def branch(self, name: str) -> None:
        """Someone makes a branch."""
        self._sql(f"ALTER TABLE {{}} CREATE BRANCH {name}")

    def expire(self) -> None:
        """Another program removes every snapshot that nothing points to."""
        call = "expire_snapshots(table => '{}', older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
        self.lake.spark.sql(f"CALL lake.system.{call.format(self._namespace + '.t')}")

    def alter(self) -> None:
        """Another program changes the columns."""
        self._sql("ALTER TABLE {} ADD COLUMN another string")

    def partition(self) -> None:
        """Another program changes the partitions."""
        self._sql("ALTER TABLE {} ADD PARTITION FIELD bucket(4, key)")

    def drop(self) -> None:
        """Another program drops the table."""
        self._sql("DROP TABLE {}")

    def replace(self, rows: bool) -> None:  # noqa: FBT001
        """Another program makes the table anew under its name."""
        made = (
            "USING iceberg AS SELECT 'other' AS key, 'x' AS value"
            if rows
            else "(key string, value string) USING iceberg"
        )
        self._sql(f"CREATE OR REPLACE TABLE {{}} {made}")

    def make(self) -> None:
        """Another tool makes the table, with a row."""
        self._sql("CREATE TABLE {} (key string, value string) USING iceberg")
        self.insert("other")

    def _sql(self, text: str) -> None:
        self.lake.spark.sql(text.format(f"lake.`{self._namespace}`.t"))


@pytest.fixture
def bench(spark: "SparkSession", namespace: str) -> _Bench:
    """The catalog of the test run."""
    return _Bench(Lake(spark, "lake"), namespace)


class TestSparkLake(LakeContract):
    """Iceberg itself, in Spark."""


@pytest.mark.parametrize(("asked", "is_same"), [("bigint", True), ("string", False)])
def test_a_table_that_was_begun_is_used_at_once_if_it_is_what_is_asked_for(
    bench: _Bench,
    asked: str,
    is_same: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it is made whole all the same, and the batch is planned anew on its columns."""

    def schema(kind: str) -> TableSchema:
        return TableSchema((Column("id", "bigint"), Column("value", kind)), ("id",))

    sent: list[str] = []

    def killed(statement: str) -> None:
        sent.append(statement)
        if "IDENTIFIER" in statement:
            raise RuntimeError
        type(bench.lake.spark).sql(bench.lake.spark, statement)

    monkeypatch.setattr(bench.lake.spark, "sql", killed)
    with pytest.raises(RuntimeError):
        bench.lake.create(bench.name(), schema("bigint"), marker("start", 0), {})
    monkeypatch.undo()

    if is_same:
        made = bench.lake.create(bench.name(), schema(asked), marker("start", 0), {})
        assert made.schema.key == ("id",)
    else:
        with pytest.raises(CommitConflict, match="begun by a run that saw other columns"):
            bench.lake.create(bench.name(), schema(asked), marker("start", 0), {})
    found = bench.lake.load(bench.name())
    assert found is not None
    assert (found.schema.types, found.schema.key) == ({"id": "bigint", "value": "bigint"}, ("id",))
    assert len(sent) == 3


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


def test_rows_with_columns_of_any_name_are_swept_repaired_and_told_fresh(
    spark: "SparkSession", lake_config: Config, namespace: str
) -> None:
    """Where frames are put side by side, a name with a dot or a backtick is one name."""
    key, folder, topic = "the `key`.", lake_config.root / f"names_{next(_numbers)}", TopicBuilder("shop.public.things")
    types = {key: {"type": "int64", "optional": False}, "a.b": {"type": "string", "optional": True}}
    path, mirror = lake_config.root / f"{folder.name}.yaml", f"{namespace}.things"
    table = {"topic": topic.topic, "mirror": mirror, "ledger": True, "snapshot_sweep": True}
    path.write_text(yaml.safe_dump({"name": "names", "source": {"files": folder.name}, "tables": [table]}), "utf-8")

    def send(op: str, number: int, lsn: int, snapshot: str = "false") -> None:
        envelope = debezium_envelope(op, None, {key: number, "a.b": f"{op} {lsn}"}, lsn=lsn, snapshot=snapshot)
        value = debezium_json(envelope, connect_envelope_schema("t", types))
        topic.add(debezium_json({key: number}, connect_key_schema("t", {key: types[key]})), value)
        topic.write(folder)

    for lsn, last in ((100, 2), (500, 3)):
        send("r", 1, lsn, "first")
        send("r", last, lsn, "last")
        assert run_once(load_config(path), spark).tables[0].error is None
    config = load_config(path)
    told = f"SELECT `the ``key``.`, `a.b` FROM lake.{mirror} ORDER BY 1"
    spark.sql(f"DELETE FROM lake.{mirror} WHERE `the ``key``.` = 1")
    repaired = verify_tables(config, spark, VerifyOptions(repair=True)).tables[0]

    assert (repaired.missing, repaired.error) == (1, None)
    assert [tuple(row) for row in spark.sql(told).collect()] == [(1, "r 500"), (3, "r 500")]
    send("u", 3, 600)
    fresh = read_fresh(config, mirror, spark).rows
    assert sorted((row[key], row["a.b"]) for row in fresh.collect()) == [(1, "r 500"), (3, "u 600")]


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"id": "int64", "__cdc_op": "string"}, "InvalidName"),
        ({"id": "int64", "__CDC": "string"}, "InvalidName"),
        ({"id": "int64", "Name": "string", "name": "string"}, "DUPLICATE_COLUMN"),
        ({"id": "int64", "bad\x00name": "string"}, "InvalidName"),
        ({"id": "int64", "1st": "string", "_1st": "string"}, "InvalidName"),
        ({"id": "int64", "\u0130": "string", "i\u0307": "string"}, "DUPLICATE_COLUMN"),
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
