"""A rule on its way from the file to the contract: stated, not yet checked or named."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from open_data_contract_standard.model import CustomProperty

from cdc_materializer.contract.document import Findings, Place
from cdc_materializer.contract.model import Action, Rule, Scope, canonical
from cdc_materializer.errors import MAX_QUARANTINED
from cdc_materializer.names import nearest

NOT_AVAILABLE = "is not available in this version"
REMOVE = "Remove it for now: a rule that is not enforced must not look as if it were."

#: Properties that have a meaning elsewhere, and would be taken for something here.
_MISPLACED = {
    "mask": "a column as a whole",
    "drop": "a column as a whole",
    "time_unit": "a column as a whole",
    "written_as": "a column as a whole",
    "judge": "the table as a whole",
    "max_quarantined": "the table as a whole",
    "shadow": "a rule or the table as a whole",
    # What `required` and the like do is not theirs to say: they hold the row, as if nothing stood there.
    "action": "a rule, under `quality`",
}

#: The kind of a rule that a primary key states: none of its columns is NULL.
OF_KEY = "primary_key"
_KINDS = {
    "expect_column_values_to_not_be_null": "not_null",
    "expect_column_values_to_be_null": "null",
    "expect_column_values_to_be_between": "between",
    "expect_column_values_to_be_in_set": "in_set",
    "expect_column_values_to_not_be_in_set": "not_in_set",
    "expect_column_values_to_match_regex": "pattern",
    "expect_column_value_lengths_to_be_between": "length",
}


@dataclass(frozen=True)
class Draft:
    """A rule as the file states it, before it is checked and named."""

    place: Place
    expectation: str
    kwargs: Mapping[str, Any]
    column: str | None
    name: str | None = None
    kind: str | None = None
    action: Action = Action.QUARANTINE
    severity: str = "error"
    description: str | None = None
    scope: Scope = Scope.ROW
    shadow: bool = False


def read_flag(entry: CustomProperty, at: Place, findings: Findings) -> bool:
    """Return a custom property that is true or false, noting one that is neither."""
    if not isinstance(entry.value, bool):
        findings.add(at, f"{entry.property} is not true or false.", "Write true or false.")
    return entry.value is True


def refuse_misplaced(
    properties: Sequence[CustomProperty] | None, here: Place, findings: Findings, known: Collection[str] = ()
) -> None:
    """Note the custom properties that would mean something elsewhere.

    Args:
        properties: what the file states.
        here: where.
        findings: where problems go.
        known: those that mean something here.
    """
    for index, entry in enumerate(properties or ()):
        at = (*here, "customProperties", index)
        if entry.property in _MISPLACED and entry.property not in known:
            message = f"the custom property {entry.property} belongs to {_MISPLACED[entry.property]}."
            findings.add(at, message, "Move it there.")


def refuse_unclear(
    properties: Sequence[CustomProperty] | None, here: Place, findings: Findings, known: Collection[str]
) -> None:
    """Note the custom properties that are named nearly as one that means something here, or that stand here twice.

    Args:
        properties: what the file states.
        here: where.
        findings: where problems go.
        known: those that mean something here.
    """
    seen: set[str] = set()
    for index, entry in enumerate(properties or ()):
        if entry.property in known and entry.property in seen:
            message = f"the custom property {entry.property} stands here twice."
            findings.add((*here, "customProperties", index), message, "Keep the one that is meant.")
        seen.add(entry.property or "")
        if entry.property and entry.property not in known and (near := nearest(entry.property, known)):
            at = (*here, "customProperties", index)
            findings.add(at, f"unknown custom property {entry.property[:40]!r}.", f"Did you mean {near}?")


def named(drafts: Sequence[Draft], findings: Findings) -> tuple[Rule, ...]:
    """Give each rule its name: the file's, or ``<column>.<kind>`` with a number where that repeats."""
    rules: list[Rule] = []
    taken: set[str] = set()
    numbered = _numbered(drafts)
    for index, draft in enumerate(drafts):
        name = numbered.get(index, draft.name or "")
        if name in taken:
            findings.add(draft.place, f"the rule name {name[:80]!r} is used twice.", "Give each rule its own name.")
        elif draft.name == MAX_QUARANTINED:
            message = f"{name} is what quarantine calls it where a batch would hold too much."
            findings.add(draft.place, message, "Give the rule another name.")
        taken.add(name)
        rules.append(
            Rule(name, draft.column, draft.expectation, draft.kwargs, draft.action, draft.severity,
                 draft.scope, findings.line(draft.place), draft.description, draft.shadow)
        )  # fmt: skip
    return tuple(rules)


def _numbered(drafts: Sequence[Draft]) -> dict[int, str]:
    """Names of the rules to which the file gives none, by their place among all of them.

    Which of several has which number is told by what they say and not by their order: it is no part of a contract, and
    quarantine has the names.
    """
    names: dict[int, str] = {}
    taken = {draft.name for draft in drafts if draft.name is not None}
    for index in sorted(
        (at for at, draft in enumerate(drafts) if draft.name is None), key=lambda at: _rank(drafts[at])
    ):
        draft = drafts[index]
        base = f"{draft.column or _first_column(draft.kwargs)}.{draft.kind or _kind(draft.expectation)}"
        choices = (base if number == 1 else f"{base}.{number}" for number in range(1, len(drafts) + 2))
        names[index] = next(choice for choice in choices if choice not in taken)
        taken.add(names[index])
    return names


def _rank(draft: Draft) -> tuple[bool, int, str]:
    """What a rule is numbered by: those of a column first, its options before its other rules, then what it says."""
    lists = ("quality", "relationships")
    of_list = next((number for number, name in enumerate(lists, 1) if name in draft.place), 0)
    said = [draft.expectation, draft.column, canonical(draft.kwargs), draft.action, draft.severity, draft.shadow]
    return "properties" not in draft.place, of_list, json.dumps(said, sort_keys=True, default=str)


def _first_column(kwargs: Mapping[str, Any]) -> str:
    listed = kwargs.get("column_list")
    return str(kwargs.get("column_A") or (listed[0] if isinstance(listed, list) and listed else "table"))


def _kind(expectation: str) -> str:
    short = expectation
    for prefix in ("expect_column_values_to_", "expect_column_", "expect_"):
        short = short.removeprefix(prefix)
    return _KINDS.get(expectation, short)
