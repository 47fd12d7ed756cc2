"""What history keeps of a batch that readers of the mirror never saw: nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog

from cdc_materializer import crash_points
from cdc_materializer.adopt import Decision, adopt_table
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_BUG, ConfigError, ContractBlocked, UsageError
from cdc_materializer.names import TableName
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import (
    EPOCH,
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
    write_recorded_topic,
)
from tests.spark import processes
from tests.spark.kills import is_killed
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS
from tests.spark.processes import MIRROR, THINGS, TOPIC, add_changes, content

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

_CONTRACT = (
    THINGS
    + """\
    quality: RULES
    properties:
      - {name: id, primaryKey: true, logicalType: integer}
      - name: price
        logicalType: integer
        logicalTypeOptions: {maximum: MOST}
"""
)
_COLUMNS = {"id": {"type": "int64", "optional": False}, "price": {"type": "int32", "optional": True}}
#: A table of two rows breaks it, and nothing of the batch is published.
_FEW = "[{name: few rows, metric: rowCount, mustBeLessThan: 2}]"


def _allow(root: Path, rules: str, most: int) -> None:
    text = _CONTRACT.replace("RULES", rules).replace("MOST", str(most))
    (root / "contract.yaml").write_text(text, encoding="utf-8")


def _pipeline(root: Path, rules: str, most: int) -> Config:
    _allow(root, rules, most)
    config = processes.pipeline(root, records_max=9, contract="contract.yaml")
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    # Row 1 of price 10, and row 2 of price 20.
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:2])
    return config


def _history(config: Config) -> list[int]:
    return sorted(row["offset"] for row in content(config)[str(MIRROR.history)])


def _mirror(config: Config) -> list[int]:
    return sorted(row["id"] for row in content(config)[str(MIRROR)])


def test_a_change_that_a_rule_about_the_table_blocked_is_in_no_history(spark: "SparkSession", tmp_path: Path) -> None:
    """Nor afterwards, when the contract that lets the rest through holds it; it is nothing that one can accept."""
    config = _pipeline(tmp_path, _FEW, 99)
    assert run_once(config, spark).exit_code == ContractBlocked.exit_code
    blocked = _history(config)
    with pytest.raises(UsageError, match="nothing to accept"):
        adopt_table(config, str(MIRROR), Decision("tests", EPOCH), spark)

    config = _pipeline(tmp_path, "[]", 15)
    assert run_once(config, spark).exit_code == 0

    assert (blocked, _history(config), _mirror(config)) == ([], [0], [1])


def _killed(config: Config, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed between history's commit and the mirror's."""

    def killed(step: str, table: TableName) -> None:
        if crash_points.point_of(step, table) == "history.published":
            raise KeyError(step)

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reach", killed)
        assert run_once(config, spark).exit_code == EXIT_BUG


@pytest.mark.parametrize(("most", "kept"), [(15, [0]), (5, []), (99, [0, 1])])
def test_what_was_kept_of_a_killed_batch_goes_where_the_next_run_decides_otherwise(
    most: int, kept: list[int], spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between history's commit and the mirror's; then the contract holds one change, both, or none."""
    config = _pipeline(tmp_path, "[]", 99)
    _killed(config, spark, monkeypatch)
    left = _history(config)

    config = _pipeline(tmp_path, "[]", most)
    assert run_once(config, spark).exit_code == 0

    assert left == [0, 1]
    assert _history(config) == kept
    assert _mirror(config) == [offset + 1 for offset in kept]
    assert run_once(config, spark).tables[0].batches == 0


@pytest.mark.parametrize("most", [15, 99])
def test_a_held_change_that_a_killed_batch_let_in_goes_where_the_next_one_holds_it(
    most: int, spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is from before the batch; what comes behind it begins where readers are, and so do the versions of its row."""
    _allow(tmp_path, "[]", 15)
    # In a format that PyIceberg writes.
    properties = {"format-version": "2"}
    config = processes.pipeline(tmp_path, records_max=9, contract="contract.yaml", properties=properties)
    topic, schema = TopicBuilder(TOPIC), connect_envelope_schema("t", _COLUMNS)
    for at, price in enumerate((10, 20, 7)):
        change = debezium_envelope("u" if at else "c", None, {"id": 1, "price": price}, lsn=100 + at)
        topic.add(
            debezium_json({"id": 1}, connect_key_schema("t", {"id": _COLUMNS["id"]})), debezium_json(change, schema)
        )
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:1])
    assert run_once(config, spark).exit_code == 0
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:2])
    assert run_once(config, spark).exit_code == 0
    # Nothing but the history says of the first batch by now that it was published.
    _expire(config)
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages)
    _allow(tmp_path, "[]", 99)
    _killed(config, spark, monkeypatch)
    left = _prices(config)

    _allow(tmp_path, "[]", most)
    assert run_once(config, spark).exit_code == 0

    assert left == [(0, None, 10), (1, 10, 20), (2, 20, 7)]
    assert _prices(config) == (left if most == 99 else [(0, None, 10), (2, 10, 7)])
    assert run_once(config, spark).tables[0].batches == 0


def _expire(config: Config) -> None:
    """Let go of all that readers of the mirror have seen but the last state."""
    lake = config.root / "lake"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    table = catalog.load_table(str(MIRROR))
    kept = {ref.snapshot_id for ref in table.refs().values()}
    old = [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id not in kept]
    assert old
    table.maintenance.expire_snapshots().by_ids(old).commit()


def _prices(config: Config) -> list[tuple[int, int | None, int]]:
    """The changes of the history: offset, the price before, and after."""
    found = sorted(content(config)[str(MIRROR.history)], key=lambda row: row["offset"])
    return [(row["offset"], row["before"] and row["before"]["price"], row["after"]["price"]) for row in found]


def _send(config: Config, changes: Sequence[tuple[str, int, int | None, int, str]]) -> None:
    """The topic with these changes: operation, key, price, place in the log, and what the snapshot says of it."""
    topic, schema = TopicBuilder(TOPIC), connect_envelope_schema("t", _COLUMNS)
    for op, key, price, lsn, snapshot in changes:
        row = None if price is None else {"id": key, "price": price}
        before = {"id": key, "price": None} if row is None else None
        change = debezium_envelope(op, before, row, lsn=lsn, snapshot=snapshot)
        topic.add(
            debezium_json({"id": key}, connect_key_schema("t", {"id": _COLUMNS["id"]})), debezium_json(change, schema)
        )
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages)


def _told(config: Config) -> list[tuple[str, int, int | None, int | None]]:
    """The history's rows: operation, offset, the price before, and after."""
    found = sorted(content(config)[str(MIRROR.history)], key=lambda row: (row["offset"], row["op"]))
    sides = [[row[side] and row[side]["price"] for side in ("before", "after")] for row in found]
    return [(row["op"], row["offset"], *side) for row, side in zip(found, sides, strict=True)]


def test_the_end_of_a_row_that_a_killed_release_has_told_anew_is_told_as_readers_knew_it(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A complete snapshot has ended it; the release would have made another row of it, and nobody asks for it again."""
    _allow(tmp_path, "[]", 99)
    config = processes.pipeline(tmp_path, records_max=9, contract="contract.yaml", snapshot_sweep=True)
    changes = [("c", 1, 1, 10, "false"), ("u", 1, 100, 20, "false"), ("r", 2, 5, 100, "first")]
    changes += [("r", 3, 5, 100, "last"), ("u", 2, 6, 110, "false")]
    for count in (1, 2, 4):
        _send(config, changes[:count])
        assert run_once(config, spark).exit_code == 0
    known = _told(config)
    _allow(tmp_path, "[]", 999)
    letting = load_config(config.path)
    assert is_killed(monkeypatch, "history.published", lambda: release_held(letting, str(MIRROR), Wanted(), spark))
    tried = _told(letting)

    _send(letting, changes)
    assert run_once(letting, spark).exit_code == 0

    assert ("d", 3, 1, None) in known
    assert [row for row in tried if row[1] in {1, 3}] == [("u", 1, 1, 100), ("d", 3, 100, None), ("r", 3, None, 5)]
    assert _told(letting) == [*known, ("u", 4, 5, 6)]


def test_what_was_held_until_a_killed_run_published_behind_it_is_no_change_of_the_row(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quarantine was not told, and the contract lets it pass by now; readers never saw it."""
    _allow(tmp_path, "[]", 99)
    config = processes.pipeline(tmp_path, records_max=9, contract="contract.yaml")
    changes = [("c", 1, 1, 10, "false"), ("u", 1, 100, 20, "false"), ("u", 1, 2, 30, "false"), ("u", 1, 3, 40, "false")]
    for count in (1, 2):
        _send(config, changes[:count])
        assert run_once(config, spark).exit_code == 0
    _send(config, changes[:3])
    assert is_killed(monkeypatch, "mirror.published", lambda: run_once(config, spark))
    _allow(tmp_path, "[]", 999)
    letting = load_config(config.path)
    _send(letting, changes)
    assert run_once(letting, spark).exit_code == 0

    assert _told(letting) == [("c", 0, None, 1), ("u", 2, 1, 2), ("u", 3, 2, 3)]


def test_a_history_that_was_switched_off_meanwhile_is_not_gone_on_with(spark: "SparkSession", tmp_path: Path) -> None:
    """It lacks what became of the rows; moved away, another one begins."""
    config = processes.pipeline(tmp_path, records_max=9)
    changes = [("c", 1, 1, 10, "false"), ("u", 1, 2, 20, "false"), ("u", 1, 3, 30, "false")]
    for count, is_on in ((1, True), (2, False)):
        _send(config, changes[:count])
        _switch(config.path, is_on=is_on)
        assert run_once(load_config(config.path), spark).exit_code == 0
    _send(config, changes)
    again = _switch(config.path, is_on=True)
    report = run_once(again, spark)
    lake = config.root / "lake"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}/warehouse")
    catalog.drop_table(str(MIRROR.history))
    begun = run_once(again, spark)

    assert (report.exit_code, begun.exit_code) == (ConfigError.exit_code, 0)
    assert "was switched off" in str(report.tables[0].error)
    assert _told(again) == [("u", 2, 2, 3)]


def test_a_history_is_gone_on_with_behind_a_replay(spark: "SparkSession", tmp_path: Path) -> None:
    """Which writes none of its own; nor did the batch before it, which had nothing but what was sent again."""
    config = processes.pipeline(tmp_path, records_max=9)
    changes = [("c", 1, 1, 10, "false"), ("c", 1, 1, 10, "false"), ("u", 1, 2, 20, "false")]
    for count in (1, 2):
        _send(config, changes[:count])
        assert run_once(config, spark).exit_code == 0
    assert replay_tables(config, (str(MIRROR),), ReplayOptions(publish=True), spark).tables[0].published
    _send(config, changes)

    assert run_once(config, spark).exit_code == 0
    assert _told(config) == [("c", 0, None, 1), ("u", 2, 1, 2)]


def _switch(path: Path, *, is_on: bool) -> Config:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    found["tables"][0]["history"] = is_on
    path.write_text(yaml.safe_dump(found), encoding="utf-8")
    return load_config(path)
