"""Values planted in rows that break everything: they are in the raw table, and in nothing that tells of it."""

import io
import itertools
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from rich.console import Console

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_BLOCKED, MAX_QUARANTINED
from cdc_materializer.report.html import to_html
from cdc_materializer.report.markdown import to_markdown
from cdc_materializer.report.samples import Sampling
from cdc_materializer.report.terminal import render
from cdc_materializer.report.violation_models import SampleColumns, ViolationReport
from cdc_materializer.review import review
from cdc_materializer.run.run import run_once
from cdc_materializer.sampling import open_sampler
from cdc_materializer.trial import try_contract
from tests.cases.case import Case
from tests.cases.recording import Recorder
from tests.spark.canaries import CARD, MAIL, found_in, listening, logged, shown, summaries
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

#: A value of a public column, and one that makes its column's value too long to show whole.
SHOWN, LONG = "shown-to-all", "long" * 100
_numbers = itertools.count()
_ROW = {"mail": MAIL, "card": CARD, "note": SHOWN}
_CASE: dict[str, Any] = {
    "key": {"id": "int64"},
    "columns": {"id": "int64", "mail": "optional string", "card": "optional string", "note": "optional string"},
    "messages": [
        {"op": "c", "after": {"id": 1, **_ROW}},
        {"op": "c", "after": {"id": 2, "mail": None, "card": CARD, "note": LONG}},
        {"key": 3, "text": f"no JSON, but {MAIL} and {CARD}"},
        {"key": 4, "op": "c", "after": {"id": 5, **_ROW}},
        {"op": "c", "after": {"id": 6, "mail": None, "card": None, "note": None}},
    ],
}
_FORMS = (
    *(["report", "--format", form] for form in ("terminal", "json", "html", "markdown")),
    ["status"],
    ["status", "--json"],
    ["quarantine", "list", "--status", "all"],
    ["quarantine", "list", "--json"],
    ["report", "--data-docs", "FOLDER"],
    ["quarantine", "show", "TABLE", "0/0"],
    ["quarantine", "show", "TABLE", "0/3", "--json"],
)


def _contract(path: Path, mail_action: str, limit: str) -> None:
    """Rules that every row with a canary breaks; the card is called public, and masked all the same."""
    rules = {"mail": ("no-mail", mail_action), "card": ("no-card", "warn")}
    columns: list[dict[str, Any]] = [
        {
            "name": name,
            "logicalType": "string",
            "physicalType": "text",
            **(
                {"classification": "public", "customProperties": [_property("mask", "last4")]} if name == "card" else {}
            ),
            "quality": [
                {
                    "name": rule,
                    "type": "custom",
                    "engine": "greatExpectations",
                    "implementation": {"type": "expect_column_values_to_be_null"},
                    "customProperties": [_property("action", action)],
                }
            ],
        }
        for name, (rule, action) in rules.items()
    ]
    # Judged by GX itself, over the values; and a query whose error names one.
    columns[1]["quality"].append(
        {
            "name": "known-cards",
            "type": "custom",
            "engine": "greatExpectations",
            "implementation": {
                "type": "expect_column_distinct_values_to_be_in_set",
                "kwargs": {"value_set": ["none"]},
            },
            "customProperties": [{"property": "action", "value": "warn"}],
        }
    )
    crash = {"name": "crash", "type": "sql", "query": "SELECT max(cast(card AS INT)) FROM {object}", "mustBe": 0}
    shadowed = [{**crash, "customProperties": [{"property": "shadow", "value": True}]}]
    key = {"name": "id", "logicalType": "integer", "physicalType": "bigint", "primaryKey": True}
    note = {"name": "note", "logicalType": "string", "classification": "Public"}
    about = {"customProperties": [_property("max_quarantined", limit)], "quality": [_TWO_ROWS, *shadowed]}
    schema = [{"name": "canaries", "physicalType": "table", "properties": [key, *columns, note], **about}]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "canaries", "version": "1.0.0", "status": "active"}
    path.write_text(yaml.safe_dump({**head, "schema": schema}), encoding="utf-8")


def _property(name: str, value: str) -> dict[str, str]:
    return {"property": name, "value": value}


_TWO_ROWS = {
    "name": "many-rows",
    "type": "library",
    "metric": "rowCount",
    "mustBeGreaterThan": 1000,
    "customProperties": [_property("action", "warn")],
}


def _config(root: Path, space: str, recorder: Recorder, mail_action: str, limit: str = "100%") -> Config:
    """Write a pipeline of the one table, beside those of other tests that share the catalog."""
    recorder.write(root / space)
    _contract(root / f"{space}.contract.yaml", mail_action, limit)
    entry = {"topic": f"{space}.t.canaries", "mirror": f"{space}.canaries", "contract": f"{space}.contract.yaml"}
    path = root / f"{space}.yaml"
    path.write_text(yaml.safe_dump({"name": "c", "source": {"files": space}, "tables": [entry]}), encoding="utf-8")
    return load_config(path)


def _sampled(config: Config, spark: "SparkSession") -> tuple[ViolationReport, list[str]]:
    """A report with samples, and every form of it."""
    with open_sampler(config, (), spark) as read:
        found = review(config, datetime.now(UTC), (), None, Sampling(5, read))
    terminal = Console(file=io.StringIO(), width=200)
    terminal.print(render(found, now=found.as_of))
    assert isinstance(terminal.file, io.StringIO)
    return found, [found.to_json(), to_html(found), to_markdown(found), terminal.file.getvalue()]


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
    with listening(caplog):
        config = _config(lake_config.root, space, recorder, "quarantine")
        held = run_once(config, spark)
        recorder.add({"op": "c", "after": {"id": 9, **_ROW}})
        config = _config(lake_config.root, space, recorder, "block")
        blocked = run_once(config, spark)
        config = _config(lake_config.root, space, recorder, "quarantine", "0%")
        too_many = run_once(config, spark)
        docs = lake_config.root / f"{space}.docs"
        tried = try_contract(config, f"{space}.canaries", lake_config.root / f"{space}.contract.yaml", spark=spark)
        for words in _FORMS:
            told += shown(
                [{"TABLE": f"{space}.canaries", "FOLDER": str(docs)}.get(w, w) for w in words], config, capsys
            )
        sampled, forms = _sampled(config, spark)
    told += [held.to_json(), blocked.to_json(), too_many.to_json(), tried.to_json(), *logged(caplog), *forms]
    told += [*summaries(config, config.tables[0].mirror), *(path.read_text("utf-8") for path in docs.iterdir())]

    assert held.tables[0].violations == {"CONTRACT": 4, "KEY_VALUE_MISMATCH": 1, "UNDECODABLE": 1}
    assert (blocked.exit_code, too_many.exit_code) == (EXIT_BLOCKED, EXIT_BLOCKED)
    assert found_in(told) == []
    table = sampled.tables[0]
    assert table.sample_columns == SampleColumns(shown=["note"], left_out=["id", "mail", "card"])
    samples = {(group.rule, row.place.offset): row.values for group in table.violations for row in group.samples}
    assert samples["no-mail", 0] == {"note": SHOWN}
    assert samples["no-card", 1] == {"note": f"{LONG[:200]}…"}
    assert all(SHOWN in form for form in forms)
    of_table = {group.rule for group in table.violations if group.about != "messages"}
    # The last one is tried, and nothing can judge it.
    assert of_table == {"many-rows", "known-cards", MAX_QUARANTINED, "crash"}
    assert sorted(path.name for path in docs.iterdir()) == [
        f"{space}.canaries.html",
        f"{space}.canaries.json",
        "index.html",
    ]
    assert not re.search(
        r"https?:|src=|<script|url\(", "".join(path.read_text("utf-8") for path in docs.glob("*.html"))
    )
