"""A violation ends by itself: what else the same message breaks is another one, and stays."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.batch import verdict
from cdc_materializer.changes import model as m
from cdc_materializer.fold import fold
from cdc_materializer.line.quarantine_ends import ended_by
from cdc_materializer.merge_quarantine import QUARANTINE_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

_KEY = '{"id":1}'
_STATE = (
    f"{m.KEY} string, {m.PARTITION} int, {m.OFFSET} bigint, {m.PART} int, {m.OP} string, {fold.CURRENT} boolean,"
    f" {verdict.PUBLISHED} boolean, {verdict.OVERTAKEN} boolean, {verdict.VIOLATIONS} array<{verdict._VIOLATION}>"
)
_ROW = ", ".join(f"`{column.name}` {column.type}" for column in QUARANTINE_SCHEMA.columns)


def _violation(code: str, column: str) -> tuple[Any, ...]:
    return code, None, "error", "hold", verdict.OPEN, column


def _held(spark: "SparkSession", code: str, columns: str) -> "DataFrame":
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [("t", 0, 5, now, _KEY, code, None, "error", "hold", verdict.OPEN, name, now, "b") for name in columns]
    return spark.createDataFrame(rows, _ROW)


@pytest.mark.parametrize("code", ["OUT_OF_RANGE", "UNAVAILABLE_NO_BASE"])
@pytest.mark.parametrize(("breaks", "released"), [("ab", ""), ("b", "a"), ("c", "ab"), ("", "ab")])
def test_what_a_message_breaks_no_more_is_released_column_by_column(
    spark: "SparkSession", code: str, breaks: str, released: str
) -> None:
    """It is read again by a batch that does not publish it, and was held for two columns."""
    violations = [_violation(code, column) for column in breaks]
    state = (_KEY, 0, 5, 0, "u", True, False, False, violations)

    ended = ended_by(spark.createDataFrame([state], _STATE), _held(spark, code, "ab")).collect()

    assert sorted((row["column"], row["to"]) for row in ended) == [(column, verdict.RELEASED) for column in released]
