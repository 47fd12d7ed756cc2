"""Rules about a whole table: what an ODCS file says of it, and whether a number that was measured is as it says.

Judged before a batch is published, on the rows that readers would see (`audit`). Here is no Spark.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from open_data_contract_standard.model import DataQuality, SchemaObject

from cdc_materializer.contract.document import Findings, Place
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.model import Limit, Rule, Scope
from cdc_materializer.names import nearest

ROW_COUNT, DUPLICATES, NULLS, MISSING, SQL = "rowCount", "duplicateValues", "nullValues", "missingValues", "sql"
#: Metrics that speak of the whole table whatever is asked of them.
ALWAYS = frozenset({ROW_COUNT, DUPLICATES})
CONDITIONS = {
    "mustBe": "must be",
    "mustNotBe": "must not be",
    "mustBeGreaterThan": "must be greater than",
    "mustBeGreaterOrEqualTo": "must be at least",
    "mustBeLessThan": "must be less than",
    "mustBeLessOrEqualTo": "must be at most",
    "mustBeBetween": "must be between",
    "mustNotBeBetween": "must not be between",
}
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?) ?%")
_BETWEEN = frozenset({"mustBeBetween", "mustNotBeBetween"})
_PERCENT = "percent"
_PERCENT_MAX = 100
_TABLE_WORDS = ("{table}", "{object}", "{model}", "${table}", "${object}", "${model}")
_COLUMN_WORDS = ("{column}", "{property}", "{field}", "${column}", "${property}", "${field}")


def is_about_rows(entry: DataQuality) -> bool:
    """Whether a metric asks each row alone: that not one breaks it."""
    stated = [key for key in CONDITIONS if getattr(entry, key) is not None]
    return stated == ["mustBe"] and entry.mustBe == 0 and entry.unit in {None, "rows", _PERCENT}


def read_metric(entry: DataQuality, metric: str, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    """Yield the rule of a metric about the whole table, noting what is wrong with it."""
    columns = [column] if column is not None else (entry.arguments or {}).get("properties", [])
    given = set(entry.arguments or {}) - ({"properties"} if metric == DUPLICATES and column is None else set())
    missing = (entry.arguments or {}).get("missingValues", [None]) if metric == MISSING else [None]
    if unknown := given - ({"missingValues"} if metric == MISSING else set()):
        findings.add((*at, "arguments"), f"{metric} has no argument {', '.join(sorted(unknown))}.", "Remove it.")
    if metric == ROW_COUNT and (column is not None or entry.unit == _PERCENT):
        findings.add(at, "rowCount counts the rows of a table.", "Move the rule to the table, without a percentage.")
    elif metric != ROW_COUNT and (not isinstance(columns, list) or not columns):
        findings.add(at, f"the metric {metric} needs a column.", "Move it under its column, or name `properties`.")
    elif not isinstance(missing, list):
        findings.add((*at, "arguments"), "missingValues is not a list.", "Write a list.")
    else:
        listed = {"columns": [str(name) for name in columns], "missing": missing, "unit": entry.unit or "rows"}
        yield from _draft(entry, metric, column, listed, at, findings)


def read_sql(entry: DataQuality, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    """Yield the rule of a query, whose answer is one number."""
    if not entry.query or not entry.query.strip():
        findings.add(at, "a rule in SQL needs a query.", "Add one that selects one number.")
        return
    yield from _draft(entry, SQL, column, {"query": entry.query.strip().rstrip(";")}, at, findings)


def read_limit(table: SchemaObject, place: Place, findings: Findings) -> Limit | None:
    """Return how many messages of a batch may be held: a number, or a share such as ``5%``."""
    for index, entry in enumerate(table.customProperties or ()):
        if entry.property == "max_quarantined":
            share = _SHARE.fullmatch(entry.value) if isinstance(entry.value, str) else None
            if share is not None:
                return Limit(Decimal(share[1]), is_share=True)
            if isinstance(entry.value, int) and not isinstance(entry.value, bool) and entry.value >= 0:
                return Limit(Decimal(entry.value))
            at = (*place, "customProperties", index)
            findings.add(at, "max_quarantined is neither a number nor a share.", "Write one such as 100, or 5%.")
    return None


def unique(column: str, at: Place) -> Draft:
    """The rule that ODCS's `unique` is."""
    kwargs = {"columns": [column], "missing": [None], "unit": "rows", "condition": "mustBe", "value": 0}
    return Draft(at, DUPLICATES, kwargs, column, kind="unique", scope=Scope.TABLE, description="Its values are unique.")


def _draft(
    entry: DataQuality, metric: str, column: str | None, kwargs: Mapping[str, Any], at: Place, findings: Findings
) -> Iterator[Draft]:
    stated = [key for key in CONDITIONS if getattr(entry, key) is not None]
    if len(stated) != 1:
        findings.add(at, f"{metric} needs one condition.", f"One of {', '.join(CONDITIONS)}.")
        return
    condition, value = stated[0], getattr(entry, stated[0])
    if entry.unit not in {None, "rows", _PERCENT}:
        near = nearest(entry.unit, ["rows", _PERCENT])
        do = f"Did you mean {near}?" if near else "Write rows or percent."
        findings.add((*at, "unit"), f"unknown unit {entry.unit[:40]!r}.", do)
    elif problem := _misfit(condition, value):
        findings.add((*at, condition), f"{condition}: {problem}.", "Mend the value.")
    else:
        of = f" of {', '.join(kwargs['columns'])}" if kwargs.get("columns") else ""
        limits = " and ".join(map(str, value)) if condition in _BETWEEN else str(value)
        percent = " percent" if entry.unit == _PERCENT else ""
        said = f"{metric}{of} {CONDITIONS[condition]} {limits}{percent}."
        stated_kwargs = {**kwargs, "condition": condition, "value": value}
        yield Draft(at, metric, stated_kwargs, column, scope=Scope.TABLE, description=said)


def _misfit(condition: str, value: object) -> str | None:
    values: list[Any] = value if condition in _BETWEEN and isinstance(value, list) else [value]
    if any(isinstance(one, bool) or not isinstance(one, int | float | Decimal) for one in values):
        return "it is not a number"
    if condition in _BETWEEN and (len(values) != len(("low", "high")) or values[0] > values[1]):
        return "it is not a list of the lower and the upper bound"
    return None


def check(draft: Draft, types: Collection[str], findings: Findings) -> None:
    """Note columns that a rule names and the contract does not declare."""
    for column in draft.kwargs.get("columns", ()):
        if column not in types:
            near = nearest(column, types)
            do = f"Did you mean {near}?" if near else "Declare it under properties."
            findings.add(draft.place, f"the rule names the column {column[:80]!r}, which is not declared.", do)


def query_of(rule: Rule, table: str, quoted_column: str | None) -> str:
    """A rule's query, with the words that stand for the table and the column replaced."""
    text: str = rule.kwargs["query"]
    # The longer spelling first: `${table}` has `{table}` in it.
    for word in sorted(_TABLE_WORDS, key=len, reverse=True):
        text = text.replace(word, table)
    for word in sorted(_COLUMN_WORDS, key=len, reverse=True) if quoted_column is not None else ():
        text = text.replace(word, quoted_column or "")
    return text


def holds(rule: Rule, measured: float | Decimal, rows: int) -> bool:
    """Whether a number is as a rule says; a share of no rows at all is zero.

    Args:
        rule: about the whole table.
        measured: what was counted, or what its query gave.
        rows: how many rows the table has.
    """
    found = Decimal(str(measured))
    if not found.is_finite():
        return False
    if rule.kwargs.get("unit") == _PERCENT:
        found = found * _PERCENT_MAX / rows if rows else Decimal(0)
    value = rule.kwargs["value"]
    low, high = (Decimal(str(one)) for one in (value if isinstance(value, Sequence) else (value, value)))
    tests = {
        "mustBe": found == low,
        "mustNotBe": found != low,
        "mustBeGreaterThan": found > low,
        "mustBeGreaterOrEqualTo": found >= low,
        "mustBeLessThan": found < low,
        "mustBeLessOrEqualTo": found <= low,
        "mustBeBetween": low <= found <= high,
        "mustNotBeBetween": not low <= found <= high,
    }
    return tests[rule.kwargs["condition"]]
