"""`cdcm init` on a real broker: both ends of topics are read, and what is written can be followed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_materializer.config import load_config
from cdc_materializer.contract import lint, load_contract
from cdc_materializer.init.init import Origin, initialise
from cdc_materializer.source import KafkaSource
from integration.chain.events import add_partitions, change, create_topic, producer, send
from integration.chain.kafka import Kafka

_TOPIC = "drafted.shop.things"
_SAMPLE = 20


@pytest.fixture(scope="module")
def topics(kafka: Kafka) -> str:
    """A topic of two partitions, of which one ends with an aborted transaction, and one that nothing was written to."""
    create_topic(kafka.bootstrap, _TOPIC)
    add_partitions(kafka.bootstrap, _TOPIC, 2)
    create_topic(kafka.bootstrap, "drafted.shop.empty")
    sender = producer(kafka.bootstrap, transactional_id="drafted")
    sender.init_transactions()
    for rows, partition in ((range(100), 0), (range(5), 1)):
        sender.begin_transaction()
        send(sender, _TOPIC, [change("c", row, "text", 100 + row) for row in rows], partition)
        sender.commit_transaction()
    sender.begin_transaction()
    send(sender, _TOPIC, [change("c", 200, "never", 900)], 1)
    sender.abort_transaction()
    return kafka.bootstrap


def test_both_ends_of_each_partition_are_looked_at(topics: str) -> None:
    """Each message once, of committed transactions only, though transaction marks end the partitions."""
    found = KafkaSource({"bootstrap.servers": topics}).sample(_TOPIC, _SAMPLE)

    offsets = {number: [m.offset for m in found if m.partition == number] for number in (0, 1)}
    assert offsets == {0: [*range(_SAMPLE), *range(81, 100)], 1: list(range(5))}
    assert json.loads(found[0].value or b"")["payload"]["after"]["id"] == 0


def test_a_broker_becomes_a_pipeline(topics: str, folder: Callable[[str], Path]) -> None:
    """What can be mirrored is, with a contract that is without a problem; the empty topic waits as a comment."""
    path = folder("drafted") / "pipeline.yaml"
    found = initialise(Origin(bootstrap=topics, topics=("drafted.*",)), path)

    assert [(topic.mirror, topic.encoding) for topic in found.topics] == [(None, None), ("shop.things", "json")]
    (table,) = load_config(path).tables
    assert table.contract is not None
    assert lint(table.contract).valid
    assert {column.name: column.type for column in load_contract(table.contract).columns} == {
        "id": "bigint",
        "text": "string",
    }
