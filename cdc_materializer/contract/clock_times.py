"""Times of day in a contract, beside a column that holds them: `10:30` is the number of microseconds since midnight."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from cdc_materializer.contract.checks import named_columns
from cdc_materializer.contract.document import Findings
from cdc_materializer.contract.drafts import Draft
from cdc_materializer.contract.expectations import ROW
from cdc_materializer.contract.model import ContractColumn
from cdc_materializer.contract.ranges import OF_VALUES
from cdc_materializer.contract.types import Family, family

_WRITTEN = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9](?:\.[0-9]{1,9})?))?")
_SECONDS_A_MINUTE, _MINUTES_AN_HOUR = 60, 60
_MICROS_A_SECOND = 1_000_000
#: Arguments that are values of the column, or lists of them.
_BOUNDS, _LISTS = ("min_value", "max_value"), ("value_set", "missing")
_PAIRS, _ROWS = "value_pairs_set", "rows"


def clocks_of(columns: Sequence[ContractColumn], types: Mapping[str, str | None]) -> frozenset[str]:
    """Return the columns that rules see as times of day.

    Args:
        columns: those that the contract declares.
        types: Spark DDL type by column as the rules see it; a mask may make a text of a time.
    """
    clocks = {column.name for column in columns if column.declared is not None and column.declared.is_clock}
    return frozenset(name for name in clocks if (ddl := types.get(name)) and family(ddl) is Family.NUMBER)


def in_microseconds(draft: Draft, clocks: frozenset[str], findings: Findings) -> Draft:
    """Return a rule with the times of day that it compares with such a column as numbers, noting texts that are none.

    Args:
        draft: the rule, as the file states it.
        clocks: the columns that hold times of day.
        findings: where problems go.
    """
    named = named_columns(draft) if draft.expectation in ROW else []
    if not clocks & {draft.column, *named}:
        return draft
    wrong: list[str] = []

    def read(value: object) -> object:
        found = _micros(value)
        if found is None and value is not None:
            wrong.append(str(value))
        return found

    kwargs = _pairs_read(draft.kwargs, [name in clocks for name in named], read)
    if draft.column in clocks:
        kwargs = _values_read(kwargs, draft.expectation, read)
    if wrong:
        message = "a time of day is written HH:MM, HH:MM:SS or HH:MM:SS.ffffff, from 00:00 to 23:59:59.999999."
        findings.add(draft.place, message, "Mend it, or write the microseconds since midnight.")
    return replace(draft, kwargs=kwargs)


def _values_read(kwargs: Mapping[str, Any], expectation: str, read: Callable[[object], object]) -> dict[str, Any]:
    found = dict(kwargs)
    for key in _BOUNDS if expectation in OF_VALUES else ():
        if key in found:
            found[key] = read(found[key])
    for key in _LISTS:
        if isinstance(found.get(key), list):
            found[key] = [read(value) for value in found[key]]
    if _ROWS in found:
        found[_ROWS] = {kind: _values_read(asked, kind, read) for kind, asked in found[_ROWS].items()}
    return found


def _pairs_read(
    kwargs: Mapping[str, Any], are_clocks: Sequence[bool], read: Callable[[object], object]
) -> dict[str, Any]:
    pairs = kwargs.get(_PAIRS)
    if not isinstance(pairs, list):
        return dict(kwargs)
    is_pair = [isinstance(pair, list) and len(pair) == len(are_clocks) for pair in pairs]
    found = [
        [read(value) if is_clock else value for value, is_clock in zip(pair, are_clocks, strict=True)] if fits else pair
        for pair, fits in zip(pairs, is_pair, strict=True)
    ]
    return {**kwargs, _PAIRS: found}


def _micros(value: object) -> object:
    """The number that a text stands for, and what is no text as it is; None for a text that is no time of day."""
    if not isinstance(value, str):
        return value
    written = _WRITTEN.fullmatch(value)
    if written is None:
        return value if _is_number(value) else None
    hours, minutes, seconds = written.groups(default="0")
    total = (int(hours) * _MINUTES_AN_HOUR + int(minutes)) * _SECONDS_A_MINUTE + Decimal(seconds)
    micros = total * _MICROS_A_SECOND
    return int(micros) if micros == int(micros) else micros


def _is_number(text: str) -> bool:
    try:
        Decimal(text)
    except ArithmeticError:
        return False
    return True
