"""The pipeline against a model database: after every run the mirror shows what the database held at that event.

Hundreds of random lives share one table, with keys of their own and their events mixed in one log, so that they cost
a few batches; others, which are truncated, have a table each, one of them with columns that change. Their topics have
some partitions and may get more, are sent with crashes, and are read in batches of any size, in several runs that end
anywhere. A third kind shares a table of which a column is dropped and added now and then, and the database of a fourth
is restored in the end. Of a fifth kind a column says which partition a row goes to, and partitions are read at unequal
speed: what the mirror shows is asked in the end. Each run is killed at each table once, at a point of one of its
commits, and begun again. A run of the suite takes the first table and every second of the others, by its seed, and one
that names this file takes all. With CDCM_TESTS=all there are more lives, and longer ones; with CDCM_SEED=17 the first
of them is that one, or the next that is truncated.
"""

import itertools
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from cdc_materializer import crash_points
from cdc_materializer.config import Config, load_config
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.report.models import RunReport
from cdc_materializer.run.run import run_once
from cdc_materializer.testing.faults import Killed
from tests.model.history import History, Rows, lives
from tests.model.telling import Telling
from tests.spark.kills import commit
from tests.spark.marks import FIFTH_TURN, seed_of
from tests.spark.soundness import what_is_unsound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, FIFTH_TURN]

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST_SEED = int(os.environ.get("CDCM_SEED", "1"))
#: Lives that share a table, lives that have their own, events of each life, and runs.
_SHARING, _ALONE, _EVENTS, _RUNS = (1_000, 8, 60, 4) if _ALL else (200, 1, 20, 2)
#: Lives that share a table whose columns change; and those with a table of their own whose database is restored.
_CHANGING, _RESTORED = (300, 8) if _ALL else (60, 1)
#: Lives that have their own table, are truncated, and whose columns change.
_ALTERED = 4 if _ALL else 1
#: Lives that share a table whose topic is routed by a column, and read at unequal speed.
_UNEVEN = 300 if _ALL else 60
#: Where runs are killed: at every point of the commits that each batch makes.
_POINTS = (*commit("raw"), *commit("mirror"))


def _truncated(count: int, *, columns_change: bool = False) -> list[Telling]:
    """Lives of so many tables of their own, each of which is truncated; of every second one in several partitions."""
    every = (
        (seed, History(seed, 3 * _EVENTS, columns_change=columns_change, returns=True).live())
        for seed in itertools.count(_FIRST_SEED)
    )
    found = itertools.islice(((seed, life) for seed, life in every if any(event.op == "t" for event in life)), count)
    kind = "altered" if columns_change else "truncated"
    partitions = itertools.cycle([(2, 3), (1, 1)])
    return [
        Telling([seed], life, 25, among, called=f"{kind}_life{seed}")
        for (seed, life), among in zip(found, partitions, strict=False)
    ]


def _tellings(seed: int | None) -> list[Telling]:
    """The tables: the shared one, and of the others, where a seed is given, every second."""
    sharing = range(_FIRST_SEED + _ALONE, _FIRST_SEED + _ALONE + _SHARING)
    changing = range(sharing.stop, sharing.stop + _CHANGING)
    found = [*_truncated(_ALONE), *_truncated(_ALTERED, columns_change=True)]
    restored = range(changing.stop, changing.stop + _RESTORED)
    # In another partition than a truncate's nothing but its position says that a row is from before that.
    found += [Telling([one], History(one, _EVENTS, restored=True).live(), 25, (1, 1)) for one in restored]
    altered = lives(changing, _EVENTS, columns_change=True, crosses=True)
    uneven = range(restored.stop, restored.stop + _UNEVEN)
    others = [
        Telling(changing, altered, 2 * _CHANGING, (2, 3)),
        Telling(uneven, lives(uneven, _EVENTS, crosses=True), 2 * _UNEVEN, (2, 3), called="uneven", uneven=True),
        *found,
    ]
    shared = Telling(sharing, lives(sharing, _EVENTS, crosses=True), 2 * _SHARING, (2, 3))
    return [shared, *(others if seed is None else others[seed % 2 :: 2])]


def _killed_and_run_again(config: Config, spark: "SparkSession", seed: str) -> tuple[RunReport, set[str]]:
    """A run that is killed at each table once, and begun again until it ends; and the tables at which it was."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    left = {table.mirror.name: chance.choice(_POINTS) for table in config.tables}
    killed: set[str] = set()

    def reach(step: str, table: TableName) -> None:
        name = table.name.removesuffix("__raw")
        if left.get(name) == crash_points.point_of(step, table):
            killed.add(name)
            raise Killed(left.pop(name))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(crash_points, "reach", reach)
        while True:
            try:
                return run_once(config, spark), killed
            except Killed:
                continue


def _written(table: Telling, folder: Path, run: int) -> Rows | None:
    """Write what a run reads, and return what the table must show behind it; None where nothing says."""
    if table.uneven and run < _RUNS:
        table.write_unevenly(folder, run / _RUNS)
        return None
    return table.write(folder, run / _RUNS)


@pytest.fixture(scope="module")
def outcome(
    spark: "SparkSession", lake_config: Config, request: pytest.FixtureRequest
) -> tuple[list[Telling], list[dict[int, str]]]:
    """The tables, and for each run what was wrong after it, by seed."""
    tables = _tellings(seed_of(request.config))
    folder, path = lake_config.root / "model", lake_config.root / "model.yaml"
    faults: list[dict[int, str]] = []
    for run in range(1, _RUNS + 1):
        expected = {table.mirror: _written(table, folder, run) for table in tables}
        entries = [table.entry() for table in tables]
        path.write_text(yaml.safe_dump({"name": "model", "source": {"files": "model"}, "tables": entries}))
        report, killed = _killed_and_run_again(load_config(path), spark, f"{_FIRST_SEED} {run}")
        errors = {entry.table: entry.error.message for entry in report.tables if entry.error is not None}
        faults.append({table.seeds[0]: "was never killed" for table in tables if table.name not in killed})
        for table in tables:
            stopped = {seed: errors[table.mirror] for seed in table.seeds if table.mirror in errors}
            rows = expected[table.mirror]
            faults[-1] |= stopped or (table.difference(spark, rows) if rows is not None else {})
            unsound = what_is_unsound(load_config(path), TableName.parse(table.mirror))
            faults[-1] |= {table.seeds[0]: str(unsound)} if unsound else {}
    unequal = [entry.table for entry in verify_tables(load_config(path), spark).tables if not entry.equal]
    faults.append({table.seeds[0]: "verify finds a difference" for table in tables if table.mirror in unequal})
    again = tuple(table.mirror for table in (tables if _ALL else tables[-1:]))
    rebuilt = replay_tables(load_config(path), again, ReplayOptions(), spark).tables
    unlike = [entry.table for entry in rebuilt if entry.error is not None or not entry.equal]
    faults.append({table.seeds[0]: "a replay finds a difference" for table in tables if table.mirror in unlike})
    return tables, faults


def test_a_mirror_is_its_database_at_every_event(outcome: tuple[list[Telling], list[dict[int, str]]]) -> None:
    """Whatever is sent again, cut, or killed in between; and so do a fold of all of raw and a replay in batches."""
    tables, faults = outcome

    assert sum(len(table.seeds) for table in tables) > 200
    assert faults == [{}] * (_RUNS + 2)
