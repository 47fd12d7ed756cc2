"""Readings of wire types by themselves, of values that no connector sends: they are held, and stop nobody."""

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.decode.reading import Special
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import UNTYPED, WireType, parse_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("pairs", "is_invalid"),
    [
        ("[[1,2.5],[2,null]]", False),
        ("[]", False),
        ("null", False),
        ("[[]]", True),
        ("[[1]]", True),
        ("[[1,2.5],null]", True),
        ("[[1,2.5,3]]", True),
        ('[["one",2.5]]', True),
    ],
)
def test_an_entry_of_a_map_that_is_no_pair_is_held(spark: "SparkSession", pairs: str, is_invalid: bool) -> None:  # noqa: FBT001
    """Spark stops for an element that an array does not have, and with it every message of the table."""
    kind = {"type": "map", "optional": True, "keys": {"type": "int32"}, "values": {"type": "double", "optional": True}}
    reading = Reader("json").read(parse_connect(kind))
    assert reading.invalid is not None
    given = F.from_json(F.lit(json.dumps({"v": json.loads(pairs)})), f"v {reading.wire}")["v"]

    (row,) = spark.range(1).select(reading.apply(given).alias("value"), reading.invalid(given).alias("test")).collect()

    assert row["test"] is is_invalid


def _counted(name: str, literal: str = "long") -> WireType:
    return WireType(literal, f"io.debezium.time.{name}")


def _parts(name: str, *parts: str) -> WireType:
    numbers = ("year", "month", "day", "hour", "minute", "second", "nanos", "picoseconds", "offsetSeconds")
    fields = tuple((part, WireType("long" if part == "picoseconds" else "int")) for part in numbers if part in parts)
    return WireType("record", f"io.debezium.time.{name}", fields=fields)


def _declared(ddl: str, unit: str = "nanoseconds") -> WireType:
    return WireType("declared", parameters={"ddl": ddl, "unit": unit})


_DAY, _CLOCK = ("year", "month", "day"), ("hour", "minute", "second")
_MOMENT = {"year": 2024, "month": 3, "day": 31, "hour": 1, "minute": 30, "second": 0}


@pytest.mark.parametrize(
    ("wire", "whole", "finer"),
    [
        (_counted("NanoTimestamp"), 1711848600000001000, 1711848600000001001),
        (_counted("NanoTimestamp"), -1000, -1),
        (_counted("NanoTime"), 45000000001000, 45000000001999),
        (WireType("long", "timestamp-nanos"), 1711848600000001000, 1711848600000001001),
        (_counted("ZonedTimestamp", "string"), "2024-03-31T01:30:00.000001000Z", "2024-03-31T01:30:00.000001001Z"),
        (_counted("IsoTimestamp", "string"), "2024-03-31T01:30:00.000001", "2024-03-31T01:30:00.0000001"),
        (_counted("IsoTime", "string"), "12:30:00.5", "12:30:00.000001001"),
        (_parts("StructuredTimestamp", *_DAY, *_CLOCK, "nanos"), {**_MOMENT, "nanos": 1000}, {**_MOMENT, "nanos": 1}),
        (
            _parts("StructuredTime", *_CLOCK, "picoseconds"),
            {**_MOMENT, "picoseconds": 1000000},
            {**_MOMENT, "picoseconds": 1},
        ),
        (
            _parts("StructuredZonedTime", *_CLOCK, "picoseconds", "offsetSeconds"),
            {**_MOMENT, "picoseconds": 1000, "offsetSeconds": 0},
            {**_MOMENT, "picoseconds": 1, "offsetSeconds": 0},
        ),
        (_declared("timestamp_ntz"), "1711848600000001000", "1711848600000001001"),
        (_declared("timestamp_ntz"), "2024-03-31T01:30:00.000001", "2024-03-31T01:30:00.0000011"),
        (_declared("bigint"), "45000000001000", "45000000001999"),
        (
            WireType(UNTYPED, parameters={"ddl": "timestamp"}),
            "2024-03-31 01:30:00.000001",
            "2024-03-31:01:30:00:0000011",
        ),
        (WireType(UNTYPED, parameters={"ddl": "bigint"}), "12:30:00.000001", "12:30:00.0000011"),
    ],
)
def test_a_key_finer_than_its_column_is_no_value(spark: "SparkSession", wire: WireType, whole: Any, finer: Any) -> None:  # noqa: ANN401
    """Cut, two keys would be one, and two rows; in other columns it is cut."""
    reader = Reader("json")
    plain, key = reader.read(wire), reader.read_key(wire)
    assert key.invalid is not None
    kind = "string" if key.wire == "variant" else key.wire
    texts = [(at, json.dumps({"v": value})) for at, value in enumerate((whole, finer))]
    given = spark.createDataFrame(texts, "at int, text string").select(
        "at", F.from_json("text", f"v {kind}")["v"].alias("v")
    )
    value = F.parse_json(F.to_json(F.struct("v"))) if key.wire == "variant" else F.col("v")
    value = F.variant_get(value, "$.v", "variant") if key.wire == "variant" else value

    rows = given.orderBy("at").select(plain.apply(value), key.apply(value), key.invalid(value)).collect()

    assert [row[0] is None for row in rows] == [False, False]
    assert [tuple(row)[1:] for row in rows] == [(rows[0][0], False), (None, True)]


@pytest.mark.parametrize(("policy", "is_invalid"), [("null", False), ("clamp", True)])
def test_a_key_that_would_be_clamped_is_no_value(spark: "SparkSession", policy: Special, is_invalid: bool) -> None:  # noqa: FBT001
    """All that lies beyond an end would be one key there; what becomes NULL has no key anyway."""
    reading = Reader("json", policy).read_key(_counted("MicroTimestamp"))
    count = F.lit(9_223_372_036_825_200_000)
    test = reading.invalid(count) if reading.invalid is not None else F.lit(False)

    (row,) = spark.range(1).select(reading.apply(count).alias("value"), test.alias("test")).collect()

    assert (row["value"], row["test"]) == (None, is_invalid)
