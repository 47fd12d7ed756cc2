"""The masks of a contract: `mask` and `drop` among a column's customProperties, and when its rules are judged."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from open_data_contract_standard.model import CustomProperty, SchemaObject, SchemaProperty

from cdc_materializer.contract.conditions import columns_in
from cdc_materializer.contract.contradictions import passes
from cdc_materializer.contract.document import Findings, Place
from cdc_materializer.contract.drafts import Draft, refuse_unclear
from cdc_materializer.contract.literals import is_number
from cdc_materializer.contract.model import Contract, ContractColumn
from cdc_materializer.contract.table_expectations import WHOLE_SETS
from cdc_materializer.contract.table_rules import DUPLICATES
from cdc_materializer.masks import REDACTED, Mask, told_of_lost

_METHODS = tuple(mask for mask in Mask if mask is not Mask.DROP)
_JUDGED = ("before", "after")
#: All custom properties of a column that mean something.
_KNOWN = ("mask", "drop", "time_unit", "written_as")
_IN_SET = "expect_column_values_to_be_in_set"
_PAIRS = "expect_column_pair_values_to_be_in_set"
_GREATER = "expect_column_pair_values_a_to_be_greater_than_b"
_APART = "expect_select_column_values_to_be_unique_within_record"
_DISTINCT = "expect_column_unique_value_count_to_be_between"
_JSON = frozenset({"expect_column_values_to_be_json_parseable", "expect_column_values_to_match_json_schema"})
_LENGTHS = frozenset({"expect_column_value_lengths_to_be_between", "expect_column_value_lengths_to_equal"})
_SETS = WHOLE_SETS | {
    "expect_column_distinct_values_to_be_in_set",
    "expect_column_most_common_value_to_be_in_set",
}
#: What a mask leaves of any value: the form of the text, and one of each length.
_LEFT: Mapping[Mask, tuple[re.Pattern[str], tuple[str, ...]]] = {
    Mask.REDACT: (re.compile(re.escape(REDACTED)), (REDACTED,)),
    Mask.HASH: (re.compile("[0-9a-f]{64}"), ("0" * 64,)),
    Mask.LAST4: (re.compile(r"\*{4}(?:.{4})?", re.DOTALL), ("****", "****1234")),
}
_UNIQUE = frozenset({DUPLICATES, "expect_column_values_to_be_unique", "expect_compound_columns_to_be_unique"})


def read_mask(declared: SchemaProperty, here: Place, findings: Findings) -> Mask | None:
    """Return how a column is hidden, noting what is not understood: a mask that is none would show what it hides."""
    found: list[Mask] = []
    for index, entry in enumerate(declared.customProperties or ()):
        at = (*here, "customProperties", index)
        if entry.property == "mask":
            found += _method(entry, at, findings)
        elif entry.property == "drop":
            found += _drop(entry, at, findings)
    refuse_unclear(declared.customProperties, here, findings, _KNOWN)
    if len(found) > 1:
        findings.add(here, "the column is masked twice.", "Keep one of mask and drop.")
    if found and declared.primaryKey:
        message = f"column {declared.name} is of the primary key, which cannot be masked: rows are told apart by it."
        findings.add(here, message, "Remove the mask; a key is in every table and report as it is.")
    return found[0] if found else None


def _method(entry: CustomProperty, at: Place, findings: Findings) -> list[Mask]:
    # YAML takes a bare `null` for no value; as the value of a mask it is one.
    stated: Any = "null" if entry.value is None and "value" in entry.model_fields_set else entry.value
    if isinstance(stated, str) and stated in _METHODS:
        return [Mask(stated)]
    findings.add(at, f"unknown mask {str(stated)[:40]!r}.", f"The masks are {', '.join(_METHODS)}.")
    return []


def _drop(entry: CustomProperty, at: Place, findings: Findings) -> list[Mask]:
    if not isinstance(entry.value, bool):
        findings.add(at, "drop is not true or false.", "Write true or false.")
    return [Mask.DROP] if entry.value is True else []


def read_judge(table: SchemaObject, place: Place, findings: Findings) -> Literal["before", "after"]:
    """Return whether rules see values before their masks, which is so unless the table says otherwise."""
    for index, entry in enumerate(table.customProperties or ()):
        at = (*place, "customProperties", index)
        if entry.property == "judge":
            if entry.value in _JUDGED:
                return "after" if entry.value == "after" else "before"
            findings.add(at, f"unknown value of judge: {str(entry.value)[:40]!r}.", "Write before or after.")
        elif entry.property in _KNOWN:
            findings.add(at, f"the custom property {entry.property} belongs to a column.", "Move it under its column.")
    return "before"


def seen_types(
    columns: Sequence[ContractColumn], types: dict[str, str | None], judge: Literal["before", "after"]
) -> dict[str, str | None]:
    """Return the types of the columns as the rules see them.

    Args:
        columns: those that the contract declares.
        types: the type of each column, the table's own where it is known.
        judge: whether rules see values before or after their masks.
    """
    seen = dict(types)
    for column in columns:
        if column.mask is None:
            continue
        if judge == "before":
            seen[column.name] = column.type
        elif column.mask is Mask.DROP:
            seen.pop(column.name, None)
        elif column.mask is not Mask.NULL:
            seen[column.name] = "string"
    return seen


def is_judgeable(draft: Draft, named: Sequence[str], columns: Sequence[ContractColumn], findings: Findings) -> bool:
    """Whether a rule that sees what the mirror stores can tell rows by it, noting it where masks leave it nothing.

    Args:
        draft: the rule.
        named: the columns that it names.
        columns: those that the contract declares.
        findings: where problems go.
    """
    masks = _masks(columns)
    before = len(findings.problems)
    for name in map(str, named):
        if masks.get(name.casefold()) is Mask.DROP:
            message = f"the rule sees what the mirror stores, and column {name} is dropped."
            findings.add(draft.place, message, "Remove one of the two, or judge single rows before their masks.")
        elif masks.get(name.casefold()) is Mask.NULL:
            message = f"the rule sees what the mirror stores, and column {name} is masked: it is always NULL there."
            findings.add(draft.place, message, "Remove one of the two, or judge single rows before their masks.")
    if draft.expectation in _UNIQUE and named and all(masks.get(name.casefold()) is Mask.REDACT for name in named):
        message = f"no table can pass: column {named[0]} is masked, with one text in place of every value."
        findings.add(draft.place, message, "Take the mask `hash`, under which different values stay different.")
    return len(findings.problems) == before


def _masks(columns: Sequence[ContractColumn]) -> dict[str, Mask]:
    """The masks by the names of their columns, whose case is no matter."""
    return {column.name.casefold(): column.mask for column in columns if column.mask is not None}


def check_left_of_masks(
    draft: Draft, named: Sequence[str], columns: Sequence[ContractColumn], findings: Findings
) -> None:
    """Note a rule that sees what the mirror stores and that nothing can pass which a mask leaves of a value.

    Or that asks for a column in its `row_condition` which is always NULL there. Told only where it is certain; rules
    that let some rows break them, or leave some out, can be kept.

    Args:
        draft: the rule, well-formed.
        named: the columns that it names.
        columns: those that the contract declares.
        findings: where problems go.
    """
    masks, condition = _masks(columns), draft.kwargs.get("row_condition")
    # A function of Spark's may have an answer for NULL.
    is_plain = "(" not in str(condition) or draft.kwargs.get("condition_parser") != "spark"
    asked = [name for name in columns_in(condition) if name not in named] if is_plain else []
    for name in dict.fromkeys(asked):
        if masks.get(name.casefold()) in {Mask.DROP, Mask.NULL}:
            message = f"its row_condition sees what the mirror stores, and column {name} is never there."
            findings.add(draft.place, message, "Remove one of the two, or judge single rows before their masks.")
    if draft.kwargs.get("mostly", 1) != 1 or draft.kwargs.get("ignore_row_if", "never") != "never":
        return
    hidden = [name for name in named if _hides_all_of(draft, name, masks.get(name.casefold()))]
    redacted = [name for name in named if masks.get(name.casefold()) is Mask.REDACT]
    if len(redacted) > 1 and (
        draft.expectation == _APART or (draft.expectation == _GREATER and not draft.kwargs.get("or_equal"))
    ):
        hidden = redacted[:1]
    for name in hidden:
        mask = masks[name.casefold()]
        message = f"no value can pass: the rule sees what the mirror stores, and column {name} is masked ({mask})."
        findings.add(draft.place, message, "Remove one of the two, or judge single rows before their masks.")


def _hides_all_of(draft: Draft, name: str, mask: Mask | None) -> bool:
    """Whether what a mask makes of a value, whichever it was, passes no rule of a column."""
    if mask is None or mask not in _LEFT:
        return False
    shape, samples = _LEFT[mask]
    rules = [draft]
    if draft.expectation == _PAIRS:
        at = 0 if name == draft.kwargs["column_A"] else 1
        rules = [
            replace(
                draft, expectation=_IN_SET, kwargs={"value_set": [pair[at] for pair in draft.kwargs["value_pairs_set"]]}
            )
        ]
    return any(_lets_none_through(rule, shape, samples, of_one=mask is Mask.REDACT) for rule in rules)


def _lets_none_through(rule: Draft, shape: re.Pattern[str], samples: Sequence[str], *, of_one: bool) -> bool:
    if rule.expectation in {_IN_SET, *_SETS}:
        members = [value for value in rule.kwargs["value_set"] if value is not None]
        fits = [isinstance(value, str) and shape.fullmatch(value) is not None for value in members]
        return not (all(fits) if rule.expectation in WHOLE_SETS else any(fits))
    # Of a text that is one of many, its length alone is known.
    if not of_one and rule.expectation not in _LENGTHS:
        return False
    if rule.expectation in _JSON:
        return True
    if rule.expectation == _DISTINCT:
        least = rule.kwargs.get("min_value")
        return is_number(least) and (least > 1 or (least == 1 and bool(rule.kwargs.get("strict_min"))))
    return all(passes(sample, rule) is False for sample in samples)


def check_masks(contract: Contract, places: Sequence[Place], findings: Findings) -> None:
    """Note masked columns that a rule sees unmasked and that have no type.

    Args:
        contract: as it was read.
        places: where each of its columns stands.
        findings: where problems go.
    """
    for column, here in zip(contract.columns, places, strict=True):
        if column.name in contract.masks.judged and column.type is None:
            message = f"rules see {column.name} before its mask, and nothing says what type it has then."
            findings.add(here, message, "Give it a physicalType, or judge after the mask.")


def check_renamed(contract: Contract, renames: Mapping[str, str], findings: Findings) -> None:
    """Note masked columns that the table's settings rename to a name without a mask.

    Args:
        contract: as it was read.
        renames: the name that a column has by each that it had.
        findings: where problems go.
    """
    lines = {column.name.casefold(): column.line for column in contract.columns}
    for old, new in contract.masks.lost(renames):
        message = f"column {old} is masked, which the pipeline renames to {new}, and {new} has no mask."
        findings.add(("schema",), message, told_of_lost(old, new), lines.get(old.casefold()))
