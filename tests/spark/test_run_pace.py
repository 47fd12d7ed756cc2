"""What the batches of a run share, and how large they are."""

from typing import TYPE_CHECKING

import pytest

from cdc_materializer.config import Config
from cdc_materializer.line import size as pipeline_size
from cdc_materializer.run import pace as run_pace
from cdc_materializer.run.run import RunOptions, run_once
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.shops import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.batch.steps import Batch
    from cdc_materializer.config import TableConfig

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]


def test_batches_that_take_too_long_become_smaller(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first reads what `records_max` allows, the next one half of it; each in its table's own pool of Spark's."""
    monkeypatch.setattr(run_pace, "OFFSETS_MIN", 2)
    shop = Shop(lake_config, spark, "paced", records_max=8, batch_duration="0s")
    shop.send(*[("c", 100 + at, at) for at in range(12)])
    found: list[tuple[int, str | None]] = []

    def told(_: "TableConfig", batch: "Batch") -> None:
        pool = spark.sparkContext.getLocalProperty("spark.scheduler.pool")
        found.append((sum(batch.counts.values()), pool))

    report = run_once(shop.config, spark, RunOptions(on_batch=told))

    assert report.exit_code == 0
    assert found == [(8, shop.mirror), (4, shop.mirror)]
    assert shop.rows() == {1: 11, 3: 30} | {100 + at: at for at in range(12)}


def test_large_messages_come_in_small_batches(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each by itself where there is no room for two: raw tells how large they are once they have landed."""
    shop = Shop(lake_config, spark, "large")
    shop.send(*[("c", 100 + at, at) for at in range(4)])
    monkeypatch.setattr(pipeline_size, "SHARE", 0)
    found: list[int] = []

    report = run_once(
        shop.config, spark, RunOptions(on_batch=lambda _, batch: found.append(sum(batch.counts.values())))
    )

    assert report.exit_code == 0
    assert found == [1, 1, 1, 1]
    assert pipeline_size.memory_for_data(spark) > 2**28
