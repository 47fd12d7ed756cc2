"""Marks that several modules of this folder have."""

import pytest

#: Importing Great Expectations 1.24 meets deprecations in its own dependencies.
IMPORTS_GREAT_EXPECTATIONS = (
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
)

#: Tests that start many runs or wait for processes: a run of the suite takes a third of them, so that it ends in time.
TURNS = pytest.mark.turns(3)
#: The same for modules whose tests look at what one long fixture has done: of these three a run takes one.
FIRST_TURN, SECOND_TURN, THIRD_TURN = (pytest.mark.turns(3, turn) for turn in range(3))
