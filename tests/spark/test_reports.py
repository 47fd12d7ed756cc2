"""What commands report of tables on a real catalog: a changed contract, and once more what a past batch has left."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.cli import main
from cdc_materializer.config import Config
from cdc_materializer.contract import load_contract
from cdc_materializer.run import run
from cdc_materializer.run.run import session_for
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.shops import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]


def _told(shop: Shop, capsys: pytest.CaptureFixture[str], *command: str) -> tuple[dict[str, Any], str]:
    """The document that a command prints, and what it says to standard error."""
    capsys.readouterr()
    assert main([*command, "-c", str(shop.config.path), "--json"]) == 0
    shown = capsys.readouterr()
    document: dict[str, Any] = json.loads(shown.out)
    return document, shown.err


def test_a_run_tells_of_a_changed_contract_until_a_batch_is_judged_by_it(
    spark: "SparkSession",
    lake_config: Config,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In its document, in the table's entry, and on standard error: also a run that has nothing to do."""
    monkeypatch.setattr(run, "session_for", lambda work, _, size: session_for(work, spark, size))
    shop = Shop(lake_config, spark, "changed_contract")

    def changed() -> tuple[str, dict[str, Any] | None, bool]:
        document, said = _told(shop, capsys, "run")
        (entry,) = document["tables"]
        return load_contract(shop.folder / "contract.yaml").fingerprint, entry.get("contract_change"), "another" in said

    first, *unchanged = changed()
    assert unchanged == [None, False]
    shop.judge("2", 20)
    for sent in ((), (("c", 5, 50),)):
        shop.send(*sent)
        now, change, is_said = changed()
        assert change is not None
        assert is_said
        assert (change["before"], change["now"]) == (first, now)
        assert (change["rows"], change["held"]) == (2, 1)
        assert f"`cdcm quarantine release {shop.mirror} -c {shop.config.path}`" in change["says"]
    assert changed() == (now, None, False)


def test_a_report_of_a_past_batch_is_what_the_report_said_after_it(
    spark: "SparkSession", lake_config: Config, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though what was held then was superseded since, other messages are held, and the table was stopped."""
    shop = Shop(lake_config, spark, "past_report")
    reports = [_told(shop, capsys, "report")[0]]
    shop.send(("u", 4, 40), ("c", 5, 50), ("u", 3, -3))
    shop.run()
    reports.append(_told(shop, capsys, "report")[0])
    shop.judge("2", 20, action="block")
    shop.judge("1", 0)
    shop.send(("u", 3, 33), ("c", 6, -6), ("c", 7, -7))
    shop.run()
    reports.append(_told(shop, capsys, "report")[0])

    batches = [report["tables"][0]["trend"][-1]["batch"] for report in reports]
    again = [_told(shop, capsys, "report", "--as-of", batch)[0] for batch in batches]

    assert [report["totals"]["held_open"] for report in reports] == [1, 1, 2]
    assert [report["tables"][0]["superseded"] for report in reports] == [0, 1, 2]
    for then, now in zip(reports, again, strict=True):
        # The report's own time is that of the batch, when it is of one.
        assert now.pop("as_of") <= then.pop("as_of")
        assert now == then
