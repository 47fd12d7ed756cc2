"""Golden cases: the data of `tests/cases` through the real pipeline. A case is added there, without code.

Each goes as it is; a case with `cut` goes a second time in batches of that many messages, so that every boundary
between them is hit, and one with `also` in the ways that it names there. With CDCM_TESTS=all every case goes in every
way that makes sense for it. By default cases take turns, by the run's `--randomly-seed`; one that is named (`-k 0162`)
always goes. Of those that go as they are, one is rebuilt at its end by default, with CDCM_TESTS=all each.
"""

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from tests.cases.case import Case, cases
from tests.spark.checks import check
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, WAITS, seed_of
from tests.spark.passages import ALL, WHOLE, Passage, passages, ways

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]


#: How many cases a run takes, of those that begin with a number: those of the fold itself come first. A passage of a
#: case takes a minute of a busy core: 18 took 21.
_A_RUN = {0: 2, 130: 2}


#: A plan sees a handful of rows here: to compile its expressions takes longer than to run it. All other tests compile
#: them, as users' runs do, and so do these with CDCM_TESTS=all.
_INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each case, in each of its ways, to the test; with a seed those that are not in turn have to wait."""
    metafunc.parametrize("which", _parameters(seed_of(metafunc.config, "::")))


def _parameters(seed: int | None) -> list[Any]:
    in_turn = _in_turn(seed) if seed is not None else None
    found = []
    for case in cases():
        marks = [pytest.mark.xfail(reason=case.data["xfail"])] if "xfail" in case.data else []
        marks += [WAITS] if in_turn is not None and case.number not in in_turn else []
        for way in ways(case):
            name = f"{case.number:04d}_{case.name}{'' if way == WHOLE else f'-{way}'}"
            found.append(pytest.param((case.number, way), id=name, marks=marks))
    return found


def _in_turn(seed: int) -> set[int]:
    """The numbers of the cases that a run with this seed takes."""
    found: set[int] = set()
    for (first, count), end in zip(_A_RUN.items(), [*list(_A_RUN)[1:], math.inf], strict=True):
        numbers = [case.number for case in cases() if first <= case.number < end]
        # Repeatable, not secret.
        found |= set(random.Random(f"{seed} {first}").sample(numbers, count))  # noqa: S311
    return found


@pytest.fixture(scope="session")
def lake_config(lake_config: Config) -> Config:
    """The configuration of all tests; where these have a Spark session of their own, one that interprets."""
    if not ALL:
        found = yaml.safe_load(lake_config.path.read_text(encoding="utf-8"))
        lake_config.path.write_text(yaml.safe_dump({**found, "spark": {**found["spark"], **_INTERPRETED}}))
    return load_config(lake_config.path)


@pytest.fixture(scope="module")
def gone(request: pytest.FixtureRequest, spark: "SparkSession", lake_config: Config) -> dict[tuple[int, str], Passage]:
    """The chosen cases, gone through all their steps."""
    chosen = {
        item.callspec.params["which"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path
    }
    wanted = [(case, way) for case in cases() for way in ways(case) if (case.number, way) in chosen]
    found = passages(wanted, spark, lake_config, _replayed(wanted, request.config.getoption("randomly_seed", None)))
    return {(passage.case.number, passage.way): passage for passage in found}


def _replayed(wanted: Sequence[tuple[Case, str]], seed: object) -> list[int]:
    """The case that is rebuilt at its end: one that leaves a mirror, by the run's seed; none where there is none."""
    able = [case.number for case, way in wanted if way == WHOLE and case.expected[-1]["rows"] is not None]
    return [random.Random(f"{seed} replayed").choice(able)] if able else []  # noqa: S311 - repeatable, not secret


def test_a_case_ends_as_it_says(gone: dict[tuple[int, str], Passage], which: tuple[int, str]) -> None:
    """After each step the mirror, the counts and the quarantine are those of expected.yaml."""
    check(gone[which])
