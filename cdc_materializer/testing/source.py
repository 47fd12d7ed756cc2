"""A broker in memory whose topics do what a script says: for tests of what comes of a source.

Public, as `testing`, which has it under its own name. It is held to the tests of the real sources
(`tests/model/source_contract.py`). What no producer can do can be done to it: messages go by retention or compaction,
topics lose their end, are deleted and made again, partitions are added, and questions are refused.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cdc_materializer.errors import CdcError, SourceUnavailable, TopicMissing
from cdc_materializer.names import nearest
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.source import MESSAGE_SCHEMA, TopicState
from cdc_materializer.source import Message as Sampled
from cdc_materializer.testing import EPOCH, Headers, Message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class _Partition:
    begins: int = 0
    ends: int = 0
    messages: dict[int, Message] = field(default_factory=dict)


@dataclass
class _Topic:
    number: int
    partitions: dict[int, _Partition]
    is_compacted: bool = False
    keeps_deletes: timedelta = timedelta(days=1)


class ScriptedSource:
    """A broker in memory; see `cdc_materializer.source.Source` for what it promises.

    >>> source = ScriptedSource()
    >>> source.create("shop.public.orders")
    >>> source.send("shop.public.orders", b"1", b"{}").offset
    0
    >>> source.state("shop.public.orders").ends
    Offsets({0: 1})
    """

    def __init__(self) -> None:
        """Begin without topics."""
        self._topics: dict[str, _Topic] = {}
        self._numbers = itertools.count(1)
        self._refusals: deque[CdcError] = deque()

    # --- the script
    # ----------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1) -> None:
        """Make a topic; one that is there is made again, empty, under another id."""
        self._topics[topic] = _Topic(next(self._numbers), {number: _Partition() for number in range(partitions)})

    def delete(self, topic: str) -> None:
        """Take a topic away."""
        del self._topics[topic]

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Let a topic have so many partitions; those that it has stay as they are."""
        for number in range(partitions):
            self._topics[topic].partitions.setdefault(number, _Partition())

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        timestamp: datetime | None = None,
        headers: Headers | None = None,
    ) -> Message:
        """Append a message and return it; without a timestamp it is a millisecond younger than the one before."""
        there = self._topics[topic].partitions[partition]
        written = timestamp or EPOCH + timedelta(milliseconds=there.ends)
        message = Message(topic, partition, there.ends, key, value, written, headers)
        there.messages[there.ends] = message
        there.ends += 1
        return message

    def skip(self, topic: str, count: int = 1, *, partition: int = 0) -> None:
        """Use offsets up for what no reader gets: marks of transactions, messages of those that were aborted."""
        self._topics[topic].partitions[partition].ends += count

    def compact(
        self, topic: str, *offsets: int, partition: int = 0, keeps_deletes: timedelta = timedelta(days=1)
    ) -> None:
        """Take messages away, and leave holes where they were; deletes are kept for as long as is said (a day)."""
        self._topics[topic].is_compacted, self._topics[topic].keeps_deletes = True, keeps_deletes
        for offset in offsets:
            self._topics[topic].partitions[partition].messages.pop(offset, None)

    def forget_before(self, topic: str, offset: int, *, partition: int = 0) -> None:
        """Take away what is before an offset, as retention does: the partition begins there."""
        there = self._topics[topic].partitions[partition]
        there.begins = max(there.begins, min(offset, there.ends))
        there.messages = {at: message for at, message in there.messages.items() if at >= there.begins}

    def cut(self, topic: str, offset: int, *, partition: int = 0) -> None:
        """Lose what is at an offset and behind it, as an unclean election of a leader does."""
        there = self._topics[topic].partitions[partition]
        there.ends = min(there.ends, offset)
        there.begins = min(there.begins, there.ends)
        there.messages = {at: message for at, message in there.messages.items() if at < offset}

    def refuse(self, *errors: CdcError) -> None:
        """Answer the next questions with errors, one each."""
        self._refusals.extend(errors)

    # --- the source
    # ----------------------------------------------------------------------------------------------------

    def topics(self) -> tuple[str, ...]:
        """List the topics; see `Source.topics`."""
        self._answer()
        return tuple(sorted(self._topics))

    def state(self, topic: str) -> TopicState:
        """Say where a topic begins and ends; see `Source.state`."""
        there = self._find(topic)
        begins = Offsets({number: one.begins for number, one in there.partitions.items()})
        ends = Offsets({number: one.ends for number, one in there.partitions.items()})
        return TopicState(topic, f"topic-{there.number}", begins, ends)

    def sample(self, topic: str, count: int) -> tuple[Sampled, ...]:
        """Take messages from both ends of each partition; see `Source.sample`."""
        taken = []
        for one in self._find(topic).partitions.values():
            every = [one.messages[offset] for offset in sorted(one.messages)]
            taken += every[:count] + every[count:][-count:]
        found = [Sampled(message.partition, message.offset, message.key, message.value) for message in taken]
        return tuple(sorted(found, key=lambda message: (message.offset, message.partition)))

    def is_compacted(self, topic: str) -> bool:
        """Say whether `compact` has taken something; see `Source.is_compacted`."""
        return self._find(topic).is_compacted

    def deletes_kept(self, topic: str) -> timedelta | None:
        """Say for how long, once `compact` has taken something; see `Source.deletes_kept`."""
        there = self._find(topic)
        return there.keeps_deletes if there.is_compacted else None

    def messages(self, span: Span) -> tuple[Message, ...]:
        """The messages of a span as they are now, by partition and offset; for those who have no Spark.

        Raises:
            TopicMissing: there is no such topic.
            SourceUnavailable: part of the span is gone, or not there yet.
        """
        there = self._find(span.topic).partitions
        for partition, start, end in span.ranges():
            if partition not in there or start < there[partition].begins or end > there[partition].ends:
                what = f"The topic {span.topic} no longer holds what was planned to be read."
                raise SourceUnavailable(what, "Run again; if messages are gone, the next run says so.")
        ranges = sorted(span.ranges())
        return tuple(
            there[partition].messages[offset]
            for partition, start, end in ranges
            for offset in sorted(there[partition].messages)
            if start <= offset < end
        )

    def read(self, spark: SparkSession, span: Span) -> DataFrame:
        """Give the messages of a span to Spark; see `Source.read`. They are those of this moment."""
        rows = [
            (
                *(message.key, message.value, message.topic, message.partition, message.offset, message.timestamp, 0),
                None if message.headers is None else list(message.headers),
            )
            for message in self.messages(span)
        ]
        return spark.createDataFrame(rows, MESSAGE_SCHEMA)

    def _find(self, topic: str) -> _Topic:
        self._answer()
        if topic not in self._topics:
            near = nearest(topic, self._topics)
            hint = f" Did you mean {near}?" if near else ""
            raise TopicMissing(f"There is no topic {topic} in this script.{hint}", "Create it, or correct its name.")
        return self._topics[topic]

    def _answer(self) -> None:
        if self._refusals:
            raise self._refusals.popleft()
