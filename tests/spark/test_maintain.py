"""Maintenance of real tables: fewer files with the same rows, the marker kept, and nothing removed that is needed."""

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import duckdb
import duckdb_ext
import pytest
import yaml

from cdc_materializer import maintain
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import CommitConflict
from cdc_materializer.lake.branches import keep
from cdc_materializer.lake.commit import FORGETS_METADATA
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.lake.outcome import BRANCH_PREFIX
from cdc_materializer.maintain import MaintainOptions, maintain_tables
from cdc_materializer.maintenance import steps as maintain_steps
from cdc_materializer.maintenance.facts import read_facts
from cdc_materializer.maintenance.files import Compaction
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.report.maintain_models import MaintainedTable, MaintainReport
from cdc_materializer.run.run import run_once
from cdc_materializer.session.session import beside
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.spark.marks import TURNS
from tests.spark.soundness import what_is_unsound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS]

_KEY = {"id": {"type": "int64", "optional": False}}
_COLUMNS = {**_KEY, "price": {"type": "int32", "optional": True}}
LATER = timedelta(days=30)


class Shop:
    """One table that many small batches have made, and the pipeline that keeps it."""

    def __init__(self, config: Config, spark: "SparkSession", name: str, batches: int = 5) -> None:
        """Fill the mirror in that many batches, with updates and deletes."""
        self.spark, self.mirror = spark, TableName.parse(f"upkeep.{name}")
        self._folder, self._path = config.root / f"upkeep_{name}", config.root / f"upkeep_{name}.yaml"
        self.topic = TopicBuilder(f"{name}.public.things")
        self._rows: dict[int, int] = {}
        self.settings: dict[str, Any] = {}
        for at in range(batches):
            self.send(("c", 10 * at, at), ("c", 10 * at + 1, at), ("u", max(10 * at - 10, 0), at + 100))
        self.run()

    @property
    def config(self) -> Config:
        """The pipeline's configuration: a batch is three messages."""
        table = {"topic": self.topic.topic, "mirror": str(self.mirror), "records_max": 3}
        told = {"name": "upkeep", "source": {"files": self._folder.name}, "tables": [table], **self.settings}
        self._path.write_text(yaml.safe_dump(told), encoding="utf-8")
        return load_config(self._path)

    def send(self, *changes: tuple[str, int, int]) -> None:
        """Add changes to the topic."""
        for op, row, price in changes:
            image = {"id": row, "price": price}
            before, after = (image, None) if op == "d" else (None, image)
            envelope = debezium_envelope(op, before, after, lsn=100 + len(self.topic.messages))
            key = debezium_json({"id": row}, connect_key_schema("t", _KEY))
            self.topic.add(key, debezium_json(envelope, connect_envelope_schema("t", _COLUMNS)))
            self._rows.pop(row, None)
            if op != "d":
                self._rows[row] = price
        self._folder.mkdir(exist_ok=True)
        self.topic.write(self._folder)

    def run(self) -> None:
        """Bring the mirror up to date."""
        report = run_once(self.config, self.spark)
        assert report.exit_code == 0, report

    def maintain(
        self,
        *,
        plan: bool = False,
        later: timedelta = timedelta(),
        on_step: Callable[[str, str], None] = lambda _table, _what: None,
    ) -> dict[str, MaintainedTable]:
        """Maintain the tables, now or some time later; what was done by the table's name."""
        found = self.report(plan=plan, later=later, on_step=on_step)
        return {one.table.rpartition(".")[2].removeprefix(self.mirror.name): one for one in found.tables}

    def report(
        self, *, plan: bool, later: timedelta, on_step: Callable[[str, str], None] = lambda _table, _what: None
    ) -> MaintainReport:
        """The same as its report."""
        options = MaintainOptions(lambda: datetime.now(UTC) + later, plan=plan, on_step=on_step)
        return maintain_tables(self.config, options, self.spark)

    @property
    def lake(self) -> Lake:
        """The catalog."""
        return Lake(beside(self.spark, self.config), "lake", read_only=True)

    def seen(self) -> dict[int, int]:
        """What a reader sees that is not Spark."""
        rows = open_tables(self.config.catalog).values_of(self.mirror, ["id", "price"])
        assert rows is not None
        assert len(rows) == len({row["id"] for row in rows})
        return {row["id"]: row["price"] for row in rows}

    def read(self) -> tuple[list[Any], list[Any]]:
        """The mirror as PyIceberg and as DuckDB read it."""
        table = open_tables(self.config.catalog).load(self.mirror)
        assert table is not None
        with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as duck:
            for extension in ("avro", "iceberg"):
                folder = Path(next(iter(duckdb_ext.__path__))) / "extensions"
                path = next(folder.glob(f"v{duckdb.__version__}/*/{extension}.duckdb_extension"))
                duck.execute(f"LOAD '{path}'")
            found = duck.execute("SELECT * FROM iceberg_scan(?) ORDER BY id", [table.metadata_location]).fetchall()
        return table.scan().to_arrow().sort_by("id").to_pylist(), found

    def folder(self, name: TableName) -> Path:
        """Where a table's files are."""
        return Path(urlparse(str(self.lake.iceberg(name).location())).path)

    def refs(self, name: TableName) -> set[str]:
        """A table's branches and tags."""
        table = open_tables(self.config.catalog).load(name)
        assert table is not None
        return set(table.refs())

    def is_right(self) -> bool:
        """Whether the mirror is the truth, `verify` says so, and both tables' heads have their markers."""
        assert what_is_unsound(self.config, self.mirror) == []
        for name in (self.mirror, self.mirror.raw):
            table = open_tables(self.config.catalog).load(name)
            head = table.current_snapshot() if table is not None else None
            assert head is not None
            assert head.summary is not None
            assert "cdcm.offsets" in head.summary.additional_properties
            assert table is not None
            assert table.refs()[MARKER_TAG].snapshot_id == head.snapshot_id
        proof = verify_tables(self.config, self.spark)
        assert proof.equal, proof
        return self.seen() == self._rows


@pytest.fixture
def shop(request: pytest.FixtureRequest, spark: "SparkSession", lake_config: Config) -> Shop:
    """A shop of the test's own."""
    return Shop(lake_config, spark, request.node.name.removeprefix("test_")[:40])


def test_maintenance_leaves_fewer_files_the_same_rows_and_the_marker(shop: Shop) -> None:
    """As the plan says; a second time there is nothing to do; and the next batch goes on where the last one ended."""
    before, read = shop.seen(), shop.read()

    planned = shop.maintain(plan=True)
    assert {name for name, found in planned.items() if found.rewrite} == {"", "__raw"}
    assert shop.seen() == before

    done = shop.maintain()

    assert [found.error for found in done.values()] == [None, None]
    for name, found in done.items():
        plan = planned[name].rewrite
        assert plan is not None
        assert found.rewrite is not None
        assert (found.rewrite.files, found.rewrite.files_after) == (plan.files, 1)
    assert shop.seen() == before
    assert shop.read() == read
    assert shop.is_right()
    assert shop.refs(shop.mirror) == shop.refs(shop.mirror.raw) == {"main", MARKER_TAG, GENESIS_TAG}
    shop.send(("d", 1, 0), ("c", 99, 9))
    shop.run()
    assert shop.is_right()


def test_a_column_that_another_program_has_dropped_is_missed_behind_maintenance_too(shop: Shop) -> None:
    """Only the mark from before tells of it, so maintenance leaves that where it is, and the next batch is refused."""
    shop.spark.sql(f"ALTER TABLE lake.{shop.mirror} DROP COLUMN price")

    done = shop.maintain()

    assert [found.error for found in done.values()] == [None, None]
    assert done[""].rewrite is not None
    shop.send(("c", 99, 9))
    error = run_once(shop.config, shop.spark).tables[0].error
    assert error is not None
    assert error.message.startswith(f"Another program has dropped or renamed price of {shop.mirror}")


def test_a_second_time_there_is_nothing_to_do_and_no_spark_is_asked(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step, so no session, no job and no commit."""
    shop.maintain()
    heads = {name: shop.lake.load(name) for name in (shop.mirror, shop.mirror.raw)}
    monkeypatch.setattr(maintain, "_session", None)

    again = shop.maintain()

    assert not any(found.rewrite or found.marked or found.snapshots or found.orphans_due for found in again.values())
    assert {name: shop.lake.load(name) for name in heads} == heads


def test_old_snapshots_go_with_their_files_and_a_rollback_stays_possible(shop: Shop) -> None:
    """What tags point to is kept with its files; everything else of a month ago goes."""
    base = shop.lake.load(shop.mirror)
    assert base is not None
    assert base.head is not None
    keep(shop.lake, base.name, base.head, "cdcm-before-replay")
    then = shop.spark.table(f"lake.{shop.mirror}").collect()
    shop.maintain()
    files = len(list(shop.folder(shop.mirror).glob("data/*.parquet")))

    done = shop.maintain(later=LATER)

    assert done[""].error is None
    assert done[""].snapshots > 0
    assert shop.refs(shop.mirror) == {"main", MARKER_TAG, GENESIS_TAG, "cdcm-before-replay"}
    kept = shop.spark.sql(f"SELECT * FROM lake.{shop.mirror} VERSION AS OF 'cdcm-before-replay'").collect()
    assert sorted(kept) == sorted(then)
    assert len(list(shop.folder(shop.mirror.raw).glob("data/*.parquet"))) == 1
    assert len(list(shop.folder(shop.mirror).glob("data/*.parquet"))) <= files
    assert shop.is_right()


def test_orphans_go_and_no_file_that_anybody_has(shop: Shop) -> None:
    """Old ones of the table's own go; young ones, and those of a table that lies inside of the folder, stay."""
    data = shop.folder(shop.mirror) / "data"
    forgets = f"SHOW TBLPROPERTIES lake.{shop.mirror} ('{FORGETS_METADATA}')"
    assert shop.spark.sql(forgets).collect()[0]["value"] == "true"
    shop.spark.sql(f"ALTER TABLE lake.{shop.mirror} UNSET TBLPROPERTIES ('{FORGETS_METADATA}')")
    inner = f"upkeep.{shop.mirror.name}_inner"
    shop.spark.sql(f"CREATE TABLE lake.{inner} (a int) USING iceberg LOCATION '{(data / 'inner').as_uri()}'")
    shop.spark.sql(f"INSERT INTO lake.{inner} VALUES (1), (2)")
    for name, age in (("old", timedelta(days=9)), ("young", timedelta(days=1))):
        (data / f"{name}.parquet").write_bytes(b"nobody's")
        _age(data / f"{name}.parquet", age)
    for path in shop.folder(shop.mirror).rglob("*"):
        if path.is_file() and path.name != "young.parquet":
            _age(path, timedelta(days=9))

    done = shop.maintain()

    assert done[""].error is None
    assert done[""].orphans == 1
    assert not (data / "old.parquet").exists()
    assert (data / "young.parquet").exists()
    assert shop.spark.table(f"lake.{inner}").count() == 2
    assert shop.is_right()
    assert shop.maintain()[""].orphans is None, "they were looked for a moment ago"
    assert shop.spark.sql(forgets).collect()[0]["value"] == "true"


def test_a_batch_that_loses_to_maintenance_is_planned_anew(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maintenance publishes while the batch is being staged: both are seen in the end, each once."""
    shop.send(("c", 71, 7))
    original = Lake._fast_forward
    lost: list[int] = []
    done: list[dict[str, MaintainedTable]] = []

    def slow(lake: Lake, base: LakeTable, branch: str, head: int) -> None:
        if base.name == shop.mirror and not lost:
            lost.append(1)
            thread = threading.Thread(target=lambda: done.append(shop.maintain()))
            thread.start()
            thread.join()
        original(lake, base, branch, head)

    monkeypatch.setattr(Lake, "_fast_forward", slow)
    shop.run()
    monkeypatch.undo()

    assert [found.error for found in done[0].values()] == [None, None]
    assert lost == [1]
    assert shop.is_right()
    assert shop.maintain(plan=True)[""].rewrite is None, "the rewrite has been published too"


def test_maintenance_that_loses_to_a_batch_backs_off(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is published while files are being rewritten: its rows are seen, and nothing of the rewrite."""
    original = maintain_steps._options

    def overtaken(wanted: Compaction, target: int, ratio: float) -> dict[str, str]:
        monkeypatch.setattr(maintain_steps, "_options", original)
        shop.send(("c", 70, 7))
        thread = threading.Thread(target=shop.run)
        thread.start()
        thread.join()
        return original(wanted, target, ratio)

    monkeypatch.setattr(maintain_steps, "_options", overtaken)
    found = shop.report(plan=False, later=timedelta())

    first = found.tables[0]
    assert first.error is not None
    assert first.error.code == CommitConflict.__name__
    assert found.exit_code == CommitConflict.exit_code
    assert shop.is_right()
    assert shop.seen()[70] == 7
    assert shop.refs(shop.mirror) == {"main", MARKER_TAG, GENESIS_TAG}
    assert shop.maintain()[""].error is None
    assert shop.is_right()


def test_maintenance_gives_way_to_a_batch_that_is_being_staged(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that began to write while files were rewritten; what was there before and stays as it was does not count."""
    original, staged = maintain_steps._options, [f"{BRANCH_PREFIX}killed", f"{BRANCH_PREFIX}at_work"]

    def stage(name: str) -> None:
        table = shop.lake.iceberg(shop.mirror)
        table.manageSnapshots().createBranch(name, table.currentSnapshot().snapshotId()).commit()

    def meanwhile(wanted: Compaction, target: int, ratio: float) -> dict[str, str]:
        stage(staged[1])
        return original(wanted, target, ratio)

    stage(staged[0])
    before = shop.lake.iceberg(shop.mirror).currentSnapshot().snapshotId()
    monkeypatch.setattr(maintain_steps, "_options", meanwhile)
    found = shop.report(plan=False, later=timedelta())
    monkeypatch.undo()

    assert found.tables[0].error is not None
    assert (found.tables[0].error.code, found.exit_code) == (CommitConflict.__name__, CommitConflict.exit_code)
    assert shop.lake.iceberg(shop.mirror).currentSnapshot().snapshotId() == before
    assert shop.refs(shop.mirror) == {"main", MARKER_TAG, GENESIS_TAG, *staged}, "its own branch is gone"

    assert shop.maintain()[""].error is None, "neither of them moves"
    assert shop.is_right()


def test_manifests_are_rewritten_and_the_head_is_marked_again(shop: Shop) -> None:
    """What another tool compacts leaves a head without a marker; many manifests become one."""
    shop.spark.sql(f"CALL lake.system.rewrite_data_files(table => '{shop.mirror}')")
    assert shop.maintain()[""].marked
    assert shop.is_right()
    raw = shop.mirror.raw
    lake = shop.lake
    base = maintain_steps.load(lake, raw)
    for _ in range(2):
        shop.send(("u", 1, 5))
        shop.run()
    facts = read_facts(open_tables(shop.config.catalog), raw)
    assert facts is not None
    assert len(facts.manifests) > 1
    with pytest.raises(CommitConflict):
        maintain_steps.rewrite_manifests(lake, base)

    maintain_steps.rewrite_manifests(lake, maintain_steps.load(lake, raw))

    facts = read_facts(open_tables(shop.config.catalog), raw)
    assert facts is not None
    assert len(facts.manifests) == 1
    assert shop.is_right()


def test_a_folder_that_two_tables_share_is_left_alone(shop: Shop) -> None:
    """Whose a file is cannot be told there."""
    place = shop.folder(shop.mirror)
    other = f"lake.upkeep.{shop.mirror.name}_other"
    shop.spark.sql(f"CREATE TABLE {other} (a int) USING iceberg LOCATION '{place.as_uri()}'")
    shop.spark.sql(f"INSERT INTO {other} VALUES (1)")
    for path in place.rglob("*"):
        if path.is_file():
            _age(path, timedelta(days=9))

    done = shop.maintain()

    assert done[""].error is not None
    assert "Another table keeps its metadata" in done[""].error.message
    assert shop.spark.table(other).count() == 1
    assert shop.is_right()


def test_while_a_batch_is_staged_no_orphan_is_looked_for_and_its_branch_stays(shop: Shop) -> None:
    """Its outcome may not be known; and who stages it must not lose it to maintenance."""
    shop.spark.sql(f"ALTER TABLE lake.{shop.mirror} CREATE BRANCH cdcm_someone")

    done = shop.maintain()

    assert done[""].orphans is None
    assert done[""].orphans_left is not None
    assert "cdcm_someone" in shop.refs(shop.mirror)
    assert shop.is_right()


def test_a_raw_table_that_lost_messages_is_told_and_left_as_it_is(shop: Shop) -> None:
    """By maintenance, which would expire the only snapshot that has them, and by `verify`, with no false difference."""
    before = shop.lake.load(shop.mirror.raw)
    shop.spark.sql(f"DELETE FROM lake.{shop.mirror.raw} WHERE `offset` < 5")

    told = shop.maintain(later=LATER)["__raw"].error
    proof = verify_tables(shop.config, shop.spark).tables[0]

    assert before is not None
    assert told is not None
    assert f"deleted 5 messages of {shop.mirror.raw}" in told.message
    assert f"Snapshot {before.head} still has them" in told.message
    assert proof.error is not None
    assert (proof.error.message, proof.missing + proof.unexpected + proof.different) == (told.message, 0)


def _age(path: Path, age: timedelta) -> None:
    """Make a file as old as that."""
    at = (datetime.now(UTC) - age).timestamp()
    os.utime(path, (at, at))
