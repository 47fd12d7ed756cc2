"""What a rule without a description is told as, with the contract's own bounds, sets and patterns."""

from decimal import Decimal
from typing import Any

import pytest

from cdc_materializer.contract.expectations import ROW
from cdc_materializer.contract.model import Rule
from cdc_materializer.contract.table_expectations import TABLE
from cdc_materializer.contract.wording import in_words

_VALUES = "expect_column_values_to_"


def _said(expectation: str, **kwargs: Any) -> str:  # noqa: ANN401 - the expectation's own
    return in_words(Rule("rule", "price", expectation, kwargs))


@pytest.mark.parametrize(
    ("kwargs", "bounds"),
    [
        ({"min_value": 0, "max_value": Decimal("100.50")}, "between 0 and 100.5"),
        ({"min_value": 0, "strict_min": True, "max_value": 9}, "more than 0 and at most 9"),
        ({"min_value": Decimal("1E+3")}, "at least 1000"),
        ({"max_value": "2026-11-21", "strict_max": True}, "less than 2026-11-21"),
        ({"max_value": 5, "mostly": Decimal("0.95")}, "at most 5, in at least 95 % of the rows"),
        ({"min_value": 1, "row_condition": "amount >= 10.00"}, "at least 1, where amount >= 10.00"),
        ({}, "between"),
    ],
)
def test_bounds_are_told_and_which_of_them_are_left_out(kwargs: dict[str, Any], bounds: str) -> None:
    """One of them, or both; with the rows that the rule speaks of."""
    assert _said(f"{_VALUES}be_between", **kwargs) == f"Expects column values to be {bounds}."


@pytest.mark.parametrize(
    ("said", "expectation", "kwargs"),
    [
        ('column values to be one of new, paid, "on hold", 7', f"{_VALUES}be_in_set",
         {"value_set": ["new", "paid", "on hold", 7]}),
        ('column values to be none of "", n/a, "-", true', f"{_VALUES}not_be_in_set",
         {"value_set": ["", "n/a", "-", True]}),
        ("column values to be one of " + ", ".join(map(str, range(12))) + " and 3 more", f"{_VALUES}be_in_set",
         {"value_set": list(range(15))}),
        ('column values to match "^[A-Z]{2}$"', f"{_VALUES}match_regex", {"regex": "^[A-Z]{2}$"}),
        ('column values to not match "^x"', f"{_VALUES}not_match_regex", {"regex": "^x"}),
        ('column values to match all of "^a", "b$"', f"{_VALUES}match_regex_list",
         {"regex_list": ["^a", "b$"], "match_on": "all"}),
        ('column values to match none of "^a"', f"{_VALUES}not_match_regex_list", {"regex_list": ["^a"]}),
        ("column value lengths to equal 3", "expect_column_value_lengths_to_equal", {"value": 3}),
        ("paid to be at least made", "expect_column_pair_values_a_to_be_greater_than_b",
         {"column_A": "paid", "column_B": "made", "or_equal": True}),
        ("paid and made to be one of (1, 2), (3, NULL)", "expect_column_pair_values_to_be_in_set",
         {"column_A": "paid", "column_B": "made", "value_pairs_set": [[1, 2], [3, None]]}),
        ("the sum of a, b to equal 10", "expect_multicolumn_sum_to_equal",
         {"column_list": ["a", "b"], "sum_total": 10}),
        ("a, b to be unique", "expect_compound_columns_to_be_unique", {"column_list": ["a", "b"]}),
        ("column distinct values to contain all of a", "expect_column_distinct_values_to_contain_set",
         {"value_set": ["a"]}),
        ("table columns to be, in this order, a, b", "expect_table_columns_to_match_ordered_list",
         {"column_list": ["a", "b"]}),
        ("table row count to equal 7", "expect_table_row_count_to_equal", {"value": 7}),
        ("column values to not be null", f"{_VALUES}not_be_null", {}),
    ],
)  # fmt: skip
def test_a_rule_is_told_with_its_arguments(said: str, expectation: str, kwargs: dict[str, Any]) -> None:
    """Sets, patterns, lengths and the columns that it names; a long list by its first members."""
    assert _said(expectation, **kwargs) == f"Expects {said}."


def test_every_expectation_is_a_sentence_without_arguments_too() -> None:
    """Whatever the contract leaves out, nothing fails and no name of GX's is in it."""
    said = [_said(expectation) for expectation in (*ROW, *TABLE)]

    assert [one for one in said if "_" in one or not one.endswith(".")] == []


def test_a_long_pattern_is_cut() -> None:
    """A sentence that nobody reads to its end says nothing."""
    assert _said(f"{_VALUES}match_regex", regex="x y" * 100) == f'Expects column values to match "{"x y" * 40}…".'
