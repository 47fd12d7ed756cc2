"""Builders and fakes for tests: recorded topics, framed Avro, Debezium events, and a lake in memory.

Public, for the tests of this package, its golden cases and those of its users. What is built here is laid out as a real
PostgreSQL connector (Debezium 3.7) writes it, less what no test needs. Each fake passes the tests of what it stands
for: the lake in memory with its catalog, a scripted source, a registry, a clock. Those of them that need PySpark are
imported when they are first used; whoever only builds topics has no need of it.
"""

import base64
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cdc_materializer.decode.naming import ID_BYTES, MAGIC_ID, SchemaName
from cdc_materializer.registry import RegisteredSchema, Wanted
from cdc_materializer.testing.clock import EPOCH, FixedClock
from cdc_materializer.testing.events import (
    avro_envelope_schema,
    avro_key_schema,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from cdc_materializer.testing.faults import FAULTS, Fault, FaultPlan, Killed

if TYPE_CHECKING:
    from cdc_materializer.testing.catalog import JavaError, MemoryCatalog, MemorySnapshot, Metadata, Row
    from cdc_materializer.testing.lake import MemoryLake, MemoryRows, delete_statement, memory_lake
    from cdc_materializer.testing.source import ScriptedSource

__all__ = [
    "EPOCH",
    "FAULTS",
    "Fault",
    "FaultPlan",
    "FixedClock",
    "Headers",
    "JavaError",
    "Killed",
    "MemoryCatalog",
    "MemoryLake",
    "MemoryRegistry",
    "MemoryRows",
    "MemorySnapshot",
    "Message",
    "Metadata",
    "Row",
    "ScriptedSource",
    "TopicBuilder",
    "avro_datum",
    "avro_envelope_schema",
    "avro_key_schema",
    "confluent_avro",
    "connect_envelope_schema",
    "connect_key_schema",
    "debezium_envelope",
    "debezium_json",
    "delete_statement",
    "kafka_partition",
    "memory_lake",
    "recorded_line",
    "write_recorded_topic",
]

#: The fakes that are imported when they are first used, and their modules.
_HOMES = {
    **dict.fromkeys(("JavaError", "MemoryCatalog", "MemorySnapshot", "Metadata", "Row"), "catalog"),
    **dict.fromkeys(("MemoryLake", "MemoryRows", "delete_statement", "memory_lake"), "lake"),
    "ScriptedSource": "source",
}

#: Headers of a message: names may repeat, values may be null.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Message:
    """One Kafka record, as Spark's Kafka source shows it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: datetime = EPOCH
    headers: Headers | None = None

    def line(self) -> str:
        """Return the message as one line of a recorded topic, without the newline; see `recorded_line`."""
        return recorded_line(
            self.topic, self.partition, self.offset, self.key, self.value, self.timestamp, self.headers
        )


class TopicBuilder:
    """Collects messages of one topic with rising offsets, and writes them as a recorded topic.

    >>> orders = TopicBuilder("shop.public.orders")
    >>> orders.add(b"1", b"{}").offset
    0
    """

    def __init__(self, topic: str, *, first_offset: int = 0) -> None:
        """Name the topic and the first offset of every partition."""
        self.topic = topic
        self.messages: list[Message] = []
        self._first_offset = first_offset
        self._next: dict[int, int] = {}

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        partition: int = 0,
        timestamp: datetime | None = None,
        headers: Headers | None = None,
    ) -> Message:
        """Append a message at the partition's next offset and return it.

        Without a timestamp the first was written at `EPOCH`, and each a millisecond after the one before.
        """
        written = timestamp or EPOCH + timedelta(milliseconds=len(self.messages))
        message = Message(self.topic, partition, self._take(partition, 1), key, value, written, headers)
        self.messages.append(message)
        return message

    def skip(self, count: int = 1, *, partition: int = 0) -> None:
        """Leave a hole in the offsets, as compaction and transaction marks do."""
        self._take(partition, count)

    def write(self, folder: Path, *, compressed: bool = False) -> Path:
        """Write the topic into a folder, over what was there, and return the file."""
        return write_recorded_topic(folder, self.topic, self.messages, compressed=compressed)

    def _take(self, partition: int, count: int) -> int:
        offset = self._next.get(partition, self._first_offset)
        self._next[partition] = offset + count
        return offset


def kafka_partition(key: bytes, partitions: int) -> int:
    """The partition into which Kafka's own partitioner puts a key: its MurmurHash2, without the sign.

    >>> kafka_partition(b'{"id":1}', 3)
    0
    """
    factor, mask, whole = 0x5BD1E995, 0xFFFFFFFF, len(key) // 4 * 4
    found = 0x9747B28C ^ len(key)
    for at in range(0, whole, 4):
        four = int.from_bytes(key[at : at + 4], "little") * factor & mask
        found = (found * factor ^ (four ^ four >> 24) * factor) & mask
    if key[whole:]:
        found = (found ^ int.from_bytes(key[whole:], "little")) * factor & mask
    found = (found ^ found >> 13) * factor & mask
    return ((found ^ found >> 15) & 0x7FFFFFFF) % partitions


def recorded_line(
    topic: str,
    partition: int,
    offset: int,
    key: bytes | None,
    value: bytes | None,
    timestamp: datetime = EPOCH,
    headers: Headers | None = None,
) -> str:
    """Return a message as one line of a recorded topic (design section 4.3), without the newline.

    Args:
        topic: the topic's name.
        partition: number of the partition, from zero.
        offset: place of the message in its partition.
        key: the key's bytes, or None for null.
        value: the value's bytes, or None for null, which makes a tombstone.
        timestamp: with a time zone; kept to the millisecond, as Kafka does.
        headers: names and values; None where the message has none.
    """
    written = timestamp.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = {
        "key": _base64(key),
        "value": _base64(value),
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": written,
        "timestampType": 0,
        "headers": None if headers is None else [{"key": name, "value": _base64(data)} for name, data in headers],
    }
    return json.dumps(message)


def write_recorded_topic(folder: Path, topic: str, messages: Iterable[Message], *, compressed: bool = False) -> Path:
    """Write messages as `<topic>.jsonl`, or `<topic>.jsonl.gz`, and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{message.line()}\n" for message in messages)
    path = folder / f"{topic}.jsonl{'.gz' if compressed else ''}"
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if compressed else text.encode())
    return path


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


class MemoryRegistry:
    """A registry that knows what it was told; see `cdc_materializer.registry.Registry`."""

    id_bytes = ID_BYTES
    place = "memory"

    def __init__(self, schemas: Mapping[int, str | Mapping[str, Any]] | None = None) -> None:
        """Take Avro schemas by id, as text or parsed."""
        self._schemas: dict[int, RegisteredSchema] = {}
        self.found: dict[SchemaName, RegisteredSchema] = {}
        for schema_id, schema in (schemas or {}).items():
            self.add(schema, schema_id=schema_id)

    def add(self, schema: str | Mapping[str, Any], *, schema_id: int | None = None, kind: str = "AVRO") -> int:
        """Register a schema, under the next free id where none is given, and return its id."""
        number = max(self._schemas, default=0) + 1 if schema_id is None else schema_id
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self._schemas[number] = RegisteredSchema(number, kind, text)
        return number

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """Find a schema; None where the id was never registered."""
        name = SchemaName.of_id(wanted) if isinstance(wanted, int) else wanted
        found = None if name.number is None else self._schemas.get(name.number)
        if found is not None:
            self.found[name] = found
        return found

    def write(self, folder: Path) -> None:
        """Write what is registered as a folder of recorded schemas (design section 4.3)."""
        ids = folder / "ids"
        ids.mkdir(parents=True, exist_ok=True)
        for number, registered in self._schemas.items():
            body = {"schema": registered.text, "schemaType": registered.kind, "references": []}
            (ids / f"{number}.json").write_text(json.dumps(body), encoding="utf-8")


def confluent_avro(
    schema_id: int, schema: str | Mapping[str, Any], value: object, *, id_bytes: int = ID_BYTES
) -> bytes:
    """Encode a value in Avro with Confluent's framing: a zero byte, the schema id in four bytes, the Avro bytes."""
    return MAGIC_ID + schema_id.to_bytes(id_bytes, "big") + avro_datum(schema, value)


def avro_datum(schema: str | Mapping[str, Any], value: object) -> bytes:
    """Encode a value in Avro, and nothing before it."""
    import fastavro

    from cdc_materializer.decode.wire import parsed_avro

    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, parsed_avro(schema if isinstance(schema, str) else json.dumps(schema)), value)
    return buffer.getvalue()


def __getattr__(name: str) -> object:
    """Import a fake from the module that has it, at its first use."""
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the fakes before they are imported, for completion in a shell."""
    return sorted({*globals(), *_HOMES})
