"""Rules of a contract that cannot all be kept: what `contract lint` tells of them, and what it leaves alone."""

from typing import TYPE_CHECKING

import pytest

from cdc_materializer.contract import load_contract
from cdc_materializer.errors import ContractInvalid
from tests.unit.contracts import problems_of

if TYPE_CHECKING:
    from tests.unit.contracts import Write


_ROW_RULE = "{{type: custom, engine: greatExpectations, implementation: {{type: expect_column_{0}}}}}"


def _two_rules(write_contract: "Write", one: str, other: str, physical: str = "int") -> list[str]:
    """What is said of a column `n` with two expectations, each as `name, kwargs: {…}`."""
    rules = [_ROW_RULE.format(rule) for rule in (one, other)]
    return [
        problem.message
        for problem in problems_of(
            write_contract(f"""
    - name: n
      physicalType: {physical}
      quality:
        - {rules[0]}
        - {rules[1]}
    """)
        )
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("max_to_be_between, kwargs: {max_value: 5}", "min_to_be_between, kwargs: {min_value: 10}"),
        ("values_to_be_between, kwargs: {max_value: 5}", "mean_to_be_between, kwargs: {min_value: 10}"),
        ("values_to_be_between, kwargs: {min_value: 50}", "max_to_be_between, kwargs: {max_value: 10}"),
        ("values_to_be_in_set, kwargs: {value_set: [1, 2]}", "median_to_be_between, kwargs: {min_value: 3}"),
        (
            "values_to_be_between, kwargs: {max_value: 5, strict_max: true}",
            "max_to_be_between, kwargs: {min_value: 5}",
        ),
        (
            "distinct_values_to_equal_set, kwargs: {value_set: [1]}",
            "distinct_values_to_equal_set, kwargs: {value_set: [2]}",
        ),
        (
            "values_to_be_in_set, kwargs: {value_set: [1]}",
            "distinct_values_to_contain_set, kwargs: {value_set: [1, 2]}",
        ),
        (
            "distinct_values_to_be_in_set, kwargs: {value_set: [1]}",
            "distinct_values_to_equal_set, kwargs: {value_set: [1, 2]}",
        ),
        ("values_to_not_be_null", "proportion_of_non_null_values_to_be_between, kwargs: {max_value: 0.5}"),
    ],
)
def test_rules_that_no_table_can_pass_together_are_a_problem(write_contract: "Write", one: str, other: str) -> None:
    """What one says of all rows, or of their least or largest value, is held against what another says of the table."""
    expected = ["no table can pass this rule and the one of line 13 together."]

    assert _two_rules(write_contract, one, other) == expected
    assert _two_rules(write_contract, other, one) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("max_to_be_between, kwargs: {min_value: 10}", "min_to_be_between, kwargs: {max_value: 5}"),
        ("values_to_be_between, kwargs: {max_value: 10}", "mean_to_be_between, kwargs: {min_value: 10}"),
        ("mean_to_be_between, kwargs: {min_value: 10}", "median_to_be_between, kwargs: {max_value: 5}"),
        ("values_to_be_in_set, kwargs: {value_set: [1, 2]}", "mean_to_be_between, kwargs: {max_value: 1}"),
        (
            "values_to_be_in_set, kwargs: {value_set: [1, 2]}",
            "distinct_values_to_contain_set, kwargs: {value_set: [2]}",
        ),
        ("values_to_be_unique", "proportion_of_unique_values_to_be_between, kwargs: {max_value: 0.5}"),
        # The number that a text stands for is not told by how it is written.
        ("values_to_be_between, kwargs: {min_value: '9'}", "max_to_be_between, kwargs: {max_value: '10'}"),
        (
            "values_to_be_in_set, kwargs: {value_set: [1, 2]}",
            "distinct_values_to_contain_set, kwargs: {value_set: ['1']}",
        ),
        ("values_to_not_be_null", "proportion_of_non_null_values_to_be_between, kwargs: {max_value: 1}"),
    ],
)
def test_rules_that_some_table_can_pass_together_are_none(write_contract: "Write", one: str, other: str) -> None:
    """A largest value may be far above the least one, and a mean on either side of the median."""
    assert _two_rules(write_contract, one, other) == []


@pytest.mark.parametrize(
    ("physical", "one", "other"),
    [
        (
            "timestamp",
            "values_to_be_between, kwargs: {min_value: '2026-01-01T00:00:00'}",
            "max_to_be_between, kwargs: {max_value: '2026-01-01 12:00:00'}",
        ),
        (
            "date",
            "values_to_be_between, kwargs: {min_value: '20260101'}",
            "max_to_be_between, kwargs: {max_value: '2026-06-01'}",
        ),
        (
            "double",
            "values_to_be_between, kwargs: {min_value: 0.30000000000000001}",
            "max_to_be_between, kwargs: {max_value: 0.3}",
        ),
        (
            "date",
            "values_to_be_in_set, kwargs: {value_set: [2026-01-01]}",
            "distinct_values_to_contain_set, kwargs: {value_set: ['20260101']}",
        ),
    ],
)
def test_what_can_be_written_in_several_ways_is_not_compared(
    write_contract: "Write", physical: str, one: str, other: str
) -> None:
    """Times, dates, and numbers that are rounded: whether two of them are one, their texts do not say."""
    assert _two_rules(write_contract, one, other, physical) == []


@pytest.mark.parametrize(
    "own",
    ["{property: shadow, value: true}", "{property: action, value: warn}"],
)
def test_a_rule_that_holds_no_row_bounds_no_table(write_contract: "Write", own: str) -> None:
    """What breaks one that only warns, or is only tried, is in the table all the same."""
    rule = _ROW_RULE.format("values_to_be_between, kwargs: {max_value: 5}").removesuffix("}")
    path = write_contract(f"""
    - name: n
      physicalType: int
      quality:
        - {rule}, customProperties: [{own}]}}
        - {_ROW_RULE.format("max_to_be_between, kwargs: {min_value: 10}")}
    """)

    assert problems_of(path) == []


def test_what_a_mask_hides_is_not_compared_with_what_the_table_has(write_contract: "Write") -> None:
    """Rules about rows see the value before its mask, rules about the table what is stored."""
    path = write_contract(f"""
    - name: n
      physicalType: text
      customProperties: [{{property: mask, value: redact}}]
      quality:
        - {_ROW_RULE.format("values_to_be_in_set, kwargs: {value_set: [a, b]}")}
        - {_ROW_RULE.format("distinct_values_to_equal_set, kwargs: {value_set: ['***']}")}
    """)

    assert problems_of(path) == []


def test_no_run_is_refused_for_what_only_the_check_tells(write_contract: "Write") -> None:
    """A contract that was followed until now still is."""
    path = write_contract(f"""
    - name: n
      physicalType: int
      quality:
        - {_ROW_RULE.format("values_to_be_between, kwargs: {max_value: 5}")}
        - {_ROW_RULE.format("mean_to_be_between, kwargs: {min_value: 10}")}
    """)

    assert problems_of(path)
    assert load_contract(path).rules


@pytest.mark.parametrize(
    ("metric", "few", "many", "is_told"),
    [
        ("nullValues", "mustBeLessThan: 1", "mustBeGreaterThan: 3, unit: percent", True),
        ("duplicateValues", "mustBe: 0", "mustBeGreaterThan: 3, unit: percent", True),
        ("nullValues", "mustBe: 0, unit: percent", "mustBeGreaterThan: 3", True),
        ("nullValues", "mustBeLessOrEqualTo: 0", "mustBeGreaterThan: 3, unit: percent", True),
        ("nullValues", "mustBeLessThan: 2", "mustBeGreaterThan: 3, unit: percent", False),
        ("nullValues", "mustBeLessThan: 1, unit: percent", "mustBeGreaterThan: 3", False),
    ],
)
def test_none_is_none_in_rows_and_in_percent(
    write_contract: "Write", metric: str, few: str, many: str, *, is_told: bool
) -> None:
    """Of a metric that must be none, no share can be demanded; how many rows are how much is not known."""
    path = write_contract(
        f"""
    - name: n
      physicalType: int
      quality:
        - {{type: library, metric: {metric}, {few}}}
        - {{type: library, metric: {metric}, {many}}}
    """.replace("action: block, ", "")
    )

    found = [problem.message for problem in problems_of(path)]

    assert found == ["no table can pass this rule and the one of line 13 together."] * is_told


@pytest.mark.parametrize(
    ("last", "is_told"),
    [("column_A: c, column_B: a", True), ("column_A: c, column_B: a, ignore_row_if: either_value_is_missing", False)],
)
def test_columns_that_are_larger_in_a_circle_are_a_problem(
    write_contract: "Write", last: str, *, is_told: bool
) -> None:
    """Each of three is to be larger than the next, and the last than the first; told once."""
    pair = (
        "{{type: custom, engine: greatExpectations, "
        "implementation: {{type: expect_column_pair_values_a_to_be_greater_than_b, kwargs: {{{0}}}}}}}"
    )
    rules = [pair.format(columns) for columns in ("column_A: a, column_B: b", "column_A: b, column_B: c", last)]
    path = write_contract(f"""
    - {{name: a, physicalType: int}}
    - {{name: b, physicalType: int}}
    - name: c
      physicalType: int
      quality:
        - {rules[0]}
        - {rules[1]}
        - {rules[2]}
    """)

    found = [problem.message for problem in problems_of(path)]

    message = "no row with all these values can pass this rule and those of lines 15 and 16 together."
    assert found == [message] * is_told


@pytest.mark.parametrize(
    ("extra", "is_refused", "is_told"),
    [
        ("", True, True),
        (", customProperties: [{property: action, value: warn}]", False, True),
        (", customProperties: [{property: shadow, value: true}]", False, False),
    ],
)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            _ROW_RULE.format("values_to_be_between, kwargs: {max_value: 5}"),
            _ROW_RULE.format("values_to_be_between, kwargs: {min_value: 10}"),
        ),
        ("{metric: duplicateValues, mustBe: 0}", "{metric: duplicateValues, mustBeGreaterThan: 5}"),
    ],
)
def test_no_run_is_refused_for_a_rule_that_enforces_nothing(
    write_contract: "Write", one: str, other: str, extra: str, *, is_refused: bool, is_told: bool
) -> None:
    """One that warns is told by the check alone, and one that is only tried may ask for something else."""
    path = write_contract(f"""
    - name: n
      physicalType: int
      quality:
        - {one}
        - {other.removesuffix("}")}{extra}}}
    """)

    assert bool(problems_of(path)) == is_told
    if is_refused:
        with pytest.raises(ContractInvalid, match="can pass this rule and the one of line 13 together"):
            load_contract(path)
    else:
        assert load_contract(path).rules


@pytest.mark.parametrize("extra", ["{property: action, value: warn}", "{property: shadow, value: true}"])
def test_a_column_may_have_nulls_where_a_rule_against_them_holds_no_row(write_contract: "Write", extra: str) -> None:
    """Then they are in the table, and another rule may ask for some."""
    path = write_contract(f"""
    - name: n
      physicalType: int
      quality:
        - {{metric: nullValues, mustBe: 0, customProperties: [{extra}]}}
        - {{metric: nullValues, mustBeGreaterThan: 5}}
    """)

    assert problems_of(path) == []
    assert load_contract(path).rules
