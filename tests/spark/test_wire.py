"""The wire at scale and in trouble: a damaged message among thousands, names in bytes and headers, many writers."""

import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.config import Config
from cdc_materializer.decode.framing import datum, named_in_headers, schema_id, selector
from cdc_materializer.decode.naming import ID_BYTES, LEGACY_ID_BYTES, named_in_bytes
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.line.line import Line
from cdc_materializer.testing import (
    MemoryRegistry,
    TopicBuilder,
    avro_envelope_schema,
    confluent_avro,
    debezium_envelope,
)
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.recorded_wire import KEY, TEXT, TOPIC, bring_up, held_of, line_of, message, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]


@pytest.fixture
def line(spark: "SparkSession", lake_config: Config, namespace: str, tmp_path: Path) -> Line:
    """The way of one table whose topic is recorded in `tmp_path`."""
    return line_of(spark, lake_config, namespace, tmp_path)


# --- one damaged message
# ------------------------------------------------------------------------------------------------------------


_DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "longer": lambda octets: octets + b"\x00",
    "two in one": lambda octets: octets + octets[5:],
    "shorter": lambda octets: octets[:-1],
    "empty": lambda octets: octets[:5],
    # The length of the first text: the reader goes on in the middle of it.
    "a wrong length": lambda octets: octets.replace(b"\x0an501", b"\x08n501", 1),
    # Avro's reader makes room for a text before it looks for it: this one would take all memory.
    "a length of gigabytes": lambda octets: octets.replace(b"\x0an50", b"\x80\xbc\xc1\x96\x0bn50", 1),
    "no branch of a union": lambda octets: octets[:5] + b"\x7f" + octets[6:],
}


def test_damaged_messages_among_ten_thousand_are_held_alone(line: Line, tmp_path: Path) -> None:
    """Each kind of damage in the middle of the others; the neighbours are what the database was given."""
    topic, count, first = TopicBuilder(TOPIC), 10_000, 5_010
    damages = dict(zip(range(first, first + 2 * len(_DAMAGES), 2), _DAMAGES.items(), strict=False))
    for at in range(count):
        key, value = message(at)
        damaged = damages[at][1](value) if at in damages else value
        assert (at in damages) == (damaged != value)
        topic.add(key, damaged)
    topic.write(tmp_path)

    batches = bring_up(line)

    assert held_of(line) == dict.fromkeys(damages, "UNDECODABLE")
    assert rows_of(line) == {at: (f"n{at}", at) for at in range(count) if at not in damages}
    assert [done.counts["quarantined"] for done in batches] == [len(damages)]


# --- names in bytes and headers
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("id_bytes", [ID_BYTES, LEGACY_ID_BYTES])
def test_frames_and_single_messages_are_named_alike(spark: "SparkSession", id_bytes: int) -> None:
    """What Spark's columns say of some bytes is what `named_in_bytes`, which `init` and `doctor` use, says of them."""
    chance = random.Random(7)  # noqa: S311 - the same bytes each time
    begins = (b"\x00", b"\x01", b"\xc3\x01", b"\xc3", b"\x02")
    some = [begin + chance.randbytes(size) for begin in begins for size in (0, 3, 4, 5, 7, 8, 9, 15, 16, 17, 20)]
    frame = spark.createDataFrame([(octets,) for octets in some], "octets binary")
    nothing = F.lit(None).cast("string")
    octets = F.col("octets")

    found = frame.select(
        octets, selector(octets, nothing, id_bytes).alias("name"), datum(octets, nothing, id_bytes).alias("datum")
    ).collect()

    for row in found:
        name, begin = named_in_bytes(bytes(row["octets"]), id_bytes)
        assert row["name"] == (str(name) if name is not None else "unknown")
        assert bytes(row["datum"]) == bytes(row["octets"])[begin:]


def test_headers_name_schemas(spark: "SparkSession") -> None:
    """Each form that a serializer writes, for its own side; what is none of them names nothing."""
    guid = uuid.UUID(int=10).bytes
    number = (7).to_bytes(8)
    cases: list[tuple[list[tuple[str, bytes | None]] | None, str | None, int | None]] = [
        (None, None, None),
        ([], None, None),
        ([("traceparent", b"00"), ("__key_schema_id", b"\x01" + guid)], None, None),
        ([("__value_schema_id", b"\x01" + guid)], f"guid:{guid.hex().upper()}", None),
        ([("__value_schema_id", b"\x00" + number[4:])], "id:00000007", 7),
        ([("__value_schema_id", b"\x00\xff" + number[5:])], None, None),
        # Which message of a Protobuf file it is, stands behind the name.
        ([("__value_schema_id", b"\x00" + number[4:] + b"\x02\x02")], "id:00000007/0202", 7),
        ([("__value_schema_id", b"\x01" + guid + b"\x00")], f"guid:{guid.hex().upper()}/00", None),
        ([("__value_schema_id", b"\x00" + number[4:] + b"a" * 70_000)], None, None),
        ([("__value_schema_id", None)], None, None),
        ([("__value_schema_id", b"7")], None, None),
        ([("apicurio.value.contentId", number)], "content:0000000000000007", 7),
        ([("apicurio.value.globalId", (2**40).to_bytes(8))], "global:0000010000000000", None),
        ([("apicurio.value.globalId", b"\x00" * 8), ("apicurio.value.globalId", number)], "global:0000000000000007", 7),
        ([("apicurio.value.globalId", b"seven")], None, None),
        ([("apicurio.value.contentId", b"\xff" * 8)], None, None),
        ([("apicurio.value.contentHash", b"ab")], "hash:6162", None),
        # One byte more than any schema's name has, and no more: they go to the driver.
        ([("apicurio.value.contentHash", b"a" * 70_000)], f"hash:{'61' * 513}", None),
        ([("apicurio.value.artifactId", b"a"), ("apicurio.value.version", b"1")], "artifact:/61/31", None),
        ([("apicurio.value.encoding", b"BINARY"), ("apicurio.value.contentId", number)], "content:0000000000000007", 7),
        ([("apicurio.value.encoding", b"JSON"), ("apicurio.value.contentId", number)], "encoding:4A534F4E", None),
    ]
    rows = [(at, headers, b"{}") for at, (headers, _, _) in enumerate(cases)]
    frame = spark.createDataFrame(rows, "at int, headers array<struct<key:string,value:binary>>, value binary")
    name = named_in_headers(F.col("headers"), "value")

    found = frame.select("at", name.alias("name"), schema_id(F.col("value"), name).alias("id")).orderBy("at").collect()

    assert [(row["name"], row["id"]) for row in found] == [(name, number) for _, name, number in cases]


def test_a_raw_table_of_an_earlier_version_gets_the_columns_it_lacks(line: Line, tmp_path: Path) -> None:
    """With the next message that lands; before that, and after, what it holds is read."""
    topic = TopicBuilder(TOPIC)
    topic.add(*message(0))
    topic.write(tmp_path)
    bring_up(line)
    raw, names = f"{line.lake.catalog}.{line.mirror.raw}", ("key_schema_name", "value_schema_name")
    line.lake.spark.sql(f"ALTER TABLE {raw} DROP COLUMNS ({', '.join(names)})")
    (read,) = batch.messages(line.lake.spark.table(raw), None, ID_BYTES).collect()
    assert read["value_writer"] == "id:00000002"

    topic.add(*message(1))
    topic.write(tmp_path)
    bring_up(line)

    assert set(names) <= set(line.lake.spark.table(raw).columns)
    assert sorted(rows_of(line)) == [0, 1]


# --- many writers
# -------------------------------------------------------------------------------------------------------------------


def _schema(columns: int) -> dict[str, Any]:
    return avro_envelope_schema(TOPIC, {"id": "long", **{f"x{at}": TEXT for at in range(columns)}})


def _branches(frame: "DataFrame") -> int:
    """How many branches the conditions of a plan have: what grew with each writer and each of its columns."""
    java: Any = frame._jdf
    # In full: without the setting Spark leaves out all but the first of many.
    name = "spark.sql.debug.maxToStringFields"
    before = frame.sparkSession.conf.get(name)
    frame.sparkSession.conf.set(name, "1000000")
    try:
        return str(java.queryExecution().analyzed().toString()).count(" WHEN ")
    finally:
        frame.sparkSession.conf.set(name, before or "25")


def _changes(line: Line, spark: "SparkSession", schemas: int) -> "DataFrame":
    """The changes of a batch with so many writers, each of which adds a column."""
    registry = MemoryRegistry({1: KEY, **{10 + at: _schema(at) for at in range(schemas)}})
    messages = [(None, 0, at, None, f"id:{1:08X}", f"id:{10 + at:08X}") for at in range(schemas)]
    ddl = "topic string, partition int, offset long, timestamp timestamp, key_writer string, value_writer string"
    frame = spark.createDataFrame(messages, ddl).withColumns({n: F.lit(None).cast("binary") for n in ("key", "value")})
    lookup = replace(line, registry=registry).lookup(None)
    decoders = find_decoders(frame, lookup)
    return to_changes(frame, decoders.writers, decoders.plan.target, line.options)


def test_a_plan_does_not_grow_with_writers_times_columns(line: Line, spark: "SparkSession") -> None:
    """Twice the writers, each with a column more than the last: the plan grows as they do, and not as their product."""
    few, many, most = (_branches(_changes(line, spark, count)) for count in (15, 30, 60))

    assert many < 2.2 * few
    assert most < 2.2 * many


def test_sixty_writers_of_one_batch_give_the_rows_of_the_database(line: Line, tmp_path: Path) -> None:
    """What a writer has no column for keeps its value; what it tells is written, NULL too; deletes have another one."""
    registry, topic = MemoryRegistry({1: KEY}), TopicBuilder(TOPIC)
    line = replace(line, registry=registry)
    expected: dict[int, dict[str, str | None]] = {}
    for at in range(60):
        # Every seventh schema drops the columns before it, so that rows keep what the writer does not tell.
        names = [f"x{column}" for column in range(at - at % 7, at + 1)]
        schema = avro_envelope_schema(TOPIC, {"id": "long"} | dict.fromkeys(names, TEXT))
        registry.add(schema, schema_id=10 + at)
        told: dict[str, str | None] = {name: None if column % 3 == 2 else f"{at}" for column, name in enumerate(names)}
        key = at % 5
        expected[key] = expected.get(key, {}) | told
        envelope = debezium_envelope("u", None, {"id": key, **told}, lsn=100 + at)
        topic.add(confluent_avro(1, KEY, {"id": key}), confluent_avro(10 + at, schema, envelope))
    topic.write(tmp_path)

    bring_up(line)

    rows = line.lake.spark.table(f"{line.lake.catalog}.{line.mirror}").drop("__cdc").collect()
    found = {row["id"]: {n: v for n, v in row.asDict().items() if n != "id"} for row in rows}
    columns = [f"x{at}" for at in range(60)]
    assert found == {key: {name: told.get(name) for name in columns} for key, told in expected.items()}
    assert held_of(line) == {}
