"""The expectations of Great Expectations 1.24.1 that a contract may name, as data.

A contract is checked without importing GX (that takes seconds), so what the check needs of it stands here; a test
holds the table to GX's own classes. Three kinds:

- `ROW`: yes or no for each row, with a Spark condition in GX. These are compiled (see ``judge``).
- `TABLE`: about the whole table (see ``table_expectations``).
- `REFUSED`: GX itself does not have them on Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from cdc_materializer.contract.table_expectations import REFUSED as REFUSED_OF_TABLES
from cdc_materializer.contract.table_expectations import TABLE
from cdc_materializer.contract.types import Family


@dataclass(frozen=True)
class RowExpectation:
    """How one row expectation is written.

    ``columns``: the kwargs that name columns. ``kwargs``: the others it knows. ``needed``: those of them that it cannot
    do without. ``families``: the kinds of columns that it can judge, None for all.
    """

    columns: tuple[str, ...]
    kwargs: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    families: frozenset[Family] | None = None


_ONE = ("column",)
_PAIR = ("column_A", "column_B")
_LIST = ("column_list",)
_TEXT = frozenset({Family.TEXT})
_SIZED = frozenset({Family.TEXT, Family.BINARY})
_ORDERED = frozenset({Family.NUMBER, Family.TEXT, Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ})
_FLAT = frozenset(Family) - {Family.NESTED}
_SIMPLE = _FLAT - {Family.BINARY}
_BOUNDS = ("min_value", "max_value", "strict_min", "strict_max")

#: Kwargs that every row expectation takes.
COMMON_KWARGS = ("mostly", "row_condition", "condition_parser")

#: Kwargs of GX that change how a result is shown, never what fails; accepted and left out.
PRESENTATION_KWARGS = ("meta", "notes", "result_format", "description", "catch_exceptions", "severity", "id")

ROW: Mapping[str, RowExpectation] = {
    "expect_column_values_to_not_be_null": RowExpectation(_ONE),
    "expect_column_values_to_be_null": RowExpectation(_ONE),
    "expect_column_values_to_be_between": RowExpectation(_ONE, _BOUNDS, (), _ORDERED - _TEXT),
    "expect_column_values_to_be_in_set": RowExpectation(_ONE, ("value_set",), ("value_set",), _SIMPLE),
    "expect_column_values_to_not_be_in_set": RowExpectation(_ONE, ("value_set",), ("value_set",), _SIMPLE),
    "expect_column_values_to_match_regex": RowExpectation(_ONE, ("regex",), ("regex",), _TEXT),
    "expect_column_values_to_not_match_regex": RowExpectation(_ONE, ("regex",), ("regex",), _TEXT),
    "expect_column_values_to_match_regex_list": RowExpectation(
        _ONE, ("regex_list", "match_on"), ("regex_list",), _TEXT
    ),
    "expect_column_values_to_not_match_regex_list": RowExpectation(_ONE, ("regex_list",), ("regex_list",), _TEXT),
    "expect_column_value_lengths_to_be_between": RowExpectation(_ONE, _BOUNDS, (), _SIZED),
    "expect_column_value_lengths_to_equal": RowExpectation(_ONE, ("value",), ("value",), _SIZED),
    "expect_column_values_to_be_json_parseable": RowExpectation(_ONE, (), (), _TEXT),
    "expect_column_values_to_match_json_schema": RowExpectation(_ONE, ("json_schema",), ("json_schema",), _TEXT),
    "expect_column_values_to_match_strftime_format": RowExpectation(
        _ONE, ("strftime_format",), ("strftime_format",), _TEXT
    ),
    "expect_column_pair_values_a_to_be_greater_than_b": RowExpectation(
        _PAIR, ("or_equal", "ignore_row_if"), (), _ORDERED
    ),
    "expect_column_pair_values_to_be_equal": RowExpectation(_PAIR, ("ignore_row_if",), (), _FLAT),
    "expect_column_pair_values_to_be_in_set": RowExpectation(
        _PAIR, ("value_pairs_set", "ignore_row_if"), ("value_pairs_set",), _SIMPLE
    ),
    "expect_multicolumn_sum_to_equal": RowExpectation(
        _LIST, ("sum_total", "ignore_row_if"), ("sum_total",), frozenset({Family.NUMBER})
    ),
    "expect_multicolumn_values_to_be_equal": RowExpectation(_LIST, ("ignore_row_if",), (), _FLAT),
    "expect_select_column_values_to_be_unique_within_record": RowExpectation(_LIST, ("ignore_row_if",), (), _FLAT),
}

_NO_SPARK = "Great Expectations 1.24 has no Spark implementation of it"

#: Expectations that are refused, and why.
REFUSED: Mapping[str, str] = {
    "expect_column_values_to_match_like_pattern": _NO_SPARK,
    "expect_column_values_to_match_like_pattern_list": _NO_SPARK,
    "expect_column_values_to_not_match_like_pattern": _NO_SPARK,
    "expect_column_values_to_not_match_like_pattern_list": _NO_SPARK,
    "expect_column_values_to_be_dateutil_parseable": _NO_SPARK,
    **REFUSED_OF_TABLES,
}

#: Every name that GX registers.
KNOWN = frozenset(ROW) | frozenset(REFUSED) | frozenset(TABLE)


def snake_case(name: str) -> str:
    """Return the registered name of an expectation written in snake, camel or class case."""
    if "_" in name:
        return name.lower()
    spaced = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")
    return spaced.replace("_k_l_", "_kl_")
