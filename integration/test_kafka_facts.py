"""What Kafka does beside passing messages on, each in a topic of its own: two runs, with events between them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.chain.events import (
    Event,
    add_partitions,
    change,
    create_topic,
    delete_topic,
    forget_before,
    producer,
    send,
    tombstone,
)
from integration.chain.kafka import MESSAGE_BYTES_MAX, Kafka
from integration.chain.pipeline import Pipeline
from integration.chain.process import wait_until
from integration.record import messages

pytestmark = pytest.mark.long

#: A value that makes a message of 20 MB.
LARGE = "x" * 20_000_000
COMPACTED_SECONDS_MAX = 60.0
HEADERS = (("h", b"1"), ("h", None), ("é", b"\x00\xff"))
TABLES: Mapping[str, Mapping[str, Any]] = {
    "spread": {},
    "aborted": {},
    "compacted": {},
    "headers": {},
    "keyless": {},
    "keyed": {"key": ["id"]},
    "large": {},
    "gone": {},
    "again": {},
}
#: The topics that go to the mirror `shards`, and the one that comes when it has been read once.
SHARDS, LATER_SHARD = ("shards_b", "shards_c"), "shards_a"
TOPIC_SETTINGS = {
    "compacted": {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"},
    "large": {"max.message.bytes": str(MESSAGE_BYTES_MAX)},
}


@dataclass(frozen=True)
class Facts:
    """What two runs said, and the pipeline after them."""

    pipeline: Pipeline
    first: dict[str, Any]
    second: dict[str, Any]

    def table(self, name: str) -> dict[str, Any]:
        """What the second run said of a table."""
        return next(table for table in self.second["tables"] if table["table"] == f"facts.{name}")

    def rows(self, name: str) -> dict[int, str | None]:
        """A mirror's texts by id."""
        return {row["id"]: row["text"] for row in self.pipeline.rows(f"facts.{name}")}

    def offsets(self, name: str) -> list[tuple[int, int]]:
        """Where the messages in a mirror's raw lie."""
        return sorted((row["partition"], row["offset"]) for row in self.pipeline.raw(f"facts.{name}"))


@pytest.fixture(scope="module")
def facts(kafka: Kafka, folder: Callable[[str], Path]) -> Facts:
    """Write, run, do to the topics what is done to topics, write more, run again."""
    tables = [{"topic": topic(name), "mirror": f"facts.{name}", **more} for name, more in TABLES.items()]
    tables.append({"topic": topic("shards_*"), "mirror": "facts.shards", "shard": "server"})
    pipeline = Pipeline.write(folder("facts"), {"kafka": {"bootstrap.servers": kafka.bootstrap}}, tables)
    for name in (*TABLES, *SHARDS):
        create_topic(kafka.bootstrap, topic(name), TOPIC_SETTINGS.get(name))
    _begin(kafka)
    first = pipeline.run_once()
    _go_on(kafka)
    return Facts(pipeline, first, pipeline.run_once())


def topic(name: str) -> str:
    """The topic of a table of this module."""
    return f"facts.shop.{name}"


def _begin(kafka: Kafka) -> None:
    """Ten rows everywhere, and what has to be there before the first run."""
    sender = producer(kafka.bootstrap)
    ten = [change("c", row, "first", 100 + row) for row in range(10)]
    for name in TABLES:
        if name in ("keyless", "keyed"):
            # The first message of the one tells its key; the other is told.
            first = ten[:1] if name == "keyless" else []
            send(sender, topic(name), [*first, *(Event(None, event.value) for event in ten[len(first) :])])
        elif name == "headers":
            send(sender, topic(name), [Event(event.key, event.value, HEADERS) for event in ten])
        else:
            send(sender, topic(name), ten)
    for name in SHARDS:
        send(sender, topic(name), [change("c", row, name, 100 + row) for row in range(3)])
    _abort(kafka)
    _compact(kafka)
    send(sender, topic("large"), [change("u", 1, LARGE, 200)])


def _abort(kafka: Kafka) -> None:
    """A transaction that is aborted between two that are committed."""
    sender = producer(kafka.bootstrap, transactional_id="facts")
    sender.init_transactions()
    for text, ends in (("kept", True), ("aborted", False), ("kept too", True)):
        sender.begin_transaction()
        rows = {"kept": 1, "aborted": 2, "kept too": 3}
        send(sender, topic("aborted"), [change("u", rows[text], text, 200 + rows[text])])
        if ends:
            sender.commit_transaction()
        else:
            sender.abort_transaction()


def _compact(kafka: Kafka) -> None:
    """Change the rows until the broker has taken away what was superseded; deleted rows leave their tombstones."""
    sender = producer(kafka.bootstrap)
    send(sender, topic("compacted"), [change("u", row, "second", 200 + row) for row in range(10)])
    send(sender, topic("compacted"), [change("d", 3, None, 300), tombstone(3)])
    written = iter(range(400, 100_000))

    def is_compacted() -> bool:
        # Only what is before the newest segment is compacted, and only a message begins a new one.
        send(sender, topic("compacted"), [change("u", 9, "last", next(written))])
        return 0 not in {message.offset() for message in messages(kafka.bootstrap, topic("compacted"))}

    wait_until("the topic is compacted", is_compacted, COMPACTED_SECONDS_MAX, 0.5)


def _go_on(kafka: Kafka) -> None:
    sender = producer(kafka.bootstrap)
    add_partitions(kafka.bootstrap, topic("spread"), 4)
    for partition in range(4):
        changed = [change("u", row, "second", 200 + row) for row in range(partition, 10, 4)]
        send(sender, topic("spread"), changed, partition)
    # A key that moved: its later change is in a partition with lower offsets than its earlier one.
    send(sender, topic("spread"), [change("u", 0, "third", 300)], 3)
    send(sender, topic("gone"), [change("u", row, "second", 200 + row) for row in range(10)])
    forget_before(kafka.bootstrap, topic("gone"), 15)
    delete_topic(kafka.bootstrap, topic("again"))
    create_topic(kafka.bootstrap, topic("again"))
    send(sender, topic("again"), [change("c", row, "anew", 500 + row) for row in range(20)])
    create_topic(kafka.bootstrap, topic(LATER_SHARD))
    send(sender, topic(LATER_SHARD), [change("c", 1, LATER_SHARD, 7)])
    send(sender, topic("shards_c"), [change("d", 1, None, 200), tombstone(1)])


def test_the_first_run_takes_everything(facts: Facts) -> None:
    """No topic stops it, whatever is in it; messages without a key are held, one by one."""
    assert facts.first["exit_code"] == 0
    held = {table["table"]: table["violations"] for table in facts.first["tables"] if table["violations"]}
    assert held == {"facts.keyless": {"KEY_NULL": 9}}


def test_partitions_that_came_later_are_read(facts: Facts) -> None:
    """From their first message on, and a key's changes are put in order though they lie in different partitions."""
    assert facts.table("spread")["error"] is None
    assert facts.rows("spread") == {0: "third", **dict.fromkeys(range(1, 10), "second")}
    assert facts.table("spread")["offsets"] == {"0": 13, "1": 3, "2": 2, "3": 3}


def test_aborted_messages_are_none(facts: Facts) -> None:
    """They are neither in raw nor in the mirror, and the marks of transactions are no gaps."""
    assert facts.rows("aborted") == {**dict.fromkeys(range(10), "first"), 1: "kept", 3: "kept too"}
    assert facts.offsets("aborted") == [(0, offset) for offset in (*range(11), 14)]
    assert facts.table("aborted")["error"] is None


def test_a_compacted_topic_has_holes(facts: Facts) -> None:
    """What was taken away is no gap; each key has its last value, and deleted ones are gone."""
    rows = facts.rows("compacted")

    assert rows == {**{row: "second" for row in range(9) if row != 3}, 9: "last"}
    assert facts.table("compacted")["error"] is None


def test_headers_are_kept_as_they_came(facts: Facts) -> None:
    """In their order, with names that repeat and values that are null."""
    raw = facts.pipeline.raw("facts.headers")

    assert {tuple((header["key"], header["value"]) for header in row["headers"]) for row in raw} == {HEADERS}


def test_messages_without_a_key_are_held_unless_a_key_is_named(facts: Facts) -> None:
    """Held with their code; with `key:` the rows say it themselves."""
    held = facts.pipeline.quarantine("facts.keyless")

    assert [(row["offset"], row["code"]) for row in sorted(held, key=lambda row: row["offset"])] == [
        (offset, "KEY_NULL") for offset in range(1, 10)
    ]
    assert facts.rows("keyless") == {0: "first"}
    assert facts.rows("keyed") == dict.fromkeys(range(10), "first")


def test_a_message_of_twenty_megabytes(facts: Facts) -> None:
    """It comes through whole."""
    assert facts.table("large")["error"] is None
    assert facts.rows("large")[1] == LARGE


def test_messages_that_retention_took_stop_the_table(facts: Facts) -> None:
    """OFFSET_GAP, with the mirror as it was, and nothing landed past the gap."""
    assert facts.table("gone")["error"]["code"] == "OFFSET_GAP"
    assert facts.rows("gone") == dict.fromkeys(range(10), "first")
    assert facts.offsets("gone") == [(0, offset) for offset in range(10)]


def test_a_topic_made_again_stops_the_table(facts: Facts) -> None:
    """OFFSET_REGRESSION, though the new topic is longer than the old one was."""
    assert facts.table("again")["error"]["code"] == "OFFSET_REGRESSION"
    assert facts.rows("again") == dict.fromkeys(range(10), "first")


def test_topics_of_several_servers_are_one_mirror(facts: Facts) -> None:
    """Each row is its server's; a topic that comes later takes the next number, and raw says the topic's own name."""
    rows = sorted((row["server"], row["id"], row["text"]) for row in facts.pipeline.rows("facts.shards"))
    topics = {row["partition"]: row["topic"] for row in facts.pipeline.raw("facts.shards")}

    left = {"a": (1,), "b": (0, 1, 2), "c": (0, 2)}
    assert rows == [(server, row, f"shards_{server}") for server, ids in left.items() for row in ids]
    assert topics == {0: topic("shards_b"), 1_000_000: topic("shards_c"), 2_000_000: topic("shards_a")}
    assert facts.table("shards")["offsets"] == {"0": 3, "1000000": 5, "2000000": 1}


def test_only_they_fail(facts: Facts) -> None:
    """The run ends with 6, and every other table went on."""
    assert facts.second["exit_code"] == 6
    assert {table["table"] for table in facts.second["tables"] if table["error"]} == {"facts.gone", "facts.again"}
