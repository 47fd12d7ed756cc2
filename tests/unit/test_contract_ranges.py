"""Bounds that a column's type has no value for."""

from pathlib import Path

import pytest

from cdc_materializer.contract import load_contract
from tests.unit.contracts import problems_of, write

_FREE, _LARGE, _SMALL = "so nothing can break the rule", "is as large as the rule asks", "is as small as the rule asks"


@pytest.mark.parametrize(
    ("declared", "options", "told"),
    [
        ("tinyint", "maximum: 300", f"every value of type tinyint lies within the bounds, {_FREE}."),
        ("tinyint", "minimum: 300", f"no value of type tinyint {_LARGE}."),
        ("tinyint", "maximum: 255", None),  # it may be one without a sign
        ("tinyint", "minimum: -1", None),
        ("tinyint", "minimum: 0, maximum: 300", None),  # the minimum says something
        ("tinyint", "minimum: -300, maximum: 300", _FREE),
        ("smallint unsigned", "maximum: 70000", f"every value of type smallint lies within the bounds, {_FREE}."),
        ("integer", "maximum: 2147483647", None),  # what the type says itself
        ("integer", "minimum: -2147483648, maximum: 2147483647", None),
        ("integer", "maximum: 2147483648", f"every value of type int lies within the bounds, {_FREE}."),
        ("integer", "exclusiveMaximum: 2147483648", _FREE),
        ("integer", "exclusiveMinimum: 2147483647", f"no value of type int {_LARGE}."),
        ("integer", "maximum: -2147483649", f"no value of type int {_SMALL}."),
        ("bigint", "minimum: 9223372036854775808", f"no value of type bigint {_LARGE}."),
        ("bigint", 'minimum: "9223372036854775808"', f"no value of type bigint {_LARGE}."),
        ("numeric(5,2)", "maximum: 999.99", None),
        ("numeric(5,2)", "maximum: 1000", f"every value of type decimal(5,2) lies within the bounds, {_FREE}."),
        ("numeric(5,2)", "minimum: 999.991", f"no value of type decimal(5,2) {_LARGE}."),
        ("double", "maximum: 1e300", None),
        ("date", "minimum: 9999-12-31", None),
    ],
)
def test_bounds_that_nothing_can_keep_or_break_are_told(
    tmp_path: Path, declared: str, options: str, told: str | None
) -> None:
    """With their line; a bound that repeats what the type says is none of them."""
    path = write(tmp_path, f'- {{name: n, physicalType: "{declared}", logicalTypeOptions: {{{options}}}}}')

    found = problems_of(path)

    assert [problem.line for problem in found] == ([] if told is None else [10])
    assert told is None or told in found[0].message


def test_the_table_s_own_type_counts_where_it_is_known(tmp_path: Path) -> None:
    """It may be wider than the declared one."""
    path = write(tmp_path, "- {name: n, physicalType: integer, logicalTypeOptions: {maximum: 3000000000}}")

    assert len(problems_of(path)) == 1
    assert problems_of(path, {"id": "bigint", "n": "bigint"}) == []


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [
        ("{min_value: 3000000000}", _LARGE),
        ("{max_value: 3000000000}", _FREE),
        ("{min_value: 3000000000, row_condition: 'id < 0', condition_parser: spark}", None),
    ],
)
def test_a_rule_about_the_largest_value_is_held_to_the_type_as_well(
    tmp_path: Path, kwargs: str, told: str | None
) -> None:
    """A rule for some rows alone may mean that there are none of them."""
    path = write(
        tmp_path,
        f"""
        - name: n
          physicalType: integer
          quality:
            - type: custom
              engine: greatExpectations
              implementation: {{type: expect_column_max_to_be_between, kwargs: {kwargs}}}
        """,
    )

    assert [told in problem.message for problem in problems_of(path) if told] == ([True] if told else [])


def test_a_set_of_which_no_member_is_in_the_range_of_the_type_is_told(tmp_path: Path) -> None:
    """One that is suffices."""
    path = write(tmp_path, "- {name: n, physicalType: tinyint, enum: [{value: 300}, {value: 400}]}")
    (problem,) = problems_of(path)

    assert problem.message == "no member of the set can be a value of type tinyint."
    assert problems_of(write(tmp_path, "- {name: n, physicalType: tinyint, enum: [{value: 300}, {value: 4}]}")) == []


def test_a_run_is_not_refused_for_a_bound_that_says_nothing(tmp_path: Path) -> None:
    """It holds to the rule as it stands."""
    path = write(tmp_path, "- {name: n, physicalType: tinyint, logicalTypeOptions: {maximum: 300}}")

    assert [rule.kwargs["max_value"] for rule in load_contract(path).rules] == [300]
