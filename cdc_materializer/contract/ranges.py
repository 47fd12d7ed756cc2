"""Bounds that lie outside of what a column's type can hold: rules that no value can keep, or that none can break.

A bound that repeats the type's own limit is left alone, as generators write those.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from open_data_contract_standard.model import SchemaObject

from cdc_materializer.contract.checks import interval
from cdc_materializer.contract.document import Findings
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.literals import DECIMALS, limits

#: By words of databases for numbers that a mirror has as `int`: the least and the largest of them, with a sign or not.
_NARROW = {
    **dict.fromkeys(("tinyint", "byte"), (Decimal(-(2**7)), Decimal(2**8 - 1))),
    **dict.fromkeys(("smallint", "int2", "short"), (Decimal(-(2**15)), Decimal(2**16 - 1))),
    "mediumint": (Decimal(-(2**23)), Decimal(2**24 - 1)),
}
#: Rules with bounds for values of the column's own type.
OF_VALUES = frozenset(
    {
        "expect_column_values_to_be_between",
        "expect_column_max_to_be_between",
        "expect_column_min_to_be_between",
        "expect_column_median_to_be_between",
        "expect_column_mean_to_be_between",
    }
)
_IN_SET = "expect_column_values_to_be_in_set"


def check_ranges(
    drafts: Sequence[Draft], types: Mapping[str, str | None], table: SchemaObject, findings: Findings
) -> None:
    """Note rules whose bounds no number of the column's type lies within, or every one.

    Args:
        drafts: rules, each well-formed otherwise.
        types: Spark DDL type by column.
        table: what the file says of the columns.
        findings: where problems go.
    """
    stated = {one.physicalName or one.name: one.physicalType or "" for one in table.properties or ()}
    for draft in drafts:
        ddl = types.get(draft.column or "")
        # Of some rows, or of a share of them, a rule may well say that there are none.
        if ddl is None or "row_condition" in draft.kwargs or "mostly" in draft.kwargs:
            continue
        name, held = _range(ddl, stated.get(draft.column or "", ""))
        if held is None:
            continue
        if draft.expectation == _IN_SET:
            members = [_number(member) for member in draft.kwargs["value_set"] if member is not None]
            if members and all(member is not None and not held[0] <= member <= held[1] for member in members):
                what = f"no member of the set can be a value of type {name}."
                findings.add(draft.place, what, "Mend the set, or the type that is declared.")
        elif draft.expectation in OF_VALUES and (wrong := _misses(draft, *held)) is not None:
            findings.add(draft.place, wrong.format(name), "Mend the bounds, or the type that is declared.")


def _range(ddl: str, physical: str) -> tuple[str, tuple[Decimal, Decimal] | None]:
    """The type's name, and the least and the largest number that it holds; None where that cannot be told."""
    word = physical.strip().lower().partition("(")[0].partition(" ")[0]
    return (word, _NARROW[word]) if ddl == "int" and word in _NARROW else (ddl, limits(ddl))


def _misses(draft: Draft, least: Decimal, most: Decimal) -> str | None:
    """What is wrong with bounds for numbers from the least to the largest; None where some keep and some break them."""
    low, high = (_number(bound) for bound in interval(draft))
    over, under = bool(draft.kwargs.get("strict_min")), bool(draft.kwargs.get("strict_max"))
    if low is not None and (low > most or (low == most and over)):
        return "no value of type {} is as large as the rule asks."
    if high is not None and (high < least or (high == least and under)):
        return "no value of type {} is as small as the rule asks."
    # A bound at the type's own limit only repeats it.
    is_below = low is None or low < least
    is_above = high is None or high > most
    if is_below and is_above:
        return "every value of type {} lies within the bounds, so nothing can break the rule."
    return None


def _number(value: object) -> Decimal | None:
    """A bound as an exact number; None for none."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        number = DECIMALS.create_decimal(repr(value) if isinstance(value, float) else value)
    except ArithmeticError:
        return None
    return number if number.is_finite() else None
