"""The reference fold and the golden cases say the same."""

import json
from typing import Any

import pytest

from tests.cases.case import Case, cases
from tests.model.golden import Reading, unread_because

_CASES = [case for case in cases() if unread_because(case) is None]


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    plain = [{name: value for name, value in row.items() if name != "__cdc"} for row in rows]
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in plain)


def differences(case: Case) -> list[tuple[list[str], list[str]]]:
    """What the reference finds and what was expected, of each step where it is not the same, cut in any way."""
    found = []
    for cut in (1, 2, None):
        reading = Reading(case)
        for messages, expected in zip(reading.steps(), case.expected, strict=True):
            table = reading.table(messages)
            for at in range(0, len(messages), cut or len(messages)):
                table.take(messages[at : at + (cut or len(messages))])
            rows = _sorted(reading.shown(table)), _sorted(expected["rows"] or [])
            found += [rows] if rows[0] != rows[1] else []
    return found


@pytest.mark.parametrize("case", _CASES, ids=lambda case: f"{case.number:04d}_{case.name}")
def test_the_reference_fold_ends_each_case_as_it_says(case: Case) -> None:
    """So the reference, from which the random histories are judged, reads the specification as the cases do."""
    assert differences(case) == []
