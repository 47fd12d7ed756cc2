"""Maintenance that is killed at named points, each a process of its own, and one that ends what they began.

As runs are (`test_crash`): a third of the points take their turn in a run of the tests, all with CDCM_TESTS=all.
"""

import random
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.config import Config
from cdc_materializer.crash_points import POINTS, UPKEEP
from cdc_materializer.maintain import MaintainOptions, maintain_tables
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.report.maintain_models import MaintainReport
from cdc_materializer.run.run import run_once
from tests.spark.marks import SECOND_TURN
from tests.spark.passages import ALL
from tests.spark.processes import MIRROR, content, environment, pipeline, refs, what_is_broken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, SECOND_TURN]

#: In the order in which maintenance comes to them; the branch of each killed one is the next one's to drop.
ORDER = (
    *("mirror.branched", "maintain.compacted", "mirror.staged", "mirror.published"),
    *("maintain.expired", "maintain.found"),
)
#: Maintains as `cdcm maintain` does, a month later.
DRIVER = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from cdc_materializer.config import load_config
from cdc_materializer.maintain import MaintainOptions, maintain_tables

later = lambda: datetime.now(UTC) + timedelta(days=30)
maintain_tables(load_config(Path(sys.argv[1])), MaintainOptions(later))
"""


@dataclass(frozen=True)
class Aftermath:
    """What the killed ones left and readers saw, and what the last one did."""

    config: Config
    points: list[str]
    codes: dict[str, int]
    broken: dict[str, list[str]]
    seen: dict[str, bool]
    last: MaintainReport
    equal: bool


def _maintain(config: Config, driver: Path, point: str) -> int:
    command = [sys.executable, str(driver), str(config.path)]
    ended = subprocess.run(command, check=False, capture_output=True, timeout=900, env=environment(CDCM_CRASH_AT=point))
    return ended.returncode


@pytest.fixture(scope="module")
def aftermath(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Aftermath:
    """A table of many small batches, maintained and killed at each chosen point in turn, then maintained to the end."""
    root = tmp_path_factory.mktemp("upkeep")
    config, driver = pipeline(root, rounds=3, history=False), root / "driver.py"
    driver.write_text(DRIVER, encoding="utf-8")
    assert run_once(config, spark).exit_code == 0
    seed = request.config.getoption("randomly_seed", None)
    turn = random.Random(seed if isinstance(seed, int) else 0)  # noqa: S311 - repeatable, not secret
    chosen = set(ORDER if ALL else turn.sample(ORDER, -(-len(ORDER) // 3)))
    points = [point for point in ORDER if point in chosen]
    before = content(config)
    codes, broken, seen = {}, {}, {}
    for point in points:
        codes[point] = _maintain(config, driver, point)
        broken[point], seen[point] = what_is_broken(config), content(config) == before
    last = maintain_tables(config, MaintainOptions(lambda: datetime.now(UTC) + timedelta(days=30)), spark)
    assert content(config) == before
    return Aftermath(config, points, codes, broken, seen, last, verify_tables(config, spark).equal)


def test_every_point_of_maintenance_has_its_turn() -> None:
    """Those of the commit, and its own."""
    assert {f"maintain.{step}" for step in UPKEEP} < set(ORDER) <= set(POINTS)


def test_maintenance_was_killed_where_it_should(aftermath: Aftermath) -> None:
    """By a signal; each begins where the one before left off, and so comes to the next point."""
    assert aftermath.codes == dict.fromkeys(aftermath.points, -signal.SIGKILL)


def test_readers_see_the_same_rows_whatever_is_killed(aftermath: Aftermath) -> None:
    """In all tables, and every invariant holds of them."""
    assert aftermath.seen == dict.fromkeys(aftermath.points, True)
    assert aftermath.broken == {point: [] for point in aftermath.points}


def test_the_last_one_ends_what_the_killed_ones_began(aftermath: Aftermath) -> None:
    """No branch of theirs is left, nothing is left to do, and `verify` finds the mirror equal."""
    assert [found.error for found in aftermath.last.tables] == [None] * 3
    assert list(refs(aftermath.config).values()) == [{"main", MARKER_TAG, GENESIS_TAG}] * 3
    assert aftermath.equal


def test_orphans_of_killed_rewrites_are_gone(aftermath: Aftermath) -> None:
    """What they had written belongs to no snapshot, and a month later it is deleted."""
    (mirror,) = (found for found in aftermath.last.tables if found.table == str(MIRROR))
    folder = next(aftermath.config.root.glob("lake/warehouse/**/things/data"))

    assert mirror.orphans is not None
    assert len(list(folder.glob("*.parquet"))) == 1
