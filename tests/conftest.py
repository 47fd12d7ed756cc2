"""What tests share: one Spark session for all that need one, and an own namespace for each."""

import gc
import itertools
import logging
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import settings

from cdc_materializer.config import Config, load_config
from tests.spark.marks import seed_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A property that holds does so on a busy machine too: time is no part of what these tests show.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# So that a golden case that fails says what it found.
pytest.register_assert_rewrite("tests.spark.checks", "tests.spark.passages")

_numbers = itertools.count()
#: A session of ours for small runs has the JVM's quick compiler alone. One that goes through a suite gains by the other
#: one too; one of nine passages of golden cases took 67 s with it in place of 77, but 119 s of CPU in place of 99.
_OF_A_SUITE = "-XX:TieredStopAtLevel=4"
#: A heap and room for classes that need not grow step by step: at each step the JVM collects all of the heap. Of the
#: 33 CPU-minutes of a suite's JVM 6.5 went into 44 such collections.
_ROOMY = "-Xms2g -XX:MetaspaceSize=512m"
_SUITE_TESTS = 60
#: Of the tests on Spark that say nothing else a run takes one in so many: all of them take three hours, and a run has
#: 15 minutes.
_EVERY = 45
_SPARK = Path(__file__).parent / "spark"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave tests/spark unread where none of it is chosen: what it imports takes seconds.

    That nothing else is left out with it is a test of its own, in tests/arch.
    """
    unwanted = collection_path == _SPARK and "not spark" in config.option.markexpr
    return True if unwanted else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests on Spark leave those for other runs that are not in turn, by its seed: most of them.

    How many is said by a mark (`marks.TURNS`), and of golden cases which. CDCM_TESTS=all takes all of them, and so does
    a run that names a file, a test or a keyword.
    """
    seed = seed_of(config)
    waiting = [item for item in items if item.get_closest_marker("waits")]
    if seed is not None:
        waiting += [item for item in items if item.get_closest_marker("spark") and not _is_in_turn(seed, item)]
    left = {item.nodeid for item in waiting}
    items[:] = [item for item in items if item.nodeid not in left]
    config.hook.pytest_deselected(items=waiting)


def _is_in_turn(seed: int, item: pytest.Item) -> bool:
    """Whether a test goes in the run with this seed: one in so many, or all of a turn in one run of so many."""
    mark = item.get_closest_marker("turns")
    every, turn = (*mark.args, None)[:2] if mark is not None else (_EVERY, None)
    # Repeatable, not secret; by test, so that a new one moves no other's turn.
    own = item.nodeid if turn is None else "together"
    return random.Random(f"{seed} {own}").randrange(every) == (turn or 0)  # noqa: S311


def pytest_sessionstart() -> None:
    """Import everything without the garbage collector: what is imported stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Collect garbage from here on, without going through what was imported again and again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Each test leaves the levels of logs as it found them: from DEBUG on, pytest keeps every record with its trace."""
    before = [(logger, logger.level) for logger in (logging.getLogger(), logging.getLogger("cdc_materializer"))]
    yield
    for logger, level in before:
        logger.setLevel(level)


@pytest.fixture(scope="session")
def lake_config(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Config:
    """A configuration with the default catalog, `lake` on SQLite, in a temporary folder, and no topics."""
    root = tmp_path_factory.mktemp("pipeline")
    (root / "recorded").mkdir()
    path = root / "pipeline.yaml"
    options = f"{_ROOMY} {_OF_A_SUITE}" if len(request.session.items) >= _SUITE_TESTS else _ROOMY
    settings = {"spark.driver.extraJavaOptions": options}
    content = {"source": {"files": "recorded"}, "tables": [{"topic": "none.yet"}], "spark": settings}
    path.write_text(yaml.safe_dump({"name": "tests", **content}))
    return load_config(path)


@pytest.fixture(scope="session")
def spark(lake_config: Config) -> Iterator["SparkSession"]:
    """The one Spark session of the run, with the catalog of `lake_config`; started when the first test asks for it."""
    from cdc_materializer.session import session

    opened = session.open_session(lake_config, small=True)
    yield opened
    session.stop(opened)


@pytest.fixture
def namespace(spark: "SparkSession", request: pytest.FixtureRequest) -> str:
    """An empty namespace of the catalog `lake` for this test alone; its name without the catalog's."""
    words = re.sub(r"\W+", "_", request.node.name)[:40].lower()
    name = f"{words}_{next(_numbers)}"
    spark.sql(f"CREATE NAMESPACE lake.`{name}`")
    return name


@pytest.fixture
def warehouse(lake_config: Config) -> Path:
    """The folder that holds the tables of the catalog `lake`."""
    return lake_config.root / "lake" / "warehouse"
