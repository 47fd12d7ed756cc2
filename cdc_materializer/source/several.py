"""Several topics of a source, read as one: their states put together, their messages with partitions numbered through.

Which number a topic has is known where raw's marker is; see `lanes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdc_materializer.errors import ConfigError, TopicMissing
from cdc_materializer.lanes import WIDTH, joined, joined_ids, numbered, split
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.source.messages import MESSAGE_COLUMNS, MESSAGE_SCHEMA, Source, TopicState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.marker.marker import Marker


def state_of(source: Source, topic: str, topics: Sequence[str], perhaps: Sequence[str] = ()) -> TopicState:
    """Where a table's topic begins and ends now.

    Args:
        source: where it is.
        topic: its name, or the glob of several.
        topics: the names of those; none where it is one topic.
        perhaps: the names of further ones, which need not be there.

    Raises:
        TopicMissing, SourceUnavailable: as `Source.state` does.
    """
    if not topics:
        return source.state(topic)
    further = [found for one in perhaps if (found := _state_if_there(source, one)) is not None]
    return _together(topic, [*(source.state(one) for one in topics), *further])


def _state_if_there(source: Source, topic: str) -> TopicState | None:
    try:
        return source.state(topic)
    except TopicMissing:
        return None


def as_raw_counts(state: TopicState, raw: Marker | None) -> TopicState:
    """The state with its topics numbered as raw knows them; one that is not there any more has no partitions.

    Args:
        state: from `state_of`, or from here.
        raw: raw's marker; None where there is no raw yet.

    Raises:
        ConfigError: raw was filled from another topic, whose partitions would be taken for this one's.
    """
    if raw is None or (not raw.topics and not state.parts and raw.topic == state.topic):
        return state
    parts = {part.topic: part for part in state.parts or (state,)}
    if not raw.topics and raw.topic not in parts:
        what = f"The raw table was filled from the topic {raw.topic}, and pipeline.yaml says {state.topic}."
        raise ConfigError(what, "Nothing was written. Name the earlier topic again, or give the new one a `mirror`.")
    there = numbered(raw.topics or (raw.topic,), tuple(parts))
    return _together(
        state.topic, [parts.get(topic) or TopicState(topic, None, Offsets(), Offsets()) for topic in there]
    )


def read_span(source: Source, spark: SparkSession, span: Span, topics: Sequence[str]) -> DataFrame:
    """The messages of a span, as `Source.read` gives them; over several topics, with partitions numbered through."""
    if not topics:
        return source.read(spark, span)
    found = spark.createDataFrame([], MESSAGE_SCHEMA)
    for at, (number, part) in enumerate(split(span, topics)):
        messages = source.read(spark, part)
        own = messages.withColumn("partition", messages["partition"] + number * WIDTH).select(*MESSAGE_COLUMNS)
        found = found.unionByName(own) if at else own
    return found


def _together(topic: str, parts: Sequence[TopicState]) -> TopicState:
    return TopicState(
        topic,
        joined_ids([part.topic_id for part in parts]),
        joined([part.beginnings for part in parts]),
        joined([part.ends for part in parts]),
        tuple(parts),
    )
