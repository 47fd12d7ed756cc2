"""A column that a registered schema renames by an alias: planned, read fresh, done, proved, and gathered again."""

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_USAGE
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.aliases import PROPERTY
from cdc_materializer.names import TableName
from cdc_materializer.plan import plan_tables
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.query.fresh import read
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import TopicBuilder, confluent_avro
from tests.cases.schemas import write_schemas
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

_MIRROR, _HIDDEN = "aliases.orders", "aliases.hidden"


def _schema(name: str, *aliases: str) -> dict[str, Any]:
    text = ["null", "string"]
    fields = [{"name": "id", "type": "long"}, {"name": name, "type": text, "aliases": list(aliases)}]
    return {"type": "record", "name": "row", "fields": fields}


_KEY = {"type": "record", "name": "key", "fields": [{"name": "id", "type": "long"}]}
_SCHEMAS = {1: _schema("customer"), 2: _schema("client", "customer"), 9: _KEY}


class _Orders:
    """One upsert topic in Avro, and its mirror."""

    def __init__(self, config: Config, name: str = "orders", **more: object) -> None:
        self._folder = config.root / f"aliases_{name}"
        self.topic = TopicBuilder(name)
        self.path = config.root / f"aliases_{name}.yaml"
        table = {"topic": name, "mirror": f"aliases.{name}", "format": "upsert", "aliases": "rename", **more}
        folder = self._folder.name
        settings = {"source": {"files": folder}, "registry": {"files": f"{folder}/schemas"}, "tables": [table]}
        self.path.write_text(yaml.safe_dump({"name": "tests", **settings}))
        (self._folder / "schemas" / "ids").mkdir(parents=True)
        write_schemas(self._folder / "schemas", _SCHEMAS, {})

    def send(self, schema: int, **row: object) -> None:
        """Add a row of one writer to the topic."""
        self.topic.add(confluent_avro(9, _KEY, {"id": row["id"]}), confluent_avro(schema, _SCHEMAS[schema], row))
        self.topic.write(self._folder)

    def mask(self, **masked: str | None) -> Config:
        """The configuration with a contract that masks columns so."""
        hidden = {name: [{"property": "mask", "value": mask}] for name, mask in masked.items() if mask is not None}
        columns = [{"name": name, "customProperties": hidden.get(name, [])} for name in masked]
        head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "orders", "version": "1.0.0", "status": "active"}
        schema = [{"name": "orders", "properties": [{"name": "id", "primaryKey": True}, *columns]}]
        self.path.with_suffix(".contract").write_text(yaml.safe_dump({**head, "schema": schema}))
        settings = yaml.safe_load(self.path.read_text())
        settings["tables"][0]["contract"] = self.path.with_suffix(".contract").name
        self.path.write_text(yaml.safe_dump(settings))
        return load_config(self.path)


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


def test_no_alias_shows_what_the_contract_hides(spark: "SparkSession", lake_config: Config) -> None:
    """The mirror stops until the contract says how the column is masked under its new name, and goes on then."""
    orders = _Orders(lake_config, "hidden")
    orders.send(1, id=1, customer="canary-a")
    assert run_once(orders.mask(customer="redact"), spark).exit_code == 0
    orders.send(2, id=2, client="canary-b")

    for config in (orders.mask(customer="redact"), orders.mask(customer="redact", client=None)):
        refused = run_once(config, spark)
        assert refused.exit_code == EXIT_USAGE
        assert "`customer`, which is renamed to `client`" in str(refused.tables[0].error)
        assert plan_tables(config, spark=spark).tables[0].action == "stop"
        assert replay_tables(config, (_HIDDEN,), ReplayOptions(publish=True), spark).tables[0].error is not None
        assert _rows(spark.table(f"lake.{_HIDDEN}")) == [{"id": 1, "customer": "***"}]
    assert spark.table(f"lake.{_HIDDEN}__raw").count() == 2
    config = orders.mask(client="redact")
    assert run_once(config, spark).exit_code == 0

    assert _rows(spark.table(f"lake.{_HIDDEN}")) == [{"id": 1, "client": "***"}, {"id": 2, "client": "***"}]
    assert verify_tables(config, spark).tables[0].equal
    assert replay_tables(config, (_HIDDEN,), ReplayOptions(publish=True), spark).tables[0].equal
    assert _rows(spark.table(f"lake.{_HIDDEN}"))[1] == {"id": 2, "client": "***"}


def test_a_replay_brings_no_column_back_that_a_run_renames_meanwhile(
    spark: "SparkSession", lake_config: Config
) -> None:
    """It ends with nothing swapped; runs go on, and so does the next replay."""
    name, orders = "aliases.renamed", _Orders(lake_config, "renamed", records_max=1)
    for row in range(1, 4):
        orders.send(1, id=row, customer="a")
    config = load_config(orders.path)
    assert run_once(config, spark).exit_code == 0
    batches = itertools.count()

    def meanwhile(*_: object) -> None:
        if next(batches) == 0:
            orders.send(2, id=4, client="b")
            assert run_once(config, spark).exit_code == 0

    error = replay_tables(config, (name,), ReplayOptions(publish=True, on_batch=meanwhile), spark).tables[0].error

    assert error is not None
    assert (error.code, "rename columns" in error.message) == ("CommitConflict", True)
    assert spark.table(f"lake.{name}").columns[:-1] == ["id", "client"]
    orders.send(1, id=5, customer="late")
    assert run_once(config, spark).exit_code == 0
    replayed = replay_tables(config, (name,), ReplayOptions(publish=True), spark).tables[0]
    assert (replayed.error, replayed.equal, replayed.published) == (None, True, True)
    told = [{"id": row, "client": client} for row, client in enumerate(("a", "a", "a", "b", "late"), start=1)]
    assert _rows(spark.table(f"lake.{name}")) == told
