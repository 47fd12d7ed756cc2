"""Rules about a table that no table can pass with another one's or with those of its rows, by what they speak about.

The least value of a column is at most its mean and its median, and these at most its largest; a row's bounds hold for
all of them. What one set must have, another one must allow. A value that each row must have is missing in no share of
them. An empty table is not meant: what it passes tells nothing. Only numbers as the file writes them are compared, for
columns of whole numbers and decimals, and texts for those of texts: a date, say, can be written in several ways.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

from cdc_materializer.contract.checks import comparable
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.literals import is_number
from cdc_materializer.contract.table_rules import NULLS, reach
from cdc_materializer.contract.types import Family, family

_BETWEEN, _IN_SET = "expect_column_values_to_be_between", "expect_column_values_to_be_in_set"
_NOT_NULL = "expect_column_values_to_not_be_null"
_KNOWN_SHARE = "expect_column_proportion_of_non_null_values_to_be_between"
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
    value: Decimal
    strict: bool


def crossed_bounds(
    tables: Sequence[Draft], rows: Sequence[Draft], types: Mapping[str, str | None]
) -> Iterator[tuple[Draft, Draft]]:
    """Yield pairs of rules, one at least about a measure, of which one begins above the other's end.

    Args:
        tables: unconditional rules about the table.
        rows: those about rows.
        types: the columns' types.
    """
    measures = [draft for draft in tables if draft.expectation in _MEASURES]
    every = [*measures, *(draft for draft in rows if draft.expectation in {_BETWEEN, _IN_SET})]
    every = [draft for draft in every if _is_exact(types.get(draft.column or ""))]
    floors = [bound for draft in every for bound in _bounds(draft, is_floor=True)]
    ceilings = [bound for draft in every for bound in _bounds(draft, is_floor=False)]
    known = set()
    for low, high in product(floors, ceilings):
        kinds, pair = {low.draft.expectation, high.draft.expectation}, frozenset((id(low.draft), id(high.draft)))
        # Two rules about one measure, or about rows, are compared as such; of mean and median neither is the larger.
        is_own = len(kinds) == 1 or not kinds & _MEASURES.keys() or low.place == high.place == _MIDDLE
        if low.draft.column != high.draft.column or is_own or pair in known:
            continue
        if low.place <= high.place and _is_above(low, high):
            known.add(pair)
            yield low.draft, high.draft


def _is_exact(ddl: str | None) -> bool:
    return ddl is not None and family(ddl) is Family.NUMBER and ddl not in {"float", "double"}


def _bounds(draft: Draft, *, is_floor: bool) -> Iterator[_Bound]:
    kwargs = draft.kwargs
    end = "min" if is_floor else "max"
    if draft.expectation == _IN_SET:
        known = [member for member in kwargs["value_set"] if member is not None]
        members = [comparable(member) for member in known if is_number(member)]
        if members and len(members) == len(known):
            value = min(members) if is_floor else max(members)
            yield _Bound(draft, _LEAST if is_floor else _MOST, value, strict=False)
    elif is_number(kwargs.get(f"{end}_value")):
        place = _MEASURES.get(draft.expectation, _LEAST if is_floor else _MOST)
        yield _Bound(draft, place, comparable(kwargs[f"{end}_value"]), bool(kwargs.get(f"strict_{end}")))


def _is_above(low: _Bound, high: _Bound) -> bool:
    return bool(low.value > high.value or (low.value == high.value and (low.strict or high.strict)))


def crossed_sets(
    tables: Sequence[Draft], rows: Sequence[Draft], types: Mapping[str, str | None]
) -> Iterator[tuple[Draft, Draft]]:
    """Yield rules of which one demands values of a column that the other one does not allow; see `crossed_bounds`."""
    allowing = [draft for draft in tables if draft.expectation in {_WITHIN, _EQUAL}]
    allowing += [draft for draft in rows if draft.expectation == _IN_SET]
    known = set()
    for allowed, needed in product(allowing, [draft for draft in tables if draft.expectation in {_CONTAIN, _EQUAL}]):
        pair = frozenset((id(allowed), id(needed)))
        ddl = types.get(needed.column or "")
        members = [_members(draft, ddl) for draft in (needed, allowed)]
        if allowed.column != needed.column or pair in known or None in members:
            continue
        if (members[0] or set()) - (members[1] or set()):
            known.add(pair)
            yield allowed, needed


def _members(draft: Draft, ddl: str | None) -> set[object] | None:
    """The members of a set; None where they may be written otherwise than another set's."""
    known = [value for value in draft.kwargs["value_set"] if value is not None]
    fits = is_number if _is_exact(ddl) else (lambda value: isinstance(value, str)) if ddl == "string" else None
    return {comparable(value) for value in known} if fits is not None and all(map(fits, known)) else None


def crossed_shares(tables: Sequence[Draft], rows: Sequence[Draft]) -> Iterator[tuple[Draft, Draft]]:
    """Yield rules of which one demands a value in every row, and the other one that there is none in some."""
    known = [(draft.column, draft) for draft in rows if draft.expectation == _NOT_NULL]
    for draft in tables:
        columns = draft.kwargs.get("columns", [])
        if draft.expectation == NULLS and len(columns) == 1 and reach(draft.kwargs)[1] == (Decimal(0), True):
            known.append((columns[0], draft))
    for (column, draft), other in product(known, tables):
        high = other.kwargs.get("max_value")
        is_less = is_number(high) and (high < 1 or (high == 1 and bool(other.kwargs.get("strict_max"))))
        if other.expectation == _KNOWN_SHARE and other.column == column and is_less:
            yield draft, other
