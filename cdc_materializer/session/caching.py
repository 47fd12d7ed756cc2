"""Frames that Spark keeps until a batch is done, with plans that are as small as what is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame


def cached(frame: DataFrame) -> DataFrame:
    """The rows of a frame, kept in memory and on disk from the first time that they are asked for; see `release`.

    `DataFrame.persist` leaves what makes the rows in every plan on them: each further column is analysed with all of
    it, and each query looks for its parts among all that is cached. Plans on this one begin with what is kept.
    """
    spark, execution = frame.sparkSession, _execution(frame)
    keep, frame_of = _java(execution._gateway_client)  # noqa: SLF001 - as below
    kept = keep(execution).withOutput(execution.analyzed().output())
    return DataFrame(frame_of(spark._jsparkSession, kept), spark)  # noqa: SLF001 - as below


def release(frame: DataFrame) -> None:
    """Keep the rows of a frame from `cached` no longer."""
    _execution(frame).analyzed().cacheBuilder().clearCache(False)  # noqa: FBT003 - Java's arguments have no names


def _execution(frame: DataFrame) -> Any:  # noqa: ANN401 - a Java object
    return frame._jdf.queryExecution()  # noqa: SLF001 - PySpark has no public way to plans


@lru_cache(maxsize=1)
def _java(jvm: Any) -> tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:  # noqa: ANN401 - Py4J's connection to a JVM
    """What keeps the result of a query, and what makes a frame of a plan."""
    level = JavaClass("org.apache.spark.storage.StorageLevel", jvm).MEMORY_AND_DISK()
    relations = getattr(JavaClass("org.apache.spark.sql.execution.columnar.InMemoryRelation$", jvm), "MODULE$")
    nameless = JavaClass("scala.Option", jvm).empty()
    frames = JavaClass("org.apache.spark.sql.classic.Dataset", jvm)
    return lambda execution: relations.apply(level, execution, nameless), frames.ofRows
