"""Frames that are kept for a batch."""

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.session.caching import cached, release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def _drawn(spark: "SparkSession") -> "DataFrame":
    """Rows that are others each time that they are made."""
    made = spark.range(4).select("id", F.uuid().alias("drawn"), F.lit(None).cast("string").alias("nothing"))
    return made.repartition(3, "id").sortWithinPartitions("id")


def _kept(spark: "SparkSession") -> int:
    context: Any = spark.sparkContext._jsc
    return int(context.getPersistentRDDs().size())


def test_rows_are_made_once_and_given_back(spark: "SparkSession") -> None:
    """In the columns that they had; what is kept of them is gone behind it, also of a frame made from them."""
    before, frame = _kept(spark), _drawn(spark)

    first = cached(frame)
    second = cached(first.join(first.select(F.col("id").alias("other"), "drawn"), "drawn"))
    found = sorted(second.collect(), key=lambda row: int(row["id"]))

    assert first.schema == frame.schema
    assert [(row["id"], row["other"]) for row in found] == [(at, at) for at in range(4)]
    assert {row["drawn"] for row in first.collect()} == {row["drawn"] for row in found}
    assert _kept(spark) == before + 2
    release(second)
    release(first)
    assert _kept(spark) == before


def test_plans_begin_with_what_is_kept(spark: "SparkSession") -> None:
    """What made the rows is in none of them, or each column that is added would be analysed with all of it."""
    kept = cached(_drawn(spark))
    try:
        asked = kept.withColumn("twice", F.col("id") * 2).where("twice > 2")
        plan: Any = asked._jdf.queryExecution().analyzed()
        assert [one.nodeName() for one in (plan, plan.child(), plan.child().child())] == [
            *("Filter", "Project", "InMemoryRelation"),
        ]
        assert plan.child().child().children().isEmpty()
    finally:
        release(kept)
