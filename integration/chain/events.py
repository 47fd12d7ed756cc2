"""Change events made by hand, for histories that no connector writes on demand: Debezium's, as JSON with schemas."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_materializer.testing import connect_envelope_schema, connect_key_schema, debezium_envelope, debezium_json
from integration.chain.kafka import MESSAGE_BYTES_MAX
from integration.chain.process import ChainError, wait_until

_SECONDS_MAX = 60.0
_KEY = connect_key_schema("things", {"id": {"type": "int64", "optional": False}})
_VALUE = connect_envelope_schema(
    "things", {"id": {"type": "int64", "optional": False}, "text": {"type": "string", "optional": True}}
)


@dataclass(frozen=True)
class Event:
    """One message: a change of the row ``id`` of a table with the columns ``id`` and ``text``."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def change(op: str, row: int, text: str | None, lsn: int) -> Event:
    """A change: ``c``, ``u``, ``r`` with the row's text, or ``d``; ``lsn`` is its place in the database's log."""
    before, after = (None, {"id": row, "text": text}) if op != "d" else ({"id": row, "text": None}, None)
    value = debezium_json(debezium_envelope(op, before, after, lsn=lsn, table="things"), _VALUE)
    return Event(debezium_json({"id": row}, _KEY), value)


def tombstone(row: int) -> Event:
    """The message without a value that follows a delete."""
    return Event(debezium_json({"id": row}, _KEY), None)


def producer(bootstrap: str, **settings: object) -> Any:  # noqa: ANN401 - confluent-kafka ships no types
    """A producer of the client library; ``settings`` have underscores in place of dots."""
    from confluent_kafka import Producer

    own = {"bootstrap.servers": bootstrap, "message.max.bytes": MESSAGE_BYTES_MAX, "log_level": 0}
    return Producer({**own, **{name.replace("_", "."): value for name, value in settings.items()}})


def send(sender: Any, topic: str, events: Sequence[Event], partition: int = 0) -> None:  # noqa: ANN401 - as above
    """Send events to one partition, in their order, and wait until the broker has them.

    Raises:
        ChainError: it does not take them.
    """
    failed: list[str] = []

    def told(error: Any, _: object) -> None:  # noqa: ANN401 - as above
        if error is not None:
            failed.append(str(error))

    for event in events:
        sender.produce(topic, event.value, event.key, partition, on_delivery=told, headers=list(event.headers))
    if sender.flush(_SECONDS_MAX) or failed:
        message = f"the broker did not take all messages of {topic}: {failed[:1]}"
        raise ChainError(message)


def create_topic(bootstrap: str, topic: str, settings: Mapping[str, str] | None = None, partitions: int = 1) -> None:
    """Create a topic."""
    from confluent_kafka.admin import NewTopic

    admin = _admin(bootstrap)  # has to live until it is answered
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=dict(settings or {}))]).values():
        future.result(_SECONDS_MAX)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic; returns when the broker does not list it any more."""
    admin = _admin(bootstrap)
    for future in admin.delete_topics([topic]).values():
        future.result(_SECONDS_MAX)
    wait_until(f"{topic} is gone", lambda: topic not in admin.list_topics(timeout=_SECONDS_MAX).topics, _SECONDS_MAX)


def add_partitions(bootstrap: str, topic: str, partitions: int) -> None:
    """Make a topic have so many partitions; what is in it stays where it is."""
    from confluent_kafka.admin import NewPartitions

    admin = _admin(bootstrap)  # has to live until it is answered
    for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(_SECONDS_MAX)


def forget_before(bootstrap: str, topic: str, offset: int) -> None:
    """Remove the messages of partition 0 before an offset, as retention does."""
    from confluent_kafka import TopicPartition

    admin = _admin(bootstrap)  # has to live until it is answered
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(_SECONDS_MAX)


def _admin(bootstrap: str) -> Any:  # noqa: ANN401 - as above
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
