"""Rules about a whole table, judged on what is staged: the rows that readers would see, before they see them.

What can be counted is counted in one pass; each rule about duplicates and each query takes one of its own. A contract
without such rules costs nothing. A rule that cannot be judged is not kept: it never passes unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer import life
from cdc_materializer.changes import model as m
from cdc_materializer.contract import Rule, Scope
from cdc_materializer.contract import table_rules as said
from cdc_materializer.errors import TableRuleBroken
from cdc_materializer.lake import Lake, Stage
from cdc_materializer.line import Line
from cdc_materializer.merge import one_number
from cdc_materializer.names import quote
from cdc_materializer.schema import TableSchema

_VIEW = "__cdc_result"


def audit(line: Line, stage: Stage, target: TableSchema) -> tuple[str, ...]:
    """Judge what is staged by the contract's rules about the table.

    Args:
        line: the table's way.
        stage: the branch of the mirror, with everything that the batch writes.
        target: the mirror's columns.

    Returns:
        The names of the rules that are broken and only warn.

    Raises:
        TableRuleBroken: another one is broken; nothing is published.
    """
    rules = [rule for rule in line.contract.rules if rule.scope is Scope.TABLE] if line.contract is not None else []
    if not rules:
        return ()
    result = life.live_rows(stage.rows(), target).select(*[m.column(name) for name in target.types])
    broken = _broken(stage.lake, result, rules)
    blocking = tuple(rule.name for rule in broken if rule.action != "warn")
    if blocking:
        raise TableRuleBroken(str(line.mirror), blocking)
    return tuple(rule.name for rule in broken)


def _broken(lake: Lake, result: DataFrame, rules: Sequence[Rule]) -> list[Rule]:
    counts = [rule for rule in rules if rule.expectation in {said.NULLS, said.MISSING}]
    columns = [F.count_if(_is_missing(rule)).alias(f"rule_{at}") for at, rule in enumerate(counts)]
    try:
        sums = result.agg(F.count(F.lit(1)).alias("rows"), *columns).collect()[0]
    except PySparkException:
        # One of the rules cannot be judged, and they were asked together.
        return list(rules)
    found = {rule.name: sums[f"rule_{at}"] for at, rule in enumerate(counts)}
    return [rule for rule in rules if not _holds(lake, result, rule, found.get(rule.name), sums["rows"])]


def _holds(lake: Lake, result: DataFrame, rule: Rule, counted: int | None, rows: int) -> bool:
    if rule.expectation == said.ROW_COUNT:
        return said.holds(rule, rows, rows)
    if counted is not None:
        return said.holds(rule, counted, rows)
    try:
        measured = _duplicates(result, rule) if rule.expectation == said.DUPLICATES else _answer(lake, result, rule)
    except (PySparkException, Py4JJavaError):
        return False
    return measured is not None and said.holds(rule, measured, rows)


def _is_missing(rule: Rule) -> Column:
    """Whether the value is NULL, where that counts as missing, or one of those that do."""
    value, texts = m.column(rule.kwargs["columns"][0]), [one for one in rule.kwargs["missing"] if one is not None]
    missing = value.isNull() if None in rule.kwargs["missing"] or not texts else F.lit(False)
    return missing | F.coalesce(value.cast("string").isin(*map(str, texts)), F.lit(False)) if texts else missing


def _duplicates(result: DataFrame, rule: Rule) -> int:
    """How many rows have the values of another one; NULL is no value."""
    columns = [m.column(name) for name in rule.kwargs["columns"]]
    known = result
    for column in columns:
        known = known.where(column.isNotNull())
    several = known.groupBy(*columns).count().where(F.col("count") > 1)
    return int(several.agg(F.coalesce(F.sum("count"), F.lit(0)).alias("rows")).collect()[0]["rows"])


def _answer(lake: Lake, result: DataFrame, rule: Rule) -> int | float | Decimal | None:
    """The one number that a query gives; None where it gives another thing."""
    result.createOrReplaceTempView(_VIEW)
    column = quote(rule.column) if rule.column is not None else None
    answer = lake.answer(one_number(said.query_of(rule, quote(_VIEW), column)))
    rows = answer.collect()
    value = rows[0][0] if len(rows) == 1 and len(answer.columns) == 1 else None
    return value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
