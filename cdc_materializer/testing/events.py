"""Debezium's events as a real PostgreSQL connector (3.7) lays them out, with their schemas in JSON and Avro.

Public, as `testing`, which has all of it under its own name.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


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
