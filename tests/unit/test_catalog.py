"""The lake without Spark: what PyIceberg wrote is found, and the fast reader gives PyIceberg's own answers."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from cdc_materializer.catalog import Tables, open_tables, spark_properties
from cdc_materializer.config import CatalogConfig
from cdc_materializer.errors import LakeUnavailable
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Marker, Offsets

_NAME = TableName.parse("shop.orders")
_MARKER = Marker("p", "b1", "s.p.o", None, Offsets({0: 5}), {0: "x"}, None, None, {"read": 5})
_ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "code": pa.array(["CONTRACT", None, "KEY_NULL", "ü"]),
        "at": pa.array(
            [datetime(2026, 1, 1, tzinfo=UTC), None, *[datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)] * 2]
        ),
        "partition": pa.array([0, 1, None, 3], pa.int32()),
        "ok": pa.array([True, False, None, True]),
    }
)
# PyIceberg's own types of this class are not those of its constructor.
_KEY_NULL = cast("Any", EqualTo)("code", "KEY_NULL")
_COLUMNS = tuple(_ROWS.column_names)


@dataclass(frozen=True)
class Lake:
    """A SQLite catalog as PyIceberg writes it, and our configuration of the same."""

    root: Path
    config: CatalogConfig
    writer: SqlCatalog

    @property
    def tables(self) -> Tables:
        """The catalog as we open it."""
        return open_tables(self.config)

    def create(self, schema: pa.Schema = _ROWS.schema) -> Table:
        """Make the table `shop.orders`."""
        self.writer.create_namespace_if_not_exists("shop")
        return self.writer.create_table("shop.orders", schema=schema)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake whose folder's name has signs that mean something in addresses."""
    root = tmp_path / "my lake"
    (root / "lake").mkdir(parents=True)
    config = CatalogConfig.model_validate({}, context={"root": root})
    writer = SqlCatalog("lake", uri=f"sqlite:///{root}/lake/catalog.db", warehouse=f"file://{root}/lake/warehouse")
    yield Lake(root, config, writer)
    writer.engine.dispose()


def test_a_table_and_its_marker_are_found(lake: Lake) -> None:
    """By PyIceberg and by the fast way alike; other properties of the summary do no harm."""
    lake.create().append(_ROWS, snapshot_properties=_MARKER.to_summary())
    table = lake.tables.load(_NAME)

    assert table is not None
    assert lake.tables.marker(table) == lake.tables.marker_of(_NAME) == _MARKER


def test_the_newest_marker_counts_and_snapshots_without_one_are_passed_over(lake: Lake) -> None:
    """Maintenance leaves snapshots that carry none."""
    written, newer = lake.create(), replace(_MARKER, batch="b2")
    for marker in (_MARKER, newer):
        written.append(_ROWS, snapshot_properties=marker.to_summary())
    written.append(_ROWS)
    table = lake.tables.load(_NAME)

    assert table is not None
    assert lake.tables.marker(table) == lake.tables.marker_of(_NAME) == newer


def test_a_table_without_a_commit_has_no_marker_and_no_rows(lake: Lake) -> None:
    """It was created, and nothing more."""
    lake.create()

    assert lake.tables.marker_of(_NAME) is None
    assert lake.tables.values_of(_NAME, _COLUMNS) == []


def test_what_is_staged_on_a_branch_is_not_seen(lake: Lake) -> None:
    """Only main is published."""
    table = lake.create()
    table.append(_ROWS, snapshot_properties=_MARKER.to_summary())
    head = table.metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_branch(head, "staged").commit()
    table.append(_ROWS, branch="staged", snapshot_properties=replace(_MARKER, batch="b2").to_summary())

    assert lake.tables.marker_of(_NAME) == _MARKER
    assert len(lake.tables.values_of(_NAME, _COLUMNS) or ()) == 4


def test_rows_come_with_the_columns_and_the_filter_asked_for(lake: Lake) -> None:
    """As an Arrow table, by PyIceberg."""
    lake.create().append(_ROWS)
    table = lake.tables.load(_NAME)
    assert table is not None

    assert lake.tables.rows(table).num_rows == 4
    assert lake.tables.rows(table, ("id",), _KEY_NULL).to_pylist() == [{"id": 3}]
    assert lake.tables.rows(table, ("id",), "code = 'KEY_NULL'").to_pylist() == [{"id": 3}]


def test_what_is_not_there_is_none(lake: Lake) -> None:
    """No table, no namespace, no catalog file yet: nothing is made, nothing fails."""
    lake.create()
    other = CatalogConfig.model_validate({}, context={"root": lake.root / "other"})
    (lake.root / "empty.db").touch()
    empty = CatalogConfig.model_validate({"uri": "jdbc:sqlite:empty.db"}, context={"root": lake.root})

    for tables, name in (
        (lake.tables, "shop.nothing"),
        (lake.tables, "nothing.orders"),
        (open_tables(other), "shop.orders"),
        (open_tables(empty), "shop.orders"),
    ):
        assert tables.load(TableName.parse(name)) is None
        assert tables.marker_of(TableName.parse(name)) is None
        assert tables.values_of(TableName.parse(name), ("id",)) is None
    assert not (lake.root / "other").exists()


def test_a_catalog_of_another_name_in_the_same_file_is_another(lake: Lake) -> None:
    """The catalog's name is part of the key of a table."""
    lake.create()
    other = CatalogConfig.model_validate({"name": "prod"}, context={"root": lake.root})

    assert open_tables(other).load(_NAME) is None


def test_a_view_is_no_table(lake: Lake) -> None:
    """Catalogs of version 1 keep both in one list."""
    lake.create()
    with sqlite3.connect(lake.root / "lake/catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
    connection.close()

    assert lake.tables.load(_NAME) is None


def test_a_catalog_file_that_is_none_is_named(lake: Lake) -> None:
    """Exit code 4, and what to check."""
    (lake.root / "lake/bad.db").write_bytes(b"no database at all, and long enough to be read as one" * 40)
    config = CatalogConfig.model_validate({"uri": "jdbc:sqlite:lake/bad.db"}, context={"root": lake.root})
    with pytest.raises(LakeUnavailable, match=r"The catalog file bad\.db cannot be read") as caught:
        open_tables(config).load(_NAME)

    assert caught.value.exit_code == 4


def test_metadata_that_is_gone_is_named(lake: Lake) -> None:
    """The catalog knows the table and its files are not there."""
    lake.create()
    Path(_metadata_file(lake).removeprefix("file://")).unlink()

    with pytest.raises(LakeUnavailable, match=r"metadata of the table shop\.orders cannot be read"):
        lake.tables.values_of(_NAME, ("id",))


@pytest.mark.parametrize(
    "properties",
    [
        {"type": "hadoop", "warehouse": "/w"},
        {"catalog-impl": "org.example.Own"},
        {"type": "jdbc", "uri": "jdbc:postgresql:x"},
    ],
)
def test_a_catalog_that_only_java_can_open_is_said_so(properties: dict[str, str]) -> None:
    """One sentence instead of PyIceberg's."""
    with pytest.raises(LakeUnavailable, match="can only be read through Spark"):
        open_tables(CatalogConfig(name="lake", properties=properties))


def test_a_rest_catalog_that_does_not_answer_is_unavailable() -> None:
    """Whatever its client raises; its address is not repeated."""
    config = CatalogConfig(name="prod", properties={"type": "rest", "uri": "http://127.0.0.1:9"})
    with pytest.raises(LakeUnavailable, match="The catalog `prod` cannot be opened"):
        open_tables(config)


def test_spark_gets_every_property_and_never_the_cache() -> None:
    """Secrets are in plain text there: Spark has to have them."""
    config = CatalogConfig.model_validate({"name": "prod", "type": "rest", "uri": "http://c", "token": "x"})

    assert spark_properties(config) == {
        "spark.sql.catalog.prod": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.prod.type": "rest",
        "spark.sql.catalog.prod.uri": "http://c",
        "spark.sql.catalog.prod.token": "x",
        "spark.sql.catalog.prod.cache-enabled": "false",
    }


def test_the_fast_way_imports_nothing_slow(lake: Lake) -> None:
    """A report within a second: neither PyIceberg nor pandas, SQLAlchemy or PySpark is imported."""
    lake.create().append(_ROWS, snapshot_properties=_MARKER.to_summary())
    program = """
import json, sys
from pathlib import Path
from typing import Any, cast
from cdc_materializer.catalog import open_tables
from cdc_materializer.config import CatalogConfig
from cdc_materializer.names import TableName
tables = open_tables(CatalogConfig.model_validate({}, context={"root": Path(sys.argv[1])}))
name = TableName.parse("shop.orders")
rows, marker = tables.values_of(name, json.loads(sys.argv[2])), tables.marker_of(name)
slow = sorted({"pyiceberg", "pandas", "sqlalchemy", "pyspark", "great_expectations"} & sys.modules.keys())
print(json.dumps([len(rows), marker.batch, slow]))
"""
    command = [sys.executable, "-c", program, str(lake.root), json.dumps(_COLUMNS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert json.loads(done.stdout) == [4, "b1", []]


def _metadata_file(lake: Lake) -> str:
    return lake.writer.load_table("shop.orders").metadata_location
