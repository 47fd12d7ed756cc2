"""What is told of a rule that cannot be judged."""

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ArithmeticException, ParseException, PySparkException

from cdc_materializer.contract import load_contract
from cdc_materializer.line.audit import _reason
from tests.unit.contracts import write


def _failure(kind: type[PySparkException], condition: str, **named: str) -> PySparkException:
    """As Spark raises it, with a message that may have anything in it."""
    failure = kind("ann@example.com", errorClass=None, messageParameters=None)
    failure.getCondition = lambda: condition  # type: ignore[method-assign]
    failure.getMessageParameters = lambda: named  # type: ignore[method-assign]
    return failure


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (
            _failure(AnalysisException, "UNRESOLVED_COLUMN.WITH_SUGGESTION", objectName="`a`", proposal="`b`"),
            "UNRESOLVED_COLUMN.WITH_SUGGESTION: `a`",
        ),
        (_failure(AnalysisException, "UNRESOLVED_COLUMN", objectName="`__cdc_result`.`a`"), "UNRESOLVED_COLUMN: `a`"),
        (
            _failure(AnalysisException, "TABLE_OR_VIEW_NOT_FOUND", relationName="`shop`.`t`"),
            "TABLE_OR_VIEW_NOT_FOUND: `shop`.`t`",
        ),
        (_failure(ParseException, "PARSE_SYNTAX_ERROR", error="'`__cdc_result`'"), "PARSE_SYNTAX_ERROR: '{table}'"),
        (_failure(AnalysisException, "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES", sqlExpr="x"),
         "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES"),
        # Of a query that runs, such a parameter could be a value.
        (_failure(ArithmeticException, "UNRESOLVED_COLUMN", objectName="4711"), "UNRESOLVED_COLUMN"),
        (ValueError("ann@example.com"), "ValueError"),
    ],
)  # fmt: skip
def test_what_spark_does_not_find_is_named_and_nothing_else(failure: Exception, told: str) -> None:
    """By the words of the query, which the contract has; the message and other parameters may have a row's values."""
    assert _reason(failure) == told


def test_a_rule_has_a_place_in_its_file(tmp_path: Path) -> None:
    """Of those that a run stops for: the line that states it."""
    contract = load_contract(write(tmp_path, "- {name: status, physicalType: text, unique: true}"))

    assert [contract.place(rule) for rule in contract.rules] == ["orders.yaml:10"]
