"""Rules about a whole table: what an ODCS file says of it, and whether a number that was measured is as it says.

Judged before a batch is published, on the rows that readers would see (`audit`). Here is no Spark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from string import Formatter
from typing import Any

from open_data_contract_standard.model import DataQuality, Relationship, SchemaObject

from cdc_materializer.contract.document import Findings, Place
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.literals import is_number
from cdc_materializer.contract.model import Limit, Rule, Scope
from cdc_materializer.contract.table_expectations import ROWS_QUERY
from cdc_materializer.names import TableName, nearest

ROW_COUNT, DUPLICATES, NULLS, MISSING, SQL = "rowCount", "duplicateValues", "nullValues", "missingValues", "sql"
INVALID = "invalidValues"
#: What the values that stand for none are compared by.
NOT_IN_SET = "expect_column_values_to_not_be_in_set"
#: How many rows more there are than before the batch; and values that another mirror does not have.
ROW_CHANGE, REFERENCES = "rowCountChange", "references"
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
_ALL_PERCENT = 100
_SHARE = re.compile(r"(\d{1,3}(?:\.\d{1,9})?) ?%")
_BETWEEN = frozenset({"mustBeBetween", "mustNotBeBetween"})
PERCENT = "percent"
_WHOLE = 100
_ARGUMENTS = {MISSING: {"missingValues"}, INVALID: {"validValues", "pattern"}}
NO_LIST = "missingValues is not a list."
_COMPARED, _PREVIOUS = "comparedTo", "previous"
#: How GX's queries call the table.
_BATCH = "batch"
_NAMED = re.compile(r"[\w-]+(\.[\w-]+){1,4}")
_TABLE_WORDS = ("{table}", "{object}", "{model}", "${table}", "${object}", "${model}")
_PLACEHOLDER = re.compile(r"\$?\{[A-Za-z]\w*\}")
#: Behind comments and brackets, which say nothing of what a statement does.
_FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(\w+)", re.DOTALL)
_READING = frozenset({"select", "with", "from", "table", "values"})
_COLUMN_WORDS = ("{column}", "{property}", "{field}", "${column}", "${property}", "${field}")


def is_about_rows(entry: DataQuality) -> bool:
    """Whether a metric asks each row alone: that not one breaks it."""
    stated = [key for key in CONDITIONS if getattr(entry, key) is not None]
    return stated == ["mustBe"] and entry.mustBe == 0 and entry.unit in {None, "rows", PERCENT}


def read_metric(entry: DataQuality, metric: str, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    """Yield the rule of a metric about the whole table, noting what is wrong with it."""
    if metric == ROW_COUNT and _COMPARED in (entry.arguments or {}):
        yield from _row_change(entry, column, at, findings)
        return
    columns = [column] if column is not None else (entry.arguments or {}).get("properties", [])
    given = set(entry.arguments or {}) - ({"properties"} if metric == DUPLICATES and column is None else set())
    missing = (entry.arguments or {}).get("missingValues", [None]) if metric == MISSING else [None]
    if unknown := given - _ARGUMENTS.get(metric, set()):
        findings.add((*at, "arguments"), f"{metric} has no argument {', '.join(sorted(unknown))}.", "Remove it.")
    if metric == ROW_COUNT and (column is not None or entry.unit == PERCENT):
        do = f"Move the rule to the table; a percentage takes arguments: {{{_COMPARED}: {_PREVIOUS}}}."
        findings.add(at, "rowCount counts the rows of a table.", do)
    elif metric != ROW_COUNT and (not isinstance(columns, list) or not columns):
        findings.add(at, f"the metric {metric} needs a column.", "Move it under its column, or name `properties`.")
    elif not isinstance(missing, list):
        findings.add((*at, "arguments"), NO_LIST, "Write a list.")
    elif metric == INVALID and not given:
        findings.add(at, "invalidValues says no values: it needs validValues or pattern.", "Add arguments.")
    else:
        listed: dict[str, Any] = {"columns": [str(name) for name in columns], "missing": missing}
        listed["unit"] = entry.unit or "rows"
        listed |= {"rows": conditions_of(entry.arguments or {})} if metric == INVALID else {}
        yield from _draft(entry, metric, column, listed, at, findings)


def conditions_of(arguments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What `invalidValues` asks of each row: arguments by expectation."""
    asked = {
        "validValues": ("expect_column_values_to_be_in_set", "value_set"),
        "pattern": ("expect_column_values_to_match_regex", "regex"),
    }
    return {asked[key][0]: {asked[key][1]: value} for key, value in arguments.items()}


def _row_change(entry: DataQuality, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    """Yield the rule that compares the number of rows with that before the batch."""
    if column is not None:
        findings.add(at, "rowCount counts the rows of a table.", "Move the rule to the table.")
    elif entry.arguments != {_COMPARED: _PREVIOUS}:
        message = f"rowCount can be compared with the {_PREVIOUS} snapshot alone."
        findings.add((*at, "arguments"), message, f"Write {{{_COMPARED}: {_PREVIOUS}}}.")
    else:
        yield from _draft(entry, ROW_CHANGE, None, {"columns": [], "unit": entry.unit or "rows"}, at, findings)


def read_relationship(entry: Relationship, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    """Yield the rule that each value is one of another mirror's; NULL refers to nothing."""
    to = [entry.to] if isinstance(entry.to, str) else list(entry.to or ())
    stated = [entry.from_] if isinstance(entry.from_, str) else list(entry.from_ or ())
    own = [column] if column is not None else [name.rpartition(".")[2] for name in stated]
    targets = [target.rpartition(".") for target in to]
    tables = {table for table, _, _ in targets}
    if entry.type not in {None, "foreignKey"}:
        findings.add(at, f"unknown type of relationship: {entry.type[:40]!r}.", "The type is foreignKey.")
    elif not own or len(own) != len(to) or len(tables) != 1 or not all(map(_NAMED.fullmatch, to)):
        message = "the relationship does not say which columns refer to which of one table."
        findings.add(at, message, "Write to: customers.id, with the mirror's namespace (shop.customers.id) or without.")
    else:
        there = [name for _, _, name in targets]
        kwargs = {"columns": own, "table": next(iter(tables)), "to": there, "condition": "mustBe", "value": 0}
        said = f"Each {', '.join(own)} is one of {', '.join(to)}."
        yield Draft(at, REFERENCES, kwargs, column, kind=REFERENCES, scope=Scope.TABLE, description=said)


def other_table(rule: Rule, own: TableName) -> TableName:
    """The table that a rule refers to: one beside its own where it names no namespace."""
    named = rule.kwargs["table"]
    return TableName.parse(named if "." in named else ".".join((*own.namespace, named)))


def read_sql(entry: DataQuality, column: str | None, at: Place, findings: Findings) -> Iterator[Draft]:
    """Yield the rule of a query, whose answer is one number."""
    if not entry.query or not entry.query.strip():
        findings.add(at, "a rule in SQL needs a query.", "Add one that selects one number.")
        return
    for message, do in _broken_query(entry.query, column):
        findings.add((*at, "query"), message, do)
    yield from _draft(entry, SQL, column, {"query": entry.query.strip().rstrip(";")}, at, findings)


def _broken_query(query: str, column: str | None) -> Iterator[tuple[str, str]]:
    """What is wrong with a query, as far as it can be told without Spark, and what to do."""
    first = _FIRST_WORD.match(query)
    if first is None or first[1].casefold() not in _READING:
        yield "a query can only read: it begins with SELECT or WITH.", "Write one that selects one number."
    for word in dict.fromkeys(found[0] for found in _PLACEHOLDER.finditer(query)):
        if word in _COLUMN_WORDS and column is None:
            yield (
                f"{word} stands for a column, and the rule is about the table.",
                "Move it under its column, or name it.",
            )
        elif word not in {*_TABLE_WORDS, *_COLUMN_WORDS} and (near := nearest(word, (*_TABLE_WORDS, *_COLUMN_WORDS))):
            yield f"{word} stands for nothing.", f"Did you mean {near}?"


def read_limit(table: SchemaObject, place: Place, findings: Findings) -> Limit | None:
    """Return how many messages of a batch may be held: a number, or a share such as ``5%``."""
    for index, entry in enumerate(table.customProperties or ()):
        if entry.property == "max_quarantined":
            share = _SHARE.fullmatch(entry.value) if isinstance(entry.value, str) else None
            if share is not None and Decimal(share[1]) <= _ALL_PERCENT:
                return Limit(Decimal(share[1]), is_share=True)
            if isinstance(entry.value, int) and not isinstance(entry.value, bool) and entry.value >= 0:
                return Limit(Decimal(entry.value))
            at = (*place, "customProperties", index)
            what = "neither a number nor a share" if share is None else "more than a batch has, so it never stops one"
            findings.add(at, f"max_quarantined is {what}.", "Write one such as 100, or 5%.")
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
    if entry.unit not in {None, "rows", PERCENT}:
        near = nearest(entry.unit, ["rows", PERCENT])
        do = f"Did you mean {near}?" if near else "Write rows or percent."
        findings.add((*at, "unit"), f"unknown unit {entry.unit[:40]!r}.", do)
    elif problem := _misfit(condition, value):
        findings.add((*at, condition), f"{condition}: {problem}.", "Mend the value.")
    else:
        of = f" of {', '.join(kwargs['columns'])}" if kwargs.get("columns") else ""
        limits = " and ".join(map(str, value)) if condition in _BETWEEN else str(value)
        percent = " percent" if entry.unit == PERCENT else ""
        what = f"{ROW_COUNT}, compared with the snapshot before," if metric == ROW_CHANGE else metric
        said = f"{what}{of} {CONDITIONS[condition]} {limits}{percent}."
        stated_kwargs = {**kwargs, "condition": condition, "value": value}
        yield Draft(at, metric, stated_kwargs, column, scope=Scope.TABLE, description=said)


def _misfit(condition: str, value: object) -> str | None:
    values: list[Any] = value if condition in _BETWEEN and isinstance(value, list) else [value]
    if not all(map(is_number, values)):
        return "it is not a number"
    if condition in _BETWEEN and (len(values) != len(("low", "high")) or values[0] > values[1]):
        return "it is not a list of the lower and the upper bound"
    return None


def query_of(rule: Rule | Draft, table: str, quoted_column: str | None) -> str:
    """A rule's query, with the words that stand for the table and the column replaced."""
    text: str = rule.kwargs["query"]
    # The longer spelling first: `${table}` has `{table}` in it.
    for word in sorted(_TABLE_WORDS, key=len, reverse=True):
        text = text.replace(word, table)
    for word in sorted(_COLUMN_WORDS, key=len, reverse=True) if quoted_column is not None else ():
        text = text.replace(word, quoted_column or "")
    return text


def broken_rows_query(query: object) -> str | None:
    """Say why a query of GX's for the rows that break a rule cannot be asked; None where it can."""
    if not isinstance(query, str) or not query.strip():
        return "it is no query"
    try:
        asked = [(name, form, conversion) for _, name, form, conversion in Formatter().parse(query) if name is not None]
    except ValueError:
        return "a brace has no other; one that is meant as it is is written twice"
    if any((name, form or "", conversion) != (_BATCH, "", None) for name, form, conversion in asked):
        return "it has something else than {batch} in braces; those that are meant as they are are written twice"
    return None if asked else "it does not ask {batch}, the table"


def rows_query_of(rule: Rule | Draft, table: str) -> str:
    """GX's query for the rows that break a rule, asked of a table."""
    text: str = rule.kwargs[ROWS_QUERY]
    return text.rstrip("; \t\r\n").format(**{_BATCH: table})


def reach(kwargs: Mapping[str, Any]) -> tuple[tuple[Decimal | None, bool], tuple[Decimal | None, bool]]:
    """The least and the largest number that a condition lets through, each with whether it is one of them; None: any.

    Args:
        kwargs: those of a metric or a query.
    """
    value = kwargs["value"]
    low, high = (Decimal(str(one)) for one in (value if isinstance(value, Sequence) else (value, value)))
    return {
        "mustBe": ((low, True), (high, True)),
        "mustBeGreaterThan": ((low, False), (None, False)),
        "mustBeGreaterOrEqualTo": ((low, True), (None, False)),
        "mustBeLessThan": ((None, False), (high, False)),
        "mustBeLessOrEqualTo": ((None, False), (high, True)),
        "mustBeBetween": ((low, True), (high, True)),
    }.get(kwargs["condition"], ((None, False), (None, False)))


def holds(rule: Rule, measured: float | Decimal, rows: int) -> bool:
    """Whether a number is as a rule says; a share of no rows at all is zero.

    Args:
        rule: about the whole table.
        measured: what was counted, or what its query gave.
        rows: how many rows a percentage is of.
    """
    found = Decimal(str(measured))
    if not found.is_finite():
        return False
    if rule.kwargs.get("unit") == PERCENT:
        found = found * _WHOLE / rows if rows else Decimal(0)
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
