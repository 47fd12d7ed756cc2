"""Each golden case tells what becomes of every message, or why nobody can (`tests/cases/README.md`)."""

from typing import Any, get_args

import pytest

from cdc_materializer.report.row_models import Became
from tests.cases.case import Case, cases

_CASES = [pytest.param(case, id=f"{case.number:04d}_{case.name}") for case in cases()]


def _lacks(case: Case) -> str | None:
    """What is wrong with the story of a case; None where nothing is."""
    last = case.expected[-1]
    story: list[dict[str, Any]] | None = last.get("why")
    if last["rows"] is None or "why_stops" in case.data:
        return None if story is None else "`cdcm why` tells nothing where there is no mirror, or where it stops"
    if story is None:
        return "`why` has to stand in the last document of expected.yaml, of every message that the mirror has read"
    places = [(one.get("partition", 0), one["offset"]) for one in story]
    if len({*places}) < len(places):
        return "a message has one outcome"
    return None if {one["outcome"] for one in story} <= {*get_args(Became)} - {"waiting"} else "no such outcome"


@pytest.mark.parametrize("case", _CASES)
def test_a_case_has_its_story(case: Case) -> None:
    """Of every message, in the last document of expected.yaml; what it says is held by `tests/spark/test_cases.py`."""
    assert _lacks(case) is None


def test_a_case_without_its_story_is_told() -> None:
    """As a new one is; one that has a message twice, or another's outcome, is as well."""
    rows = {"rows": [{"id": 1}]}
    told = {"offset": 0, "outcome": "upserted"}
    good: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, {"rows": None}),
        ({"why_stops": "it has both names of a column"}, rows),
        ({}, {**rows, "why": [told, {**told, "partition": 1}]}),
        ({}, {**rows, "why": []}),
    ]
    bad: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({}, rows),
        ({}, {"rows": None, "why": []}),
        ({}, {**rows, "why": [told, {**told, "partition": 0}]}),
        ({}, {**rows, "why": [{**told, "outcome": "waiting"}]}),
    ]

    assert [_lacks(Case("a", 1, data, (last,), None)) for data, last in good] == [None] * len(good)
    assert None not in [_lacks(Case("a", 1, data, (last,), None)) for data, last in bad]
