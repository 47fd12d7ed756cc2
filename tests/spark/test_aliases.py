"""A column that a registered schema renames by an alias: planned, read fresh, done, proved, and gathered again."""

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.aliases import PROPERTY
from cdc_materializer.config import Config, load_config
from cdc_materializer.fresh import read
from cdc_materializer.lake import Lake
from cdc_materializer.names import TableName
from cdc_materializer.plan import plan_tables
from cdc_materializer.proof import verify_tables
from cdc_materializer.rebuild import ReplayOptions, replay_tables
from cdc_materializer.run import run_once
from cdc_materializer.testing import TopicBuilder, confluent_avro
from tests.cases.schemas import write_schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_MIRROR = "aliases.orders"


def _schema(name: str, *aliases: str) -> dict[str, Any]:
    text = ["null", "string"]
    fields = [{"name": "id", "type": "long"}, {"name": name, "type": text, "aliases": list(aliases)}]
    return {"type": "record", "name": "row", "fields": fields}


_KEY = {"type": "record", "name": "key", "fields": [{"name": "id", "type": "long"}]}
_SCHEMAS = {1: _schema("customer"), 2: _schema("client", "customer"), 9: _KEY}


class _Orders:
    """One upsert topic in Avro, and its mirror."""

    def __init__(self, config: Config) -> None:
        self._folder = config.root / "aliases"
        self.topic = TopicBuilder("orders")
        self.path = config.root / "aliases.yaml"
        table = {"topic": "orders", "mirror": _MIRROR, "format": "upsert", "aliases": "rename"}
        settings = {"source": {"files": "aliases"}, "registry": {"files": "aliases/schemas"}, "tables": [table]}
        self.path.write_text(yaml.safe_dump({"name": "tests", **settings}))
        (self._folder / "schemas" / "ids").mkdir(parents=True)
        write_schemas(self._folder / "schemas", _SCHEMAS, {})

    def send(self, schema: int, **row: object) -> None:
        """Add a row of one writer to the topic."""
        self.topic.add(confluent_avro(9, _KEY, {"id": row["id"]}), confluent_avro(schema, _SCHEMAS[schema], row))
        self.topic.write(self._folder)


def _rows(frame: "DataFrame") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [row.asDict() for row in frame.drop("__cdc").orderBy("id").collect()]
    return found


def test_an_alias_renames_a_column_whatever_comes_when(spark: "SparkSession", lake_config: Config) -> None:
    """The column keeps its field id; what raw remembers is that of its messages, and can be lost."""
    orders, lake = _Orders(lake_config), Lake(spark, "lake")
    mirror = TableName.parse(_MIRROR)
    orders.send(1, id=1, customer="a")
    config = load_config(orders.path)
    assert run_once(config, spark).exit_code == 0
    field = lake.iceberg(mirror).schema().findField("customer").fieldId()
    orders.send(2, id=2, client="b")

    planned = plan_tables(config, spark=spark).tables[0]
    fresh = _rows(read(config, _MIRROR, spark))
    assert run_once(config, spark).exit_code == 0
    raw = lake.iceberg(mirror.raw)
    remembered = raw.properties().get(PROPERTY)
    raw.updateProperties().remove(PROPERTY).commit()
    orders.send(1, id=3, customer="late")
    assert run_once(config, spark).exit_code == 0

    assert [(one.old, one.new) for one in planned.renamed] == [("customer", "client")]
    assert planned.added == []
    told = [{"id": 1, "client": "a"}, {"id": 2, "client": "b"}]
    assert fresh == told
    assert remembered is not None
    assert '"pairs": [["customer", "client"]]' in remembered
    assert _rows(spark.table(f"lake.{_MIRROR}")) == [*told, {"id": 3, "client": "late"}]
    assert lake.iceberg(mirror).schema().findField("client").fieldId() == field
    assert verify_tables(config, spark).tables[0].equal
    replayed = replay_tables(config, (_MIRROR,), ReplayOptions(), spark).tables[0]
    assert (replayed.error, replayed.equal) == (None, True)
