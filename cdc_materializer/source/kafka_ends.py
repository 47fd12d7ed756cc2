"""The two ends of a Kafka topic, read by a consumer of its own: for commands that look at a few messages."""

# ruff: noqa: SLF001  (the names of the client's public error codes begin with an underscore)

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from cdc_materializer.source.messages import Message, TopicState

if TYPE_CHECKING:
    from confluent_kafka import Consumer

#: How long one look for the next message takes at most, in seconds.
_POLL_SECONDS = 0.5


def read_ends(
    settings: Mapping[str, Any], state: TopicState, count: int, timeout_seconds: float
) -> tuple[Message, ...]:
    """Return the first and the last ``count`` offsets' messages of each partition, each once.

    Args:
        settings: the client's properties, by librdkafka's names.
        state: where the topic begins and ends.
        count: how many offsets at each end; offsets can have holes, so fewer messages may come.
        timeout_seconds: how long the broker may be silent.

    Raises:
        KafkaException: the broker does not answer, or refuses.
    """
    from confluent_kafka import Consumer

    own = {
        # The client asks for a group's name; nothing is committed, and no partition is asked for in its name.
        "group.id": "cdc-materializer-look",
        "enable.auto.commit": "false",
        "enable.partition.eof": "true",
        "isolation.level": "read_committed",
    }
    beginnings, ends = state.beginnings, state.ends
    heads = {p: (first, min(first + count, ends[p])) for p, first in beginnings.items()}
    tails = {p: (max(ends[p] - count, stop), ends[p]) for p, (_, stop) in heads.items()}
    with closing(Consumer({**settings, **own})) as consumer:
        found = [m for part in (heads, tails) for m in _read(consumer, state.topic, part, timeout_seconds)]
    return tuple(sorted(found, key=lambda message: (message.offset, message.partition)))


def _read(
    consumer: "Consumer", topic: str, ranges: Mapping[int, tuple[int, int]], timeout_seconds: float
) -> Iterator[Message]:
    """Give the messages of `[start, stop)` of each partition."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    waiting = {p: stop for p, (start, stop) in ranges.items() if start < stop}
    consumer.assign([TopicPartition(topic, p, ranges[p][0]) for p in waiting])
    deadline = time.monotonic() + timeout_seconds
    while waiting:
        message = consumer.poll(_POLL_SECONDS)
        if message is None:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            continue
        deadline = time.monotonic() + timeout_seconds
        partition, error = message.partition(), message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        if partition not in waiting:
            continue
        if error is None and message.offset() < waiting[partition]:
            yield Message(partition, message.offset(), message.key(), message.value())
        if error is not None or message.offset() >= waiting[partition] - 1:
            del waiting[partition]
            consumer.incremental_unassign([TopicPartition(topic, partition)])
