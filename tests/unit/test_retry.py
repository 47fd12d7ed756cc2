"""What is tried again, how often and after what pauses; that errors of ours say it themselves is in `test_commits`."""

import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.errors import CommitConflict, LakeUnavailable, RegistryUnavailable
from cdc_materializer.lake.branches import drop_branches
from cdc_materializer.registry import RegistryAccess
from cdc_materializer.registry.apicurio import ApicurioRegistry
from cdc_materializer.retry import COMMIT, REFILL, REGISTRY, Deadline, RetryPolicy
from cdc_materializer.testing.catalog import JavaError
from tests.unit.memory import NAME
from tests.unit.registries import Answers, serving


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses so far, none of which is waited for."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_who_calls_says_what_may_pass(slept: list[float]) -> None:
    """Errors of other libraries, too; it is not asked once there is no attempt left, and others are raised at once."""
    asked: list[Exception] = []

    def may_pass(error: Exception) -> bool:
        asked.append(error)
        return isinstance(error, OSError)

    tried = []

    def step() -> None:
        tried.append(1)
        raise OSError(len(tried))

    with pytest.raises(OSError, match="3"):
        RetryPolicy(attempts=3, base_seconds=1.0, cap_seconds=1.5).call(step, may_pass=may_pass)

    assert [error.args for error in asked] == [(1,), (2,)]
    assert slept == [1.0, 1.5]
    with pytest.raises(ZeroDivisionError):
        RetryPolicy(attempts=3).call(lambda: 1 // 0, may_pass=may_pass)
    assert len(asked) == 3


def test_a_commit_that_others_are_in_the_way_of_is_tried_at_once(slept: list[float]) -> None:
    """There is nothing to wait for."""
    lost = [CommitConflict("Lost.", "Again.")] * 9

    def step() -> int:
        if lost:
            raise lost.pop()
        return 1

    assert REFILL.call(step) == 1
    assert slept == []
    lost += [CommitConflict("Lost.", "Again.")] * 4
    with pytest.raises(CommitConflict):
        COMMIT.call(step)


def test_clients_of_a_server_do_not_all_come_at_once(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pause is of any length up to one that doubles."""
    monkeypatch.setattr(random, "random", iter([0.5, 0.25]).__next__)

    with pytest.raises(OSError, match="down"):
        REGISTRY.call(_down, may_pass=lambda _: True)

    assert slept == [0.1, 0.1]


def _down() -> None:
    raise OSError("down")


def test_a_busy_registry_is_asked_again_only_while_there_is_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A pause that would end behind the deadline is not begun, and what was answered is told."""
    now = [0.0]
    monkeypatch.setattr(random, "random", lambda: 1.0)
    with serving(monkeypatch, tmp_path) as url:
        monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
        Answers.failing = [503] * 9
        deadline = Deadline(0.5, lambda: now[0])
        with pytest.raises(RegistryUnavailable, match="status 503"):
            ApicurioRegistry(RegistryAccess(url, deadline=deadline), "apicurio-content").schema(1)
        seen = len(Answers.seen)

    # Pauses of 0.2 and 0.4 seconds.
    assert (seen, now) == (2, [0.2])


@pytest.mark.parametrize(("losses", "error"), [(3, None), (4, CommitConflict), (-1, LakeUnavailable)])
def test_branches_are_removed_again_where_another_commit_was_first(losses: int, error: type[Exception] | None) -> None:
    """A catalog that does not answer is not asked again."""
    answers = [JavaError("CommitFailedException")] * losses if losses > 0 else [JavaError("RESTException")]
    removed: list[str] = []

    def commit() -> None:
        if answers:
            raise answers.pop()
        removed.append("done")

    update: Any = SimpleNamespace(commit=commit)
    update.removeBranch = lambda _: update
    table = SimpleNamespace(refs=lambda: ["cdcm-a", "other"], manageSnapshots=lambda: update)
    lake: Any = SimpleNamespace(iceberg=lambda _: table)
    if error is None:
        drop_branches(lake, NAME, "cdcm-")
    else:
        with pytest.raises(error):
            drop_branches(lake, NAME, "cdcm-")

    assert removed == (["done"] if error is None else [])
