"""A rule in a sentence: what its expectation asks for, with the bounds, sets and patterns that the contract states.

Pure. Everything said is the contract's own; nothing of a row is known here.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from cdc_materializer.contract.model import Rule

#: The most members of a list that a sentence has, and the most characters of one of them.
_LISTED_MAX, _LENGTH_MAX = 12, 120
#: Where GX's words end, and what is said in their place with the argument of that name.
_WITH_ARGUMENT: Sequence[tuple[str, str, str]] = (
    ("to not be in set", "value_set", "to be none of {}"),
    ("to be in set", "value_set", "to be one of {}"),
    ("to contain set", "value_set", "to contain all of {}"),
    ("to equal set", "value_set", "to be all of {} and nothing else"),
    ("to be in set", "value_pairs_set", "to be one of {}"),
    ("to match regex", "regex", "to match {}"),
    ("to not match regex", "regex", "to not match {}"),
    ("to not match regex list", "regex_list", "to match none of {}"),
    ("to match strftime format", "strftime_format", "to be written as {}"),
    ("to equal", "value", "to equal {}"),
    ("to equal", "sum_total", "to equal {}"),
    ("to be less than", "threshold", "to be less than {}"),
    ("to be", "type_", "to be {}"),
    ("to be of type", "type_", "to be of type {}"),
    ("to be in type list", "type_list", "to be of one of the types {}"),
    ("to match ordered list", "column_list", "to be, in this order, {}"),
    ("to match set", "column_set", "to be {}"),
)
#: What GX calls the columns of a rule that names several.
_SUBJECTS = ("select column values", "multicolumn values", "compound columns")


def in_words(rule: Rule) -> str:
    """Say what a rule asks for: ``Expects column values to be between 0 and 100.`` for one."""
    words = rule.expectation.removeprefix("expect_").replace("_", " ")
    return f"Expects {_with_columns(_with_arguments(words, rule.kwargs), rule.kwargs)}{_limited(rule.kwargs)}."


def _with_arguments(words: str, kwargs: Mapping[str, Any]) -> str:
    bounds = _bounds(kwargs)
    if words.endswith("to be between") and bounds:
        return words.removesuffix("between") + bounds
    if words.endswith("to match regex list") and "not" not in words and "regex_list" in kwargs:
        number = "all" if kwargs.get("match_on") == "all" else "one"
        return words.removesuffix("regex list") + f"{number} of {_several(kwargs['regex_list'])}"
    for end, name, said in _WITH_ARGUMENT:
        if words.endswith(end) and kwargs.get(name) is not None:
            return words.removesuffix(end) + said.format(_several(kwargs[name]))
    return words


def _with_columns(words: str, kwargs: Mapping[str, Any]) -> str:
    if "column_A" in kwargs and "column_B" in kwargs:
        one, other = kwargs["column_A"], kwargs["column_B"]
        if words.endswith("a to be greater than b"):
            return f"{one} to be {'at least' if kwargs.get('or_equal') else 'greater than'} {other}"
        return words.replace("column pair values", f"{one} and {other}", 1)
    if "column_list" in kwargs:
        names = _several(kwargs["column_list"])
        words = words.replace("multicolumn sum", f"the sum of {names}", 1)
        for subject in _SUBJECTS:
            words = words.replace(subject, names, 1)
    return words


def _bounds(kwargs: Mapping[str, Any]) -> str:
    """The bounds in words; nothing where there are none."""
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    is_open = bool(kwargs.get("strict_min")), bool(kwargs.get("strict_max"))
    if low is not None and high is not None and is_open == (False, False):
        return f"between {_one(low)} and {_one(high)}"
    least = f"{'more than' if is_open[0] else 'at least'} {_one(low)}" if low is not None else ""
    most = f"{'less than' if is_open[1] else 'at most'} {_one(high)}" if high is not None else ""
    return " and ".join(filter(None, (least, most)))


def _limited(kwargs: Mapping[str, Any]) -> str:
    """Of which rows, and of how many of them."""
    mostly, condition = kwargs.get("mostly", 1), kwargs.get("row_condition")
    share = f", in at least {_one(Decimal(str(mostly)) * 100)} % of the rows" if mostly != 1 else ""
    return share + (f", where {_cut(str(condition))}" if condition is not None else "")


def _several(value: object) -> str:
    if not isinstance(value, list | tuple):
        return _one(value)
    further = f" and {len(value) - _LISTED_MAX:,} more" if len(value) > _LISTED_MAX else ""
    return ", ".join(map(_one, value[:_LISTED_MAX])) + further


def _one(value: object) -> str:
    """A value as it is read aloud: numbers with all their digits, a text in quotes where it is no plain word."""
    match value:
        case list() | tuple():
            return f"({', '.join(map(_one, value))})"
        case bool() | None:
            return {True: "true", False: "false", None: "NULL"}[value]
        case Decimal():
            plain = f"{value:f}"
            return plain.rstrip("0").rstrip(".") if "." in plain else plain
        case str() if not re.fullmatch(r"\w[\w:./+-]*(?<!\.)", value):
            return f'"{_cut(value)}"'
        case _:
            return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LENGTH_MAX else f"{text[:_LENGTH_MAX]}…"
