"""Checks of single rules about a whole table: columns, kinds, arguments, bounds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from math import isnan
from typing import Any

from cdc_materializer.contract.checks import (
    check_arguments,
    check_condition,
    check_draft,
    check_order,
    interval,
)
from cdc_materializer.contract.document import Findings
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.expectations import ROW
from cdc_materializer.contract.literals import Misfit, Side, fit_bound, fit_members, is_number
from cdc_materializer.contract.table_expectations import (
    KIND_OF_TYPE,
    ROWS_QUERY,
    SPARK_TYPES,
    TABLE,
    WHOLE_SETS,
    Measure,
)
from cdc_materializer.contract.table_rules import INVALID, MISSING, NOT_IN_SET, broken_rows_query
from cdc_materializer.contract.types import family
from cdc_materializer.names import nearest

#: What shares and counts of rows can be at most; a bound beyond says nothing, or that nothing passes.
_SHARES = frozenset({Measure.UNIQUE_SHARE, Measure.KNOWN_SHARE})
_METHODS = ("iqr", "std")
#: How far weights may be from 1 together; GX compares them so.
_TOLERANCE = Decimal("0.00001")
#: Measures that have the type of their column; the others are numbers.
_OF_COLUMN = frozenset({Measure.MAX, Measure.MIN})
_LISTS = ("value_set", "column_list", "column_set", "type_list")
_FLAGS = ("strict_min", "strict_max", "ties_okay", "double_sided", "exact_match", "strictly")


def check_table_draft(draft: Draft, types: Mapping[str, str | None], findings: Findings) -> None:
    """Note everything wrong with one rule about the table.

    Args:
        draft: the rule.
        types: Spark DDL type by column of the mirror, as it is stored; None where it is not known.
        findings: where problems go.
    """
    before = len(findings.problems)
    if draft.expectation in ROW:
        check_draft(draft, types, findings)
        _check_mostly(draft, findings)
        return
    if draft.expectation in TABLE:
        check_arguments(draft, TABLE[draft.expectation], findings)
        _check_shapes(draft, findings)
    if len(findings.problems) == before:
        _check_columns(draft, types, findings)
        check_condition(draft, types, findings)
    if len(findings.problems) == before and draft.expectation == INVALID:
        for expectation, kwargs in draft.kwargs["rows"].items():
            check_draft(replace(draft, expectation=expectation, kwargs=kwargs), types, findings)
    if len(findings.problems) == before and draft.expectation == MISSING:
        written = [value for value in draft.kwargs["missing"] if value is not None]
        asked = replace(draft, expectation=NOT_IN_SET, kwargs={"value_set": written})
        check_draft(asked, types, findings) if written else None
    if len(findings.problems) == before and draft.expectation in TABLE:
        _check_values(draft, types, findings)


def columns_of(draft: Draft) -> list[str]:
    """The columns that a rule about the table reads, in order; a query may read any."""
    known = TABLE.get(draft.expectation)
    if known is None:
        return list(draft.kwargs.get("columns", ()))
    if known.columns == ("column",):
        return [draft.column] if draft.column is not None else []
    listed = draft.kwargs.get("column_list") if known.columns else None
    return [str(name) for name in listed] if isinstance(listed, list) else []


def _check_columns(draft: Draft, types: Mapping[str, str | None], findings: Findings) -> None:
    known = TABLE.get(draft.expectation)
    for column in columns_of(draft):
        if column not in types:
            near = nearest(column, types)
            do = f"Did you mean {near}?" if near else "Declare it under properties."
            findings.add(draft.place, f"the rule names the column {column[:80]!r}, which is not declared.", do)
        elif known is not None and known.families and (ddl := types[column]) and family(ddl) not in known.families:
            message = f"{draft.expectation} cannot judge columns of kind {family(ddl)}."
            findings.add(draft.place, message, "Use another rule.")


def _check_shapes(draft: Draft, findings: Findings) -> None:
    for key in _LISTS:
        value = draft.kwargs.get(key)
        if value is not None and (not isinstance(value, list) or not value):
            findings.add(draft.place, f"{key} is not a list of at least one.", "Write a list.")
    for key in _FLAGS:
        if not isinstance(draft.kwargs.get(key) or False, bool):
            findings.add(draft.place, f"{key} is not true or false.", "Write true or false.")
    if "mostly" in draft.kwargs:
        _check_mostly(draft, findings)


def _check_mostly(draft: Draft, findings: Findings) -> None:
    mostly = draft.kwargs.get("mostly", 1)
    if not is_number(mostly) or not 0 <= mostly <= 1:
        findings.add(draft.place, "mostly is no share.", "Write a number from 0 to 1, such as 0.95.")


def _check_values(draft: Draft, types: Mapping[str, str | None], findings: Findings) -> None:
    known, kwargs = TABLE[draft.expectation], draft.kwargs
    ddl = types.get(draft.column or "")
    if "min_value" in known.kwargs:
        _check_bounds(draft, ddl if known.measure in _OF_COLUMN else None, known.measure, findings)
    elif "value" in known.kwargs and (not isinstance(kwargs["value"], int) or isinstance(kwargs["value"], bool)):
        findings.add(draft.place, "value is not a whole number.", "Write a whole number.")
    elif "value_set" in known.kwargs and ddl:
        _check_set(draft, ddl, findings)
    elif known.kwargs[0].startswith("type_"):
        _check_types(draft, ddl, findings)
    elif ROWS_QUERY in known.kwargs:
        if (why := broken_rows_query(kwargs[ROWS_QUERY])) is not None:
            findings.add(draft.place, f"{ROWS_QUERY}: {why}.", "Write SELECT … FROM {batch} WHERE ….")
    elif "method" in known.kwargs:
        _check_outliers(draft, findings)
    elif "quantile_ranges" in known.kwargs:
        _check_quantiles(kwargs["quantile_ranges"], draft, findings)
    elif "threshold" in known.kwargs:
        _check_threshold(draft, findings)


def _check_set(draft: Draft, ddl: str, findings: Findings) -> None:
    stated = [member for member in draft.kwargs["value_set"] if member is not None]
    try:
        members = fit_members(stated, ddl)
    except Misfit as misfit:
        findings.add(draft.place, f"a member of the set does not fit the type {ddl}: {misfit}.", "Mend the set.")
        return
    if draft.expectation in WHOLE_SETS and len(members) < len(stated):
        message = f"no table can pass: a member of the set can be no value of type {ddl}."
        findings.add(draft.place, message, "Mend the set, or the type that is declared.")


def _check_types(draft: Draft, ddl: str | None, findings: Findings) -> None:
    """Note what is no type of Spark's, of which GX would find none in any table, and what is no type of the column's.

    A column may have a wider type than the declared one, so their kinds are compared.
    """
    stated = draft.kwargs.get("type_", draft.kwargs.get("type_list"))
    listed = stated if isinstance(stated, list) else [stated]
    wrong = [one for one in listed if not isinstance(one, str) or one not in SPARK_TYPES]
    for unknown in wrong if listed else [stated]:
        near = nearest(str(unknown), SPARK_TYPES)
        do = f"Did you mean {near}?" if near else "Write one such as IntegerType, StringType or DecimalType."
        findings.add(draft.place, f"{str(unknown)[:80]!r} is no type of Spark's.", do)
    kinds = {KIND_OF_TYPE.get(one) for one in listed if isinstance(one, str)}
    if ddl is not None and kinds and None not in kinds and family(ddl) not in kinds:
        message = f"no table can pass: the column {draft.column} is {ddl}, none of whose kind are the rule's types."
        findings.add(draft.place, message, "Mend the rule, or the type that is declared.")


def _check_outliers(draft: Draft, findings: Findings) -> None:
    if draft.kwargs.get("method", "iqr") not in _METHODS:
        findings.add(draft.place, "unknown method.", "The methods are iqr and std.")
    multiplier = draft.kwargs.get("multiplier", 1)
    if not is_number(multiplier) or multiplier < 0:
        findings.add(draft.place, "multiplier is not a number from 0.", "Write such as 1.5.")


def _check_threshold(draft: Draft, findings: Findings) -> None:
    """Note a threshold that is no number, or below which nothing lies, and a distribution that is none."""
    threshold, is_double = draft.kwargs["threshold"], draft.kwargs.get("double_sided") is True
    if not is_number(threshold):
        findings.add(draft.place, "threshold is not a number.", "Write a number.")
    elif is_double and threshold <= 0:
        findings.add(draft.place, "no value can pass: with double_sided threshold lies above 0.", "Write such as 3.")
    if wrong := _broken_partition(draft.kwargs["partition_object"]) if "partition_object" in draft.kwargs else None:
        do = "Write {values: [a, b], weights: [0.25, 0.75]}, or bins, one more than weights."
        findings.add(draft.place, f"partition_object is no distribution: {wrong}.", do)


def _broken_partition(stated: object) -> str | None:
    """Say why Great Expectations would not take a distribution; None where it would."""
    parts: dict[str, Any] = stated if isinstance(stated, dict) else {}
    weights, tails = parts.get("weights"), parts.get("tail_weights", [])
    kind = next((key for key in ("values", "bins") if isinstance(parts.get(key), list)), None)
    if kind is None or not isinstance(weights, list) or not isinstance(tails, list):
        return "it has no values or bins with their weights"
    steps = parts[kind]
    every: list[Any] = [*weights, *tails]
    if any(not is_number(one) or one < 0 for one in every):
        return "a weight is no number from 0"
    if len(steps) != len(weights) + (kind == "bins"):
        return "bins are one more than their weights" if kind == "bins" else "values have as many weights"
    if kind == "bins" and not _is_rising(steps):
        return "the bins do not rise"
    total = sum((Decimal(str(one)) for one in every), Decimal())
    return None if abs(total - 1) < _TOLERANCE else "the weights do not come to 1"


def _is_rising(bins: Sequence[Any]) -> bool:
    """Whether each edge is above the one before; the first and the last may be infinite."""
    is_each = all(
        isinstance(one, int | float | Decimal) and not isinstance(one, bool) and not isnan(one) for one in bins
    )
    return is_each and all(low < high for low, high in pairwise(bins))


def _check_bounds(draft: Draft, ddl: str | None, measure: Measure | None, findings: Findings) -> None:
    bounds = interval(draft)
    if bounds == (None, None):
        findings.add(draft.place, "the rule has no bound.", "Give a minimum or a maximum.")
    for bound in bounds:
        if bound is None:
            continue
        if measure not in _OF_COLUMN and not is_number(bound):
            findings.add(draft.place, "a bound is not a number.", "Write a number.")
            return
        try:
            fit_bound(bound, ddl or "double", Side.UP) if measure not in _OF_COLUMN or ddl else None
        except Misfit as misfit:
            message = f"a bound does not fit the column's type {ddl}: {misfit}."
            findings.add(draft.place, message, "Mend the bound.")
            return
        if measure in _SHARES and not 0 <= Decimal(str(bound)) <= 1:
            findings.add(draft.place, "a bound of a share does not lie between 0 and 1.", "Write such as 0.95.")
            return
    check_order(draft, *bounds, findings)


def _check_quantiles(stated: object, draft: Draft, findings: Findings) -> None:
    """Note quantiles and ranges that do not pair up, or that nothing can lie in."""
    keys = ("quantiles", "value_ranges")
    lists = [stated.get(key) for key in keys] if isinstance(stated, dict) and set(stated) == set(keys) else []
    quantiles, ranges = lists if len(lists) == len(keys) else (None, None)
    if not isinstance(quantiles, list) or not isinstance(ranges, list) or len(quantiles) != len(ranges) or not ranges:
        message = "quantile_ranges needs quantiles and as many value_ranges."
        findings.add(draft.place, message, "Write {quantiles: [0.5], value_ranges: [[1, 9]]}.")
    elif any(not is_number(one) or not 0 <= one <= 1 for one in quantiles):
        findings.add(draft.place, "a quantile does not lie between 0 and 1.", "Write such as 0.95.")
    elif any(not _is_range(one) for one in ranges):
        message = "a value range is not a lower and an upper bound."
        findings.add(draft.place, message, "Write two numbers, null for none.")


def _is_range(stated: object) -> bool:
    if not isinstance(stated, list) or len(stated) != len(("low", "high")):
        return False
    known = [one for one in stated if one is not None]
    return bool(known) and all(is_number(one) for one in known) and known == sorted(known)
