"""Commands besides `run`, `replay` and `maintain`, and changes of columns, killed at their points and given again.

A third of the points take their turn in a run of the tests, by its `--randomly-seed`; all of them do with
CDCM_TESTS=all. Each command goes on with what the killed one before has left.
"""

import signal
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.adopt import Decision, adopt_table
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config
from cdc_materializer.errors import EXIT_REWOUND, UsageError
from cdc_materializer.lake.lake import Lake
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG
from cdc_materializer.marker.swapped import BEFORE_REPLAY
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.rebuild.fill import REFILL_BRANCH
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.rebuild.start import parse_start
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.report.models import ReleaseReport, TableVerify
from cdc_materializer.run.run import run_once
from cdc_materializer.session.session import beside
from cdc_materializer.testing import (
    EPOCH,
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
    write_recorded_topic,
)
from tests.spark.kills import chance, commit, is_killed, turn_of
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.passages import ALL
from tests.spark.processes import (
    CHANGES,
    MIRROR,
    TOPIC,
    WARNS,
    add_changes,
    content,
    pipeline,
    refs,
    run_process,
    what_is_broken,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]


def _is_sound(config: Config, spark: "SparkSession", *more: str) -> bool:
    """Whether every invariant holds, the mirror is the fold of raw, and no branch or tag is left."""
    kept = {"main", MARKER_TAG, GENESIS_TAG, *more}
    assert what_is_broken(config) == []
    assert all(found <= kept for found in refs(config).values())
    return verify_tables(config, spark).tables[0].equal


def _statuses(config: Config) -> list[tuple[int, str]]:
    return sorted((row["offset"], row["status"]) for row in content(config)[str(MIRROR.quarantine)])


def _delete(config: Config, spark: "SparkSession", table: TableName, condition: str) -> None:
    """Take rows away, as another engine would."""
    Lake(beside(spark, config), config.catalog.name).spark.sql(
        f"DELETE FROM {config.catalog.name}.{table} WHERE {condition}"
    )


# --- cdcm quarantine release
# ----------------------------------------------------------------------------------------------------


def _released(config: Config, spark: "SparkSession") -> ReleaseReport:
    return release_held(config, str(MIRROR), Wanted(), spark)


def test_a_release_that_was_killed_is_ended_by_the_next_one(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A run between takes nothing back. The change is applied once, and its history and its status told once."""
    points = (*commit("mirror")[:2], *commit("history"), "mirror.published", *commit("quarantine"))
    assert run_once(pipeline(tmp_path, records_max=100), spark).exit_code == 0
    config = pipeline(tmp_path, records_max=100, incompatible_schema="new_column")
    before = content(config)[str(MIRROR.history)]
    for point in turn_of(points, request):
        assert is_killed(monkeypatch, point, lambda: _released(config, spark)), point

        is_seen = points.index(point) >= points.index("mirror.published")
        is_told = point == "quarantine.published"
        assert what_is_broken(config) == []
        assert [row["id"] for row in content(config)[str(MIRROR)]] == [2, 3, 4, *([5] if is_seen else [])]
        assert _statuses(config)[2] == (8, "released" if is_told else "open")
        assert (run_once(config, spark).exit_code, len(_statuses(config))) == (0, 3)

    _released(config, spark)

    assert _statuses(config) == [(2, "superseded"), (5, "superseded"), (8, "released")]
    history = content(config)[str(MIRROR.history)]
    assert [row["offset"] for row in history if row["offset"] == 8] == [8]
    assert len(history) == len(before) + 1
    assert [(row["price"], row["price__string"]) for row in content(config)[str(MIRROR)]] == [
        *[(21, None), (30, None), (40, None), (None, "held for good")]
    ]
    assert _is_sound(config, spark)


@pytest.mark.parametrize("killed_runs", [0, 1])
def test_what_a_killed_release_has_kept_goes_where_its_message_is_held_again(
    killed_runs: int, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The setting that let it through is taken back, and a later change of the row comes; given anew it is late."""
    assert run_once(pipeline(tmp_path, records_max=100), spark).exit_code == 0
    kept = content(pipeline(tmp_path))[str(MIRROR.history)]
    letting = pipeline(tmp_path, incompatible_schema="new_column")
    assert is_killed(monkeypatch, "history.published", lambda: _released(letting, spark))
    left = content(letting)[str(MIRROR.history)]

    config, topic = pipeline(tmp_path, records_max=100), TopicBuilder(TOPIC)
    add_changes(topic, 0)
    _send(topic, COLUMNS, {"id": 5, "price": 50}, 900, days=1)
    topic.write(tmp_path / "recorded")
    for _ in range(killed_runs):
        assert is_killed(monkeypatch, "history.published", lambda: run_once(config, spark))
    assert run_once(config, spark).exit_code == 0

    history = [row for row in content(config)[str(MIRROR.history)] if row["offset"] >= len(CHANGES) - 1]
    assert (len(left), max(row["offset"] for row in left)) == (len(kept) + 1, len(CHANGES) - 1)
    assert [(row["offset"], row["before"], row["after"]["price"]) for row in history] == [(len(CHANGES), None, 50)]
    assert len(content(config)[str(MIRROR.history)]) == len(kept) + 1
    assert _is_sound(config, spark)


def test_what_a_release_has_published_stays_in_the_history_behind_a_replay(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """The replay folds raw in the one batch that the mirror began with, so that its last one has the same id."""
    assert run_once(pipeline(tmp_path, records_max=100), spark).exit_code == 0
    config, topic = pipeline(tmp_path, records_max=100, incompatible_schema="new_column"), TopicBuilder(TOPIC)
    assert _released(config, spark).released == 1
    kept = [row["offset"] for row in content(config)[str(MIRROR.history)]]
    assert replay_tables(config, (str(MIRROR),), ReplayOptions(publish=True), spark).tables[0].published

    add_changes(topic, 0)
    _send(topic, COLUMNS, {"id": 6, "price": 60}, 900, days=1)
    topic.write(tmp_path / "recorded")
    assert run_once(config, spark).exit_code == 0

    history = [row["offset"] for row in content(config)[str(MIRROR.history)]]
    assert len(CHANGES) - 1 in kept
    assert sorted(history) == sorted([*kept, len(CHANGES)])
    assert _is_sound(config, spark, BEFORE_REPLAY)


# --- cdcm verify --repair
# ----------------------------------------------------------------------------------------------------


def _repaired(config: Config, spark: "SparkSession") -> TableVerify:
    return verify_tables(config, spark, VerifyOptions(repair=True)).tables[0]


def test_a_repair_that_was_killed_is_ended_by_the_next_one(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Readers see the rows as they were or as they should be; what it warns of is noted once."""
    points = (*commit("mirror"), *commit("quarantine"))
    (tmp_path / "contract.yaml").write_text(WARNS, encoding="utf-8")
    config = pipeline(tmp_path, records_max=100, history=False, contract="contract.yaml")
    assert run_once(config, spark).exit_code == 0
    whole, held = content(config)[str(MIRROR)], len(_statuses(config))
    _delete(config, spark, MIRROR, "id = 3")
    damaged = content(config)[str(MIRROR)]
    for point in turn_of(points, request):
        assert is_killed(monkeypatch, point, lambda: _repaired(config, spark)), point

        is_seen = points.index(point) >= points.index("mirror.published")
        assert what_is_broken(config) == []
        assert content(config)[str(MIRROR)] == (whole if is_seen else damaged)
        assert len(_statuses(config)) == held + (point == "quarantine.published")
        if point == "mirror.staged":
            assert run_once(config, spark).exit_code == 0

    _repaired(config, spark)

    assert content(config)[str(MIRROR)] == whole
    assert len(_statuses(config)) == held + 1
    assert _is_sound(config, spark)


def test_what_each_repair_warns_of_is_noted_where_it_was_killed_before_that(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second repair at the place of the first is another one."""
    (tmp_path / "contract.yaml").write_text(WARNS, encoding="utf-8")
    config = pipeline(tmp_path, records_max=100, history=False, contract="contract.yaml")
    assert run_once(config, spark).exit_code == 0
    whole, held = content(config)[str(MIRROR)], len(_statuses(config))
    for number in (1, 2):
        _delete(config, spark, MIRROR, "id = 3")
        assert is_killed(monkeypatch, "mirror.published", lambda: _repaired(config, spark))
        assert len(_statuses(config)) == held + number - 1

        assert run_once(config, spark).exit_code == 0

        assert (content(config)[str(MIRROR)], len(_statuses(config))) == (whole, held + number)
    assert _is_sound(config, spark)


# --- cdcm adopt
# ----------------------------------------------------------------------------------------------------


def _adopt(config: Config, spark: "SparkSession") -> None:
    adopt_table(config, str(MIRROR), Decision("tests", EPOCH), spark)


@pytest.mark.parametrize("next_one", ["adopt", "run"])
def test_an_adoption_that_was_killed_is_ended_by_the_next_one(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_one: str
) -> None:
    """What is accepted stands in raw's marker once; the stop ends with it, or with the batch of the next run."""
    config = pipeline(tmp_path, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    write_recorded_topic(tmp_path / "recorded", TOPIC, topic.messages[:3])
    assert run_once(config, spark).exit_code == 0
    write_recorded_topic(tmp_path / "recorded", TOPIC, topic.messages[5:])
    assert run_once(config, spark).exit_code == EXIT_REWOUND
    assert (3, "open") in _statuses(config)
    for point in (*commit("raw"), *(commit("quarantine") if next_one == "adopt" else ())):
        assert is_killed(monkeypatch, point, lambda: _adopt(config, spark)), point
        assert ((3, "released") in _statuses(config)) == (point == "quarantine.published")

    again = run_once(config, spark)

    assert (again.exit_code, again.tables[0].read) == (0, 4)
    assert (3, "released") in _statuses(config)
    raw = open_tables(config.catalog).marker_of(MIRROR.raw)
    assert raw is not None
    assert [(one.what, one.lost) for one in raw.adopted] == [("gap", 2)]
    landed = content(config)[str(MIRROR.raw)]
    assert sorted(row["offset"] for row in landed) == [0, 1, 2, 5, 6, 7, 8]
    assert all(found == {"main", MARKER_TAG, GENESIS_TAG} for found in refs(config).values())
    assert verify_tables(config, spark).tables[0].equal


def test_a_new_epoch_is_begun_once_however_often_its_adoption_was_killed(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database went back; behind the commit that accepts it there is nothing left to accept."""
    config = pipeline(tmp_path, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 1)
    topic.write(tmp_path / "recorded")
    assert run_once(config, spark).exit_code == 0
    _send(topic, COLUMNS, {"id": 7, "price": 70}, 1, days=1)
    topic.write(tmp_path / "recorded")
    assert run_once(config, spark).exit_code == EXIT_REWOUND
    for point in commit("mirror"):
        assert is_killed(monkeypatch, point, lambda: _adopt(config, spark)), point
        assert what_is_broken(config) == []
    with pytest.raises(UsageError):
        _adopt(config, spark)

    assert run_once(config, spark).exit_code == 0

    marker = open_tables(config.catalog).marker_of(MIRROR)
    assert marker is not None
    assert ([one.what for one in marker.adopted], marker.epochs) == (["positions"], ({0: len(CHANGES)},))
    assert [row["price"] for row in content(config)[str(MIRROR)] if row["id"] == 7] == [70]
    assert all(status != "open" for offset, status in _statuses(config) if offset == len(CHANGES))
    assert _is_sound(config, spark)


# --- columns that change
# ----------------------------------------------------------------------------------------------------


#: The columns of `CHANGES`, and what becomes of them.
COLUMNS: dict[str, dict[str, Any]] = {
    "id": {"type": "int64", "optional": False},
    "price": {"type": "int32", "optional": True},
}
_WIDER = {**COLUMNS, "price": {"type": "int64", "optional": True}, "note": {"type": "string", "optional": True}}


def _send(topic: TopicBuilder, columns: dict[str, dict[str, Any]], after: dict[str, Any], lsn: int, days: int) -> None:
    key = debezium_json({"id": after["id"]}, connect_key_schema("t", {"id": columns["id"]}))
    envelope = debezium_envelope(
        "c", None, after, lsn=lsn, ts_ms=int((EPOCH + timedelta(days=days)).timestamp() * 1000)
    )
    topic.add(key, debezium_json(envelope, connect_envelope_schema("t", columns)))


def test_a_change_of_columns_that_was_killed_is_ended_by_the_next_run(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """One is renamed, widened and a new one added, in the mirror and in both rows of its history: nine statements.

    Between any two readers see every row and value, and the mirror is the fold of raw.
    """
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    topic.write(tmp_path / "recorded")
    assert run_once(pipeline(tmp_path, records_max=100), spark).exit_code == 0
    config = pipeline(tmp_path, records_max=100, renames={"price": "cost"})
    _send(topic, _WIDER, {"id": 7, "price": 2**40, "note": "wide"}, 900, days=1)
    topic.write(tmp_path / "recorded")
    turn = chance(request)
    killed = 0
    while (ALL or killed < 2) and is_killed(
        monkeypatch, "columns.altered", lambda: run_once(config, spark), 1 if ALL else turn.randint(1, 4)
    ):
        killed += 1
        assert what_is_broken(config) == []
        assert [row.get("price", row.get("cost")) for row in content(config)[str(MIRROR)]] == [21, 30, 40]
        if killed == 1:
            assert verify_tables(config, spark).tables[0].equal
    assert killed == (9 if ALL else 2)

    assert run_once(config, spark).exit_code == 0

    rows = content(config)
    assert [(row["id"], row["cost"], row["note"]) for row in rows[str(MIRROR)]] == [
        *[(2, 21, None), (3, 30, None), (4, 40, None), (7, 2**40, "wide")]
    ]
    assert [row["after"] for row in rows[str(MIRROR.history)] if row["offset"] == len(CHANGES)] == [
        {"id": 7, "cost": 2**40, "note": "wide"}
    ]
    assert len(rows[str(MIRROR.history)]) == 7
    assert {name for row in rows[str(MIRROR)] for name in row} == {"id", "cost", "note", "__cdc"}
    assert _is_sound(config, spark)


# --- cdcm replay --from kafka
# ----------------------------------------------------------------------------------------------------


def test_a_refill_whose_process_was_killed_is_gone_on_with(spark: "SparkSession", tmp_path: Path) -> None:
    """By SIGKILL, behind its first part. A run that lands meanwhile sees nothing of it, and each message is once."""
    config, topic = pipeline(tmp_path, history=False, records_max=2), TopicBuilder(TOPIC)
    for number in range(4):
        _send(topic, COLUMNS, {"id": number % 3, "price": number}, 100 + number, days=1)
    topic.write(tmp_path / "recorded")
    assert run_once(config, spark).exit_code == 0
    whole = content(config)
    _delete(config, spark, MIRROR.raw, "offset < 3")

    killed = run_process(config, "--from", "kafka", replay=True, CDCM_CRASH_AT="replay.refilled")
    left, branches = content(config), refs(config)[str(MIRROR.raw)]
    _send(topic, COLUMNS, {"id": 0, "price": 4}, 104, days=1)
    topic.write(tmp_path / "recorded")
    assert run_once(config, spark).exit_code == 0
    done = replay_tables(config, (str(MIRROR),), ReplayOptions(publish=True, start=parse_start("kafka")), spark)

    assert killed.returncode == -signal.SIGKILL
    assert left == {**whole, str(MIRROR.raw): whole[str(MIRROR.raw)][3:]}
    assert branches == {"main", MARKER_TAG, GENESIS_TAG, REFILL_BRANCH}
    found = done.tables[0]
    assert (found.error, found.refilled, found.equal, found.published) == (None, 3, True, True)
    assert sorted((row["id"], row["price"]) for row in content(config)[str(MIRROR)]) == [(0, 4), (1, 1), (2, 2)]
    assert _is_sound(config, spark, BEFORE_REPLAY)
