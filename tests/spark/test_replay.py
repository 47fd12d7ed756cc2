"""Rebuilding a mirror beside the live one: equal where nothing happened, and the cure where something did."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.errors import UsageError
from cdc_materializer.line import Batch
from cdc_materializer.marker import MARKER_TAG
from cdc_materializer.replay import BEFORE_REPLAY, REPLAY_BRANCH, ReplayOptions, replay_tables, roll_back
from cdc_materializer.report.models import TableReplay
from cdc_materializer.run import run_once
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from cdc_materializer.verify import verify_tables
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS
from tests.spark.passages import ALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, *IMPORTS_GREAT_EXPECTATIONS]

_KEY = {"id": {"type": "int64", "optional": False}}
_COLUMNS = {**_KEY, "name": {"type": "string", "optional": True}, "price": {"type": "int32", "optional": True}}
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
      - {{name: name, logicalType: string, physicalType: text}}
      - {{name: price, logicalType: integer, physicalType: integer, logicalTypeOptions: {{minimum: {least}}}}}
"""


class Shop:
    """One table, its topic, its contract, and the pipeline that keeps it."""

    def __init__(self, config: Config, spark: "SparkSession", name: str) -> None:
        """Fill the mirror with four rows, of which one is held."""
        self.spark, self.mirror, self._folder = spark, f"replays.{name}", config.root / f"replay_{name}"
        self.topic = TopicBuilder(f"{name}.public.things")
        self.judge("1", 0)
        self.send(("c", 1, 10), ("c", 2, 20), ("c", 3, 30), ("c", 4, -1), ("u", 1, 11), ("d", 2, None))
        self.run()

    @property
    def config(self) -> Config:
        """The pipeline's configuration, in batches of four messages."""
        path = self._folder.parent / f"{self._folder.name}.yaml"
        table = {"topic": self.topic.topic, "mirror": self.mirror, "contract": str(self._contract), "records_max": 4}
        path.write_text(yaml.safe_dump({"name": "replays", "source": {"files": self._folder.name}, "tables": [table]}))
        return load_config(path)

    @property
    def _contract(self) -> Path:
        return self._folder / "contract.yaml"

    def judge(self, version: str, least: int) -> None:
        """Put a contract in force that holds lower prices."""
        self._folder.mkdir(exist_ok=True)
        self._contract.write_text(_CONTRACT.format(version=version, least=least), encoding="utf-8")

    def send(self, *changes: tuple[str, int, int | None]) -> None:
        """Add changes to the topic."""
        for op, row, price in changes:
            image = {"id": row, "name": f"thing {row}", "price": price}
            before, after = (image, None) if op == "d" else (None, image)
            envelope = debezium_envelope(op, before, after, lsn=100 + len(self.topic.messages))
            key = debezium_json({"id": row}, connect_key_schema("t", _KEY))
            self.topic.add(key, debezium_json(envelope, connect_envelope_schema("t", _COLUMNS)))
        self.topic.write(self._folder)

    def run(self) -> None:
        """Bring the mirror up to date."""
        report = run_once(self.config, self.spark)
        assert report.exit_code == 0, report

    def replay(
        self, *, publish: bool = False, on_batch: Callable[[TableConfig, Batch], None] | None = None
    ) -> TableReplay:
        """Rebuild the mirror."""
        options = ReplayOptions(publish=publish)
        options = options if on_batch is None else replace(options, on_batch=on_batch)
        return replay_tables(self.config, (self.mirror,), options, self.spark).tables[0]

    def rows(self) -> dict[int, Any]:
        """What readers see."""
        return {row["id"]: row["price"] for row in self.spark.table(f"lake.{self.mirror}").collect()}

    def refs(self) -> set[str]:
        """The table's branches and tags."""
        return {row["name"] for row in self.spark.table(f"lake.{self.mirror}.refs").collect()}

    def is_proven(self) -> bool:
        """Whether `verify` finds the mirror equal to its log."""
        return verify_tables(self.config, self.spark).equal


@pytest.fixture
def shop(request: pytest.FixtureRequest, spark: "SparkSession", lake_config: Config) -> Shop:
    """A shop of the test's own."""
    return Shop(lake_config, spark, request.node.name.removeprefix("test_")[:40])


def test_a_replay_of_a_sound_mirror_finds_no_difference_and_changes_nothing(shop: Shop) -> None:
    """In as many batches as a run takes; what is held live is held again."""
    before = shop.rows()

    found = shop.replay()

    assert (found.equal, found.published, found.error) == (True, False, None)
    assert (found.live, found.rebuilt, found.batches) == (2, 2, 2)
    assert found.held_live == found.held_rebuilt
    assert list(found.held_live.values()) == [1]
    assert shop.rows() == before == {1: 11, 3: 30}
    assert sum(ref.startswith(REPLAY_BRANCH) for ref in shop.refs()) == 1
    assert len(shop.refs()) == 3


def test_a_replay_shows_what_is_wrong_with_a_mirror_and_puts_it_right_when_published(shop: Shop) -> None:
    """A foreign engine has changed a row, removed one and added one; `--rollback` brings even that back."""
    name = f"lake.{shop.mirror}"
    shop.spark.sql(f"UPDATE {name} SET price = 99 WHERE id = 1")
    shop.spark.sql(f"DELETE FROM {name} WHERE id = 3")
    shop.spark.sql(f"INSERT INTO {name} SELECT 7, 'foreign', 7, __cdc FROM {name} WHERE id = 1")

    found = shop.replay()
    assert not found.equal
    assert (found.only_live, found.only_rebuilt, found.different) == (1, 1, 1)
    assert found.columns == {"price": 1}
    assert shop.rows() == {1: 99, 7: 7}, "nothing is swapped unless asked for"

    published = shop.replay(publish=True)
    assert (published.batches, published.published) == (0, True), "it goes on with what was rebuilt"
    assert shop.rows() == {1: 11, 3: 30}
    assert shop.refs() == {"main", MARKER_TAG, BEFORE_REPLAY}
    assert shop.is_proven()

    assert roll_back(shop.config, (shop.mirror,), shop.spark).tables[0].rolled_back
    assert shop.rows() == {1: 99, 7: 7}
    assert shop.refs() == {"main", MARKER_TAG}


def test_a_replay_that_was_killed_goes_on_and_one_that_is_overtaken_catches_up(shop: Shop) -> None:
    """The branch knows how far it is; what a run publishes meanwhile is in the mirror after the swap."""

    def die(_table: TableConfig, _batch: Batch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shop.replay(on_batch=die)
    runs: list[int] = []

    def overtake(_table: TableConfig, _batch: Batch) -> None:
        if not runs:
            runs.append(1)
            shop.send(("u", 3, 31), ("c", 5, 50))
            shop.run()

    found = shop.replay(publish=True, on_batch=overtake)

    assert runs == [1]
    assert (found.published, found.equal) == (True, True)
    assert shop.rows() == {1: 11, 3: 31, 5: 50}
    assert shop.is_proven()
    shop.send(("u", 5, 51))
    shop.run()
    assert shop.rows() == {1: 11, 3: 31, 5: 51}


def test_a_replay_judges_by_the_contract_of_today(shop: Shop) -> None:
    """What the earlier contract let through is held now; the branch of a replay under that one is not used."""
    shop.replay()
    shop.judge("2", 20)

    found = shop.replay(publish=True)

    assert (found.published, found.equal, found.only_live) == (True, False, 1)
    assert shop.rows() == {3: 30}
    assert shop.is_proven()


def test_a_table_without_a_mirror_cannot_be_rebuilt(shop: Shop) -> None:
    """It says so, and what to do; and there is nothing to roll back to before anything was swapped."""
    with pytest.raises(UsageError, match="keeps no state"):
        roll_back(shop.config, (shop.mirror,), shop.spark)
    shop.spark.sql(f"DROP TABLE lake.{shop.mirror}")

    found = shop.replay()

    assert found.error is not None
    assert "`cdcm run` makes it" in found.error.message


class Family:
    """Two mirrors that two topics each feed: parts of one table, which share a key, and one table of two servers."""

    def __init__(self, config: Config, spark: "SparkSession") -> None:
        """Send nothing yet."""
        self.spark, self._root = spark, config.root
        self._topics: dict[str, TopicBuilder] = {}
        self._sent = 0

    @property
    def config(self) -> Config:
        """The pipeline's configuration, in batches of six messages."""
        tables = [
            {"topic": "family.public.part_*", "mirror": "replays.parts", "records_max": 6},
            {"topic": "family_*.public.things", "mirror": "replays.servers", "records_max": 6, "shard": "server"},
        ]
        path = self._root / "family.yaml"
        path.write_text(yaml.safe_dump({"name": "replays", "source": {"files": "family"}, "tables": tables}))
        return load_config(path)

    def run(self, *changes: tuple[str, str, int, int | None]) -> dict[str, list[tuple[Any, ...]]]:
        """Send changes (topic, operation, key, price), bring the mirrors up to date, and return their rows."""
        for name, op, row, price in changes:
            self._sent += 1
            image = {"id": row, "name": name, "price": price}
            images = (image, None) if op == "d" else (None, image)
            envelope = debezium_envelope(op, *images, lsn=100 * self._sent, table=name.rpartition(".")[2])
            topic = self._topics.setdefault(name, TopicBuilder(name))
            key = debezium_json({"id": row}, connect_key_schema("t", _KEY))
            topic.add(key, debezium_json(envelope, connect_envelope_schema("t", _COLUMNS)))
        for topic in self._topics.values():
            topic.write(self._root / "family")
        assert run_once(self.config, self.spark).exit_code == 0
        return self.rows()

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """What readers see: of parts the key and price, of servers the server before them."""
        parts = self.spark.table("lake.replays.parts").select("id", "price", "__cdc.source_table").collect()
        servers = self.spark.table("lake.replays.servers").select("server", "id", "price").collect()
        return {"parts": sorted(tuple(row) for row in parts), "servers": sorted(tuple(row) for row in servers)}


@pytest.mark.skipif(not ALL, reason="with CDCM_TESTS=all")
def test_mirrors_of_several_topics_and_source_tables_are_rebuilt(spark: "SparkSession", lake_config: Config) -> None:
    """With the same owners of keys, the same servers, what has collided held again; and they go on after the swap."""
    family = Family(lake_config, spark)
    one, two, east, west = (
        "family.public.part_1",
        "family.public.part_2",
        "family_e.public.things",
        "family_w.public.things",
    )
    before = family.run(
        *((one, "c", 1, 10), (one, "c", 2, 20), (two, "c", 2, 21), (two, "c", 3, 30), (one, "d", 1, None)),
        *((two, "c", 1, 11), (east, "c", 1, 1), (west, "c", 1, 2), (east, "u", 1, 3), (west, "d", 1, None)),
        (west, "c", 4, 4),
    )
    assert before["parts"] == [
        (1, 11, "shop.public.part_2"),
        (2, 20, "shop.public.part_1"),
        (3, 30, "shop.public.part_2"),
    ]
    assert before["servers"] == [("e", 1, 3), ("w", 4, 4)]

    names = ("replays.parts", "replays.servers")
    found = replay_tables(family.config, names, ReplayOptions(publish=True), spark).tables

    assert [(one.equal, one.published, one.error) for one in found] == [(True, True, None)] * 2
    assert [one.held_rebuilt for one in found] == [one.held_live for one in found] == [{"KEY_COLLISION": 1}, {}]
    assert family.rows() == before
    after = family.run((one, "d", 2, None), (two, "u", 2, 22), (east, "u", 1, 5), (west, "u", 4, 6))
    assert after["parts"][1] == (2, 22, "shop.public.part_2")
    assert after["servers"] == [("e", 1, 5), ("w", 4, 6)]
    assert verify_tables(family.config, spark).equal
