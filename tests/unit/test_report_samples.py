"""Samples in a report: which messages are looked at, which columns are shown, and how each form shows them."""

import io
import json
from collections.abc import Collection
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from cdc_materializer.cli import main
from cdc_materializer.contract import load_contract
from cdc_materializer.demo import prepare
from cdc_materializer.names import TableName
from cdc_materializer.report.html import to_html
from cdc_materializer.report.markdown import to_markdown
from cdc_materializer.report.samples import Sampled, Sampling, choose
from cdc_materializer.report.terminal import render
from cdc_materializer.report.violation_models import ContractState, SampleColumns, ViolationReport
from cdc_materializer.report.violations import violation_report
from cdc_materializer.report.wording import samples_line
from tests.unit.contracts import write
from tests.unit.quarantines import CANARY, NOW, ORDERS, Lake, row

_EVIL = "<b>|`x`\x1b[31m"


def _report(rows_max: int, asked: list[set[tuple[int, int]]] | None = None) -> ViolationReport:
    """A report of three held messages of one rule, with samples of values that are there, NULL, missing and evil."""
    values: dict[tuple[int, int], dict[str, str | None]] = {
        (0, 1): {"status": "new", "note": None},
        (0, 2): {"status": _EVIL, "mail": CANARY},
    }

    def read(name: TableName, places: Collection[tuple[int, int]]) -> Sampled:
        assert name == ORDERS.mirror
        (asked if asked is not None else []).append(set(places))
        return Sampled(("status", "note"), ("mail",), {place: values[place] for place in places if place in values})

    lake = Lake({"shop.orders__quarantine": [row(1), row(2), row(3), row(9, batch_id="", action="stop", rule="all")]})
    return violation_report("shop", [ORDERS], lake, as_of=NOW, sampling=Sampling(rows_max, read))


def test_each_table_is_read_once_and_no_further_than_asked() -> None:
    """All groups together; what is about the table has no message to show."""
    asked: list[set[tuple[int, int]]] = []
    _report(2, asked)

    assert asked == [{(0, 1), (0, 2)}]


def test_the_first_open_messages_are_chosen() -> None:
    """Where none is open any more, the first of all."""
    rows = [row(1, status="released"), row(2), row(3), row(4)]

    assert choose(rows, 2) == [(0, 2), (0, 3)]
    assert choose(rows[:1], 2) == [(0, 1)]


def test_only_columns_that_may_be_shown_are_in_a_sample() -> None:
    """Whatever was read: the report itself lets nothing else through."""
    table = _report(5).tables[0]
    (group,) = (group for group in table.violations if group.about == "messages")

    assert [sample.values for sample in group.samples] == [{"status": "new", "note": None}, {"status": _EVIL}]
    assert table.sample_columns is not None
    assert table.sample_columns.left_out == ["mail"]


def test_samples_are_only_text_in_every_form() -> None:
    """A value is somebody's: no element, no column and no control sequence comes of it; what is left out is said."""
    report = _report(5)
    terminal = io.StringIO()
    Console(file=terminal, width=200, highlight=False).print(render(report, now=NOW))
    page, markdown, shown = to_html(report), to_markdown(report), terminal.getvalue()

    assert "&lt;b&gt;|`x`\N{REPLACEMENT CHARACTER}[31m" in page
    assert "| 0/1 | `new` | NULL |" in markdown
    assert "| 0/2 | `` <b>\\|`x` [31m `` | – |" in markdown
    assert "status new, note NULL" in shown
    assert "\x1b" not in page + markdown + shown
    for text in (page, markdown, shown):
        assert "Samples show the public columns, status, note; left out: mail." in text
        assert CANARY not in text
    assert "no other value is in here" in page
    assert "no other value is in here" in markdown


def test_without_being_asked_for_there_are_none() -> None:
    """The report says that it has no values."""
    lake = Lake({"shop.orders__quarantine": [row(1)]})
    report = violation_report("shop", [ORDERS], lake, as_of=NOW)

    assert report.tables[0].sample_columns is None
    assert "Values of rows are in no part of this report." in to_html(report)


def test_public_is_what_the_contract_classifies_so_and_does_not_mask(tmp_path: Path) -> None:
    """In any case of letters; with a mask, or with a part that is classified otherwise, a column is not public."""
    properties = """
      - {name: shown, logicalType: string, classification: Public}
      - {name: internal, logicalType: string, classification: internal}
      - {name: unsaid, logicalType: string}
      - {name: masked, logicalType: string, classification: public, customProperties: [{property: mask, value: "null"}]}
      - {name: dropped, logicalType: string, classification: public, customProperties: [{property: drop, value: true}]}
      - name: mixed
        logicalType: object
        physicalType: struct<a:string>
        classification: public
        properties: [{name: a, logicalType: string, classification: restricted}]
      - name: of_items
        logicalType: object
        classification: public
        properties: [{name: a, logicalType: array, items: {logicalType: string, classification: restricted}}]
      - name: of_values
        logicalType: map
        classification: public
        map: {key: {logicalType: string}, value: {logicalType: string, classification: restricted}}
      - name: silent
        logicalType: object
        classification: public
        properties: [{name: a, logicalType: array, items: {logicalType: string}}]
"""
    contract = load_contract(write(tmp_path, properties))

    assert contract.public == ("shown", "silent")


def test_where_nothing_is_held_samples_start_no_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command opens what it may need, and reads when there is something to show."""
    prepare(tmp_path)
    assert main(["report", "--samples", "3", "--json", "-c", str(tmp_path / "pipeline.yaml")]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    assert {table["table"]: table["sample_columns"]["left_out"] for table in tables}["shop.customers"] == []
    assert all(table["sample_columns"]["shown"] == [] for table in tables)
    assert SparkSession.getActiveSession() is None


def test_why_there_are_no_samples_is_said_as_it_is() -> None:
    """Of a table without a contract, of one whose contract cannot be followed, and of one without public columns."""
    table = _report(1).tables[0].model_copy(update={"sample_columns": SampleColumns(shown=[], left_out=[])})
    of_table = [group for group in table.violations if group.about == "table"]
    stated = ContractState(name="orders", version="1", fingerprint="f", in_force=True, rules=0)

    assert samples_line(table) == "No samples: only a contract can call columns public, and the table has none."
    assert samples_line(table.model_copy(update={"contract_error": "Contract orders.yaml:3 …"})) == (
        "No samples: the contract cannot be followed, so nothing tells which columns are public."
    )
    assert samples_line(table.model_copy(update={"contract": stated})) == (
        "No samples: the contract classifies no column as public that is not masked."
    )
    assert samples_line(table.model_copy(update={"contract": stated, "violations": of_table})) is None
