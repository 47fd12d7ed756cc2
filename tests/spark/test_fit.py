"""Numbers of another kind than their column's: what is the same number fits, and nothing else (design §4.5)."""

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from cdc_materializer.decode.fit import fit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("writer", "table", "given", "fitting"),
    [
        # A double of 2^63 is beyond every long; a cast to long makes the largest of it, which as a double is 2^63.
        ("double", "bigint", ["9223372036854775808", "-9223372036854775808", "9007199254740992", "0.5"], [1, 2]),
        ("float", "bigint", ["9223372036854775808", "-9223372036854775808", "16777216", "0.5"], [1, 2]),
        ("double", "int", ["2147483648", "2147483647", "-2147483649"], [1]),
        ("bigint", "double", [str(_LARGEST), str(2**53), str(2**53 + 1), str(-(2**63))], [1, 3]),
        # Between 2^24 and 2^53 a float has not each whole number, though a double has.
        ("bigint", "float", [str(_LARGEST), str(2**24), str(2**24 + 1), str(2**53 + 1), str(-(2**63))], [1, 4]),
        ("int", "float", ["2147483647", "16777216", "16777217"], [1]),
        ("double", "float", ["0.5", "0.1", "1e300"], [0]),
    ],
)
def test_only_a_number_that_stays_itself_fits(
    spark: "SparkSession", writer: str, table: str, given: list[str], fitting: list[int]
) -> None:
    """And comes back as it was sent."""
    frame = spark.createDataFrame(list(enumerate(given)), "at int, text string")
    value = F.col("text").cast(writer)
    found, misfit = fit(value, writer, table, retyped=True)
    assert misfit is not None

    rows = frame.select("at", found.alias("found"), misfit.alias("misfit")).orderBy("at").collect()

    assert [row["at"] for row in rows if not row["misfit"]] == fitting
    assert all((row["found"] is None) == row["misfit"] for row in rows)
    assert [float(row["found"]) for row in rows if not row["misfit"]] == [float(given[at]) for at in fitting]
