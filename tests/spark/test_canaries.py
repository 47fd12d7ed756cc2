"""Values planted in rows that break everything: they are in the raw table, and in nothing that tells of it."""

import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.catalog import open_tables
from cdc_materializer.cli import main
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_BLOCKED
from cdc_materializer.names import TableName
from cdc_materializer.run import run_once
from tests.cases.recording import Case, Recorder
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

MAIL, CARD = "canary.ann@example.test", "4111-1111-1111-1111"
_numbers = itertools.count()
_ROW = {"mail": MAIL, "card": CARD}
_CASE: dict[str, Any] = {
    "key": {"id": "int64"},
    "columns": {"id": "int64", "mail": "optional string", "card": "optional string"},
    "messages": [
        {"op": "c", "after": {"id": 1, **_ROW}},
        {"op": "c", "after": {"id": 2, "mail": None, "card": CARD}},
        {"key": 3, "text": f"no JSON, but {MAIL} and {CARD}"},
        {"key": 4, "op": "c", "after": {"id": 5, **_ROW}},
        {"op": "c", "after": {"id": 6, "mail": None, "card": None}},
    ],
}
_FORMS = (
    *(["report", "--format", form] for form in ("terminal", "json", "html", "markdown")),
    ["status"],
    ["status", "--json"],
    ["quarantine", "list", "--status", "all"],
    ["quarantine", "list", "--json"],
    ["quarantine", "show", "TABLE", "0/0"],
    ["quarantine", "show", "TABLE", "0/3", "--json"],
)


def _contract(path: Path, mail_action: str) -> None:
    rules = {"mail": ("no-mail", mail_action), "card": ("no-card", "warn")}
    columns = [
        {
            "name": name,
            "logicalType": "string",
            "quality": [
                {
                    "name": rule,
                    "type": "custom",
                    "engine": "greatExpectations",
                    "implementation": {"type": "expect_column_values_to_be_null"},
                    "customProperties": [{"property": "action", "value": action}],
                }
            ],
        }
        for name, (rule, action) in rules.items()
    ]
    key = {"name": "id", "logicalType": "integer", "physicalType": "bigint", "primaryKey": True}
    schema = [{"name": "canaries", "physicalType": "table", "properties": [key, *columns]}]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "canaries", "version": "1.0.0", "status": "active"}
    path.write_text(yaml.safe_dump({**head, "schema": schema}), encoding="utf-8")


def _config(root: Path, space: str, recorder: Recorder, mail_action: str) -> Config:
    """Write a pipeline of the one table, beside those of other tests that share the catalog."""
    recorder.write(root / space)
    _contract(root / f"{space}.contract.yaml", mail_action)
    entry = {"topic": f"{space}.t.canaries", "mirror": f"{space}.canaries", "contract": f"{space}.contract.yaml"}
    path = root / f"{space}.yaml"
    path.write_text(yaml.safe_dump({"name": "c", "source": {"files": space}, "tables": [entry]}), encoding="utf-8")
    return load_config(path)


def _summaries(config: Config, table: TableName) -> Iterator[str]:
    """What the snapshots of the three tables say of themselves."""
    lake = open_tables(config.catalog)
    for name in (table, table.raw, table.quarantine):
        yield from (str(dict(line.summary)) for line in lake.lines_of(name))


def test_values_planted_in_violating_rows_are_in_no_output(
    spark: "SparkSession",
    lake_config: Config,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An address and a card number, in rows that break a rule, cannot be decoded, disagree with their key, or block."""
    space = f"canaries_{next(_numbers)}"
    recorder = Recorder(Case("canaries", 990, _CASE, (), None), f"{space}.t.canaries")
    for message in _CASE["messages"]:
        recorder.add(message)
    told: list[str] = []
    with caplog.at_level(logging.DEBUG):
        config = _config(lake_config.root, space, recorder, "quarantine")
        held = run_once(config, spark)
        recorder.add({"op": "c", "after": {"id": 9, **_ROW}})
        config = _config(lake_config.root, space, recorder, "block")
        blocked = run_once(config, spark)
        for words in _FORMS:
            command = [space + ".canaries" if word == "TABLE" else word for word in words]
            assert main([*command, "-c", str(config.path)]) == 0
            shown = capsys.readouterr()
            assert shown.out
            told += [shown.out, shown.err]
    told += [held.to_json(), blocked.to_json(), caplog.text, *_summaries(config, config.tables[0].mirror)]

    assert held.tables[0].violations == {"CONTRACT": 2, "KEY_VALUE_MISMATCH": 1, "UNDECODABLE": 1}
    assert blocked.exit_code == EXIT_BLOCKED
    assert [canary for canary in (MAIL, "canary.ann", CARD) for text in told if canary in text] == []
