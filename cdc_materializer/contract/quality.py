"""The `quality` entries of an ODCS element -> drafts of rules."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml
from open_data_contract_standard.model import CustomProperty, DataQuality, Relationship

from cdc_materializer.contract import table_rules
from cdc_materializer.contract.document import Findings, Place, parse_exact
from cdc_materializer.contract.drafts import NOT_AVAILABLE, REMOVE, Draft, read_flag, refuse_misplaced, refuse_unclear
from cdc_materializer.contract.expectations import KNOWN, PRESENTATION_KWARGS, REFUSED, snake_case
from cdc_materializer.contract.model import Action, Scope
from cdc_materializer.contract.table_expectations import TABLE
from cdc_materializer.names import nearest

_METRIC_ARGUMENTS: Mapping[str, frozenset[str]] = {
    "nullValues": frozenset(),
    "missingValues": frozenset({"missingValues"}),
    "invalidValues": frozenset({"validValues", "pattern"}),
}
#: What `rule` names in ODCS 3.0, and tools beside it, that has another name as a metric or is none, with what to write.
_EARLIER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(("nullCheck", "notNull", "null"), "nullValues"),
    **dict.fromkeys(("duplicateCount", "duplicateCheck", "uniqueCheck", "unique"), "duplicateValues"),
    **dict.fromkeys(("validValues", "invalid"), "invalidValues, with its arguments validValues or pattern"),
    "countCheck": "rowCount",
    **dict.fromkeys(("between", "betweenCheck"), "the options minimum and maximum of the column"),
}
_ENGINE = "greatexpectations"
#: What ODCS names, and what else is usual.
_SEVERITIES = ("info", "warning", "error", "critical", "fatal", "high", "medium", "low", "major", "minor", "blocker")
_KNOWN_PROPERTIES = ("action", "shadow")
#: What a rule of each type does not use, besides conditions; those of an expectation are told as such.
_UNUSED: Mapping[str, tuple[str, ...]] = {
    "library": ("query", "engine", "implementation"),
    "sql": ("metric", "rule", "arguments", "engine", "implementation"),
    "custom": ("metric", "rule", "arguments", "query"),
    "text": ("metric", "rule", "arguments", "query", "engine", "implementation", *table_rules.CONDITIONS),
}


def read_quality(
    entries: Sequence[DataQuality] | None, column: str | None, here: Place, findings: Findings
) -> Iterator[Draft]:
    """Yield the rules of one element's quality entries; ``column`` is None for those of the table."""
    for index, entry in enumerate(entries or ()):
        at = (*here, "quality", index)
        action, shadow = _action(entry.customProperties, at, findings)
        _check_severity(entry, at, findings)
        if action is None:
            continue
        for draft in _entry_rules(entry, column, at, findings):
            stated = entry.name or entry.id
            name = f"{stated}.{draft.kind}" if stated and draft.kind else stated
            own = action if draft.scope is Scope.ROW else _table_action(entry, action, at, findings)
            said, severity = entry.description or draft.description, entry.severity or "error"
            yield replace(draft, name=name, action=own, severity=severity, description=said, shadow=shadow)


def read_relationships(
    stated: Sequence[Relationship] | None, column: str | None, here: Place, findings: Findings
) -> Iterator[Draft]:
    """Yield the rules of those relationships that say what a broken one does; others describe, as ODCS has them."""
    for index, entry in enumerate(stated or ()):
        at = (*here, "relationships", index)
        action, shadow = _action(entry.customProperties, at, findings)
        if action is None or not is_rule(entry):
            continue
        for draft in table_rules.read_relationship(entry, column, at, findings):
            own = _table_action(entry, action, at, findings)
            yield replace(draft, name=entry.id, action=own, shadow=shadow)


def is_rule(entry: Relationship) -> bool:
    """Whether a relationship says what a broken one does."""
    return any(extra.property in {"action", "shadow"} for extra in entry.customProperties or ())


def _check_severity(entry: DataQuality, at: Place, findings: Findings) -> None:
    """Note a severity that is probably a misspelt one; ODCS leaves the words open."""
    stated = (entry.severity or "").casefold()
    if not stated or stated in _SEVERITIES:
        return
    swapped = [one for one in _SEVERITIES if sorted(one) == sorted(stated)]
    if near := (*swapped, nearest(stated, _SEVERITIES))[0]:
        findings.add((*at, "severity"), f"unknown severity {stated[:40]!r}.", f"Did you mean {near}?")


def _table_action(entry: DataQuality | Relationship, action: Action, at: Place, findings: Findings) -> Action:
    """Return what a broken rule about the table does: it blocks, unless the file says that it warns."""
    if not any(extra.property == "action" for extra in entry.customProperties or ()):
        return Action.BLOCK
    if action is Action.QUARANTINE:
        message = "a rule about the whole table does not say which rows to hold."
        findings.add(at, message, "The actions of such rules are block, the default, and warn.")
    return action


def _action(properties: Sequence[CustomProperty] | None, at: Place, findings: Findings) -> tuple[Action | None, bool]:
    """Return what a rule does when it fails, None for what is no action, and whether it is only tried (`shadow`)."""
    chosen: Action | None = Action.QUARANTINE
    shadow = False
    for index, extra in enumerate(properties or ()):
        place = (*at, "customProperties", index)
        if extra.property == "action":
            chosen = Action(extra.value) if extra.value in tuple(Action) else None
            if chosen is None:
                message = f"unknown action {str(extra.value)[:40]!r}."
                findings.add(place, message, "The actions are quarantine, block and warn.")
        elif extra.property == "shadow":
            shadow = read_flag(extra, place, findings)
    refuse_unclear(properties, at, findings, _KNOWN_PROPERTIES)
    refuse_misplaced(properties, at, findings, known=_KNOWN_PROPERTIES)
    return chosen, shadow


def _entry_rules(entry: DataQuality, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    kind = entry.type or ("library" if entry.metric or entry.rule else None)
    _refuse_unused(entry, kind, at, findings)
    if kind == "library":
        yield from _library(entry, column, at, findings)
    elif kind == "custom":
        yield from _custom(entry, column, at, findings)
    elif kind == "sql":
        yield from table_rules.read_sql(entry, column, at, findings)
    elif kind != "text":
        findings.add(at, f"unknown type of quality rule: {kind!r}.", "The types are library, sql, custom and text.")


def _refuse_unused(entry: DataQuality, kind: str | None, at: Place, findings: Findings) -> None:
    """Note what looks like a rule, or a part of one, and is read by nobody."""
    unused = [(key, (*at, key)) for key in _UNUSED.get(kind or "", ()) if getattr(entry, key) is not None]
    if kind == "text":
        unused += [
            (str(extra.property), (*at, "customProperties", index))
            for index, extra in enumerate(entry.customProperties or ())
            if extra.property in _KNOWN_PROPERTIES
        ]
    do = "Remove it, or make the rule one of type library, sql or custom, which uses it."
    for key, place in unused:
        findings.add(place, f"{key} says nothing beside type {kind}.", do)
    if entry.metric and entry.rule and entry.metric != entry.rule and kind == "library":
        findings.add((*at, "rule"), "metric and rule name different metrics.", "Keep the one that is meant.")


def _library(entry: DataQuality, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    metric = entry.metric or entry.rule
    if metric in table_rules.ALWAYS:
        yield from table_rules.read_metric(entry, metric, column, at, findings)
    elif metric is None or metric not in _METRIC_ARGUMENTS:
        known = _METRIC_ARGUMENTS.keys() | table_rules.ALWAYS
        near = _EARLIER_NAMES.get(str(metric)) or nearest(str(metric), known)
        do = f"Did you mean {near}?" if near else f"The metrics are {', '.join(sorted(known))}."
        findings.add(at, f"unknown metric {metric!r}.", do)
    elif column is None:
        findings.add(at, f"the metric {metric} needs a column.", "Move the rule under its column.")
    elif not table_rules.is_about_rows(entry):
        yield from table_rules.read_metric(entry, metric, column, at, findings)
    else:
        yield from _metric(metric, entry.arguments or {}, column, at, findings)


def _metric(metric: str, arguments: Mapping[str, Any], column: str, at: Place, findings: Findings) -> Iterator[Draft]:
    for key in arguments.keys() - _METRIC_ARGUMENTS[metric]:
        known = ", ".join(sorted(_METRIC_ARGUMENTS[metric])) or "none"
        findings.add((*at, "arguments", key), f"{metric} has no argument {key}.", f"Known: {known}.")
    if metric == "nullValues":
        yield Draft(at, "expect_column_values_to_not_be_null", {}, column)
    elif metric == "missingValues":
        listed = arguments.get("missingValues", [None])
        if not isinstance(listed, list):
            findings.add((*at, "arguments"), table_rules.NO_LIST, "Write a list.")
            return
        values = [value for value in listed if value is not None]
        if not values or None in listed:
            yield Draft(at, "expect_column_values_to_not_be_null", {}, column, kind="null" if values else None)
        if values:
            yield Draft(at, "expect_column_values_to_not_be_in_set", {"value_set": values}, column, kind="missing")
    else:
        both = len(arguments) > 1
        if not arguments:
            findings.add(at, "invalidValues says no values: it needs validValues or pattern.", "Add arguments.")
        if "validValues" in arguments:
            kwargs = {"value_set": arguments["validValues"]}
            yield Draft(at, "expect_column_values_to_be_in_set", kwargs, column, kind="values" if both else None)
        if "pattern" in arguments:
            kwargs = {"regex": arguments["pattern"]}
            yield Draft(at, "expect_column_values_to_match_regex", kwargs, column, kind="pattern" if both else None)


def _custom(entry: DataQuality, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    engine = (entry.engine or "").replace("-", "").replace("_", "").lower()
    if engine != _ENGINE:
        findings.add(at, f"the rule engine {entry.engine!r} {NOT_AVAILABLE}.", "Use engine: greatExpectations.")
        return
    for condition in [key for key in table_rules.CONDITIONS if getattr(entry, key) is not None]:
        message = f"{condition} says nothing beside an expectation."
        findings.add((*at, condition), message, "Remove it; the bounds are the expectation's own kwargs.")
    stated = _implementation(entry.implementation, (*at, "implementation"), findings)
    if stated is None:
        return
    written = next((stated[key] for key in ("type", "expectation_type", "expectation") if key in stated), None)
    expectation, kwargs = snake_case(str(written or "")), stated.get("kwargs", {})
    if written is None:
        findings.add((*at, "implementation"), "the implementation names no expectation.", "Add its type.")
    elif expectation not in KNOWN:
        near = nearest(expectation, KNOWN)
        do = f"Did you mean {near}?" if near else "See the gallery of Great Expectations 1.24."
        findings.add((*at, "implementation"), f"Great Expectations has no expectation {str(written)[:80]!r}.", do)
    elif not isinstance(kwargs, dict):
        findings.add((*at, "implementation"), "kwargs is not a mapping.", "Write the expectation's arguments there.")
    elif expectation in REFUSED:
        message = f"{expectation} cannot be used: {REFUSED[expectation]}."
        findings.add((*at, "implementation"), message, REMOVE)
    else:
        kept = {key: value for key, value in kwargs.items() if key not in PRESENTATION_KWARGS}
        own = kept.pop("column", column)
        of_table = expectation in TABLE or kept.get("mostly", 1) != 1
        scope = Scope.TABLE if of_table else Scope.ROW
        yield Draft((*at, "implementation"), expectation, kept, own if own is None else str(own), scope=scope)


def _implementation(stated: object, at: Place, findings: Findings) -> dict[str, Any] | None:
    """Return the expectation's own document: a mapping, or the text of one in YAML or JSON."""
    if isinstance(stated, str):
        try:
            stated = parse_exact(stated)  # YAML, and so JSON
        except (ValueError, yaml.YAMLError):
            findings.add(at, "the implementation is neither a mapping nor YAML or JSON text of one.", "Mend it.")
            return None
    if not isinstance(stated, dict):
        findings.add(at, "a custom rule needs an implementation with the expectation's type and kwargs.", "Add it.")
        return None
    known = {"type", "expectation_type", "expectation", "kwargs", *PRESENTATION_KWARGS}
    for key in stated.keys() - known:
        findings.add((*at, str(key)), f"unknown key {str(key)[:40]!r}.", "Known: type, kwargs and GX's meta.")
    return stated
