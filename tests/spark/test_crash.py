"""Runs that are killed at named points, each a process of its own, and one that ends what they began.

The points follow one another on one table, so that each run first repairs what the one before left, and is then killed
at the next. SIGKILL leaves no time for anything: no branch is dropped, no session closed. A third of the points take
their turn in a run of the tests, by its `--randomly-seed`; all of them do with CDCM_TESTS=all.
"""

import random
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config
from cdc_materializer.crash_points import POINTS
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.report.models import RunReport
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import TopicBuilder, write_recorded_topic
from tests.spark.marks import FIRST_TURN
from tests.spark.passages import ALL
from tests.spark.processes import (
    CHANGES,
    MIRROR,
    TABLES,
    TOPIC,
    add_changes,
    content,
    pipeline,
    refs,
    run_process,
    what_is_broken,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, FIRST_TURN]

#: The points of a run in the order in which its first batch comes to them.
ORDER = (
    *("raw.made", "raw.branched", "raw.staged", "raw.published"),
    *("mirror.made", "quarantine.made", "quarantine.branched", "quarantine.staged", "quarantine.published"),
    *("mirror.branched", "mirror.staged"),
    *("history.made", "history.branched", "history.staged", "history.published", "mirror.published"),
)


@dataclass(frozen=True)
class Aftermath:
    """What the killed runs left, what the last one made of it, and what a run makes that nothing disturbs."""

    config: Config
    points: list[str]
    codes: dict[str, int]
    broken: dict[str, list[str]]
    last: RunReport
    equal: bool
    undisturbed: dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def aftermath(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Aftermath:
    """Run and be killed at each chosen point in turn, then run to the end."""
    config = pipeline(tmp_path_factory.mktemp("crash"))
    seed = request.config.getoption("randomly_seed", None)
    turn = random.Random(seed if isinstance(seed, int) else 0)  # noqa: S311 - repeatable, not secret
    chosen = set(ORDER if ALL else turn.sample(ORDER, -(-len(ORDER) // 3)))
    points = [point for point in ORDER if point in chosen]
    codes, broken = {}, {}
    for point in points:
        codes[point] = run_process(config, CDCM_CRASH_AT=point).returncode
        broken[point] = what_is_broken(config)
    last = run_once(config, spark)
    equal = verify_tables(config, spark).tables[0].equal
    other = pipeline(tmp_path_factory.mktemp("undisturbed"))
    assert run_once(other, spark).exit_code == 0
    return Aftermath(config, points, codes, broken, last, equal, content(other))


def test_every_point_of_a_run_has_its_turn() -> None:
    """Points of other commands are these commands' tests."""
    kinds = {point.partition(".")[0] for point in ORDER}

    assert set(ORDER) == {point for point in POINTS if point.partition(".")[0] in kinds}


def test_every_run_was_killed_where_it_should(aftermath: Aftermath) -> None:
    """By a signal, at its point; otherwise the other tests would show nothing."""
    assert aftermath.codes == dict.fromkeys(aftermath.points, -signal.SIGKILL)


def test_nothing_is_half_visible_after_a_kill(aftermath: Aftermath) -> None:
    """Whatever the run was doing, readers see tables of which every invariant holds."""
    assert aftermath.broken == {point: [] for point in aftermath.points}


def test_the_next_run_ends_what_the_killed_ones_began(aftermath: Aftermath) -> None:
    """It exits with 0, and `verify` finds the mirror equal."""
    assert (aftermath.last.exit_code, aftermath.last.tables[0].error) == (0, None)
    assert aftermath.equal
    assert what_is_broken(aftermath.config) == []


def test_the_tables_are_those_of_a_run_that_nothing_disturbed(aftermath: Aftermath) -> None:
    """Row by row: raw, mirror, quarantine with each status, and history."""
    assert content(aftermath.config) == aftermath.undisturbed


def test_the_undisturbed_run_ends_where_it_should(aftermath: Aftermath) -> None:
    """Each row with its last good value, each message once in raw, each held one once, each applied change once."""
    mirror, raw, held, history = aftermath.undisturbed.values()

    assert sorted((row["id"], row["price"]) for row in mirror) == [(2, 21), (3, 30), (4, 40)]
    assert sorted((row["partition"], row["offset"]) for row in raw) == [(0, offset) for offset in range(9)]
    assert sorted((row["offset"], row["code"], row["status"]) for row in held) == [
        *[(offset, "SCHEMA_INCOMPATIBLE", "superseded") for offset in (2, 5)],
        (8, "SCHEMA_INCOMPATIBLE", "open"),
    ]
    prices = [row and row["price"] for change in history for row in (change["before"], change["after"])]
    assert sorted((change["offset"], change["op"]) for change in history) == [
        *[(0, "c"), (1, "c"), (3, "u"), (4, "d"), (6, "c"), (7, "c")]
    ]
    assert prices.count(None) == len(history) - 1


def test_no_branch_is_left(aftermath: Aftermath) -> None:
    """What was staged by killed runs is dropped when the tables are next loaded."""
    assert refs(aftermath.config) == {str(name): {"main", MARKER_TAG, GENESIS_TAG} for name in TABLES}


def _statuses(config: Config) -> list[tuple[int, str]]:
    return sorted((row["offset"], row["status"]) for row in content(config)[str(MIRROR.quarantine)])


def test_what_a_killed_run_has_not_ended_in_quarantine_the_next_one_ends(spark: "SparkSession", tmp_path: Path) -> None:
    """Killed when readers see a good row again; the next run has no message to read, and ends what was held of it."""
    config = pipeline(tmp_path, 1, records_max=len(CHANGES))
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    write_recorded_topic(config.root / "recorded", TOPIC, topic.messages[:3])
    assert run_once(config, spark).exit_code == 0
    topic.write(config.root / "recorded")

    assert run_process(config, CDCM_CRASH_AT="mirror.published").returncode == -signal.SIGKILL
    shown = content(config)[str(MIRROR)]
    left = _statuses(config)
    next_one = run_once(config, spark)
    commits = open_tables(config.catalog).lines_of(MIRROR.quarantine)
    run_once(config, spark)

    assert (2, "open") in left
    assert (next_one.exit_code, next_one.tables[0].batches, next_one.tables[0].error) == (0, 0, None)
    assert _statuses(config) == [(2, "superseded"), (5, "superseded"), (8, "open")]
    assert content(config)[str(MIRROR)] == shown
    assert what_is_broken(config) == []
    # That is done once.
    assert open_tables(config.catalog).lines_of(MIRROR.quarantine) == commits
