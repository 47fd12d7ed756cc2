"""Rules about the whole table that one pass over it measures: the columns of that pass, and whether the numbers hold.

GX is asked for its aggregates of a column, as it is for its conditions on rows. What it makes of them is compared here,
because the exact value decides and GX compares with floats:

- Whole numbers and decimals are added as decimals, of which GX makes doubles; a mean is their sum by their number.
- A maximum or minimum is compared in Spark, with a literal of the column's own type; the value stays there.
- With `mostly` a share is compared as a fraction of whole numbers.

As in GX, a measure that there is none of, of no rows say, is not within any bounds; a share of no rows is kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import isnan
from typing import TYPE_CHECKING, Any

from cdc_materializer.contract import table_rules as said
from cdc_materializer.contract.expectations import ROW
from cdc_materializer.contract.gx import aggregate, applies, check_arguments, preload
from cdc_materializer.contract.judge import compile_rules
from cdc_materializer.contract.literals import Side, decimal_shape, fit_bound
from cdc_materializer.contract.model import Rule, Scope
from cdc_materializer.contract.table_expectations import CONDITION_KWARGS, TABLE, Measure
from cdc_materializer.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Digits that sums of whole numbers and decimals can have in Spark.
_WIDE = "decimal(38,{})"


@dataclass(frozen=True)
class Counted:
    """One rule in the pass.

    Attributes:
        rule: the rule.
        inputs: what it takes of a row, by name.
        sums: its aggregates by name, of a frame that has the inputs.
        holds: whether the table is as the rule says, by the aggregates and the number of rows.
    """

    rule: Rule
    inputs: Mapping[str, "Column"]
    sums: Callable[["DataFrame"], Mapping[str, "Column"]]
    holds: Callable[[Mapping[str, Any], int], bool]


def counted(rule: Rule, types: Mapping[str, str], rows: "DataFrame", prefix: str) -> Counted | None:
    """Return how a rule about the table is measured in the one pass; None for one that takes jobs of its own.

    Args:
        rule: about the table.
        types: the DDL types of its columns, by name.
        rows: has these columns; nothing is read of it.
        prefix: begins the names of the rule's columns in the pass.

    Raises:
        ContractInvalid: it cannot be compiled.
    """
    if rule.expectation in {said.NULLS, said.MISSING}:
        return _missing(rule, types, prefix)
    if rule.expectation == said.INVALID:
        return _invalid(rule, types, prefix)
    if rule.expectation == said.ROW_COUNT:
        return Counted(rule, {}, lambda _: {}, lambda _, rows: said.holds(rule, rows, rows))
    if rule.expectation in ROW:
        return _mostly(rule, types, prefix)
    known = TABLE.get(rule.expectation)
    return _measured(rule, known.measure, types, rows, prefix) if known is not None and known.measure else None


def _missing(rule: Rule, types: Mapping[str, str], prefix: str) -> Counted:
    """So many rows have no value, or one that stands for none: as a value of the column, 0 is 0.00 and -1 is -1.0."""
    from pyspark.sql import functions as F

    (column,), listed = rule.kwargs["columns"], rule.kwargs["missing"]
    written = [value for value in listed if value is not None]
    missing = F.col(quote(column)).isNull() if None in listed or not written else F.lit(False)
    if written:
        (compiled,) = compile_rules([Rule(rule.name, column, said.NOT_IN_SET, {"value_set": written})], types)
        missing = missing | compiled.failed
    return Counted(
        rule,
        {f"{prefix}missing": missing},
        lambda _: {f"{prefix}missing": F.count_if(f"{prefix}missing")},
        lambda sums, rows: said.holds(rule, sums[f"{prefix}missing"], rows),
    )


def _invalid(rule: Rule, types: Mapping[str, str], prefix: str) -> Counted:
    """So many rows have a value that is none of those listed, or is not written so."""
    from pyspark.sql import functions as F

    asked = [Rule(rule.name, rule.column, name, kwargs) for name, kwargs in rule.kwargs["rows"].items()]
    failed = [compiled.failed for compiled in compile_rules(asked, types)]
    return Counted(
        rule,
        {f"{prefix}invalid": reduce(lambda left, right: left | right, failed)},
        lambda _: {f"{prefix}invalid": F.count_if(f"{prefix}invalid")},
        lambda sums, rows: said.holds(rule, sums[f"{prefix}invalid"], rows),
    )


def _mostly(rule: Rule, types: Mapping[str, str], prefix: str) -> Counted:
    """Of the rows that a rule looks at, at least so large a share keeps it."""
    from pyspark.sql import functions as F

    kwargs = {key: value for key, value in rule.kwargs.items() if key != "mostly"}
    (compiled,) = compile_rules([replace(rule, kwargs=kwargs, scope=Scope.ROW)], types)
    share = Fraction(str(rule.kwargs["mostly"]))
    failed, seen = f"{prefix}failed", f"{prefix}seen"
    return Counted(
        rule,
        {failed: compiled.failed, seen: compiled.looked_at},
        lambda _: {failed: F.count_if(failed), seen: F.count_if(seen)},
        lambda sums, _: sums[seen] - sums[failed] >= share * sums[seen],
    )


def _measured(rule: Rule, measure: Measure, types: Mapping[str, str], rows: "DataFrame", prefix: str) -> Counted:
    """Something that GX measures of a column, or of the rows of a condition, lies within bounds."""
    from pyspark.sql import functions as F

    preload()
    check_arguments(rule)
    domain = {key: rule.kwargs[key] for key in CONDITION_KWARGS if key in rule.kwargs}
    seen = applies(domain, {quote(name): ddl for name, ddl in types.items()}, rows) if domain else F.lit(True)
    ddl = types.get(_spelled(rule.column, types), "")
    value = F.col(quote(rule.column)) if rule.column is not None else F.lit(None)
    shape = decimal_shape(ddl)
    if measure in {Measure.SUM, Measure.MEAN} and shape is not None:
        value = value.cast(_WIDE.format(shape[1]))
    inputs = {f"{prefix}seen": seen, f"{prefix}value": F.when(seen, value) if domain else value}
    return Counted(
        rule,
        inputs,
        lambda frame: _sums(rule, measure, ddl, frame, prefix),
        lambda sums, _: _is_within(rule, measure, {key.removeprefix(prefix): sums[key] for key in sums}),
    )


def _spelled(column: str | None, types: Mapping[str, str]) -> str:
    folded = (column or "").casefold()
    return next((name for name in types if name.casefold() == folded), column or "")


def _sums(rule: Rule, measure: Measure, ddl: str, frame: "DataFrame", prefix: str) -> Mapping[str, "Column"]:
    from pyspark.sql import functions as F

    value, known = f"{prefix}value", {f"{prefix}known": F.count(f"{prefix}value")}
    match measure:
        case Measure.ROWS:
            return {f"{prefix}found": F.count_if(f"{prefix}seen")}
        case Measure.KNOWN_SHARE:
            return {**known, f"{prefix}of": F.count_if(f"{prefix}seen")}
        case Measure.UNIQUE_SHARE:
            return {f"{prefix}distinct": aggregate(Measure.DISTINCT, value, frame), **known}
        case Measure.MEAN if decimal_shape(ddl) is not None:
            return {f"{prefix}sum": aggregate(Measure.SUM, value, frame), **known}
        case Measure.MAX | Measure.MIN:
            return {f"{prefix}is_within": _in_bounds(aggregate(measure, value, frame), rule, ddl)}
        case _:
            return {f"{prefix}found": aggregate(measure, value, frame)}


def _in_bounds(found: "Column", rule: Rule, ddl: str) -> "Column":
    """Whether a value of the column lies within the bounds, which NULL and NaN do not."""
    from pyspark.sql import functions as F

    tests = [found.isNotNull(), *([~F.isnan(found)] if ddl in {"float", "double"} else [])]
    low, high = rule.kwargs.get("min_value"), rule.kwargs.get("max_value")
    if low is not None and rule.kwargs.get("strict_min"):
        tests.append(found > F.lit(fit_bound(low, ddl, Side.DOWN)))
    elif low is not None:
        tests.append(found >= F.lit(fit_bound(low, ddl, Side.UP)))
    if high is not None and rule.kwargs.get("strict_max"):
        tests.append(found < F.lit(fit_bound(high, ddl, Side.UP)))
    elif high is not None:
        tests.append(found <= F.lit(fit_bound(high, ddl, Side.DOWN)))
    within = tests[0]
    for test in tests[1:]:
        within = within & test
    return F.coalesce(within, F.lit(False))


def _is_within(rule: Rule, measure: Measure, sums: Mapping[str, Any]) -> bool:
    found: Fraction | Decimal | float | None
    match measure:
        case Measure.MAX | Measure.MIN:
            return bool(sums["is_within"])
        case Measure.UNIQUE_SHARE:
            found = Fraction(sums["distinct"], sums["known"]) if sums["known"] else Fraction(0)
        case Measure.KNOWN_SHARE:
            found = Fraction(sums["known"], sums["of"]) if sums["of"] else Fraction(0)
        case Measure.MEAN if "sum" in sums:
            found = Fraction(sums["sum"]) / sums["known"] if sums["known"] and sums["sum"] is not None else None
        case _:
            found = sums["found"]
    return found is not None and is_between(found, rule.kwargs)


def is_between(found: Fraction | Decimal | float, kwargs: Mapping[str, Any]) -> bool:
    """Whether a number lies within the bounds of a rule; exactly, where it is no float.

    Args:
        found: what was measured.
        kwargs: the rule's, with `min_value` and `max_value`, or the `value` that it equals.
    """
    # Beside a float a bound is the double that people mean by it.
    as_number: type[float | Fraction] = float if isinstance(found, float) else Fraction
    number = as_number(found)
    if isnan(number):
        return False
    low, high = (kwargs.get(key, kwargs.get("value")) for key in ("min_value", "max_value"))
    below = low is not None and number < as_number(str(low))
    above = high is not None and number > as_number(str(high))
    on_low = low is not None and bool(kwargs.get("strict_min")) and number == as_number(str(low))
    on_high = high is not None and bool(kwargs.get("strict_max")) and number == as_number(str(high))
    return not (below or above or on_low or on_high)
