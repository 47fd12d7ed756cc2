"""Each golden case of several messages goes in small batches too, or says why not (`tests/cases/README.md`)."""

from typing import Any

import pytest

from tests.cases.case import Case, cases

_CASES = [pytest.param(case, id=f"{case.number:04d}_{case.name}") for case in cases()]
_CUTS, _NOT = ("cut", "cut_if_asked"), "not_cut"


def _lacks(case: Case) -> str | None:
    """What is wrong with what a case says of small batches; None where nothing is."""
    given = [name for name in (*_CUTS, _NOT) if name in case.data]
    most = max(sum(1 for message in step.get("messages", []) if "skip" not in message) for step in case.steps)
    if len(given) > 1:
        return f"{' and '.join(given)}: one of them says it"
    if most > 1 and not given:
        return "`cut_if_asked` has to say how many messages a batch has, or `not_cut` why there are no small ones"
    if _NOT in given:
        if most < 2:
            return "`not_cut` says what is so anyway: no step has several messages"
        return None if isinstance(case.data[_NOT], str) and case.data[_NOT] else "`not_cut` has to be a reason"
    if given:
        return None
    told = [name for one in case.expected for name in one if name.endswith("_cut")]
    told += [name for name in case.data if name.endswith("_cut")]
    return f"{', '.join(sorted({*told}))}: of small batches, in which it does not go" if told else None


@pytest.mark.parametrize("case", _CASES)
def test_a_case_goes_in_small_batches_or_says_why_not(case: Case) -> None:
    """Any cut of a log into batches gives the same mirror; what it then says is held by `tests/spark/test_cases.py`."""
    assert _lacks(case) is None


def test_a_case_that_says_nothing_of_small_batches_is_told() -> None:
    """As a new one is; one that says two things, or of small batches where it goes in none, is as well."""
    one: dict[str, Any] = {"messages": [{}]}
    two: dict[str, Any] = {"messages": [{}, {}]}
    good: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (one, {}),
        ({"messages": [{"skip": 4}, {}]}, {}),
        ({**one, "then": [{}]}, {}),
        ({**two, "cut": 1}, {"quarantine_cut": []}),
        ({**two, "cut_if_asked": 1, "why_differs_cut": "a batch is judged alone"}, {}),
        ({**two, "not_cut": "the first batch would be published"}, {}),
    ]
    bad: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (two, {}),
        ({**one, "then": [two]}, {}),
        ({**two, "cut": 1, "cut_if_asked": 1}, {}),
        ({**two, "cut": 1, "not_cut": "the first batch would be published"}, {}),
        ({**two, "not_cut": ""}, {}),
        ({**two, "not_cut": True}, {}),
        ({**one, "not_cut": "it is one"}, {}),
        (one, {"counts_cut": {}}),
        ({**one, "why_differs_cut": "a batch is judged alone"}, {}),
    ]

    assert [_lacks(Case("a", 1, data, (last,), None)) for data, last in good] == [None] * len(good)
    assert None not in [_lacks(Case("a", 1, data, (last,), None)) for data, last in bad]
