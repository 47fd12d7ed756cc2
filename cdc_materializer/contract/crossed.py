"""Rules about a table that no table can pass with another one's or with those of its rows, by what they speak about.

The least value of a column is at most its mean and its median, and these at most its largest; a row's bounds hold for
all of them. What one set must have, another one must allow. Who is alone, or known, in every row is so in all of them.
An empty table is not meant: what it passes tells nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any

from cdc_materializer.contract.checks import comparable, is_number
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.table_rules import DUPLICATES, NULLS

_BETWEEN, _IN_SET = "expect_column_values_to_be_between", "expect_column_values_to_be_in_set"
_NOT_NULL, _UNIQUE = "expect_column_values_to_not_be_null", "expect_column_values_to_be_unique"
_KNOWN_SHARE = "expect_column_proportion_of_non_null_values_to_be_between"
_UNIQUE_SHARE = "expect_column_proportion_of_unique_values_to_be_between"
_CONTAIN, _EQUAL = "expect_column_distinct_values_to_contain_set", "expect_column_distinct_values_to_equal_set"
_WITHIN = "expect_column_distinct_values_to_be_in_set"
#: What measures speak of, in an order in which each is at most a later one: least value, middle, largest.
_LEAST, _MIDDLE, _MOST = range(3)
_MEASURES: Mapping[str, int] = {
    "expect_column_min_to_be_between": _LEAST,
    "expect_column_mean_to_be_between": _MIDDLE,
    "expect_column_median_to_be_between": _MIDDLE,
    "expect_column_max_to_be_between": _MOST,
}


@dataclass(frozen=True)
class _Bound:
    """What a rule says of a column's values: that one of them, by its place, is at least or at most something."""

    draft: Draft
    place: int
    value: Any
    strict: bool


def crossed_bounds(tables: Sequence[Draft], rows: Sequence[Draft]) -> Iterator[tuple[Draft, Draft]]:
    """Yield pairs of rules, one at least about a measure, of which one begins above the other's end.

    Args:
        tables: unconditional rules about the table.
        rows: those about rows.
    """
    measures = [draft for draft in tables if draft.expectation in _MEASURES]
    every = [*measures, *(draft for draft in rows if draft.expectation in {_BETWEEN, _IN_SET})]
    floors = [bound for draft in every for bound in _bounds(draft, is_floor=True)]
    ceilings = [bound for draft in every for bound in _bounds(draft, is_floor=False)]
    known = set()
    for low, high in product(floors, ceilings):
        pair = frozenset((id(low.draft), id(high.draft)))
        # Two rules about one measure, or about rows, are compared as such; of mean and median neither is the larger.
        is_own = low.draft.expectation == high.draft.expectation or (low.place == high.place == _MIDDLE)
        if (
            low.draft.column != high.draft.column
            or is_own
            or pair in known
            or not _MEASURES.keys()
            & {
                low.draft.expectation,
                high.draft.expectation,
            }
        ):
            continue
        if low.place <= high.place and _is_above(low, high):
            known.add(pair)
            yield low.draft, high.draft


def _bounds(draft: Draft, *, is_floor: bool) -> Iterator[_Bound]:
    kwargs = draft.kwargs
    end = "min" if is_floor else "max"
    if draft.expectation == _IN_SET:
        members = [comparable(member) for member in kwargs["value_set"] if is_number(member)]
        if members and len(members) == sum(member is not None for member in kwargs["value_set"]):
            value = min(members) if is_floor else max(members)
            yield _Bound(draft, _LEAST if is_floor else _MOST, value, strict=False)
    elif kwargs.get(f"{end}_value") is not None:
        place = _MEASURES.get(draft.expectation, _LEAST if is_floor else _MOST)
        yield _Bound(draft, place, comparable(kwargs[f"{end}_value"]), bool(kwargs.get(f"strict_{end}")))


def _is_above(low: _Bound, high: _Bound) -> bool:
    if isinstance(low.value, Decimal) != isinstance(high.value, Decimal):
        return False
    return bool(low.value > high.value or (low.value == high.value and (low.strict or high.strict)))


def crossed_sets(tables: Sequence[Draft], rows: Sequence[Draft]) -> Iterator[tuple[Draft, Draft]]:
    """Yield rules of which one demands values of a column that the other one does not allow."""
    allowing = [draft for draft in tables if draft.expectation in {_WITHIN, _EQUAL}]
    allowing += [draft for draft in rows if draft.expectation == _IN_SET]
    known = set()
    for allowed, needed in product(allowing, [draft for draft in tables if draft.expectation in {_CONTAIN, _EQUAL}]):
        pair = frozenset((id(allowed), id(needed)))
        if allowed.column == needed.column and pair not in known and _members(needed) - _members(allowed):
            known.add(pair)
            yield allowed, needed


def _members(draft: Draft) -> set[object]:
    return {comparable(value) for value in draft.kwargs["value_set"] if value is not None}


def crossed_shares(tables: Sequence[Draft], rows: Sequence[Draft]) -> Iterator[tuple[Draft, Draft]]:
    """Yield rules of which one demands something of every row, and the other one that it is not so in all of them."""
    whole = [(draft.column, _KNOWN_SHARE, draft) for draft in rows if draft.expectation == _NOT_NULL]
    for draft in tables:
        if draft.expectation == _UNIQUE and draft.kwargs.get("mostly", 1) == 1:
            whole.append((draft.column, _UNIQUE_SHARE, draft))
        columns = draft.kwargs.get("columns", [])
        if draft.expectation in {DUPLICATES, NULLS} and len(columns) == 1 and _is_none(draft.kwargs):
            share = _UNIQUE_SHARE if draft.expectation == DUPLICATES else _KNOWN_SHARE
            whole.append((columns[0], share, draft))
    for (column, share, draft), other in product(whole, tables):
        high = other.kwargs.get("max_value")
        is_less = is_number(high) and (high < 1 or (high == 1 and bool(other.kwargs.get("strict_max"))))
        if other.expectation == share and other.column == column and is_less:
            yield draft, other


def _is_none(kwargs: Mapping[str, Any]) -> bool:
    return kwargs.get("condition") == "mustBe" and kwargs.get("value") == 0
