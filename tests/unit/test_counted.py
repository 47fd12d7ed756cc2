"""Numbers that were measured of a table, and the bounds that rules have for them."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from cdc_materializer.contract.counted import is_between
from cdc_materializer.errors import TableRuleBroken

_D = Decimal


@pytest.mark.parametrize(
    ("found", "kwargs", "within"),
    [
        (5, {"min_value": 5, "max_value": 5}, True),
        (5, {"min_value": 5, "strict_min": True}, False),
        (5, {"max_value": 5, "strict_max": True}, False),
        (5, {"value": 5}, True),
        (5, {"value": 6}, False),
        (2**53 + 1, {"max_value": 2**53}, False),
        (_D("0.1"), {"min_value": _D("0.1"), "max_value": _D("0.1")}, True),
        (_D("0.1"), {"min_value": _D("0.10000000000000000001")}, False),
        (Fraction(1, 3), {"max_value": _D("0.3333333333333333")}, False),
        (0.1, {"min_value": _D("0.1"), "max_value": _D("0.1")}, True),
        (math.nan, {"max_value": 5}, False),
        (math.inf, {"min_value": 5}, True),
        (math.inf, {"max_value": 5}, False),
    ],
)
def test_a_number_is_compared_as_it_is(found: Any, kwargs: dict[str, Any], within: bool) -> None:  # noqa: ANN401, FBT001
    """Whole numbers, decimals and fractions exactly; a float with the double that people mean; NaN never is."""
    assert is_between(found, kwargs) == within


def test_a_table_that_stops_says_which_rules_are_broken_and_which_cannot_be_judged() -> None:
    """Both in one sentence, and both by name for what notes them."""
    stop = TableRuleBroken("shop.orders", ("mean", "rows"), {"refs": "TABLE_OR_VIEW_NOT_FOUND"})

    assert (stop.rules, stop.unjudged) == (("mean", "rows"), ("refs",))
    assert "mean, rows would not hold for the whole table; refs cannot be judged (TABLE_OR_VIEW_NOT_FOUND)" in str(stop)
