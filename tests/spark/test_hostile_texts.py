"""Texts that nobody means well with: they take no more time than their length, and no stack."""

import time
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from cdc_materializer.decode import contract_readings, untyped, writers
from cdc_materializer.decode.decimals import fits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: A fifth of what a message may have, unless a broker allows more.
_MANY = 200_000


def test_a_long_text_takes_no_longer_than_its_length(spark: "SparkSession") -> None:
    """As a key, as a number, as a decimal."""
    ends = [('"', "a", '"'), ('"', "\\n", '"'), ("", "1", "x"), ("1.", "0", "1"), ("", "0", "1e1"), ("1e", "1", "x")]
    rows = spark.createDataFrame(ends, "first string, part string, last string")
    text = F.concat("first", F.repeat("part", F.lit(_MANY)), "last")
    begun = time.monotonic()
    patterns = (writers._SCALAR, untyped._NUMBER, contract_readings._NUMBER)
    tests = [*[F.col("text").rlike(pattern) for pattern in patterns], fits(F.col("text"), "decimal(10,2)")]
    found = rows.select(text.alias("text")).select(*[F.count_if(test) for test in tests])

    assert found.first() == (4, 2, 2, 1)
    assert time.monotonic() - begun < 100
