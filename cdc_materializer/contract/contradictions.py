"""Rules that cannot all be kept: what one of them lets through, another one refuses.

Told only where it is certain. Rules for some rows alone (`row_condition`) say nothing of the others and are left out.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import combinations, permutations, product

from cdc_materializer.contract.checks import comparable, lengths_of
from cdc_materializer.contract.crossed import crossed_bounds, crossed_sets, crossed_shares
from cdc_materializer.contract.document import Findings
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.literals import exactly, is_number
from cdc_materializer.contract.model import Action
from cdc_materializer.contract.table_expectations import TABLE
from cdc_materializer.contract.table_rules import DUPLICATES, INVALID, MISSING, NULLS, PERCENT, ROW_COUNT, reach

_NOT_NULL, _NULL = "expect_column_values_to_not_be_null", "expect_column_values_to_be_null"
_IN_SET, _NOT_IN_SET = "expect_column_values_to_be_in_set", "expect_column_values_to_not_be_in_set"
_BETWEEN = "expect_column_values_to_be_between"
_LENGTHS, _LENGTH = "expect_column_value_lengths_to_be_between", "expect_column_value_lengths_to_equal"
_GREATER, _EQUAL = "expect_column_pair_values_a_to_be_greater_than_b", "expect_column_pair_values_to_be_equal"
_ROWS_BETWEEN, _ROWS = "expect_table_row_count_to_be_between", "expect_table_row_count_to_equal"
_MATCH, _NO_MATCH = "expect_column_values_to_match_regex", "expect_column_values_to_not_match_regex"
_EITHER_MISSING = "either_value_is_missing"
#: A circle of columns has so many rules besides the one that begins it; of fewer it is a pair.
_SHORTEST = 2
#: Metrics that count rows, of which there are none below zero.
_COUNTS = frozenset({ROW_COUNT, DUPLICATES, NULLS, MISSING, INVALID})
_ALL_PERCENT = 100
#: What Java's patterns have and Python's have not, or the other way round: whether a text matches is not told by it.
_OTHER_SYNTAX = re.compile(r"\\[pPzZGXRhHvVQENx]|\(\?|\[[^]]*\[|&&|[*+?}]\+|\$")


def check_rows_together(
    drafts: Sequence[Draft],
    types: Mapping[str, str | None],
    keys: Collection[str],
    findings: Findings,
    *,
    lints: bool,
) -> None:
    """Note unconditional rules of one column that no row can pass together.

    Args:
        drafts: rules about rows, each well-formed.
        types: the columns' types, as the rules see them.
        keys: the columns of the primary key, which are never NULL.
        findings: where problems go.
        lints: whether rules that only warn are compared too; no run is refused for them.
    """
    whole = [draft for draft in drafts if not draft.kwargs.get("row_condition")]
    for draft in whole:
        if draft.expectation == _NULL and draft.column in keys:
            message = f"no row can pass: {draft.column} is of the primary key, which is never NULL."
            findings.add(draft.place, message, "Remove the rule.")
    whole = _kept(whole, lints=lints)
    plain = [draft for draft in whole if draft.column]
    for column in dict.fromkeys(draft.column for draft in plain):
        own: dict[str, list[Draft]] = {}
        for draft in plain:
            if draft.column == column:
                own.setdefault(draft.expectation, []).append(draft)
        for one, other in (*_pairs(own, types.get(column or "")), *_apart(own)):
            _contradict(other, one, findings)
    for one, other in combinations(whole, 2):
        if _are_crossed(one, other):
            _contradict(other, one, findings, "row with both values")


def _kept(drafts: Sequence[Draft], *, lints: bool) -> list[Draft]:
    """Those of some rules that are to be kept together: one that is only tried may well ask for something else."""
    return [draft for draft in drafts if not draft.shadow and (lints or draft.action is not Action.WARN)]


def check_further(
    tables: Sequence[Draft], rows: Sequence[Draft], types: Mapping[str, str | None], findings: Findings
) -> None:
    """Note what else cannot be kept together: rules of different kinds, which no run is refused for.

    Args:
        tables: rules about the table, each well-formed.
        rows: those about rows.
        types: the types of the columns in which a table has what its rules about rows see: those without a mask.
        findings: where problems go.
    """
    tables = [draft for draft in tables if not draft.kwargs.get("row_condition") and not draft.shadow]
    # What breaks a rule that only warns is in the table.
    rows = [draft for draft in rows if not draft.kwargs.get("row_condition") and not draft.shadow]
    rows = [draft for draft in rows if draft.action is not Action.WARN]
    _check_circles(rows, findings)
    metrics = [_Metric.of(draft) for draft in tables if draft.expectation in _COUNTS]
    for pair in (*crossed_bounds(tables, rows, types), *crossed_sets(tables, rows, types), *_units(metrics),
                 *crossed_shares(tables, rows)):  # fmt: skip
        last, first = sorted(pair, key=lambda draft: -(findings.line(draft.place) or 0))
        _contradict(last, first, findings, "table")


def _check_circles(drafts: Sequence[Draft], findings: Findings) -> None:
    """Note columns each of which would have to be larger than the next, and the last than the first."""
    edges: dict[object, list[tuple[object, Draft]]] = {}
    pairs = [draft for draft in drafts if draft.expectation in {_GREATER, _EQUAL}]
    pairs = [draft for draft in pairs if draft.kwargs.get("ignore_row_if") != _EITHER_MISSING]
    for draft in pairs:
        larger, smaller = draft.kwargs.get("column_A"), draft.kwargs.get("column_B")
        edges.setdefault(larger, []).append((smaller, draft))
        if draft.expectation == _EQUAL:
            edges.setdefault(smaller, []).append((larger, draft))
    known: set[frozenset[int]] = set()
    for draft in pairs:
        if draft.expectation == _EQUAL or draft.kwargs.get("or_equal"):
            continue
        around = _way(edges, draft.kwargs.get("column_B"), draft.kwargs.get("column_A"))
        circle = sorted(
            {id(one): one for one in (draft, *around)}.values(), key=lambda one: findings.line(one.place) or 0
        )
        # Those of two rules are told as such; and each is met once for every rule in it.
        if len(around) < _SHORTEST or (met := frozenset(map(id, circle))) in known:
            continue
        known.add(met)
        *others, last = circle
        lines = " and ".join(str(findings.line(one.place)) for one in others)
        message = f"no row with all these values can pass this rule and those of lines {lines} together."
        findings.add(last.place, message, "Mend or remove one of them.")


def _way(edges: Mapping[object, list[tuple[object, Draft]]], start: object, end: object) -> list[Draft]:
    """The rules by which one column is at least as large as another, fewest first; none where they do not say so."""
    ways: dict[object, list[Draft]] = {start: []}
    waiting = [start]
    for column in waiting:
        for smaller, draft in edges.get(column, []):
            if smaller not in ways:
                ways[smaller] = [*ways[column], draft]
                waiting.append(smaller)
    return ways.get(end, [])


def _are_crossed(one: Draft, other: Draft) -> bool:
    """Whether of two columns each would have to be the larger one, or one of them larger and both equal."""
    if {one.expectation, other.expectation} - {_GREATER, _EQUAL}:
        return False
    if any(draft.kwargs.get("ignore_row_if") == _EITHER_MISSING for draft in (one, other)):
        return False  # together these say that one of the two is NULL
    (a, b), (c, d) = ((draft.kwargs.get("column_A"), draft.kwargs.get("column_B")) for draft in (one, other))
    strict = [draft.expectation == _GREATER and not draft.kwargs.get("or_equal") for draft in (one, other)]
    if _EQUAL in {one.expectation, other.expectation}:
        return any(strict) and {a, b} == {c, d}
    return any(strict) and (a, b) == (d, c)


def _pairs(own: Mapping[str, list[Draft]], ddl: str | None) -> Iterator[tuple[Draft, Draft]]:
    """Rules of a column that exclude each other, whatever its values are."""
    yield from [(needed, own[_NULL][0]) for needed in own.get(_NOT_NULL, [])[:1] if own.get(_NULL)]
    yield from disjoint(own.get(_BETWEEN, []), ddl)
    lengths = [
        replace(draft, kwargs=dict(zip(("min_value", "max_value"), lengths_of(draft.kwargs), strict=True)))
        for draft in (*own.get(_LENGTHS, []), *own.get(_LENGTH, []))
    ]
    yield from disjoint(lengths, None)
    yield from _opposed(own.get(_MATCH, []), own.get(_NO_MATCH, []), lambda a, b: a["regex"] == b["regex"])
    for one, other in combinations(own.get(_IN_SET, []), 2):
        some, others = _members(one, ddl), _members(other, ddl)
        if None not in some | others and not some & others:
            yield one, other
    for allowed, refused in product(own.get(_IN_SET, []), own.get(_NOT_IN_SET, [])):
        members = _members(allowed, ddl)
        if None not in members and members <= _members(refused, ddl):
            yield allowed, refused


def _opposed(
    some: Sequence[Draft], others: Sequence[Draft], test: Callable[[Mapping[str, object], Mapping[str, object]], bool]
) -> Iterator[tuple[Draft, Draft]]:
    yield from [(one, other) for one in some for other in others if test(one.kwargs, other.kwargs)]


def _apart(own: Mapping[str, list[Draft]]) -> Iterator[tuple[Draft, Draft]]:
    """Sets of which another rule of the column refuses every member."""
    for allowed in own.get(_IN_SET, []):
        members = [value for value in allowed.kwargs["value_set"] if value is not None]
        for kind, passes in _TESTS.items():
            for other in own.get(kind, []):
                told = [passes(value, other.kwargs) for value in members]
                if told and all(found is False for found in told):
                    yield allowed, other


def _is_within(value: object, kwargs: Mapping[str, object]) -> bool | None:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    if not is_number(value) or any(bound is not None and not is_number(bound) for bound in (low, high)):
        return None
    number = comparable(value)
    above = low is None or number > comparable(low) or (number == comparable(low) and not kwargs.get("strict_min"))
    below = high is None or number < comparable(high) or (number == comparable(high) and not kwargs.get("strict_max"))
    return bool(above and below)


def _is_so_long(value: object, kwargs: Mapping[str, object]) -> bool | None:
    exact = {"min_value": kwargs["value"], "max_value": kwargs["value"]} if "value" in kwargs else kwargs
    return _is_within(len(value), exact) if isinstance(value, str) else None


def _matches(value: object, kwargs: Mapping[str, object]) -> bool | None:
    pattern = str(kwargs["regex"])
    plain = pattern.removesuffix("$")  # at its end it means the same in both
    if not isinstance(value, str) or not value.isprintable() or _OTHER_SYNTAX.search(plain):
        return None
    try:
        return re.search(pattern, value, re.ASCII) is not None
    except (re.error, OverflowError, RecursionError):
        return None


def _does_not_match(value: object, kwargs: Mapping[str, object]) -> bool | None:
    found = _matches(value, kwargs)
    return None if found is None else not found


#: Whether a member of a set passes a rule of another kind; None where that cannot be told.
_TESTS: Mapping[str, Callable[[object, Mapping[str, object]], bool | None]] = {
    _BETWEEN: _is_within,
    _LENGTHS: _is_so_long,
    _LENGTH: _is_so_long,
    _MATCH: _matches,
    _NO_MATCH: _does_not_match,
}


def passes(value: str, draft: Draft) -> bool | None:
    """Whether a text passes a rule about its column, which is well-formed; None where that cannot be told."""
    if draft.expectation == _NOT_IN_SET:
        return value not in draft.kwargs["value_set"]
    test = _TESTS.get(draft.expectation)
    return None if test is None else test(value, draft.kwargs)


def _members(draft: Draft, ddl: str | None) -> set[object]:
    return {exactly(value, ddl) for value in draft.kwargs["value_set"] if value is not None}


def disjoint(drafts: Sequence[Draft], ddl: str | None) -> Iterator[tuple[Draft, Draft]]:
    """Yield those of some rules with bounds of which no two can be kept together.

    Args:
        drafts: the rules.
        ddl: the type of what the bounds are compared with; None where only numbers are to be.
    """
    for earlier, later in combinations(drafts, 2):
        for one, other in ((earlier, later), (later, earlier)):
            low, high = exactly(one.kwargs.get("min_value"), ddl), exactly(other.kwargs.get("max_value"), ddl)
            if low is None or high is None or type(low) is not type(high):
                continue
            strict = bool(one.kwargs.get("strict_min") or other.kwargs.get("strict_max"))
            if low > high or (strict and low == high):  # type: ignore[operator]  # two numbers, or two texts
                yield earlier, later


def check_tables_together(
    drafts: Sequence[Draft],
    types: Mapping[str, str | None],
    of_rows: Sequence[Draft],
    findings: Findings,
    *,
    lints: bool,
) -> None:
    """Note unconditional rules about one measure that no table can pass together, or no table at all.

    Args:
        drafts: rules about the table, each well-formed.
        types: the columns' types, as the table has them.
        of_rows: those about rows.
        findings: where problems go.
        lints: as for rules about rows.
    """
    whole = [draft for draft in drafts if not draft.kwargs.get("row_condition")]
    for metric in [_Metric.of(draft) for draft in whole if draft.expectation in _COUNTS]:
        if metric.is_hopeless:
            findings.add(metric.draft.place, "no table can pass: so few or so many rows cannot be.", "Mend the value.")
    plain = _kept(whole, lints=lints)
    groups: dict[tuple[str | None, str], list[Draft]] = {}
    for draft in plain:
        if draft.expectation in TABLE and "min_value" in TABLE[draft.expectation].kwargs:
            groups.setdefault((draft.column, draft.expectation), []).append(draft)
    for (column, _), group in groups.items():
        for earlier, later in disjoint(group, types.get(column) if column else None):
            _contradict(later, earlier, findings, "table")
    metrics = [_Metric.of(draft) for draft in plain if draft.expectation in _COUNTS]
    for one, other in combinations([metric for metric in metrics if not metric.is_hopeless], 2):
        if one.same == other.same and one.excludes(other):
            _contradict(other.draft, one.draft, findings, "table")
    _check_row_counts(plain, [metric for metric in metrics if not metric.is_hopeless], findings)
    _check_needed(metrics, of_rows, findings)


def _units(metrics: Sequence["_Metric"]) -> Iterator[tuple[Draft, Draft]]:
    """Metrics of which one allows no row to be so, and the other, in another unit, demands one."""
    for one, other in permutations(metrics, 2):
        if one.draft.kwargs.get("unit") != other.draft.kwargs.get("unit") and one.counted == other.counted:
            low, is_from = other.low
            if one.is_none and low is not None and (low > 0 or not is_from):
                yield one.draft, other.draft


def _check_row_counts(drafts: Sequence[Draft], metrics: Sequence["_Metric"], findings: Findings) -> None:
    """Note numbers of rows of which Great Expectations' rules let through none that the others do."""
    counts = [metric for metric in metrics if metric.draft.expectation == ROW_COUNT]
    counts = [metric for metric in counts if metric.draft.kwargs.get("unit") != PERCENT]
    for draft in drafts:
        if draft.expectation == _ROWS:
            told = _Metric(draft, *((_number(draft.kwargs["value"]), True),) * 2)
        elif draft.expectation == _ROWS_BETWEEN:
            low, high = (_number(draft.kwargs.get(name)) for name in ("min_value", "max_value"))
            told = _Metric(draft, (low, not draft.kwargs.get("strict_min")), (high, not draft.kwargs.get("strict_max")))
        else:
            continue
        for other in counts:
            if told.excludes(other):
                later, earlier = sorted((told.draft, other.draft), key=lambda one: -(findings.line(one.place) or 0))
                _contradict(later, earlier, findings, "table")
        counts.append(told)


def _number(value: object) -> Decimal | None:
    return Decimal(str(value)) if is_number(value) else None


@dataclass(frozen=True)
class _Metric:
    """A metric of a table with the numbers that it lets through, and whether each end is one of them."""

    draft: Draft
    low: tuple[Decimal | None, bool]
    high: tuple[Decimal | None, bool]

    @classmethod
    def of(cls, draft: Draft) -> "_Metric":
        """Read a rule."""
        return cls(draft, *reach(draft.kwargs))

    @property
    def counted(self) -> object:
        """What is counted, in whichever unit."""
        stated = {key: value for key, value in self.draft.kwargs.items() if key not in {"condition", "value", "unit"}}
        return self.draft.expectation, self.draft.column, repr(stated)

    @property
    def is_none(self) -> bool:
        """Whether no row may be so; of rows less than one is none."""
        high, is_to = self.high
        if high is None or high < 0:
            return False
        is_whole = self.draft.kwargs.get("unit") != PERCENT
        return high == 0 or (is_whole and (high < 1 or (high == 1 and not is_to)))

    @property
    def same(self) -> object:
        """What is counted, and in which unit."""
        return self.counted, self.draft.kwargs.get("unit")

    @property
    def is_hopeless(self) -> bool:
        """Whether no table at all has such a number."""
        (low, from_low), (high, to_high) = self.low, self.high
        most = _ALL_PERCENT if self.draft.kwargs.get("unit") == PERCENT else None
        if most is None and low is not None and low == high and low % 1:
            return True
        too_few = high is not None and (high < 0 or (high == 0 and not to_high))
        too_many = most is not None and low is not None and (low > most or (low == most and not from_low))
        return too_few or too_many

    def excludes(self, other: "_Metric") -> bool:
        """Whether no number is let through by both."""
        for (low, is_from), (high, is_to) in ((self.low, other.high), (other.low, self.high)):
            if low is not None and high is not None and (low > high or (low == high and not (is_from and is_to))):
                return True
        return False


def _check_needed(metrics: Sequence[_Metric], of_rows: Sequence[Draft], findings: Findings) -> None:
    """Note that there must be NULLs in a column which has none, because rows with one are held."""
    needed = {
        draft.column: draft
        for draft in _kept(of_rows, lints=False)
        if draft.expectation == _NOT_NULL and not draft.kwargs.get("row_condition")
    }
    for metric in metrics:
        low, is_from = metric.low
        rule = needed.get(metric.draft.column)
        if rule is not None and metric.draft.expectation == NULLS and low is not None and (low > 0 or not is_from):
            _contradict(metric.draft, rule, findings, "table")


def _contradict(draft: Draft, other: Draft, findings: Findings, what: str = "value") -> None:
    line = findings.line(other.place)
    message = f"no {what} can pass this rule and the one of line {line} together."
    findings.add(draft.place, message, "Mend or remove one of the two.")
