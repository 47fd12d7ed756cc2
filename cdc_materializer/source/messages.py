"""What a source promises: the state of a topic for planning, and its messages as Spark's Kafka source shows them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.offsets import Offsets, Span

#: One message a row: the columns of Spark's Kafka source with headers, in its order, as Spark DDL.
MESSAGE_SCHEMA = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)

#: The names of those columns.
MESSAGE_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


@dataclass(frozen=True, slots=True)
class TopicState:
    """Where a topic began and ended at one moment.

    Attributes:
        topic: its name.
        topic_id: the broker's id of this very topic, which changes when it is made again; None where there is none.
        beginnings: the first offset of each partition that can still be read.
        ends: one past the last offset of each partition that a reader of committed messages may see.
        parts: where it stands for several topics read as one (see `lanes`), each of them, in the order of its numbers.
    """

    topic: str
    topic_id: str | None
    beginnings: "Offsets"
    ends: "Offsets"
    parts: "tuple[TopicState, ...]" = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the parts."""
        return tuple(part.topic for part in self.parts)


@dataclass(frozen=True, slots=True)
class Message:
    """One message as the topic holds it, for those who look at a few without Spark.

    Attributes:
        partition: its partition.
        offset: its offset.
        key: the key's bytes; None where it has none.
        value: the value's bytes; None for a tombstone.
    """

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Source(Protocol):
    """Where messages come from. It decides nothing: what to read is planned from its states, on the driver."""

    def topics(self) -> tuple[str, ...]:
        """List the topics by name, sorted.

        Raises:
            SourceUnavailable: the source cannot be read.
        """
        ...

    def state(self, topic: str) -> TopicState:
        """Say where a topic begins and ends now.

        Raises:
            TopicMissing: there is no such topic.
            SourceUnavailable: the source cannot be read.
        """
        ...

    def sample(self, topic: str, count: int) -> tuple[Message, ...]:
        """Return the first and the last ``count`` messages of each partition, each once, by offset and partition.

        Raises:
            TopicMissing: there is no such topic.
            SourceUnavailable: the source cannot be read.
        """
        ...

    def is_compacted(self, topic: str) -> bool:
        """Say whether the topic's messages may be removed from its middle, so that a hole may be where one was.

        Raises:
            TopicMissing: there is no such topic.
            SourceUnavailable: the source cannot be read, or does not say it to this user.
        """
        ...

    def deletes_kept(self, topic: str) -> "timedelta | None":
        """Say how long a compacted topic keeps a delete at least; None for one that is not compacted.

        Raises:
            TopicMissing: there is no such topic.
            SourceUnavailable: the source cannot be read, or does not say it to this user.
        """
        ...

    def read(self, spark: "SparkSession", span: "Span") -> "DataFrame":
        """Return the messages of a span as a DataFrame with exactly the columns of MESSAGE_SCHEMA.

        Spark reads when the DataFrame is used, not here; `read_failure` explains what it raises then. Offsets can
        have holes, so fewer messages than the span's count may come. The order of rows says nothing.

        Raises:
            TopicMissing: there is no such topic.
            SourceUnavailable: the source cannot be read.
        """
        ...
