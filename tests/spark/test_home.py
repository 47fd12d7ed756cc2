"""Which keys can stand in one partition only: told from where Kafka puts them, and from how they are written."""

import json
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.changes import model as m
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.changes.options import Options
from cdc_materializer.decode.partitioner import is_placed
from cdc_materializer.decoders.decoders import Lookup, find_decoders
from cdc_materializer.merge import RAW_SCHEMA
from cdc_materializer.testing import (
    EPOCH,
    MemoryRegistry,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
    kafka_partition,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOPIC = "shop.public.things"
PARTITIONS = 5


def test_a_key_is_put_where_kafka_puts_it(spark: "SparkSession") -> None:
    """Held against Kafka's own class: keys of all lengths and of all bytes."""
    chance = random.Random(7)  # noqa: S311 - repeatable, not secret
    keys = [chance.randbytes(length) for length in range(40) for _ in range(5)]
    jvm: Any = spark._jvm
    hashed = jvm.org.apache.kafka.common.utils.Utils
    expected = [hashed.toPositive(hashed.murmur2(bytearray(key))) % PARTITIONS for key in keys]
    rows = [(key, partition) for key, partition in zip(keys, expected, strict=True)]
    found = spark.createDataFrame(rows, "key binary, partition int")

    assert [kafka_partition(key, PARTITIONS) for key in keys] == expected
    assert set(expected) == set(range(PARTITIONS))
    other = F.pmod(F.col("partition") + 1, F.lit(PARTITIONS))
    told = found.select(*[is_placed(F.col("key"), place, PARTITIONS) for place in (F.col("partition"), other)])
    assert {tuple(row) for row in told.collect()} == {(True, False)}


def _json(text: str) -> bytes:
    return text.encode()


_LONG_KEY = avro_key_schema(TOPIC, {"id": "long"})
_CONNECT_KEY = connect_key_schema(TOPIC, {"id": {"type": "int64", "optional": False}})
_PAIR = avro_key_schema(TOPIC, {"id": "long", "code": "string"})
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
_NUMBER = {
    "type": "record",
    "name": "VariableScaleDecimal",
    "namespace": "io.debezium.data",
    "connect.name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}
_TIME = {"type": "long", "connect.name": "io.debezium.time.NanoTime"}
#: The key of a row, where it is not 1.
_IDS: dict[str, Any] = {"decimals": b"\x01", "numbers with a scale of their own": {"scale": 0, "value": b"\x01"}}


def _key_of(kind: Mapping[str, Any]) -> dict[str, Any]:
    return avro_key_schema(TOPIC, {"id": kind})


_BLOCK = debezium_json({"id": 1}, _CONNECT_KEY)
#: Of each kind of keys: the columns of the table, one or two keys of it, and whether they tell that they stay.
KINDS: dict[str, tuple[Mapping[str, Any], list[bytes], bool]] = {
    "avro": ({"id": "long"}, [confluent_avro(1, _LONG_KEY, {"id": key}) for key in (1, 700)], True),
    "of two columns": (
        {"id": "long", "code": "string"},
        [confluent_avro(3, _PAIR, {"id": 1, "code": code}) for code in ("a", "ä \U0001f600")],
        True,
    ),
    "with their schema": ({"id": "long"}, [debezium_json({"id": key}, _CONNECT_KEY) for key in (1, -7)], True),
    "two schemas": ({"id": "long"}, [confluent_avro(1, _LONG_KEY, {"id": 1}), _BLOCK], False),
    "with blanks": ({"id": "long"}, [_BLOCK, _BLOCK.replace(b'"payload":{"id":1}', b'"payload": {"id": 1}')], False),
    "with blanks in the schema": (
        {"id": "long"},
        [_BLOCK, _BLOCK.replace(b'"type":"struct"', b'"type": "struct"')],
        False,
    ),
    "payload first": (
        {"id": "long"},
        [_json(json.dumps({"payload": {"id": 1}, "schema": _CONNECT_KEY}, separators=(",", ":")))],
        False,
    ),
    "numbers with a scale of their own": (
        {"id": _NUMBER},
        [confluent_avro(5, _key_of(_NUMBER), {"id": _IDS["numbers with a scale of their own"]})],
        False,
    ),
    "times": ({"id": _TIME}, [confluent_avro(6, _key_of(_TIME), {"id": 1})], False),
    "decimals": ({"id": _DECIMAL}, [confluent_avro(4, _key_of(_DECIMAL), {"id": _IDS["decimals"]})], False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_stay_that_are_written_in_one_way(spark: "SparkSession", kind: str) -> None:
    """Two ways to write a key are two hashes, and a decimal has many."""
    columns, keys, stays = KINDS[kind]
    value = avro_envelope_schema(TOPIC, columns)
    row = {"id": _IDS.get(kind, 1), "code": "a"}
    image = confluent_avro(2, value, debezium_envelope("u", None, {name: row[name] for name in columns}, lsn=7))
    found = _homes(spark, value, [{"key": key, "value": image} for key in keys])

    assert len(found) == len(keys)
    assert (len(set(found)) == 1 and found[0] != "") is stays, found


def test_a_schema_that_a_header_names_makes_other_bytes_of_a_key(spark: "SparkSession") -> None:
    """A producer that is set to headers writes keys without what named their schema, and so puts them elsewhere."""
    value = avro_envelope_schema(TOPIC, {"id": "long"})
    image = confluent_avro(2, value, debezium_envelope("u", None, {"id": 1}, lsn=7))
    by_bytes = confluent_avro(1, _LONG_KEY, {"id": 1})
    by_header = {"key": by_bytes[5:], "key_schema_name": "id:00000001"}
    found = _homes(spark, value, [{"key": by_bytes, "value": image}, by_header | {"value": image}])

    assert found == ["id:00000001", "header id:00000001"]


def _homes(spark: "SparkSession", value: Mapping[str, Any], told: list[dict[str, Any]]) -> list[str]:
    """The homes of messages, each of them where Kafka puts it; schema 2 is that of values."""
    keys = {1: _LONG_KEY, 3: _PAIR, 4: _key_of(_DECIMAL), 5: _key_of(_NUMBER), 6: _key_of(_TIME)}
    registry = MemoryRegistry({**keys, 2: value})
    rows = [
        {"topic": TOPIC, "partition": kafka_partition(one["key"], PARTITIONS), "offset": at, "timestamp": EPOCH} | one
        for at, one in enumerate(told)
    ]
    types = ", ".join(f"`{column.name}` {column.type}" for column in RAW_SCHEMA.columns)
    raw = spark.createDataFrame([{name: row.get(name) for name in RAW_SCHEMA.types} for row in rows], types)
    messages = batch.messages(raw, None, registry.id_bytes, PARTITIONS)
    decoders = find_decoders(messages, Lookup(registry, None, Options(), None))
    changes = to_changes(messages, decoders.writers, decoders.plan.target, Options())
    return [row[m.HOME] for row in changes.orderBy(m.OFFSET).select(m.HOME).collect()]
