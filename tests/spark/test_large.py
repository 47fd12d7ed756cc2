"""Large messages: a text of 20 MB, 2,000 columns, types that stand deep in one another."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.config import Config, TableConfig
from cdc_materializer.decode.writers import JSON_TEXT_MAX, block_writer
from cdc_materializer.java_options import AVRO_LIMITS
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.line import Line
from cdc_materializer.pipeline import advance
from cdc_materializer.source import RecordedSource
from cdc_materializer.testing import (
    MemoryRegistry,
    TopicBuilder,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]
_slow = pytest.mark.skipif(os.environ.get("CDCM_TESTS") != "all", reason="takes long; CDCM_TESTS=all runs it")

TOPIC = "shop.public.large"
KEY = avro_key_schema(TOPIC, {"id": "long"})
TEXT = ["null", "string"]


@pytest.fixture
def line(spark: "SparkSession", lake_config: Config, namespace: str, tmp_path: Path) -> Line:
    """The way of one table whose topic is recorded in `tmp_path`."""
    table = TableConfig.model_validate({"topic": TOPIC, "mirror": f"{namespace}.large"})
    lake = Lake(spark.newSession(), lake_config.catalog.name)
    return Line("large", table, RecordedSource(tmp_path), MemoryRegistry({1: KEY}), None, lake)


def _bring_up(line: Line, folder: Path, messages: list[tuple[bytes, bytes]]) -> list[dict[str, Any]]:
    """Record the messages, run, and give the mirror's rows by key."""
    topic = TopicBuilder(TOPIC)
    for key, value in messages:
        topic.add(key, value)
    topic.write(folder)
    state = line.source.state(TOPIC)
    while advance(line, state) is not None:
        pass
    rows = line.lake.spark.table(f"{line.lake.catalog}.{line.mirror}").drop("__cdc").collect()
    return sorted((row.asDict(recursive=True) for row in rows), key=lambda row: int(row["id"]))


def _avro(line: Line, columns: dict[str, Any], number: int, row: dict[str, Any]) -> tuple[bytes, bytes]:
    schema = avro_envelope_schema(TOPIC, {"id": "long", **columns})
    registry = line.registry
    assert isinstance(registry, MemoryRegistry)
    registry.add(schema, schema_id=number)
    envelope = debezium_envelope("c", None, row, lsn=100 + number)
    return confluent_avro(1, KEY, {"id": row["id"]}), confluent_avro(number, schema, envelope)


def test_a_text_in_json_may_be_as_long_as_one_in_avro(spark: "SparkSession") -> None:
    """Spark's JSON reader by itself takes no more than 20 million characters for a text, and holds the rest."""
    length = 21_000_000
    block = {"type": "struct", "fields": [{"field": "note", "type": "string", "optional": True}]}
    writer = block_writer("block:1", json.dumps(block))
    text = F.concat(F.lit('{"payload":{"note":"'), F.repeat(F.lit("a"), length), F.lit('"}}'))

    datum = writer.datum(text.cast("binary"), F.lit("block:1"), "note string")
    read = spark.range(1).select(writer.is_corrupt(datum), F.length(writer.body(datum)["note"])).collect()

    assert [tuple(row) for row in read] == [(False, length)]
    assert AVRO_LIMITS["org.apache.avro.limits.string.maxLength"] == JSON_TEXT_MAX


@_slow
@pytest.mark.parametrize("form", ["avro", "json"])
def test_a_message_of_twenty_megabytes_is_read(line: Line, tmp_path: Path, form: str) -> None:
    """As any other, beside a small one."""
    long = "äb" * 7_000_000
    rows = [{"id": 1, "note": long}, {"id": 2, "note": "b"}]
    if form == "avro":
        messages = [_avro(line, {"note": TEXT}, 2, row) for row in rows]
    else:
        kinds = {"id": {"type": "int64", "optional": False}, "note": {"type": "string", "optional": True}}
        blocks = connect_key_schema(TOPIC, {"id": kinds["id"]}), connect_envelope_schema(TOPIC, kinds)
        messages = [
            (debezium_json({"id": row["id"]}, blocks[0]), debezium_json(debezium_envelope("c", None, row), blocks[1]))
            for row in rows
        ]
    assert len(messages[0][1]) > 20 * 2**20

    assert _bring_up(line, tmp_path, messages) == rows


@pytest.mark.parametrize("width", [200, pytest.param(2000, marks=_slow)])
def test_two_thousand_columns_are_a_table(line: Line, tmp_path: Path, width: int) -> None:
    """Every value in its column."""
    columns: dict[str, Any] = {f"c{at}": (TEXT, ["null", "long"])[at % 2] for at in range(width)}
    row = {"id": 1, **{name: (f"v{at}", at)[at % 2] for at, name in enumerate(columns)}}

    assert _bring_up(line, tmp_path, [_avro(line, columns, 2, row)]) == [row]


def _nested(levels: int) -> tuple[Any, Any]:
    """A type of structs in structs, and a value of it."""
    kind: Any = "int"
    value: Any = 7
    for level in range(levels):
        kind = {"type": "record", "name": f"L{level}", "fields": [{"name": "in", "type": kind}]}
        value = {"in": value}
    return kind, value


def test_sixty_levels_are_held_and_forty_are_a_column(line: Line, tmp_path: Path) -> None:
    """What is nested deeper than 50 types has a code, and the messages around it are read."""
    (deep, far), (shallow, near) = _nested(60), _nested(40)
    messages = [
        _avro(line, {"c": shallow}, 2, {"id": 1, "c": near}),
        _avro(line, {"c": deep}, 3, {"id": 2, "c": far}),
        _avro(line, {"c": shallow}, 2, {"id": 3, "c": near}),
    ]

    assert _bring_up(line, tmp_path, messages) == [{"id": 1, "c": near}, {"id": 3, "c": near}]
    held = line.lake.spark.table(f"{line.lake.catalog}.{line.mirror.quarantine}").collect()
    assert [(row["offset"], row["code"]) for row in held] == [(1, "UNDECODABLE")]
