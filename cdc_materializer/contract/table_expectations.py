"""The expectations of Great Expectations 1.24.1 about a whole table, as data; ``expectations`` has those about rows.

What GX makes one aggregate of is asked from GX as a Spark column and measured in the one pass over the result. Of the
others GX runs its own jobs. A test holds the table to GX's classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cdc_materializer.contract.types import Family


class Measure(StrEnum):
    """What is measured of a column, by the name of GX's metric."""

    MAX = "column.max"
    MIN = "column.min"
    SUM = "column.sum"
    MEAN = "column.mean"
    STDEV = "column.standard_deviation"
    DISTINCT = "column.distinct_values.count"
    UNIQUE_SHARE = "column.unique_proportion"
    KNOWN_SHARE = "column.non_null_proportion"
    ROWS = "table.row_count"


@dataclass(frozen=True)
class TableExpectation:
    """How one expectation about a table is written.

    ``measure``: what is compared with its bounds; None where GX judges it by jobs of its own. ``columns``: the kwargs
    that name columns. ``kwargs``: the others it knows. ``needed``: those of them that it cannot do without.
    ``families``: the kinds of columns that it can judge, None for all.
    """

    measure: Measure | None
    columns: tuple[str, ...] = ("column",)
    kwargs: tuple[str, ...] = ()
    needed: tuple[str, ...] = ()
    families: frozenset[Family] | None = None


#: Kwargs by which an expectation speaks of some rows alone.
CONDITION_KWARGS = ("row_condition", "condition_parser")

_BOUNDS = ("min_value", "max_value", "strict_min", "strict_max")
_BOUNDED = (*_BOUNDS, *CONDITION_KWARGS)
_NUMBER = frozenset({Family.NUMBER})
_ORDERED = frozenset({Family.NUMBER, Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ})
#: Kinds whose values GX's sets compare as they are meant.
_LISTED = frozenset({Family.TEXT, Family.NUMBER, Family.BOOLEAN, Family.DATE})
_FLAT = frozenset(Family) - {Family.NESTED}
_SET = ("value_set", *CONDITION_KWARGS)


def _measured(
    measure: Measure, families: frozenset[Family] | None = _FLAT, columns: tuple[str, ...] = ("column",)
) -> TableExpectation:
    return TableExpectation(measure, columns, _BOUNDED, (), families)


def _native(
    kwargs: tuple[str, ...],
    needed: tuple[str, ...] = (),
    families: frozenset[Family] | None = _FLAT,
    columns: tuple[str, ...] = ("column",),
) -> TableExpectation:
    return TableExpectation(None, columns, kwargs, needed, families)


TABLE: Mapping[str, TableExpectation] = {
    "expect_column_max_to_be_between": _measured(Measure.MAX, _ORDERED),
    "expect_column_min_to_be_between": _measured(Measure.MIN, _ORDERED),
    "expect_column_sum_to_be_between": _measured(Measure.SUM, _NUMBER),
    "expect_column_mean_to_be_between": _measured(Measure.MEAN, _NUMBER),
    "expect_column_stdev_to_be_between": _measured(Measure.STDEV, _NUMBER),
    "expect_column_unique_value_count_to_be_between": _measured(Measure.DISTINCT),
    "expect_column_proportion_of_unique_values_to_be_between": _measured(Measure.UNIQUE_SHARE),
    "expect_column_proportion_of_non_null_values_to_be_between": _measured(Measure.KNOWN_SHARE, None),
    "expect_table_row_count_to_be_between": _measured(Measure.ROWS, None, ()),
    "expect_table_row_count_to_equal": TableExpectation(Measure.ROWS, (), ("value", *CONDITION_KWARGS), ("value",)),
    "expect_column_median_to_be_between": _native(_BOUNDED, (), _NUMBER),
    "expect_column_quantile_values_to_be_between": _native(
        ("quantile_ranges", "allow_relative_error", *CONDITION_KWARGS), ("quantile_ranges",), _NUMBER
    ),
    "expect_column_distinct_values_to_be_in_set": _native(_SET, ("value_set",), _LISTED),
    "expect_column_distinct_values_to_contain_set": _native(_SET, ("value_set",), _LISTED),
    "expect_column_distinct_values_to_equal_set": _native(_SET, ("value_set",), _LISTED),
    "expect_column_most_common_value_to_be_in_set": _native((*_SET, "ties_okay"), ("value_set",), _LISTED),
    "expect_column_kl_divergence_to_be_less_than": _native(
        ("partition_object", "threshold", "tail_weight_holdout", "internal_weight_holdout", "bucketize_data",
         *CONDITION_KWARGS),
        ("partition_object", "threshold"),
    ),
    "expect_column_value_z_scores_to_be_less_than": _native(
        ("threshold", "double_sided", "mostly", *CONDITION_KWARGS), ("threshold", "double_sided"), _NUMBER
    ),
    "expect_column_values_to_be_unique": _native(("mostly", *CONDITION_KWARGS)),
    "expect_compound_columns_to_be_unique": _native(
        ("ignore_row_if", "mostly", *CONDITION_KWARGS), (), _FLAT, ("column_list",)
    ),
    "expect_column_to_exist": _native(("column_index",), (), None),
    "expect_table_column_count_to_be_between": _native(("min_value", "max_value"), (), None, ()),
    "expect_table_column_count_to_equal": _native(("value",), ("value",), None, ()),
    "expect_table_columns_to_match_ordered_list": _native(("column_list",), ("column_list",), None, ()),
    "expect_table_columns_to_match_set": _native(("column_set", "exact_match"), ("column_set",), None, ()),
}  # fmt: skip

_TYPES = "the contract's own types and `incompatible_schema` say what a column may be"
_ORDER = "rows of a mirror have no order"

#: Expectations about a table that are refused, and why.
REFUSED: Mapping[str, str] = {
    "expect_column_type_to_be": _TYPES,
    "expect_column_values_to_be_of_type": _TYPES,
    "expect_column_values_to_be_in_type_list": _TYPES,
    "expect_column_values_to_be_increasing": _ORDER,
    "expect_column_values_to_be_decreasing": _ORDER,
    "expect_column_values_to_not_be_outliers": "its limits move with each batch; write them as numbers",
    "expect_query_results_to_match_comparison": "it needs a data source of GX's; write `type: sql`",
    "expect_table_row_count_to_equal_other_table": "GX has it for SQL databases alone; write `type: sql`",
    "unexpected_rows_expectation": "write its query as `type: sql`, with count(*) and mustBe: 0",
}
