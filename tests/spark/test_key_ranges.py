"""Which files of a mirror a batch's keys can be in (design, section 7): nothing that they are in is left out."""

import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.batch import key_ranges
from cdc_materializer.batch.key_ranges import RANGES_MAX, ROWS_MIN, VALUES_MAX, find_ranges, plan_apply
from cdc_materializer.config import Config
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.merge import KeyRanges, delete_keys
from cdc_materializer.names import TableName
from cdc_materializer.run.run import run_once
from cdc_materializer.schema.schema import Column, TableSchema
from cdc_materializer.session.properties import BATCHES
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.shops import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]

FAR = 10**15


def _schema(kind: str) -> TableSchema:
    return TableSchema((Column("k", kind), Column("v", "string")), key=("k",))


def _found(spark: "SparkSession", kind: str, values: list[Any]) -> KeyRanges | None:
    keys = spark.createDataFrame([(value,) for value in values], f"k {kind}")
    name = _pruned_by(_schema(kind))
    return find_ranges(keys, len(values), name) if name is not None else None


def _pruned_by(schema: TableSchema) -> str | None:
    """The column by which a large mirror's files would be left out."""
    mirror = LakeTable(TableName.parse("a.b"), "uuid", 1, None, schema, is_empty=False, records=ROWS_MIN)
    return plan_apply(mirror, schema).pruned_by


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("bigint", [-(2**63), 5, 2**63 - 1]),
        ("decimal(38,0)", [Decimal(10) ** 37, Decimal(-3)]),
    ],
)
def test_few_keys_are_named(spark: "SparkSession", kind: str, values: list[Any]) -> None:
    """Each of them, whatever its type can hold."""
    found = _found(spark, kind, values)

    assert found is not None
    assert found.values == tuple(sorted(values))
    assert _held(spark, kind, values, found) == len(values)


def _held(spark: "SparkSession", kind: str, values: list[Any], near: KeyRanges) -> int:
    spark.createDataFrame([(value,) for value in values], f"k {kind}").createOrReplaceTempView("held_in_ranges")
    count = f"SELECT count_if({near.condition}) AS held FROM held_in_ranges t"
    return int(spark.sql(count, args=near.arguments).collect()[0]["held"])


def test_many_keys_are_put_between_the_widest_gaps(spark: "SparkSession") -> None:
    """A recent block and some old keys: the block is one range, and what lies between is in none."""
    recent = list(range(FAR, FAR + VALUES_MAX + 1))
    found = _found(spark, "bigint", [*recent, 7, 8, 500_000])

    assert found is not None
    assert found.ranges == ((7, 500_000), (FAR, None))


def test_no_more_gaps_are_told_than_are_wide(spark: "SparkSession") -> None:
    """Keys anywhere have none, and each row that is read would be held against all ranges."""
    found = _found(spark, "bigint", [number * number for number in range(10 * VALUES_MAX)])
    blocks = _found(spark, "bigint", [block * FAR + at for block in range(2 * RANGES_MAX) for at in range(20)])

    assert found is not None
    assert found.ranges == ((0, None),)
    assert blocks is not None
    assert len(blocks.ranges) == RANGES_MAX
    assert all(high is not None and low <= high for low, high in blocks.ranges[:-1])


def test_keys_at_the_ends_of_their_type_have_a_gap(spark: "SparkSession") -> None:
    """Their difference is no whole number of the type; nothing overflows, and each lies in a range."""
    values = [-(2**63), *range(VALUES_MAX), 2**63 - 1]
    found = _found(spark, "bigint", values)

    assert found is not None
    assert _held(spark, "bigint", values, found) == len(values)


def test_of_a_key_of_several_columns_the_first_number_counts(spark: "SparkSession") -> None:
    """Its values come more than once, and all of them are in a range."""
    schema = TableSchema((Column("t", "string"), Column("n", "decimal(9,2)")), key=("t", "n"))
    values = [Decimal(number // 3) for number in range(3 * VALUES_MAX + 3)]
    keys = spark.createDataFrame([(str(at), value) for at, value in enumerate(values)], "t string, n decimal(9,2)")

    assert _pruned_by(schema) == "n"
    near = find_ranges(keys, len(values), "n")

    assert near is not None
    keys.createOrReplaceTempView("keys_of_several_columns")
    count = f"SELECT count_if({near.condition}) AS held FROM keys_of_several_columns t"
    assert spark.sql(count, args=near.arguments).collect()[0]["held"] == len(values)


def test_texts_have_no_ranges(spark: "SparkSession") -> None:
    """They may be a person's, and plans are shown."""
    assert _found(spark, "string", ["a", "b"]) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_mirror_is_the_same_with_ranges(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Updates, deletes and inserts of random keys, through ranges whose number is small enough for them to matter."""
    chosen = random.Random(seed)  # noqa: S311 - repeatable, not secret
    monkeypatch.setattr(key_ranges, "ROWS_MIN", 0)
    monkeypatch.setattr(key_ranges, "VALUES_MAX", seed)
    monkeypatch.setattr(key_ranges, "RANGES_MAX", 2)
    asked: list[KeyRanges | None] = []

    def delete(*arguments: Any) -> str:  # noqa: ANN401 - those of `delete_keys`
        asked.append(arguments[-1])
        return delete_keys(*arguments)

    monkeypatch.setattr(key_ranges, "delete_keys", delete)
    shop = Shop(lake_config, spark, f"ranges_{seed}", records_max=40)
    rows = {1: 11, 3: 30}
    for _ in range(3):
        changes: list[tuple[str, int, int | None]] = []
        for key in chosen.sample([1, 3, 7, 8, 9, 100, 101, 10**6, 10**6 + 1, -5], 6):
            price = None if key in rows and chosen.random() < 0.3 else chosen.randrange(100)
            changes.append(("d" if price is None else "u" if key in rows else "c", key, price))
            rows = {name: cost for name, cost in {**rows, key: price}.items() if cost is not None}
        shop.send(*changes)
        assert run_once(shop.config, spark).exit_code == 0

        assert shop.rows() == rows
    assert asked
    assert None not in asked


@pytest.mark.parametrize("ranges", [False, True])
def test_a_delete_shuffles_no_files_and_reads_those_where_its_keys_can_be(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch, *, ranges: bool
) -> None:
    """The batch's keys are sent to the mirror's files; of four, one has the range of the key that is updated."""
    monkeypatch.setattr(key_ranges, "ROWS_MIN", 0 if ranges else ROWS_MIN)
    shop = Shop(lake_config, spark, f"pruned_{ranges}", records_max=40)
    for key in (100, 200, 300):
        shop.send(*[("c", key + at, at) for at in range(3)])
        shop.run()
    shop.send(("u", 201, 7))
    before = _listed(_store(spark).executionsList())[-1].executionId()
    shop.run()

    ((plan, files),) = _deletes(spark, before, shop.mirror)
    assert "BroadcastHashJoin" in plan, plan
    assert "SortMergeJoin" not in plan, plan
    assert files == (1 if ranges else 4)


def test_keys_that_are_too_many_to_be_sent_are_joined_by_a_shuffle(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark sends as much as `spark.sql.autoBroadcastJoinThreshold` says to each file; here nothing."""
    settings = {**BATCHES, "spark.sql.autoBroadcastJoinThreshold": "-1"}
    monkeypatch.setattr("cdc_materializer.session.session.BATCHES", settings)
    shop = Shop(lake_config, spark, "shuffled", records_max=40)
    shop.send(*[("c", 100 + at, at) for at in range(3)])
    shop.run()
    shop.send(("u", 101, 7), ("d", 102, None), ("u", 3, 33))
    before = _listed(_store(spark).executionsList())[-1].executionId()
    shop.run()

    ((plan, _),) = _deletes(spark, before, shop.mirror)
    assert "SortMergeJoin" in plan, plan
    assert shop.rows() == {1: 11, 3: 33, 100: 0, 101: 7}


def _store(spark: "SparkSession") -> Any:  # noqa: ANN401 - Spark's own record of what it has executed
    java: Any = spark._jsparkSession
    return java.sharedState().statusStore()


def _deletes(spark: "SparkSession", before: int, mirror: str) -> list[tuple[str, int]]:
    """The statements behind one that delete rows: the plan of each, and how many of the mirror's files it has read."""
    store, found = _store(spark), []
    for execution in _listed(store.executionsList()):
        plan = str(execution.physicalPlanDescription())
        if execution.executionId() <= before or "WriteDelta" not in plan or f".{mirror}[" not in plan:
            continue
        values = store.executionMetrics(execution.executionId())
        nodes = _listed(store.planGraph(execution.executionId()).allNodes())
        (scan,) = (node for node in nodes if node.name().endswith(f".{mirror}"))
        metrics = {metric.name(): values.get(metric.accumulatorId()).get() for metric in _listed(scan.metrics())}
        found.append((plan, int(metrics["number of result data files"])))
    return found


def _listed(found: Any) -> list[Any]:  # noqa: ANN401 - a sequence of Scala's
    return [found.apply(at) for at in range(found.size())]
