"""Replays that are killed at named points, each a process of its own, and one that ends what they began.

As runs are (`test_crash`): a third of the points take their turn in a run of the tests, all with CDCM_TESTS=all. The
live mirror has a row too few when the first one begins, so that the swap shows.
"""

import random
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.config import Config
from cdc_materializer.crash_points import POINTS, REBUILD
from cdc_materializer.lake.columns import REBUILT_PREFIX
from cdc_materializer.lake.lake import Lake
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG
from cdc_materializer.marker.swapped import BEFORE_REPLAY
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables, roll_back
from cdc_materializer.report.replay_models import TableReplay
from cdc_materializer.run.run import run_once
from cdc_materializer.session.session import beside
from cdc_materializer.testing import TopicBuilder
from tests.spark.marks import THIRD_TURN
from tests.spark.passages import ALL
from tests.spark.processes import MIRROR, add_changes, content, pipeline, refs, run_process, what_is_broken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, THIRD_TURN]

#: In the order in which replays come to them: the branches are put, filled, compared, and swapped in.
ORDER = (
    *("quarantine.branched", "quarantine.staged", "quarantine.published"),
    *("mirror.branched", "mirror.staged", "mirror.published"),
    *("replay.begun", "replay.folded", "replay.compared", "replay.marked", "replay.swapped", "replay.settled"),
)
#: From these points on readers see what was rebuilt.
SWAPPED = ("replay.swapped", "replay.settled")


@dataclass(frozen=True)
class Aftermath:
    """What the killed ones left and readers saw, and what the last one did."""

    config: Config
    points: list[str]
    codes: dict[str, int]
    broken: dict[str, list[str]]
    seen: dict[str, list[dict[str, Any]]]
    damaged: list[dict[str, Any]]
    whole: dict[str, list[dict[str, Any]]]
    taken_back: list[dict[str, Any]]
    last: TableReplay


def _damage(config: Config, spark: "SparkSession") -> None:
    """Take a row away, as another engine would."""
    lake = Lake(beside(spark, config), config.catalog.name)
    lake.spark.sql(f"DELETE FROM {config.catalog.name}.{MIRROR} WHERE id = 3")


def _replayed(config: Config, spark: "SparkSession") -> TableReplay:
    return replay_tables(config, (str(MIRROR),), ReplayOptions(publish=True), spark).tables[0]


def _seen(config: Config) -> list[dict[str, Any]]:
    """What readers see of rows; columns that a replay fills on its branch are there for all, and empty."""
    rows = content(config)[str(MIRROR)]
    assert not any(row[name] is not None for row in rows for name in row if name.startswith(REBUILT_PREFIX))
    return [{name: value for name, value in row.items() if not name.startswith(REBUILT_PREFIX)} for row in rows]


@pytest.fixture(scope="module")
def aftermath(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Aftermath:
    """A damaged mirror, replayed and killed at each chosen point in turn, then replayed to the end.

    That is taken back once, and done again.
    """
    untouched, config = (pipeline(tmp_path_factory.mktemp(name), history=False) for name in ("whole", "replayed"))
    for one in (untouched, config):
        assert run_once(one, spark).exit_code == 0
    # A replay also gives columns the types that their source has by now.
    assert _replayed(untouched, spark).published
    whole = content(untouched)
    _damage(config, spark)
    damaged = _seen(config)
    seed = request.config.getoption("randomly_seed", None)
    turn = random.Random(seed if isinstance(seed, int) else 0)  # noqa: S311 - repeatable, not secret
    chosen = set(ORDER if ALL else turn.sample(ORDER, -(-len(ORDER) // 3)))
    points = [point for point in ORDER if point in chosen]
    codes, broken, seen = {}, {}, {}
    for point in points:
        codes[point] = run_process(config, replay=True, CDCM_CRASH_AT=point).returncode
        broken[point], seen[point] = what_is_broken(config), _seen(config)
    assert _replayed(config, spark).error is None
    assert roll_back(config, (str(MIRROR),), spark).tables[0].rolled_back
    taken_back = _seen(config)
    last = _replayed(config, spark)
    return Aftermath(config, points, codes, broken, seen, damaged, whole, taken_back, last)


def test_every_point_of_a_replay_has_its_turn() -> None:
    """Its own, and those of the commits that it makes."""
    assert {f"replay.{step}" for step in REBUILD} < set(ORDER) <= set(POINTS)


def test_replays_were_killed_where_they_should(aftermath: Aftermath) -> None:
    """By a signal; each goes on with what the one before had, and so comes to the next point."""
    assert aftermath.codes == dict.fromkeys(aftermath.points, -signal.SIGKILL)


def test_readers_see_the_one_mirror_or_the_other_whatever_is_killed(aftermath: Aftermath) -> None:
    """The live one until the swap and the rebuilt one after it, and nothing between."""
    whole = aftermath.whole[str(MIRROR)]

    assert aftermath.seen == {point: whole if point in SWAPPED else aftermath.damaged for point in aftermath.points}
    assert aftermath.broken == {point: [] for point in aftermath.points}


def test_a_rollback_brings_back_what_was_there_before_all_of_them(aftermath: Aftermath) -> None:
    """Those that came behind the swap have found what they would publish published, and kept nothing else."""
    assert aftermath.taken_back == aftermath.damaged


def test_the_last_one_ends_what_the_killed_ones_began(aftermath: Aftermath, spark: "SparkSession") -> None:
    """Mirror, raw and quarantine are as if no one had been killed, no branch is left, and the table goes on."""
    config = aftermath.config

    assert (aftermath.last.error, aftermath.last.published) == (None, True)
    assert content(config) == aftermath.whole
    kept = {"main", MARKER_TAG, GENESIS_TAG, BEFORE_REPLAY}
    assert {name: found - kept for name, found in refs(config).items()} == {name: set() for name in refs(config)}
    assert verify_tables(config, spark).tables[0].equal
    topic = TopicBuilder("shop.public.things")
    for number in range(2):
        add_changes(topic, number)
    topic.write(config.root / "recorded")
    assert run_once(config, spark).exit_code == 0
    assert verify_tables(config, spark).tables[0].equal
