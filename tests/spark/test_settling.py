"""What runs that were killed behind the mirror's commit have left open in quarantine, and who ends it.

Kills are exceptions here, at the named points; `test_crash` kills processes.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pyspark.sql import functions as F

from cdc_materializer import crash_points, pipeline
from cdc_materializer.batch import rows
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config
from cdc_materializer.contract import load_contract
from cdc_materializer.errors import (
    EXIT_BLOCKED,
    EXIT_BUG,
    EXIT_SOURCE,
    CdcError,
    CommitConflict,
    ContractBlocked,
    OffsetGap,
    OffsetRegression,
    RegistryUnavailable,
)
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line import quarantine
from cdc_materializer.line.line import Line, marker_of, reload
from cdc_materializer.marker.marker import STOPPED, Marker, is_unsettled
from cdc_materializer.merge_quarantine import QUARANTINE_SCHEMA
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables, roll_back
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.report.groups import treatment
from cdc_materializer.report.models import RunReport
from cdc_materializer.run.run import RunOptions, open_work, run_once
from cdc_materializer.session.session import adopt_session
from cdc_materializer.testing import TopicBuilder, write_recorded_topic
from tests.spark import processes
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS
from tests.spark.processes import CHANGES, MIRROR, TOPIC, WARNS, add_changes, content

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

#: How many messages the first batch of each test has; the last of them is held.
_FIRST = 3
_GAP, _BLOCKED = OffsetGap("a", "b", (0, _FIRST)), ContractBlocked("a", "b", ("few rows",))


@pytest.fixture
def config(spark: "SparkSession", tmp_path: Path) -> Config:
    """A table whose first batch is published; the rest of its messages has come since."""
    made = _pipeline(tmp_path)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    write_recorded_topic(made.root / "recorded", TOPIC, topic.messages[:_FIRST])
    assert run_once(made, spark).exit_code == 0
    topic.write(made.root / "recorded")
    return made


def _pipeline(root: Path, **settings: Any) -> Config:  # noqa: ANN401 - the table's
    return processes.pipeline(root, records_max=len(CHANGES), history=False, **settings)


def _line(config: Config, spark: "SparkSession") -> Line:
    work = open_work(config, RunOptions())
    lake = Lake(adopt_session(spark, config), config.catalog.name)
    return Line(config.name, work.tables[0], work.source, work.registry, None, lake)


def _killed(config: Config, spark: "SparkSession", point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run until a named point is reached."""

    def reach(step: str, table: TableName) -> None:
        if crash_points.point_of(step, table) == point:
            raise KeyError(point)

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reach", reach)
        assert run_once(config, spark).exit_code == EXIT_BUG


def _markers(config: Config) -> tuple[Marker | None, Marker | None]:
    lake = open_tables(config.catalog)
    return lake.marker_of(MIRROR), lake.marker_of(MIRROR.quarantine)


def _marker(config: Config) -> Marker:
    found = open_tables(config.catalog).marker_of(MIRROR)
    assert found is not None
    return found


def _statuses(config: Config) -> set[tuple[int, str, str]]:
    return {(row["offset"], row["code"], row["status"]) for row in content(config)[str(MIRROR.quarantine)]}


def _published(config: Config) -> int:
    """How often quarantine was published: each statement of one commit is a snapshot, and the last has the marker."""
    lines = open_tables(config.catalog).lines_of(MIRROR.quarantine)
    return sum(Marker.from_summary(line.summary) is not None for line in lines)


def _commits(config: Config) -> int:
    return len(open_tables(config.catalog).lines_of(MIRROR.quarantine))


def test_what_is_no_batchs_in_quarantine_keeps_no_batch_from_being_settled(
    spark: "SparkSession", config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules about the table and stops are noted at an offset that a batch reads; a stop is ended once, for good."""
    line, place = _line(config, spark), (0, _FIRST)
    quarantine.warn_of(line, ["rows-at-least"], _marker(config))
    with pytest.raises(OffsetGap), quarantine.noting_stops(line, pipeline.load(line)):
        raise OffsetGap("a", "b", place)
    _killed(config, spark, "mirror.published", monkeypatch)
    left, unsettled = _statuses(config), is_unsettled(*_markers(config))

    assert run_once(config, spark).exit_code == 0
    mirror, held = _markers(config)

    assert unsettled
    assert {(2, "SCHEMA_INCOMPATIBLE", "open"), (3, "OFFSET_GAP", "open"), (3, "CONTRACT", "released")} <= left
    assert {(2, "SCHEMA_INCOMPATIBLE", "superseded"), (3, "OFFSET_GAP", "released")} <= _statuses(config)
    assert mirror is not None
    assert held is not None
    assert (held.settled, held.counts.get(STOPPED)) == (mirror.batch, None)
    # A batch that ends nothing writes nothing there, and says so.
    commits, topic = _commits(config), TopicBuilder(TOPIC)
    add_changes(topic, 0)
    add_changes(topic, 1)
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[: len(CHANGES) + 2])
    assert run_once(config, spark).tables[0].batches == 1
    assert _commits(config) == commits
    assert _markers(config)[0] == replace(_markers(config)[0] or mirror, settles=None)


def test_what_is_tried_again_takes_no_note_about_the_table_for_one_of_its_messages(
    spark: "SparkSession", config: Config
) -> None:
    """A message that was held without its key gets it; remarks of what is not published go, those of batches stay."""
    line, marker = _line(config, spark), replace(_marker(config), contract="judged")
    known = quarantine.warn_of(line, ["known"], marker)
    names, place = QUARANTINE_SCHEMA.types, (TOPIC, 0, _FIRST)

    def lying(*told: tuple[str | None, ...]) -> "DataFrame":
        schema = "rule string, key string, action string, status string, batch_id string"
        found = line.lake.spark.createDataFrame(list(told), schema)
        given = dict(zip(("topic", "partition", "offset"), map(F.lit, place), strict=True))
        given |= {"code": F.lit("CONTRACT"), **{name: F.col(name) for name in found.columns}}
        return found.select(*[given.get(name, F.lit(None)).cast(ddl).alias(name) for name, ddl in names.items()])

    remarked = [(rule, "k", action, "released", "b") for rule, action in (("warns", "warn"), ("tried", "shadow"))]
    earlier = lying(("other", None, "quarantine", "open", "b"), *remarked)
    line.lake.publish(known, marker_of(known), lambda stage: stage.append(earlier))
    again = lying(*((rule, "k", "quarantine", "open", "c") for rule in ("known", "other")))
    held = reload(line, MIRROR.quarantine)
    nothing = Span(TOPIC, Offsets(), Offsets())
    states: Any = SimpleNamespace(states=None, violations={"CONTRACT": 2}, span=nothing, looks_back=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows, "violation_rows", lambda *_: again)
        patched.setattr(quarantine, "is_ahead", lambda *_: True)
        quarantine.hold(line, held, marker.offsets, replace(marker, batch="c"), states)

    table = open_tables(config.catalog).load(MIRROR.quarantine)
    assert table is not None
    noted = [row for row in table.scan().to_arrow().to_pylist() if row["code"] == "CONTRACT"]
    assert sorted((row["rule"], row["key"], row["status"], row["batch_id"]) for row in noted if row["key"]) == [
        ("known", "k", "open", "c"),
        ("other", "k", "open", "b"),
    ]
    assert [(row["rule"], row["action"], row["batch_id"]) for row in noted if not row["key"]] == [("known", "warn", "")]


def test_what_is_noted_beside_a_batch_is_committed_under_the_contract_that_judged_it(
    spark: "SparkSession", config: Config, tmp_path: Path
) -> None:
    """Also where quarantine was last written under another one; a stop that no contract is about leaves that there."""
    (tmp_path / "contract.yaml").write_text(WARNS, encoding="utf-8")
    contract = load_contract(tmp_path / "contract.yaml")
    line = replace(_line(config, spark), stated=contract)

    def judged_by() -> str | None:
        return marker_of(reload(line, MIRROR.quarantine)).contract

    before = judged_by()
    with pytest.raises(OffsetGap), quarantine.noting_stops(line, pipeline.load(line)):
        raise _GAP
    assert judged_by() == before
    with pytest.raises(ContractBlocked), quarantine.noting_stops(line, pipeline.load(line)):
        raise _BLOCKED
    assert judged_by() == contract.fingerprint
    marker = _marker(config)
    quarantine.warn_of(line, ["many rows"], replace(marker, contract="warned"))
    assert judged_by() == "warned"
    quarantine.go_on(line, reload(line, MIRROR.quarantine), replace(marker, contract="went on"), has_read=True)
    assert judged_by() == "went on"
    with pytest.raises(ContractBlocked), quarantine.noting_stops(line, pipeline.load(line)):
        raise _BLOCKED
    # The table has no contract any more.
    quarantine.go_on(line, reload(line, MIRROR.quarantine), replace(marker, contract=None), has_read=True)
    assert judged_by() is None


def _warning(root: Path) -> Config:
    (root / "contract.yaml").write_text(WARNS, encoding="utf-8")
    return _pipeline(root, contract="contract.yaml")


def _notes(config: Config) -> list[tuple[str, str]]:
    rows = content(config)[str(MIRROR.quarantine)]
    return [(row["rule"], row["status"]) for row in rows if row["code"] == "CONTRACT"]


def _of_prices(root: Path, action: str, *, few_rows: bool = False) -> Config:
    """A table whose contract has a rule about prices, which the second message breaks, and one about the table."""
    document = yaml.safe_load(WARNS)
    (schema,) = document["schema"]
    schema["quality"][0]["customProperties"][0]["value"] = "block"
    schema["quality"] = schema["quality"] if few_rows else []
    price = {"property": "action", "value": action}
    cheap = {"type": "expect_column_values_to_be_between", "kwargs": {"max_value": 15}}
    rule = {"name": "cheap", "type": "custom", "engine": "greatExpectations", "implementation": cheap}
    schema["properties"] = [{"name": "price", "quality": [{**rule, "customProperties": [price]}]}]
    (root / "contract.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return _of_two(root, contract="contract.yaml")


def _of_two(root: Path, **settings: Any) -> Config:  # noqa: ANN401 - the table's
    """A table whose topic has two messages."""
    config, topic = _pipeline(root, **settings), TopicBuilder(TOPIC)
    add_changes(topic, 0)
    write_recorded_topic(root / "recorded", TOPIC, topic.messages[:2])
    return config


def _told_of_prices(config: Config) -> list[tuple[int, str, str]]:
    rows = content(config)[str(MIRROR.quarantine)]
    return sorted((row["offset"], row["action"], row["status"]) for row in rows if row["rule"] == "cheap")


def test_what_is_released_is_told_with_what_it_is_warned_of_by_now(spark: "SparkSession", tmp_path: Path) -> None:
    """Not before it is published: a blocked release leaves nothing. In one commit with the end of the hold."""
    assert run_once(_of_prices(tmp_path, "quarantine"), spark).exit_code == 0
    held = [(1, "quarantine", "open")]
    blocked = _of_prices(tmp_path, "warn", few_rows=True)
    with pytest.raises(ContractBlocked, match="many rows"):
        release_held(blocked, str(MIRROR), Wanted(), spark)
    left, published = _told_of_prices(blocked), _published(blocked)
    config = _of_prices(tmp_path, "warn")

    done = release_held(config, str(MIRROR), Wanted(), spark)

    assert left == held
    assert (done.tried, done.released, done.held) == (1, 1, 0)
    assert _told_of_prices(config) == [(1, "quarantine", "released"), (1, "warn", "released")]
    assert _published(config) == published + 1


@pytest.mark.parametrize("left_by", ["this version", "one before"])
def test_what_a_rule_that_blocks_refuses_to_release_can_be_released_when_it_is_mended(
    left_by: str, spark: "SparkSession", tmp_path: Path
) -> None:
    """Its batch was published, so it stops nobody, and runs go on behind it; nothing but a release reads it again."""
    assert run_once(_of_prices(tmp_path, "quarantine"), spark).exit_code == 0
    blocking = _of_prices(tmp_path, "block")
    with pytest.raises(ContractBlocked, match=r"cheap.* mend the data or the rule, and try again"):
        release_held(blocking, str(MIRROR), Wanted(), spark)
    left, ran = _told_of_prices(blocking), run_once(blocking, spark).exit_code
    treated = {treatment(row) for row in content(blocking)[str(MIRROR.quarantine)]}
    if left_by == "one before":
        its = adopt_session(spark, blocking)
        its.sql(f"UPDATE lake.{MIRROR.quarantine} SET action = 'block' WHERE rule = 'cheap'")
    config = _of_two(tmp_path)

    done = release_held(config, str(MIRROR), Wanted(), spark)

    assert (left, ran, treated) == ([(1, "quarantine", "open")], 0, {"held"})
    assert (done.tried, done.released, done.held) == (1, 1, 0)
    assert {row[2] for row in _told_of_prices(config)} == {"released"}
    assert verify_tables(config, spark).tables[0].equal


def test_what_is_tried_again_and_breaks_nothing_makes_no_commit_but_the_end_of_what_it_broke(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Quarantine has no news of it before readers see it."""
    assert run_once(_of_prices(tmp_path, "block"), spark).exit_code == EXIT_BLOCKED
    config = _of_two(tmp_path)
    told, published = _told_of_prices(config), _published(config)

    assert run_once(config, spark).exit_code == 0

    assert told == [(1, "block", "open")]
    assert _told_of_prices(config) == [(1, "block", "released")]
    assert _published(config) == published + 1
    assert not is_unsettled(*_markers(config))


@pytest.mark.parametrize("point", ["mirror.published", "quarantine.published"])
def test_what_a_batch_only_warns_of_is_noted_once_wherever_its_run_was_killed(
    point: str, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the mirror's commit the next run notes it, without news; behind the note it has nothing to do."""
    config, topic = _warning(tmp_path), TopicBuilder(TOPIC)
    add_changes(topic, 0)
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:2])
    _killed(config, spark, point, monkeypatch)
    left = _notes(config)

    found = [(_told(run_once(config, spark)), _notes(config)) for _ in range(2)]

    note = ("many rows", "released")
    assert left == ([] if point == "mirror.published" else [note])
    assert found == [((0, 0), [note])] * 2
    mirror, held = _markers(config)
    assert mirror is not None
    assert held is not None
    assert (mirror.warned, held.noted) == (("many rows",), mirror.batch)


def test_what_a_table_warns_of_is_told_once_of_what_is_swapped_in_and_taken_back(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """A replay judges the table once more, and notes it as it would a batch; no message has it in its place."""
    config, topic = _warning(tmp_path), TopicBuilder(TOPIC)
    add_changes(topic, 0)
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:2])
    assert run_once(config, spark).exit_code == 0
    notes = [_notes(config)]
    mirror = str(MIRROR)

    for _ in range(2):
        assert replay_tables(config, (mirror,), ReplayOptions(publish=True), spark).tables[0].published
        notes.append(_notes(config))
    assert roll_back(config, (mirror,), spark).tables[0].rolled_back
    notes.append(_notes(config))

    assert notes == [[("many rows", "released")]] * 4


def test_what_a_killed_batch_warns_of_and_what_it_ends_are_both_told(
    spark: "SparkSession", config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so they are by a run that nothing kills, one after the other."""
    warning = _warning(tmp_path)
    _killed(warning, spark, "mirror.published", monkeypatch)
    left = _notes(warning), is_unsettled(*_markers(warning))

    assert _told(run_once(warning, spark)) == (0, 0)

    assert left == ([], True)
    assert _notes(warning) == [("many rows", "released")]
    assert (2, "SCHEMA_INCOMPATIBLE", "superseded") in _statuses(config)
    assert not is_unsettled(*_markers(warning))
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    add_changes(topic, 1)
    topic.write(config.root / "recorded")
    assert _told(run_once(warning, spark)) == (0, 1)
    assert _notes(warning) == [("many rows", "released")] * 2
    assert not is_unsettled(*_markers(warning))


def test_a_batch_that_readers_see_is_told_where_another_process_is_first_in_quarantine(
    spark: "SparkSession", config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What follows from it there is done by what comes next, which is the same run's look for more."""
    warning, do, lost = _warning(tmp_path), quarantine.warn_of, list[int]()

    def once(*arguments: Any) -> Any:  # noqa: ANN401 - as the step's
        if not lost:
            lost.append(1)
            raise CommitConflict("Another one was first.", "Run again.")
        return do(*arguments)

    monkeypatch.setattr(quarantine, "warn_of", once)
    report = run_once(warning, spark)

    assert (_told(report), report.tables[0].read, lost) == ((0, 1), len(CHANGES) - _FIRST, [1])
    assert _notes(warning) == [("many rows", "released")]
    assert (2, "SCHEMA_INCOMPATIBLE", "superseded") in _statuses(config)
    assert not is_unsettled(*_markers(warning))


def test_a_stop_that_only_a_person_ends_is_ended_by_no_batch(spark: "SparkSession", config: Config) -> None:
    """When the topic has grown again, it is all that tells of what it lost."""
    line = _line(config, spark)
    with pytest.raises(OffsetRegression), quarantine.noting_stops(line, pipeline.load(line)):
        raise OffsetRegression("a", "b", (0, _FIRST))
    held = line.lake.load(MIRROR.quarantine)
    assert held is not None

    assert quarantine.go_on(line, held, _marker(config), has_read=True) == held
    assert quarantine.has_losses(line, held)
    assert (3, "OFFSET_REGRESSION", "open") in _statuses(config)


@pytest.mark.parametrize(
    ("waits", "stop", "status"),
    [
        pytest.param(True, _BLOCKED, "open", id="a batch is blocked"),
        pytest.param(False, _BLOCKED, "released", id="nothing is blocked any more"),
        pytest.param(False, _GAP, "open", id="messages are lost"),
    ],
)
def test_a_release_ends_no_stop_of_what_it_has_not_read(
    waits: bool,  # noqa: FBT001
    stop: CdcError,
    status: str,
    spark: "SparkSession",
    config: Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Old messages say nothing of new ones; the next batch of those that readers see does."""
    if waits:
        _killed(config, spark, "raw.published", monkeypatch)
    line, code = _line(config, spark), str(stop.code)
    with pytest.raises(type(stop)), quarantine.noting_stops(line, pipeline.load(line)):
        raise stop
    other = _pipeline(tmp_path, incompatible_schema="new_column")

    assert release_held(other, str(MIRROR), Wanted(), spark).released == 1

    assert {(2, "SCHEMA_INCOMPATIBLE", "released"), (_FIRST, code, status)} <= _statuses(other)
    assert _told(run_once(other, spark)) == (0, 1)
    assert (_FIRST, code, "released") in _statuses(other)
    assert not is_unsettled(*_markers(other))


def _without_registry(patched: pytest.MonkeyPatch) -> Callable[[], None]:
    def decide(*_: object) -> None:
        raise RegistryUnavailable("a", "b")

    patched.setattr(pipeline, "decide", decide)
    return patched.undo


def _told(report: RunReport) -> tuple[int, int]:
    return report.exit_code, report.tables[0].batches


def test_what_a_failed_run_has_held_is_ended_by_a_batch_that_was_killed_too(
    spark: "SparkSession", config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the settings of today its messages pass; a run that cannot do it leaves it to the next, or to a repair."""
    _killed(config, spark, "quarantine.published", monkeypatch)
    line, span = _line(config, spark), Span(TOPIC, Offsets({0: _FIRST}), Offsets({0: len(CHANGES)}))
    keys = [quarantine.held_messages(line, line.lake.load(MIRROR.quarantine), only) for only in (None, span)]
    other = _pipeline(tmp_path, incompatible_schema="new_column")
    _killed(other, spark, "mirror.published", monkeypatch)
    left = _statuses(other)

    with monkeypatch.context() as patched:
        _without_registry(patched)
        alone = _told(run_once(other, spark))
        after_it = _statuses(other)
        topic = TopicBuilder(TOPIC)
        add_changes(topic, 0)
        add_changes(topic, 1)
        topic.write(other.root / "recorded")
        with_messages = _told(run_once(other, spark))
    assert verify_tables(other, spark, VerifyOptions(repair=True)).tables[0].equal

    assert [found.distinct().count() for found in keys if found is not None] == [2, 1]
    assert {(offset, status) for offset, _, status in left} == {(2, "open"), (5, "superseded"), (8, "open")}
    assert (alone, after_it, with_messages) == ((0, 0), left, (EXIT_SOURCE, 0))
    assert {(offset, status) for offset, _, status in _statuses(other)} == {
        (2, "superseded"),
        (5, "released"),
        (8, "released"),
    }
    assert not is_unsettled(*_markers(other))


def test_a_batch_that_comes_to_something_else_by_now_ends_no_violation(
    spark: "SparkSession", config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it held would pass under the settings of today: nothing says that a row is good which readers do not see."""
    line = _line(config, spark)
    with pytest.raises(OffsetGap), quarantine.noting_stops(line, pipeline.load(line)):
        raise OffsetGap("a", "b", (0, _FIRST))
    _killed(config, spark, "mirror.published", monkeypatch)
    left, shown = _statuses(config), content(config)[str(MIRROR)]
    other = _pipeline(tmp_path, incompatible_schema="new_column")

    first, commits = _told(run_once(other, spark)), _commits(other)
    again = _told(run_once(other, spark))

    assert (first, again, _commits(other)) == ((0, 0), (0, 0), commits)
    assert content(other)[str(MIRROR)] == shown
    # The batch was published, so the table goes on all the same.
    stop = (3, "OFFSET_GAP", "open")
    assert {(2, "SCHEMA_INCOMPATIBLE", "open"), stop} <= left
    assert _statuses(other) == left - {stop} | {(3, "OFFSET_GAP", "released")}
    assert not is_unsettled(*_markers(other))
