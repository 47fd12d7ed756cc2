"""A contract that is tried on history: which one on which table, what is shown, how the command ends."""

import io
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from cdc_materializer import trial
from cdc_materializer.cli import main
from cdc_materializer.config import Config, load_config
from cdc_materializer.contract import Contract
from cdc_materializer.contract.model import Limit
from cdc_materializer.errors import EXIT_BLOCKED, EXIT_DONE, UsageError
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.terminal import render
from cdc_materializer.report.trial_models import ONE_STATE, CodeTrial, RuleTrial, TableRuleTrial, TrialReport

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
_CONTRACT = Contract(Path("c.yaml"), "Orders", "2", (), ())
PLACE = MessagePlace(topic="t", partition=0, offset=17, timestamp=NOW)


def report(action: str, messages: int) -> TrialReport:
    """A trial of a contract of one rule."""
    rule = RuleTrial(
        rule="known-status", column="status", expectation="expect_column_values_to_be_in_set", action=action,
        severity="error", messages=messages, share=messages / 8, keys=messages, first=PLACE, last=PLACE,
        schemas={"63": messages},
    )  # fmt: skip
    return TrialReport(
        pipeline="shop", table="shop.orders", topic="t", path="c.yaml", name="Orders", version="2", fingerprint="f",
        in_force=False, read_from="raw", messages=9, judged=8, broken=messages, rules=[rule],
        codes=[CodeTrial(code="UNDECODABLE", messages=1, first=PLACE)],
    )  # fmt: skip


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Two tables, one with a contract."""
    (tmp_path / "recorded").mkdir()
    path = tmp_path / "pipeline.yaml"
    tables = "[{topic: a.b.orders, contract: orders.yaml}, {topic: a.b.payments}]"
    path.write_text(f"name: shop\nsource: {{files: recorded}}\ntables: {tables}\n", encoding="utf-8")
    (tmp_path / "orders.yaml").touch()
    (tmp_path / "other.yaml").touch()
    return load_config(path)


def test_the_table_is_the_one_that_names_the_file_unless_it_is_said(config: Config) -> None:
    """And the contract the table's own, unless another is named."""
    own, other = config.root / "orders.yaml", config.root / "other.yaml"

    assert trial.choose(config, own, None) == ("b.orders", own)
    assert trial.choose(config, None, "b.orders") == ("b.orders", own)
    assert trial.choose(config, other, "b.payments") == ("b.payments", other)


@pytest.mark.parametrize(
    ("file", "table", "said"),
    [
        ("other.yaml", None, "Nothing says which table's history"),
        (None, None, "Nothing says which table's history"),
        (None, "b.payments", "b.payments has no contract to try"),
    ],
)
def test_a_contract_or_table_that_nothing_names_is_asked_for(
    config: Config, file: str | None, table: str | None, said: str
) -> None:
    """Rather than guessed."""
    with pytest.raises(UsageError, match=said):
        trial.choose(config, config.root / file if file else None, table)


def test_a_trial_reads_well_in_a_terminal() -> None:
    """Each rule, what breaks it and where that began; what would have stopped is said at the end."""
    text = io.StringIO()

    Console(file=text, width=80, no_color=True).print(render(report("block", 2), now=NOW))

    shown = text.getvalue()
    assert "Orders 2  broken after 2 messages" in shown
    assert "9 messages of shop.orders__raw, 8 with a row to judge." in shown
    assert "partition 0, offset 17" in shown
    assert "63 × 2" in shown
    assert "UNDECODABLE  1 message" in shown
    assert "Would have stopped batches: known-status." in shown


def test_a_tried_rule_that_cannot_be_judged_is_told_in_a_terminal() -> None:
    """By the name of what went wrong: nobody takes it for one that history keeps."""
    text = io.StringIO()
    found = report("shadow", 0)
    unjudged = found.rules[0].model_copy(update={"why": "CAST_INVALID_INPUT"})

    told = found.model_copy(update={"rules": [unjudged]})
    Console(file=text, width=80, no_color=True).print(render(told, now=NOW))

    assert "known-status  cannot be judged (CAST_INVALID_INPUT)" in text.getvalue()
    assert told.blocks == []


@pytest.mark.parametrize(("why", "blocks"), [(ONE_STATE, []), ("CAST_INVALID_INPUT", ["steady"])])
def test_a_rule_that_history_as_a_whole_cannot_tell_of_is_told_and_stops_nothing(why: str, blocks: list[str]) -> None:
    """Unlike one that goes wrong where it is judged, which would stop batches."""
    rule = TableRuleTrial(
        rule="steady", expectation="rowCountChange", action="block", severity="error", holds=None, why=why
    )
    found = report("quarantine", 0).model_copy(update={"table_rules": [rule]})
    text = io.StringIO()

    Console(file=text, width=100, no_color=True).print(render(found, now=NOW))

    assert f"steady  cannot be judged ({why})" in text.getvalue()
    assert found.blocks == blocks


@pytest.mark.parametrize(
    ("held", "code", "said"),
    [
        (3, EXIT_BLOCKED, "as one batch, 3 of 9 messages (33.33%) would be held; at most 25% may be"),
        (2, EXIT_DONE, "as one batch, 2 of 9 messages (22.22%) would be held; at most 25% may be"),
    ],
)
def test_more_held_messages_than_the_contract_allows_would_have_stopped_a_batch(
    config: Config, monkeypatch: pytest.MonkeyPatch, held: int, code: int, said: str
) -> None:
    """The trial says how many of how many, and ends as a rule that blocks does."""
    contract = replace(_CONTRACT, max_quarantined=Limit(Decimal(25), is_share=True))
    found = report("quarantine", held).model_copy(update={"limit": trial._limit(contract, held, 9)})
    monkeypatch.setattr(trial, "try_contract", lambda *_arguments: found)
    text = io.StringIO()

    Console(file=text, width=100, no_color=True).print(render(found, now=NOW))

    assert f"max_quarantined  {said}" in text.getvalue()
    assert ("Would have stopped batches: max_quarantined." in text.getvalue()) == (code == EXIT_BLOCKED)
    assert main(["contract", "test", "-c", str(config.path), "--table", "b.orders", "--json"]) == code
    assert trial._limit(_CONTRACT, held, 9) is None


@pytest.mark.parametrize(
    ("action", "messages", "code"),
    [("block", 1, EXIT_BLOCKED), ("block", 0, EXIT_DONE), ("quarantine", 3, EXIT_DONE), ("warn", 3, EXIT_DONE)],
)
def test_a_rule_that_would_have_stopped_batches_ends_the_command_with_5(
    config: Config, monkeypatch: pytest.MonkeyPatch, action: str, messages: int, code: int
) -> None:
    """Held and reported rows are what a trial is made to find."""
    monkeypatch.setattr(trial, "try_contract", lambda *_arguments: report(action, messages))

    assert main(["contract", "test", "-c", str(config.path), "--table", "b.orders", "--json"]) == code
