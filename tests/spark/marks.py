"""Marks that several modules of this folder have."""

import os

import pytest

#: Importing Great Expectations 1.24 meets deprecations in its own dependencies.
IMPORTS_GREAT_EXPECTATIONS = (
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
)

#: Tests that start many runs or wait for processes: a run of the suite takes fewer of them than of others.
TURNS = pytest.mark.turns(60)
#: The same for modules whose tests look at what one long fixture has done: a run takes those of one turn, or none. Were
#: they drawn one by one, nearly each run would have some test of each such module, and make its fixture.
FIRST_TURN, SECOND_TURN, THIRD_TURN, FOURTH_TURN, FIFTH_TURN = (pytest.mark.turns(20, turn) for turn in range(5))
SIXTH_TURN, SEVENTH_TURN, EIGHTH_TURN = (pytest.mark.turns(20, turn) for turn in range(5, 8))
#: In each run of the suite.
ALWAYS = pytest.mark.turns(1)
#: A golden case that is not in turn.
WAITS = pytest.mark.waits


def seed_of(config: pytest.Config, named_by: str = ".py") -> int | None:
    """The seed that says what a run takes of what takes turns; None for a run that takes all.

    Args:
        config: of the run.
        named_by: what in an argument of the command line says that it names what has to go, as a keyword does.
    """
    seed = config.getoption("randomly_seed", None)
    is_named = bool(config.getoption("keyword")) or any(named_by in argument for argument in config.args)
    takes_all = os.environ.get("CDCM_TESTS") == "all" or is_named
    return seed if isinstance(seed, int) and not takes_all else None
