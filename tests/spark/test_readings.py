"""Readings of wire types by themselves, of values that no connector sends: they are held, and stop nobody."""

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import parse_connect

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
