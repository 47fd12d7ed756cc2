"""Builders and fakes for tests: recorded topics, Confluent-framed Avro, Debezium events, a registry in memory.

Public, for the tests of this package, its golden cases and those of its users. What is built here is laid out as a real
PostgreSQL connector (Debezium 3.7) writes it, less what no test needs. Other fakes have modules of their own: the lake
in memory with its faults (`testing_lake`, `testing_catalog`), a scripted source (`testing_source`), a clock
(`testing_clock`).
"""

import base64
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

from cdc_materializer.decode.naming import ID_BYTES, MAGIC_ID, SchemaName
from cdc_materializer.registry import RegisteredSchema, Wanted

#: Headers of a message: names may repeat, values may be null.
Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

#: When messages without a timestamp were written: the n-th a millisecond after the one before.
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


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
        """Append a message at the partition's next offset and return it."""
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


def debezium_envelope(  # noqa: PLR0913  (an envelope has that many parts)
    op: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    lsn: int | None = 100,
    commit_lsn: int | None = None,
    ts_ms: int = 1_767_225_600_000,
    snapshot: str = "false",
    table: str = "orders",
    schema: str = "public",
    database: str = "shop",
    server: str = "shop",
    tx_id: int | None = 1,
) -> dict[str, Any]:
    """Return a Debezium envelope of a PostgreSQL connector, as parsed JSON.

    Args:
        op: `c`, `u`, `d`, `r` (snapshot) or `t` (truncate).
        before: the row's columns before the change, or None.
        after: the row's columns after it, or None.
        lsn: position of the change in the log; None for rows of an incremental snapshot.
        commit_lsn: position of the commit before this transaction's own, the first of `source.sequence`; None is null
            there, as in a first snapshot; left out, it is null for snapshot rows and otherwise the lsn.
        ts_ms: when the database committed, in milliseconds since 1970.
        snapshot: `false`, `first`, `true`, `last`, `incremental`, …
        table: the row's table.
        schema: the table's schema.
        database: the schema's database.
        server: the topic prefix.
        tx_id: the transaction's number.
    """
    committed = lsn if commit_lsn is None and snapshot == "false" else commit_lsn
    sequence = json.dumps([None if number is None else str(number) for number in (committed, lsn)])
    source = {
        "version": "3.7.0.Final",
        "connector": "postgresql",
        "name": server,
        "ts_ms": ts_ms,
        "snapshot": snapshot,
        "db": database,
        "sequence": sequence.replace(", ", ","),
        "ts_us": ts_ms * 1_000,
        "ts_ns": ts_ms * 1_000_000,
        "schema": schema,
        "table": table,
        "txId": tx_id,
        "lsn": lsn,
        "xmin": None,
    }
    return {
        "before": None if before is None else dict(before),
        "after": None if after is None else dict(after),
        "source": source,
        "transaction": None,
        "op": op,
        "ts_ms": ts_ms + 5,
        "ts_us": (ts_ms + 5) * 1_000,
        "ts_ns": (ts_ms + 5) * 1_000_000,
    }


def debezium_json(payload: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> bytes:
    """Encode an envelope (or a key) as Kafka Connect's JsonConverter does: with its schema, or bare."""
    document = payload if schema is None else {"schema": schema, "payload": payload}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


#: `source` of a PostgreSQL connector: each field with its Connect type and whether it may be null.
_SOURCE_FIELDS = (
    ("version", "string", False),
    ("connector", "string", False),
    ("name", "string", False),
    ("ts_ms", "int64", False),
    ("snapshot", "string", True),
    ("db", "string", False),
    ("sequence", "string", True),
    ("ts_us", "int64", True),
    ("ts_ns", "int64", True),
    ("schema", "string", False),
    ("table", "string", False),
    ("txId", "int64", True),
    ("lsn", "int64", True),
    ("xmin", "int64", True),
)
_TRANSACTION_FIELDS = (
    ("id", "string", False),
    ("total_order", "int64", False),
    ("data_collection_order", "int64", False),
)
_LAST_FIELDS = (("op", "string", False), ("ts_ms", "int64", True), ("ts_us", "int64", True), ("ts_ns", "int64", True))

_AVRO_TYPES = {"string": "string", "int64": "long"}


def connect_key_schema(topic: str, columns: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the Connect schema of a key in JSON; columns are as in `connect_envelope_schema`."""
    return _connect_struct(f"{topic}.Key", _connect_columns(columns), optional=False)


def connect_envelope_schema(topic: str, columns: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the Connect schema of an envelope in JSON.

    Args:
        topic: what the schemas' names begin with.
        columns: the row's columns by name, each a Connect type such as `{"type": "int64", "optional": False}` or
            `{"type": "int32", "optional": True, "name": "io.debezium.time.Date", "version": 1}`.
    """
    row = _connect_struct(f"{topic}.Value", _connect_columns(columns), optional=True)
    source = _connect_struct("io.debezium.connector.postgresql.Source", _connect_fields(_SOURCE_FIELDS), optional=False)
    transaction = _connect_struct("event.block", _connect_fields(_TRANSACTION_FIELDS), optional=True)
    fields = [
        {**row, "field": "before"},
        {**row, "field": "after"},
        {**source, "field": "source"},
        {**transaction, "field": "transaction"},
        *_connect_fields(_LAST_FIELDS),
    ]
    return {**_connect_struct(f"{topic}.Envelope", fields, optional=False), "version": 2}


def _connect_struct(name: str, fields: Sequence[Mapping[str, Any]], *, optional: bool) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "optional": optional, "name": name}


def _connect_columns(columns: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**kind, "field": name} for name, kind in columns.items()]


def _connect_fields(fields: Iterable[tuple[str, str, bool]]) -> list[dict[str, Any]]:
    return [{"type": kind, "optional": optional, "field": name} for name, kind, optional in fields]


def avro_key_schema(topic: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Avro schema of a key; columns are as in `avro_envelope_schema`."""
    return _avro_record("Key", topic, _avro_columns(columns))


def avro_envelope_schema(topic: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Avro schema of an envelope, as the Avro converter registers it.

    Args:
        topic: the namespace of the row and the envelope.
        columns: the row's columns by name, each an Avro type such as `"long"`, `["null", "string"]` or
            `{"type": "int", "connect.name": "io.debezium.time.Date", "connect.version": 1}`.
    """
    row = {**_avro_record("Value", "", _avro_columns(columns)), "connect.name": f"{topic}.Value"}
    del row["namespace"]
    source = _avro_record("Source", "io.debezium.connector.postgresql", _avro_fields(_SOURCE_FIELDS))
    transaction = _avro_record("block", "event", _avro_fields(_TRANSACTION_FIELDS))
    fields: list[dict[str, Any]] = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": source},
        {"name": "transaction", "type": ["null", transaction], "default": None},
        *_avro_fields(_LAST_FIELDS),
    ]
    return {**_avro_record("Envelope", topic, fields), "connect.version": 2, "connect.name": f"{topic}.Envelope"}


def _avro_record(name: str, namespace: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": namespace, "fields": fields}


def _avro_columns(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "type": kind, **({"default": None} if isinstance(kind, list) and kind[0] == "null" else {})}
        for name, kind in columns.items()
    ]


def _avro_fields(fields: Iterable[tuple[str, str, bool]]) -> list[dict[str, Any]]:
    return _avro_columns(
        {name: ["null", _AVRO_TYPES[kind]] if optional else _AVRO_TYPES[kind] for name, kind, optional in fields}
    )
