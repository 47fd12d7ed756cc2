"""Random lives under a contract: after every run the mirror shows the last good version of each row.

What is held is the base of what later changes leave out; and when the rule is mended, what is released gives the rows
that the database holds. Many lives share a table in three partitions, and one that is truncated has its own. With
CDCM_TESTS=all there are more and longer lives; with CDCM_SEED=17 the first of them is that one.
"""

import os
from typing import TYPE_CHECKING

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.run.run import run_once
from tests.model.history import History, lives
from tests.model.judged import JudgedTelling
from tests.spark.marks import FOURTH_TURN, IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, FOURTH_TURN, *IMPORTS_GREAT_EXPECTATIONS]

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST_SEED = int(os.environ.get("CDCM_SEED", "1"))
#: Lives that share a table, those that have their own, events of each, and runs.
_SHARING, _ALONE, _EVENTS, _RUNS = (300, 4, 60, 4) if _ALL else (60, 1, 20, 2)
_UNHELD = 1_000


def _tellings() -> list[JudgedTelling]:
    sharing = range(_FIRST_SEED + _ALONE, _FIRST_SEED + _ALONE + _SHARING)
    alone = range(_FIRST_SEED, _FIRST_SEED + _ALONE)
    # A key that moves has the last good version of what was read of it until then (ADR 7).
    shared = JudgedTelling(sharing, lives(sharing, _EVENTS), 2 * _SHARING, (3, 3), called="judged_lives")
    single = [(seed, History(seed, 3 * _EVENTS).live()) for seed in alone]
    return [shared, *[JudgedTelling([seed], found, 25, (1, 1), called=f"judged_{seed}") for seed, found in single]]


def _written(config: Config, tables: list[JudgedTelling]) -> Config:
    path = config.root / "judged.yaml"
    entries = [table.entry() for table in tables]
    path.write_text(yaml.safe_dump({"name": "judged", "source": {"files": "judged"}, "tables": entries}))
    return load_config(path)


def test_a_contract_leaves_the_last_good_rows_and_a_release_gives_the_others(
    spark: "SparkSession", lake_config: Config
) -> None:
    """By seed, nothing is wrong after any run, after a release under a mended contract, or to `verify`."""
    tables, folder = _tellings(), lake_config.root / "judged"
    faults, held = [], 0
    for run in range(1, _RUNS + 1):
        expected = [table.write(folder, run / _RUNS) for table in tables]
        report = run_once(_written(lake_config, tables), spark)
        assert [entry.error for entry in report.tables] == [None] * len(tables)
        held += sum(entry.quarantined for entry in report.tables)
        faults += [table.difference(spark, rows) for table, rows in zip(tables, expected, strict=True)]
    unequal = [entry.table for entry in verify_tables(_written(lake_config, tables), spark).tables if not entry.equal]
    for table in tables:
        table.qty_max = _UNHELD
        expected = [table.write(folder, 1) for table in tables]
        released = release_held(_written(lake_config, tables), table.mirror, Wanted(), spark)
        assert (released.tried > 0, released.held) == (True, 0)
    faults += [table.difference(spark, rows) for table, rows in zip(tables, expected, strict=True)]
    unequal += [entry.table for entry in verify_tables(_written(lake_config, tables), spark).tables if not entry.equal]

    assert held > 0
    assert [fault for fault in faults if fault] == []
    assert unequal == []
