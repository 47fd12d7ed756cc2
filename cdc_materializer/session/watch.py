"""Spark sessions that may end while they are used: their JVM runs out of memory, or is killed, or Spark in it stops.

Py4J then throws whatever its sockets do, and so does each clean-up behind it. What is told is that Spark has ended, or
that the outcome of a commit is unknown where it was in the midst of one; never that it is a bug.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cdc_materializer.errors import CdcError, CommitUnknown, LakeUnavailable, SparkEnded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config

_BESIDE = re.compile("Cycles|Concurrent")


@contextmanager
def opened(config: Config, *, small: bool) -> Iterator[SparkSession]:
    """A session of our own, which is stopped at the end; see `session.open_session`.

    Raises:
        SparkEnded, CommitUnknown: it ended meanwhile.
    """
    from cdc_materializer.session.session import open_session, stop

    session = open_session(config, small=small)
    try:
        with watched(session):
            yield session
    finally:
        stop(session)


@contextmanager
def watched(spark: SparkSession) -> Iterator[None]:
    """Tell what fails inside as `told` does."""
    try:
        yield
    except Exception as caught:
        failure = told(spark, caught)
        if failure is caught:
            raise
        raise failure from caught


def told(spark: SparkSession, failure: Exception) -> Exception:
    """What a failure comes to: the failure itself, or where Spark has ended, what that means.

    Our own errors stay what they are, but for `LakeUnavailable`: as such the lake's adapter has told what Java throws
    while Spark stops.

    Args:
        spark: the session, or any one of the same Spark.
        failure: what was raised while it was used.
    """
    is_told = isinstance(failure, CdcError) and type(failure) is not LakeUnavailable
    if is_told or not has_ended(spark):
        return failure
    cause: BaseException | None = failure
    while cause is not None and not isinstance(cause, CommitUnknown):
        # What failed in a clean-up stands before what was the matter.
        cause = cause.__cause__ or cause.__context__
    what = "Spark has ended in the midst of the work: its Java process is gone, or was told to stop."
    do = (
        "Nothing is half visible; run again. If it was out of memory, give it more (`spark.driver.memory` under "
        "`spark:`) or fewer messages a batch (`records_max`)."
    )
    return cause or SparkEnded(what, do)


def has_ended(spark: SparkSession) -> bool:
    """Whether a session's JVM is gone, or Spark in it was stopped; asks the JVM."""
    from py4j.protocol import Py4JError

    context = spark.sparkContext._jsc  # noqa: SLF001 - PySpark has no public way to ask
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True


def collecting_seconds(spark: SparkSession) -> float:
    """For how many seconds so far the driver's JVM has done nothing but collect garbage, in a local session all of it.

    What a collector does beside the work is not in it: ZGC and Shenandoah call that their cycles.
    """
    java: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no public way to ask
    beans = java.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
    pauses = [bean for bean in beans if not _BESIDE.search(bean.getName())]
    return float(sum(max(0, bean.getCollectionTime()) for bean in pauses)) / 1000
