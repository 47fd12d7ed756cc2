"""The compiled conditions against Great Expectations run natively, and against exact answers where GX has none."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_materializer.contract import gx
from cdc_materializer.contract.expectations import KNOWN, ROW, snake_case
from cdc_materializer.contract.expectations import REFUSED as NOT_ON_SPARK
from cdc_materializer.contract.judge import COMPILED, compile_rules
from cdc_materializer.contract.model import Rule, Scope
from cdc_materializer.errors import ContractInvalid
from tests.spark.marks import TURNS

# Importing Great Expectations 1.24 meets deprecations in its own dependencies.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

COLUMNS = {
    "id": "bigint",
    "n": "int",
    "m": "int",
    "amount": "decimal(12,2)",
    "fee": "decimal(12,2)",
    "big": "decimal(38,0)",
    "f": "double",
    "name": "string",
    "other": "string",
    "day": "date",
    "day2": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "flag": "boolean",
    "bin": "binary",
    "a.b": "int",
    "we`ird": "string",
}

_D = Decimal
_DAY = date(2026, 11, 21)
_AT = datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC)
_LOCAL = datetime(2026, 11, 21, 10, 0, 0, 123456)  # noqa: DTZ001 - a column without a zone

ROWS = [
    (1, 1, 2, _D("0.00"), _D("0.10"), _D(2**53), 0.0, "abc", "abc", _DAY, _DAY, _AT, _LOCAL, True, b"abc", 1, "x"),
    (2, 2, 1, _D("0.10"), _D("0.00"), _D(2**53 + 1), math.nan, "", "",
     date(1, 1, 1), _DAY, _AT, _LOCAL, False, b"", 2, ""),
    (3, None, 1, None, _D("1.00"), None, math.inf, None, "x", None, _DAY, None, None, None, None, None, None),
    (4, 2**31 - 1, 2**31 - 1, _D("9999999999.99"), _D("9999999999.99"), _D(10**38 - 1), -math.inf, "grüße 😀", "é",
     date(9999, 12, 31), date(1, 1, 1), datetime(9999, 12, 31, tzinfo=UTC), _LOCAL, True, b"\x00\xff", -1, "grüße"),
    (5, -(2**31), None, _D("-0.01"), None, _D(-(10**38 - 1)), 0.1, "ABC\n", None,
     _DAY, None, _AT, None, False, b"abcd", 0, "x"),
    (6, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None, None),
    (7, 3, 3, _D("0.30"), _D("0.30"), _D(7), 1e308, '{"a": 1}', "2026-11-21",
     _DAY, date(2026, 11, 20), _AT, _LOCAL, True, b"x", 3, "y"),
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One rule, judged both ways."""

    expectation: str
    kwargs: Mapping[str, Any]

    @property
    def rule(self) -> Rule:
        """The rule as a contract would state it."""
        rest = {key: value for key, value in self.kwargs.items() if key != "column"}
        return Rule(str(self), self.kwargs.get("column"), self.expectation, rest)

    def __str__(self) -> str:
        """Name the case."""
        return f"{self.expectation.removeprefix('expect_')} {dict(self.kwargs)}"


def _case(expectation: str, column: str | None = None, **kwargs: object) -> Case:
    return Case(f"expect_{expectation}", ({"column": column} if column else {}) | kwargs)


_BETWEEN = "column_values_to_be_between"
_SUM: dict[str, Any] = {"sum_total": 3}
_SPARK = {"condition_parser": "spark"}
_GX = {"condition_parser": "great_expectations"}

PARITY = [
    *(_case("column_values_to_not_be_null", name) for name in ("n", "name", "f", "flag", "amount", "bin")),
    *(_case("column_values_to_be_null", name) for name in ("n", "name", "f")),
    _case(_BETWEEN, "n", min_value=1),
    _case(_BETWEEN, "n", min_value=1, strict_min=True),
    _case(_BETWEEN, "n", max_value=2, strict_max=True),
    _case(_BETWEEN, "n", min_value=1, max_value=3, strict_min=True, strict_max=True),
    _case(_BETWEEN, "n", min_value=0.5, max_value=2.5),
    _case(_BETWEEN, "f", min_value=0),
    _case(_BETWEEN, "f", max_value=0.1),
    _case(_BETWEEN, "f", min_value=-1, max_value=1, strict_min=True),
    _case(_BETWEEN, "amount", min_value=0, strict_min=True),
    _case(_BETWEEN, "amount", min_value=_D("0.1"), max_value=_D("0.3")),
    _case(_BETWEEN, "day", min_value="2026-11-21", max_value="2026-12-31"),
    _case(_BETWEEN, "day", min_value="2026-11-21", strict_min=True),
    _case(_BETWEEN, "at", min_value="2026-11-21T00:00:00+00:00", max_value="2026-11-22T00:00:00+00:00"),
    _case(_BETWEEN, "local", max_value="2026-11-21T10:00:00.123456", strict_max=True),
    _case("column_values_to_be_in_set", "name", value_set=["abc", "", "grüße 😀"]),
    _case("column_values_to_be_in_set", "n", value_set=[1, 2]),
    _case("column_values_to_be_in_set", "amount", value_set=[0, _D("0.1")]),
    _case("column_values_to_be_in_set", "flag", value_set=[True]),
    _case("column_values_to_be_in_set", "day", value_set=["2026-11-21"]),
    _case("column_values_to_not_be_in_set", "name", value_set=["abc", ""]),
    _case("column_values_to_not_be_in_set", "f", value_set=[0, 0.1]),
    _case("column_values_to_match_regex", "name", regex="^[a-z]+$"),
    _case("column_values_to_match_regex", "name", regex=r"^\p{L}*$"),
    _case("column_values_to_not_match_regex", "name", regex="B"),
    _case("column_values_to_match_regex_list", "name", regex_list=["^a", "😀$"]),
    _case("column_values_to_match_regex_list", "name", regex_list=["a", "c"], match_on="all"),
    _case("column_values_to_not_match_regex_list", "name", regex_list=["^a", "^$"]),
    _case("column_value_lengths_to_be_between", "name", min_value=1, max_value=3),
    _case("column_value_lengths_to_be_between", "name", min_value=3, strict_min=True),
    _case("column_value_lengths_to_be_between", "bin", max_value=3, strict_max=True),
    _case("column_value_lengths_to_equal", "name", value=7),
    _case("column_values_to_be_json_parseable", "name"),
    *(
        _case("column_values_to_match_json_schema", "name", json_schema=schema, row_condition="id = 7", **_SPARK)
        for schema in ({"type": "object"}, {"required": ["b"]})
    ),
    _case("column_values_to_match_strftime_format", "other", strftime_format="%Y-%m-%d"),
    *(
        _case("column_pair_values_a_to_be_greater_than_b", column_A="amount", column_B="fee",
              or_equal=equal, ignore_row_if=ignored)
        for equal in (True, False)
        for ignored in ("both_values_are_missing", "either_value_is_missing", "neither")
    ),
    _case("column_pair_values_a_to_be_greater_than_b", column_A="day", column_B="day2"),
    *(
        _case("column_pair_values_to_be_equal", column_A="name", column_B="other", ignore_row_if=ignored)
        for ignored in ("both_values_are_missing", "either_value_is_missing", "neither")
    ),
    _case("column_pair_values_to_be_in_set", column_A="n", column_B="m", value_pairs_set=[[1, 2], [3, 3]]),
    *(
        _case("multicolumn_sum_to_equal", column_list=["n", "m"], sum_total=3, ignore_row_if=ignored)
        for ignored in ("all_values_are_missing", "any_value_is_missing", "never")
    ),
    _case("multicolumn_sum_to_equal", column_list=["amount", "fee"], sum_total=_D("0.1")),
    _case("multicolumn_sum_to_equal", column_list=["f", "n"], sum_total=1),
    _case("multicolumn_values_to_be_equal", column_list=["n", "m", "id"]),
    _case("multicolumn_values_to_be_equal", column_list=["name", "other"], ignore_row_if="any_value_is_missing"),
    _case("select_column_values_to_be_unique_within_record", column_list=["n", "m", "id"]),
    _case("select_column_values_to_be_unique_within_record", column_list=["name", "other"], ignore_row_if="never"),
    _case("column_values_to_not_be_null", "n", row_condition="id > 2 and name is null", **_SPARK),
    _case(_BETWEEN, "amount", min_value=1, row_condition="flag", **_SPARK),
    _case("column_values_to_be_null", "n", row_condition='col("amount").notNull()', **_GX),
    _case("column_values_to_not_be_null", "n", row_condition='col("id") >= 3', **_GX),
    _case("column_values_to_not_be_null", "n", row_condition={
        "type": "or", "conditions": [
            {"type": "comparison", "column": {"name": "id"}, "operator": "==", "parameter": 3},
            {"type": "nullity", "column": {"name": "name"}, "is_null": True},
        ]}),
    *(
        _case("column_values_to_not_be_null", "n", row_condition={
            "type": "comparison", "column": {"name": "fee"}, "operator": operator, "parameter": parameter})
        for operator, parameter in ((">", _D("0.5")), ("IN", [_D("0.3"), 1]))
    ),
    _case("column_pair_values_to_be_equal", column_A="n", column_B="m", row_condition="id < 6", **_SPARK),
    # Past what a double tells apart, and what is no number.
    _case("column_values_to_not_be_null", "big"),
    _case("column_values_to_be_in_set", "big", value_set=[7, 2**53 + 1]),
    _case("column_pair_values_to_be_equal", column_A="big", column_B="id"),
    _case("multicolumn_values_to_be_equal", column_list=["big", "id"]),
    _case("select_column_values_to_be_unique_within_record", column_list=["big", "id"]),
    _case("column_values_to_be_in_set", "f", value_set=[0, 0.1]),
    _case("column_pair_values_to_be_equal", column_A="f", column_B="n"),
    _case("column_pair_values_a_to_be_greater_than_b", column_A="f", column_B="n"),
    _case("multicolumn_values_to_be_equal", column_list=["f", "n"]),
    _case("select_column_values_to_be_unique_within_record", column_list=["f", "n"]),
    # Of every kind once for some rows alone.
    *(
        _case(f"column_{kind}", "name", **kwargs, row_condition="id < 5", **_SPARK)
        for kind, kwargs in (
            ("values_to_be_null", {}),
            ("values_to_be_in_set", {"value_set": ["abc"]}),
            ("values_to_not_be_in_set", {"value_set": ["abc"]}),
            ("values_to_match_regex", {"regex": "^[a-z]+$"}),
            ("values_to_not_match_regex", {"regex": "b"}),
            ("values_to_match_regex_list", {"regex_list": ["^a", "😀$"]}),
            ("values_to_not_match_regex_list", {"regex_list": ["^a", "^$"]}),
            ("value_lengths_to_be_between", {"min_value": 1, "max_value": 3}),
            ("value_lengths_to_equal", {"value": 3}),
            ("values_to_be_json_parseable", {}),
        )
    ),
    _case("column_values_to_match_strftime_format", "other", strftime_format="%Y", row_condition="id > 2", **_SPARK),
    _case("column_pair_values_a_to_be_greater_than_b", column_A="amount", column_B="fee",
          row_condition="id > 1", **_SPARK),
    _case("column_pair_values_to_be_in_set", column_A="n", column_B="m", value_pairs_set=[[1, 2]],
          row_condition="id > 1", **_SPARK),
    *(
        _case(kind, column_list=["n", "m"], **kwargs, row_condition="id > 1", **_SPARK)
        for kind, kwargs in (
            ("multicolumn_sum_to_equal", _SUM),
            ("multicolumn_values_to_be_equal", {}),
            ("select_column_values_to_be_unique_within_record", {}),
        )
    ),
    _case(_BETWEEN, "a.b", min_value=0, max_value=2),
    _case("column_values_to_not_be_null", "a.b", row_condition="`a.b` is null", **_SPARK),
]  # fmt: skip


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Rows with nulls, NaN, edge decimals and dates, empty and non-ASCII text."""
    schema = ", ".join(f"`{name.replace('`', '``')}` {ddl}" for name, ddl in COLUMNS.items())
    return spark.createDataFrame(ROWS, schema).coalesce(1)


def _count(rows: DataFrame, rules: list[Rule]) -> dict[str, int]:
    """Count the rows that fail each rule, in one pass."""
    compiled = compile_rules(rules, COLUMNS)
    counts = rows.select(*(F.count_if(c.failed).alias(f"r{i}") for i, c in enumerate(compiled)))
    return dict(zip([c.rule.name for c in compiled], counts.collect()[0], strict=True))


@pytest.fixture(scope="module")
def counted(rows: DataFrame) -> dict[str, int]:
    """Failed rows by case, from the compiled columns."""
    return _count(rows, [case.rule for case in PARITY])


@pytest.fixture(scope="module")
def native(rows: DataFrame) -> dict[str, int]:
    """Failed rows by case, from GX run natively on the same rows."""
    return {name: result.get("unexpected_count", success) for name, (success, result) in _natively(rows).items()}


def _natively(rows: DataFrame, cases: Sequence[Case] = PARITY) -> dict[str, tuple[object, dict[str, Any]]]:
    """GX's own verdict on each case, with what it counted; what went wrong in place of a verdict it could not make."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    import great_expectations as gx
    from great_expectations.expectations.registry import get_expectation_impl

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("rows", persist=False).add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": rows})
    expectations = []
    for number, case in enumerate(cases):
        kwargs = {key: _plain(value) for key, value in case.kwargs.items()}
        expectations.append(get_expectation_impl(case.expectation)(**kwargs, meta={"case": number}))
    suite = gx.ExpectationSuite("parity", expectations=expectations)
    outcome = batch.validate(suite, result_format={"result_format": "BASIC", "partial_unexpected_count": 0})
    return {
        str(cases[result.expectation_config.meta["case"]]): (
            result.success if "unexpected_count" in result.result else result.exception_info,
            result.result,
        )
        for result in outcome.results
    }


def _plain(value: object) -> object:
    """Give GX what YAML would give it: floats for fractions."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("case", PARITY, ids=str)
def test_compiled_condition_counts_what_gx_counts(case: Case, counted: dict[str, int], native: dict[str, int]) -> None:
    """A compiled rule fails as many rows as Great Expectations run natively finds unexpected."""
    assert native[str(case)] == counted[str(case)]


@TURNS
def test_a_batch_without_rows_keeps_every_rule(rows: DataFrame) -> None:
    """Natively too, though GX has no count of most then: NULL is what Spark sums up of no rows."""
    nothing = rows.where("false")
    native = _natively(nothing)

    assert {success for success, _ in native.values()} == {True}
    assert {result["unexpected_count"] for _, result in native.values()} <= {None, 0}
    assert set(_count(nothing, [case.rule for case in PARITY]).values()) == {0}


@pytest.mark.parametrize(
    ("expectation", "kwargs", "failing"),
    [
        ("column_values_to_be_in_set", {"value_set": [_D("0.7"), _D("0.1")]}, {3}),
        ("column_values_to_not_be_in_set", {"value_set": [_D("0.7"), _D("0.1")]}, {1, 2}),
        ("column_values_to_be_between", {"min_value": _D("0.7")}, {2}),
        ("column_values_to_be_between", {"min_value": _D("0.7"), "strict_min": True}, {1, 2}),
        ("column_values_to_be_between", {"max_value": _D("0.1")}, {1, 3}),
        ("column_values_to_be_between", {"max_value": _D("0.1"), "strict_max": True}, {1, 2, 3}),
    ],
    ids=str,
)
def test_a_32_bit_float_is_compared_as_it_is_printed(
    spark: SparkSession, expectation: str, kwargs: dict[str, Any], failing: set[int]
) -> None:
    """Spark widens it before it compares: 0.7 is then 0.699999988079071, and 0.1 is 0.10000000149011612."""
    rows = spark.createDataFrame([(1, 0.7), (2, 0.1), (3, 2.0)], "id int, r float")
    (compiled,) = compile_rules([Rule("one", "r", f"expect_{expectation}", kwargs)], {"id": "int", "r": "float"})

    assert {row["id"] for row in rows.where(compiled.failed).select("id").collect()} == failing


@pytest.mark.parametrize("case", PARITY, ids=str)
def test_gx_makes_its_verdict_of_numbers_that_it_gets_back(case: Case) -> None:
    """Its result has the counts and not one value, and it fails where a row breaks the rule."""
    gx.preload()
    kept, broken = gx.result_of(case.rule, 10, 0), gx.result_of(case.rule, 10, 3)

    assert (kept.success, broken.success) == (True, False)
    assert broken.result == {"element_count": 10, "unexpected_count": 3, "unexpected_percent": 30.0}


@pytest.mark.parametrize(
    ("schema", "failing"),
    [
        ({"type": "object"}, {1, 2, 4, 5}),
        ({"properties": {"a": {"multipleOf": _D("0.5"), "$ref": "#/$defs/small"}}, "$defs": {"small": {"maximum": 1}}},
         {1, 2, 4, 5}),
        ({"properties": {"a": {"maximum": _D("0.5")}}}, {1, 2, 4, 5, 7}),
    ],
)  # fmt: skip
def test_a_text_that_is_no_json_fits_no_schema(rows: DataFrame, schema: dict[str, Any], failing: set[int]) -> None:
    """GX's own function would end the job at the first; NULL is passed over."""
    rule = _case("column_values_to_match_json_schema", "name", json_schema=schema).rule
    (compiled,) = compile_rules([rule], COLUMNS)

    found = rows.where(compiled.failed).select("id").collect()

    assert {row["id"] for row in found} == failing


def test_a_value_that_no_schema_can_judge_breaks_its_rule(spark: SparkSession) -> None:
    """What Python's reader takes and JSON has not, and what validating raises for, ends no job."""
    texts = ['{"price": 1.5}', '{"price": NaN}', '{"price": 1e400}', '{"items": ' * 400 + "{}" + "}" * 400, None]
    number = {"type": "number", "multipleOf": _D("0.01")}
    schema = {"type": "object", "properties": {"price": number, "items": {"$ref": "#"}}}
    rule = _case("column_values_to_match_json_schema", "name", json_schema=schema).rule
    (compiled,) = compile_rules([rule], {"name": "string"})

    failed = spark.createDataFrame([(text,) for text in texts], "name string").select(compiled.failed).collect()

    assert [row[0] for row in failed] == [False, True, True, True, False]


def test_every_compiled_expectation_is_in_the_parity_test() -> None:
    """No expectation is compiled without being held to GX."""
    assert {case.expectation for case in PARITY} == COMPILED


def test_parity_rules_fail_some_rows_and_pass_others(counted: dict[str, int]) -> None:
    """Equal counts prove little where nothing or everything fails: most cases tell rows apart."""
    telling = [name for name, count in counted.items() if 0 < count < len(ROWS)]

    assert len(telling) >= len(PARITY) * 3 // 4


def test_the_table_of_expectations_is_gx_own() -> None:
    """Names, kinds, arguments and spellings that `contract lint` knows are those of the installed GX."""
    from great_expectations.expectations import registry

    from cdc_materializer.contract.judge import preload

    preload()
    names = set(registry.list_registered_expectation_implementations())
    assert names == KNOWN
    for name in names:
        implementation = registry.get_expectation_impl(name)
        assert snake_case(implementation.__name__) == name
        assert snake_case(implementation.__name__[0].lower() + implementation.__name__[1:]) == name
        if name in ROW:
            assert {*ROW[name].columns, *ROW[name].kwargs} <= set(implementation.__fields__)
        metric = getattr(implementation, "map_metric", None)
        if name in ROW:
            providers = registry._registered_metrics[f"{metric}.condition"]["providers"]
            assert "SparkDFExecutionEngine" in providers


def test_what_is_refused_is_what_gx_cannot_do_on_spark(rows: DataFrame) -> None:
    """It has no metric for Spark behind them, or lets no second table be named."""
    from great_expectations.execution_engine import SparkDFExecutionEngine
    from great_expectations.expectations import registry

    gx.preload()
    behind = {"expect_query_results_to_match_comparison": "comparison_query.data_source_table"}
    for name in NOT_ON_SPARK.keys() - {"expect_table_row_count_to_equal_other_table"}:
        metric = behind.get(name) or f"{registry.get_expectation_impl(name).map_metric}.condition"
        assert "SparkDFExecutionEngine" not in registry._registered_metrics[metric]["providers"]
    engine = SparkDFExecutionEngine(persist=False, spark=rows.sparkSession, batch_data_dict={"rows": rows})
    with pytest.raises(ValueError, match="multiple named tables"):
        engine.get_domain_records({"table": "other"})


EXACT = [
    ("big", {"max_value": 2**53}, {2, 4}),
    ("big", {"min_value": 2**53 + 1}, {1, 5, 7}),
    ("big", {"min_value": _D("7.5"), "max_value": _D("9007199254740992.5")}, {2, 4, 5, 7}),
    ("big", {"max_value": _D("99999999999999999999999999999999999998.9")}, {4}),
    ("amount", {"max_value": _D("9999999999.98")}, {4}),
    ("amount", {"min_value": _D("0.001")}, {1, 5}),
    ("amount", {"min_value": _D("-0.005"), "strict_min": True}, {5}),
    ("amount", {"max_value": _D("0.305"), "strict_max": True}, {4}),
    ("id", {"max_value": _D("6.999999999999999999999")}, {7}),
    ("id", {"min_value": 10**25}, {1, 2, 3, 4, 5, 6, 7}),
    ("f", {"max_value": _D("0.1")}, {2, 3, 7}),
    ("f", {"max_value": _D("0.1"), "strict_max": True}, {2, 3, 5, 7}),
]


@pytest.mark.parametrize(("column", "bounds", "failing"), EXACT)
def test_bounds_are_exact_past_binary_floats(
    rows: DataFrame, column: str, bounds: dict[str, Any], failing: set[int]
) -> None:
    """Decimals and integers are compared exactly with any bound, where doubles would blur them."""
    rule = Rule("r", column, "expect_column_values_to_be_between", bounds)

    found = rows.where(compile_rules([rule], COLUMNS)[0].failed).select("id").collect()

    assert failing == {row.id for row in found}


#: Rules of which GX on Spark counts other rows than break them, because it compares as binary floating-point numbers,
#: and how many do.
GAPS = [
    (_case(_BETWEEN, "big", max_value=_D("9007199254740992.5")), 2),
    (_case("column_values_to_be_in_set", "big", value_set=[_D(2**53 + 1)]), 4),
]


def test_where_gx_blurs_a_number_the_exact_one_decides(rows: DataFrame) -> None:
    """The documented differences from Great Expectations are there, and each is decided for the exact value."""
    cases = [case for case, _ in GAPS]

    native = {name: result["unexpected_count"] for name, (_, result) in _natively(rows, cases).items()}

    counted = _count(rows, [case.rule for case in cases])
    assert counted == {str(case): exact for case, exact in GAPS}
    assert all(native[name] != count for name, count in counted.items())


@pytest.mark.parametrize(
    ("column", "members", "failing"),
    [
        ("big", [2**53 + 1, 10**38 - 1], {1, 5, 7}),
        ("amount", [_D("0.1"), _D("0.3"), _D("0.005")], {1, 4, 5}),
        ("n", [1, 2, None, _D("2.5")], {4, 5, 7}),
        ("name", ["abc", None], {2, 4, 5, 7}),
    ],
)
def test_sets_are_exact_and_a_null_in_one_hides_nothing(
    rows: DataFrame, column: str, members: list[Any], failing: set[int]
) -> None:
    """Set members are compared exactly; a null among them does not make every row pass, as it does in SQL."""
    rule = Rule("r", column, "expect_column_values_to_be_in_set", {"value_set": members})

    found = rows.where(compile_rules([rule], COLUMNS)[0].failed).select("id").collect()

    assert failing == {row.id for row in found}


def test_failed_is_never_null(rows: DataFrame) -> None:
    """Each condition is true or false for every row, so that its negation is right too."""
    compiled = compile_rules([case.rule for case in PARITY], COLUMNS)

    unknown = rows.select(*(F.sum(c.failed.isNull().cast("int")).alias(f"r{i}") for i, c in enumerate(compiled)))

    assert {0} == set(unknown.collect()[0])


def test_names_with_dots_and_backticks_are_judged(rows: DataFrame) -> None:
    """A column may have any name that a table may."""
    rules = [
        Rule("dot", "a.b", "expect_column_values_to_be_in_set", {"value_set": [1]}),
        Rule("tick", "we`ird", "expect_column_value_lengths_to_be_between", {"min_value": 1, "max_value": 1}),
        Rule("sum", None, "expect_multicolumn_sum_to_equal", {"column_list": ["a.b", "n"], "sum_total": 2}),
        Rule("pair", None, "expect_column_pair_values_to_be_equal", {"column_A": "we`ird", "column_B": "name"}),
        Rule("within", None, "expect_select_column_values_to_be_unique_within_record", {"column_list": ["a.b", "m"]}),
        Rule("case", "A.B", "expect_column_values_to_not_be_null", {}),
    ]

    assert _count(rows, rules) == {"dot": 4, "tick": 2, "sum": 4, "pair": 4, "within": 1, "case": 2}


def test_compiling_starts_no_job(spark: SparkSession) -> None:
    """Compiling asks GX and Spark's analyser only."""
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("compile", "compile")

    compile_rules([case.rule for case in PARITY], COLUMNS)

    assert tracker.getJobIdsForGroup("compile") == []
    spark.sparkContext.setJobGroup("", "")


REFUSED = [
    (_case("column_values_to_not_be_null", "nam"), "no column 'nam' (there is name)"),
    (_case(_BETWEEN, "name", min_value=3), "cannot judge columns of kind text"),
    (_case(_BETWEEN, "flag", min_value=0), "cannot judge columns of kind boolean"),
    (_case(_BETWEEN, "n", min_value=2, max_value=1), "min_value cannot be greater than max_value"),
    (_case(_BETWEEN, "n"), "cannot both be None"),
    (_case(_BETWEEN, "day", min_value="yesterday"), "not written as YYYY-MM-DD"),
    (_case(_BETWEEN, "local", min_value="2026-01-01T00:00:00Z"), "have no zone"),
    (_case("column_values_to_be_in_set", "n", value_set=["a"]), "the column holds numbers"),
    (_case("column_values_to_be_in_set", "n", value_set=[0.5]), "no member of its set"),
    (_case("column_values_to_match_regex", "name", regex="(a"), "Unclosed group"),
    (_case("column_values_to_match_regex", "n", regex="a"), "cannot judge columns of kind number"),
    (_case("column_values_to_not_be_null", "n", mostly=0.9), "mostly"),
    (_case("column_values_to_not_be_null", "n", row_condition="nope > 1", **_SPARK), "`nope` cannot be resolved"),
    (_case("column_values_to_not_be_null", "n", row_condition="id >", **_SPARK), "Syntax error"),
    (_case("column_values_to_not_be_null", "n", row_condition="n", **_SPARK), "BIGINT|INT"),
    (_case("column_values_to_not_be_null", "n", row_condition="sum(n) > 1", **_SPARK), "GROUP BY"),
    (_case("column_values_to_not_be_null", "n", row_condition="n > 1", condition_parser="pandas"), "pandas"),
    (_case("column_pair_values_to_be_equal", column_A="n", column_B="name"), "different kinds"),
    (_case("column_pair_values_to_be_equal", column_A="big", column_B="amount"), "more than 38 digits"),
    (_case("column_pair_values_to_be_equal", column_A="n", column_B="m", ignore_row_if="x"), "ignore_row_if"),
    (_case("multicolumn_sum_to_equal", column_list=["big", "n"], sum_total=1), "more than 38 digits"),
    (_case("multicolumn_sum_to_equal", column_list=["n", "m"], sum_total=0.5), "no sum of its columns"),
    (_case("column_mean_to_be_between", "n", min_value=1), "no condition for single rows"),
    (_case("column_values_to_match_like_pattern", "name", like_pattern="a%"), "no condition for single rows"),
]


@pytest.mark.parametrize(("case", "reason"), REFUSED, ids=[str(case) for case, _ in REFUSED])
@pytest.mark.usefixtures("spark")
def test_a_rule_that_cannot_be_compiled_is_refused(case: Case, reason: str) -> None:
    """What cannot be judged as stated is an error when it is compiled; it never passes silently."""
    with pytest.raises(ContractInvalid) as refused:
        compile_rules([replace(case.rule, line=7)], COLUMNS, "orders.yaml")

    assert refused.value.what.startswith("Contract orders.yaml:7: the rule ")
    assert any(part in str(refused.value) for part in reason.split("|"))
    assert "cdcm contract lint" in refused.value.do


@pytest.mark.usefixtures("spark")
def test_a_sum_that_spark_would_round_is_refused() -> None:
    """GX adds integers as decimal(38,0); beside them Spark keeps six places, so finer columns cannot be summed."""
    rule = Rule("s", None, "expect_multicolumn_sum_to_equal", {"column_list": ["n", "fine"], "sum_total": 1})

    compile_rules([rule], {"n": "int", "fine": "decimal(12,6)"})
    with pytest.raises(ContractInvalid, match="more than 38 digits"):
        compile_rules([rule], {"n": "int", "fine": "decimal(12,7)"})


@pytest.mark.usefixtures("spark")
def test_a_rule_about_the_whole_table_is_refused() -> None:
    """The judge of single rows takes no table rules, whatever they are called."""
    rule = Rule("t", "n", "expect_column_values_to_not_be_null", {}, scope=Scope.TABLE)

    with pytest.raises(ContractInvalid, match="no condition for single rows"):
        compile_rules([rule], COLUMNS)
