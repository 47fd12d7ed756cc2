"""Rebuilding a mirror beside the live one: equal where nothing happened, and the cure where something did."""

import itertools
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.batch.steps import Batch
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.cli import main
from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.differences import hashed
from cdc_materializer.errors import EXIT_DIFFERENCE, EXIT_DONE
from cdc_materializer.explain.explain import Asked, why
from cdc_materializer.invariants import broken_in
from cdc_materializer.lake.branches import REPLAY_BRANCH
from cdc_materializer.lake.lake import MAIN, Lake, LakeTable
from cdc_materializer.lake.outcome import BRANCH_PREFIX
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG
from cdc_materializer.marker.swapped import BEFORE_REPLAY
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.rebuild import rebuild
from cdc_materializer.rebuild.rebuild import ReplayOptions, replay_tables, roll_back
from cdc_materializer.report.trend import trend
from cdc_materializer.retry import Deadline
from cdc_materializer.run.run import run_once, session_for
from cdc_materializer.testing import (
    EPOCH,
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from cdc_materializer.testing.clock import FixedClock
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.passages import ALL
from tests.spark.shops import COLUMNS, KEY, Shop
from tests.spark.soundness import made_by_others

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]

_numbers = itertools.count()


@pytest.fixture
def shop(request: pytest.FixtureRequest, spark: "SparkSession", lake_config: Config) -> Shop:
    """A shop of the test's own."""
    # Parameters make names alike in their beginnings.
    return Shop(lake_config, spark, f"{request.node.originalname.removeprefix('test_')[:40]}_{next(_numbers)}")


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
    assert len(shop.refs()) == 4


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
    assert shop.refs() == {"main", MARKER_TAG, GENESIS_TAG, BEFORE_REPLAY}
    assert shop.is_proven()

    assert roll_back(shop.config, (shop.mirror,), shop.spark).tables[0].rolled_back
    assert shop.rows() == {1: 99, 7: 7}
    assert shop.refs() == {"main", MARKER_TAG, GENESIS_TAG}


def test_a_replay_that_its_deadline_ends_goes_on_the_next_time(shop: Shop) -> None:
    """Readers see nothing of it until then, and no batch is folded twice."""
    clock = FixedClock()
    deadline = Deadline.after(10, clock.monotonic)

    found = shop.replay(publish=True, on_batch=lambda *_: clock.advance(10), deadline=deadline)

    assert found.error is not None
    assert (found.error.code, found.published) == ("TimeOver", False)
    assert not shop.refs() & {BEFORE_REPLAY}
    again = shop.replay(publish=True)
    assert (again.batches, again.equal, again.published) == (1, True, True)
    assert shop.is_proven()


def test_a_replay_tells_keys_by_their_hashes_unless_they_are_asked_for(shop: Shop) -> None:
    """The same hash that `verify` tells of the same key; the key itself is data."""
    shop.spark.sql(f"UPDATE lake.{shop.mirror} SET price = 99 WHERE id = 1")

    assert shop.replay().keys == shop.verify().keys == [hashed('{"id":1}')]
    assert shop.replay(plain_keys=True).keys == ['{"id":1}']


def test_several_mirrors_are_rebuilt_by_one_command_which_says_how_far_it_is(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One is wrong and one is not, and each is told for itself; progress goes to standard error, where one watches."""
    wrong, sound = shops = [Shop(lake_config, spark, f"of_several_{name}") for name in ("wrong", "sound")]
    for shop in shops:
        shop.topic.write(lake_config.root / "several")
    path, entries = lake_config.root / "several.yaml", [shop.entry for shop in shops]
    path.write_text(yaml.safe_dump({"name": "replays", "source": {"files": "several"}, "tables": entries}))
    command = ["replay", wrong.mirror, sound.mirror, "-c", str(path)]
    monkeypatch.setattr(rebuild, "session_for", lambda work, _, size: session_for(work, spark, size))
    monkeypatch.setenv("FORCE_COLOR", "1")
    spark.sql(f"UPDATE lake.{wrong.mirror} SET price = 99 WHERE id = 1")

    assert main(command) == EXIT_DIFFERENCE
    shown = capsys.readouterr()
    for shop in shops:
        assert all(f"{shop.mirror}: {read} messages folded again" in shown.err for read in (4, 6))
    assert "folded again" not in shown.out
    assert (wrong.rows(), sound.rows()) == ({1: 99, 3: 30}, {1: 11, 3: 30})

    assert main([*command, "--publish", "--json"]) == EXIT_DONE
    shown = capsys.readouterr()
    told = [(one["table"], one["equal"], one["published"], one["error"]) for one in json.loads(shown.out)["tables"]]
    assert told == [(wrong.mirror, False, True, None), (sound.mirror, True, True, None)]
    assert "folded again" not in shown.err
    assert wrong.rows() == sound.rows() == {1: 11, 3: 30}
    assert [shop.is_proven() for shop in shops] == [True, True]


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
    assert made_by_others(shop.config, TableName.parse(shop.mirror)) == [], "the mirror and quarantine were emptied"
    shop.send(("u", 5, 51))
    shop.run()
    assert shop.rows() == {1: 11, 3: 31, 5: 51}


@pytest.mark.parametrize(("start", "seen"), [("earliest", 0), ("offset:5", 1)])
def test_a_row_is_told_once_after_a_replay_that_was_published_on_top_of_later_runs(
    shop: Shop, start: str, seen: int
) -> None:
    """The line of the mirror tells where the replay began, and runs came between its rebuilding and its swap."""
    shop.judge("2", 1)
    shop.replay(start=start)
    shop.send(("u", 3, 31), ("c", 5, 50))
    shop.run()

    assert shop.replay(start=start, publish=True).published

    told = why(shop.config, shop.mirror, Asked(key='{"id": 3}'), shop.spark)
    assert told.row is not None
    assert (told.total, [one.offset for one in told.messages], told.row.agrees) == (2, [2, 6], True)
    lines = open_tables(shop.config.catalog).lines_of(shop.config.tables[0].mirror)
    before = [one.snapshot for one in told.messages if one.snapshot != lines[0].snapshot_id]
    assert len(before) == seen, "readers saw what was not read again before the swap"
    assert list(broken_in("t", lines, is_raw=False)) == []
    shop.spark.sql(f"UPDATE lake.{shop.mirror} SET price = 99 WHERE id = 5")
    assert shop.verify().judged_otherwise is bool(seen), "what was not read again was judged by the first contract"


def test_what_a_replay_compares_is_of_one_moment_whatever_a_run_publishes_meanwhile(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run may end in quarantine what the mirror of a moment ago still lacks."""
    load, quarantine = Lake.load, TableName.parse(shop.mirror).quarantine
    shop.send(("c", 5, -5))
    shop.run()
    # One for each of the first two looks at quarantine; a run looks at it too.
    ends, running = [("c", 4, 40), ("c", 5, 50)], list[bool]()

    def overtaken(lake: Lake, name: TableName) -> LakeTable | None:
        if name == quarantine and lake.branch == MAIN and ends and not running:
            running.append(True)
            shop.send(ends.pop(0))
            shop.run()
            running.clear()
        return load(lake, name)

    monkeypatch.setattr(Lake, "load", overtaken)

    found = shop.replay()

    assert found.held_live == found.held_rebuilt
    assert (ends, found.equal, found.held_live) == ([], True, {})


def test_what_a_run_is_staging_stays_while_a_replay_folds(shop: Shop) -> None:
    """A run that lost its branch to each batch of a replay would give up behind three of them."""
    lake, staged = Lake(shop.spark, "lake", read_only=True), f"{BRANCH_PREFIX}of_a_run"
    tables = [TableName.parse(shop.mirror), TableName.parse(shop.mirror).raw, TableName.parse(shop.mirror).quarantine]
    for name in tables:
        table = lake.iceberg(name)
        table.manageSnapshots().createBranch(staged, table.currentSnapshot().snapshotId()).commit()

    assert shop.replay(start="earliest").equal

    assert all(lake.iceberg(name).refs().containsKey(staged) for name in tables)


def test_a_replay_judges_by_the_contract_of_today(shop: Shop) -> None:
    """What the earlier contract let through is held now; the branch of a replay under that one is not used."""
    shop.replay()
    shop.judge("2", 20)

    found = shop.replay(publish=True)

    assert (found.published, found.equal, found.only_live) == (True, False, 1)
    assert shop.rows() == {3: 30}
    assert shop.is_proven()


def test_a_row_that_breaks_a_rule_which_blocks_stops_a_replay_only_where_it_is_the_last(shop: Shop) -> None:
    """A later batch of the branch may mend it: what is held at the end counts, and nobody reads what lies between."""
    shop.judge("2", -9)
    shop.send(("c", 5, 50), ("u", 3, -3), ("c", 6, 60), ("u", 3, 33), ("u", 6, -6))
    shop.run()
    shop.judge("3", 0, action="block")

    found = shop.replay(publish=True)

    assert found.error is not None
    assert (found.error.code, "price-limit" in found.error.message) == ("CONTRACT", True)
    assert (found.published, found.held_rebuilt) == (False, {"CONTRACT price-limit": 2})
    assert (found.different, found.only_live) == (1, 0), "what it would change is told"
    assert shop.rows() == {1: 11, 3: 33, 5: 50, 6: -6}

    shop.judge("4", -9)
    shop.send(("d", 4, None), ("u", 6, 66))
    shop.run()
    shop.judge("5", 0, action="block")
    mended = shop.replay(publish=True)
    assert (mended.error, mended.published, mended.equal, mended.held_rebuilt) == (None, True, True, {})
    assert shop.rows() == {1: 11, 3: 33, 5: 50, 6: 66}
    assert shop.is_proven()
    shop.send(("u", 5, 51))
    shop.run()
    assert shop.is_proven()


def test_a_table_without_a_mirror_cannot_be_rebuilt(shop: Shop) -> None:
    """It says so, and what to do; and there is nothing to roll back to before anything was swapped."""
    kept = roll_back(shop.config, (shop.mirror,), shop.spark).tables[0]
    assert kept.error is not None
    assert (kept.error.code, "keeps no state" in kept.error.message) == ("UsageError", True)
    shop.spark.sql(f"DROP TABLE lake.{shop.mirror}")

    found = shop.replay()

    assert found.error is not None
    assert "`cdcm run` makes it" in found.error.message


def _grown(shop: Shop) -> Shop:
    """A shop whose mirror was published at the offsets 4, 6, 10 and 11; a foreign engine changed a row after that."""
    shop.send(("u", 3, 31), ("c", 5, 50), ("u", 4, -2), ("d", 1, None), ("c", 6, 60))
    shop.run()
    assert shop.rows() == {3: 31, 5: 50, 6: 60}
    shop.spark.sql(f"UPDATE lake.{shop.mirror} SET price = 99 WHERE id = 5")
    return shop


_SIXTH, _EIGHTH = (f"time:{(EPOCH + timedelta(milliseconds=at)).isoformat()}" for at in (6, 8))


@pytest.mark.parametrize(
    ("start", "base", "batches"),
    [
        ("offset:6", 6, 2),
        ("offset:0/9", 6, 2),
        ("offset:5", 4, 2),
        (_SIXTH, 6, 2),
        (_EIGHTH, 6, 2),
        ("offset:10", 10, 1),
    ],
)
def test_a_replay_goes_on_from_what_readers_saw_before_an_offset_or_a_time(
    shop: Shop, start: str, base: int, batches: int
) -> None:
    """The newest state that has none of the messages which are read again, with what was held then."""
    found = _grown(shop).replay(start=start)

    assert found.error is None
    assert (found.base_offsets, found.batches) == ({"0": base}, batches)
    assert (found.only_live, found.only_rebuilt, found.different, found.columns) == (0, 0, 1, {"price": 1})
    assert found.held_rebuilt == found.held_live == {"CONTRACT price.between": 2}


def test_a_replay_from_an_offset_is_published_like_any_other(shop: Shop) -> None:
    """Killed and gone on with; what comes later is folded on top of it, held rows too."""
    _grown(shop)

    def die(_table: TableConfig, _batch: Batch) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shop.replay(start="offset:5", on_batch=die)

    found = shop.replay(start="offset:5", publish=True)

    assert (found.published, found.batches, found.base_offsets) == (True, 1, {"0": 4})
    assert shop.rows() == {3: 31, 5: 50, 6: 60}
    assert shop.is_proven()
    shop.send(("u", 4, 44), ("u", 5, 51))
    shop.run()
    assert shop.rows() == {3: 31, 4: 44, 5: 51, 6: 60}
    assert shop.is_proven()


def test_a_replay_from_an_offset_needs_a_snapshot_from_before_it(shop: Shop) -> None:
    """Expiry takes it away, and the refusal says what is left to do; masks and types are not looked at then."""
    _grown(shop)
    named = f"table => '{shop.mirror}', older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 1"
    shop.spark.sql(f"CALL lake.system.expire_snapshots({named})")

    found = shop.replay(start="offset:5")

    assert found.error is not None
    assert (found.error.code, "--from earliest" in found.error.message) == ("UsageError", True)
    assert shop.replay(start="offset:20").error is not None, "the mirror has not read so far"


def test_a_replay_from_an_offset_takes_nothing_over_from_a_replay_that_nobody_saw(shop: Shop) -> None:
    """What was rebuilt stands for all before it: its batches were never a state of the mirror."""
    shop.judge("2", 20)
    assert shop.replay(publish=True).published
    shop.send(("u", 3, 31), ("c", 5, 50))
    shop.run()
    held = shop.held()

    found = shop.replay(start="offset:4")
    assert found.error is not None
    assert (found.error.code, "swapped in by a replay" in found.error.message) == ("UsageError", True)
    assert (shop.replay(start="offset:6", publish=True).base_offsets, shop.held()) == ({"0": 6}, held)
    lines = open_tables(shop.config.catalog).lines_of(shop.config.tables[0].mirror)
    told = why(shop.config, shop.mirror, Asked(key='{"id": 3}'), shop.spark).messages
    assert {one.snapshot for one in told} <= {one.snapshot_id for one in lines if one.is_seen}
    assert sum(point.read for point in trend(lines, [], {})) == 8, "each message was in one batch"


def test_a_replay_from_an_offset_has_what_was_held_though_more_had_been_tried(shop: Shop) -> None:
    """A long batch was held and not published, and went again in two: quarantine's offsets are of the long one."""
    shop.send(("c", 5, -5), ("u", 3, 31), ("c", 6, -6), ("c", 7, 70))

    def dying(self: Lake, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it is
        if shop.mirror in [str(getattr(argument, "name", "")) for argument in arguments]:
            raise KeyboardInterrupt
        return publish(self, *arguments, **options)

    publish = Lake._fast_forward
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Lake, "_fast_forward", dying)
        with pytest.raises(KeyboardInterrupt):
            shop.run()
    shop.configure(records_max=2)
    shop.run()
    held = shop.held()
    assert len(held) == 3

    found = shop.replay(start="offset:8", publish=True)

    assert (found.base_offsets, found.published, shop.held()) == ({"0": 8}, True, held)


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
            key = debezium_json({"id": row}, connect_key_schema("t", KEY))
            topic.add(key, debezium_json(envelope, connect_envelope_schema("t", COLUMNS)))
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


_OF_TABLE = (
    "{name: many, metric: rowCount, mustBeGreaterThan: 9, customProperties: [{property: action, value: block}]}, "
    "{name: several, metric: rowCount, mustBeGreaterThan: 8, customProperties: [{property: action, value: warn}]}"
)


def test_what_todays_contract_says_of_both_mirrors_is_told_beside_their_difference(shop: Shop) -> None:
    """Rules about the table, of which one blocks, and rows that break a rule which holds none."""
    shop.judge("2", 20, action="warn", of_table=_OF_TABLE)

    found = shop.replay(publish=True)

    assert found.error is not None
    assert (found.error.code, found.published) == ("CONTRACT", False)
    assert "many would not hold for the whole table" in found.error.message
    assert (found.live, found.rebuilt, found.only_rebuilt, found.equal) == (2, 3, 1, False)
    assert (found.broken_live, found.broken_rebuilt) == (["many", "several"], ["many", "several"])
    assert (found.told_live, found.told_rebuilt) == ({}, {"price-limit": 2})
    assert shop.rows() == {1: 11, 3: 30}

    shop.judge("3", 20, action="warn", of_table=_OF_TABLE.replace("value: block", "value: warn"))
    published = shop.replay(publish=True)
    assert (published.error, published.published, published.broken_rebuilt) == (None, True, ["many", "several"])
    assert shop.rows() == {1: 11, 3: 30, 4: -1}
    again = shop.replay()
    assert (again.equal, again.told_live, again.told_rebuilt) == (True, {"price-limit": 2}, {"price-limit": 2})


def test_columns_that_a_replay_brings_are_told_each_time(shop: Shop) -> None:
    """The first one adds them to the table, whose rows have none of their values until the swap."""
    shop.judge("2", 0, drops=True)
    assert shop.replay(publish=True).published
    shop.spark.sql(f"ALTER TABLE lake.{shop.mirror} DROP COLUMN name")
    shop.judge("3", 0)

    found = [shop.replay(), shop.replay(), shop.replay(publish=True), shop.replay()]

    assert [one.added for one in found] == [["name"], ["name"], ["name"], []]
    assert [one.published for one in found] == [False, False, True, False]
