"""The verdict of a batch, and what happens where a rule fails at a row instead of judging it: it never passes unseen.

A condition can end the job that evaluates it: a cast that a text does not allow, a division by zero, a function of
Python's that raises. Spark then says that something went wrong and not where, so the rules are tried one by one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import life, verdict
from cdc_materializer.batch.batch import Folded
from cdc_materializer.batch.judgement import Judgement
from cdc_materializer.causes import java_classes
from cdc_materializer.errors import RuleNotJudged
from cdc_materializer.line import tally
from cdc_materializer.line.line import Line
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.session import caching

_log = logging.getLogger(__name__)
#: What is asked of a judgement.
Found = TypeVar("Found")
#: What PySpark throws where a job ends: Java's exception as its own, or as it is.
_FAILURES = (PySparkException, Py4JJavaError)


def judge(line: Line, folded: Folded, judgement: Judgement, target: TableSchema) -> tuple[DataFrame, dict[str, Any]]:
    """Give the states with their verdicts, cached, and the sums; a rule that is only tried may fail, and is left out.

    The names of those left out are among the sums, as `untried`.

    Args:
        line: the table's way.
        folded: the batch.
        judgement: how it is judged.
        target: the mirror's columns.

    Raises:
        RuleNotJudged: a rule that is in force fails at a row.
    """
    (judged, sums), left_out = without_failing(
        line, folded.states, judgement, lambda by: _counted(line, folded, by, target)
    )
    return judged, {**sums, "untried": tuple(sorted(left_out))}


def without_failing(
    line: Line, states: DataFrame, judgement: Judgement, ask: Callable[[Judgement], Found]
) -> tuple[Found, Mapping[str, str]]:
    """Ask something of a judgement; once more without the rules that are only tried and fail at a row, if some do.

    Args:
        line: the table's way.
        states: what is judged.
        judgement: how.
        ask: evaluates the rules; it gives back what it has cached where that fails.

    Returns:
        The answer, and of each rule that was left out by what it fails, or why it cannot be compiled.

    Raises:
        RuleNotJudged: a rule that is in force fails at a row.
    """
    for why in judgement.refused.values():
        _log.warning("%s: a rule that is only tried is left out: %s", line.mirror, why)
    try:
        return ask(judgement), judgement.refused
    except _FAILURES as error:
        failing = _failing(states, judgement)
        if not failing:
            raise
        in_force = {one.rule.name for one in judgement.rules if not one.rule.shadow} & failing.keys()
        if in_force:
            raise RuleNotJudged(str(line.mirror), {name: failing[name] for name in in_force}) from error
        for name, why in failing.items():
            _log.warning("%s: the rule %s, which is only tried, cannot be judged (%s)", line.mirror, name, why)
        kept = tuple(one for one in judgement.rules if one.rule.name not in failing)
        return ask(replace(judgement, rules=kept)), {**judgement.refused, **failing}


def cached(judged: DataFrame) -> tuple[DataFrame, int]:
    """States with their verdicts, cached and all evaluated, and how many they are."""
    judged = caching.cached(judged)
    try:
        return judged, judged.count()
    except _FAILURES:
        caching.release(judged)
        raise


def release(judged: DataFrame) -> None:
    """Give back what is cached of states with their verdicts."""
    caching.release(judged)


def _counted(line: Line, folded: Folded, judgement: Judgement, target: TableSchema) -> tuple[DataFrame, dict[str, Any]]:
    judged = verdict.decide(folded.states, judgement)
    judged = caching.cached(life.remember(judged, target) if line.keeps_lives else judged)
    try:
        sums = tally.sums(target.key, soft=line.is_soft, lives=line.keeps_lives)
        counted = judged.agg(*tally.outcomes(), *sums).collect()[0].asDict()
        if folded.facts.further_parts:
            counted |= verdict.by_message(judged).agg(*tally.outcomes()).collect()[0].asDict()
    except _FAILURES:
        caching.release(judged)
        raise
    return judged, counted


def _failing(states: DataFrame, judgement: Judgement) -> Mapping[str, str]:
    """The rules that cannot be evaluated, with Spark's name of what went wrong; none where the states cannot be had."""
    if not judgement.rules or _failure(states, replace(judgement, rules=())) is not None:
        return {}
    tried = {one.rule.name: _failure(states, replace(judgement, rules=(one,))) for one in judgement.rules}
    return {name: why for name, why in tried.items() if why is not None}


def _failure(states: DataFrame, judgement: Judgement) -> str | None:
    broken = F.count_if(F.size(F.concat(verdict.FAILED, verdict.WARNED)) > 0)
    try:
        verdict.decide(states, judgement).agg(broken).collect()
    except _FAILURES as error:
        condition: str | None = error.getCondition() if isinstance(error, PySparkException) else None
        return condition or (java_classes(error) or [type(error).__name__])[-1]
    return None
