"""How a mirror is laid out: its partitions, its order and its format, and what a later setting or column may not be."""

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.lake.lake import Lake
from cdc_materializer.names import TableName
from cdc_materializer.report.models import RunReport
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_numbers = itertools.count()
#: Sends one row with these columns more, and runs with these settings of the table.
Send = Callable[[Mapping[str, Any], Mapping[str, Any]], RunReport]


@pytest.fixture
def send(spark: "SparkSession", lake_config: Config, namespace: str) -> Send:
    """One topic, whose rows are new ones each time."""
    folder, topic = lake_config.root / f"layout_{next(_numbers)}", TopicBuilder("shop.public.things")
    ids = itertools.count(1)

    def go(row: Mapping[str, Any], settings: Mapping[str, Any]) -> RunReport:
        values = {"id": next(ids), **row}
        types = {name: {"type": "int64" if name == "id" else "string", "optional": name != "id"} for name in values}
        key, schema = connect_key_schema("t", {"id": types["id"]}), connect_envelope_schema("t", types)
        envelope = debezium_envelope("c", None, values, lsn=100 * values["id"])
        topic.add(debezium_json({"id": values["id"]}, key), debezium_json(envelope, schema))
        topic.write(folder)
        path = lake_config.root / f"{folder.name}.yaml"
        tables = [{"topic": topic.topic, "mirror": f"{namespace}.things", **settings}]
        path.write_text(yaml.safe_dump({"name": "layout", "source": {"files": folder.name}, "tables": tables}), "utf-8")
        return run_once(load_config(path), spark)

    return go


def _laid_out(spark: "SparkSession", config: Config, namespace: str) -> tuple[list[str], list[str], list[str]]:
    """The partition fields, the order and the identifier fields of the mirror."""
    table = Lake(spark, config.catalog.name).iceberg(TableName.parse(f"{namespace}.things"))
    partitions = [f"{field.name()} {field.transform()}" for field in table.spec().fields()]
    names = table.schema()
    order = [f"{names.findColumnName(one.sourceId())} {one.direction()}" for one in table.sortOrder().fields()]
    return partitions, order, list(names.identifierFieldNames())


def test_a_mirror_is_laid_out_as_its_settings_say(
    spark: "SparkSession", lake_config: Config, send: Send, namespace: str
) -> None:
    """Its key is its identity whatever its order is."""
    settings = {"partitioned_by": ["bucket(4, id)", "truncate(2, name)"], "sorted_by": ["name desc", "id"]}
    assert send({"name": "a"}, settings).exit_code == 0

    partitions, order, keys = _laid_out(spark, lake_config, namespace)

    assert partitions == ["id_bucket bucket[4]", "name_trunc truncate[2]"]
    assert order == ["name DESC", "id ASC"]
    assert keys == ["id"]


def test_a_mirror_is_sorted_by_its_key_where_nothing_else_is_asked(
    spark: "SparkSession", lake_config: Config, send: Send, namespace: str
) -> None:
    """And has no partitions."""
    assert send({"name": "a"}, {}).exit_code == 0

    assert _laid_out(spark, lake_config, namespace) == ([], ["id ASC"], ["id"])


def test_a_column_that_is_called_as_a_partition_field_is_refused_and_said(
    spark: "SparkSession", send: Send, namespace: str
) -> None:
    """Iceberg takes none; what was there goes on being read, and the messages are safe in raw."""
    settings = {"partitioned_by": ["bucket(4, id)"]}
    assert send({"name": "a"}, settings).exit_code == 0
    assert send({"name": "b", "note": "c"}, settings).exit_code == 0

    report = send({"name": "d", "id_bucket": "e"}, settings)

    assert report.exit_code == 2
    assert report.tables[0].error is not None
    assert "partitioned by fields that Iceberg calls id_bucket" in report.tables[0].error.message
    assert spark.table(f"lake.{namespace}.things").count() == 2
    assert spark.table(f"lake.{namespace}.things__raw").count() == 3


def test_a_mirror_that_a_reader_of_later_cannot_read_is_refused(
    spark: "SparkSession", send: Send, namespace: str
) -> None:
    """It was made with deletion vectors, and Athena reads none; one that can read it changes nothing."""
    assert send({"name": "a"}, {}).exit_code == 0
    assert send({"name": "b"}, {"readers": ["trino"]}).exit_code == 0

    report = send({"name": "c"}, {"readers": ["trino", "athena"]})

    assert report.exit_code == 2
    assert report.tables[0].error is not None
    assert "was made in a way that athena cannot read" in report.tables[0].error.message
    assert spark.table(f"lake.{namespace}.things").count() == 2
    assert send({"name": "d"}, {"readers": ["trino"]}).exit_code == 0
    assert spark.table(f"lake.{namespace}.things").count() == 4


@pytest.mark.parametrize("readers", [["athena"], ["databricks", "athena"]])
def test_a_mirror_that_was_made_for_its_readers_goes_on(send: Send, readers: list[str]) -> None:
    """With position deletes, or with files that are written anew."""
    assert send({"name": "a"}, {"readers": readers}).exit_code == 0
    assert send({"name": "b"}, {"readers": readers}).exit_code == 0
