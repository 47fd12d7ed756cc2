"""Each rule of the specification has a golden case that holds it, or a test where no case can."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases.case import FOLDER, cases
from tests.cases.types import columns

_ROOT = Path(__file__).parents[2]
_RULES: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load((FOLDER / "coverage.yaml").read_text(encoding="utf-8"))
_ROWS = [(f"{section}: {rule}", row) for section, rules in _RULES.items() for rule, row in rules.items()]
_TYPES = {column.name for column in columns()}
_KNOWN = {case.number for case in cases()}


def test_every_type_is_that_of_a_rule() -> None:
    """`types.yaml` has none that no row of the specification asks for."""
    assert {name for _, row in _ROWS for name in row.get("types", [])} == _TYPES


@pytest.mark.parametrize(("rule", "row"), _ROWS, ids=[rule for rule, _ in _ROWS])
def test_a_rule_is_held_by_something(rule: str, row: dict[str, Any]) -> None:
    """By cases that exist, or by a file of tests; or it says why no message can come to it."""
    assert row.keys() <= {"cases", "types", "elsewhere", "refused"}
    assert any(row.values()), rule
    assert set(row.get("cases", [])) <= _KNOWN, rule
    assert set(row.get("types", [])) <= _TYPES, rule
    assert all((_ROOT / place).is_file() for place in row.get("elsewhere", []))
