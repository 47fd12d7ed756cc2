"""The contracts in `contracts/` at work, on the recorded topics of the shop that they are written for."""

import os
from typing import TYPE_CHECKING

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.contract import load_contract
from cdc_materializer.masks import Mask
from cdc_materializer.report.models import RunReport
from cdc_materializer.run.run import run_once
from tests.demo_run import ROOT
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

_EXAMPLES = sorted((ROOT / "contracts").glob("*.yaml"))


@pytest.fixture(scope="module")
def ran(spark: "SparkSession", lake_config: Config) -> tuple[Config, RunReport]:
    """All five tables, each with its example, brought up to the ends of the topics."""
    recorded = ROOT / "tests" / "data" / "recorded" / "pg-avro"
    place = os.path.relpath(recorded, lake_config.root)
    tables = [
        {
            "topic": f"pga.shop.{path.stem}",
            "mirror": f"examples.{path.stem}",
            "contract": os.path.relpath(path, lake_config.root),
        }
        for path in _EXAMPLES
    ]
    file = {"name": "examples", "source": {"files": place}, "registry": {"files": f"{place}/schemas"}, "tables": tables}
    path = lake_config.root / "examples.yaml"
    path.write_text(yaml.safe_dump({**file, "masks": {"key": "the key of examples"}}), encoding="utf-8")
    config = load_config(path)
    return config, run_once(config, spark)


def test_every_example_is_followed_to_the_end(ran: tuple[Config, RunReport]) -> None:
    """None of their rules blocks what the shop sends, and none fails; what they hold is told by its rule."""
    _, report = ran

    assert report.exit_code == 0
    assert {found.table: found.error for found in report.tables} == {
        f"examples.{path.stem}": None for path in _EXAMPLES
    }
    assert all(found.upserted for found in report.tables)


def test_what_an_example_hides_is_in_no_mirror(ran: tuple[Config, RunReport], spark: "SparkSession") -> None:
    """A dropped column is not there, and masked ones have nothing of what was in them."""
    config, _ = ran
    hashed = 0
    for table in config.tables:
        assert table.contract is not None
        hidden = {column.name: column.mask for column in load_contract(table.contract).columns if column.mask}
        rows = spark.table(f"lake.{table.mirror}")
        assert {name for name in hidden if name not in rows.columns} == {
            name for name, mask in hidden.items() if mask is Mask.DROP
        }
        shown = [rows[name] for name in hidden if name in rows.columns]
        for row in rows.select(*shown).collect() if shown else []:
            hashed += sum(value is not None for value in row)
            assert all("@" not in value for value in row if value is not None)
    assert hashed
