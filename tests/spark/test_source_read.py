"""Recorded topics read by Spark: the same bytes, types and columns as from Kafka."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.errors import SourceUnavailable
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.source import MESSAGE_COLUMNS, RecordedSource, read_failure
from cdc_materializer.testing import TopicBuilder

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

TOPIC = "shop.public.orders"


def whole(source: RecordedSource) -> Span:
    """Return the span of the whole topic."""
    state = source.state(TOPIC)
    return Span(TOPIC, state.beginnings, state.ends)


def rows(spark: "SparkSession", source: RecordedSource, span: Span) -> "list[Row]":
    """Read a span in the order of partition and offset."""
    return source.read(spark, span).orderBy("partition", "offset").collect()


def offsets(found: "list[Row]") -> list[tuple[int, int]]:
    """Return where the messages lie."""
    return [(row.partition, row.offset) for row in found]


@pytest.mark.parametrize("compressed", [False, True])
def test_messages_come_out_as_they_were_recorded(spark: "SparkSession", tmp_path: Path, compressed: bool) -> None:  # noqa: FBT001
    """Bytes, nulls, headers and the millisecond of the timestamp are those of the file, in UTC."""
    topic = TopicBuilder(TOPIC)
    at = datetime(2026, 3, 29, 1, 30, 0, 7000, tzinfo=UTC)
    every_byte = bytes(range(256))
    topic.add(b"\x00\xff", every_byte, timestamp=at, headers=[("h", b""), ("h", None), ('"é\\{}', every_byte)])
    topic.add(None, None)
    topic.add(b"", b"", headers=[])
    topic.write(tmp_path, compressed=compressed)
    source = RecordedSource(tmp_path)

    first, nulls, empty = rows(spark, source, whole(source))

    assert first.asDict(recursive=True) | {"timestamp": None} == {
        "key": b"\x00\xff",
        "value": every_byte,
        "topic": TOPIC,
        "partition": 0,
        "offset": 0,
        "timestamp": None,
        "timestampType": 0,
        "headers": [
            {"key": "h", "value": b""},
            {"key": "h", "value": None},
            {"key": '"é\\{}', "value": every_byte},
        ],
    }
    assert first.timestamp.timestamp() == at.timestamp()
    assert (nulls.key, nulls.value, nulls.headers) == (None, None, None)
    assert (empty.key, empty.value, empty.headers) == (b"", b"", [])


def test_the_columns_are_those_of_the_kafka_source(spark: "SparkSession", tmp_path: Path) -> None:
    """Names, order and types, and no column of ours beside them."""
    TopicBuilder(TOPIC).write(tmp_path)

    frame = RecordedSource(tmp_path).read(spark, Span(TOPIC, Offsets(), Offsets()))

    assert tuple(frame.columns) == MESSAGE_COLUMNS
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    assert frame.collect() == []


def test_only_the_span_is_read(spark: "SparkSession", tmp_path: Path) -> None:
    """Each partition from its start to before its end; a partition that is not in the span not at all."""
    topic = TopicBuilder(TOPIC)
    for partition in (0, 1, 2):
        for _ in range(4):
            topic.add(b"k", b"v", partition=partition)
    topic.write(tmp_path)

    found = rows(spark, RecordedSource(tmp_path), Span(TOPIC, Offsets({0: 1, 1: 2}), Offsets({0: 3, 1: 2})))

    assert offsets(found) == [(0, 1), (0, 2)]


def test_a_line_that_is_being_written_is_left_out(spark: "SparkSession", tmp_path: Path) -> None:
    """Also where it is cut behind a brace of a header, where it looks like the end of a message."""
    topic = TopicBuilder(TOPIC)
    path = (topic.add(b"k", b"v"), topic.write(tmp_path))[1]
    whole_line = topic.add(b"k", b"v", headers=[("a", b"1"), ("b", b"2")]).line()
    source, text = RecordedSource(tmp_path), path.read_text()

    for cut in (1, len(whole_line) // 2, whole_line.index("}") + 1, len(whole_line) - 1):
        path.write_text(text + whole_line[:cut])
        assert offsets(rows(spark, source, whole(source))) == [(0, 0)]
    path.write_text(text + whole_line)

    assert offsets(rows(spark, source, whole(source))) == [(0, 0), (0, 1)]


def test_a_value_that_is_no_base64_never_becomes_null(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark would make a tombstone of it, so the row would be deleted; the driver refuses before Spark reads."""
    topic = TopicBuilder(TOPIC)
    path = (topic.add(b"key", b"value"), topic.write(tmp_path))[1]
    path.write_text(path.read_text().replace(base64.b64encode(b"value").decode(), "dmFs!WU="))

    with pytest.raises(SourceUnavailable, match="line 1: `value` must be base64"):
        RecordedSource(tmp_path).read(spark, Span(TOPIC, Offsets({0: 0}), Offsets({0: 1})))


def test_a_file_that_changes_while_it_is_read_is_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    """What the driver did not check is refused where Spark meets it, and explained without its content."""
    topic = TopicBuilder(TOPIC)
    path = (topic.add(b"k", b"v"), topic.write(tmp_path))[1]
    source = RecordedSource(tmp_path)
    frame = source.read(spark, whole(source))
    broken: dict[str, Any] = json.loads(path.read_text()) | {"value": "secret!"}

    path.write_text(json.dumps(broken) + "\n")
    with pytest.raises(Exception, match="changed while it was read") as caught:
        frame.collect()

    failure = read_failure(caught.value, TOPIC)
    assert failure is not None
    assert str(failure) == f"{path} changed while it was read. Run again."


def test_a_span_that_the_file_no_longer_holds_is_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    """Fewer messages than planned must not pass for a hole between offsets."""
    topic = TopicBuilder(TOPIC, first_offset=5)
    topic.add(b"k", b"v")
    topic.write(tmp_path)
    source = RecordedSource(tmp_path)

    for start, end in ((4, 6), (5, 7)):
        with pytest.raises(SourceUnavailable, match="no longer holds"):
            source.read(spark, Span(TOPIC, Offsets({0: start}), Offsets({0: end})))


def test_a_path_is_taken_literally(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark takes brackets, stars and the like for patterns, and would find nothing or too much."""
    folder = tmp_path / "a [b] {c,d} * ? %20 #é"
    topic = TopicBuilder(TOPIC)
    topic.add(b"k", b"v")
    topic.write(folder)
    source = RecordedSource(folder)

    assert offsets(rows(spark, source, whole(source))) == [(0, 0)]


def test_a_file_that_spark_would_pass_over_is_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    """Spark silently reads nothing from names that begin with an underscore or a dot."""
    TopicBuilder("_orders").write(tmp_path)

    with pytest.raises(SourceUnavailable, match="begins with `_`"):
        RecordedSource(tmp_path).read(spark, Span("_orders", Offsets(), Offsets()))
