"""One table whose topic is recorded, in Avro by two schemas, for tests of the wire."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_materializer.batch.steps import Batch
from cdc_materializer.config import Config, TableConfig
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.errors import RegistryUnavailable
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.line import Line
from cdc_materializer.pipeline import advance
from cdc_materializer.proof.proof import VerifyOptions, compare
from cdc_materializer.query.fresh import together
from cdc_materializer.registry import RegisteredSchema, Wanted
from cdc_materializer.report.models import TableVerify
from cdc_materializer.source import RecordedSource
from cdc_materializer.testing import (
    MemoryRegistry,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    debezium_envelope,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TOPIC = "shop.public.things"
KEY = avro_key_schema(TOPIC, {"id": "long"})
TEXT = ["null", "string"]
VALUE = avro_envelope_schema(TOPIC, {"id": "long", "name": ["null", "string"], "amount": ["null", "int"]})


def line_of(spark: "SparkSession", lake_config: Config, namespace: str, tmp_path: Path) -> Line:
    """The way of one table whose topic is recorded in `tmp_path`."""
    table = TableConfig.model_validate({"topic": TOPIC, "mirror": f"{namespace}.things"})
    lake = Lake(spark.newSession(), lake_config.catalog.name)
    return Line("wire", table, RecordedSource(tmp_path), MemoryRegistry({1: KEY, 2: VALUE}), None, lake)


def message(at: int, **row: Any) -> tuple[bytes, bytes]:  # noqa: ANN401 - values of a row
    """The key and the value of a row that was made."""
    envelope = debezium_envelope("c", None, {"id": at, "name": f"n{at}", "amount": at} | row, lsn=100 + at)
    return confluent_avro(1, KEY, {"id": at}), confluent_avro(2, VALUE, envelope)


def bring_up(line: Line) -> list[Batch]:
    """Bring the mirror to the topic's end, batch by batch."""
    topic, batches = line.source.state(TOPIC), []
    while (done := advance(line, topic)) is not None:
        batches.append(done)
    return batches


def rows_of(line: Line) -> dict[int, tuple[str, int]]:
    """The mirror's rows by their ids."""
    found = line.lake.spark.table(f"{line.lake.catalog}.{line.mirror}").select("id", "name", "amount").collect()
    return {row["id"]: (row["name"], row["amount"]) for row in found}


def held_of(line: Line) -> dict[int, str]:
    """The codes of what quarantine has, by offsets."""
    name = f"{line.lake.catalog}.{line.mirror.quarantine}"
    if not line.lake.spark.catalog.tableExists(name):
        return {}
    return {row["offset"]: row["code"] for row in line.lake.spark.table(name).collect()}


@dataclass
class Away(MemoryRegistry):
    """A registry that can be down, and may not know a schema while it is up."""

    behind: MemoryRegistry
    is_down: bool = False
    hidden: set[int] = field(default_factory=set)
    asked: list[int | None] = field(default_factory=list)
    found: dict[SchemaName, RegisteredSchema] = field(default_factory=dict)

    def schema(self, wanted: Wanted) -> RegisteredSchema | None:
        """What is registered, unless it is hidden."""
        if self.is_down:
            raise RegistryUnavailable("The registry does not answer.", "Run again.")
        number = wanted if isinstance(wanted, int) else wanted.number
        self.asked.append(number)
        return None if number in self.hidden else self.behind.schema(wanted)


def verify(line: Line, *, repair: bool = False) -> TableVerify:
    """Hold the mirror against the fold of raw."""
    line, tables = together(line)
    assert tables.raw is not None
    assert tables.mirror is not None
    return compare(line, tables.raw, tables.mirror, tables.quarantine, VerifyOptions(repair=repair))
