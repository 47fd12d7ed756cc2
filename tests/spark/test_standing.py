"""What readers have stays, whatever contract judges its past by now, and whatever quarantine was not told of it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.config import Config
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import (
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
from tests.spark.processes import MIRROR, THINGS, TOPIC, content, what_is_broken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

_CONTRACT = (
    THINGS
    + """\
    properties:
      - {name: id, primaryKey: true, logicalType: integer}
      - name: price
        logicalType: integer
        logicalTypeOptions: {minimum: LEAST}
"""
)
_COLUMNS = {"id": {"type": "int64", "optional": False}, "price": {"type": "int32", "optional": True}}
#: The prices of one row, one after the other.
_PRICES = (20, 5, 3)


def _pipeline(root: Path, least: int, messages: int) -> Config:
    (root / "contract.yaml").write_text(_CONTRACT.replace("LEAST", str(least)), encoding="utf-8")
    config = processes.pipeline(root, contract="contract.yaml")
    key, envelope = connect_key_schema("t", {"id": _COLUMNS["id"]}), connect_envelope_schema("t", _COLUMNS)
    topic = TopicBuilder(TOPIC)
    for at, price in enumerate(_PRICES):
        told = debezium_envelope("u" if at else "c", None, {"id": 1, "price": price}, lsn=100 + at)
        topic.add(debezium_json({"id": 1}, key), debezium_json(told, envelope))
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:messages])
    return config


def _prices(config: Config) -> list[int]:
    return [row["price"] for row in content(config)[str(MIRROR)]]


def _held(config: Config) -> list[tuple[int, str]]:
    return sorted((row["offset"], row["status"]) for row in content(config)[str(MIRROR.quarantine)])


def test_a_change_that_a_killed_release_has_shown_stays_under_a_contract_that_holds_it(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quarantine was not told of it, and its row's next change is held."""
    config = _pipeline(tmp_path, 10, 1)
    assert run_once(config, spark).exit_code == 0
    assert run_once(_pipeline(tmp_path, 10, 2), spark).exit_code == 0
    lenient = _pipeline(tmp_path, 0, 2)
    released = is_killed(monkeypatch, "mirror.published", lambda: release_held(lenient, str(MIRROR), Wanted(), spark))
    assert (released, _prices(config), _held(config)) == (True, [5], [(1, "open")])

    assert run_once(_pipeline(tmp_path, 10, 3), spark).exit_code == 0

    assert _prices(config) == [5]
    assert (2, "open") in _held(config)
    assert [row["after"]["price"] for row in content(config)[str(MIRROR.history)]] == [20, 5]
    assert what_is_broken(config) == []
