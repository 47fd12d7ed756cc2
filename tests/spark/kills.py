"""Commands that are killed at one named point after the other, by an exception of a kind that nothing catches.

What a command would still do is not done, and the session stays; so all of its points take the time of one process.
`test_crash` and its neighbours kill processes.
"""

import random
from collections.abc import Callable

import pytest

from cdc_materializer import crash_points
from cdc_materializer.names import TableName
from cdc_materializer.testing import Killed
from tests.spark.passages import ALL


def commit(kind: str) -> tuple[str, ...]:
    """The points of one commit to a table of a kind that is there."""
    return tuple(f"{kind}.{step}" for step in ("branched", "staged", "published"))


def chance(request: pytest.FixtureRequest) -> random.Random:
    """Chance by the seed of the run of the tests."""
    seed = request.config.getoption("randomly_seed", None)
    return random.Random(seed if isinstance(seed, int) else 0)  # noqa: S311 - repeatable, not secret


def turn_of(points: tuple[str, ...], request: pytest.FixtureRequest) -> list[str]:
    """The points that take their turn in a run of the tests, by its seed: a third of them, or all (CDCM_TESTS=all)."""
    chosen = set(points if ALL else chance(request).sample(points, -(-len(points) // 3)))
    return [point for point in points if point in chosen]


def is_killed(monkeypatch: pytest.MonkeyPatch, at: str, do: Callable[[], object], times: int = 1) -> bool:
    """Do something that is killed when it comes to a point for the so-manieth time; whether it was."""
    left = times

    def reach(step: str, table: TableName) -> None:
        nonlocal left
        left -= crash_points.point_of(step, table) == at
        if left == 0:
            raise Killed(at)

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reach", reach)
        try:
            do()
        except Killed:
            return True
    return False
