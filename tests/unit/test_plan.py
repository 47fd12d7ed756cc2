"""`cdcm run --plan`: what is shown of a plan, and how the command ends."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cdc_materializer import plan
from cdc_materializer.cli import main
from cdc_materializer.errors import EXIT_USAGE
from cdc_materializer.report.models import ErrorInfo
from cdc_materializer.report.plan_models import (
    ColumnPlan,
    DeclaredPlan,
    MisfitPlan,
    PlanReport,
    RenamePlan,
    TablePlan,
    TypePlan,
)
from cdc_materializer.report.terminal import render

_ORDERS = TablePlan(
    table="shop.orders", topic="t", action="change", messages=1, key=["id"],
    batches=1, apply="merge_on_read", pruned_by="id",
    added=[ColumnPlan(name="note", type="string"), ColumnPlan(name="v__string", type="string", beside="v")],
    types=[TypePlan(path="place.x", old="int", new="bigint"), TypePlan(path="place.label", new="string")],
    renamed=[RenamePlan(old="customer", new="client")], comments=["qty"], unknown_schemas=1, refused=["Protobuf."],
    declared=[DeclaredPlan(column="price", table_type="string", declared_type="decimal(12,2)")],
    misfits=[
        MisfitPlan(column="v", table_type="int", writer_type="string", handling="new_column", beside="v__string"),
        MisfitPlan(column="id", table_type="bigint", writer_type="string", handling="hold"),
    ],
)  # fmt: skip
_FAILED = TablePlan(
    table="shop.users", topic="u", action="stop", error=ErrorInfo(code="DUPLICATE_COLUMN", message="Columns `a`, `A`.")
)


def test_every_part_of_a_plan_is_shown() -> None:
    """One line each, in words that the document has too."""
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(
        render(PlanReport(pipeline="shop", tables=[_ORDERS, _FAILED]), now=datetime(2026, 11, 21, tzinfo=UTC))
    )
    shown = console.file.getvalue()  # type: ignore[attr-defined]

    for line in (
        "shop.orders  would change (1 message looked at)",
        "customer → client",
        "1 batch: earlier rows of the keys are marked deleted, the new ones appended; files are left out by id",
        "v__string string, for what does not fit v",
        "place.x int → bigint",
        "place.label string",
        "v is int, messages have string: what does not fit goes to v__string",
        "id is bigint, messages have string: what does not fit is held",
        "price is string, the contract says decimal(12,2): `cdcm replay shop.orders --publish` rebuilds it",
        "Protobuf.",
        "shop.users  DUPLICATE_COLUMN",
        "Nothing was written.",
    ):
        assert line in shown


def test_a_plan_that_finds_a_stop_ends_as_the_run_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its document is on standard output alone, and the run itself is not begun."""
    path = tmp_path / "pipeline.yaml"
    path.write_text("name: shop\nsource: {files: .}\ntables: [{topic: a.b.c}]\n", encoding="utf-8")
    asked: list[Any] = []

    def planned(config: Any, tables: tuple[str, ...]) -> PlanReport:  # noqa: ANN401 - as the command calls it
        asked.append((config.name, tables))
        return PlanReport(pipeline="shop", tables=[_FAILED], exit_code=EXIT_USAGE)

    monkeypatch.setattr(plan, "plan_tables", planned)

    assert main(["run", "--plan", "--json", "--table", "b.c", "-c", str(path)]) == EXIT_USAGE
    assert json.loads(capsys.readouterr().out)["tables"][0]["error"]["code"] == "DUPLICATE_COLUMN"
    assert asked == [("shop", ("b.c",))]
    assert main(["run", "--plan", "--follow", "-c", str(path)]) == EXIT_USAGE
