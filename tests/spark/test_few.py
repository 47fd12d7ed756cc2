"""How a batch of few messages is planned where a session is set up for many."""

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.changes import model as m
from cdc_materializer.fold import fold
from cdc_materializer.merge import CDC
from cdc_materializer.schema.schema import Column, TableSchema
from cdc_materializer.session.caching import cached, release
from cdc_materializer.session.few import ROWS_MAX, planned_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PARTITIONS, ADAPTIVE, LEAVES, EXPRESSIONS = (
    f"spark.sql.{name}"
    for name in ("shuffle.partitions", "adaptive.enabled", "leafNodeDefaultParallelism", "codegen.factoryMode")
)


#: What a mirror's rows say of the message that they are from.
_PLACE = {"op": "string", "position": "string", "partition": "int", "offset": "bigint"}


@pytest.fixture
def session(spark: "SparkSession") -> "SparkSession":
    """A session set up for many rows, which says nothing of what reads files."""
    found = spark.newSession()
    found.conf.set(PARTITIONS, "7")
    found.conf.set(ADAPTIVE, "true")
    found.conf.unset(LEAVES)
    found.conf.set(EXPRESSIONS, "FALLBACK")
    return found


def _settings(session: "SparkSession") -> list[str | None]:
    return [session.conf.get(name, None) for name in (PARTITIONS, ADAPTIVE, LEAVES, EXPRESSIONS)]


def test_few_rows_are_planned_for_one_task(session: "SparkSession") -> None:
    """Meanwhile only; what nobody has set is not set behind it either, and a failure changes nothing of that."""
    before = _settings(session)

    def fails() -> None:
        with planned_for(session, ROWS_MAX):
            assert _settings(session) == ["1", "false", "1", "NO_CODEGEN"]
            assert _shuffled(session).rdd.getNumPartitions() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert _settings(session) == before


@pytest.mark.parametrize("rows", [ROWS_MAX + 1, None])
def test_many_rows_are_planned_as_the_session_says(session: "SparkSession", rows: int | None) -> None:
    """And so are those that nobody has counted."""
    before = _settings(session)

    with planned_for(session, rows):
        assert _settings(session) == before


def test_what_was_cached_stays_as_it_was_planned(session: "SparkSession") -> None:
    """States are cached while few rows are planned for, and read behind that."""
    with planned_for(session, 1):
        kept = cached(_shuffled(session))
    try:
        assert kept.rdd.getNumPartitions() == 1
    finally:
        release(kept)


def test_a_mirror_is_not_shuffled_for_what_a_few_states_lack(session: "SparkSession") -> None:
    """However large it is: their keys go to where its rows are, and no other row goes further."""
    target = TableSchema((Column("id", "bigint"), Column("name", "string")), ("id",))
    place = F.struct(*[F.lit(None).cast(kind).alias(name) for name, kind in _PLACE.items()])
    mirror = session.range(100).select("id", F.lit("n").alias("name"), place.alias(CDC))
    lacks = F.when(F.col("id") > 0, F.array(F.lit("name"))).otherwise(F.array().cast(fold.NO_NAMES))
    told = {
        m.KEY: F.lit("key"),
        fold.OPEN_COLUMNS: lacks,
        fold.MISSING_COLUMNS: F.array().cast(fold.NO_NAMES),
        fold.SEGMENT: F.lit(0),
        fold.REBUILT: F.lit(False),
    }
    states = session.range(3).withColumns(told)

    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    found = batch._base(mirror, states, target, ())

    java: Any = found._jdf
    plan = str(java.queryExecution().sparkPlan().toString())
    assert "BroadcastHashJoin" in plan, plan
    assert "SortMergeJoin" not in plan, plan
    assert sorted(row["id"] for row in found.collect()) == [1, 2]


def _shuffled(session: "SparkSession") -> "DataFrame":
    return session.range(10).groupBy((F.col("id") % 3).alias("id")).count()
