"""Where each table stands, told by a lake that PyIceberg wrote and a folder of recorded topics."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.errors import EXIT_BLOCKED, EXIT_DIFFERENCE, EXIT_DONE, EXIT_LAKE, EXIT_SOURCE, ConfigError
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.models import ErrorInfo, StatusReport, TableStatus, TableVerify, VerifyReport
from cdc_materializer.report.replay_models import RebuiltType, ReplayReport, TableReplay
from cdc_materializer.status import configured_tables, exit_code, exit_code_of, exit_code_of_replay, read_status
from tests.unit.contracts import HEAD
from tests.unit.lakes import open_writer

_TOPIC = "shop.public.orders"
#: Later than anything that the tests write, however slow the machine is.
_NOW = datetime.now(UTC) + timedelta(hours=1)


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


def _config(root: Path, name: str = "pipeline.yaml", source: str = "recorded") -> Config:
    """Return a pipeline of two tables, one of whose topics is there."""
    (root / name).write_text(
        f"name: shop\nsource: {{files: {source}}}\ntables: [{{topic: {_TOPIC}}}, {{topic: shop.public.gone}}]\n",
        encoding="utf-8",
    )
    (root / "recorded").mkdir(exist_ok=True)
    _record(root / "recorded", _TOPIC, range(3, 10))
    return load_config(root / name)


@dataclass(frozen=True)
class Filled:
    """A pipeline that has run, and its catalog."""

    config: Config
    lake: SqlCatalog


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """One table has raw messages, two snapshots of its mirror and a quarantine; no test changes them."""
    root = tmp_path_factory.mktemp("filled")
    writer = open_writer(root / "lake")
    _fill(writer)
    yield Filled(_config(root), writer)
    writer.engine.dispose()


def _marker(offset: int, batch: str) -> dict[str, str]:
    return Marker("shop", batch, _TOPIC, None, Offsets({0: offset}), {}, None, None, {}).to_summary()


def _fill(lake: SqlCatalog) -> None:
    lake.create_namespace("public")
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    raw = lake.create_table("public.orders__raw", schema=rows.schema)
    raw.append(rows, snapshot_properties=_marker(9, "r1"))
    mirror = lake.create_table("public.orders", schema=rows.schema)
    mirror.append(rows, snapshot_properties=_marker(7, "m1"))
    mirror.append(rows)
    statuses = pa.table(
        {
            "topic": pa.array([_TOPIC] * 5),
            "partition": pa.array([0, 0, 0, 0, 0], pa.int32()),
            "offset": pa.array([5, 3, 6, 6, 7], pa.int64()),
            "status": pa.array(["open", "superseded", "open", "open", "open"]),
            "detected_at": pa.array([_NOW - timedelta(hours=hours) for hours in (1, 3, 2, 1, 4)]),
            # The last one is about the table as a whole: it is no message that is held.
            "batch_id": pa.array(["b", "b", "b", "b", ""]),
        }
    )
    lake.create_table("public.orders__quarantine", schema=statuses.schema).append(statuses)


def test_a_table_tells_how_far_it_is(filled: Filled) -> None:
    """Offsets, lag, last publish, open quarantine rows and files, each from its own table."""
    found = read_status(filled.config, _NOW, ["public.orders"]).tables[0]

    assert (found.landed, found.published, found.ends) == ({"0": 9}, {"0": 7}, {"0": 10})
    assert (found.lag_messages, found.rows, found.messages, found.quarantine_open) == (3, 4, 2, 4)
    assert (found.held, found.held_share, found.held_since) == (2, 1.0, _NOW - timedelta(hours=2))
    assert found.last_publish is not None
    assert found.lag_seconds == pytest.approx((_NOW - found.last_publish).total_seconds(), abs=0.01)
    assert found.files is not None
    assert (found.files.data_files, found.files.snapshots) == (2, 2)
    assert found.mirror_snapshot is not None
    assert found.error is None


def test_maintenance_is_no_publish(tmp_path: Path) -> None:
    """It repeats the newest marker, later; the newest batch was published when its first snapshot was made."""
    config = _config(tmp_path)
    lake = open_writer(tmp_path / "lake")
    lake.create_namespace("public")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    mirror = lake.create_table("public.orders", schema=rows.schema)
    for batch in ("m1", "m2", "m2"):
        mirror.append(rows, snapshot_properties=_marker(7, batch))
    published, repeated = sorted(snapshot.timestamp_ms for snapshot in mirror.metadata.snapshots)[1:]
    found = read_status(config, _NOW, ["public.orders"]).tables[0]
    lake.engine.dispose()

    assert found.last_publish is not None
    assert published < repeated
    assert int(found.last_publish.timestamp() * 1000) == published
    assert found.mirror_snapshot == mirror.metadata.current_snapshot_id


@pytest.mark.parametrize(("times", "seconds"), [({0: 5, 1: 3}, 60.0), ({}, None)])
def test_the_lag_is_the_age_of_the_newest_change_in_the_mirror(
    tmp_path: Path, times: dict[int, int], seconds: float | None
) -> None:
    """As the source tells it; while a backlog is worked off the last publish is always a moment ago."""
    config = _config(tmp_path)
    lake = open_writer(tmp_path / "lake")
    lake.create_namespace("public")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    ago = {partition: int((_NOW - timedelta(minutes=6 - at)).timestamp() * 1e6) for partition, at in times.items()}
    marker = Marker("shop", "m1", _TOPIC, None, Offsets({0: 7}), {}, None, None, {}, times=ago)
    lake.create_table("public.orders", schema=rows.schema).append(rows, snapshot_properties=marker.to_summary())
    found = read_status(config, _NOW, ["public.orders"]).tables[0]
    lake.engine.dispose()

    assert found.last_publish is not None
    since_publish = (_NOW - found.last_publish).total_seconds()
    assert found.lag_seconds == pytest.approx(since_publish if seconds is None else seconds, abs=0.01)


@pytest.mark.parametrize(("promised", "late"), [("{value: 1, unit: s}", True), ("{value: 90000, unit: d}", False)])
def test_a_table_that_is_later_than_its_contract_promises_is_told(
    filled: Filled,
    tmp_path: Path,
    promised: str,
    late: bool,  # noqa: FBT001 - what is expected
) -> None:
    """The freshness of the contract is compared with how far the mirror is behind its source."""
    path = tmp_path / "orders.yaml"
    path.write_text(HEAD + f"slaProperties: [{{property: freshness, {promised[1:]}]\n", encoding="utf-8")
    tables = [table.model_copy(update={"contract": path}) for table in filled.config.tables]

    found = read_status(filled.config.model_copy(update={"tables": tables}), _NOW, ["public.orders"]).tables[0]

    assert found.late == late
    assert found.freshness_seconds is not None


def test_a_snapshot_of_maintenance_is_no_publish(filled: Filled) -> None:
    """The last publish is when the newest marked snapshot was made."""
    found = read_status(filled.config, _NOW, ["public.orders"]).tables[0]
    marked = filled.lake.load_table("public.orders").metadata.snapshots[0]

    assert found.mirror_snapshot == marked.snapshot_id


def test_a_table_that_was_never_run_has_all_of_its_topic_to_go(tmp_path: Path) -> None:
    """Nothing is there yet, and that is no error."""
    found = read_status(_config(tmp_path), _NOW, ["public.orders"]).tables[0]

    assert (found.rows, found.published, found.lag_messages, found.lag_seconds) == (None, {}, 7, None)
    assert found.error is None


@pytest.mark.parametrize(
    ("left", "code"),
    [(range(3, 8), "OFFSET_REGRESSION"), (range(1), "OFFSET_REGRESSION"), (range(11, 14), "OFFSET_GAP")],
)
def test_a_topic_that_was_cut_or_made_again_has_no_lag_but_an_error(tmp_path: Path, left: range, code: str) -> None:
    """It was told as lag 0 and not late; raw has got to 9, and the run stops."""
    config = _config(tmp_path)
    lake = open_writer(tmp_path / "lake")
    _fill(lake)
    lake.engine.dispose()
    _record(tmp_path / "recorded", _TOPIC, left)
    contract = tmp_path / "orders.yaml"
    contract.write_text(HEAD + "slaProperties: [{property: freshness, value: 1, unit: s}]\n", encoding="utf-8")
    tables = [table.model_copy(update={"contract": contract}) for table in config.tables]

    found = read_status(config.model_copy(update={"tables": tables}), _NOW, ["public.orders"]).tables[0]

    assert (found.published, found.ends) == ({"0": 7}, {"0": left.stop})
    assert (found.lag_messages, found.lag_seconds, found.late) == (None, None, None)
    assert found.error is not None
    assert found.error.code == code


def test_a_missing_topic_is_that_tables_error(filled: Filled) -> None:
    """The other table is told as ever, and the command ends well."""
    found = read_status(filled.config, _NOW)
    orders, gone = found.tables

    assert orders.error is None
    assert gone.error is not None
    assert gone.error.code == "TopicMissing"
    assert exit_code(found) == EXIT_DONE


def test_a_mirror_stays_that_of_the_topic_that_it_is_filled_from(filled: Filled) -> None:
    """Where another one of the glob would go to it too, that one is told; what is asked for by name is told alone."""
    globs = filled.config.model_copy(update={"tables": [TableConfig(topic="*.public.orders")]})
    other = filled.config.root / "recorded" / "crm.public.orders.jsonl"
    other.touch()
    try:
        found = read_status(globs, _NOW)
        named = read_status(globs, _NOW, ["public.orders"])
        assert [str(table.mirror) for table in configured_tables(globs, (), refuse=False)] == ["public.orders"]
        with pytest.raises(ConfigError, match="would both go to the mirror"):
            configured_tables(globs, ())
    finally:
        other.unlink()

    told = [(table.table, table.error.code if table.error else None) for table in found.tables]
    assert told == [("public.orders", None), ("crm.public.orders", "ConfigError")]
    assert [table.table for table in named.tables] == ["public.orders"]


def test_without_its_source_a_table_still_tells_what_it_holds(filled: Filled) -> None:
    """The ends are not known, the rest is."""
    found = read_status(_config(filled.config.root, "moved.yaml", source="moved"), _NOW)

    assert found.tables[0].published == {"0": 7}
    assert (found.tables[0].ends, found.tables[0].lag_messages) == (None, None)
    assert found.tables[0].error is not None
    assert exit_code(found) == EXIT_DONE


def test_a_name_that_no_table_has_names_the_nearest(tmp_path: Path) -> None:
    """A typing mistake is told as one."""
    with pytest.raises(ConfigError, match=r"no table public\.order in pipeline\.yaml\. Did you mean public\.orders\?"):
        configured_tables(_config(tmp_path), ["public.order"])


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
        ([TableVerify(table="a", topic="t", equal=False, repaired_snapshot=7)], EXIT_DONE),
        (
            [
                TableVerify(
                    table="a",
                    topic="t",
                    equal=False,
                    repaired_snapshot=7,
                    error=ErrorInfo(code="DifferenceFound", message="x"),
                )
            ],
            EXIT_DIFFERENCE,
        ),
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
    """A difference that was not repaired is 8, unless a table could not be compared for a reason of its own."""
    assert exit_code_of(VerifyReport(pipeline="p", tables=tables)) == code


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"equal": True}, EXIT_DONE),
        ({"equal": False}, EXIT_DIFFERENCE),
        ({"equal": True, "types": [RebuiltType(column="a", old="int", new="bigint")]}, EXIT_DIFFERENCE),
        ({"equal": True, "added": ["a"]}, EXIT_DIFFERENCE),
        ({"equal": True, "held_live": {"CONTRACT a": 1}}, EXIT_DIFFERENCE),
        ({"equal": True, "held_live": {"CONTRACT a": 1}, "held_rebuilt": {"CONTRACT a": 1}}, EXIT_DONE),
        ({"equal": True, "told_rebuilt": {"a": 1}}, EXIT_DONE),
        ({"equal": False, "added": ["a"], "published": True}, EXIT_DONE),
        ({"rolled_back": True}, EXIT_DONE),
        ({"forgotten": True}, EXIT_DONE),
        ({"equal": True, "error": ErrorInfo(code="CONTRACT", message="x")}, EXIT_BLOCKED),
    ],
)
def test_a_replay_ends_with_8_where_publishing_would_change_something(told: dict[str, Any], code: int) -> None:
    """Rows, columns or what is held; not what is only told of rows that both have."""
    entry = TableReplay(table="a", topic="t", **told)

    assert exit_code_of_replay(ReplayReport(pipeline="p", tables=[entry])) == code
