"""What a process keeps that goes on for weeks: hundreds of tiny batches, with CDCM_TESTS=all (`make soak`).

CDCM_BATCHES says how many; the figures go to standard output (`-s`).
"""

import gc
import os
import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.finalizer import ThreadSafeFinalizer

from cdc_materializer.run.run import RunOptions, run_forever
from cdc_materializer.testing import TopicBuilder
from tests.spark.passages import ALL
from tests.spark.processes import CHANGES, MIRROR, TOPIC, add_changes, content, pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.skipif(not ALL, reason="with CDCM_TESTS=all")]

BATCHES = int(os.environ.get("CDCM_BATCHES", "300"))
_MEASURES = 10
#: The heap after a collection may differ by so much between two looks, in megabytes: metadata of tables in work, and
#: what the compiler keeps.
_HEAP_MB = 24.0
#: Likewise what the process of Python has, and how many objects it may keep of each message of the topic.
_RESIDENT_MB, _OBJECTS = 20.0, 2
#: Queries whose plans Spark keeps; it takes away what is too much now and then, not at once.
_EXECUTIONS = 50


@dataclass(frozen=True)
class Kept:
    """What is kept after garbage was collected on both sides: counts, and megabytes of heap and of Python's process."""

    rdds: int
    cached: int
    views: int
    listeners: int
    accumulators: int
    executions: int
    references: int
    objects: int
    heap: float
    resident: float


def _resident() -> float:
    """Megabytes of memory that this process has; the JVM is another one."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)


def _kept(spark: "SparkSession") -> Kept:
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    context: Any = spark.sparkContext._jsc
    memory = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
    found = None
    for _ in range(20):
        # What nobody refers to is cleaned up in the background, after a collection of garbage on either side.
        gc.collect()
        jvm.java.lang.System.gc()
        time.sleep(0.2)
        before, found = (
            found,
            Kept(
                rdds=context.getPersistentRDDs().size(),
                cached=session.sharedState().cacheManager().numCachedEntries(),
                views=len([one for one in spark.catalog.listTables() if one.isTemporary]),
                listeners=context.sc().listenerBus().listeners().size(),
                accumulators=jvm.org.apache.spark.util.AccumulatorContext.numAccums(),
                executions=session.sharedState().statusStore().executionsCount(),
                references=len(ThreadSafeFinalizer.finalizers),
                objects=len(gc.get_objects()),
                heap=round(memory.getHeapMemoryUsage().getUsed() / 1e6, 1),
                resident=_resident(),
            ),
        )
        if before is not None and astuple(before)[:4] == astuple(found)[:4] and before.heap <= found.heap + 1:
            break
    assert found is not None
    return found


def _rounds(topic: TopicBuilder, folder: Path) -> Iterator[int]:
    """Add a few changes for each batch."""
    for number in range(BATCHES):
        add_changes(topic, number)
        topic.write(folder)
        yield number


def test_hundreds_of_batches_keep_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    """No plan, view, listener or reference adds up; and Spark keeps the plans of few queries."""
    config = pipeline(tmp_path, 1, records_max=len(CHANGES), history=False)
    rounds = _rounds(TopicBuilder(TOPIC), config.root / "recorded")
    options, seen = RunOptions(), list[Kept]()
    next(rounds)
    for done, report in enumerate(run_forever(config, spark, options, poll=0.0), start=1):
        assert report.exit_code == 0
        if done % (BATCHES // _MEASURES) == 0:
            seen.append(_kept(spark))
            print(done, seen[-1], flush=True)  # noqa: T201 - the figures are what it is for
        if next(rounds, None) is None:
            options.stop.set()

    assert len(content(config)[str(MIRROR.raw)]) == BATCHES * len(CHANGES)
    # The first batches load classes and fill what has a fixed size.
    _, first, *_, last = seen
    assert (last.rdds, last.cached, last.views, last.listeners) <= astuple(first)[:4]
    assert last.executions <= _EXECUTIONS
    assert last.references <= first.references * 1.2
    # Those that this test adds are the messages of its topic.
    assert last.objects - first.objects <= _OBJECTS * BATCHES * len(CHANGES)
    assert last.resident <= first.resident + _RESIDENT_MB
    assert last.heap <= first.heap + _HEAP_MB
