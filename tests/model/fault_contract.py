"""What comes of a fault at a commit: the catalog in memory, and a real one behind a proxy, are held to it alike.

So that what the random schedules show of the one is worth something at the other.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from cdc_materializer.errors import EXIT_DONE, EXIT_LAKE, EXIT_UNKNOWN
from cdc_materializer.testing import Fault


@dataclass(frozen=True)
class Case:
    """A fault, and what is to come of it.

    Attributes:
        fault: what becomes of the commit.
        at: which commit of a mirror's batch: the one that makes its branch, or the one that lets readers see it.
        exit_code: how the run ends.
        is_shown: whether readers see the batch then.
        falls_silent: whether the catalog answers nothing else for the rest of that run.
        arrives: when a commit that is late arrives, before the next run or after it.
    """

    fault: Fault
    at: Literal["branch", "publish"]
    exit_code: int
    is_shown: bool
    falls_silent: bool = False
    arrives: Literal["before", "after"] | None = None


CASES = {
    "a branch is refused": Case("refused", "branch", EXIT_LAKE, is_shown=False),
    "a batch is refused": Case("refused", "publish", EXIT_LAKE, is_shown=False),
    "a batch is lost": Case("lost", "publish", EXIT_UNKNOWN, is_shown=False),
    "a batch is seen and nobody says so": Case("unanswered", "publish", EXIT_DONE, is_shown=True),
    "a batch is seen and nobody can be asked": Case(
        "unanswered", "publish", EXIT_UNKNOWN, is_shown=True, falls_silent=True
    ),
    "a batch comes late": Case("late", "publish", EXIT_UNKNOWN, is_shown=False, arrives="before"),
    "a batch comes behind the next one": Case("late", "publish", EXIT_UNKNOWN, is_shown=False, arrives="after"),
}


class FaultBench(Protocol):
    """A pipeline of one table whose catalog can be made to fail."""

    def run(self, case: Case | None) -> int:
        """Let the source have one row more, and run; its exit code. Afterwards the catalog answers again."""

    def added(self) -> int:
        """How many rows the source has."""

    def shown(self) -> int:
        """How many of them readers of the mirror see, each of them once."""

    def deliver(self) -> bool:
        """Let a commit that is late arrive; whether it happened."""


def check(bench: FaultBench, name: str) -> None:
    """Begin and end with a mirror that has every row; in between the run ends as the case says.

    Raises:
        AssertionError: it does not, or a row is missing, twice, or seen too early.
    """
    case, before = CASES[name], bench.shown()
    assert before == bench.added(), name
    assert bench.run(case) == case.exit_code, name
    assert bench.shown() == before + case.is_shown, name
    if case.arrives == "before":
        assert bench.deliver(), name
        assert bench.shown() == before + 1, name
    assert bench.run(None) == EXIT_DONE, name
    assert bench.shown() == bench.added() == before + 2, name
    if case.arrives == "after":
        assert not bench.deliver(), name
        assert bench.run(None) == EXIT_DONE, name
        assert bench.shown() == bench.added() == before + 3, name
