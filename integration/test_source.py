"""The real broker, held to the tests of every source: what a fake promises in its place is what Kafka does."""

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_materializer.config import load_config
from cdc_materializer.session.session import open_session, stop
from cdc_materializer.source import KafkaSource
from integration.chain.events import (
    Event,
    add_partitions,
    create_topic,
    delete_topic,
    forget_before,
    producer,
    send,
)
from integration.chain.kafka import Kafka
from integration.chain.pipeline import Pipeline
from integration.chain.process import wait_until
from tests.model.source_contract import Headers, ReadContract, SourceContract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

_NUMBERS = itertools.count(1)


class KafkaBench:
    """A topic of a broker."""

    def __init__(self, kafka: Kafka) -> None:
        self.topic = f"contract.shop.things_{next(_NUMBERS)}"
        self.source = KafkaSource({"bootstrap.servers": kafka.bootstrap})
        self._bootstrap, self._sender = kafka.bootstrap, producer(kafka.bootstrap)
        create_topic(self._bootstrap, self.topic)

    def send(
        self, key: bytes | None, value: bytes | None, *, partition: int = 0, headers: Headers | None = None
    ) -> None:
        """A message."""
        send(self._sender, self.topic, [Event(key, value, tuple(headers or ()))], partition)

    def hole(self) -> None:
        """A transaction that is aborted: its message and its mark have offsets, and no reader gets them."""
        sender = producer(self._bootstrap, transactional_id=uuid.uuid4().hex)
        sender.init_transactions()
        sender.begin_transaction()
        send(sender, self.topic, [Event(b"never", b"seen")])
        sender.abort_transaction()

    def add_partition(self) -> None:
        """One more."""
        add_partitions(self._bootstrap, self.topic, 2)
        self._sender = producer(self._bootstrap)
        # A new producer may be told of the topic as it was.
        wait_until("the producer knows both partitions", lambda: self._known_partitions() == 2, 60.0)

    def _known_partitions(self) -> int:
        return len(self._sender.list_topics(self.topic, timeout=60).topics[self.topic].partitions)

    def forget_before(self, offset: int) -> None:
        """As retention does."""
        forget_before(self._bootstrap, self.topic, offset)

    def make_again(self) -> None:
        """Deleted, and made again."""
        delete_topic(self._bootstrap, self.topic)
        create_topic(self._bootstrap, self.topic)
        self._sender = producer(self._bootstrap)


@pytest.fixture
def bench(kafka: Kafka) -> KafkaBench:
    """An empty topic."""
    return KafkaBench(kafka)


@pytest.fixture(scope="module")
def spark(kafka: Kafka, folder: Callable[[str], Path]) -> "Iterator[SparkSession]":
    """A session that can read Kafka."""
    source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    pipeline = Pipeline.write(folder("contract"), source, [{"topic": "t", "mirror": "shop.t"}])
    session = open_session(load_config(pipeline.path), small=True)
    yield session
    stop(session)


class TestKafkaSource(SourceContract):
    """What the driver asks of a broker."""


class TestKafkaRead(ReadContract):
    """What Spark reads from it."""
