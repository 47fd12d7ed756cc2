"""The public builders: what they make is what a real connector writes."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest

from cdc_materializer import testing
from cdc_materializer.registry import RecordedRegistry, RegisteredSchema
from cdc_materializer.source import MESSAGE_COLUMNS, RecordedSource


def test_a_recorded_line_has_the_columns_of_the_kafka_source() -> None:
    """The example of design section 4.3, field by field."""
    written = datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC)

    message = json.loads(testing.recorded_line("t", 1, 17, b"\x00", None, written, [("h", b"1"), ("h", None)]))

    assert tuple(message) == MESSAGE_COLUMNS
    assert message == {
        "key": "AA==",
        "value": None,
        "topic": "t",
        "partition": 1,
        "offset": 17,
        "timestamp": "2026-11-21T10:00:00.123Z",
        "timestampType": 0,
        "headers": [{"key": "h", "value": "MQ=="}, {"key": "h", "value": None}],
    }


@pytest.mark.parametrize("compressed", [False, True])
def test_a_built_topic_is_a_recorded_topic(tmp_path: Path, compressed: bool) -> None:  # noqa: FBT001
    """Offsets rise by themselves in each partition, with the holes that were asked for."""
    topic = testing.TopicBuilder("a.b", first_offset=2)
    offsets = [topic.add(b"1", b"2").offset, topic.add(b"1", b"2", partition=1).offset]
    topic.skip(4)
    offsets.append(topic.add(b"1", b"2").offset)

    topic.write(tmp_path, compressed=compressed)

    assert offsets == [2, 2, 7]
    assert RecordedSource(tmp_path).state("a.b").ends == {0: 8, 1: 3}


def test_confluent_avro_is_framed_with_the_schema_id() -> None:
    """A zero byte, four bytes of id, then the Avro bytes."""
    schema = testing.avro_key_schema("shop.public.orders", {"id": "long"})

    data = testing.confluent_avro(258, json.dumps(schema), {"id": 3})

    assert data == b"\x00\x00\x00\x01\x02\x06"


def test_a_memory_registry_knows_what_it_was_told(tmp_path: Path) -> None:
    """Ids are given or the next free one; what is written out is a folder of recorded schemas."""
    registry = testing.MemoryRegistry({4: {"type": "string"}})
    added = registry.add('"long"')

    registry.write(tmp_path)

    assert added == 5
    for found in (registry, RecordedRegistry(tmp_path)):
        assert found.schema(4) == RegisteredSchema(4, "AVRO", '{"type": "string"}')
        assert found.schema(5) == RegisteredSchema(5, "AVRO", '"long"')
        assert found.schema(6) is None


@pytest.mark.parametrize(
    ("arguments", "sequence"),
    [
        ({"lsn": 20}, '["20","20"]'),
        ({"lsn": 20, "commit_lsn": 10}, '["10","20"]'),
        ({"lsn": 20, "snapshot": "first"}, '[null,"20"]'),
    ],
)
def test_an_envelope_says_where_the_change_is_in_the_log(arguments: dict[str, Any], sequence: str) -> None:
    """`source.sequence` is the text of a list of two positions, as PostgreSQL connectors write it."""
    envelope = testing.debezium_envelope("u", None, {"id": 1}, **arguments)

    assert envelope["source"]["sequence"] == sequence
    assert envelope["source"]["lsn"] == 20


def test_json_comes_with_and_without_its_schema() -> None:
    """With a schema the document is Connect's pair of schema and payload."""
    columns = {"id": {"type": "int64", "optional": False}}
    envelope = testing.debezium_envelope("c", None, {"id": 1})
    schema = testing.connect_envelope_schema("shop.public.orders", columns)

    assert json.loads(testing.debezium_json(envelope)) == envelope
    assert json.loads(testing.debezium_json(envelope, schema)) == {"schema": schema, "payload": envelope}


def test_schemas_describe_the_envelope_field_by_field() -> None:
    """What the builders make can be written with the schemas that they make, and has no field beside them."""
    envelope = testing.debezium_envelope("c", None, {"id": 1, "note": None})
    connect = testing.connect_envelope_schema(
        "s.t", {"id": {"type": "int64"}, "note": {"type": "string", "optional": True}}
    )
    avro = fastavro.parse_schema(testing.avro_envelope_schema("s.t", {"id": "long", "note": ["null", "string"]}))
    buffer = io.BytesIO()

    fastavro.schemaless_writer(buffer, avro, envelope, strict=True)
    buffer.seek(0)

    assert fastavro.schemaless_reader(buffer, avro, None) == envelope
    assert [field["field"] for field in connect["fields"]] == list(envelope)
    assert [field["field"] for field in connect["fields"][2]["fields"]] == list(envelope["source"])
    assert testing.connect_key_schema("s.t", {"id": {"type": "int64"}})["name"] == "s.t.Key"


#: The fields of an envelope and of its `source`, as Debezium PostgreSQL 3.7.0 wrote them.
REAL_ENVELOPE = ("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
REAL_SOURCE = (
    *("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "schema", "table"),
    *("txId", "lsn", "xmin", "origin", "origin_lsn"),
)


def test_the_builders_write_what_a_real_connector_writes() -> None:
    """An envelope has the real fields in their order, less two that only logical replication chains fill."""
    envelope = testing.debezium_envelope("r", None, {"id": 1}, snapshot="first")

    assert tuple(envelope) == REAL_ENVELOPE
    assert (*envelope["source"], "origin", "origin_lsn") == REAL_SOURCE
