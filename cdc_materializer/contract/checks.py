"""Checks of single rules that go past the ODCS schema: columns, types, arguments, bounds."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

from cdc_materializer.contract.conditions import faults
from cdc_materializer.contract.document import Findings
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.expectations import COMMON_KWARGS, ROW, RowExpectation
from cdc_materializer.contract.json_schemas import broken_schema
from cdc_materializer.contract.literals import Misfit, Side, decimal_shape, fit_bound, fit_members, is_number
from cdc_materializer.contract.model import Action, Scope
from cdc_materializer.contract.patterns import broken_pattern
from cdc_materializer.contract.table_expectations import TableExpectation
from cdc_materializer.contract.types import Family, family
from cdc_materializer.names import nearest

#: How GX reads a row_condition given as text; its third parser is pandas' own and means nothing here.
_CONDITION_PARSERS = ("spark", "great_expectations", "great_expectations__experimental__")

_PAIR_SIZE = 2
_TIMELESS = frozenset({Family.TEXT, Family.NUMBER, Family.BOOLEAN, Family.BINARY})
_DIGITS = Context(prec=400)
_SOME_TIME = datetime(2026, 11, 21, 10, 11, 12, tzinfo=UTC)
#: No set: what a file has here may be a list or a mapping, which no set can be asked for.
_MATCH_ON = (None, "any", "all")
_IGNORE_ROW_IF = {
    "column_A": ("both_values_are_missing", "either_value_is_missing", "neither"),
    "column_list": ("all_values_are_missing", "any_value_is_missing", "never"),
}


def check_draft(draft: Draft, types: Mapping[str, str | None], findings: Findings) -> None:
    """Note everything wrong with one rule of an expectation about rows.

    Args:
        draft: the rule.
        types: Spark DDL type by column name, None where it is not known.
        findings: where problems go.
    """
    known = ROW[draft.expectation]
    before = len(findings.problems)
    check_arguments(draft, known, findings, COMMON_KWARGS)
    if "column_A" in draft.kwargs and draft.kwargs["column_A"] == draft.kwargs.get("column_B"):
        findings.add(draft.place, "column_A and column_B are one column.", "Name two.")
    _check_shapes(draft, findings)
    if len(findings.problems) > before:
        return
    columns = named_columns(draft)
    for column in columns:
        if column not in types:
            near = nearest(column, types)
            do = f"Did you mean {near}?" if near else "Declare it under properties."
            findings.add(draft.place, f"the rule names the column {column[:80]!r}, which is not declared.", do)
    kinds = {family(ddl) for column in columns if (ddl := types.get(column))}
    for kind in sorted(kinds - (known.families or kinds)):
        findings.add(draft.place, f"{draft.expectation} cannot judge columns of kind {kind}.", "Use another rule.")
    if len(kinds) > 1:
        joined = ", ".join(sorted(kinds))
        findings.add(draft.place, f"columns of different kinds ({joined}) cannot be compared.", "Name others.")
    check_condition(draft, types, findings)
    if len(findings.problems) == before:
        _check_values(draft, types, findings)


def check_condition(draft: Draft, types: Mapping[str, str | None], findings: Findings) -> None:
    """Note what is wrong with the condition that says which rows a rule is about.

    Args:
        draft: the rule.
        types: as the rule sees the columns.
        findings: where problems go.
    """
    condition = draft.kwargs.get("row_condition")
    if condition is not None:
        holds_rows = draft.scope is Scope.ROW and draft.action is not Action.WARN and not draft.shadow
        timeless = [name for name, ddl in types.items() if ddl is not None and family(ddl) in _TIMELESS]
        for message, do in faults(condition, types, decides=holds_rows, timeless=timeless):
            findings.add((*draft.place, "kwargs", "row_condition"), message, do)


def named_columns(draft: Draft) -> list[str]:
    """Return the columns that a rule names, in order."""
    if draft.column is not None and ROW[draft.expectation].columns == ("column",):
        return [draft.column]
    pair = [str(draft.kwargs[key]) for key in ("column_A", "column_B") if key in draft.kwargs]
    listed = draft.kwargs.get("column_list")
    return pair or ([str(name) for name in listed] if isinstance(listed, list) else [])


def check_arguments(
    draft: Draft, known: RowExpectation | TableExpectation, findings: Findings, common: Collection[str] = ()
) -> None:
    """Note arguments that an expectation does not know, those that it lacks, and a condition that is none.

    Args:
        draft: the rule.
        known: how its expectation is written.
        findings: where problems go.
        common: what all expectations of its kind know besides.
    """
    own = tuple(key for key in known.columns if key != "column")
    allowed = {*own, *known.kwargs, *common}
    for key in draft.kwargs.keys() - allowed:
        near = nearest(str(key), allowed)
        do = f"Did you mean {near}?" if near else f"Known: {', '.join(sorted(allowed)) or 'none'}."
        findings.add(draft.place, f"{draft.expectation} has no argument {str(key)[:80]!r}.", do)
    for key in (*own, *known.needed):
        if draft.kwargs.get(key) is None:
            findings.add(draft.place, f"{draft.expectation} needs the argument {key}.", "Add it.")
    if known.columns == ("column",) and not draft.column:
        findings.add(draft.place, f"{draft.expectation} needs a column.", "Add it to kwargs.")
    _check_condition(draft, findings)


def _check_shapes(draft: Draft, findings: Findings) -> None:
    kwargs = draft.kwargs
    for key in ("value_set", "value_pairs_set", "regex_list", "column_list"):
        value = kwargs.get(key)
        if value is not None and (not isinstance(value, list) or not value):
            findings.add(draft.place, f"{key} is not a list of at least one.", "Write a list.")
    columns = kwargs.get("column_list")
    if isinstance(columns, list) and len(set(map(str, columns))) < _PAIR_SIZE:
        findings.add(draft.place, "column_list needs two different columns.", "Name them.")
    pairs = kwargs.get("value_pairs_set")
    if isinstance(pairs, list) and any(not isinstance(pair, list) or len(pair) != _PAIR_SIZE for pair in pairs):
        findings.add(draft.place, "value_pairs_set is not a list of pairs.", "Write [[a, b], …].")
    for key in ("strict_min", "strict_max", "or_equal"):
        if not isinstance(kwargs.get(key) or False, bool):
            findings.add(draft.place, f"{key} is not true or false.", "Write true or false.")
    if kwargs.get("match_on") not in _MATCH_ON:
        findings.add(draft.place, "match_on is neither any nor all.", "Write any or all.")
    for key, choices in _IGNORE_ROW_IF.items():
        if key in kwargs and kwargs.get("ignore_row_if") not in (None, *choices):
            findings.add(draft.place, "unknown ignore_row_if.", f"Known here: {', '.join(choices)}.")


def _check_condition(draft: Draft, findings: Findings) -> None:
    condition, parser = draft.kwargs.get("row_condition"), draft.kwargs.get("condition_parser")
    if isinstance(condition, str) and parser not in _CONDITION_PARSERS:
        findings.add(draft.place, "row_condition needs a condition_parser.", f"Known: {', '.join(_CONDITION_PARSERS)}.")
    elif condition is not None and not isinstance(condition, str | dict):
        findings.add(draft.place, "row_condition is neither text nor a mapping.", "Write a Spark SQL condition.")


def _check_values(draft: Draft, types: Mapping[str, str | None], findings: Findings) -> None:
    kwargs, ddl = draft.kwargs, types.get(draft.column or "")
    if draft.expectation.startswith("expect_column_value_lengths"):
        _check_lengths(draft, findings)
    elif draft.expectation == "expect_column_values_to_be_between":
        _check_between(draft, ddl, findings)
    elif "value_set" in kwargs and ddl:
        _check_set(draft, ddl, findings)
    elif "value_pairs_set" in kwargs:
        _check_pairs(draft, types, findings)
    elif "sum_total" in kwargs and not is_number(kwargs["sum_total"]):
        findings.add(draft.place, "sum_total is not a number.", "Write a number.")
    elif "json_schema" in kwargs and (why := broken_schema(kwargs["json_schema"])):
        findings.add(draft.place, f"not a JSON schema that can be judged by: {why}.", "Mend it.")
    elif "strftime_format" in kwargs and not _is_time_format(kwargs["strftime_format"]):
        findings.add(draft.place, "strftime_format is not one that Python reads.", "Write such as '%Y-%m-%d'.")
    for pattern in [kwargs.get("regex"), *(kwargs.get("regex_list") or ())]:
        if pattern is not None and (broken := broken_pattern(pattern)):
            findings.add(draft.place, f"not a valid pattern: {broken}.", "Mend it; the syntax is Java's.")


def _is_time_format(stated: object) -> bool:
    """Whether Python reads what it has written by a format, as GX asks it to."""
    try:
        datetime.strptime(_SOME_TIME.strftime(str(stated)), str(stated))  # noqa: DTZ007 - a format may have no zone
    except ValueError:
        return False
    return True


def _check_lengths(draft: Draft, findings: Findings) -> None:
    lengths = [draft.kwargs[key] for key in ("value", "min_value", "max_value") if draft.kwargs.get(key) is not None]
    if not lengths:
        findings.add(draft.place, "the rule has no bound.", "Give a minimum or a maximum.")
    elif any(isinstance(length, bool) or not isinstance(length, int) or length < 0 for length in lengths):
        findings.add(draft.place, "a length is not a whole number from 0.", "Write a whole number.")
    else:
        check_order(draft, draft.kwargs.get("min_value"), draft.kwargs.get("max_value"), findings)
        least, most = lengths_of(draft.kwargs)
        if most is not None and most < (least or 0) and not findings.has_within(draft.place):
            findings.add(draft.place, "no value can pass: no length lies between the bounds.", "Mend the bounds.")


def lengths_of(kwargs: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return the least and the largest length that a rule lets through, None for any; lengths are whole numbers."""
    least, most = (kwargs.get("value", kwargs.get(name)) for name in ("min_value", "max_value"))
    least = least + 1 if least is not None and kwargs.get("strict_min") else least
    return least, most - 1 if most is not None and kwargs.get("strict_max") else most


def _check_between(draft: Draft, ddl: str | None, findings: Findings) -> None:
    bounds = interval(draft)
    if bounds == (None, None):
        findings.add(draft.place, "the rule has no bound.", "Give a minimum or a maximum.")
    try:
        fitted = [fit_bound(bound, ddl, Side.UP) if ddl and bound is not None else None for bound in bounds]
    except Misfit as misfit:
        findings.add(draft.place, f"a bound does not fit the column's type {ddl}: {misfit}.", "Mend the bound.")
        return
    low, high = bounds if ddl is None or family(ddl) is Family.NUMBER else fitted
    before = len(findings.problems)
    check_order(draft, low, high, findings)
    if ddl is not None and len(findings.problems) == before and _is_hollow(draft, ddl):
        findings.add(draft.place, f"no value of type {ddl} lies between the bounds.", "Mend the bounds.")


def _is_hollow(draft: Draft, ddl: str) -> bool:
    """Whether none of the numbers that a column can hold lies between two bounds: no whole one does between 1 and 2."""
    shape, (low, high) = decimal_shape(ddl), interval(draft)
    if shape is None or not is_number(low) or not is_number(high):
        return False
    unit = Decimal(1).scaleb(-shape[1])
    least, most = comparable(low), comparable(high)
    first = least.quantize(unit, ROUND_CEILING, _DIGITS)
    last = most.quantize(unit, ROUND_FLOOR, _DIGITS)
    first += unit if first == least and draft.kwargs.get("strict_min") else 0
    last -= unit if last == most and draft.kwargs.get("strict_max") else 0
    return bool(first > last)


def check_order(draft: Draft, low: object, high: object, findings: Findings) -> None:
    """Note bounds that nothing can lie between, and such as .nan, with which nothing compares."""
    if any(isinstance(bound, float | Decimal) and not is_number(bound) for bound in (low, high)):
        findings.add(draft.place, "a bound is not a number.", "Write a number.")
        return
    if low is None or high is None:
        return
    a, b = comparable(low), comparable(high)
    strict = bool(draft.kwargs.get("strict_min") or draft.kwargs.get("strict_max"))
    if type(a) is not type(b):
        findings.add(draft.place, "the minimum and the maximum are of different kinds.", "Write both alike.")
    elif a > b or (strict and a == b):
        findings.add(draft.place, "no value can pass: the minimum lies above the maximum.", "Swap or mend them.")


def interval(draft: Draft) -> tuple[object, object]:
    """Return the bounds of a between rule as the file states them."""
    return draft.kwargs.get("min_value"), draft.kwargs.get("max_value")


def comparable(value: object) -> Any:  # noqa: ANN401 - Decimal or str, which only compare with their own kind
    """Return a number as Decimal and anything else as text, so that like compares with like."""
    return Decimal(repr(value) if isinstance(value, float) else value) if is_number(value) else str(value)


def _check_pairs(draft: Draft, types: Mapping[str, str | None], findings: Findings) -> None:
    sides = zip(*draft.kwargs["value_pairs_set"], strict=True)
    for members, ddl in zip(sides, map(types.get, named_columns(draft)), strict=True):
        try:
            fit_members([member for member in members if member is not None], ddl) if ddl else None
        except Misfit as misfit:
            message = f"a member of the set does not fit the type {ddl}: {misfit}."
            findings.add(draft.place, message, "Mend the set.")


def _check_set(draft: Draft, ddl: str, findings: Findings) -> None:
    try:
        members = fit_members(draft.kwargs["value_set"], ddl)
    except Misfit as misfit:
        findings.add(draft.place, f"a member of the set does not fit the type {ddl}: {misfit}.", "Mend the set.")
        return
    if not members:
        message = f"no member of the set can be a value of type {ddl}; nulls are never judged by a set."
        findings.add(draft.place, message, "Mend the set, or use a rule about null.")
