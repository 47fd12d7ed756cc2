"""Columns that change: told by a plan first, then as told; field ids, comments, and rebuilt tables."""

import json
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_DIFFERENCE, EXIT_DONE
from cdc_materializer.lake import branches
from cdc_materializer.lake.lake import Lake
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.plan import plan_tables
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.rebuild.base import carried
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables, roll_back
from cdc_materializer.report.plan_models import TablePlan
from cdc_materializer.run.run import run_once
from cdc_materializer.status import exit_code_of_replay
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from cdc_materializer.trial import try_contract
from tests.spark.kills import is_killed
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.unit.contracts import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]

_ID = {"id": {"type": "int64", "optional": False}}
_ENVELOPE = connect_envelope_schema("t", _ID)
_TEXT = {"type": "string", "optional": True}
_NUMBER = {"type": "int32", "optional": True}


def _decimal(precision: int, scale: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": parameters,
    }


def _variable_scale() -> dict[str, Any]:
    fields = [
        {"field": name, "type": kind, "optional": False} for name, kind in (("scale", "int32"), ("value", "bytes"))
    ]
    return {"type": "struct", "optional": True, "name": "io.debezium.data.VariableScaleDecimal", "fields": fields}


class Table:
    """One table, its topic, and its settings."""

    def __init__(self, config: Config, spark: "SparkSession", name: str) -> None:
        """Begin with an empty topic."""
        self.spark, self.mirror, self._folder = spark, f"evolution.{name}", config.root / f"evolve_{name}"
        self.topic, self.settings = TopicBuilder(f"{name}.public.things"), dict[str, Any]()

    @property
    def config(self) -> Config:
        """The pipeline's configuration."""
        path = self._folder.parent / f"{self._folder.name}.yaml"
        table = {"topic": self.topic.topic, "mirror": self.mirror, **self.settings}
        path.write_text(yaml.safe_dump({"name": "tests", "source": {"files": self._folder.name}, "tables": [table]}))
        return load_config(path)

    def send(self, columns: dict[str, Any], *images: dict[str, Any]) -> None:
        """Add inserts of one writer to the topic."""
        self._folder.mkdir(exist_ok=True)
        for image in images:
            envelope = debezium_envelope("c", None, image, lsn=100 + len(self.topic.messages))
            key = debezium_json({"id": image["id"]}, connect_key_schema("t", _ID))
            self.topic.add(key, debezium_json(envelope, connect_envelope_schema("t", {**_ID, **columns})))
        self.topic.write(self._folder)

    def garble(self, columns: dict[str, Any]) -> None:
        """Add a message that begins as JSON does, and one that names a writer and is none of its messages."""
        schema = connect_envelope_schema("t", {**_ID, **columns})
        for value in (b"{", json.dumps({"schema": schema, "payload": "x"}).encode()):
            self.topic.add(debezium_json({"id": 9}, connect_key_schema("t", _ID)), value)
        self.topic.write(self._folder)

    def plan(self) -> TablePlan:
        """What a run would change."""
        return plan_tables(self.config, spark=self.spark).tables[0]

    def run(self) -> None:
        """Bring the mirror up to date."""
        report = run_once(self.config, self.spark)
        assert report.exit_code == 0, report

    def is_proved(self) -> bool:
        """Whether the mirror is what its log gives."""
        return verify_tables(self.config, self.spark).tables[0].equal

    def rows(self) -> list[dict[str, Any]]:
        """What readers see."""
        found = self.spark.table(f"lake.{self.mirror}").drop("__cdc").orderBy("id").collect()
        return [row.asDict(recursive=True) for row in found]

    def fields(self) -> dict[str, tuple[int, str | None]]:
        """Iceberg's id and comment of each column."""
        table = Lake(self.spark, "lake").iceberg(TableName.parse(self.mirror))
        return {field.name(): (field.fieldId(), field.doc()) for field in table.schema().columns()}


def test_a_plan_tells_what_the_run_then_does(spark: "SparkSession", lake_config: Config) -> None:
    """Made, added, renamed, commented, put beside: told with nothing written, then done, then nothing left."""
    things = Table(lake_config, spark, "things")
    things.send({"name": {**_TEXT, "doc": "First"}, "qty": _NUMBER}, {"id": 1, "name": "a", "qty": 1})

    made = things.plan()

    assert (made.action, made.key, made.messages) == ("create", ["id"], 1)
    assert (made.batches, made.apply, made.pruned_by) == (1, "append", None)
    assert [(one.name, one.type) for one in made.added] == [("id", "bigint"), ("name", "string"), ("qty", "int")]
    assert not spark.catalog.tableExists(f"lake.{things.mirror}__raw")

    things.run()
    before = things.fields()
    things.settings = {"renames": {"name": "label"}, "incompatible_schema": "new_column"}
    later = {
        "label": {**_TEXT, "doc": "It's ${spark.master}"},
        "qty": {"type": "string", "optional": True},
        "note": _TEXT,
    }
    things.send(later, {"id": 2, "label": "b", "qty": "many", "note": "n"})
    changed = things.plan()

    assert before["name"][1] == "First"
    assert things.fields() == before
    assert (changed.action, changed.apply) == ("change", "merge_on_read")
    assert [(one.old, one.new) for one in changed.renamed] == [("name", "label")]
    assert [(one.name, one.beside) for one in changed.added] == [("qty__string", "qty"), ("note", None)]
    assert changed.comments == ["label"]
    assert [(one.column, one.handling, one.beside) for one in changed.misfits] == [("qty", "new_column", "qty__string")]

    things.run()
    after = things.fields()

    assert things.is_proved()
    assert list(after) == ["id", "label", "qty", "qty__string", "note", "__cdc"]
    assert after["label"] == (before["name"][0], "It's ${spark.master}")
    assert things.plan().action == "none"
    assert things.rows() == [
        {"id": 1, "label": "a", "qty": 1, "qty__string": None, "note": None},
        {"id": 2, "label": "b", "qty": None, "qty__string": "many", "note": "n"},
    ]


def test_a_table_is_rebuilt_under_other_rules(spark: "SparkSession", lake_config: Config) -> None:
    """What was held goes beside its column, and a rename that is asked for only then is done before the rows are."""
    held = Table(lake_config, spark, "held")
    held.send({"name": _TEXT, "qty": _NUMBER}, {"id": 1, "name": "a", "qty": 1})
    held.send({"name": _TEXT, "qty": _TEXT}, {"id": 2, "name": "b", "qty": "many"})
    held.run()
    seen = held.rows()
    held.settings = {"renames": {"name": "label"}, "incompatible_schema": "new_column"}

    found = replay_tables(held.config, (held.mirror,), ReplayOptions(publish=True), held.spark).tables[0]

    assert seen == [{"id": 1, "name": "a", "qty": 1}]
    assert (found.published, found.only_rebuilt, found.error) == (True, 1, None)
    assert held.rows() == [
        {"id": 1, "label": "a", "qty": 1, "qty__string": None},
        {"id": 2, "label": "b", "qty": None, "qty__string": "many"},
    ]
    assert held.is_proved()


def test_a_replay_that_publishes_nothing_renames_nothing(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a column is that of all branches: it gets the new one in the commit of the swap, and no sooner.

    Whoever reads it by the old one would not find it any more: so it is where a rule blocks, or the process was killed.
    """
    named = Table(lake_config, spark, "named")
    named.settings = {"ledger": True, "records_max": 1, "incompatible_schema": "new_column"}
    named.send({"name": _TEXT, "code": _NUMBER}, {"id": 1, "name": "a", "code": 1}, {"id": 2, "name": "b", "code": 2})
    named.run()
    renames = {"renames": {"name": "label", "code": "number"}, **named.settings}
    rule = {"type": "expect_column_values_to_be_in_set", "kwargs": {"value_set": ["a"]}}
    blocks = [{"property": "action", "value": "block"}]
    asked = {"type": "custom", "engine": "greatExpectations", "implementation": rule, "customProperties": blocks}
    contract = write(lake_config.root, yaml.safe_dump([{"name": "label", "quality": [asked]}]))
    before, seen = named.fields(), named.rows()

    named.settings = {**renames, "contract": str(contract)}
    (blocked,) = replay_tables(named.config, (named.mirror,), ReplayOptions(publish=True), spark).tables
    left = (named.fields(), named.rows())
    named.settings = renames
    tried = replay_tables(named.config, (named.mirror,), ReplayOptions(), spark)
    publish = partial(replay_tables, named.config, (named.mirror,), ReplayOptions(publish=True), spark)
    assert is_killed(monkeypatch, "replay.marked", publish)
    left_again = (named.fields(), named.rows())
    (done,) = publish().tables

    assert blocked.error is not None
    assert blocked.error.message.startswith("The contract of evolution.named blocks"), blocked.error
    assert (blocked.error.code, blocked.published, blocked.only_live) == ("CONTRACT", False, 1)
    assert left == left_again == (before, seen)
    (found,) = tried.tables
    pairs = [("code", "number"), ("name", "label")]
    assert (found.error, found.equal, [(one.old, one.new) for one in found.renamed]) == (None, True, pairs)
    assert exit_code_of_replay(tried) == EXIT_DIFFERENCE
    assert (done.error, done.published) == (None, True)
    assert named.rows() == [{"id": 1, "label": "a", "number": 1}, {"id": 2, "label": "b", "number": 2}]
    assert named.fields()["label"] == before["name"]
    assert verify_tables(named.config, spark, VerifyOptions(ledger=True)).tables[0].equal
    named.send({"label": _TEXT, "number": _TEXT}, {"id": 3, "label": "c", "number": "many"})
    named.run()
    again = replay_tables(named.config, (named.mirror,), ReplayOptions(), spark).tables[0]
    assert (again.error, again.equal, again.changes) == (None, True, False)
    assert named.is_proved()


def test_a_column_whose_new_name_waits_is_widened_under_the_one_that_readers_see(
    spark: "SparkSession", lake_config: Config
) -> None:
    """Widths and comments are the table's too, and change nothing that readers ask for."""
    wide = Table(lake_config, spark, "wide")
    wide.send({"code": _NUMBER}, {"id": 1, "code": 1})
    wide.run()
    contract = write(lake_config.root, "- {name: number, physicalType: bigint}")
    wide.settings = {"renames": {"code": "number"}, "contract": str(contract)}

    (tried,) = replay_tables(wide.config, (wide.mirror,), ReplayOptions(), spark).tables
    seen = spark.table(f"lake.{wide.mirror}").dtypes[:-1]
    (done,) = replay_tables(wide.config, (wide.mirror,), ReplayOptions(publish=True), spark).tables

    assert (tried.error, tried.equal, len(tried.renamed)) == (None, True, 1)
    assert seen == [("id", "bigint"), ("code", "bigint")]
    assert (done.error, done.published) == (None, True)
    assert wide.rows() == [{"id": 1, "number": 1}]
    assert wide.is_proved()


def test_a_column_gets_another_type_and_its_new_name_with_the_swap_and_loses_both_with_a_rollback(
    spark: "SparkSession", lake_config: Config
) -> None:
    """In one commit: what was rebuilt of it stands beside the column that readers see under its old name."""
    both = Table(lake_config, spark, "swapped")
    both.send({"price": _TEXT}, {"id": 1, "price": "12.50"})
    both.run()
    contract = write(lake_config.root, '- {name: cost, physicalType: "decimal(12,2)"}')
    both.settings = {"renames": {"price": "cost"}, "contract": str(contract)}

    tried = replay_tables(both.config, (both.mirror,), ReplayOptions(), spark).tables[0]
    seen = spark.table(f"lake.{both.mirror}").select("id", "price").collect()
    done = replay_tables(both.config, (both.mirror,), ReplayOptions(publish=True), spark).tables[0]
    swapped, proved = both.rows(), both.is_proved()
    back = roll_back(both.config, (both.mirror,), spark).tables[0]

    assert (tried.error, tried.equal, [(one.old, one.new) for one in tried.renamed]) == (
        None,
        True,
        [("price", "cost")],
    )
    assert [(one.column, one.old, one.new) for one in tried.types] == [("cost", "string", "decimal(12,2)")]
    assert [tuple(row) for row in seen] == [(1, "12.50")]
    assert (done.error, done.published, swapped, proved) == (None, True, [{"id": 1, "cost": Decimal("12.50")}], True)
    assert (back.error, back.rolled_back, both.rows()) == (None, True, [{"id": 1, "price": "12.50"}])
    both.send({"cost": _TEXT}, {"id": 2, "cost": "1"})
    both.run()
    assert both.rows() == [{"id": 1, "cost": "12.50"}, {"id": 2, "cost": "1"}]
    assert both.is_proved()


def test_names_that_a_replay_has_given_are_taken_back_with_it(spark: "SparkSession", lake_config: Config) -> None:
    """With nothing else that is another: field ids and the ledger stay, and a run gives the names if they are stated.

    The history, which no replay writes, has got them from a run; it is written on in both ways.
    """
    named = Table(lake_config, spark, "named_back")
    former = {"history": True, "ledger": True}
    named.settings = former
    named.send({"price": _TEXT}, {"id": 1, "price": "12.50"})
    named.run()
    before = named.fields()
    named.settings = {**former, "renames": {"price": "cost"}}
    done = replay_tables(named.config, (named.mirror,), ReplayOptions(publish=True), spark).tables[0]
    swapped = named.rows()
    named.send({"cost": _TEXT, "note": _TEXT}, {"id": 2, "cost": "1", "note": "a"})
    named.run()

    back = roll_back(named.config, (named.mirror,), spark).tables[0]

    assert (done.error, done.equal, done.published, swapped) == (None, True, True, [{"id": 1, "cost": "12.50"}])
    assert (back.error, back.rolled_back, named.rows()) == (None, True, [{"id": 1, "price": "12.50"}])
    assert named.fields() == before
    named.settings = former
    assert verify_tables(named.config, spark, VerifyOptions([named.mirror], ledger=True)).tables[0].equal
    named.settings = {**former, "renames": {"price": "cost"}}
    named.run()
    assert named.rows() == [{"id": 1, "cost": "12.50", "note": None}, {"id": 2, "cost": "1", "note": "a"}]
    assert named.fields()["cost"] == before["price"]
    assert named.is_proved()


def test_a_name_that_was_taken_back_stays_where_no_rename_is_stated_any_more(
    spark: "SparkSession", lake_config: Config
) -> None:
    """Who takes it out of the settings before the next run has the table as it was before."""
    regretted = Table(lake_config, spark, "regretted")
    regretted.send({"price": _TEXT}, {"id": 1, "price": "12.50"})
    regretted.run()
    regretted.settings = {"renames": {"price": "cost"}}
    replay_tables(regretted.config, (regretted.mirror,), ReplayOptions(publish=True), spark)
    regretted.settings = {}

    back = roll_back(regretted.config, (regretted.mirror,), spark).tables[0]
    regretted.send({"price": _TEXT}, {"id": 2, "price": "1"})
    regretted.run()

    assert (back.error, back.rolled_back) == (None, True)
    assert regretted.rows() == [{"id": 1, "price": "12.50"}, {"id": 2, "price": "1"}]
    assert regretted.is_proved()


def test_a_swap_that_gives_names_catches_up_with_a_run_that_was_first(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run publishes, and renames the column, once the swap has looked at what it goes in for."""
    raced = Table(lake_config, spark, "raced")
    raced.send({"price": _TEXT}, {"id": 1, "price": "12.50"})
    raced.run()
    contract = write(lake_config.root, '- {name: cost, physicalType: "decimal(12,2)"}')
    raced.settings = {"renames": {"price": "cost"}, "contract": str(contract)}
    follows, runs = branches.follows, iter([raced.run])

    def looked_at(*tables: Any) -> bool:  # noqa: ANN401 - whatever it takes
        found = follows(*tables)
        for run in runs:
            raced.send({"price": _TEXT}, {"id": 2, "price": "3.00"})
            run()
        return found

    monkeypatch.setattr(branches, "follows", looked_at)
    done = replay_tables(raced.config, (raced.mirror,), ReplayOptions(publish=True), spark).tables[0]

    assert next(runs, None) is None
    assert (done.error, done.published) == (None, True)
    assert raced.rows() == [{"id": 1, "cost": Decimal("12.50")}, {"id": 2, "cost": Decimal("3.00")}]
    assert raced.is_proved()


def test_another_type_is_a_difference_that_a_replay_ends_with(spark: "SparkSession", lake_config: Config) -> None:
    """Also where each value fits the former one, so that rows are equal, until it is published."""
    grown = Table(lake_config, spark, "grown")
    grown.send({"price": _decimal(10, 2)}, {"id": 1, "price": "BAE="})
    grown.send({"price": _decimal(12, 4)}, {"id": 2, "price": "AZDI"})
    grown.run()

    found = [
        replay_tables(grown.config, (grown.mirror,), ReplayOptions(publish=publishes), spark)
        for publishes in (False, True, False)
    ]

    (told,) = found[0].tables
    assert (told.error, told.equal, told.held_live, told.held_rebuilt) == (None, True, {}, {})
    assert [(one.column, one.old, one.new) for one in told.types] == [("price", "decimal(10,2)", "decimal(12,4)")]
    assert [exit_code_of_replay(one) for one in found] == [EXIT_DIFFERENCE, EXIT_DONE, EXIT_DONE]
    assert [row["price"] for row in grown.rows()] == [Decimal("10.2500"), Decimal("10.2600")]


def test_a_rebuilt_table_has_the_new_types(spark: "SparkSession", lake_config: Config) -> None:
    """What no type in place can hold is held until then; values of the former type have one text, and stay."""
    outgrown = Table(lake_config, spark, "outgrown")
    outgrown.settings = {"history": True}
    outgrown.send(
        {"code": {**_NUMBER, "doc": "A code"}, "qty": _NUMBER}, *[{"id": at, "code": at, "qty": at} for at in (1, 2)]
    )
    outgrown.run()
    before = outgrown.fields()
    outgrown.send({"code": _TEXT, "qty": _NUMBER}, {"id": 2, "code": "b", "qty": 9}, {"id": 3, "code": "7", "qty": 3})
    outgrown.run()
    seen = outgrown.rows()

    tried = replay_tables(outgrown.config, (outgrown.mirror,), ReplayOptions(), spark).tables[0]
    still = outgrown.rows()
    outgrown.send({"code": _TEXT, "qty": _NUMBER}, {"id": 4, "code": "d", "qty": 4})
    outgrown.garble({"code": {**_NUMBER, "doc": "A code"}, "qty": _NUMBER})
    outgrown.run()
    done = replay_tables(outgrown.config, (outgrown.mirror,), ReplayOptions(publish=True), spark).tables[0]
    published, fields = outgrown.rows(), outgrown.fields()
    outgrown.send({"code": _NUMBER, "qty": _NUMBER}, {"id": 5, "code": 50, "qty": 5})
    outgrown.run()
    again = replay_tables(outgrown.config, (outgrown.mirror,), ReplayOptions(), spark).tables[0]

    assert seen == [{"id": 1, "code": 1, "qty": 1}, {"id": 2, "code": 2, "qty": 2}]
    assert [(one.column, one.old, one.new) for one in tried.types] == [("code", "int", "string")]
    assert (tried.different, tried.only_rebuilt, tried.published) == (1, 1, False)
    assert [{name: row[name] for name in ("id", "code", "qty")} for row in still] == seen
    assert (done.error, done.published, done.only_rebuilt) == (None, True, 2)
    assert done.held_rebuilt == {"UNDECODABLE": 2}
    assert (again.error, again.equal, again.types) == (None, True, [])
    assert list(fields) == ["id", "code", "qty", "__cdc"]
    assert fields["code"][0] != before["code"][0]
    assert fields["code"][1] == "A code"
    told = [{"id": 1, "code": "1", "qty": 1}, {"id": 2, "code": "b", "qty": 9}]
    told += [{"id": 3, "code": "7", "qty": 3}, {"id": 4, "code": "d", "qty": 4}]
    assert published == told
    assert outgrown.rows() == [*told, {"id": 5, "code": "50", "qty": 5}]
    assert outgrown.is_proved()
    history = spark.table(f"lake.{outgrown.mirror}__history").select("after.*").orderBy("id").collect()
    assert [row.asDict() for row in history if row["id"] in {1, 5}] == [
        {"id": 1, "code__int": 1, "code": None, "qty": 1},
        {"id": 5, "code__int": None, "code": "50", "qty": 5},
    ]

    roll_back(outgrown.config, (outgrown.mirror,), spark)
    assert outgrown.rows() == seen
    assert outgrown.fields() == before
    outgrown.run()
    assert outgrown.is_proved()


def test_a_mirror_gets_the_types_that_a_contract_declares_later(spark: "SparkSession", lake_config: Config) -> None:
    """With a replay, and not before: what readers have stays as it is, and a run goes on with it."""
    declared = Table(lake_config, spark, "declared")
    declared.settings = {"history": True}
    declared.send({"price": _TEXT}, {"id": 1, "price": "12.50"}, {"id": 2, "price": "dear"})
    declared.run()
    contract = write(lake_config.root, '- {name: price, physicalType: "decimal(12,2)"}')
    declared.settings = {"history": True, "contract": str(contract)}
    declared.send({"price": _TEXT}, {"id": 3, "price": "7.5"})

    planned = declared.plan()
    declared.run()
    seen, proved = declared.rows(), declared.is_proved()
    done = replay_tables(declared.config, (declared.mirror,), ReplayOptions(publish=True), spark).tables[0]
    declared.send({"price": _TEXT}, {"id": 4, "price": "0.1"}, {"id": 5, "price": "0.001"})
    declared.run()

    kept = [(one.column, one.table_type, one.declared_type) for one in planned.declared]
    assert (planned.action, kept) == ("none", [("price", "string", "decimal(12,2)")])
    assert seen == [{"id": 1, "price": "12.50"}, {"id": 2, "price": "dear"}, {"id": 3, "price": "7.5"}]
    assert proved
    assert [(one.column, one.old, one.new) for one in done.types] == [("price", "string", "decimal(12,2)")]
    assert (done.published, done.only_live, done.error) == (True, 1, None)
    prices = {1: Decimal("12.50"), 3: Decimal("7.50"), 4: Decimal("0.10")}
    assert {row["id"]: row["price"] for row in declared.rows()} == prices
    held = spark.table(f"lake.{declared.mirror}__quarantine").where("status = 'open'").select("offset", "code")
    assert sorted(map(tuple, held.collect())) == [(1, "SCHEMA_INCOMPATIBLE"), (4, "OUT_OF_RANGE")]
    assert declared.is_proved()
    assert declared.plan().declared == []
    tried = try_contract(declared.config, declared.mirror, contract, spark=spark)
    assert {str(one.code): one.messages for one in tried.codes} == {"SCHEMA_INCOMPATIBLE": 1, "OUT_OF_RANGE": 1}

    roll_back(declared.config, (declared.mirror,), spark)
    assert declared.rows() == seen
    declared.run()
    assert declared.is_proved()


def test_a_column_that_is_renamed_and_rebuilt_at_once_keeps_its_digits_in_the_history(
    spark: "SparkSession", lake_config: Config
) -> None:
    """Both before the history is next written: nothing is rounded to the type that the former name had."""
    both = Table(lake_config, spark, "both")
    both.settings = {"history": True}
    both.send({"price": _decimal(12, 2), "code": _NUMBER}, {"id": 1, "price": 1.5, "code": 1})
    both.run()
    both.settings = {"history": True, "renames": {"price": "cost", "code": "name"}}
    both.send({"cost": _decimal(14, 4), "name": _TEXT}, {"id": 2, "cost": 10.1234, "name": "two"})
    both.run()
    done = replay_tables(both.config, (both.mirror,), ReplayOptions(publish=True), spark).tables[0]
    both.send({"cost": _decimal(14, 4), "name": _TEXT}, {"id": 3, "cost": 20.1234, "name": "three"})
    both.run()

    assert (done.error, done.published, both.rows()[-1]["cost"]) == (None, True, Decimal("20.1234"))
    history = spark.table(f"lake.{both.mirror}__history").select("after.*").orderBy("id").collect()
    told = {"cost__decimal_12_2": None, "name__int": None, "cost": Decimal("20.1234"), "name": "three"}
    assert history[-1].asDict() == {"id": 3, **told}
    assert (history[0]["cost__decimal_12_2"], history[0]["name__int"]) == (Decimal("1.50"), 1)
    assert both.is_proved()


def test_flags_and_numbers_with_a_scale_each_get_columns_that_hold_them(
    spark: "SparkSession", lake_config: Config
) -> None:
    """With a replay; a column of integers holds booleans as they are sent, and one of decimals some of such numbers."""
    flags = Table(lake_config, spark, "flags")
    flags.settings = {"history": True}
    flags.send({"flag": _NUMBER, "price": _decimal(12, 2)}, {"id": 1, "flag": 1, "price": 1.5})
    flags.run()
    contract = write(lake_config.root, "- {name: flag, physicalType: boolean}")
    flags.settings = {"history": True, "contract": str(contract)}
    any_scale = {"flag": _NUMBER, "price": _variable_scale()}
    flags.send(any_scale, {"id": 2, "flag": 0, "price": {"scale": 4, "value": "AYty"}})
    planned = flags.plan()
    flags.run()
    seen = flags.rows()
    done = replay_tables(flags.config, (flags.mirror,), ReplayOptions(publish=True), spark).tables[0]
    flags.send(any_scale, {"id": 3, "flag": 1, "price": {"scale": 1, "value": "FQ=="}})
    flags.run()

    assert [(one.column, one.declared_type) for one in planned.declared] == [("flag", "boolean")]
    assert seen == [{"id": 1, "flag": 1, "price": Decimal("1.50")}]
    assert {one.column: (one.old, one.new) for one in done.types} == {
        "flag": ("int", "boolean"),
        "price": ("decimal(38,2)", "string"),
    }
    assert flags.rows() == [
        {"id": 1, "flag": True, "price": "1.50"},
        {"id": 2, "flag": False, "price": "10.1234"},
        {"id": 3, "flag": True, "price": "2.1"},
    ]
    assert flags.plan().declared == []
    history = spark.table(f"lake.{flags.mirror}__history").select("after.*").orderBy("id").collect()
    former = {"flag__int": None, "price__decimal_12_2": None}
    assert history[-1].asDict() == {"id": 3, **former, "flag": True, "price": "2.1"}
    assert flags.is_proved()


def test_taking_back_other_types_leaves_what_a_run_has_published_meanwhile(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns, rows and marker go back in one commit, or not at all: the run's marker stands with the run's rows."""
    overtaken = Table(lake_config, spark, "overtaken")
    overtaken.send({"code": _NUMBER}, {"id": 1, "code": 1})
    overtaken.run()
    overtaken.send({"code": _TEXT}, {"id": 2, "code": "b"})
    overtaken.run()
    replay_tables(overtaken.config, (overtaken.mirror,), ReplayOptions(publish=True), spark)
    overtaken.send({"code": _TEXT}, {"id": 3, "code": "c"})
    runs = list[int]()

    def overtake(old: Marker, now: Marker) -> Marker:
        if not runs:
            runs.append(1)
            overtaken.run()
        return carried(old, now)

    monkeypatch.setattr("cdc_materializer.rebuild.swap.carried", overtake)
    refused = roll_back(overtaken.config, (overtaken.mirror,), spark).tables[0]

    assert refused.error is not None
    assert (refused.rolled_back, refused.error.code) == (False, "CommitConflict")
    assert "pipeline tests" in refused.error.message
    assert overtaken.rows() == [{"id": 1, "code": "1"}, {"id": 2, "code": "b"}, {"id": 3, "code": "c"}]
    assert overtaken.is_proved()
    assert roll_back(overtaken.config, (overtaken.mirror,), spark).tables[0].rolled_back
    assert overtaken.rows() == [{"id": 1, "code": 1}]
    overtaken.run()
    assert overtaken.is_proved()


def test_a_plan_tells_why_a_table_would_stop(spark: "SparkSession", lake_config: Config) -> None:
    """Every name that cannot be had is in the list, and the exit code is the run's."""
    stopped = Table(lake_config, spark, "stopped")
    stopped.send({"_pos": _TEXT, "__cdc_x": _TEXT}, {"id": 1, "_pos": "a", "__cdc_x": "b"})

    found = plan_tables(stopped.config, spark=spark)

    assert found.exit_code == 2
    assert found.tables[0].action == "stop"
    assert found.tables[0].error is not None
    assert "`_pos` (kept by Iceberg" in found.tables[0].error.message
    assert "`__cdc_x` (kept by cdc_materializer" in found.tables[0].error.message


def test_a_plan_may_be_the_first_that_uses_a_catalog(spark: "SparkSession", tmp_path: Path) -> None:
    """Of many tables at one time, each in a session of its own: all of them are told, and none is made."""
    topics = [TopicBuilder(f"first.public.t{at}") for at in range(8)]
    for topic in topics:
        envelope = debezium_envelope("c", None, {"id": 1}, lsn=100)
        topic.add(debezium_json({"id": 1}, connect_key_schema("t", _ID)), debezium_json(envelope, _ENVELOPE))
        topic.write(tmp_path / "recorded")
    path = tmp_path / "pipeline.yaml"
    tables = [{"topic": topic.topic} for topic in topics]
    path.write_text(yaml.safe_dump({"name": "first", "source": {"files": "recorded"}, "tables": tables}))

    found = plan_tables(load_config(path), spark=spark)

    assert [(plan.action, plan.error) for plan in found.tables] == [("create", None)] * len(topics)
