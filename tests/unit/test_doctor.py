"""`cdcm doctor`: what it finds in a set-up, how it says to mend it, and what it ends with."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.cli import main
from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.contract.model import Limit
from cdc_materializer.doctor.doctor import examine, exit_code
from cdc_materializer.doctor.tables import _made_otherwise, check_rows, check_table
from cdc_materializer.doctor.topics import check_compacted
from cdc_materializer.errors import (
    EXIT_BLOCKED,
    EXIT_DIFFERENCE,
    EXIT_DONE,
    EXIT_LAKE,
    EXIT_REWOUND,
    EXIT_SOURCE,
    EXIT_USAGE,
    SourceUnavailable,
)
from cdc_materializer.marker.marker import GENESIS_TAG, Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets
from cdc_materializer.recognise import NO_REGISTRY, UNKNOWN_SCHEMA, recognise
from cdc_materializer.report.models import ErrorInfo, TableVerify, VerifyReport
from cdc_materializer.report.setup_models import DoctorCheck, DoctorReport
from cdc_materializer.source import Message, TopicState
from cdc_materializer.source_settings import doubts
from cdc_materializer.testing import (
    MemoryRegistry,
    ScriptedSource,
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.cases.protobuf import proto_bytes, proto_text
from tests.unit.javas import make_java
from tests.unit.lakes import open_writer

if TYPE_CHECKING:
    from tests.unit.conftest import Fresh

_ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
_KEY_SCHEMA = connect_key_schema("s.t", {"id": {"type": "int64", "optional": False}})
_KEY = debezium_json({"id": 1}, _KEY_SCHEMA)
#: How far raw and mirror of each table got; the topics begin at 3 and end at 10.
_REACHED = {
    "well": (9, 7),
    "gap": (2, None),
    "rewound": (50, None),
    "ahead": (7, 9),
    "foreign": (9, 9),
    "stopped": (9, None),
    "held": (9, None),
    "blocked": (9, None),
    "full": (9, None),
    "unjudged": (9, None),
    "moved": (9, None),
    "loose": (9, 9),
    "meddled": (9, 9),
    "garbled": (9, 9),
    "orphaned": (9, 9),
}
_TABLES = (*_REACHED, "unmarked", "unreadable", "new")


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A machine with Java 17 and no libraries yet."""
    home = tmp_path_factory.mktemp("machine")
    make_java(home)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.delenv("CDCM_JARS", raising=False)


def _value(columns: dict[str, Any]) -> bytes:
    row = dict.fromkeys(columns)
    return debezium_json(debezium_envelope("c", None, {**row, "id": 1}), connect_envelope_schema("s.t", columns))


def _pipeline(root: Path, names: Sequence[str], more: str = "") -> Path:
    """Write a pipeline of recorded topics, one a name."""
    (root / "recorded").mkdir(exist_ok=True)
    for name in names:
        topic = TopicBuilder(f"s.public.{name}", first_offset=3)
        for _ in range(7):
            topic.add(_KEY, _value({"id": {"type": "int64", "optional": False}}))
        topic.write(root / "recorded")
    tables = ", ".join(f"{{topic: s.public.{name}}}" for name in names)
    path = root / "pipeline.yaml"
    path.write_text(f"name: shop\nsource: {{files: recorded}}\n{more}tables: [{tables}]\n", encoding="utf-8")
    return path


def _marker(name: str, offset: int) -> Marker:
    return Marker("shop", f"b{offset}", f"s.public.{name}", "one", Offsets({0: offset}), {}, None, None, {})


def _fill(lake: SqlCatalog) -> None:
    """Make each table with the fault that it is named after."""
    lake.create_namespace("public")

    def append(table: str, marker: dict[str, str] | None, rows: pa.Table = _ROWS) -> None:
        lake.create_table_if_not_exists(f"public.{table}", schema=rows.schema).append(rows, marker or {})

    for name, (raw, mirror) in _REACHED.items():
        pipeline = "other" if name == "moved" else "shop"
        append(f"{name}__raw", replace(_marker(name, raw), pipeline=pipeline).to_summary())
        if mirror is not None:
            held = "another one" if name == "orphaned" else None
            append(name, replace(_marker(name, mirror), held_table=held).to_summary())
    append("foreign", None)
    append("unmarked__raw", None)
    append("unreadable__raw", {**_marker("unreadable", 9).to_summary(), "cdcm.version": "99"})
    for name, code in (("stopped", "POSITION_REGRESSION"), ("held", "CONTRACT")):
        append(f"{name}__quarantine", _marker(name, 9).to_summary(), _quarantined(code, action="hold"))
    for name, action, rule in (("blocked", "stop", "no-loss"), ("full", "stop", "max_quarantined"),
                               ("unjudged", "unjudged", "no-loss")):  # fmt: skip
        append(f"{name}__quarantine", _marker(name, 9).to_summary(), _quarantined("CONTRACT", action=action, rule=rule))
    released = _quarantined("CONTRACT", action="hold").slice(1)
    append("loose__quarantine", None, released)
    for marker in (_marker("meddled", 9).to_summary(), None):
        append("meddled__quarantine", marker, released)
    append("garbled__history", {**_marker("garbled", 9).to_summary(), "cdcm.offsets": "{}}"})


def _quarantined(code: str, *, action: str, rule: str | None = None) -> pa.Table:
    rules = pa.array([rule] * 2, pa.string())
    return pa.table({"code": [code] * 2, "status": ["open", "released"], "action": [action] * 2, "rule": rules})


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Config, DoctorReport]]:
    """A pipeline of tables that each have one fault, and what the doctor says of it."""
    root = tmp_path_factory.mktemp("examined")
    writer = open_writer(root / "lake")
    _fill(writer)
    path = _pipeline(root, _TABLES)
    yield load_config(path), examine(path, load_config)
    writer.engine.dispose()


def _faults(found: DoctorReport, table: str) -> list[DoctorCheck]:
    return [check for check in found.checks if check.table == f"public.{table}" and check.outcome != "ok"]


@pytest.mark.parametrize(
    ("table", "outcome", "ends", "said", "do"),
    [
        ("gap", "problem", EXIT_REWOUND, "up to 1 messages are lost", "`cdcm adopt TABLE`"),
        ("rewound", "problem", EXIT_REWOUND, "the partition ends at offset 10", "`cdcm adopt TABLE`"),
        ("ahead", "problem", EXIT_LAKE, "ahead of raw in partition 0 (9 past 7)", "Restore raw"),
        ("unmarked", "problem", EXIT_LAKE, "has rows and no marker", "another `mirror`"),
        ("unreadable", "problem", EXIT_LAKE, "has version 99", "newer version"),
        ("stopped", "problem", EXIT_REWOUND, "POSITION_REGRESSION has stopped", "`cdcm adopt public.stopped`"),
        ("blocked", "problem", EXIT_BLOCKED, "rule no-loss blocks the newest batch", "mend the data or the rule"),
        ("full", "problem", EXIT_BLOCKED, "than the contract allows.", "`cdcm report --table public.full`"),
        (
            "unjudged",
            "problem",
            EXIT_BLOCKED,
            "rule no-loss cannot be judged and blocks",
            "public.unjudged`, mend the rule",
        ),
        ("foreign", "warning", 0, "changed by 1 commit of another program", "`cdcm verify`"),
        ("loose", "problem", EXIT_LAKE, "public.loose__quarantine has rows and no marker", "`cdcm replay public.loose"),
        ("meddled", "warning", 0, "public.meddled__quarantine was changed by 1 commit of another", "`cdcm verify`"),
        ("garbled", "problem", EXIT_LAKE, "The marker of public.garbled__history cannot be read", "by hand"),
        ("orphaned", "problem", EXIT_LAKE, "The quarantine of public.orphaned is gone", "`cdcm replay public.orphaned"),
        ("held", "warning", 0, "Open violations: CONTRACT × 1", "`cdcm report`"),
        ("moved", "warning", 0, "written by the pipeline other", "earlier name"),
    ],
)
def test_what_is_wrong_with_a_table_is_told_with_a_remedy(
    examined: tuple[Config, DoctorReport], table: str, outcome: str, ends: int, said: str, do: str
) -> None:
    """Each fault once, with the exit code of a run that meets it."""
    (fault,) = _faults(examined[1], table)

    assert (fault.outcome, fault.exit_code) == (outcome, ends)
    assert said in fault.message
    assert do in (fault.do or "")


def test_a_follower_that_publishes_meanwhile_is_no_fault(tmp_path: Path) -> None:
    """Raw is looked at last, as what follows it cannot be ahead of it then."""
    writer = open_writer(tmp_path / "lake")
    writer.create_namespace("public")
    for name, offset in (("live__raw", 5), ("live", 5)):
        writer.create_table(f"public.{name}", schema=_ROWS.schema).append(_ROWS, _marker("live", offset).to_summary())
    config = load_config(_pipeline(tmp_path, ("live",)))
    lake, looks = open_tables(config.catalog), list[str]()
    lines_of = lake.lines_of

    def publishing(name: TableName) -> tuple[SnapshotLine, ...]:
        looks.append(str(name))
        if len(looks) == 2:
            for each in ("live__raw", "live"):
                writer.load_table(f"public.{each}").append(_ROWS, _marker("live", 9).to_summary())
        return lines_of(name)

    lake.lines_of = publishing  # type: ignore[method-assign]
    state = TopicState("s.public.live", "one", Offsets({0: 3}), Offsets({0: 10}))
    found = [*check_table("shop", config.tables[0], lake, state)]
    writer.engine.dispose()

    assert [check.outcome for check in found] == ["ok"], found


@pytest.mark.parametrize(
    ("began", "said"), [(1, []), (3, ["4 messages, of 2 offsets that were read: some are there twice."]), (None, [])]
)
def test_messages_that_are_there_twice_are_told_by_the_tag_of_raws_first_snapshot(
    tmp_path: Path, began: int | None, said: list[str]
) -> None:
    """It is kept when all between is expired, so that the line does not reach it; raw got to offset 5."""
    writer = open_writer(tmp_path / "lake")
    writer.create_namespace("public")
    raw = writer.create_table("public.twice__raw", schema=_ROWS.schema)
    raw.append(pa.concat_tables([_ROWS, _ROWS]), _marker("twice", 5).to_summary())
    if began is not None:
        raw.manage_snapshots().create_branch(raw.refs()["main"].snapshot_id, "aside").commit()
        raw.append(_ROWS.slice(2), _marker("twice", began).to_summary(), branch="aside")
        raw.manage_snapshots().create_tag(raw.refs()["aside"].snapshot_id, GENESIS_TAG).commit()
    config = load_config(_pipeline(tmp_path, ("twice",)))
    state = TopicState("s.public.twice", "one", Offsets({0: 3}), Offsets({0: 10}))
    found = [*check_table("shop", config.tables[0], open_tables(config.catalog), state)]
    writer.engine.dispose()

    told = [check.message for check in found if "twice__raw has" in check.message]
    assert told == [f"public.twice__raw has {what}" for what in said], found


@pytest.mark.parametrize("table", ["well", "new"])
def test_a_table_that_is_well_has_no_fault(examined: tuple[Config, DoctorReport], table: str) -> None:
    """With progress, or before the first run."""
    assert not _faults(examined[1], table)


_KEYED = Schema(
    NestedField(1, "a", LongType(), required=True),
    NestedField(2, "b", StringType(), required=True),
    NestedField(3, "value", LongType()),
    identifier_field_ids=[1, 2],
)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(1, "x", 1), (1, "y", 1), (2, "x", None)], []),
        ([], []),
        ([(1, "x", 1), (1, "x", 2), (2, "x", 1), (2, "x", 1), (3, "x", 1)], ["More than one row: 2 keys of public.t."]),
    ],
)
def test_keys_are_looked_through_when_asked(
    tmp_path: Path, rows: list[tuple[int, str, int | None]], said: list[str]
) -> None:
    """Each has one row; what to do otherwise is said, and nothing but the keys is read."""
    writer = open_writer(tmp_path / "lake")
    writer.create_namespace("public")
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    types = (pa.int64(), pa.string(), pa.int64())
    schema = pa.schema([pa.field(n, t, n == "value") for n, t in zip(["a", "b", "value"], types, strict=True)])
    found = pa.table([pa.array(list(c), t) for c, t in zip(columns, types, strict=True)], schema=schema)
    writer.create_table("public.t", schema=_KEYED).append(found)
    writer.engine.dispose()
    path = _pipeline(tmp_path, ("t",))

    asked = [check for check in examine(path, load_config, rows=True).checks if "row" in check.message]
    unasked = [check for check in examine(path, load_config).checks if "each with a key" in check.message]

    told = [check for check in asked if check.outcome == "problem" and "More than one row" in check.message]
    assert [check.message for check in told] == said
    assert [(check.exit_code, "--repair" in (check.do or "")) for check in told] == [(EXIT_LAKE, True)] * len(said)
    assert any(f"{len(rows)} row" in check.message for check in asked if check.name == "rows") == (not said)
    assert unasked == []


def test_a_mirror_whose_file_is_gone_is_told(tmp_path: Path) -> None:
    """Nothing that readers see may be deleted, least of all while nobody knows whether a commit has happened."""
    writer = open_writer(tmp_path / "lake")
    writer.create_namespace("public")
    told = (("a", pa.int64()), ("b", pa.string()), ("value", pa.int64()))
    schema = pa.schema([pa.field(name, kind, nullable=name == "value") for name, kind in told])
    writer.create_table("public.t", schema=_KEYED).append(pa.table([[1], ["x"], [1]], schema=schema))
    writer.engine.dispose()
    path = _pipeline(tmp_path, ("t",))
    for file in (tmp_path / "lake").rglob("*.parquet"):
        file.unlink()

    (fault,) = [check for check in examine(path, load_config, rows=True).checks if check.name == "rows"]

    assert (fault.outcome, fault.exit_code, fault.table) == ("problem", EXIT_LAKE, "public.t")


def test_mirrors_are_held_against_what_raw_gives_when_asked(tmp_path: Path) -> None:
    """As `verify` does it: one that is equal, one that differs, and one of which nobody can tell."""
    same = TableVerify(table="public.a", topic="a", equal=True, messages=7)
    other = TableVerify(table="public.b", topic="b", equal=False, missing=1, different=2)
    failed = TableVerify(
        table="public.c", topic="c", equal=False, error=ErrorInfo(code="TopicMissing", message="Gone.")
    )
    report = VerifyReport(pipeline="p", tables=[same, other, failed])

    found = examine(_pipeline(tmp_path, ("t",)), load_config, fold=lambda _: report)

    told = [(check.outcome, check.message, check.exit_code) for check in found.checks if check.name == "fold"]
    assert told == [
        ("ok", "Equal to the fold of 7 messages.", 0),
        ("problem", "3 keys of public.b differ from what raw gives.", EXIT_DIFFERENCE),
        ("problem", "TopicMissing: Gone.", EXIT_SOURCE),
    ]
    assert not any(check.name == "fold" for check in examine(tmp_path / "p.yaml", load_config).checks)


def test_rows_without_a_whole_key_are_told() -> None:
    """Iceberg's own writers let none through; others may."""
    keys = pa.table({"a": pa.array([1, None, 3]), "b": pa.array(["x", "y", None])})
    schema: Any = SimpleNamespace(identifier_field_names=lambda: {"a", "b"})
    mirror: Any = SimpleNamespace(schema=lambda: schema)
    lake: Any = SimpleNamespace(load=lambda _: mirror, rows=lambda *_: keys)
    table = TableConfig.model_validate({"topic": "s.public.t", "mirror": "public.t"})

    (fault,) = check_rows(table, lake)

    assert (fault.outcome, fault.exit_code) == ("problem", EXIT_LAKE)
    assert "No whole key: 2 rows of public.t." in fault.message


def test_the_worst_problem_decides_the_exit_code(examined: tuple[Config, DoctorReport]) -> None:
    """Lost source data comes before a lake that is broken."""
    assert exit_code(examined[1]) == EXIT_REWOUND


def test_a_topic_that_was_made_again_is_noticed_by_its_id(examined: tuple[Config, DoctorReport]) -> None:
    """As long as it was, and all the same another one."""
    config = examined[0]
    table = config.tables[0]
    state = TopicState(table.topic, "two", Offsets({0: 3}), Offsets({0: 10}))

    found = [*check_table("shop", table, open_tables(config.catalog), state)]

    (fault,) = [check for check in found if check.outcome != "ok"]
    assert fault.exit_code == EXIT_REWOUND
    assert "made again" in fault.message
    assert "`cdcm adopt public.well`" in (fault.do or "")


def test_a_topic_of_which_a_run_has_landed_more_meanwhile_is_no_other_one(
    examined: tuple[Config, DoctorReport],
) -> None:
    """It was asked for its end before raw was looked at."""
    table, lake = examined[0].tables[0], open_tables(examined[0].catalog)
    raw = lake.marker_of(table.mirror.raw)
    assert raw is not None
    now, before = (
        TopicState(table.topic, raw.topic_id, Offsets(dict.fromkeys(raw.offsets, 0)), ends)
        for ends in (raw.offsets, Offsets({p: at - 1 for p, at in raw.offsets.items()}))
    )
    source: Any = SimpleNamespace(state=lambda _: now)

    faults = [[*check_table("shop", table, lake, before, None, one)] for one in (source, None)]

    assert ["OFFSET_REGRESSION" in str(found) for found in faults] == [False, True]


@pytest.mark.parametrize(
    ("kept", "passed", "ends", "outcomes"),
    [
        (timedelta(days=1), timedelta(hours=25), 10, ["warning"]),
        (timedelta(days=1), timedelta(hours=23), 10, ["ok"]),
        # Nothing is waiting, so nothing was missed.
        (timedelta(days=1), timedelta(days=9), 9, ["ok"]),
        (None, timedelta(days=9), 10, []),
    ],
)
def test_a_compacted_topic_whose_deletes_may_be_gone_unread_is_told(
    examined: tuple[Config, DoctorReport], kept: timedelta | None, passed: timedelta, ends: int, outcomes: list[str]
) -> None:
    """A broker takes deletes away after a while, and who reads later finds no trace of them."""
    table, lake = examined[0].tables[0], open_tables(examined[0].catalog)
    state = TopicState(table.topic, "one", Offsets({0: 3}), Offsets({0: ends}))
    source: Any = SimpleNamespace(state=lambda _: state, deletes_kept=lambda _: kept)
    landed = lake.lines_of(table.mirror.raw)[0].at

    found = [*check_compacted(table, lake, state, source, landed + passed)]

    assert [check.outcome for check in found] == outcomes
    assert all("keeps a delete for 24 h" in check.message for check in found)
    assert all("snapshot_sweep" in (check.do or "") for check in found if check.outcome == "warning")


@pytest.mark.parametrize(("settings", "outcomes"), [({"key": ("id",)}, ["warning", "ok"]), ({}, ["ok"])])
def test_a_compacted_topic_whose_tombstones_name_no_row_is_told(
    examined: tuple[Config, DoctorReport], settings: dict[str, Any], outcomes: list[str]
) -> None:
    """With `key` the key of a message is not the row's, and a tombstone has nothing else."""
    table, lake = examined[0].tables[0].model_copy(update=settings), open_tables(examined[0].catalog)
    state = TopicState(table.topic, "one", Offsets({0: 3}), Offsets({0: 3}))
    source: Any = SimpleNamespace(state=lambda _: state, deletes_kept=lambda _: timedelta(days=1))

    found = [*check_compacted(table, lake, state, source, datetime.now(UTC))]

    assert [check.outcome for check in found] == outcomes
    assert all("`key`" in check.message for check in found if check.outcome == "warning")


def test_a_broker_that_does_not_tell_of_compaction_is_no_fault(examined: tuple[Config, DoctorReport]) -> None:
    """A run needs no right to ask for it; and a first run reads whatever is there."""
    table, lake = examined[0].tables[0], open_tables(examined[0].catalog)
    state = TopicState(table.topic, "one", Offsets({0: 3}), Offsets({0: 10}))
    source = ScriptedSource()
    source.create(table.topic)
    source.compact(table.topic, keeps_deletes=timedelta(hours=1))
    source.refuse(SourceUnavailable("The broker does not let this user ask.", "Allow it."))

    unasked = [*check_compacted(table, lake, state, source, datetime(2100, 1, 1, tzinfo=UTC))]
    first = [*check_compacted(table, None, state, source, datetime(2100, 1, 1, tzinfo=UTC))]

    assert unasked == []
    assert [(check.outcome, "for 60 min" in check.message) for check in first] == [("ok", True)], first


def test_a_column_that_is_called_always_known_and_is_not_there_is_told(examined: tuple[Config, DoctorReport]) -> None:
    """What the setting was to say of a column is not done for it; names count as they are written."""
    config = examined[0]
    table = config.tables[0].model_copy(update={"always_known": ("id", "ID", "notes")})

    found = [*check_table("shop", table, open_tables(config.catalog), None)]

    told = [(check.outcome, check.message, check.do) for check in found if check.name == "settings"]
    assert told == [
        ("warning", "`always_known` names ID, and public.well has no column of that name.", "Did you mean id?"),
        (
            *("warning", "`always_known` names notes, and public.well has no column of that name."),
            "Leave it out, or write it as the mirror does.",
        ),
    ]


@pytest.mark.parametrize(
    ("asked", "said"), [((), []), (("id",), ["public.well is partitioned by nothing, and `partitioned_by` says id."])]
)
def test_a_mirror_that_is_partitioned_otherwise_than_the_file_says_is_told(
    examined: tuple[Config, DoctorReport], asked: tuple[str, ...], said: list[str]
) -> None:
    """The setting is for a new mirror: changed later it does nothing, and nobody would notice."""
    config = examined[0]
    table = config.tables[0].model_copy(update={"partitioned_by": asked})

    found = [*check_table("shop", table, open_tables(config.catalog), None)]

    assert [check.message for check in found if check.name == "settings"] == said


@pytest.mark.parametrize(
    ("settings", "outcome", "said"),
    [
        ({}, None, ""),
        ({"readers": ("trino",)}, None, ""),
        ({"readers": ("trino", "athena")}, "problem", "made in a way that athena cannot read"),
        ({"properties": {"write.delete.mode": "merge-on-read", "format-version": "3"}}, None, ""),
        ({"properties": {"write.target-file-size-bytes": "1"}}, "warning", "other values of write.target-file-size"),
        ({"sorted_by": ("id desc nulls last",)}, None, ""),
        ({"sorted_by": ("name", "bucket(4, id)")}, "warning", "is sorted by id, and `sorted_by` says name, id."),
    ],
    ids=str,
)
def test_a_mirror_that_was_made_otherwise_than_the_file_says_is_told(
    examined: tuple[Config, DoctorReport], settings: dict[str, Any], outcome: str | None, said: str
) -> None:
    """These settings are for a new mirror: later they do nothing, and a reader that fails does not say why."""
    table = examined[0].tables[0].model_copy(update=settings)
    mirror = SimpleNamespace(
        properties={"write.delete.mode": "merge-on-read"},
        format_version=3,
        schema=lambda: SimpleNamespace(find_column_name={1: "id", 2: "name"}.get),
        sort_order=lambda: SimpleNamespace(fields=[SimpleNamespace(source_id=1)]),
    )
    lake: Any = SimpleNamespace(load=lambda _: mirror)

    told = [*_made_otherwise(table, lake)]

    assert [check.outcome for check in told] == ([outcome] if outcome else [])
    assert all(said in check.message for check in told)
    assert [check.exit_code for check in told if check.outcome == "problem"] == ([2] if outcome == "problem" else [])


@pytest.mark.parametrize(
    ("limit", "counts", "said"),
    [
        (
            Limit(Decimal(5), is_share=True),
            {"quarantined": 3, "read": 100},
            "held 3 of its 100 messages; with more than",
        ),
        (Limit(Decimal(5), is_share=True), {"quarantined": 2, "read": 100}, None),
        (Limit(Decimal(10)), {"quarantined": 6, "read": 6}, "held 6 of its 6 messages; with more than 10 it stops."),
        (Limit(Decimal(10)), {"quarantined": 5, "read": 6}, None),
        (Limit(Decimal(0)), {"quarantined": 0, "read": 0}, None),
        (None, {"quarantined": 6, "read": 6}, None),
    ],
    ids=str,
)
def test_a_batch_that_held_more_than_half_of_what_may_be_held_is_told(
    tmp_path: Path, limit: Limit | None, counts: dict[str, int], said: str | None
) -> None:
    """Before the limit stops the table."""
    lake = open_writer(tmp_path / "lake")
    lake.create_namespace("public")
    for name in ("well__raw", "well"):
        marker = replace(_marker("well", 7), counts=counts if name == "well" else {}).to_summary()
        lake.create_table_if_not_exists(f"public.{name}", schema=_ROWS.schema).append(_ROWS, marker)
    lake.engine.dispose()
    config = load_config(_pipeline(tmp_path, ["well"]))

    found = [*check_table("shop", config.tables[0], open_tables(config.catalog), None, limit)]

    told = [check.message for check in found if check.outcome == "warning" and check.name == "quarantine"]
    assert [said in message for message in told if said] == ([True] if said else [])
    assert len(told) == (said is not None)


@pytest.mark.parametrize(
    ("more", "ends", "faulty"),
    [
        ("", EXIT_DONE, set()),
        ("registry: {files: gone}\n", EXIT_SOURCE, {"registry"}),
        ("catalog: {uri: 'jdbc:sqlite:recorded'}\n", EXIT_LAKE, {"catalog"}),
        ("defaults: {contract: gone.yaml}\n", EXIT_USAGE, {"contract"}),
        ("defaults: {contrakt: x}\n", EXIT_USAGE, {"configuration"}),
        ("spark: {spark.x: '${NOT_SET_ANYWHERE}'}\n", EXIT_USAGE, {"configuration"}),
    ],
)
def test_each_part_of_a_pipeline_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, ends: int, faulty: set[str]
) -> None:
    """What fails is a finding; the document has every check all the same."""
    path = _pipeline(tmp_path, ["orders"], more)

    assert main(["doctor", "-c", str(path), "--json"]) == ends
    told = json.loads(capsys.readouterr().out)
    problems = {check["name"] for check in told["checks"] if check["outcome"] == "problem"}
    assert problems == faulty
    assert told["healthy"] == (not faulty)
    assert all(check["do"] for check in told["checks"] if check["outcome"] != "ok")
    assert ("tables" in {check["name"] for check in told["checks"]}) == (not {"configuration", "catalog"} & faulty)


def test_a_secret_that_stands_in_the_file_is_told_by_its_setting(tmp_path: Path) -> None:
    """A warning, without the value; one that is named is none."""
    more = "registry: {url: 'http://127.0.0.1:9', basic_auth: {user: me, password: '%s'}}\n"
    (tmp_path / "password").write_text("hunter2")

    def told(password: str) -> list[DoctorCheck]:
        found = examine(_pipeline(tmp_path, ["orders"], more % password), load_config).checks
        return [check for check in found if check.name == "secrets"]

    assert told("${file:password}") == []
    (check,) = told("hunter2")
    assert check.outcome == "warning"
    assert check.message.endswith("has 1 secret as plain text: `registry.basic_auth.password`.")
    assert "`${NAME}`" in (check.do or "")
    assert "hunter2" not in check.model_dump_json()


def test_a_registry_that_is_down_is_not_taken_for_none(tmp_path: Path) -> None:
    """What is wrong is told once; of the topic that names schemas of it, that nobody has looked at its messages."""
    path = _pipeline(tmp_path, ["named", "plain"], "registry: {files: gone}\n")
    topic = TopicBuilder("s.public.named")
    topic.add(b"\0\0\0\0\1x", b"\0\0\0\0\2x")
    topic.write(tmp_path / "recorded")

    found = examine(path, load_config).checks

    assert [c.name for c in found if c.outcome == "problem"] == ["registry"]
    assert not [c for c in found if "no registry" in c.message]
    (told,) = (c for c in found if c.name == "topic" and c.outcome == "warning")
    assert (told.table, "the registry cannot be asked" in told.message) == ("public.named", True)
    assert [c.name for c in found if c.table == "public.named"] == ["topic", "tables"]


@pytest.mark.parametrize("settings", ["", "defaults: {key: [id]}\n"])
def test_a_topic_that_needs_a_registry_is_a_problem_where_there_is_none(tmp_path: Path, settings: str) -> None:
    """As a run would end, with what it says to do, whatever else is set; other topics need none."""
    path = _pipeline(tmp_path, ["named", "plain"], settings)
    topic = TopicBuilder("s.public.named")
    topic.add(b"\0\0\0\0\1x", b"\0\0\0\0\2x")
    topic.write(tmp_path / "recorded")

    found = examine(path, load_config)

    (told,) = (check for check in found.checks if check.outcome == "problem")
    assert (told.name, told.table, exit_code(found)) == ("topic", "public.named", EXIT_USAGE)
    assert told.message == f"s.public.named cannot be read: {NO_REGISTRY}."
    assert told.do is not None
    assert told.do.startswith("Add `registry:` with its `url`")


@pytest.mark.parametrize("settings", ["", "defaults: {key: [id]}\n"])
def test_a_topic_whose_schemas_the_registry_does_not_know_is_told(tmp_path: Path, settings: str) -> None:
    """Whatever else is set: its messages are held."""
    path = _pipeline(tmp_path, ["named", "plain"], f"{settings}registry: {{files: schemas}}\n")
    (tmp_path / "schemas").mkdir()
    topic = TopicBuilder("s.public.named")
    topic.add(b"\0\0\0\0\1x", b"\0\0\0\0\2x")
    topic.write(tmp_path / "recorded")

    found = examine(path, load_config).checks

    (told,) = (c for c in found if c.name == "topic" and c.table == "public.named" and c.outcome == "warning")
    assert told.message == f"s.public.named cannot be mirrored as it is: {UNKNOWN_SCHEMA}."
    assert told.do is not None
    assert told.do.startswith("Bring the schema to the registry")


def test_a_source_that_is_not_there_leaves_the_lake_to_be_checked(tmp_path: Path) -> None:
    """And a topic that is missing is the finding of its table."""
    path = _pipeline(tmp_path, ["orders"])
    (tmp_path / "recorded" / "s.public.orders.jsonl").unlink()
    missing = examine(path, load_config)
    (tmp_path / "recorded").rmdir()
    silent = examine(path, load_config)

    assert [(c.name, c.table) for c in missing.checks if c.outcome == "problem"] == [("topic", "public.orders")]
    assert [(c.name, c.table) for c in silent.checks if c.outcome == "problem"] == [("source", None)]
    assert "tables" in {check.name for check in silent.checks}
    assert exit_code(missing) == exit_code(silent) == EXIT_SOURCE


def test_a_machine_without_java_is_told_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the pipeline's own checks all the same."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    assert main(["doctor", "-c", str(_pipeline(tmp_path, ["orders"]))]) == EXIT_USAGE
    shown = capsys.readouterr().out
    assert "problem  Java: JAVA_HOME names a folder without bin/java" in shown
    assert "1 problem, 1 warning." in shown


def test_no_spark_is_needed(tmp_path: Path, fresh: "Fresh") -> None:
    """Nor what takes as long to import, where the lake is on this disk."""
    make_java(tmp_path / "java")
    code = (
        f"import os, sys; os.environ['JAVA_HOME'] = {str(tmp_path / 'java')!r};"
        "from cdc_materializer.cli import main; main(['doctor']);"
        "sys.exit(str({'pyspark', 'great_expectations', 'pyiceberg', 'pandas'} & sys.modules.keys()))"
    )

    assert fresh.run(code, folder=_pipeline(tmp_path, ["orders"]).parent).err.strip() == "set()"


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"type": "string", "optional": True, "default": "n/a"}, "a NULL in the database comes as that default"),
        ({"type": "string", "optional": True, "parameters": {"__debezium.source.column.type": "BYTEA"}}, "base64"),
        ({"type": "int64", "parameters": {"__debezium.source.column.type": "bigint unsigned"}}, "come negative"),
        ({"type": "string", "optional": False, "default": "n/a"}, None),
        ({"type": "bytes", "optional": True, "parameters": {"__debezium.source.column.type": "BYTEA"}}, None),
    ],
)
def test_settings_of_the_source_that_lose_values_are_doubted(column: dict[str, Any], said: str | None) -> None:
    """Only where the schema shows them: a column that cannot be NULL may have a default."""
    columns = {"id": {"type": "int64", "optional": False}, "c": {"optional": False, **column}}
    found = recognise("s.t", [Message(0, 0, _KEY, _value(columns))], None)

    assert found.reason is None
    told = [message for message, _ in doubts(found)]
    assert len(told) == (said is not None)
    assert all(message.startswith("Column c ") and (said or "") in message for message in told)


@pytest.mark.parametrize(
    ("added", "lacking"),
    [
        (["__lsn"], "`op`"),
        (["__source_sequence", "__source_ts_ms"], "`op`"),
        (["__op", "__commit_lsn"], "`source.change_lsn`"),
        (["__snapshot", "__commit_scn"], "`source.scn`"),
        (["__op", "__lsn"], "`source.ts_ms`"),
        (["__snapshot", "__lsn", "__ts_ms"], "`source.ts_ms`"),
        (["__op", "__lsn", "__source_ts_ms"], None),
        (["__snapshot", "__lsn", "__source_ts_us"], None),
        (["__op", "__commit_lsn", "__change_lsn", "__source_ts_ms"], None),
        (["__op", "__scn", "__commit_scn", "__source_ts_ms"], None),
        (["__op"], None),
        (["__table"], None),
    ],
)
def test_flattened_rows_whose_place_is_no_position_are_doubted(added: list[str], lacking: str | None) -> None:
    """Nobody sees it in the rows: only what is sent again after a crash, or behind a restore, shows what they lack."""
    fields = [{"field": name, "type": "string", "optional": True} for name in added]
    fields.append({"field": "id", "type": "int64", "optional": False})
    value = {"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1, **dict.fromkeys(added, "1")}}
    found = recognise("s.t", [Message(0, 0, _KEY, json.dumps(value).encode())], None)

    assert (found.reason, found.format) == (None, "debezium-flat")
    assert [do.split("Add ")[1].split(" to ")[0] for _, do in doubts(found)] == ([] if lacking is None else [lacking])


@pytest.mark.parametrize(("settings", "told"), [({}, 1), ({"whole_rows": True}, 0), ({"whole_rows": False}, 0)])
def test_documents_that_are_taken_for_whole_ones_are_told(settings: dict[str, Any], told: int) -> None:
    """Nothing in a flattened document says whether it shows all that it has."""
    fields = [{"field": name, "type": "string", "optional": True} for name in ("_id", "name", "__op")]
    value = {"schema": {"type": "struct", "fields": fields}, "payload": {"_id": "a", "name": "b", "__op": "c"}}
    found = recognise("s.t", [Message(0, 0, _KEY, json.dumps(value).encode())], None)
    table = TableConfig.model_validate({"topic": "s.t", "mirror": "s.t", "format": "debezium-flat", **settings})

    assert found.reason is None
    assert ["whole_rows" in do for _, do in doubts(found, table)] == [True] * told


@pytest.mark.parametrize(("nullables", "told"), [("none", 1), ("optional", 0), ("wrapper", 0)])
def test_messages_in_protobuf_that_cannot_tell_null_are_doubted(nullables: str, told: int) -> None:
    """A converter that was not told to keep NULL writes a zero for it."""
    columns = {"id": {"type": "int64", "optional": False}, "c": {"type": "int32", "optional": True}}
    registry = MemoryRegistry()
    octets = []
    for schema, datum in (
        (connect_key_schema("s.t", {"id": columns["id"]}), {"id": 1}),
        (connect_envelope_schema("s.t", columns), debezium_envelope("c", None, {"id": 1, "c": None})),
    ):
        text = proto_text(schema, nullables)
        number = registry.add(text, kind="PROTOBUF")
        octets.append(b"\0" + number.to_bytes(4) + b"\0" + proto_bytes(text, schema, datum))

    found = recognise("s.t", [Message(0, 0, *octets)], registry)

    assert (found.reason, found.encoding) == (None, "protobuf")
    assert found.schema.types == {"id": "bigint", "c": "int"}
    assert ["optional.for.nullables" in do for _, do in doubts(found)] == [True] * told
