"""Each mistake in the list of mutants makes the reference fold fail the golden cases that it names.

The product's mutants run on Spark; that what they replace is still there is told here, in every run of the tests.
"""

import pytest

from tests.cases.case import Case, cases
from tests.model import reference
from tests.model.golden import unread_because
from tests.model.mutants import MUTANTS
from tests.spark import mutants as product
from tests.unit.test_reference import differences

_CASES = {case.number: case for case in cases() if unread_because(case) is None}


def _caught(chosen: list[Case]) -> list[int]:
    return [case.number for case in chosen if differences(case)]


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_of_the_reference_is_caught(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By every golden case that the list names for it; a function that is gone fails too."""
    mutant = MUTANTS[name]
    monkeypatch.setattr(reference, mutant.function, mutant.mistake)

    assert mutant.caught_by
    assert _caught([_CASES[number] for number in mutant.caught_by]) == list(mutant.caught_by), _caught(
        list(_CASES.values())
    )


@pytest.mark.parametrize("name", product.MUTANTS)
def test_a_mutant_of_the_product_replaces_something_that_is_there(name: str) -> None:
    """What it replaces has not moved, and the case that it names exists."""
    mutant = product.MUTANTS[name]
    owner, last = product.owner_of(mutant)

    assert hasattr(owner, last)
    assert mutant.caught_by in {case.number for case in cases()}
