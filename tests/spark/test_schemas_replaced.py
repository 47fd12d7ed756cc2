"""A registry in which the names of schemas that messages carry stand for others than they were decoded by."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.doctor.topics import check_schemas
from cdc_materializer.errors import EXIT_LAKE, EXIT_REWOUND, CdcError, SchemaReplaced
from cdc_materializer.explain.explain import Asked, why
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.schemas import bound_to, remember
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import VerifyOptions, verify_tables
from cdc_materializer.query.fresh import read
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables
from cdc_materializer.registry import open_registry
from cdc_materializer.registry.bound import FORMER, Bound, BoundRegistry
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import (
    TopicBuilder,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    debezium_envelope,
)
from tests.cases.schemas import write_schemas
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]

TEXT = ["null", "string"]
NAMES = {"id": 1, "first": "Ada", "last": "Lovelace"}


class Moved:
    """A table whose pipeline can be pointed at registry `a` or `b`."""

    def __init__(self, root: Path, spark: "SparkSession", space: str) -> None:
        """Send a row by schema 2 of registry `a`, and mirror it."""
        self.spark, self.mirror, self.folder = spark, f"{space}.people", root / f"moved_{space}"
        self.topic = TopicBuilder(f"{space}.public.people")
        self.key = avro_key_schema(self.topic.topic, {"id": "long"})
        self.row = avro_envelope_schema(self.topic.topic, {"id": "long", "first": TEXT, "last": TEXT})
        self.turned = avro_envelope_schema(self.topic.topic, {"id": "long", "last": TEXT, "first": TEXT})
        self.folder.mkdir()
        self.register("a", {1: self.key, 2: self.row})
        self.send(2, NAMES)

    def register(self, registry: str, schemas: dict[int, dict[str, Any]]) -> None:
        """Put schemas into a registry."""
        write_schemas(self.folder / registry, schemas)

    def send(self, schema: int, row: dict[str, Any]) -> None:
        """Add an insert, written by the columns of the row."""
        envelope = debezium_envelope("c", None, row, lsn=100 + len(self.topic.messages))
        key = confluent_avro(1, self.key, {"id": row["id"]})
        self.topic.add(key, confluent_avro(schema, self.row, envelope))
        self.topic.write(self.folder / "topics")

    def at(self, registry: str) -> Config:
        """The pipeline with a registry."""
        path = self.folder.parent / f"{self.folder.name}.yaml"
        places = {
            "source": {"files": f"{self.folder.name}/topics"},
            "registry": {"files": f"{self.folder.name}/{registry}"},
        }
        table = {"topic": self.topic.topic, "mirror": self.mirror}
        path.write_text(yaml.safe_dump({"name": "moved", **places, "tables": [table]}))
        return load_config(path)

    def run(self, registry: str) -> tuple[int, str | None]:
        """Run; the exit code, and the code of the table's error."""
        report = run_once(self.at(registry), self.spark)
        error = report.tables[0].error
        return report.exit_code, error.code if error is not None else None

    def examined(self, registry: str) -> list[tuple[str, int]]:
        """What `cdcm doctor` says of the schemas, without Spark."""
        config = self.at(registry)
        asked = open_registry(config.registry)
        assert asked is not None
        try:
            found = list(check_schemas(config.tables[0], open_tables(config.catalog), asked))
        except CdcError as error:
            return [("problem", error.exit_code)]
        return [(check.outcome, check.exit_code) for check in found]

    @property
    def rows(self) -> dict[int, str]:
        """The names that the mirror shows."""
        return {row["id"]: f"{row['first']} {row['last']}" for row in self.spark.table(f"lake.{self.mirror}").collect()}

    @property
    def bound(self) -> Bound:
        """What raw remembers."""
        table = Lake(self.spark, "lake").iceberg(TableName.parse(self.mirror).raw)
        table.refresh()
        return Bound.of(table.properties(), f"{self.mirror}__raw")

    def forget(self) -> None:
        """Remember nothing, as tables of an earlier version."""
        raw = f"lake.{self.mirror}__raw"
        found = [row["key"] for row in self.spark.sql(f"SHOW TBLPROPERTIES {raw}").collect()]
        keys = ", ".join(f"'{key}'" for key in found if key.startswith(FORMER))
        self.spark.sql(f"ALTER TABLE {raw} UNSET TBLPROPERTIES ({keys})")

    @property
    def heads(self) -> list[int]:
        """All snapshots of the mirror."""
        found = self.spark.sql(f"SELECT snapshot_id FROM lake.{self.mirror}.snapshots")
        return sorted(row["snapshot_id"] for row in found.collect())


@pytest.fixture
def moved(spark: "SparkSession", lake_config: Config, namespace: str) -> Moved:
    """A table that was mirrored with `a`; in `b` its schema is id 3, and id 2 has the columns in another order."""
    found = Moved(lake_config.root, spark, namespace)
    assert found.run("a") == (0, None)
    found.register("b", {1: found.key, 2: found.turned, 3: found.row})
    return found


def _why(config: Config, moved: Moved) -> None:
    why(config, moved.mirror, Asked('{"id": 1}'), moved.spark)


def _verified(config: Config, moved: Moved) -> None:
    error = verify_tables(config, moved.spark, VerifyOptions([moved.mirror])).tables[0].error
    assert error is not None
    assert error.code == SchemaReplaced.__name__, error
    raise SchemaReplaced(error.message, "")


def _replayed(config: Config, moved: Moved) -> None:
    found = replay_tables(config, (moved.mirror,), ReplayOptions(publish=True), moved.spark).tables[0]
    assert found.error is not None
    assert (found.error.code, found.published) == (SchemaReplaced.__name__, False)
    raise SchemaReplaced(found.error.message, "")


_READERS: dict[str, Callable[[Config, Moved], object]] = {
    "verify": _verified,
    "replay --publish": _replayed,
    "why": _why,
    "query --fresh": lambda config, moved: read(config, moved.mirror, moved.spark),
}


def test_a_registry_in_which_an_id_names_another_schema_stops_all_that_read_by_it(moved: Moved) -> None:
    """Also where new messages are written with ids that are right there: the rows of before would be read wrongly."""
    moved.send(3, {"id": 2, "first": "Grace", "last": "Hopper"})
    before = moved.heads, moved.bound

    assert moved.run("b") == (EXIT_REWOUND, "SchemaReplaced")
    for name, read_by in _READERS.items():
        with pytest.raises(CdcError) as stop:
            read_by(moved.at("b"), moved)
        assert isinstance(stop.value, SchemaReplaced), name
        assert "id:2" in str(stop.value), name

    assert moved.examined("b") == [("problem", EXIT_REWOUND)]
    assert (moved.heads, moved.bound) == before
    assert moved.rows == {1: "Ada Lovelace"}
    assert moved.spark.table(f"lake.{moved.mirror}__raw").count() == 2, "raw goes on"


@pytest.mark.parametrize("key", [f"{FORMER}.id:00000002", FORMER])
def test_what_is_remembered_and_was_changed_by_hand_stops_the_table(moved: Moved, key: str) -> None:
    """Nothing is decoded by schemas of which nobody can say whether they are those of before; it says what to do."""
    moved.send(2, {"id": 2, "first": "Grace", "last": "Hopper"})
    raw, before = f"lake.{moved.mirror}__raw", moved.heads
    moved.spark.sql(f"ALTER TABLE {raw} SET TBLPROPERTIES ('{key}' = 'id:2')")

    report = run_once(moved.at("a"), moved.spark)

    error = report.tables[0].error
    assert error is not None
    assert report.exit_code == EXIT_LAKE, error
    assert f"`{key}` of {moved.mirror}__raw" in error.message
    assert moved.heads == before
    assert moved.examined("a") == [("problem", EXIT_LAKE)]
    moved.forget()
    assert moved.run("a") == (0, None)
    assert moved.rows == {1: "Ada Lovelace", 2: "Grace Hopper"}


def test_a_copy_of_the_registry_goes_on_without_a_word(moved: Moved) -> None:
    """At another place, with the same schemas by the same ids, whichever way it writes their texts."""
    shutil.copytree(moved.folder / "a", moved.folder / "c")
    for path in (moved.folder / "c" / "ids").glob("*.json"):
        body = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**body, "schema": json.dumps(json.loads(body["schema"]), indent=1)}))
    moved.send(2, {"id": 2, "first": "Grace", "last": "Hopper"})
    before = moved.bound

    assert moved.run("c") == (0, None)

    assert moved.examined("c") == [("ok", 0)]
    assert moved.rows == {1: "Ada Lovelace", 2: "Grace Hopper"}
    assert moved.bound.digests == before.digests
    assert str(moved.bound.place).endswith("/c")
    assert verify_tables(moved.at("c"), moved.spark, VerifyOptions([moved.mirror])).tables[0].equal


def test_a_table_of_before_gets_them_with_what_it_publishes_next(moved: Moved) -> None:
    """With its next batch, and all of them with a replay that is published; one that is not binds nothing."""
    whole = moved.bound
    moved.forget()

    replay_tables(moved.at("b"), (moved.mirror,), ReplayOptions(), moved.spark)
    assert moved.bound == Bound()
    replay_tables(moved.at("a"), (moved.mirror,), ReplayOptions(publish=True), moved.spark)
    assert moved.bound == whole
    moved.forget()
    moved.send(2, {"id": 2, "first": "Grace", "last": "Hopper"})
    assert moved.run("a") == (0, None)
    assert moved.bound == whole


def test_what_an_earlier_version_remembered_holds_on(moved: Moved) -> None:
    """In one property, read with those of today; another schema by one of its names stops the table as well."""
    before = moved.bound
    moved.forget()
    text = json.dumps({"place": before.place, "digests": before.digests})
    moved.spark.sql(f"ALTER TABLE lake.{moved.mirror}__raw SET TBLPROPERTIES ('{FORMER}' = '{text}')")
    moved.send(3, {"id": 2, "first": "Grace", "last": "Hopper"})

    assert moved.bound == before
    assert moved.run("b") == (EXIT_REWOUND, "SchemaReplaced")
    moved.register("a", {1: moved.key, 2: moved.row, 3: moved.row})
    assert moved.run("a") == (0, None)
    assert moved.bound.digests.keys() == {*before.digests, "id:00000003"}
    assert moved.rows == {1: "Ada Lovelace", 2: "Grace Hopper"}


def test_a_schema_by_which_all_messages_were_held_may_be_mended(moved: Moved) -> None:
    """Nothing was published by it, though by others of its batch: nothing was read wrongly, and no one has to decide.

    A name is bound once a message that carries it is no more held.
    """
    wrong = avro_envelope_schema(moved.topic.topic, {"id": "long", "more": "string", "first": TEXT, "last": TEXT})
    schemas = {1: moved.key, 2: moved.row}
    moved.register("a", {**schemas, 5: wrong})
    moved.send(5, {"id": 2, "first": "Grace", "last": "Hopper"})
    moved.send(2, {"id": 3, "first": "Emmy", "last": "Noether"})
    before = moved.bound

    assert moved.run("a") == (0, None)
    assert moved.rows == {1: "Ada Lovelace", 3: "Emmy Noether"}
    assert moved.bound == before
    # For its row the past is read once more, which has the schema's name in it.
    moved.send(2, {"id": 2, "first": "Grace", "last": "Brewster"})
    assert moved.run("a") == (0, None)
    assert moved.rows[2] == "Grace Brewster"
    assert moved.bound == before
    moved.register("a", {**schemas, 5: moved.row})
    moved.send(5, {"id": 4, "first": "Mary", "last": "Somerville"})
    assert moved.run("a") == (0, None)
    people = {1: "Ada Lovelace", 2: "Grace Brewster", 3: "Emmy Noether", 4: "Mary Somerville"}
    assert moved.rows == people
    assert moved.bound.digests.keys() == {*before.digests, "id:00000005"}


def test_what_two_processes_meet_at_once_is_remembered_of_both(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run and a replay of one table, say: whoever comes second adds to what the first has written."""
    moved.register("a", {1: moved.key, 2: moved.row, 3: moved.turned, 4: moved.row})
    lake, mirror = Lake(moved.spark, "lake"), TableName.parse(moved.mirror)
    ours, theirs = (_met(moved, lake, schema) for schema in (3, 4))
    taken = Bound.with_met

    def is_overtaken(self: Bound, place: str, met: dict[str, str]) -> Bound:
        monkeypatch.setattr(Bound, "with_met", taken)
        remember(lake, mirror, theirs)
        return self.with_met(place, met)

    monkeypatch.setattr(Bound, "with_met", is_overtaken)
    remember(lake, mirror, ours)

    assert moved.bound.digests.keys() == {f"id:0000000{schema}" for schema in range(1, 5)}


def _met(moved: Moved, lake: Lake, schema: int) -> BoundRegistry:
    found = bound_to(lake, TableName.parse(moved.mirror), open_registry(moved.at("a").registry))
    assert found is not None
    assert found.schema(schema) is not None
    found.used |= found.met.keys()
    return found
