"""Rules about a whole table: what one pass measures against Great Expectations run natively, and exact answers."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from cdc_materializer.contract import Action, Rule, Scope
from cdc_materializer.contract.gx import is_met, preload
from cdc_materializer.contract.table_expectations import IN_ORDER, ROWS_QUERY, SPARK_TYPES, TABLE
from cdc_materializer.contract.table_rules import conditions_of
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.audit import Result, judge_table
from cdc_materializer.names import TableName
from tests.spark.test_judge import COLUMNS, ROWS

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_D = Decimal
_SPARK = {"condition_parser": "spark"}

Stated = tuple[str, str | None, dict[str, Any]]

#: Measured in one pass; GX natively has to come to the same verdict, over rows and over none.
MEASURED: list[Stated] = [
    ("column_max_to_be_between", "n", {"max_value": 2**31 - 1}),
    ("column_max_to_be_between", "n", {"max_value": 2**31 - 1, "strict_max": True}),
    ("column_max_to_be_between", "f", {"max_value": 1}),
    ("column_max_to_be_between", "day", {"max_value": "9999-12-31"}),
    ("column_max_to_be_between", "n", {"max_value": 3, "row_condition": "id <> 4", **_SPARK}),
    ("column_max_to_be_between", "n", {"max_value": 2, "row_condition": "id <> 4", **_SPARK}),
    ("column_min_to_be_between", "n", {"min_value": -(2**31)}),
    ("column_min_to_be_between", "n", {"min_value": -(2**31), "strict_min": True}),
    ("column_min_to_be_between", "day", {"min_value": "0001-01-02"}),
    ("column_sum_to_be_between", "m", {"min_value": 2**31 + 6, "max_value": 2**31 + 6}),
    ("column_sum_to_be_between", "m", {"max_value": 2**31 + 5}),
    ("column_sum_to_be_between", "n", {"min_value": 6, "max_value": 6, "row_condition": "n < 9 and n > 0", **_SPARK}),
    ("column_sum_to_be_between", "f", {"max_value": 1}),
    ("column_mean_to_be_between", "id", {"min_value": 4, "max_value": 4}),
    ("column_mean_to_be_between", "id", {"min_value": 4, "strict_min": True}),
    ("column_mean_to_be_between", "fee", {"max_value": 1}),
    ("column_mean_to_be_between", "f", {"min_value": 0, "max_value": 1, "row_condition": "id in (1, 5)", **_SPARK}),
    ("column_stdev_to_be_between", "id", {"min_value": 2.1, "max_value": 2.2}),
    ("column_stdev_to_be_between", "id", {"max_value": 2}),
    ("column_stdev_to_be_between", "id", {"max_value": 2, "row_condition": "id = 1", **_SPARK}),
    ("column_unique_value_count_to_be_between", "name", {"min_value": 5, "max_value": 5}),
    ("column_unique_value_count_to_be_between", "flag", {"min_value": 3}),
    ("column_proportion_of_unique_values_to_be_between", "we`ird", {"min_value": 0.8, "max_value": 0.8}),
    ("column_proportion_of_unique_values_to_be_between", "flag", {"min_value": 0.9}),
    ("column_proportion_of_non_null_values_to_be_between", "name", {"min_value": 0.7}),
    ("column_proportion_of_non_null_values_to_be_between", "name", {"min_value": 0.8}),
    ("table_row_count_to_be_between", None, {"min_value": 7, "max_value": 7}),
    ("table_row_count_to_be_between", None, {"max_value": 6}),
    ("table_row_count_to_equal", None, {"value": 7}),
    ("table_row_count_to_equal", None, {"value": 2, "row_condition": "flag", **_SPARK}),
    ("column_values_to_not_be_null", "n", {"mostly": 0.7}),
    ("column_values_to_not_be_null", "n", {"mostly": 0.8}),
    ("column_values_to_be_between", "n", {"min_value": 0, "mostly": 0.8}),
    ("column_values_to_be_between", "n", {"min_value": 0, "mostly": 0.81}),
    ("column_values_to_match_regex", "name", {"regex": "^abc$", "mostly": 0.2}),
    ("column_values_to_be_in_set", "name", {"value_set": ["abc"], "mostly": 0.3, "row_condition": "id < 5", **_SPARK}),
    ("column_pair_values_to_be_equal", None, {"column_A": "n", "column_B": "m", "mostly": 0.3}),
    ("column_pair_values_to_be_equal", None, {"column_A": "n", "column_B": "m", "mostly": 0.6,
                                              "ignore_row_if": "either_value_is_missing"}),
    ("multicolumn_sum_to_equal", None, {"column_list": ["n", "m"], "sum_total": 3, "mostly": 0.4,
                                        "ignore_row_if": "any_value_is_missing"}),
]  # fmt: skip

#: Judged by GX's own jobs: the verdict that is right for the rows.
NATIVE: list[tuple[Stated, bool]] = [
    (("column_median_to_be_between", "id", {"min_value": 4, "max_value": 4}), True),
    (("column_median_to_be_between", "id", {"min_value": 5}), False),
    (("column_median_to_be_between", "id", {"min_value": 6, "row_condition": "id > 4", **_SPARK}), True),
    (("column_median_to_be_between", "id", {"max_value": _D("3.5"), "row_condition": {
        "type": "comparison", "column": {"name": "fee"}, "operator": ">", "parameter": _D("0.5")}}), True),
    (("column_quantile_values_to_be_between", "id",
      {"quantile_ranges": {"quantiles": [0.0, 1.0], "value_ranges": [[1, 1], [7, None]]}}), True),
    (("column_quantile_values_to_be_between", "id",
      {"quantile_ranges": {"quantiles": [0.5], "value_ranges": [[5, 9]]}}), False),
    (("column_distinct_values_to_be_in_set", "we`ird", {"value_set": ["x", "y", "", "grüße", "z"]}), True),
    (("column_distinct_values_to_be_in_set", "we`ird", {"value_set": ["x", "y"]}), False),
    (("column_distinct_values_to_contain_set", "fee", {"value_set": [_D("0.1"), 1]}), True),
    (("column_distinct_values_to_contain_set", "fee", {"value_set": [_D("0.2")]}), False),
    (("column_distinct_values_to_equal_set", "flag", {"value_set": [True, False]}), True),
    (("column_distinct_values_to_equal_set", "day2", {"value_set": ["2026-11-21"]}), False),
    (("column_most_common_value_to_be_in_set", "we`ird", {"value_set": ["x"]}), True),
    (("column_most_common_value_to_be_in_set", "we`ird", {"value_set": ["y"]}), False),
    (("column_most_common_value_to_be_in_set", "day2", {"value_set": ["2026-11-21"]}), True),
    (("column_most_common_value_to_be_in_set", "fee",
      {"value_set": [_D("0.1")], "row_condition": "id = 1", **_SPARK}), True),
    (("column_distinct_values_to_be_in_set", "big",
      {"value_set": [10**38 - 2], "row_condition": "id = 4", **_SPARK}), False),
    (("column_distinct_values_to_be_in_set", "big",
      {"value_set": [10**38 - 1], "row_condition": "id = 4", **_SPARK}), True),
    (("column_distinct_values_to_contain_set", "amount", {"value_set": [_D("0.1"), _D("0.125")]}), False),
    (("column_distinct_values_to_contain_set", "amount", {"value_set": [_D("0.125")]}), False),
    (("column_distinct_values_to_equal_set", "fee",
      {"value_set": [_D("0.1"), _D("0.125")], "row_condition": "id = 1", **_SPARK}), False),
    (("column_distinct_values_to_equal_set", "day2",
      {"value_set": ["2026-11-21"], "row_condition": "id < 4", **_SPARK}), True),
    (("column_value_z_scores_to_be_less_than", "id", {"threshold": 3, "double_sided": True}), True),
    (("column_value_z_scores_to_be_less_than", "id", {"threshold": 1, "double_sided": True}), False),
    (("column_kl_divergence_to_be_less_than", "flag",
      {"partition_object": {"values": [True, False], "weights": [0.5, 0.5]}, "threshold": 0.9}), True),
    (("column_kl_divergence_to_be_less_than", "we`ird",
      {"partition_object": {"values": ["x", "q"], "weights": [0.5, 0.5]}, "threshold": 0.1}), False),
    (("column_values_to_be_unique", "id", {}), True),
    (("column_values_to_be_unique", "flag", {}), False),
    (("compound_columns_to_be_unique", None, {"column_list": ["id", "n"]}), True),
    (("compound_columns_to_be_unique", None, {"column_list": ["flag", "local"]}), False),
    (("column_to_exist", "a.b", {}), True),
    (("column_to_exist", "A.B", {}), True),
    (("column_to_exist", "nowhere", {}), False),
    (("table_column_count_to_equal", None, {"value": 17}), True),
    (("table_column_count_to_be_between", None, {"max_value": 16}), False),
    (("table_columns_to_match_set", None, {"column_set": list(COLUMNS)}), True),
    (("table_columns_to_match_set", None, {"column_set": [name.upper() for name in COLUMNS]}), True),
    (("table_columns_to_match_ordered_list", None, {"column_list": ["n", "id"]}), False),
    (("column_type_to_be", "n", {"type_": "IntegerType"}), True),
    (("column_type_to_be", "we`ird", {"type_": "IntegerType"}), False),
    (("column_values_to_be_of_type", "amount", {"type_": "DecimalType"}), True),
    (("column_values_to_be_of_type", "amount", {"type_": "LongType"}), False),
    (("column_values_to_be_in_type_list", "a.b", {"type_list": ["LongType", "IntegerType"]}), True),
    (("column_values_to_be_in_type_list", "local", {"type_list": ["TimestampType"]}), False),
    (("column_values_to_be_increasing", "id", {"strictly": True}), True),
    (("column_values_to_be_increasing", "n", {}), False),
    (("column_values_to_be_increasing", "n", {"mostly": _D("0.8")}), True),
    (("column_values_to_be_increasing", "n", {"mostly": _D("0.81")}), False),
    (("column_values_to_be_increasing", "n", {"row_condition": "id < 5", **_SPARK}), True),
    (("column_values_to_be_decreasing", "F", {"row_condition": "id < 3", **_SPARK}), True),
    (("column_values_to_be_decreasing", "id", {}), False),
    (("column_values_to_be_decreasing", "day2", {"row_condition": "id < 7", **_SPARK}), True),
    (("column_values_to_be_decreasing", "day2", {"row_condition": "id < 7", "strictly": True, **_SPARK}), False),
    (("column_values_to_not_be_outliers", "id", {}), True),
    (("column_values_to_not_be_outliers", "id", {"method": "std", "multiplier": 1}), False),
    (("unexpected_rows_expectation", None, {ROWS_QUERY: "SELECT * FROM {batch} WHERE `a.b` > 3;"}), True),
    (("unexpected_rows_expectation", None, {ROWS_QUERY: "SELECT * FROM {batch} WHERE name LIKE '{{%'"}), False),
    (("unexpected_rows_expectation", None,
      {ROWS_QUERY: "SELECT * FROM {batch} WHERE name LIKE '{{%'", "row_condition": "id < 7", **_SPARK}), True),
]  # fmt: skip

#: Where binary floats would blur what is asked, or GX has no answer: the rows' exact one.
EXACT: list[tuple[Stated, bool]] = [
    (("column_sum_to_be_between", "id", {"max_value": _D("27.999999999999999999")}), False),
    (("column_mean_to_be_between", "fee", {"max_value": _D("2000000000.278")}), True),
    (("column_mean_to_be_between", "fee", {"max_value": _D("2000000000.27799999999999")}), False),
    (("column_max_to_be_between", "amount", {"max_value": _D("9999999999.989")}), False),
    (("column_max_to_be_between", "at", {"max_value": "9999-12-31T00:00:00+00:00"}), True),
    (("column_min_to_be_between", "local", {"min_value": "2026-11-21T10:00:00.123457"}), False),
    (("column_max_to_be_between", "f", {"min_value": 0}), False),
    (("column_values_to_be_between", "n", {"min_value": 0, "mostly": _D("0.8000000000000000001")}), False),
]


def _rule(stated: Stated) -> Rule:
    expectation, column, kwargs = stated
    prefix = "" if expectation.startswith("unexpected") else "expect_"
    return Rule(str(stated), column, prefix + expectation, kwargs, Action.BLOCK, scope=Scope.TABLE)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """The rows of the parity test of rules about rows."""
    schema = ", ".join(f"`{name.replace('`', '``')}` {ddl}" for name, ddl in COLUMNS.items())
    return spark.createDataFrame(ROWS, schema).coalesce(1).cache()


def _judged(rows: DataFrame, rules: list[Rule], types: Mapping[str, str] = COLUMNS) -> dict[str, str | None]:
    """Rules that are broken or cannot be judged, with the reason of the latter."""
    lake = Lake(rows.sparkSession, "lake")
    result = Result(lake, TableName.parse("s.t"), rows, types, None, ("id",))
    return {one.rule.name: one.why for one in judge_table(result, rules)}


def _plain(value: object) -> Any:  # noqa: ANN401 - what YAML would give GX
    return float(value) if isinstance(value, Decimal) else value


@pytest.fixture(scope="module")
def broken(rows: DataFrame) -> dict[str, dict[str, str | None]]:
    """The rules that are broken, measured in one pass: over the rows, and over none."""
    rules = [_rule(stated) for stated in MEASURED]
    return {"rows": _judged(rows, rules), "none": _judged(rows.where("false"), rules)}


@pytest.mark.parametrize("which", ["rows", "none"])
@pytest.mark.parametrize("stated", MEASURED, ids=str)
def test_what_one_pass_measures_is_what_gx_finds(
    stated: Stated, which: str, rows: DataFrame, broken: dict[str, dict[str, str | None]]
) -> None:
    """A rule about the table has the verdict that Great Expectations comes to natively; over an empty table too."""
    rule = _rule(stated)
    column = {"column": rule.column} if rule.column is not None else {}
    names = {name: name.replace(".", "_").replace("`", "_") for name in COLUMNS}
    plain = rows.where("true" if which == "rows" else "false").toDF(*names.values())
    kwargs = {key: _plain(value) for key, value in rule.kwargs.items()}
    preload()

    met = is_met(rule.expectation, {key: names.get(value, value) for key, value in column.items()} | kwargs, plain)

    assert (str(stated) not in broken[which]) == met
    assert broken[which].get(str(stated)) is None


def test_what_gx_judges_itself_is_right(rows: DataFrame) -> None:
    """Medians, quantiles, sets of values and the like: GX judges the rows, whatever their columns are named."""
    found = _judged(rows, [_rule(stated) for stated, _ in NATIVE])

    assert found == {str(stated): None for stated, holds in NATIVE if not holds}


def test_columns_that_spark_keeps_apart_are_two_to_gx(rows: DataFrame) -> None:
    """Python's casefold makes one of these names."""
    two = rows.select(rows["id"].alias("straße"), rows["name"].alias("strasse"))
    stated: list[Stated] = [
        ("column_to_exist", "STRASSE", {}),
        ("table_columns_to_match_ordered_list", None, {"column_list": ["STRAßE", "Strasse"]}),
        ("column_distinct_values_to_contain_set", "strasse", {"value_set": ["abc"]}),
    ]

    assert _judged(two, [_rule(one) for one in stated], {"straße": "int", "strasse": "string"}) == {}


def test_measures_are_exact_past_binary_floats(rows: DataFrame) -> None:
    """Sums, means and shares are compared as they are, where doubles would blur them."""
    found = _judged(rows, [_rule(stated) for stated, _ in EXACT])

    assert found == {str(stated): None for stated, holds in EXACT if not holds}


def test_a_sum_that_no_decimal_holds_is_not_judged(rows: DataFrame) -> None:
    """Its rule blocks, as one that fails does, and says why."""
    rule = _rule(("column_sum_to_be_between", "big", {"min_value": 0}))

    assert _judged(rows, [rule]) == {rule.name: "ARITHMETIC_OVERFLOW"}


def test_every_expectation_about_a_table_is_held_to_gx() -> None:
    """No expectation about tables is judged without a test that says how."""
    native = {_rule(stated).expectation for stated, _ in NATIVE}

    assert set(TABLE) <= native | {_rule(stated).expectation for stated in MEASURED}
    assert native == {name for name in TABLE if not TABLE[name].measure}


@pytest.mark.parametrize("kwargs", [{}, {"strictly": True}, {"mostly": 0.8}], ids=str)
@pytest.mark.parametrize("expectation", IN_ORDER)
def test_the_order_of_the_key_gives_what_gx_finds_in_rows_so_sorted(
    rows: DataFrame, expectation: str, kwargs: dict[str, Any]
) -> None:
    """GX takes rows as they come: of those that come by their key it says what is said of the rows as they are."""
    ways = {"up": "id", "down": "-id", "there and back": "n", "the same": "1", "in pairs": "cast(id / 2 as int)"}
    table = rows.select("id", *[F.expr(f"cast({way} as int)").alias(name) for name, way in ways.items()])
    shuffled, types = table.orderBy(F.xxhash64("id")), {"id": "bigint", **dict.fromkeys(ways, "int")}
    stated: list[Stated] = [(expectation.removeprefix("expect_"), name, kwargs) for name in ways]
    preload()

    broken = _judged(shuffled, [_rule(one) for one in stated], types)

    sorted_rows = table.orderBy("id").coalesce(1)
    met = {str(one): is_met(expectation, {"column": one[1], **kwargs}, sorted_rows) for one in stated}
    assert broken == {name: None for name, is_so in met.items() if not is_so}
    assert len(set(met.values())) > 1


def test_the_types_that_a_rule_may_name_are_spark_s() -> None:
    """By the names of PySpark's classes, which GX looks up."""
    found = {name for name in dir(spark_types) if _is_type_of_columns(getattr(spark_types, name))}

    assert found >= SPARK_TYPES
    assert {type(field.dataType).__name__ for field in _parsed(COLUMNS)} <= SPARK_TYPES


def _is_type_of_columns(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, spark_types.DataType)


def _parsed(columns: Mapping[str, str]) -> list[spark_types.StructField]:
    schema = spark_types.StructType.fromDDL(", ".join(f"c{at} {ddl}" for at, ddl in enumerate(columns.values())))
    assert isinstance(schema, spark_types.StructType)
    return schema.fields


def test_a_query_for_rows_can_do_nothing_but_read(rows: DataFrame) -> None:
    """One that would write cannot be judged, and so blocks; nothing was done."""
    rule = _rule(("unexpected_rows_expectation", None, {ROWS_QUERY: "DROP VIEW {batch}"}))

    found = _judged(rows, [rule])

    assert found == {rule.name: "PARSE_SYNTAX_ERROR: '{table}'"}


def test_a_rule_that_cannot_be_judged_is_told_and_hides_no_other(rows: DataFrame) -> None:
    """One that ends the pass is found out, others keep their verdicts, and no value is in what is told."""
    rules = [
        _rule(("column_max_to_be_between", "n", {"max_value": 1})),
        _rule(("column_max_to_be_between", "gone", {"max_value": 1})),
        _rule(("column_median_to_be_between", "name", {"max_value": 1})),
        _rule(("table_row_count_to_equal", None, {"value": 1, "row_condition": "cast(name as int) = 1", **_SPARK})),
        _rule(("table_row_count_to_equal", None, {"value": 7})),
    ]

    found = _judged(rows, rules)

    assert found.keys() == {rule.name for rule in rules[:4]}
    assert found[rules[0].name] is None
    assert all(found[rule.name] for rule in rules[1:4])
    assert not any("grüße" in str(why) or "abc" in str(why) for why in found.values())


def test_so_many_values_may_be_invalid(rows: DataFrame) -> None:
    """`invalidValues` counts the rows whose value is none of those listed, or not written so; NULL is neither."""
    asked = conditions_of({"validValues": ["x", "y", "X"], "pattern": "^[a-z]*$"})
    kwargs = {"columns": ["we`ird"], "rows": asked, "unit": "rows", "condition": "mustBe"}

    def rule(number: int) -> Rule:
        said = {**kwargs, "value": number}
        return Rule(f"{number}", "we`ird", "invalidValues", said, Action.BLOCK, scope=Scope.TABLE)

    assert _judged(rows, [rule(1), rule(2), rule(3)]).keys() == {"1", "3"}


def test_values_that_stand_for_none_are_compared_as_values_of_their_column(rows: DataFrame) -> None:
    """`missingValues` finds 0 in a decimal that is written 0.00, and -1 in a double that is written -1.0."""
    found = {"amount": [None, 0], "f": [0, _D("0.10")], "flag": [True], "day": [None, "2026-11-21"], "name": [""]}
    missing = {"amount": 3, "f": 2, "flag": 3, "day": 5, "name": 1}

    def rule(column: str, number: int) -> Rule:
        said = {"columns": [column], "missing": found[column], "unit": "rows", "condition": "mustBe", "value": number}
        return Rule(f"{column}{number}", column, "missingValues", said, Action.BLOCK, scope=Scope.TABLE)

    asked = [rule(column, number + more) for column, number in missing.items() for more in (0, 1)]
    assert _judged(rows, asked) == {f"{column}{number + 1}": None for column, number in missing.items()}


def test_rows_that_their_key_tells_apart_are_not_counted(rows: DataFrame) -> None:
    """What has the key among its columns is unique whatever the rows are."""

    def rule(*columns: str) -> Rule:
        said = {"columns": list(columns), "missing": [None], "unit": "rows", "condition": "mustBe", "value": 0}
        return Rule(" ".join(columns), columns[0], "duplicateValues", said, Action.BLOCK, scope=Scope.TABLE)

    assert _judged(rows.union(rows), [rule("ID"), rule("name", "id"), rule("name"), rule("n", "name")]) == {
        "name": None,
        "n name": None,
    }


@pytest.mark.parametrize("column", ["count", "Count"])
def test_a_column_may_be_named_as_what_is_counted(rows: DataFrame, column: str) -> None:
    """Whatever a column is called, its values are unique where they are, and not where they are not."""
    said = {"columns": [column], "missing": [None], "unit": "rows", "condition": "mustBe", "value": 0}
    rule = Rule("unique", column, "duplicateValues", said, Action.BLOCK, scope=Scope.TABLE)

    assert _judged(rows.select("id", F.col("id").alias(column)), [rule]) == {}
    assert _judged(rows.select("id", F.lit(1).alias(column)), [rule]) == {"unique": None}


def test_values_that_another_mirror_does_not_have_break_a_relationship(
    spark: SparkSession, namespace: str, rows: DataFrame
) -> None:
    """NULL refers to nothing; of several columns all have to match; a mirror that is not there cannot be judged."""
    spark.sql(f"CREATE TABLE lake.{namespace}.people (id int, name string) USING iceberg")
    spark.sql(f"INSERT INTO lake.{namespace}.people VALUES (1, 'abc'), (2, ''), (3, 'x'), ({2**31 - 1}, null)")
    lake, mirror = Lake(spark, "lake"), TableName.parse(f"{namespace}.orders")

    def rule(name: str, columns: list[str], table: str, to: list[str]) -> Rule:
        kwargs = {"columns": columns, "table": table, "to": to}
        return Rule(name, None, "references", kwargs, Action.BLOCK, scope=Scope.TABLE)

    rules = [
        rule("kept", ["m"], "people", ["id"]),
        rule("broken", ["n"], f"{namespace}.people", ["id"]),
        rule("two columns", ["n", "name"], "people", ["id", "name"]),
        rule("no such mirror", ["n"], "nobody", ["id"]),
        rule("no such column", ["n"], "people", ["age"]),
    ]

    found = {one.rule.name: one.why for one in judge_table(Result(lake, mirror, rows, COLUMNS, None), rules)}

    assert found.keys() == {"broken", "two columns", "no such mirror", "no such column"}
    assert [found["broken"], found["two columns"]] == [None, None]
    assert "NOT_FOUND" in str(found["no such mirror"])
    assert found["no such column"] is not None


@pytest.mark.parametrize(
    ("before", "unit", "bounds", "holds"),
    [
        (None, "rows", [0, 0], True),
        (0, "percent", [0, 0], True),
        (7, "rows", [0, 0], True),
        (5, "rows", [0, 1], False),
        (5, "percent", [0, 40], True),
        (5, "percent", [0, 39], False),
        (6, "percent", [-5, 16], False),
    ],
)
def test_the_change_of_the_row_count_is_that_since_readers_saw_it(
    rows: DataFrame,
    before: int | None,
    unit: str,
    bounds: list[int],
    holds: bool,  # noqa: FBT001 - what is expected
) -> None:
    """In rows or in percent of those before; the first rows of a table change nothing."""
    kwargs = {"columns": [], "unit": unit, "condition": "mustBeBetween", "value": bounds}
    rule = Rule("change", None, "rowCountChange", kwargs, Action.BLOCK, scope=Scope.TABLE)
    seen = None if before is None else rows.where(F.col("id") <= before)

    lake, mirror = Lake(rows.sparkSession, "lake"), TableName.parse("s.t")

    assert (judge_table(Result(lake, mirror, rows, COLUMNS, seen), [rule]) == []) == holds


def _asks(name: str, query: str, value: int) -> Rule:
    kwargs = {"query": query, "condition": "mustBe", "value": value}
    return Rule(name, None, "sql", kwargs, Action.BLOCK, scope=Scope.TABLE)


@pytest.mark.parametrize("current", ["spark_catalog", "lake"])
def test_a_query_names_mirrors_as_the_pipeline_does(
    spark: SparkSession, namespace: str, rows: DataFrame, current: str
) -> None:
    """Without the catalog too: another mirror is what readers see, the mirror itself what the batch would leave.

    So it is where the lake is Spark's own catalog, in which the mirror has that name.

    In full it is what readers see, and whatever a query has named so far it names still: a column of a table that is
    called like the namespace.
    """
    spark.sql(f"CREATE TABLE lake.{namespace}.people USING iceberg AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE lake.{namespace}.`all-orders` USING iceberg AS SELECT 1 AS id")
    mirror, before = TableName.parse(f"{namespace}.all-orders"), spark.catalog.currentCatalog()
    own, people = f"{namespace}.`all-orders`", f"{namespace}.people"
    rules = [
        _asks("in two parts", f"SELECT count(*) FROM {own} WHERE `all-orders`.id > 0", 7),
        _asks("in one", "SELECT count(*) FROM `all-orders`", 7),
        _asks("in full", f"SELECT count(*) FROM lake.{own}", 1),
        _asks("beside", f"SELECT count(*) FROM {own} o JOIN {people} USING (id)", 1),
        _asks("both", f"SELECT (SELECT count(*) FROM {{object}}) - (SELECT count(*) FROM {people})", 6),
        _asks("with", f"WITH `all-orders` AS (SELECT * FROM {own} WHERE id > 4) SELECT count(*) FROM `all-orders`", 3),
        _asks("as it was", f"SELECT count(*) FROM {{object}} {namespace} WHERE {namespace}.id > 0", 7),
        _rule(("unexpected_rows_expectation", None, {ROWS_QUERY: f"SELECT * FROM {people} JOIN {{batch}} USING (id)"})),
    ]
    result = Result(Lake(spark, "lake"), mirror, rows, COLUMNS, None)
    spark.catalog.setCurrentCatalog(current)
    try:
        found = {one.rule.name: one.why for one in judge_table(result, rules)}
        left = spark.catalog.currentCatalog()
    finally:
        spark.catalog.setCurrentCatalog(before)

    assert found == {rules[-1].name: None}
    assert left == current
    assert not spark.catalog.tableExists("`all-orders`")


def test_what_a_query_names_and_there_is_none_of_is_told(rows: DataFrame) -> None:
    """The name that the contract has written, and no value: what ends a query that runs is told by its kind."""
    rules = [
        _asks("column", "SELECT sum(`amuont`) FROM {object}", 0),
        _asks("of the table", "SELECT sum({object}.amuont) FROM {object}", 0),
        _asks("table", "SELECT count(*) FROM lake.shop.custmers", 0),
        _asks("function", "SELECT cuont(id) FROM {object}", 0),
        _asks("syntax", "SELECT count(*) FORM {object}", 0),
        _asks("value", "SELECT sum(cast(name AS int)) FROM {object}", 0),
    ]
    found = _judged(rows, rules)

    assert found == {
        "column": "UNRESOLVED_COLUMN.WITH_SUGGESTION: `amuont`",
        "of the table": "UNRESOLVED_COLUMN.WITH_SUGGESTION: `amuont`",
        "table": "TABLE_OR_VIEW_NOT_FOUND: `lake`.`shop`.`custmers`",
        "function": "UNRESOLVED_ROUTINE: `cuont`",
        "syntax": "PARSE_SYNTAX_ERROR: '{table}'",
        "value": "CAST_INVALID_INPUT",
    }
