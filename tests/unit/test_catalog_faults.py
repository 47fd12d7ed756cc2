"""Faults of the catalog in memory: those of a real one (`integration/test_catalog_faults.py`), and plans of them."""

import random

import pytest

from cdc_materializer.errors import EXIT_DONE, EXIT_LAKE, EXIT_UNKNOWN
from cdc_materializer.testing import FAULTS, FaultPlan, JavaError, MemoryCatalog, Metadata
from tests.model.commits import MIRROR, PATHS, World
from tests.model.fault_contract import CASES, Case, check

_ENDED = {"done": EXIT_DONE, "LakeUnavailable": EXIT_LAKE, "CommitUnknown": EXIT_UNKNOWN}
#: Which of a batch's commits to its mirror does what; between them rows go and come.
_COMMITS = {"branch": 1, "publish": 4}


class _Bench:
    """A world of one table, as the contract of faults handles one."""

    def __init__(self) -> None:
        self.world = World(random.Random(0))  # noqa: S311 - repeatable, not secret
        assert self.run(None) == EXIT_DONE

    def run(self, case: Case | None) -> int:
        """Add a row and run."""
        self.world.change(self.added() + 1, "there")
        faults = {_COMMITS[case.at]: case.fault} if case is not None else {}
        silent = case is not None and case.falls_silent
        self.world.catalog.follow(FaultPlan(faults, PATHS[MIRROR], silent))
        ended = self.world.run()
        self.world.catalog.follow(FaultPlan())
        return _ENDED[ended]

    def added(self) -> int:
        """How many rows there are."""
        return len(self.world.sent)

    def shown(self) -> int:
        """How many of them readers see."""
        self.world.check()
        keys = sorted(row[0] for row in next(self.world.catalog.tables[PATHS[MIRROR]].line()).rows)
        assert keys == list(range(1, len(keys) + 1))
        return len(keys)

    def deliver(self) -> bool:
        """Let a late commit arrive."""
        before = self.world.catalog.tables[PATHS[MIRROR]].version
        self.world.catalog.deliver()
        return self.world.catalog.tables[PATHS[MIRROR]].version > before


@pytest.mark.parametrize("name", CASES)
def test_a_catalog_in_memory_fails_as_a_real_one(name: str) -> None:
    """The run ends as it does there, readers see the same, and the next run goes on."""
    check(_Bench(), name)


def _committed(catalog: MemoryCatalog, path: str) -> str:
    """What a commit is answered."""
    base = catalog.tables.setdefault(path, Metadata("uuid", {}))
    try:
        catalog.commit(path, base, catalog.grown(base, {}, ()))
    except JavaError as error:
        return str(error)
    return "done"


def test_a_plan_counts_the_commits_of_its_table() -> None:
    """From the moment on at which it is followed; what it does not name goes well, and so does all when it is over."""
    catalog = MemoryCatalog()
    plan = FaultPlan({1: "refused", 3: "lost"}, table="a", no_answer=("X", "Y"))
    for _ in range(2):
        catalog.follow(plan)
        answers = [_committed(catalog, path) for path in ("b", "a", "b", "a", "a", "a")]
        assert answers == ["done", "ServiceUnavailableException", "done", "done", "X < Y", "done"]

    catalog.follow(FaultPlan({1: "refused"}, falls_silent=True))
    assert _committed(catalog, "a") == "ServiceUnavailableException"
    with pytest.raises(JavaError, match="ConnectException"):
        catalog.load("a")
    catalog.follow(FaultPlan())
    assert (_committed(catalog, "a"), catalog.load("a").uuid) == ("done", "uuid")


def test_a_plan_is_a_value() -> None:
    """Equal where its parts are, and no longer changed by whoever made it; what cannot happen is refused."""
    faults = dict.fromkeys(range(1, 3), FAULTS[0])
    plan = FaultPlan(faults)
    faults[9] = "late"

    assert plan == FaultPlan({1: FAULTS[0], 2: FAULTS[0]})
    for wrong in ({0: "late"}, {1: "lazy"}):
        with pytest.raises(ValueError, match="commits count from 1, and faults are"):
            FaultPlan(wrong)  # type: ignore[arg-type]
