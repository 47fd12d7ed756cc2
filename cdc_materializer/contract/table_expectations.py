"""The expectations of Great Expectations 1.24.1 about a whole table, as data; ``expectations`` has those about rows.

What GX makes one aggregate of is asked from GX as a Spark column and measured in the one pass over the result. Of the
others GX runs its own jobs. A test holds the table to GX's classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

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
#: The kwarg of the expectation whose query gives the rows that break it.
ROWS_QUERY = "unexpected_rows_query"
#: Those that speak of each row and the one before it. A mirror has its rows in no order, so they are judged in that of
#: its key; GX would take them as Spark happens to read them.
IN_ORDER: Mapping[str, Literal["increasing", "decreasing"]] = {
    "expect_column_values_to_be_increasing": "increasing",
    "expect_column_values_to_be_decreasing": "decreasing",
}
#: The kind of a column of which GX says that it has a type of Spark's; of those left out a mirror has none.
KIND_OF_TYPE: Mapping[str, Family] = {
    **dict.fromkeys((f"{name}Type" for name in ("Byte", "Short", "Integer", "Long")), Family.NUMBER),
    **dict.fromkeys((f"{name}Type" for name in ("Decimal", "Float", "Double")), Family.NUMBER),
    **dict.fromkeys((f"{name}Type" for name in ("Char", "String", "Varchar")), Family.TEXT),
    **dict.fromkeys((f"{name}Type" for name in ("Array", "Map", "Struct")), Family.NESTED),
    "BinaryType": Family.BINARY,
    "BooleanType": Family.BOOLEAN,
    "DateType": Family.DATE,
    "TimestampNTZType": Family.TIMESTAMP_NTZ,
    "TimestampType": Family.TIMESTAMP,
}
#: The names by which GX calls Spark's types.
SPARK_TYPES = frozenset(
    f"{name}Type"
    for name in (
        "Array",
        "Binary",
        "Boolean",
        "Byte",
        "Char",
        "Date",
        "DayTimeInterval",
        "Decimal",
        "Double",
        "Float",
        "Integer",
        "Long",
        "Map",
        "Null",
        "Short",
        "String",
        "Struct",
        "TimestampNTZ",
        "Timestamp",
        "Varchar",
        "Variant",
        "YearMonthInterval",
    )
)

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


#: Of which every member of the set has to be among the values.
WHOLE_SETS = frozenset({"expect_column_distinct_values_to_contain_set", "expect_column_distinct_values_to_equal_set"})

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
    "expect_column_type_to_be": _native(("type_",), ("type_",), None),
    "expect_column_values_to_be_of_type": _native(("type_", "mostly"), ("type_",), None),
    "expect_column_values_to_be_in_type_list": _native(("type_list", "mostly"), ("type_list",), None),
    "expect_column_values_to_be_increasing": _native(("strictly", "mostly", *CONDITION_KWARGS), (), _ORDERED),
    "expect_column_values_to_be_decreasing": _native(("strictly", "mostly", *CONDITION_KWARGS), (), _ORDERED),
    "expect_column_values_to_not_be_outliers": _native(
        ("method", "multiplier", "mostly", *CONDITION_KWARGS), (), _NUMBER
    ),
    "unexpected_rows_expectation": _native((ROWS_QUERY, *CONDITION_KWARGS), (ROWS_QUERY,), None, ()),
}  # fmt: skip

#: Expectations about a table that are refused, and why.
REFUSED: Mapping[str, str] = {
    "expect_query_results_to_match_comparison": "on Spark Great Expectations 1.24 cannot ask a second data source; "
    "write `type: sql`",
    "expect_table_row_count_to_equal_other_table": "on Spark Great Expectations 1.24 knows no second table; "
    "write `type: sql`",
}
