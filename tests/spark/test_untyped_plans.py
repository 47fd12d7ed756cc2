"""What it costs Spark to plan JSON without types, which grows with the columns; and from what it is read."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from cdc_materializer.batch import batch
from cdc_materializer.changes.formats import all_formats
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.config import Config, TableConfig
from cdc_materializer.contract import load_contract
from cdc_materializer.decode.json_texts import TEXTS
from cdc_materializer.decoders.decoders import find_decoders
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS
from tests.spark.recorded_wire import TOPIC, line_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.line.line import Line

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

_UNTYPED = [name for name, format_ in all_formats() if format_.needs_contract]


def _line_of(line: "Line", name: str, columns: int, folder: Path) -> "Line":
    """The way of a table of one format, with so many columns beside its key."""
    declared = [{"name": "id", "primaryKey": True, "logicalType": "integer"}]
    declared += [{"name": f"x{at}", "logicalType": "number", "physicalType": "decimal(12,2)"} for at in range(columns)]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "x", "version": "1.0.0", "status": "active"}
    path = folder / f"{name}-{columns}.yaml"
    path.write_text(yaml.safe_dump({**head, "schema": [{"name": "t", "properties": declared}]}), encoding="utf-8")
    table = TableConfig.model_validate({"topic": TOPIC, "mirror": str(line.mirror), "format": name})
    return replace(line, table=table, stated=load_contract(path))


def _plan(line: "Line", spark: "SparkSession", phase: str = "analyzed") -> str:
    """The plan of one message's changes behind a phase of Spark's, whole."""
    ddl = "topic string, partition int, offset long, timestamp timestamp, key binary, value binary"
    raw = spark.createDataFrame([(TOPIC, 0, 0, None, *[bytearray(b'{"id": 1}')] * 2)], ddl)
    messages = batch.messages(raw, None, line.id_bytes)
    decoders = find_decoders(messages, line.lookup(None))
    changes: DataFrame = to_changes(messages, decoders.writers, decoders.plan.target, line.options)
    setting = "spark.sql.debug.maxToStringFields"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "1000000")
    try:
        return str(getattr(changes._jdf.queryExecution(), phase)().toString())
    finally:
        spark.conf.set(setting, before or "25")


@pytest.mark.parametrize("name", _UNTYPED)
def test_a_plan_grows_with_the_columns_and_not_with_their_square(
    name: str, spark: "SparkSession", lake_config: Config, namespace: str, tmp_path: Path
) -> None:
    """Four times the columns. Of Maxwell's 12 took minutes."""
    line = line_of(spark, lake_config, namespace, tmp_path)
    few, many = (_plan(_line_of(line, name, columns, tmp_path), line.lake.spark) for columns in (10, 40))

    assert len(many) < 4.2 * len(few)


def test_what_json_is_read_from_is_a_column(
    spark: "SparkSession", lake_config: Config, namespace: str, tmp_path: Path
) -> None:
    """Spark's reader would interpret whatever else it were, and look up its Java methods for each row."""
    line = _line_of(line_of(spark, lake_config, namespace, tmp_path), "debezium", 3, tmp_path)
    plan = _plan(line, line.lake.spark, "optimizedPlan")

    assert set(re.findall(r"(text_of_\w+)#\d+, Some\(UTC\)", plan)) == set(TEXTS.values())
