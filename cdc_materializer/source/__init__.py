"""Where messages come from: recorded topics or Kafka."""

from typing import TYPE_CHECKING

from cdc_materializer.config.values import reveal
from cdc_materializer.retry import NEVER, Deadline
from cdc_materializer.source.failures import read_failure
from cdc_materializer.source.kafka import KafkaSource
from cdc_materializer.source.messages import MESSAGE_COLUMNS, MESSAGE_SCHEMA, Message, Source, TopicState
from cdc_materializer.source.recorded import RecordedSource
from cdc_materializer.source.several import as_raw_counts, read_span, state_of

if TYPE_CHECKING:
    from cdc_materializer.config.connections import SourceConfig

__all__ = [
    "MESSAGE_COLUMNS",
    "MESSAGE_SCHEMA",
    "KafkaSource",
    "Message",
    "RecordedSource",
    "Source",
    "TopicState",
    "as_raw_counts",
    "open_source",
    "read_failure",
    "read_span",
    "state_of",
]


def open_source(config: "SourceConfig", deadline: Deadline = NEVER) -> Source:
    """Open the source that the configuration names; nothing is asked yet. No answer is waited for past the deadline.

    Raises:
        ConfigError: its Kafka properties have no brokers, or name one that only Java's client knows.
    """
    if config.files is not None:
        return RecordedSource(config.files)
    return KafkaSource(reveal(config.kafka or {}), deadline=deadline)
