"""Great Expectations' own renderers on results that carry no value: they need GX, and no Spark session."""

import re
from html import unescape
from typing import Any

import pytest

from cdc_materializer.contract import gx
from cdc_materializer.contract.model import Rule, Scope
from cdc_materializer.contract.table_expectations import TABLE
from cdc_materializer.data_docs import rendered, result_of_state
from cdc_materializer.report.violation_models import RuleState
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

#: Arguments that some expectation cannot be stated without.
_STATED: dict[str, Any] = {
    "value_set": [1, 2],
    "quantile_ranges": {"quantiles": [0.5], "value_ranges": [[1, 2]]},
    "column_set": ["a"],
    "column_list": ["a", "b"],
    "column_A": "a",
    "column_B": "b",
    "value": 3,
    "threshold": 0.5,
    "double_sided": True,
    "partition_object": {"values": ["a"], "weights": [1.0]},
    "type_": "IntegerType",
    "type_list": ["IntegerType"],
    "unexpected_rows_query": "SELECT * FROM {batch}",
}


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_page_tells_every_expectation_about_a_table_in_the_contracts_words(*, is_kept: bool) -> None:
    """No renderer of GX's misses what was measured, which no table has."""
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult

    gx.preload()
    results = []
    for name, known in TABLE.items():
        kwargs = {key: _STATED[key] for key in (*known.kwargs, *known.columns) if key in _STATED}
        rule = Rule(name, "a" if known.columns == ("column",) else None, name, kwargs, scope=Scope.TABLE)
        results.append(gx.result_of_table(rule, f"Says {name}.", is_kept=is_kept))
    page = rendered(ExpectationSuiteValidationResult(success=is_kept, results=results, suite_name="s", meta={}))

    assert [name for name in TABLE if f"Says {name}." not in page] == []


def test_texts_of_a_contract_take_nothing_of_a_page_away() -> None:
    """Descriptions, names and arguments stand there as they are, and what follows them is still there."""
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult

    gx.preload()
    evil = """has no <script>, "<style" & 'x' &lt; in it"""
    kept = Rule("a", "a", "expect_column_values_to_match_regex", {"column": "a", "regex": "^<form"}, description=evil)
    plain = Rule("r", "a", "expect_column_values_to_match_regex", {"column": "a", "regex": "^<form"})
    broken = Rule("b", "<svg>", "expect_column_values_to_not_be_null", {"column": "<svg>"})
    results = [gx.result_of(kept, 3, 0), gx.result_of(plain, 3, 0), gx.result_of(broken, 3, 1)]
    page = rendered(
        ExpectationSuiteValidationResult(success=False, results=results, suite_name="Suite <head>", meta={"n": 1})
    )
    shown = unescape(re.sub(r"<[^>]*>", "", page))

    assert [text for text in (evil, "^<form", "<svg>", "Suite <head>", "null") if text not in shown] == []
    assert shown.index(evil) < shown.index("values must never be null")
    assert not re.search(r"<(script|style|form|svg|head)", page)


@pytest.mark.parametrize("scope", [Scope.ROW, Scope.TABLE])
@pytest.mark.parametrize("unjudged", [True, False])
@pytest.mark.parametrize("shadow", [True, False])
def test_a_rule_that_nothing_could_judge_was_not_kept(scope: Scope, *, unjudged: bool, shadow: bool) -> None:
    """Its table stopped for it, if it is not only tried, so that no message is counted as one that broke it."""
    from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult

    gx.preload()
    kind = "expect_column_values_to_not_be_null" if scope is Scope.ROW else "expect_column_max_to_be_between"
    rule = Rule("r", "a", kind, {"column": "a"} if scope is Scope.ROW else {"min_value": 1}, scope=scope, shadow=shadow)
    about = "messages" if scope is Scope.ROW else "table"
    state = RuleState(rule="r", states="Says so.", action="block", about=about, count=0, open=0, unjudged=unjudged)
    result = result_of_state(rule, state, 3)
    page = rendered(ExpectationSuiteValidationResult(success=False, results=[result], suite_name="s", meta={}))

    assert result.success is not unjudged
    assert ("the table stopped for it" in page) is (unjudged and not shadow)
    assert ("could not judge it" in page) is (unjudged and shadow)
