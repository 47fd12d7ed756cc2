"""The lake without Spark: what PyIceberg wrote is found, and the fast reader gives PyIceberg's own answers."""

import gzip
import json
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.transforms import BucketTransform, DayTransform

from cdc_materializer.catalog.catalog import open_tables, spark_properties
from cdc_materializer.catalog.local_table import partition_field
from cdc_materializer.config import CatalogConfig
from cdc_materializer.errors import LakeUnavailable
from cdc_materializer.maintenance.facts import read_facts
from cdc_materializer.marker.marker import MARKER_TAG
from cdc_materializer.names import TableName
from tests.unit.lakes import COLUMNS, MARKER, NAME, ROWS, Lake

if TYPE_CHECKING:
    from tests.unit.conftest import Fresh

# PyIceberg's own types of this class are not those of its constructor.
_KEY_NULL = cast("Any", EqualTo)("code", "KEY_NULL")


def test_a_table_and_its_marker_are_found(lake: Lake) -> None:
    """By PyIceberg and by the fast way alike; other properties of the summary do no harm."""
    lake.create().append(ROWS, snapshot_properties=MARKER.to_summary())
    table = lake.tables.load(NAME)

    assert table is not None
    assert lake.tables.marker(table) == lake.tables.marker_of(NAME) == MARKER


def test_the_newest_marker_counts_and_snapshots_without_one_are_passed_over(lake: Lake) -> None:
    """Maintenance leaves snapshots that carry none."""
    written, newer = lake.create(), replace(MARKER, batch="b2")
    for marker in (MARKER, newer):
        written.append(ROWS, snapshot_properties=marker.to_summary())
    written.append(ROWS)
    table = lake.tables.load(NAME)

    assert table is not None
    assert lake.tables.marker(table) == lake.tables.marker_of(NAME) == newer


def test_what_others_expired_is_found_by_our_tag_and_by_no_other(lake: Lake) -> None:
    """Where the line of snapshots breaks off, a tag that someone else has set says nothing of progress."""
    written, newer = lake.create(), replace(MARKER, batch="b2")
    for marker in (MARKER, newer):
        written.append(ROWS, snapshot_properties=marker.to_summary())
    older, newest = (snapshot.snapshot_id for snapshot in written.snapshots())
    written.manage_snapshots().create_tag(newest, MARKER_TAG).create_tag(older, "backup").commit()
    for _ in range(2):
        written.append(ROWS)
    written.maintenance.expire_snapshots().by_id(written.snapshots()[2].snapshot_id).commit()

    table = lake.tables.load(NAME)
    assert table is not None
    assert lake.tables.marker(table) == lake.tables.marker_of(NAME) == newer

    written.manage_snapshots().remove_tag(MARKER_TAG).commit()
    table = lake.tables.load(NAME)
    assert table is not None
    assert lake.tables.marker(table) is lake.tables.marker_of(NAME) is None


def test_a_table_without_a_commit_has_no_marker_and_no_rows(lake: Lake) -> None:
    """It was created, and nothing more."""
    lake.create()

    assert lake.tables.marker_of(NAME) is None
    assert lake.tables.values_of(NAME, COLUMNS) == []


def test_what_is_staged_on_a_branch_is_not_seen(lake: Lake) -> None:
    """Only main is published."""
    table = lake.create()
    table.append(ROWS, snapshot_properties=MARKER.to_summary())
    head = table.metadata.current_snapshot_id
    assert head is not None
    table.manage_snapshots().create_branch(head, "staged").commit()
    table.append(ROWS, branch="staged", snapshot_properties=replace(MARKER, batch="b2").to_summary())

    assert lake.tables.marker_of(NAME) == MARKER
    assert len(lake.tables.values_of(NAME, COLUMNS) or ()) == 4


def test_rows_come_with_the_columns_and_the_filter_asked_for(lake: Lake) -> None:
    """As an Arrow table, by PyIceberg."""
    lake.create().append(ROWS)
    table = lake.tables.load(NAME)
    assert table is not None

    assert lake.tables.rows(table).num_rows == 4
    assert lake.tables.rows(table, ("id",), _KEY_NULL).to_pylist() == [{"id": 3}]
    assert lake.tables.rows(table, ("id",), "code = 'KEY_NULL'").to_pylist() == [{"id": 3}]


@pytest.mark.parametrize("is_local", [True, False])
def test_columns_are_told_by_the_types_that_spark_has(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    """Read from the metadata file or by PyIceberg; of nested columns the kind."""
    types = {
        "n": pa.int32(), "id": pa.int64(), "f": pa.float64(), "amount": pa.decimal128(12, 2), "text": pa.string(),
        "flag": pa.bool_(), "day": pa.date32(), "at": pa.timestamp("us", tz="UTC"), "local": pa.timestamp("us"),
        "raw": pa.binary(), "list": pa.list_(pa.int32()), "struct": pa.struct([("a", pa.int32())]),
        "map": pa.map_(pa.string(), pa.int32()),
    }  # fmt: skip
    schema = pa.schema([pa.field(name, kind, nullable=name != "id") for name, kind in types.items()])
    with lake.create(schema).update_schema() as changed:
        changed.set_identifier_fields("id")
    tables = lake.tables
    if not is_local:
        load = lake.tables.load
        monkeypatch.setattr(tables, "_catalog", SimpleNamespace(local=lambda _: None, load=load))

    columns, key = tables.columns_of(NAME) or ({}, frozenset())
    assert key == {"id"}
    assert columns == {
        "n": "int", "id": "bigint", "f": "double", "amount": "decimal(12,2)", "text": "string", "flag": "boolean",
        "day": "date", "at": "timestamp", "local": "timestamp_ntz", "raw": "binary", "list": "array<>",
        "struct": "struct<>", "map": "map<>",
    }  # fmt: skip
    assert tables.columns_of(TableName.parse("shop.nothing")) is None


@pytest.mark.parametrize("is_local", [True, False])
def test_partitions_are_told_as_the_settings_name_them(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    """Read from the metadata file or by PyIceberg; the field of a dropped one stays as `void`, and is none."""
    with lake.create().update_spec() as changed:
        changed.add_field("at", DayTransform()).add_field("id", BucketTransform(16)).add_field("code", "identity")
        changed.add_field("partition", "identity")
    with lake.writer.load_table("shop.orders").update_spec() as changed:
        changed.remove_field("partition")
    tables = lake.tables
    if not is_local:
        load = lake.tables.load
        monkeypatch.setattr(tables, "_catalog", SimpleNamespace(local=lambda _: None, load=load))

    assert tables.partitions_of(NAME) == tuple(map(partition_field, ("days(at)", "bucket(16, id)", "code")))
    assert tables.partitions_of(TableName.parse("shop.nothing")) is None


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

    assert open_tables(other).load(NAME) is None


def test_a_view_is_no_table(lake: Lake) -> None:
    """Catalogs of version 1 keep both in one list."""
    lake.create()
    with sqlite3.connect(lake.root / "lake/catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
    connection.close()

    assert lake.tables.load(NAME) is None


def test_a_catalog_file_that_is_none_is_named(lake: Lake) -> None:
    """Exit code 4, and what to check."""
    (lake.root / "lake/bad.db").write_bytes(b"no database at all, and long enough to be read as one" * 40)
    config = CatalogConfig.model_validate({"uri": "jdbc:sqlite:lake/bad.db"}, context={"root": lake.root})
    with pytest.raises(LakeUnavailable, match=r"The catalog file bad\.db cannot be read") as caught:
        open_tables(config).load(NAME)

    assert caught.value.exit_code == 4


def test_metadata_that_is_gone_is_named(lake: Lake) -> None:
    """The catalog knows the table and its files are not there."""
    lake.create()
    Path(lake.metadata_file.removeprefix("file://")).unlink()

    with pytest.raises(LakeUnavailable, match=r"metadata of the table shop\.orders cannot be read"):
        lake.tables.values_of(NAME, ("id",))


@pytest.mark.parametrize("kept", [0, 1, 200, -1])
@pytest.mark.parametrize("packed", [False, True])
def test_metadata_that_is_damaged_is_named(lake: Lake, kept: int, packed: bool) -> None:  # noqa: FBT001
    """A full disk or a power cut leaves one that is empty or cut; whichever way the table is asked."""
    lake.create()
    file = Path(lake.metadata_file.removeprefix("file://"))
    if packed:
        file = file.rename(file.with_name("00000-a.gz.metadata.json"))
        file.write_bytes(gzip.compress(file.read_bytes()))
        _point_to(lake, file)
    file.write_bytes(file.read_bytes()[:kept])
    tables = lake.tables

    for ask in (
        tables.load,
        tables.lines_of,
        tables.marker_of,
        tables.columns_of,
        tables.partitions_of,
        tables.uuid_of,
    ):
        with pytest.raises(
            LakeUnavailable, match=rf"The metadata file of the table shop\.orders is damaged.*{file.name}"
        ):
            ask(NAME)


@pytest.mark.parametrize("pattern", ["metadata/snap-*.avro", "metadata/*-m0.avro", "data/**/*.parquet"])
def test_a_file_that_is_damaged_is_told_as_one_table_that_cannot_be_read(lake: Lake, pattern: str) -> None:
    """Its manifest list, a manifest or rows."""
    lake.create().append(ROWS)
    (file,) = Path(lake.writer.load_table("shop.orders").location().removeprefix("file://")).glob(pattern)
    whole = file.read_bytes()
    for kept in (0, 3, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:kept])

        with pytest.raises(LakeUnavailable, match=r"Data of the table .*/orders/.* cannot be read"):
            lake.tables.values_of(NAME, ("id",))
        if file.suffix == ".avro":
            with pytest.raises(LakeUnavailable, match=r"The manifests of shop\.orders cannot be read"):
                read_facts(lake.tables, NAME)


def _point_to(lake: Lake, file: Path) -> None:
    """Have the catalog name another metadata file."""
    with sqlite3.connect(lake.root / "lake/catalog.db") as connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"file://{file}",))
    connection.close()


def test_a_table_with_a_type_that_pyiceberg_does_not_know_is_named(lake: Lake) -> None:
    """Another program has added a column to it: that is no bug of ours."""
    lake.create()
    file = Path(lake.metadata_file.removeprefix("file://"))
    metadata = json.loads(file.read_text())
    metadata["schemas"][0]["fields"].append({"id": 99, "name": "doc", "type": "variant", "required": False})
    file.write_text(json.dumps(metadata))

    with pytest.raises(LakeUnavailable, match=r"shop\.orders has something that PyIceberg does not know"):
        lake.tables.load(NAME)


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
    with pytest.raises(
        LakeUnavailable, match=r"can only be read through Spark\. Use a command that starts it \(`cdcm run"
    ):
        open_tables(CatalogConfig(name="lake", properties=properties))


def test_a_rest_catalog_that_does_not_answer_is_unavailable() -> None:
    """Whatever its client raises; its address is not repeated."""
    config = CatalogConfig(name="prod", properties={"type": "rest", "uri": "http://127.0.0.1:9"})
    with pytest.raises(LakeUnavailable, match="The catalog `prod` cannot be opened"):
        open_tables(config)


def test_a_catalog_whose_client_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra of PyIceberg's, and no setting of the catalog."""
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.hive", None)

    with pytest.raises(LakeUnavailable, match=r"`pip install 'pyiceberg\[hive\]'`"):
        open_tables(CatalogConfig(name="lake", properties={"type": "hive", "uri": "thrift://127.0.0.1:9"}))


def test_spark_gets_every_property_and_never_the_cache() -> None:
    """Secrets are in plain text there: Spark has to have them."""
    config = CatalogConfig.model_validate({"name": "prod", "type": "rest", "uri": "http://c", "token": "x"})

    assert spark_properties(config) == {
        "spark.sql.catalog.prod": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.prod.type": "rest",
        "spark.sql.catalog.prod.uri": "http://c",
        "spark.sql.catalog.prod.token": "x",
        "spark.sql.catalog.prod.rest.client.connection-timeout-ms": "10000",
        "spark.sql.catalog.prod.rest.client.socket-timeout-ms": "180000",
        "spark.sql.catalog.prod.cache-enabled": "false",
    }


@pytest.mark.parametrize(
    ("given", "waits"),
    [
        ({"catalog-impl": "org.apache.iceberg.rest.RESTCatalog", "uri": "http://c"}, ["10000", "180000"]),
        ({"type": "rest", "uri": "http://c", "rest.client.socket-timeout-ms": "5000"}, ["10000", "5000"]),
        ({"type": "hive", "uri": "thrift://c:9"}, []),
    ],
)
def test_spark_waits_for_no_rest_catalog_for_ever(given: dict[str, str], waits: list[str]) -> None:
    """No deadline reaches Java, so the limits are properties of the catalog; what the file says goes first."""
    found = spark_properties(CatalogConfig.model_validate({"name": "prod", **given}))

    assert sorted(value for name, value in found.items() if name.endswith("-timeout-ms")) == sorted(waits)


def test_the_fast_way_imports_nothing_slow(lake: Lake, fresh: "Fresh") -> None:
    """A report within a second: neither PyIceberg nor pandas, SQLAlchemy or PySpark is imported."""
    messages = ROWS.append_column("offset", pa.array([5, 6, 7, 8], pa.int64()))
    lake.create(messages.schema).append(messages, snapshot_properties=MARKER.to_summary())
    code = """
import json, sys
from pathlib import Path
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import CatalogConfig
from cdc_materializer.marker.marker import MARKER_TAG
from cdc_materializer.names import TableName
tables = open_tables(CatalogConfig.model_validate({}, context={"root": Path(sys.argv[1])}))
name = TableName.parse("shop.orders")
rows, marker = tables.values_of(name, json.loads(sys.argv[2])), tables.marker_of(name)
found, lines = tables.values_at(name, ["id"], {(1, 6), (3, 7)}), tables.lines_of(name)
assert tables.columns_of(name)[0]["id"] == "bigint"
slow = sorted({"pyiceberg", "pandas", "sqlalchemy", "pyspark", "great_expectations"} & sys.modules.keys())
print(json.dumps([len(rows), marker.batch, [row["id"] for row in found], len(lines), slow]))
"""
    ended = fresh.run(code, str(lake.root), json.dumps(COLUMNS))

    assert (ended.code, ended.err) == (0, "")
    assert json.loads(ended.out) == [4, "b1", [2], 1, []]
