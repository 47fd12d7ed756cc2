"""A contract that is tried on history: since when, under which writers' schemas, and with nothing written."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.contract import load_contract
from cdc_materializer.errors import ContractInvalid
from cdc_materializer.review import review
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import EPOCH, TopicBuilder, confluent_avro
from cdc_materializer.trial import try_contract
from tests.cases.schemas import write_schemas
from tests.spark.marks import EIGHTH_TURN, IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, EIGHTH_TURN, *IMPORTS_GREAT_EXPECTATIONS]

_TABLE = "tried.orders"
_ID, _PRICE = {"name": "id", "type": "long"}, {"name": "price", "type": "int"}
_SCHEMAS: dict[int, dict[str, Any]] = {
    1: {"type": "record", "name": "row", "fields": [_ID, _PRICE]},
    2: {"type": "record", "name": "row", "fields": [_ID, _PRICE, {"name": "note", "type": ["null", "string"]}]},
    9: {"type": "record", "name": "key", "fields": [_ID]},
}
#: The writer's schema, the key and the price of each message, a millisecond after the one before.
_SENT = ((1, 1, 5), (1, 2, 20), (2, 3, 1), (2, 1, 2), (2, 4, 30))


def _contract(path: Path, least: int) -> Path:
    rule = {"name": "least-price", "type": "custom", "engine": "greatExpectations"}
    asked = {"type": "expect_column_values_to_be_between", "kwargs": {"min_value": least}}
    columns: list[dict[str, Any]] = [
        {"name": "id", "primaryKey": True, "physicalType": "bigint"},
        {"name": "price", "physicalType": "int", "quality": [{**rule, "implementation": asked}]},
    ]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "orders", "version": "1.0.0", "status": "active"}
    path.write_text(yaml.safe_dump({**head, "schema": [{"name": "orders", "properties": columns}]}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def config(spark: "SparkSession", lake_config: Config) -> Config:
    """A table of two writers that was run under a contract which all of its rows keep."""
    folder = lake_config.root / "tried"
    topic = TopicBuilder("orders")
    for schema, key, price in _SENT:
        row = {"id": key, "price": price, **({"note": None} if schema == 2 else {})}
        topic.add(confluent_avro(9, _SCHEMAS[9], {"id": key}), confluent_avro(schema, _SCHEMAS[schema], row))
    (folder / "schemas" / "ids").mkdir(parents=True)
    topic.write(folder)
    write_schemas(folder / "schemas", _SCHEMAS, {})
    _contract(folder / "kept.yaml", 0)
    table = {"topic": "orders", "mirror": _TABLE, "format": "upsert", "contract": "tried/kept.yaml"}
    path = lake_config.root / "tried.yaml"
    where = {"source": {"files": "tried"}, "registry": {"files": "tried/schemas"}}
    path.write_text(yaml.safe_dump({"name": "tests", **where, "tables": [table]}), encoding="utf-8")
    found = load_config(path)
    assert run_once(found, spark).exit_code == 0
    return found


def test_a_batch_says_under_which_contract_it_was_judged(config: Config, spark: "SparkSession") -> None:
    """Its fingerprint is in the snapshot that readers see."""
    summary = spark.table(f"lake.{_TABLE}.snapshots").orderBy("committed_at").collect()[-1]["summary"]

    assert (
        summary["cdcm.contract"] == load_contract(config.root / "tried" / "kept.yaml", _TABLE, config.root).fingerprint
    )


@pytest.mark.parametrize(
    ("milliseconds", "messages", "by_schema", "first"),
    [(None, 5, {"1": 1, "2": 2}, 0), (0, 5, {"1": 1, "2": 2}, 0), (1, 4, {"2": 2}, 2), (3, 2, {"2": 1}, 3)],
)
def test_what_a_rule_would_hold_is_told_by_writer_and_since_when(
    config: Config,
    spark: "SparkSession",
    milliseconds: int | None,
    messages: int,
    by_schema: dict[str, int],
    first: int,
) -> None:
    """Messages from before are folded and not counted; the one at that very time is."""
    stricter = _contract(config.root / "tried" / "stricter.yaml", 10)
    since = None if milliseconds is None else EPOCH + timedelta(milliseconds=milliseconds)

    found = try_contract(config, _TABLE, stricter, since, spark)

    (rule,) = found.rules
    assert (found.since, found.messages, found.judged) == (since, messages, messages)
    assert (rule.column, rule.messages, rule.schemas) == ("price", sum(by_schema.values()), by_schema)
    assert rule.first is not None
    assert rule.first.offset == first


def test_a_trial_writes_to_no_table(config: Config, spark: "SparkSession") -> None:
    """Neither to the mirror nor to raw, and what it would hold goes into no quarantine."""
    before = _snapshots(spark)

    try_contract(config, _TABLE, _contract(config.root / "tried" / "stricter.yaml", 10), None, spark)

    assert _snapshots(spark) == before


def test_a_trial_refuses_the_primary_key_that_a_run_would_refuse(config: Config, spark: "SparkSession") -> None:
    """Whoever tries a contract hears of it before it stops the table."""
    path = _contract(config.root / "tried" / "other_key.yaml", 0)
    text = path.read_text(encoding="utf-8")
    text = text.replace("- name: id\n    physicalType: bigint", "- name: note\n    physicalType: text")
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ContractInvalid, match=r"the primary key is note, and tried\.orders tells rows apart by id"):
        try_contract(config, _TABLE, path, None, spark)


def test_a_message_of_several_rows_is_one_message(lake_config: Config, spark: "SparkSession") -> None:
    """As Canal sends them: each number is of messages but that of the source's rows."""
    folder = lake_config.root / "tried_canal"
    folder.mkdir()
    topic = TopicBuilder("orders")
    for prices in (("-1", "-2", "5"), ("7",)):
        rows = [{"id": price, "price": price} for price in prices]
        told = {"database": "shop", "table": "orders", "type": "INSERT", "es": 1, "isDdl": False, "pkNames": ["id"]}
        topic.add(None, json.dumps({**told, "data": rows, "old": None}).encode())
    topic.write(folder)
    table = {"topic": "orders", "mirror": "tried.canal", "format": "canal"}
    path = lake_config.root / "tried_canal.yaml"
    path.write_text(yaml.safe_dump({"name": "tests", "source": {"files": folder.name}, "tables": [table]}), "utf-8")

    found = try_contract(load_config(path), "tried.canal", _contract(folder / "kept.yaml", 0), None, spark)

    assert (found.read_from, found.messages, found.judged, found.broken) == ("topic", 2, 2, 1)
    (rule,) = found.rules
    assert (rule.messages, rule.share, rule.held, rule.keys, rule.schemas) == (1, 0.5, 1, 2, {"none": 1})


def test_a_schema_that_messages_bring_is_called_the_same_by_a_trial_and_a_report(
    lake_config: Config, spark: "SparkSession"
) -> None:
    """By its name and a digest: a producer that added a column is another one than before."""
    folder, topic = lake_config.root / "tried_inline", TopicBuilder("orders")
    folder.mkdir()
    fields = [{"type": kind, "optional": False, "field": name} for name, kind in (("id", "int64"), ("price", "int32"))]
    for key, note in enumerate(([], [{"type": "string", "optional": True, "field": "note"}]), 1):
        schema = {"type": "struct", "fields": [*fields, *note], "optional": False, "name": "shop.Order"}
        value = {"schema": schema, "payload": {"id": key, "price": -key, **({"note": None} if note else {})}}
        topic.add(json.dumps({"id": key}).encode(), json.dumps(value).encode())
    topic.write(folder)
    _contract(folder / "kept.yaml", 0)
    table = {"topic": "orders", "mirror": "tried.inline", "format": "upsert", "key": ["id"]}
    table["contract"] = "tried_inline/kept.yaml"
    path = lake_config.root / "tried_inline.yaml"
    path.write_text(yaml.safe_dump({"name": "tests", "source": {"files": folder.name}, "tables": [table]}), "utf-8")
    config = load_config(path)
    assert run_once(config, spark).exit_code == 0

    (tried,) = try_contract(config, "tried.inline", folder / "kept.yaml", None, spark).rules
    (found,) = review(config, datetime.now(UTC)).tables[0].violations

    assert sorted(tried.schemas) == sorted(name or "" for name in (found.first.schema_name, found.last.schema_name))
    assert tried.schemas == dict.fromkeys(sorted(tried.schemas), 1)
    assert all(re.fullmatch("inline:shop.Order/[0-9a-f]{8}", name) for name in tried.schemas)


def _snapshots(spark: "SparkSession") -> dict[str, int]:
    names = [row["tableName"] for row in spark.sql("SHOW TABLES IN lake.tried").collect()]
    return {name: spark.table(f"lake.tried.{name}.snapshots").count() for name in names}


@pytest.mark.parametrize(
    ("space", "in_force"),
    [
        ("tried_with_another_type", {"physicalType": "text"}),
        ("tried_without_a_mask", {"customProperties": [{"property": "mask", "value": "redact"}]}),
    ],
)
def test_a_contract_is_tried_with_its_own_types(
    spark: "SparkSession", lake_config: Config, space: str, in_force: dict[str, Any]
) -> None:
    """Those of the mirror are of the contract in force: what a replay would hold is told, and rules fit their types."""
    folder, schema = lake_config.root / space, {**_SCHEMAS[1], "fields": [_ID, {"name": "a", "type": "string"}]}
    topic = TopicBuilder("rows")
    for key, value in ((1, "5.00"), (2, "abc"), (3, "-1.00")):
        topic.add(confluent_avro(9, _SCHEMAS[9], {"id": key}), confluent_avro(1, schema, {"id": key, "a": value}))
    (folder / "schemas" / "ids").mkdir(parents=True)
    topic.write(folder)
    write_schemas(folder / "schemas", {1: schema, 9: _SCHEMAS[9]}, {})
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "rows", "version": "1.0.0", "status": "active"}
    tried = {"physicalType": "numeric(12,2)", "logicalTypeOptions": {"minimum": 0}}
    for name, column in (("in_force", in_force), ("tried", tried)):
        columns = [{"name": "id", "primaryKey": True, "physicalType": "bigint"}, {"name": "a", **column}]
        told = {**head, "schema": [{"name": "rows", "properties": columns}]}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(told), encoding="utf-8")
    table = {"topic": "rows", "mirror": f"{space}.rows", "format": "upsert", "contract": f"{space}/in_force.yaml"}
    path = lake_config.root / f"{space}.yaml"
    where = {"source": {"files": space}, "registry": {"files": f"{space}/schemas"}}
    path.write_text(yaml.safe_dump({"name": "tests", **where, "tables": [table]}), encoding="utf-8")
    config = load_config(path)
    assert run_once(config, spark).exit_code == 0

    found = try_contract(config, f"{space}.rows", folder / "tried.yaml", None, spark)

    assert [(one.code, one.messages) for one in found.codes] == [("SCHEMA_INCOMPATIBLE", 1)]
    assert [(one.column, one.messages) for one in found.rules] == [("a", 1)]
