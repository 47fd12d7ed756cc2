"""Bytes to begin with: what connectors really send, one file each, so that a fuzzer need not guess JSON and Avro."""

import json
from pathlib import Path

from cdc_materializer.testing import (
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.cases.types import columns

_TOPIC = "shop.public.orders"
_KEY = {"id": {"type": "int64", "optional": False}}


def seeds() -> list[bytes]:
    """Framed keys and values, schemas of every type that there is, in each spelling, and pairs of them."""
    kinds = {column.name: column.connect for column in columns()}
    value = avro_envelope_schema(_TOPIC, {"id": "long", **{column.name: column.avro() for column in columns()}})
    key = avro_key_schema(_TOPIC, {"id": "long"})
    small = avro_envelope_schema(_TOPIC, {"id": "long"})
    envelope = debezium_envelope("c", None, {"id": 1})
    texts = [value, key, small, connect_envelope_schema(_TOPIC, _KEY | kinds), connect_key_schema(_TOPIC, _KEY)]
    texts += [{"type": "object", "properties": {"id": {"type": "integer", "connect.type": "int64"}}}]
    found = [json.dumps(text).encode() for text in texts]
    return [
        *found,
        found[0] + b"\n" + found[1],
        found[3] + b"\n" + found[4],
        confluent_avro(1, key, {"id": 1}) + b"\n" + confluent_avro(2, small, envelope),
        debezium_json({"id": 1}, connect_key_schema(_TOPIC, _KEY))
        + b"\n"
        + debezium_json(envelope, connect_envelope_schema(_TOPIC, _KEY)),
        b"\x01" + b"\x07" * 16 + b"\x02",
        b"\xc3\x01" + b"\x07" * 8 + b"\x02",
        b"group/artifact/1",
    ]


def write(folder: Path) -> None:
    """Write each seed as a file, as fuzzers read them."""
    folder.mkdir(parents=True, exist_ok=True)
    for at, seed in enumerate(seeds()):
        (folder / f"{at}").write_bytes(seed)
