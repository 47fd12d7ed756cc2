"""The edge where what a source gives is written to raw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer.progress import check_unchanged
from cdc_materializer.source import read_failure

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.lake.stage import Stage
    from cdc_materializer.line.line import Line
    from cdc_materializer.offsets import Span
    from cdc_materializer.source import TopicState


def append_read(stage: Stage, messages: DataFrame, line: Line, topic: TopicState, span: Span) -> None:
    """Append what the source gives; Spark reads it only now, so a source that fails does so here."""
    try:
        stage.append(messages)
    except (PySparkException, Py4JJavaError) as error:
        failure = read_failure(error, span.topic)
        if failure is not None:
            raise failure from error
        raise
    check_unchanged(line.source, line.table, topic, span)
