"""Rules about a whole table: how they are read, and when a number that was measured is as they say."""

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.contract import Rule, Scope, load_contract
from cdc_materializer.contract.table_rules import holds, query_of
from tests.unit.contracts import problems_of

if TYPE_CHECKING:
    from tests.unit.contracts import Write


def test_rules_about_the_table_are_read_with_what_they_do(write_contract: "Write") -> None:
    """They block unless the file says that they warn; those about rows stay what they were."""
    path = write_contract("""
    - {name: a, unique: true, physicalType: int}
    - name: b
      physicalType: text
      quality:
        - {metric: nullValues, mustBeLessThan: 5, unit: percent}
        - {metric: nullValues, mustBe: 0, unit: percent}
        - {metric: missingValues, mustBe: 3, arguments: {missingValues: ["", "n/a"]}}
        - name: odd
          type: sql
          query: "SELECT count(*) FROM {object} WHERE {property} = 'x';"
          mustBeBetween: [0, 10]
          customProperties: [{property: action, value: warn}]
    """)
    path.write_text(
        path.read_text(encoding="utf-8")
        + "    quality:\n      - {metric: rowCount, mustBeGreaterThan: 2}\n"
        + "      - {metric: duplicateValues, mustBe: 0, arguments: {properties: [a, b]}}\n",
        encoding="utf-8",
    )

    contract = load_contract(path)
    found = {rule.name: (rule.expectation, rule.action, rule.scope) for rule in contract.rules}

    assert found == {
        "a.unique": ("duplicateValues", "block", Scope.TABLE),
        "b.nullValues": ("nullValues", "block", Scope.TABLE),
        "b.not_null": ("expect_column_values_to_not_be_null", "quarantine", Scope.ROW),
        "b.missingValues": ("missingValues", "block", Scope.TABLE),
        "odd": ("sql", "warn", Scope.TABLE),
        "table.rowCount": ("rowCount", "block", Scope.TABLE),
        "table.duplicateValues": ("duplicateValues", "block", Scope.TABLE),
    }
    assert [rule.name for rule in contract.row_rules] == ["b.not_null"]
    descriptions = {rule.name: rule.description for rule in contract.rules}
    assert descriptions["b.nullValues"] == "nullValues of b must be less than 5 percent."
    odd = next(rule for rule in contract.rules if rule.name == "odd")
    assert query_of(odd, "`v`", "`b`") == "SELECT count(*) FROM `v` WHERE `b` = 'x'"


def _rule(condition: str, value: Any, unit: str = "rows") -> Rule:  # noqa: ANN401 - as a file states it
    kwargs = {"condition": condition, "value": value, "unit": unit}
    return Rule("r", None, "nullValues", kwargs, scope=Scope.TABLE)


@pytest.mark.parametrize(
    ("condition", "value", "passing", "failing"),
    [
        ("mustBe", 3, [3, Decimal("3.0")], [2, 4]),
        ("mustNotBe", 3, [2], [3]),
        ("mustBeGreaterThan", 3, [4], [3]),
        ("mustBeGreaterOrEqualTo", 3, [3], [2]),
        ("mustBeLessThan", Decimal("0.1"), [0.09], [0.1, Decimal("0.1")]),
        ("mustBeLessOrEqualTo", 3, [3], [4]),
        ("mustBeBetween", [1, 3], [1, 3], [0, 4]),
        ("mustNotBeBetween", [1, 3], [0, 4], [1, 3]),
    ],
)
def test_a_condition_takes_what_it_says(condition: str, value: Any, passing: list[Any], failing: list[Any]) -> None:  # noqa: ANN401
    """Compared exactly, as decimals; what is no number passes none."""
    rule = _rule(condition, value)

    assert all(holds(rule, number, 10) for number in passing)
    assert not any(holds(rule, number, 10) for number in [*failing, float("nan"), float("inf")])


@pytest.mark.parametrize(
    ("stated", "limit", "fits", "exceeds"),
    [("2", "2", (2, 2), (3, 1000)), ("5%", "5%", (5, 100), (6, 100)), ("'0.5 %'", "0.5%", (5, 1000), (1, 100))],
)
def test_a_limit_of_held_messages_is_a_number_or_a_share(
    write_contract: "Write", stated: str, limit: str, fits: tuple[int, int], exceeds: tuple[int, int]
) -> None:
    """What lies on the limit passes; another limit is another contract."""
    path = write_contract("- {name: a}")
    before = load_contract(path).fingerprint
    _limited(path, stated)

    contract = load_contract(path)

    assert contract.max_quarantined is not None
    assert str(contract.max_quarantined) == limit
    assert not contract.max_quarantined.is_exceeded(*fits)
    assert contract.max_quarantined.is_exceeded(*exceeds)
    assert contract.fingerprint != before


@pytest.mark.parametrize("stated", ["-1", "1.5", "some", "true", "5000%"])
def test_a_limit_that_is_none_is_refused(write_contract: "Write", stated: str) -> None:
    """A limit that is not understood must not look as if it held."""
    path = write_contract("- {name: a}")
    _limited(path, stated)

    assert ["max_quarantined" in problem.message for problem in problems_of(path)] == [True]


def _limited(path: Path, stated: str) -> None:
    own = f"    customProperties: [{{property: max_quarantined, value: {stated}}}]\n    properties:"
    path.write_text(path.read_text(encoding="utf-8").replace("    properties:", own, 1), encoding="utf-8")


def test_a_percentage_is_of_the_rows_that_there_are() -> None:
    """Of no rows at all it is zero."""
    rule = _rule("mustBeLessThan", 5, "percent")

    assert [holds(rule, nulls, rows) for nulls, rows in ((4, 100), (5, 100), (49, 1000), (0, 0))] == [
        True, False, True, True,
    ]  # fmt: skip
