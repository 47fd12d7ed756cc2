"""Maintenance of tables that PyIceberg wrote, as far as it goes without Spark: facts, plans, their order, settings."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import MagicMock, Mock

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

from cdc_materializer import maintain
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.cli.following import maintaining
from cdc_materializer.config import Config
from cdc_materializer.errors import EXIT_LAKE, EXIT_UNKNOWN, CommitConflict, CommitUnknown, LakeUnavailable
from cdc_materializer.invariants import cut_in
from cdc_materializer.lake.commit import FORGETS_METADATA
from cdc_materializer.maintain import BATCHES_BETWEEN, Between, MaintainOptions, maintain_tables
from cdc_materializer.maintenance import steps as maintain_steps
from cdc_materializer.maintenance.facts import read_facts
from cdc_materializer.maintenance.plan import LOOKED_AT, Rule
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.models import RunReport, TableRun
from cdc_materializer.run.run import RunOptions
from cdc_materializer.testing import JavaError
from tests.unit.lakes import open_writer
from tests.unit.pipelines import SMALL, load, refusal

NOW = datetime.now(UTC) + timedelta(hours=1)
ORDERS = TableName.parse("public.orders")
MARKED = Marker("shop", "m1", "t", None, Offsets({0: 7}), {}, None, None, {}).to_summary()


@dataclass(frozen=True)
class Shop:
    """A pipeline of one table with seven small files, and with a raw table that has two."""

    config: Config
    writer: SqlCatalog

    def plan(self) -> dict[str, Any]:
        """What would be done, by table."""
        found = maintain_tables(self.config, MaintainOptions(lambda: NOW, plan=True))
        assert found.planned
        return {one.table: one for one in found.tables}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    """Written by PyIceberg, marked as we mark."""
    writer = open_writer(tmp_path / "lake")
    writer.create_namespace("public")
    for name, count in (("orders", 7), ("orders__raw", 2)):
        schema = pa.schema([("partition", pa.int32()), ("offset", pa.int64())])
        table = writer.create_table(f"public.{name}", schema=schema)
        for at in range(count):
            rows = pa.table({"partition": [0, 0], "offset": [2 * at, 2 * at + 1]}, schema=schema)
            table.append(rows, snapshot_properties=MARKED)
    (tmp_path / "recorded").mkdir()
    yield Shop(load(tmp_path, SMALL), writer)
    writer.engine.dispose()


# --- facts and plans
# --------------------------------------------------------------------------------------------------------


def test_facts_are_those_of_the_metadata(shop: Shop) -> None:
    """Files with sizes, rows and ranges; manifests, snapshots, references."""
    found = read_facts(open_tables(shop.config.catalog), ORDERS)

    assert found is not None
    assert sorted((file.rows, file.low, file.high) for file in found.files) == [
        (2, 2 * at, 2 * at + 1) for at in range(7)
    ]
    assert all(file.size > 100 for file in found.files)
    assert (len(found.manifests), len(found.snapshots), found.is_sorted) == (7, 7, True)
    assert found.refs == {"main": (found.head, True)}
    assert found.log == tuple((one.snapshot_id, one.timestamp_ms) for one in found.snapshots)
    assert read_facts(open_tables(shop.config.catalog), ORDERS.history) is None


def test_texts_that_begin_alike_have_no_ranges(shop: Shop) -> None:
    """Files tell sixteen characters of them, and would all seem to have all; others keep their ranges."""
    for name, texts in (
        ("alike", ["customer-0000000001", "customer-0000000009"]),
        ("apart", ["5f0c…" * 5, "d41d…" * 5]),
    ):
        schema = pa.schema([("id", pa.string())])
        table = shop.writer.create_table(f"public.{name}", schema=schema)
        with table.update_sort_order() as order:
            order.asc("id", IdentityTransform())
        table.append(pa.table({"id": texts}, schema=schema), snapshot_properties=MARKED)

    alike, apart = (
        read_facts(open_tables(shop.config.catalog), TableName.parse(f"public.{name}")) for name in ("alike", "apart")
    )

    assert alike is not None
    assert apart is not None
    assert [one.low == one.high for one in alike.files] == [True]
    assert [one.low < one.high for one in apart.files] == [True]


def test_a_plan_tells_what_would_be_done_with_each_table_that_is_there(shop: Shop) -> None:
    """Seven files are worth it, two are not; nothing is written."""
    before = shop.writer.load_table("public.orders").metadata_location

    found = shop.plan()

    assert list(found) == ["public.orders", "public.orders__raw"]
    assert (found["public.orders"].rewrite.files, found["public.orders"].rewrite.files_after) == (7, 1)
    assert found["public.orders__raw"].rewrite is None
    assert all(one.orphans_due and one.snapshots == 0 for one in found.values())
    assert shop.writer.load_table("public.orders").metadata_location == before


def test_what_another_program_has_changed_is_told_before_the_head_is_marked(shop: Shop) -> None:
    """The next run looks for such commits behind the newest marker alone."""
    assert shop.plan()["public.orders"].foreign_commits == 0
    table = shop.writer.load_table("public.orders")
    rows = pa.table({"partition": [0], "offset": [99]}, schema=table.scan().to_arrow().schema)
    table.append(rows)
    table.append(rows)

    found = shop.plan()["public.orders"]

    assert (found.foreign_commits, found.marked) == (2, True)


def test_where_nothing_is_to_be_done_no_spark_is_started(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even looked for."""
    monkeypatch.setattr(maintain, "_session", None)
    shop.writer.drop_table("public.orders")
    with shop.writer.load_table("public.orders__raw").transaction() as change:
        change.set_properties({LOOKED_AT: str(int(NOW.timestamp() * 1000))})

    found = maintain_tables(shop.config, MaintainOptions(lambda: NOW))

    assert [(one.table, one.rewrite, one.error) for one in found.tables] == [("public.orders__raw", None, None)]
    assert not found.planned


def test_a_raw_table_of_which_messages_were_deleted_is_left_alone(shop: Shop) -> None:
    """Its snapshots are the only way back; the mirror is maintained."""
    raw = shop.writer.load_table("public.orders__raw")
    had = raw.current_snapshot()
    raw.delete("offset < 1")

    found = shop.plan()

    assert had is not None
    error = found["public.orders__raw"].error
    assert error is not None
    assert "deleted 1 messages of public.orders__raw" in error.message
    assert f"Snapshot {had.snapshot_id} still has them" in error.message
    assert found["public.orders"].rewrite is not None


def _line(number: int, batch: str | None = None, **told: str) -> SnapshotLine:
    own = {"cdcm.batch": batch} if batch else {}
    return SnapshotLine(number, number - 1, number, {name.replace("_", "-"): said for name, said in told.items()} | own)


def _refilled(number: int) -> SnapshotLine:
    """Raw was filled from its topic here, or before."""
    return _line(number, "b", operation="append", added_records="3", **{"cdcm.refilled": "9"})


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        ([_line(2, "b", operation="append", added_records="3")], None),
        ([_line(2, operation="replace", deleted_records="3", added_records="3")], None),
        ([_line(2, operation="delete", deleted_records="3")], (3, 1)),
        ([_line(2, operation="overwrite", deleted_records="9", added_records="7")], (2, 1)),
        ([_line(2, operation="overwrite", added_position_deletes="2")], (2, 1)),
        ([_line(2, operation="delete", added_equality_deletes="3")], (3, 1)),
        ([_line(2, operation="overwrite", added_equality_deletes="3", added_records="3")], (3, 1)),
        ([_line(3, operation="append", added_records="3"), _line(2, operation="delete", deleted_records="3")], None),
        ([_line(4, operation="append", added_records="1"), _line(2, operation="delete", deleted_records="3")], (2, 1)),
        ([_refilled(4), _refilled(3), _line(2, operation="delete", deleted_records="3"), _line(1, "a")], None),
        ([_line(4, operation="delete", deleted_records="3"), _refilled(3), _line(1, "a")], (3, 3)),
    ],
)
def test_messages_that_another_program_has_taken_are_counted(
    told: list[SnapshotLine], lost: tuple[int, int] | None
) -> None:
    """By the operations of its snapshots; compaction takes none, what was put back or filled again counts."""
    found = cut_in(told)

    assert (found and (found.lost, found.before)) == lost


# --- the order of steps
# --------------------------------------------------------------------------------------------------------


@dataclass
class Steps:
    """What was done instead of maintenance."""

    done: list[str] = field(default_factory=list)
    failure: Exception | None = None

    def step(self, name: str, result: Any = None) -> Any:  # noqa: ANN401 - any function's stand-in
        """A stand-in for a step; the first one fails, if one does."""

        def do(*_: object) -> Any:  # noqa: ANN401
            self.done.append(name)
            if self.failure is not None:
                raise self.failure
            return result

        return do


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Steps that do nothing."""
    found = Steps()
    for name in ("rewrite_manifests", "mark", "expire", "delete_orphans"):
        monkeypatch.setattr(maintain_steps, name, found.step(name))
    monkeypatch.setattr(maintain_steps, "load", lambda *_: None)
    monkeypatch.setattr(maintain_steps, "activate", lambda _: None)
    monkeypatch.setattr(maintain_steps, "compact", found.step("compact"))
    monkeypatch.setattr(maintain_steps, "find_orphans", found.step("find_orphans", ["a file"]))
    return found


def _work(shop: Shop, later: timedelta) -> maintain._Work:
    now = int((NOW + later).timestamp() * 1000)
    found = maintain._work(open_tables(shop.config.catalog), ORDERS, Rule(), now, orphans=True)
    assert found is not None
    return found


def _do(shop: Shop, later: timedelta = timedelta(days=30)) -> Any:  # noqa: ANN401 - a report's entry
    options, there = MaintainOptions(lambda: NOW + later), SimpleNamespace()
    lake: Any = there
    return maintain._done(_work(shop, later), lake, open_tables(shop.config.catalog), Rule(), options)


def test_files_first_then_snapshots_then_orphans(shop: Shop, steps: Steps) -> None:
    """What is rewritten makes files that only old snapshots have; what these leave behind is no orphan yet."""
    found = _do(shop)

    assert steps.done == ["compact", "expire", "find_orphans", "delete_orphans"]
    assert (found.snapshots, found.snapshots_kept, found.orphans, found.error) == (6, 1, 1, None)


@pytest.mark.parametrize(
    ("failure", "code"), [(CommitUnknown("?", "!"), EXIT_UNKNOWN), (CommitConflict("?", "!"), EXIT_LAKE)]
)
def test_behind_a_step_that_failed_nothing_is_deleted(shop: Shop, steps: Steps, failure: Exception, code: int) -> None:
    """Least of all behind a commit whose outcome is not known."""
    steps.failure = failure
    found = _do(shop)

    assert steps.done == ["compact"]
    assert (found.snapshots, found.orphans) == (0, None)
    assert found.error is not None
    assert maintain._report(shop.config, [found], planned=False).exit_code == code


# --- orphans
# --------------------------------------------------------------------------------------------------------


@dataclass
class Folder:
    """A table's folder as Iceberg tells it: what is in it and in no snapshot of the table."""

    files: list[str]
    tables: tuple[str, ...] = ()
    owners: dict[str, str] = field(default_factory=dict)

    def find(self, monkeypatch: pytest.MonkeyPatch, root: str = "s3://lake/t") -> list[str]:
        """What is taken for orphans."""
        table = SimpleNamespace(location=lambda: f"{root}/", uuid=lambda: SimpleNamespace(toString=lambda: "own"))
        now = SimpleNamespace(currentTimeMillis=lambda: 0)
        jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=now)))
        lake: Any = SimpleNamespace(iceberg=lambda _: table, spark=SimpleNamespace(_jvm=jvm))

        def unreferenced(_lake: object, _table: object, folder: str, _before: int) -> list[str]:
            return [path for path in self.files if path.startswith(f"{folder}/")]

        monkeypatch.setattr(maintain_steps, "_unreferenced", unreferenced)
        monkeypatch.setattr(maintain_steps, "_is_table", lambda _, folder: folder in self.tables)
        monkeypatch.setattr(maintain_steps, "_uuid_of", lambda *found: self.owners.get(found[2], "own"))
        return maintain_steps.find_orphans(lake, ORDERS, 1)


def test_orphans_are_files_of_the_tables_own_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data and metadata, but for what only looks as if it were nobody's."""
    data, old = "s3://lake/t/data/a=1/x.parquet", "s3://lake/t/metadata/00001-x.metadata.json"
    hints = ["s3://lake/t/metadata/version-hint.text", "s3://lake/t/data/.x.parquet.crc", "s3://lake/t/notes/x"]

    assert Folder([data, old, *hints]).find(monkeypatch) == [data, old]


@pytest.mark.parametrize("root", ["s3://lake/t", "file:///lake/t"])
def test_a_table_inside_of_the_folder_keeps_its_files(monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    """Whatever part of them is old enough; a folder whose name only begins alike is another one."""
    files = [f"{root}/data/inner/data/y.parquet", f"{root}/data/inner2/z.parquet", f"{root}/data/x.parquet"]

    found = Folder(files, (f"{root}/data/inner",)).find(monkeypatch, root)
    assert found == files[1:]
    assert Folder(files, (f"{root}/data",)).find(monkeypatch, root) == []


def test_a_folder_with_another_tables_metadata_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Older versions of the table's own are no reason."""
    own, other = "s3://lake/t/metadata/00001-x.metadata.json", "s3://lake/t/metadata/00000-y.metadata.json"

    assert Folder([own]).find(monkeypatch) == [own]
    with pytest.raises(CommitConflict, match="Another table keeps its metadata"):
        Folder([own, other], owners={other: "another"}).find(monkeypatch)


def test_orphans_are_deleted_in_bounded_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is found the next time."""
    monkeypatch.setattr(maintain_steps, "ORPHANS_MAX", 2)

    assert len(Folder([f"s3://lake/t/data/{at}.parquet" for at in range(9)]).find(monkeypatch)) == 2


@pytest.mark.parametrize(
    ("files", "properties", "told"),
    [
        (2, {FORGETS_METADATA: "false"}, []),  # there may be more
        (2, {}, [FORGETS_METADATA]),
        (1, {FORGETS_METADATA: "true"}, [LOOKED_AT]),
        (0, {}, [LOOKED_AT, FORGETS_METADATA]),
    ],
)
def test_when_orphans_were_looked_for_is_noted_once_all_are_gone(
    monkeypatch: pytest.MonkeyPatch, files: int, properties: dict[str, str], told: list[str]
) -> None:
    """Else the rest would wait for another day, and grow; and no table goes on to leave a metadata file a commit."""
    monkeypatch.setattr(maintain_steps, "ORPHANS_MAX", 2)
    found: list[str] = []
    update = SimpleNamespace(set=lambda name, _: found.append(name), commit=lambda: None)
    table = SimpleNamespace(
        properties=lambda: SimpleNamespace(containsKey=properties.__contains__),
        updateProperties=lambda: update,
        io=lambda: None,
    )
    jvm = MagicMock()
    lake: Any = SimpleNamespace(iceberg=lambda _: table, spark=SimpleNamespace(_jvm=jvm))

    maintain_steps.delete_orphans(lake, ORDERS, [f"{at}.parquet" for at in range(files)], 1)

    assert found == told


def _out_of_reach() -> Any:  # noqa: ANN401 - a lake whose catalog is in trouble
    def fail(_: TableName) -> NoReturn:
        raise JavaError("RESTException", "SocketTimeoutException")

    return SimpleNamespace(iceberg=fail)


@pytest.mark.parametrize(
    "step",
    [
        lambda lake: maintain_steps.find_orphans(lake, ORDERS, 1),
        lambda lake: maintain_steps.delete_orphans(lake, ORDERS, [], 1),
    ],
    ids=["find", "delete"],
)
def test_a_catalog_that_does_not_answer_ends_only_its_tables_turn(step: Callable[[Any], object]) -> None:
    """It is an error of ours, which its entry tells, and the other tables are maintained."""
    with pytest.raises(LakeUnavailable):
        step(_out_of_reach())


def test_only_what_was_sent_may_have_happened() -> None:
    """Where the catalog is silent already while the table is loaded, no snapshot can be gone."""
    commit = _out_of_reach().iceberg
    update = SimpleNamespace(commit=lambda: commit(ORDERS))
    update.expireOlderThan = lambda _: update
    silent_later: Any = SimpleNamespace(iceberg=lambda _: SimpleNamespace(expireSnapshots=lambda: update))

    with pytest.raises(LakeUnavailable):
        maintain_steps.expire(_out_of_reach(), ORDERS, [])
    with pytest.raises(CommitUnknown):
        maintain_steps.expire(silent_later, ORDERS, [])


# --- between batches
# --------------------------------------------------------------------------------------------------------


def _round(batches: int) -> RunReport:
    return RunReport(pipeline="shop", tables=[TableRun(table="public.orders", topic="t", batches=batches)])


def test_a_table_is_looked_at_after_some_batches_and_maintained_where_it_pays(shop: Shop, steps: Steps) -> None:
    """Not before, and not again at once; its folder is not looked through."""
    lakes: Any = SimpleNamespace(of=lambda _: SimpleNamespace())
    between = Between(shop.config, MaintainOptions(lambda: NOW))

    between.after(lakes, _round(BATCHES_BETWEEN - 1))
    assert steps.done == []
    between.after(lakes, _round(1))
    assert steps.done == ["compact"]
    between.after(lakes, _round(1))
    assert steps.done == ["compact"]

    steps.failure = CommitConflict("Another writer was first.", "Run again.")
    between.after(lakes, _round(BATCHES_BETWEEN))
    assert steps.done == ["compact"] * 2, "a failure is told, and the run goes on"


def test_maintenance_between_batches_needs_no_topics_and_ends_no_follower(
    shop: Shop, steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    """A source that does not answer keeps no table from it, a Spark that gives no session is told once a turn."""
    globs = [table.model_copy(update={"topic": "shop.public.*"}) for table in shop.config.tables]
    (shop.config.root / "recorded").rmdir()
    between = Between(shop.config.model_copy(update={"tables": globs}), MaintainOptions(lambda: NOW))
    lakes: Any = SimpleNamespace(of=lambda _: SimpleNamespace())
    between.after(lakes, _round(BATCHES_BETWEEN))
    assert steps.done == ["compact"]

    def refuse(_: str) -> NoReturn:
        raise LakeUnavailable("Spark gives no session.", "Start it.")

    refusing: Any = SimpleNamespace(of=refuse)
    between.after(refusing, _round(BATCHES_BETWEEN))
    between.after(refusing, _round(1))
    assert caplog.text.count("Maintenance of public.orders: Spark gives no session.") == 1

    def stumble(_: str) -> NoReturn:
        raise ValueError("a value: 4111")

    stumbling: Any = SimpleNamespace(of=stumble)
    between.after(stumbling, _round(BATCHES_BETWEEN))
    assert "Maintenance of public.orders stopped on an unexpected ValueError at maintain.py" in caplog.text
    assert "4111" not in caplog.text


@pytest.mark.usefixtures("steps")
def test_a_run_that_is_to_end_waits_for_one_table_at_most(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """For what is being done with a mirror when it is stopped, and not for the tables beside it, nor for others."""
    options = RunOptions(stop=threading.Event())
    between = maintaining(shop.config, options).between
    lakes: Any = SimpleNamespace(of=lambda _: SimpleNamespace())
    read = Mock(wraps=read_facts)
    monkeypatch.setattr(maintain, "read_facts", read)
    monkeypatch.setattr(maintain_steps, "compact", lambda *_: options.stop.set())
    assert between is not None

    between(lakes, _round(BATCHES_BETWEEN))
    assert options.stop.is_set()
    assert {str(call.args[1]) for call in read.mock_calls} == {"public.orders"}

    read.reset_mock()
    between(lakes, _round(BATCHES_BETWEEN))
    assert not read.called


def test_following_maintains_unless_it_is_told_not_to(shop: Shop) -> None:
    """`maintenance.follow: false`."""
    options = RunOptions(stop=threading.Event())

    assert maintaining(shop.config, options).between is not None
    quiet = shop.config.maintenance.model_copy(update={"follow": False})
    assert maintaining(shop.config.model_copy(update={"maintenance": quiet}), options) is options


# --- settings
# --------------------------------------------------------------------------------------------------------


def test_settings_are_the_rule(tmp_path: Path) -> None:
    """As the file says them, else as the rule has them."""
    told = "maintenance: {ratio: 2, keep_snapshots: 12h, keep_snapshots_max: 9, orphans_after: 2d}\n"

    assert Rule.of(load(tmp_path, SMALL).maintenance) == Rule()
    found = Rule.of(load(tmp_path, SMALL + told).maintenance)
    assert found == Rule(2, timedelta(hours=12), 9, timedelta(days=2))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("maintenance: {orphans_after: 1h}", "a commit that goes on would be taken for an orphan"),
        ("maintenance: {ratio: 0}", "maintenance.ratio"),
        ("defaults: {raw: {retention: 30d}}", "rows would be wrong"),
        ("defaults: {raw: {retentoin: forever}}", "Did you mean `retention`?"),
    ],
)
def test_what_would_lose_data_is_refused(tmp_path: Path, told: str, said: str) -> None:
    """With the reason and what to do instead."""
    assert said in refusal(tmp_path, f"{SMALL}{told}\n")


def test_raw_may_keep_everything(tmp_path: Path) -> None:
    """The one retention that there is can be written down."""
    found = load(tmp_path, f"{SMALL}defaults: {{raw: {{retention: forever}}}}\n")

    assert found.tables[0].raw.retention == "forever"
