"""Columns that changed without a batch: for one that was killed, which what comes next knows, or by another program."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.config import Config
from cdc_materializer.errors import EXIT_LAKE
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables, roll_back
from cdc_materializer.rebuild.start import parse_start
from cdc_materializer.report.models import TableVerify
from cdc_materializer.report.replay_models import TableReplay
from cdc_materializer.run.run import run_once
from cdc_materializer.session.session import adopt_session
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.spark.kills import is_killed
from tests.spark.marks import TURNS
from tests.spark.processes import MIRROR, TOPIC, content, pipeline, run_process, what_is_broken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS]

_KEY: dict[str, Any] = {"id": {"type": "int64", "optional": False}}
_INT = {"type": "int32", "optional": True}


class _Things:
    """A mirror with a ledger, of rows with a number and a struct, in batches of one message."""

    def __init__(self, root: Path, spark: "SparkSession") -> None:
        self._root, self._spark, self._topic = root, spark, TopicBuilder(TOPIC)
        self.config = self.configure()

    def configure(self, **renames: str) -> Config:
        """Say what was renamed."""
        found = pipeline(self._root, 0, records_max=1, ledger=True, history=False, renames=renames)
        self._topic.write(self._root / "recorded")
        self.config = found
        return found

    def send(self, row: int, price: str, *parts: str) -> None:
        """Add a row, whose column of a price has a name, and whose struct has fields."""
        fields = [{**_INT, "field": name} for name in parts]
        struct = {"type": "struct", "name": "parts", "optional": True, "fields": fields}
        after = {"id": row, price: 10 * row, "parts": dict.fromkeys(parts, row)}
        envelope = debezium_envelope("c", None, after, lsn=100 * row)
        schema = connect_envelope_schema("t", {**_KEY, price: _INT, "parts": struct})
        self._topic.add(debezium_json({"id": row}, connect_key_schema("t", _KEY)), debezium_json(envelope, schema))
        self._topic.write(self._root / "recorded")

    def run(self) -> None:
        """Bring the mirror up to date."""
        report = run_once(self.config, self._spark)
        assert report.exit_code == 0, report

    def kill(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin a run that ends behind the first change of a column."""
        assert is_killed(monkeypatch, "columns.altered", lambda: run_once(self.config, self._spark))
        assert what_is_broken(self.config) == []

    def replay(self, **options: Any) -> TableReplay:  # noqa: ANN401 - those of a replay
        """Rebuild the mirror."""
        return replay_tables(self.config, (str(MIRROR),), ReplayOptions(**options), self._spark).tables[0]

    def roll_back(self) -> TableReplay:
        """Take back what a replay has published."""
        return roll_back(self.config, (str(MIRROR),), self._spark).tables[0]

    def verify(self, *, ledger: bool = False, repair: bool = False) -> TableVerify:
        """Compare the mirror with the fold of raw, or with its ledger."""
        return verify_tables(self.config, self._spark, VerifyOptions([str(MIRROR)], repair, ledger)).tables[0]

    def has_ledger(self) -> bool:
        """Whether there is a ledger, which tells the truth."""
        found = self.verify(ledger=True)
        assert found.error is not None or found.equal
        return found.error is None


def test_what_a_killed_run_has_done_to_columns_is_no_other_programs_doing(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay from the middle and a rollback go on; a ledger, of sums of other names and parts, tells nothing."""
    things = _Things(tmp_path, spark)
    for row in (1, 2, 3):
        things.send(row, "price", "a")
    things.run()
    assert things.has_ledger()

    things.send(4, "price", "a", "b")
    things.kill(monkeypatch)
    assert not things.has_ledger()
    things.run()
    assert not things.has_ledger()
    assert things.verify(repair=True).equal
    assert things.has_ledger()

    things.send(5, "cost", "a", "b")
    things.configure(price="cost")
    assert things.has_ledger()
    things.kill(monkeypatch)
    assert not things.has_ledger()
    rebuilt = things.replay(start=parse_start("offset:2"))
    assert (rebuilt.error, rebuilt.equal, rebuilt.batches) == (None, True, 2)
    assert things.replay(publish=True).published
    things.run()
    assert things.verify().equal

    things.send(6, "amount", "a", "b")
    things.configure(price="cost", cost="amount")
    things.kill(monkeypatch)
    assert things.roll_back().rolled_back
    # Its rows have the names again that its hashes are of.
    assert things.has_ledger()
    things.run()

    assert [(row["id"], row["amount"]) for row in content(things.config)[str(MIRROR)]] == [
        (row, 10 * row) for row in range(1, 7)
    ]
    assert things.verify().equal


def test_a_change_of_columns_whose_process_was_killed_is_ended_by_the_next_run(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """By SIGKILL, behind its first statement, the renaming of a column; a struct was to get a field too."""
    killed, undisturbed = (_Things(tmp_path / name, spark) for name in ("killed", "undisturbed"))
    for things in (killed, undisturbed):
        things.send(1, "price", "a")
        things.run()
        things.send(2, "cost", "a", "b")
        things.configure(price="cost")

    code = run_process(killed.config, CDCM_CRASH_AT="columns.altered").returncode
    broken, seen = what_is_broken(killed.config), content(killed.config)[str(MIRROR)]
    for things in (killed, undisturbed):
        things.run()

    assert (code, broken) == (-signal.SIGKILL, [])
    assert [(row["id"], row["cost"]) for row in seen] == [(1, 10)]
    assert content(killed.config) == content(undisturbed.config)
    assert killed.verify().equal


def test_a_field_that_another_program_has_dropped_is_not_begun_anew(spark: "SparkSession", tmp_path: Path) -> None:
    """It would be NULL in all rows from before; the ledger tells of it too, and a replay fills it."""
    things = _Things(tmp_path, spark)
    things.send(1, "price", "a", "b")
    things.run()
    adopt_session(spark, things.config).sql("ALTER TABLE lake.shop.things DROP COLUMN parts.b")
    things.send(2, "price", "a", "b")

    report = run_once(things.config, spark)

    error = report.tables[0].error
    assert report.exit_code == EXIT_LAKE
    assert error is not None
    assert error.message.startswith("Another program has dropped or renamed parts.b of shop.things, and the log still")
    assert (things.verify(ledger=True).equal, things.verify(ledger=True).error) == (False, None)
    assert things.replay(publish=True).published
    things.run()
    assert [row["parts"] for row in content(things.config)[str(MIRROR)]] == [{"a": 1, "b": 1}, {"a": 2, "b": 2}]
    assert things.verify().equal


@pytest.mark.parametrize("is_renamed", [True, False])
def test_a_change_of_a_killed_batch_is_kept_once_however_its_columns_change_before_the_next(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_renamed: bool
) -> None:
    """What was tried has the columns of its snapshot; by the new name, or with a double's digits, it is the same."""
    topic, old, new = TopicBuilder(TOPIC), "price", "cost" if is_renamed else "price"

    def send(row: int, name: str, kind: str) -> None:
        schema = connect_envelope_schema("t", {**_KEY, name: {"type": kind, "optional": True}})
        envelope = debezium_envelope("c", None, {"id": row, name: row + 0.1}, lsn=100 * row)
        topic.add(debezium_json({"id": row}, connect_key_schema("t", _KEY)), debezium_json(envelope, schema))
        topic.write(tmp_path / "recorded")

    config = pipeline(tmp_path, 0, records_max=100)
    send(1, old, "float")
    send(2, old, "float")
    assert is_killed(monkeypatch, "history.published", lambda: run_once(config, spark))
    config = pipeline(tmp_path, 0, records_max=100, renames={old: new} if is_renamed else {})
    send(3, new, "float" if is_renamed else "double")
    report = run_once(config, spark)

    assert report.exit_code == 0, report
    found = content(config)[str(MIRROR.history)]
    assert sorted((row["offset"], row["after"]["id"], round(row["after"][new], 5)) for row in found) == [
        (row - 1, row, row + 0.1) for row in (1, 2, 3)
    ]
    assert what_is_broken(config) == []
