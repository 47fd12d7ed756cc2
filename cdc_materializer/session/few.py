"""How Spark plans what is about few rows, and what reads very many: the one for one task, the other as one class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A task costs what it takes to send it its plan and to write code for that, whatever it then reads. Batches of 100
#: messages took 9.0 CPU-s and 16 jobs each, and 6.7 and 8 like this (medians, in turns in one session).
ROWS_MAX = 5_000
_FOR_ONE_TASK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    # It runs a query shuffle by shuffle, each as a job of its own, to find out how much there is.
    "spark.sql.adaptive.enabled": "false",
    # Each task writes its expressions out as a text of Java, to find the class that was made of it, or to make one.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

#: To delete 40,000 of sixteen million rows by their keys took 5.1 CPU-s without it and 2.8 with it (medians of four in
#: turns in one session, beside a test suite). From how many rows on it pays was not measured.
WHOLE_STAGE_ROWS_MIN = 1_000_000
_AS_ONE_CLASS = {"spark.sql.codegen.wholeStage": "true"}


@contextmanager
def planned_for(session: SparkSession, rows: int | None) -> Iterator[None]:
    """Plan what is asked for meanwhile for one task, if it is about few rows; the session is left as it was.

    For plans that shuffle no more than these rows: a mirror that is joined to them is not to go through one task.

    Args:
        session: a table's own.
        rows: how many they are at most; None where nobody knows.
    """
    if rows is None or rows > ROWS_MAX:
        yield
        return
    with _set(session, _FOR_ONE_TASK):
        yield


@contextmanager
def compiled_for(session: SparkSession, rows: int) -> Iterator[None]:
    """Compile each stage of what is asked for meanwhile into one class, if it reads that many rows.

    For plans of few columns, whose classes are small enough for Java to compile; of those of a batch they are not.

    Args:
        session: a table's own.
        rows: how many are read, about.
    """
    if rows < WHOLE_STAGE_ROWS_MIN:
        yield
        return
    with _set(session, _AS_ONE_CLASS):
        yield


@contextmanager
def _set(session: SparkSession, properties: Mapping[str, str]) -> Iterator[None]:
    before = {name: session.conf.get(name, None) for name in properties}
    try:
        for name, value in properties.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, known in before.items():
            if known is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, known)
