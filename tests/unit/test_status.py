"""Where each table stands, told by a lake that PyIceberg wrote and a folder of recorded topics."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_DIFFERENCE, EXIT_DONE, EXIT_LAKE, EXIT_SOURCE, ConfigError
from cdc_materializer.offsets import Marker, Offsets
from cdc_materializer.report.models import ErrorInfo, StatusReport, TableStatus, TableVerify, VerifyReport
from cdc_materializer.status import configured_tables, exit_code, exit_code_of, read_status

_TOPIC = "shop.public.orders"
_NOW = datetime.now(UTC) + timedelta(seconds=60)


def _record(folder: Path, topic: str, offsets: range) -> None:
    lines = [
        json.dumps(
            {
                "key": None,
                "value": None,
                "topic": topic,
                "partition": 0,
                "offset": offset,
                "timestamp": "2026-11-21T10:00:00.123Z",
                "timestampType": 0,
                "headers": None,
            }
        )
        for offset in offsets
    ]
    (folder / f"{topic}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Two tables, one of whose topics is there."""
    (tmp_path / "recorded").mkdir()
    _record(tmp_path / "recorded", _TOPIC, range(3, 10))
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        f"name: shop\nsource: {{files: recorded}}\ntables: [{{topic: {_TOPIC}}}, {{topic: shop.public.gone}}]\n",
        encoding="utf-8",
    )
    return load_config(path)


@pytest.fixture
def lake(config: Config) -> Iterator[SqlCatalog]:
    """The pipeline's catalog, for writing."""
    folder = config.root / "lake"
    folder.mkdir()
    writer = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    writer.create_namespace("public")
    yield writer
    writer.engine.dispose()


def _marker(offset: int, batch: str) -> dict[str, str]:
    return Marker("shop", batch, _TOPIC, None, Offsets({0: offset}), {}, None, None, {}).to_summary()


def _fill(lake: SqlCatalog) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    raw = lake.create_table("public.orders__raw", schema=rows.schema)
    raw.append(rows, snapshot_properties=_marker(9, "r1"))
    mirror = lake.create_table("public.orders", schema=rows.schema)
    mirror.append(rows, snapshot_properties=_marker(7, "m1"))
    mirror.append(rows)
    statuses = pa.table({"status": pa.array(["open", "superseded", "open"])})
    lake.create_table("public.orders__quarantine", schema=statuses.schema).append(statuses)


def test_a_table_tells_how_far_it_is(config: Config, lake: SqlCatalog) -> None:
    """Offsets, lag, last publish, open quarantine rows and files, each from its own table."""
    _fill(lake)
    found = read_status(config, _NOW, ["public.orders"]).tables[0]

    assert (found.landed, found.published, found.ends) == ({"0": 9}, {"0": 7}, {"0": 10})
    assert (found.lag_messages, found.rows, found.messages, found.quarantine_open) == (3, 4, 2, 2)
    assert found.last_publish is not None
    assert found.lag_seconds == pytest.approx((_NOW - found.last_publish).total_seconds(), abs=0.01)
    assert found.files is not None
    assert (found.files.data_files, found.files.snapshots) == (2, 2)
    assert found.mirror_snapshot is not None
    assert found.error is None


def test_a_snapshot_of_maintenance_is_no_publish(config: Config, lake: SqlCatalog) -> None:
    """The last publish is when the newest marked snapshot was made."""
    _fill(lake)
    found = read_status(config, _NOW, ["public.orders"]).tables[0]
    marked = lake.load_table("public.orders").metadata.snapshots[0]

    assert found.mirror_snapshot == marked.snapshot_id


def test_a_table_that_was_never_run_has_all_of_its_topic_to_go(config: Config) -> None:
    """Nothing is there yet, and that is no error."""
    found = read_status(config, _NOW, ["public.orders"]).tables[0]

    assert (found.rows, found.published, found.lag_messages, found.lag_seconds) == (None, {}, 7, None)
    assert found.error is None


def test_a_missing_topic_is_that_tables_error(config: Config, lake: SqlCatalog) -> None:
    """The other table is told as ever, and the command ends well."""
    _fill(lake)
    found = read_status(config, _NOW)
    orders, gone = found.tables

    assert orders.error is None
    assert gone.error is not None
    assert gone.error.code == "TopicMissing"
    assert exit_code(found) == EXIT_DONE


def test_without_its_source_a_table_still_tells_what_it_holds(config: Config, lake: SqlCatalog) -> None:
    """The ends are not known, the rest is."""
    _fill(lake)
    for file in (config.root / "recorded").iterdir():
        file.unlink()
    (config.root / "recorded").rmdir()
    found = read_status(config, _NOW)

    assert found.tables[0].published == {"0": 7}
    assert (found.tables[0].ends, found.tables[0].lag_messages) == (None, None)
    assert found.tables[0].error is not None
    assert exit_code(found) == EXIT_DONE


def test_a_name_that_no_table_has_names_the_nearest(config: Config) -> None:
    """A typing mistake is told as one."""
    with pytest.raises(ConfigError, match=r"no table public\.order in pipeline\.yaml\. Did you mean public\.orders\?"):
        configured_tables(config, ["public.order"])


def test_where_nothing_can_be_read_the_worst_error_counts() -> None:
    """A status of nothing must not look like success."""
    entries = [
        TableStatus(table="a", topic="t", error=ErrorInfo(code="RegistryUnavailable", message="x")),
        TableStatus(table="b", topic="t", error=ErrorInfo(code="LakeUnavailable", message="x")),
    ]
    report = StatusReport(pipeline="p", as_of=_NOW, tables=entries)

    assert exit_code(report) == EXIT_LAKE
    assert exit_code(report.model_copy(update={"tables": entries[:1]})) == EXIT_SOURCE
    assert exit_code(report.model_copy(update={"tables": []})) == EXIT_DONE


@pytest.mark.parametrize(
    ("tables", "code"),
    [
        ([TableVerify(table="a", topic="t", equal=True)], EXIT_DONE),
        ([TableVerify(table="a", topic="t", equal=False)], EXIT_DIFFERENCE),
        (
            [
                TableVerify(table="a", topic="t", equal=False),
                TableVerify(
                    table="b", topic="t", equal=False, error=ErrorInfo(code="RegistryUnavailable", message="x")
                ),
            ],
            EXIT_SOURCE,
        ),
        (
            [TableVerify(table="b", topic="t", equal=False, error=ErrorInfo(code="RAW_DUPLICATES", message="x"))],
            EXIT_DIFFERENCE,
        ),
    ],
)
def test_verify_ends_as_its_tables_do(tables: list[TableVerify], code: int) -> None:
    """A difference is 8, unless a table could not be compared for a reason of its own."""
    assert exit_code_of(VerifyReport(pipeline="p", tables=tables)) == code
