"""Messages in Protobuf as Avro data that say the same: the library for Python is the oracle, message by message."""

import io
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from cdc_materializer.decode.protobuf import translation
from cdc_materializer.decode.protobuf_reader import as_avro
from tests.protobufs import fill, message_class, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_TEXT = (Path(__file__).parents[1] / "data" / "every_type.proto").read_text(encoding="utf-8")
_COUNT = 2000


def _read(
    spark: "SparkSession", messages: Sequence[bytes], text: str = _TEXT, exact: Sequence[str] | None = ()
) -> list[Any]:
    """The Avro datum of each message, read; None where there is none."""
    found = translation(text, b"", exact)
    frame = spark.createDataFrame(list(enumerate(messages)), "at int, message binary").repartition(4)
    rows = frame.select("at", as_avro(frame["message"], found.program).alias("datum")).collect()
    schema = fastavro.parse_schema(_without_meanings(json.loads(found.avro)))
    data = {row["at"]: row["datum"] for row in rows}
    return [None if data[at] is None else _whole(bytes(data[at]), schema) for at in range(len(messages))]


def _whole(octets: bytes, schema: Any) -> Any:  # noqa: ANN401 - JSON
    stream = io.BytesIO(octets)
    datum = fastavro.schemaless_reader(stream, schema, None)
    assert stream.read() == b""
    return datum


def _without_meanings(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """The schema without its logical types, of which the library would make dates and decimals."""
    if isinstance(schema, list):
        return [_without_meanings(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _without_meanings(one) for name, one in schema.items() if name != "logicalType"}


def _same(one: Any, other: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether two values are equal; what is no number is equal to itself, and zeros have signs."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, dict):
        return (
            isinstance(other, dict) and list(one) == list(other) and all(_same(one[name], other[name]) for name in one)
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _in_order(datum: Any) -> Any:  # noqa: ANN401 - JSON
    """Maps have no order; those that Avro has as arrays of pairs neither."""
    if isinstance(datum, dict):
        return {name: _in_order(datum[name]) for name in sorted(datum)}
    if isinstance(datum, list) and datum and isinstance(datum[0], dict) and set(datum[0]) == {"key", "value"}:
        return [_in_order(one) for one in sorted(datum, key=lambda one: str(one["key"]))]
    return [_in_order(one) for one in datum] if isinstance(datum, list) else datum


def test_every_message_says_what_its_own_library_reads(spark: "SparkSession") -> None:
    """All types, at the values at which their encodings change, there and not there."""
    chosen = random.Random(20261122)  # noqa: S311 - a test's values
    everything = message_class(_TEXT, "shop.types.Everything")
    messages = [fill(everything(), chosen) for _ in range(_COUNT)]

    found = _read(spark, [message.SerializeToString() for message in messages])

    wrong = [at for at, datum in enumerate(found) if not _same(_in_order(datum), _in_order(told(messages[at])))]
    assert not wrong, (found[wrong[0]], told(messages[wrong[0]]))


@pytest.mark.parametrize("field", ["at", "clock"])
def test_parts_of_a_microsecond_are_cut_but_in_a_key(spark: "SparkSession", field: str) -> None:
    """There a message with such parts is none: two of them would become one row."""
    imports = 'import "google/protobuf/timestamp.proto"; import "google/type/timeofday.proto"; '
    fields = "google.protobuf.Timestamp at = 1; google.type.TimeOfDay clock = 2;"
    text = f'syntax = "proto3"; {imports} message Key {{ {fields} }}'
    parts = {"at": bytes.fromhex("0a0310"), "clock": bytes.fromhex("120320")}
    # 1000 and 1500 billionths of a second.
    messages = [parts[field] + bytes.fromhex(nanos) for nanos in ("e807", "dc0b")]

    assert [datum[field] for datum in _read(spark, messages, text)] == [1, 1]
    whole, finer = _read(spark, messages, text, [field])
    assert (whole[field], finer) == (1, None)


def test_a_damaged_message_is_none_or_what_its_own_library_reads(spark: "SparkSession") -> None:
    """Nothing is read that the library does not read so, and nothing of what it does not know is left out."""
    chosen = random.Random(7)  # noqa: S311 - a test's values
    everything = message_class(_TEXT, "shop.types.Everything")
    messages = [_damaged(fill(everything(), chosen).SerializeToString(), chosen) for _ in range(_COUNT)]

    found = _read(spark, messages)

    read = [(datum, _library(everything, octets)) for datum, octets in zip(found, messages, strict=True)]
    assert not [octets for octets in read if octets[0] is not None and octets[1] is None]
    both = [(_in_order(datum), _in_order(told(message))) for datum, message in read if datum and message]
    told_otherwise = [
        {name: (one[name], other[name]) for name in one if not _same(one[name], other[name])}
        for one, other in both
        if not _same(one, other)
    ]
    assert not told_otherwise
    assert any(datum is None for datum, _ in read)
    assert any(datum is not None for datum, _ in read)


def _damaged(octets: bytes, chosen: random.Random) -> bytes:
    changed = bytearray(octets or b"\0")
    for _ in range(chosen.choice([1, 1, 2])):
        at = chosen.randrange(len(changed))
        match chosen.choice(["change", "cut", "add"]):
            case "change":
                changed[at] = chosen.randrange(256)
            case "cut":
                del changed[at:]
                changed = changed or bytearray(b"\0")
            case _:
                changed.insert(at, chosen.randrange(256))
    return bytes(changed)


def _library(everything: Any, octets: bytes) -> Any:  # noqa: ANN401 - a message
    """The message as the library reads it; None where it cannot, or leaves something of it out."""
    try:
        message = everything.FromString(octets)
    except DecodeError:
        return None
    try:
        told(message)
    except KeyError:
        return None  # a value of an enum that its schema does not have
    return None if len(UnknownFieldSet(message)) else message
