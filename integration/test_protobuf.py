"""Protobuf whose schema imports another one, both registered with Apicurio, and messages in a real broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pytest
from google.protobuf import descriptor_pool, message_factory

from cdc_materializer.decode.naming import MAGIC_ID
from cdc_materializer.decode.proto_files import bundle, compiled
from integration.chain import web
from integration.chain.events import Event, create_topic, producer, send
from integration.chain.kafka import Kafka
from integration.chain.pipeline import Pipeline
from integration.chain.registry import Registry

_TOPIC = "live.shop.priced"
_HEAD = 'syntax = "proto3"; package live;'
_IMPORT = "live/money.proto"
_MONEY = f"{_HEAD} message Money {{ string currency = 1; optional int64 cents = 2; }}"
_KEY = f"{_HEAD} message Key {{ int64 id = 1; }}"
_SOURCE = "message Source { string connector = 1; int64 lsn = 2; int64 ts_ms = 3; string snapshot = 4; }"
_ENVELOPE = "message Envelope { Row before = 1; Row after = 2; Source source = 3; string op = 4; }"
#: Two versions of the table: the second has one more column.
_ROWS = tuple(
    f'{_HEAD} import "{_IMPORT}"; message Row {{ int64 id = 1; optional string name = 2; Money price = 3;{more} }}'
    f" {_SOURCE} {_ENVELOPE}"
    for more in ("", " repeated Money rebates = 4;")
)
#: The place of the envelope in its file, as Confluent's serializer spells it: one number, a two.
_THIRD, _FIRST = b"\x02\x04", b"\x00"


def _register(registry: Registry, subject: str, text: str, references: list[dict[str, Any]]) -> int:
    body = {"schemaType": "PROTOBUF", "schema": text, "references": references}
    address = urlparse(registry.url)
    answer = web.request("POST", registry.port, f"{address.path}/subjects/{subject}/versions", body)
    assert answer.ok, answer.text
    number: int = answer.json()["id"]
    return number


def _octets(number: int, place: bytes, text: str, name: str, said: dict[str, Any]) -> bytes:
    """A message of a schema, written by Google's library."""
    pool = descriptor_pool.DescriptorPool()
    for file in compiled(bundle(text, {_IMPORT: _MONEY})):
        pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"live.{name}"))(**said)
    octets: bytes = message.SerializeToString()
    return MAGIC_ID + number.to_bytes(4) + place + octets


@pytest.fixture(scope="module")
def pipeline(kafka: Kafka, registry: Registry, folder: Callable[[str], Path]) -> Pipeline:
    """A pipeline of a topic whose messages name three schemas, one of which the others import."""
    _register(registry, "priced-money", _MONEY, [])
    money = [{"name": _IMPORT, "subject": "priced-money", "version": 1}]
    key = _register(registry, f"{_TOPIC}-key", _KEY, [])
    versions = [_register(registry, f"{_TOPIC}-value", text, money) for text in _ROWS]

    def event(lsn: int, op: str, row: dict[str, Any], version: int = 0) -> Event:
        image = {"before" if op == "d" else "after": row}
        source = {"connector": "postgresql", "lsn": lsn, "ts_ms": 1_767_225_600_000 + lsn}
        value = {"op": op, "source": source, **image}
        return Event(
            _octets(key, _FIRST, _KEY, "Key", {"id": row["id"]}),
            _octets(versions[version], _THIRD, _ROWS[version], "Envelope", value),
        )

    events = [
        event(100, "c", {"id": 1, "name": "a", "price": {"currency": "EUR", "cents": 2**53 + 1}}),
        event(200, "c", {"id": 2, "name": "", "price": {"currency": "\u20ac"}}),
        event(300, "c", {"id": 3}),
        event(400, "u", {"id": 2, "price": {"cents": 0}, "rebates": [{"currency": "EUR", "cents": -1}, {}]}, 1),
        event(500, "d", {"id": 3}, 1),
    ]
    create_topic(kafka.bootstrap, _TOPIC)
    send(producer(kafka.bootstrap), _TOPIC, [*events, Event(events[-1].key, None)])
    source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    tables = [{"topic": _TOPIC, "mirror": "live.priced"}]
    return Pipeline.write(folder("protobuf"), source, tables, {"registry": {"url": registry.url}})


def test_a_topic_whose_schema_imports_another_is_mirrored(pipeline: Pipeline) -> None:
    """Two versions of it, with a column that only the second has; nothing is held."""
    document = pipeline.run_once()

    assert (document["exit_code"], document["tables"][0]["quarantined"]) == (0, 0)
    # PyIceberg 0.12 shows a list of structs that is NULL as an empty one.
    rows = {row["id"]: (row["name"], row["price"], row["rebates"] or None) for row in pipeline.rows("live.priced")}
    assert rows == {
        1: ("a", {"currency": "EUR", "cents": 2**53 + 1}, None),
        2: (
            None,
            {"currency": "", "cents": 0},
            [{"currency": "EUR", "cents": -1}, {"currency": "", "cents": None}],
        ),
    }
