"""Random lives of a table of MySQL's whose server is replaced now and then, through the pipeline.

The tail of what a server had sent comes again from the next one, from other files and places. Runs end anywhere, and
go in small batches, or whole with each batch crashing once. What must be shown after each run is what the database held
then; where readers may see an older row for a while (several partitions, truncates, messages that were lost, key
changes in whose midst a server begins), that is asked at the end, and after each run what the reference fold shows.
With CDCM_TESTS=all there are more and longer lives; with CDCM_SEED=17 the first of them is that one.
"""

import os
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.config import Config
from tests.cases.case import Case
from tests.model import failover
from tests.model.golden import Reading
from tests.spark.marks import TURNS
from tests.spark.passages import CRASHED, CUT, passages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS]

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST_SEED = int(os.environ.get("CDCM_SEED", "1"))
#: Rows and transactions of a life, how many changes a crash of the connector sends again at most, and runs.
_KEYS, _TRANSACTIONS, _REACH, _RUNS = (200, 1_000, 60, 4) if _ALL else (60, 200, 40, 2)
#: Of each kind so many lives, and what is special about it.
_LIVES = 4 if _ALL else 1
_KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "moves": {"moves": True},
    "truncates": {"truncates": True, "partitions": 3},
    "rough": {"rough": True, "partitions": 3},
}


def _lives() -> list[tuple[Case, str, bool]]:
    """The lives as golden cases, how each goes, and whether it must be right after each of its runs."""
    found = []
    for at, (name, kind) in enumerate(_KINDS.items()):
        for seed in range(_FIRST_SEED, _FIRST_SEED + _LIVES):
            moves, rough, partitions = (kind.get(one, False) for one in ("moves", "rough", "partitions"))
            made = failover.life(seed, _TRANSACTIONS, truncates=kind.get("truncates", False), moves=moves, keys=_KEYS)
            told = list(failover.sent(made, seed, partitions or 1, _REACH, rough=rough))
            case = failover.case_of(told, 1_000 * (at + 1) + seed, _RUNS, moves=moves)
            found.append((case, CRASHED if (at + seed) % 2 else CUT, name == "plain"))
    return found


def test_a_mirror_is_its_database_whichever_server_tells_it(spark: "SparkSession", lake_config: Config) -> None:
    """Whatever is sent again, from other places; and `verify` finds nothing."""
    lives = _lives()
    wrong: list[str] = []
    gone = passages([(case, way) for case, way, _ in lives], spark, lake_config)
    for passage, (case, _, is_exact) in zip(gone, lives, strict=True):
        reading, table = Reading(case), None
        ends = zip(passage.states, case.expected, reading.steps(), strict=True)
        for run, (state, expected, messages) in enumerate(ends, 1):
            table = table or reading.table(messages)
            table.take(messages)
            found = _rows(case, state.rows or [])
            if state.run.error is not None:
                wrong.append(f"{case.name}, run {run}: {state.run.error}")
            elif (is_exact or run == _RUNS) and found != _rows(case, expected["rows"]):
                wrong.append(f"{case.name}, run {run}: other rows than the database's")
            elif found != _rows(case, reading.shown(table)):
                wrong.append(f"{case.name}, run {run}: other rows than the reference's")
        verified = passage.states[-1].verified
        wrong += [f"{case.name}: verify"] if verified is None or not verified.equal else []
        wrong += [f"{case.name}: no batch was done twice"] if passage.way == CRASHED and not passage.has_crashed else []

    assert wrong == []


def _rows(case: Case, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns of the source, in the order of the keys."""
    return sorted(({name: row[name] for name in case.data["columns"]} for row in rows), key=lambda row: row["id"])
