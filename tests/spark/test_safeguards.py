"""What stands between a mistake of ours and readers, on the real line; and what a run that goes on for weeks keeps."""

import gc
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer import pipeline as line_steps
from cdc_materializer.errors import EXIT_BUG
from cdc_materializer.line import Decided
from cdc_materializer.proof import verify_tables
from cdc_materializer.run import RunOptions, run_forever, run_once
from cdc_materializer.testing import TopicBuilder
from tests.spark.processes import CHANGES, MIRROR, TOPIC, add_changes, content, pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _lost(decided: Decided) -> Decided:
    """A batch whose fold lost a message."""
    name = max(decided.counts, key=lambda outcome: decided.counts[outcome])
    return replace(decided, counts={**decided.counts, name: decided.counts[name] - 1})


@pytest.mark.parametrize(("mistake", "says"), [(_lost, "accounts for")])
def test_a_batch_that_is_wrong_is_not_published(
    mistake: Any,  # noqa: ANN401 - such a function
    says: str,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run ends with 70, the mirror stays as it was, and when the mistake is mended the next run goes on."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    decide = line_steps.decide
    monkeypatch.setattr(line_steps, "decide", lambda *arguments: mistake(decide(*arguments)))

    report = run_once(config, spark)

    error = report.tables[0].error
    assert report.exit_code == EXIT_BUG
    assert error is not None
    assert says in error.message
    assert content(config)[str(MIRROR)] == []
    monkeypatch.undo()
    assert run_once(config, spark).exit_code == 0
    assert verify_tables(config, spark).tables[0].equal


def test_rounds_leave_nothing_in_spark(spark: "SparkSession", tmp_path: Path) -> None:
    """Nothing stays cached, and neither views nor sessions add up, however many batches a follower has done."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    topic = TopicBuilder(TOPIC)
    add_changes(topic, 0)
    options = RunOptions()
    seen: list[tuple[int, int]] = []

    for number, report in enumerate(run_forever(config, spark, options, poll=0.0), start=1):
        assert report.exit_code == 0
        seen.append(_kept(spark, seen[-1] if seen else None))
        if number == 4:
            options.stop.set()
        add_changes(topic, number)
        topic.write(config.root / "recorded")

    assert len(seen) == 4
    assert seen[1:] == seen[1:2] * 3
    assert len(content(config)[str(MIRROR.raw)]) == 4 * len(CHANGES)


def _kept(spark: "SparkSession", expected: tuple[int, int] | None) -> tuple[int, int]:
    """How many RDDs Spark keeps, and how many data sets it has cached, once it has cleaned up."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    context: Any = spark.sparkContext._jsc
    for _ in range(100):
        # What nobody refers to is cleaned up in the background, after a collection of garbage on either side.
        gc.collect()
        jvm.java.lang.System.gc()
        found = context.getPersistentRDDs().size(), session.sharedState().cacheManager().numCachedEntries()
        if expected is None or found <= expected:
            break
        time.sleep(0.1)
    return found
