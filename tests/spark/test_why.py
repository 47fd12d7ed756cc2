"""The life of a row as `cdcm why` tells it, a contract tried on history, and held messages that are released."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer import pipeline
from cdc_materializer.batch.earlier import keys_of
from cdc_materializer.changes import model as m
from cdc_materializer.config import Config, load_config
from cdc_materializer.decoders.decoders import Decoders, Lookup, find_decoders
from cdc_materializer.errors import EXIT_BLOCKED, UsageError
from cdc_materializer.explain import log
from cdc_materializer.explain.explain import Asked, why
from cdc_materializer.moments.moments import Moment, as_of
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.report.row_models import WhyReport
from cdc_materializer.report.trial_models import RuleTrial, TrialReport
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from cdc_materializer.trial import try_contract
from tests.spark.marks import EIGHTH_TURN, IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = [pytest.mark.spark, EIGHTH_TURN, *IMPORTS_GREAT_EXPECTATIONS]

_KEY = {"id": {"type": "int64", "optional": False}}
_COLUMNS = {**_KEY, "name": {"type": "string", "optional": True}, "price": {"type": "int32", "optional": True}}
_CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: things
name: Things
version: "1"
status: active
schema:
  - name: things
    physicalType: table
    properties:
      - {id: id, name: id, primaryKey: true, logicalType: integer, physicalType: bigint}
      - {id: name, name: name, logicalType: string, physicalType: text}
      - name: price
        logicalType: integer
        physicalType: integer
        quality:
          - name: price-limit
            type: custom
            engine: greatExpectations
            customProperties: [{property: action, value: ACTION}]
            implementation: {type: expect_column_values_to_be_between, kwargs: {min_value: LEAST}}
"""
_TABLE = "rows.things"


class Things:
    """A table with a contract, and its topic."""

    def __init__(self, spark: "SparkSession", config: Config, name: str, batch: int) -> None:
        """Make the pipeline's file, and a contract that asks for a price of 0 and more."""
        self.spark, self.folder, self.mirror = spark, config.root / name, f"{name}.things"
        self.folder.mkdir()
        self._topic = TopicBuilder(f"{name}.public.things")
        self.contract("contract.yaml", least=0)
        table = {"topic": self._topic.topic, "mirror": self.mirror, "contract": f"{name}/contract.yaml"}
        path = config.root / f"{name}.yaml"
        file = {"name": name, "source": {"files": name}, "tables": [{**table, "records_max": batch}]}
        path.write_text(yaml.safe_dump(file), encoding="utf-8")
        self.config = load_config(path)

    def run(self) -> None:
        """Bring the mirror up to date."""
        assert run_once(self.config, self.spark).exit_code == 0

    def contract(self, name: str, *, least: int, action: str = "quarantine", of_names: str = "") -> Path:
        """Write a contract whose one rule asks for a least price; with more of the names, where that is said."""
        path, name_column = self.folder / name, "{id: name, name: name, logicalType: string, physicalType: text"
        found = _CONTRACT.replace("LEAST", str(least)).replace("ACTION", action)
        path.write_text(found.replace(name_column, name_column + of_names), encoding="utf-8")
        return path

    def send(self, *changes: tuple[Any, ...]) -> None:
        """Add changes to the topic: operation, key, price, the position if it is not a later one, and the snapshot."""
        for op, row, price, *position in changes:
            key = debezium_json({"id": row}, connect_key_schema("t", _KEY))
            image = {"id": row, "name": f"thing {row}", "price": price}
            before, after = (image, None) if op == "d" else (None, image)
            lsn = position[0] if position else 100 + len(self._topic.messages)
            envelope = debezium_envelope(op, before, after, lsn=lsn, snapshot="".join(position[1:]) or "false")
            value = debezium_json(envelope, connect_envelope_schema("t", _COLUMNS))
            self._topic.add(key, None if op == "tombstone" else value)
        self._topic.write(self.folder)

    def send_framed(self, row: int) -> None:
        """Add a message whose value names a schema by its id, as Confluent's serializers write it."""
        self._topic.add(debezium_json({"id": row}, connect_key_schema("t", _KEY)), b"\0\0\0\0\5garbage")
        self._topic.write(self.folder)

    def why(self, **asked: Any) -> WhyReport:  # noqa: ANN401 - fields of Asked
        """The life of a row."""
        return why(self.config, self.mirror, Asked(**asked), self.spark)

    def rows(self) -> dict[int, int]:
        """What readers see."""
        return {row["id"]: row["price"] for row in self.spark.table(f"lake.{self.mirror}").collect()}

    def quarantine(self) -> list[tuple[int, str]]:
        """Offset and status of what is in quarantine."""
        rows = self.spark.table(f"lake.{self.mirror}__quarantine").orderBy("offset").collect()
        return [(row["offset"], row["status"]) for row in rows]

    def broken(self) -> list[tuple[str, str]]:
        """Rule and status of what is in quarantine."""
        rows = self.spark.table(f"lake.{self.mirror}__quarantine").collect()
        return sorted((row["rule"], row["status"]) for row in rows)


@pytest.fixture(scope="module")
def things(spark: "SparkSession", lake_config: Config) -> Things:
    """A table with rows of every fate, whose last message has landed and was not read; nobody changes it."""
    made = Things(spark, lake_config, "rows", 3)
    made.send(("c", 1, 10), ("u", 1, 11), ("c", 2, 20))
    made.send(("u", 1, -5), ("u", 1, 11, 101), ("d", 2, None))
    made.send(("tombstone", 2, None), ("c", 3, -1), ("u", 1, 12))
    made.run()
    made.send(("u", 1, 13))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pipeline, "fold_next", lambda *_arguments, **_options: None)
        made.run()
    return made


def _fates(report: WhyReport) -> list[tuple[int, str, list[str]]]:
    return [(found.offset, found.outcome, found.columns) for found in report.messages]


def test_every_message_of_a_row_is_told_with_what_became_of_it(things: Things) -> None:
    """In its own batch: overtaken, published, held, sent again, waiting; what the mirror shows is what they give."""
    found = things.why(key='{"id": 1}')

    assert _fates(found) == [
        (0, "superseded", ["id", "name", "price"]),
        (1, "upserted", ["price"]),
        (3, "quarantined", ["price"]),
        (4, "replayed", []),
        (8, "upserted", ["price"]),
        (9, "waiting", []),
    ]
    by = {one.offset: one.by.offset for one in found.messages if one.by}
    assert by == {0: 1, 1: 8, 3: 8, 4: 1}
    assert {one.offset: [held.offset for held in one.supersedes_held] for one in found.messages} == {
        **{offset: [] for offset in (0, 1, 3, 4, 9)},
        8: [3],
    }
    held = found.messages[2]
    assert held.broke == ["CONTRACT price-limit"]
    assert [(one.code, one.rule, one.status) for one in held.violations] == [("CONTRACT", "price-limit", "superseded")]
    assert len({one.snapshot for one in found.messages[:5]}) == 3, "each in the snapshot of its batch"
    assert found.row is not None
    assert (found.row.present, found.row.agrees) == (True, True)
    assert found.row.written is not None
    assert (found.row.written.offset, found.total) == (8, 6)
    assert "-5" not in found.to_json(), "no values"


def test_a_row_that_is_gone_and_one_that_never_was_good_are_told_too(things: Things) -> None:
    """By the key's plain value, or by one of its messages; the newest alone where no more are asked for."""
    gone, never = things.why(key="2", limit=2), things.why(place=(0, 7))

    assert _fates(gone) == [(5, "deleted", []), (6, "unchanged", [])]
    assert (gone.total, gone.key) == (3, '{"id":2}')
    assert gone.summary == ["The mirror has no such row: message 0/5 ended it."]
    assert _fates(never) == [(7, "quarantined", ["id", "name", "price"])]
    assert never.summary[0] == "The mirror has no such row: none of its messages could be published."
    assert never.row is not None
    assert (never.row.present, never.row.agrees) == (False, True)


def test_of_other_rows_keys_are_read_and_no_values(things: Things, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row's life costs on a large table is a pass over its keys: not over what values begin with, nor more."""
    decoded: list[list["Row"]] = []
    scanned: list[str] = []

    def find(messages: "DataFrame", lookup: Lookup, **more: Any) -> Decoders:  # noqa: ANN401 - as below
        decoded.append(messages.select("offset").collect())
        return find_decoders(messages, lookup, **more)

    def keys(*asked: Any) -> "DataFrame":  # noqa: ANN401 - what `keys_of` takes
        found = keys_of(*asked)
        java: Any = found.select(m.KEY, m.PARTITION, m.OFFSET)._jdf
        leaves = java.queryExecution().executedPlan().collectLeaves()
        scanned.extend(leaves.apply(at).output().mkString(" ") for at in range(leaves.size()))
        return found

    monkeypatch.setattr(log, "find_decoders", find)
    monkeypatch.setattr(log, "keys_of", keys)
    told = things.why(key="1")

    unread, own = (sorted(row["offset"] for row in rows) for rows in decoded)
    assert (unread, own) == ([9], sorted(one.offset for one in told.messages))
    raw = [columns for columns in scanned if "key_schema_name#" in columns]
    assert len(raw) == 1, scanned
    assert "key#" in raw[0], scanned
    assert "value#" not in raw[0], scanned


@pytest.mark.parametrize("key", ["1", "2", "3"])
def test_a_summary_does_not_depend_on_how_many_messages_are_listed(things: Things, key: str) -> None:
    """What left the row as it is may lie behind those that are shown, and so may what is held or waits since."""
    whole, newest = things.why(key=key), things.why(key=key, limit=1)

    assert newest.summary == whole.summary
    assert newest.messages == whole.messages[-1:]


def test_a_row_that_another_program_changed_is_not_what_its_messages_give(things: Things) -> None:
    """The column is named, and the way to see more."""
    name = f"lake.{_TABLE}"
    things.spark.sql(f"UPDATE {name} SET price = 99 WHERE id = 1")
    try:
        found = things.why(key="1", limit=1)
    finally:
        things.spark.sql(f"UPDATE {name} SET price = 12 WHERE id = 1")

    assert found.row is not None
    assert (found.row.agrees, found.row.different) == (False, ["price"])
    assert "see `cdcm verify`" in found.summary[-1]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"key": "77"}, "has no message of that key"),
        ({"key": "some text"}, "is no value of the type bigint"),
        ({"place": (0, 77)}, "has no message 0/77"),
    ],
)
def test_a_row_that_is_not_there_is_refused(things: Things, asked: dict[str, Any], said: str) -> None:
    """With what is wrong, and without the key's value."""
    with pytest.raises(UsageError, match=said) as refused:
        things.why(**asked)

    assert str(asked.get("key")) not in str(refused.value)


# --- a contract tried on history ------------------------------------------------------------------------------------


def _limit(found: TrialReport) -> RuleTrial:
    (rule,) = (one for one in found.rules if one.rule == "price-limit")
    return rule


def test_a_contract_is_tried_on_every_state_that_rows_have_had(things: Things) -> None:
    """What was overtaken counts as well; of what nothing good came after it says so, and nothing is written."""
    snapshots = things.spark.table(f"lake.{_TABLE}.snapshots").count()

    found = try_contract(
        things.config, _TABLE, things.contract("stricter.yaml", least=12, action="block"), None, things.spark
    )

    rule = _limit(found)
    assert (found.messages, found.judged, found.broken, found.read_from) == (10, 7, 4, "raw")
    assert (rule.messages, rule.keys, rule.held) == (4, 2, 1)
    # They bring it along, and it has no number.
    assert [(name.partition("/")[0], count) for name, count in rule.schemas.items()] == [("inline:t.Envelope", 4)]
    assert [place.offset for place in (rule.first, rule.last) if place] == [0, 7]
    assert (found.blocks, found.in_force) == (["price-limit"], False)
    assert things.spark.table(f"lake.{_TABLE}.snapshots").count() == snapshots


@pytest.mark.parametrize(("allows", "blocks"), [("9%", ["max_quarantined"]), ("1", [])])
def test_a_trial_says_whether_a_batch_would_hold_more_than_the_contract_allows(
    things: Things, allows: str, blocks: list[str]
) -> None:
    """As a run would that took history as one batch: what was mended in it is not held."""
    path = things.contract("limited.yaml", least=12)
    limit = f"\n    customProperties: [{{property: max_quarantined, value: {allows}}}]\n    properties:"
    path.write_text(path.read_text("utf-8").replace("\n    properties:", limit), encoding="utf-8")

    found = try_contract(things.config, _TABLE, path, None, things.spark)

    assert found.limit is not None
    assert (found.limit.allows, found.limit.held, found.limit.messages, found.limit.share) == (allows, 1, 10, 0.1)
    assert found.blocks == blocks


def test_rules_about_the_table_are_tried_on_what_history_ends_with(things: Things) -> None:
    """One row is left, the newest that raw has; rules that are only tried stop nothing."""
    of_table = """
    quality:
      - {name: one-row, metric: rowCount, mustBe: 1}
      - {name: two-rows, type: sql, query: 'SELECT count(*) FROM {object}', mustBe: 2}
      - {name: tried, type: sql, query: 'SELECT max(price) FROM {object}', mustBe: 12,
         customProperties: [{property: shadow, value: true}]}
      - {name: nowhere, type: sql, query: SELECT 1 FROM nowhere, mustBe: 1,
         customProperties: [{property: action, value: warn}]}
    properties:"""
    path = things.contract("whole.yaml", least=0)
    path.write_text(path.read_text("utf-8").replace("\n    properties:", of_table), encoding="utf-8")

    found = try_contract(things.config, _TABLE, path, None, things.spark)

    assert [(one.rule, one.action, one.holds) for one in found.table_rules] == [
        ("one-row", "block", True),
        ("two-rows", "block", False),
        ("tried", "shadow", False),
        ("nowhere", "warn", None),
    ]
    assert found.blocks == ["two-rows", "nowhere"]


def test_a_trial_leaves_out_the_rows_that_a_snapshot_did_not_show(spark: "SparkSession", lake_config: Config) -> None:
    """As a run does that reads the topic; what compares one batch with another is told as not judged."""
    shop = Things(spark, lake_config, "trial_swept", 9)
    (table,) = shop.config.tables
    config = shop.config.model_copy(update={"tables": [table.model_copy(update={"snapshot_sweep": True})]})
    told = [(1, "first", 100), (2, "last", 100), (2, "first", 600), (3, "last", 600)]
    for row, snapshot, lsn in told:
        shop.send(("r", row, 10, lsn, snapshot))
    of_table = """
    quality:
      - {name: two-rows, metric: rowCount, mustBe: 2}
      - {name: steady, metric: rowCount, mustBe: 0, arguments: {comparedTo: previous}}
    properties:"""
    path = shop.contract("swept.yaml", least=0)
    path.write_text(path.read_text("utf-8").replace("\n    properties:", of_table), encoding="utf-8")

    ahead = try_contract(config, shop.mirror, path, None, spark)
    assert run_once(config, spark).exit_code == 0
    behind = try_contract(config, shop.mirror, path, None, spark)

    assert shop.rows() == {2: 10, 3: 10}
    assert (ahead.read_from, behind.read_from) == ("topic", "raw")
    for found in (ahead, behind):
        assert [(one.rule, one.holds) for one in found.table_rules] == [("two-rows", True), ("steady", None)]
        assert found.blocks == []


# --- a rule that is only tried, and fails at a row ---------------------------------------------------------------

_OF_NUMBERS = """, quality: [{name: of-numbers, type: custom, engine: greatExpectations,
         implementation: {type: expect_column_value_lengths_to_be_between,
                          kwargs: {max_value: 1, row_condition: cast(name as int) > 0, condition_parser: spark}},
         customProperties: [{property: shadow, value: true}]}]"""


def test_a_tried_rule_that_fails_at_a_row_stops_nobody_who_asks(spark: "SparkSession", lake_config: Config) -> None:
    """As it stops no run: rows are proven, repaired, told as of then and explained without it, and a trial says so."""
    shop = Things(spark, lake_config, "tried_rule", 5)
    shop.contract("contract.yaml", least=0, of_names=_OF_NUMBERS)
    shop.send(("c", 1, 10), ("u", 1, -1), ("c", 2, 20))
    shop.run()
    proof = verify_tables(shop.config, spark).tables[0]
    assert (proof.equal, proof.error, proof.held) == (True, None, 1)

    spark.sql(f"DELETE FROM lake.{shop.mirror} WHERE id = 2")
    repaired = verify_tables(shop.config, spark, VerifyOptions(repair=True)).tables[0]
    assert (repaired.error, repaired.missing, shop.rows()) == (None, 1, {1: 10, 2: 20})

    position = shop.why(key="2").messages[0].position
    assert as_of(shop.config, shop.mirror, Moment(position=position), spark).count == 2
    assert [(one.outcome, one.broke) for one in shop.why(key="1").messages] == [
        ("upserted", []),
        ("quarantined", ["CONTRACT price-limit"]),
    ]

    tried = try_contract(shop.config, shop.mirror, shop.folder / "contract.yaml", None, spark)
    by_name = {rule.rule: rule for rule in tried.rules}
    assert by_name["of-numbers"].why == "CAST_INVALID_INPUT"
    assert (by_name["of-numbers"].messages, by_name["of-numbers"].share) == (0, None)
    assert (by_name["price-limit"].messages, by_name["price-limit"].why) == (1, None)


# --- held messages, released ----------------------------------------------------------------------------------------


def test_what_a_mended_contract_lets_through_is_published_and_the_rest_stays_held(
    spark: "SparkSession", lake_config: Config
) -> None:
    """All held messages of a row are judged together, none is in quarantine twice, and `verify` agrees."""
    shop = Things(spark, lake_config, "releases", 5)
    shop.send(("c", 1, 10), ("u", 1, -1), ("c", 2, -5), ("c", 3, -1), ("u", 3, -9))
    shop.run()
    assert shop.rows() == {1: 10}
    shop.contract("contract.yaml", least=-2)

    one = release_held(shop.config, shop.mirror, Wanted(place=(0, 3)), spark)
    assert (one.tried, one.released, one.held, one.codes) == (2, 1, 1, {"CONTRACT price-limit": 1})
    assert shop.rows() == {1: 10, 3: -1}

    rest = release_held(shop.config, shop.mirror, Wanted(rule="price-limit"), spark)
    assert (rest.tried, rest.released, rest.held) == (3, 1, 2)
    assert shop.rows() == {1: -1, 3: -1}
    assert shop.quarantine() == [(1, "released"), (2, "open"), (3, "released"), (4, "open")]
    assert verify_tables(shop.config, spark).equal
    assert release_held(shop.config, shop.mirror, Wanted(rule="another"), spark).tried == 0

    shop.contract("contract.yaml", least=-10)
    release_held(shop.config, shop.mirror, Wanted(), spark)
    assert shop.rows() == {1: -1, 2: -5, 3: -9}
    seen = shop.why(key="3").messages[0]
    assert "before readers saw it" not in seen.reason, "they did, between the two releases"


def test_a_rule_that_is_mended_ends_its_own_row_of_a_message_that_breaks_two(
    spark: "SparkSession", lake_config: Config
) -> None:
    """The message stays held by the other one alone: so say the release, `verify --repair` and a replay."""
    shop = Things(spark, lake_config, "pairs", 5)
    shop.contract("contract.yaml", least=0, of_names=", logicalTypeOptions: {maxLength: 3}")
    shop.send(("c", 1, -1), ("c", 2, 20))
    shop.run()
    assert shop.broken() == [("name.length", "open"), ("name.length", "open"), ("price-limit", "open")]
    assert len(shop.why(key="1", limit=1).messages[0].violations) == 2, "the limit is of messages"
    shop.contract("contract.yaml", least=0)

    found = release_held(shop.config, shop.mirror, Wanted(rule="name.length"), spark)

    assert (found.tried, found.released, found.held, found.codes) == (2, 1, 1, {"CONTRACT price-limit": 1})
    assert shop.broken() == [("name.length", "released"), ("name.length", "released"), ("price-limit", "open")]
    spark.sql(f"INSERT INTO lake.{shop.mirror} SELECT 1, name, price, __cdc FROM lake.{shop.mirror}")
    repaired = verify_tables(shop.config, spark, VerifyOptions(repair=True)).tables[0]
    assert (repaired.error, repaired.unexpected, shop.rows()) == (None, 1, {2: 20})
    replayed = replay_tables(shop.config, (shop.mirror,), ReplayOptions(), spark).tables[0]
    assert (replayed.equal, replayed.held_rebuilt) == (True, replayed.held_live)


def test_a_row_that_stopped_its_table_can_be_released_once_its_rule_only_holds(
    spark: "SparkSession", lake_config: Config
) -> None:
    """It is in quarantine since the stop, and from the next run on as what holds it now."""
    shop = Things(spark, lake_config, "stopped", 5)
    shop.contract("contract.yaml", least=0, action="block")
    shop.send(("c", 1, -1), ("c", 2, 20))
    assert run_once(shop.config, spark).exit_code == EXIT_BLOCKED
    shop.contract("contract.yaml", least=0)
    shop.run()
    assert shop.rows() == {2: 20}
    shop.contract("contract.yaml", least=-5)

    found = release_held(shop.config, shop.mirror, Wanted(), spark)

    assert (found.tried, found.released, shop.rows()) == (1, 1, {1: -1, 2: 20})


def test_what_a_stopped_table_has_landed_and_not_read_is_told_as_waiting(
    spark: "SparkSession", lake_config: Config
) -> None:
    """The message that a rule blocks says so; another row's behind it waits, and is as it was left before."""
    shop = Things(spark, lake_config, "halted", 2)
    shop.contract("contract.yaml", least=0, action="block")
    shop.send(("c", 1, 10), ("c", 2, 20))
    shop.run()
    shop.send(("u", 1, -1), ("u", 2, 21), ("d", 2, None))
    assert run_once(shop.config, spark).exit_code == EXIT_BLOCKED

    blocked, behind = shop.why(key='{"id": 1}'), shop.why(key='{"id": 2}')

    assert shop.rows() == {1: 10, 2: 20}
    assert _fates(blocked)[1:] == [(2, "waiting", [])]
    assert blocked.messages[-1].reason.startswith("It has landed in raw and stops the table (CONTRACT price-limit)")
    assert [(found.rule, found.action, found.status) for found in blocked.messages[-1].violations] == [
        ("price-limit", "block", "open")
    ]
    assert _fates(behind)[1:] == [(3, "waiting", []), (4, "waiting", [])]
    assert (behind.messages[-1].batch, behind.messages[-1].snapshot) == (None, None)
    said = "The mirror has the row, as it was left by message 0/1."
    assert behind.summary == [said, "2 messages wait for the next `cdcm run`."]
    assert behind.row is not None
    assert (behind.row.present, behind.row.agrees) == (True, True)
    assert shop.why(place=(0, 4)).key == behind.key

    shop.contract("contract.yaml", least=-5, action="block")
    shop.run()
    assert [found.outcome for found in shop.why(key='{"id": 2}').messages] == ["upserted", "upserted", "deleted"]


def test_what_would_need_a_registry_that_is_not_there_is_told_too(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One such message is held, another was not read yet; a row of before either is told as ever."""
    mixed = Things(spark, lake_config, "mixed", 500)
    mixed.send(("c", 1, 10))
    mixed.send_framed(2)
    mixed.run()
    held = mixed.why(place=(0, 1))
    mixed.send_framed(3)
    monkeypatch.setattr(pipeline, "fold_next", lambda *_arguments, **_options: None)
    mixed.run()

    assert [(one.offset, one.outcome, [broken.code for broken in one.violations]) for one in held.messages] == [
        (1, "quarantined", ["SCHEMA_UNKNOWN"])
    ]
    assert _fates(mixed.why(key="1")) == [(0, "upserted", ["id", "name", "price"])]
