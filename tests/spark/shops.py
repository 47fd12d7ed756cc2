"""A table, its topic, its contract and the pipeline that keeps it: to be doubted, rebuilt, proven and repaired."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from cdc_materializer.batch.steps import Batch
from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.rebuild.start import parse_start
from cdc_materializer.report.models import TableVerify
from cdc_materializer.report.replay_models import TableReplay
from cdc_materializer.retry import NEVER, Deadline
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.spark.soundness import what_is_unsound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = {"id": {"type": "int64", "optional": False}}
COLUMNS = {**KEY, "name": {"type": "string", "optional": True}, "price": {"type": "int32", "optional": True}}
_CONTRACT = """
apiVersion: v3.0.2
kind: DataContract
id: things
name: Things
version: "{version}"
status: active
schema:
  - name: things
    physicalType: table
    properties:
      - {{name: id, primaryKey: true, logicalType: integer, physicalType: bigint}}
      - {{name: name, logicalType: string, physicalType: text{name}}}
      - {{name: price, logicalType: integer, physicalType: integer, {rule}}}
    quality: [{of_table}]
"""
_HOLDS = "logicalTypeOptions: {{minimum: {least}}}"
_ACTS = """quality: [{{name: price-limit, type: custom, engine: greatExpectations,
         implementation: {{type: expect_column_values_to_be_between, kwargs: {{min_value: {least}}}}},
         customProperties: [{{property: action, value: {action}}}]}}]"""
_DROPPED = ", customProperties: [{property: drop, value: true}]"


class Shop:
    """One table, its topic, its contract, and the pipeline that keeps it."""

    def __init__(
        self,
        config: Config,
        spark: "SparkSession",
        name: str,
        *,
        first_offset: int = 0,
        **settings: Any,  # noqa: ANN401 - whatever a table can be set to
    ) -> None:
        """Fill the mirror with four rows, of which one is held; with further settings of the table."""
        self.spark, self.mirror, self.folder = spark, f"replays.{name}", config.root / f"replay_{name}"
        self._settings = settings
        self.topic = TopicBuilder(f"{name}.public.things", first_offset=first_offset)
        self.judge("1", 0)
        self.send(("c", 1, 10), ("c", 2, 20), ("c", 3, 30), ("c", 4, -1), ("u", 1, 11), ("d", 2, None))
        self.run()

    def configure(self, **settings: Any) -> None:  # noqa: ANN401 - whatever a table can be set to
        """Change settings of the table."""
        self._settings |= settings

    @property
    def entry(self) -> dict[str, Any]:
        """The table's entry in pipeline.yaml."""
        table = {"topic": self.topic.topic, "mirror": self.mirror, "contract": str(self._contract), "records_max": 4}
        return table | self._settings

    @property
    def config(self) -> Config:
        """The pipeline's configuration, in batches of four messages."""
        path = self.folder.parent / f"{self.folder.name}.yaml"
        content = {"name": "replays", "source": {"files": self.folder.name}, "tables": [self.entry]}
        path.write_text(yaml.safe_dump(content))
        return load_config(path)

    @property
    def _contract(self) -> Path:
        return self.folder / "contract.yaml"

    def judge(
        self, version: str, least: int, *, action: str | None = None, of_table: str = "", drops: bool = False
    ) -> None:
        """Put a contract in force that holds lower prices, or that does something else for them.

        Args:
            version: the contract's.
            least: the lowest price.
            action: what is done with a lower one, where it is not held.
            of_table: rules about the table.
            drops: whether names are left out.
        """
        self.folder.mkdir(exist_ok=True)
        rule = (_ACTS if action else _HOLDS).format(least=least, action=action)
        name = _DROPPED if drops else ""
        text = _CONTRACT.format(version=version, rule=rule, of_table=of_table, name=name)
        self._contract.write_text(text, encoding="utf-8")

    def send(self, *changes: tuple[str, int, int | None]) -> None:
        """Add changes to the topic."""
        for op, row, price in changes:
            image = {"id": row, "name": f"thing {row}", "price": price}
            before, after = (image, None) if op == "d" else (None, image)
            envelope = debezium_envelope(op, before, after, lsn=100 + len(self.topic.messages))
            key = debezium_json({"id": row}, connect_key_schema("t", KEY))
            self.topic.add(key, debezium_json(envelope, connect_envelope_schema("t", COLUMNS)))
        self.topic.write(self.folder)

    def run(self) -> None:
        """Bring the mirror up to date."""
        report = run_once(self.config, self.spark)
        assert report.exit_code == 0, report

    def replay(
        self,
        *,
        publish: bool = False,
        plain_keys: bool = False,
        start: str = "earliest",
        on_batch: Callable[[TableConfig, Batch], None] | None = None,
        deadline: Deadline = NEVER,
    ) -> TableReplay:
        """Rebuild the mirror."""
        begin = parse_start(start)
        options = ReplayOptions(publish=publish, start=begin, plain_keys=plain_keys, deadline=deadline)
        options = options if on_batch is None else replace(options, on_batch=on_batch)
        return replay_tables(self.config, (self.mirror,), options, self.spark).tables[0]

    def verify(self, *, repair: bool = False, ledger: bool = False, plain_keys: bool = False) -> TableVerify:
        """Compare the mirror with the fold of raw, or with its ledger."""
        options = VerifyOptions([self.mirror], repair, ledger, plain_keys)
        return verify_tables(self.config, self.spark, options).tables[0]

    def rows(self) -> dict[int, Any]:
        """What readers see."""
        return {row["id"]: row["price"] for row in self.spark.table(f"lake.{self.mirror}").collect()}

    def lives(self) -> dict[int, tuple[int, bool]]:
        """The price of each row of a mirror that keeps deleted ones, and whether it is deleted."""
        found = self.spark.table(f"lake.{self.mirror}").select("id", "price", "__cdc.deleted").collect()
        return {row["id"]: (row["price"], row["deleted"]) for row in found}

    def held(self) -> dict[int, str]:
        """What quarantine has, by offset: what became of it."""
        return {row["offset"]: row["status"] for row in self.spark.table(f"lake.{self.mirror}__quarantine").collect()}

    def refs(self) -> set[str]:
        """The table's branches and tags."""
        return {row["name"] for row in self.spark.table(f"lake.{self.mirror}.refs").collect()}

    def is_proven(self) -> bool:
        """Whether `verify` finds the mirror equal to its log, where nothing is wrong with its tables' snapshots."""
        assert what_is_unsound(self.config, TableName.parse(self.mirror)) == []
        return verify_tables(self.config, self.spark).equal
