"""`replay --from kafka` where raw is shorter than its topic: what it lacks is landed once, or refused by its places."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cdc_materializer import crash_points
from cdc_materializer.adopt import Decision, adopt_table
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config
from cdc_materializer.errors import CommitConflict
from cdc_materializer.invariants import broken_in
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.line import Line
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG, Marker
from cdc_materializer.names import TableName
from cdc_materializer.rebuild.fill import REFILL_BRANCH, refill
from cdc_materializer.run import run
from cdc_materializer.session.session import adopt_session
from cdc_materializer.testing import EPOCH, ScriptedSource
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.shops import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]

_numbers = itertools.count()
#: The mirror of the six messages that a shop begins with.
_ROWS = {1: 11, 3: 30}


class Bazaar(Shop):
    """A shop whose topic is on a broker in memory."""

    def __init__(self, config: Config, spark: "SparkSession", source: ScriptedSource) -> None:
        """Make its topic and fill the mirror."""
        name = f"refill_{next(_numbers)}"
        self.source = source
        source.create(f"{name}.public.things")
        super().__init__(config, spark, name)

    def send(self, *changes: tuple[str, int, int | None]) -> None:
        """Add changes to the topic on the broker."""
        known = len(self.topic.messages)
        super().send(*changes)
        for message in self.topic.messages[known:]:
            self.source.send(message.topic, message.key, message.value, timestamp=message.timestamp)

    @property
    def raw(self) -> str:
        """The raw table's name."""
        return f"lake.{self.mirror}__raw"

    @property
    def marker(self) -> Marker:
        """Raw's marker."""
        found = open_tables(self.config.catalog).marker_of(TableName.parse(self.mirror).raw)
        assert found is not None
        return found

    def lose(self, condition: str) -> None:
        """Another program deletes messages of raw."""
        self.spark.sql(f"DELETE FROM {self.raw} WHERE {condition}")

    def offsets(self) -> list[int]:
        """Where raw has messages."""
        return sorted(row["offset"] for row in self.spark.table(self.raw).select("offset").collect())

    def batches(self, branch: str = "") -> dict[int, str]:
        """By which batch each message of raw has come, also on a branch."""
        rows = self.spark.table(self.raw + branch).select("offset", "batch_id").collect()
        return {row["offset"]: row["batch_id"] for row in rows}

    def raw_refs(self) -> set[str]:
        """Raw's branches and tags."""
        return {row["name"] for row in self.spark.table(f"{self.raw}.refs").collect()}

    def is_sound(self) -> bool:
        """Whether nothing is wrong with the tables' metadata, and the mirror is the fold of raw."""
        lake, names = open_tables(self.config.catalog), TableName.parse(self.mirror)
        for name in (names, names.raw, names.quarantine):
            assert list(broken_in(str(name), lake.lines_of(name), is_raw=name == names.raw)) == []
        return self.is_proven()


@pytest.fixture
def bazaar(spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch) -> Bazaar:
    """One of the test's own."""
    source = ScriptedSource()
    monkeypatch.setattr(run, "open_source", lambda *_: source)
    return Bazaar(lake_config, spark, source)


def _at_each_part(monkeypatch: pytest.MonkeyPatch, do: Callable[[int], object]) -> None:
    """Do something whenever a part of what raw lacks was read, with the number of the part from 0."""
    parts = itertools.count()

    def reach(step: str, _table: TableName) -> None:
        if step == "refilled":
            do(next(parts))

    monkeypatch.setattr(crash_points, "reach", reach)


def test_messages_that_raw_lacks_are_landed_once_and_folded(bazaar: Bazaar) -> None:
    """Another program has deleted them. The marker's offsets stay; runs, proofs and later replays go on with them."""
    bazaar.lose("offset IN (1, 3, 4)")
    before = bazaar.marker
    refused = bazaar.replay().error
    assert refused is not None, "a raw that is cut is folded by no other replay"

    found = bazaar.replay(start="kafka", publish=True)

    assert (found.error, found.refilled, found.equal, found.published) == (None, 3, True, True)
    assert bazaar.offsets() == [0, 1, 2, 3, 4, 5]
    assert (bazaar.marker.offsets, bazaar.marker.refilled > 0) == (before.offsets, True)
    assert bazaar.raw_refs() == {"main", MARKER_TAG, GENESIS_TAG}
    assert bazaar.rows() == _ROWS
    assert bazaar.is_sound()
    bazaar.send(("u", 3, 31), ("c", 5, 50), ("u", 4, 40), ("d", 1, None), ("c", 6, 60))
    bazaar.run()
    assert bazaar.rows() == {3: 31, 4: 40, 5: 50, 6: 60}
    assert bazaar.is_sound()
    again = bazaar.replay(start="kafka", publish=True)
    assert (again.error, again.refilled, again.equal) == (None, 0, True)


def test_a_raw_that_was_begun_behind_the_topics_first_message_gets_its_head(
    spark: "SparkSession", lake_config: Config
) -> None:
    """A replay that was made before does not count as one of the whole topic."""
    shop = Shop(lake_config, spark, f"refill_{next(_numbers)}", first_offset=2)
    late = shop.replay(start="kafka")
    assert (late.error, late.refilled, late.batches) == (None, 0, 2), "there is nothing that raw was to have"
    head = Shop(lake_config, spark, f"refill_{next(_numbers)}").topic.messages[:2]
    assert len(head) == 2
    shop.topic.messages[:0] = [replace(one, topic=shop.topic.topic) for one in head]
    shop.topic.write(shop.folder)

    found = shop.replay(start="kafka", publish=True)

    assert (found.error, found.refilled, found.batches, found.published) == (None, 2, 2, True)
    assert spark.table(f"lake.{shop.mirror}__raw").count() == 8
    assert shop.is_proven()


def test_a_replay_that_was_killed_while_it_reads_goes_on_with_what_it_has(
    bazaar: Bazaar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the last part is there raw is what it was; what was read before stays, and nothing is landed twice."""
    bazaar.send(*[("c", number, number) for number in range(10, 20)])
    bazaar.run()
    bazaar.lose("offset < 12")
    left = bazaar.offsets()

    def die(part: int) -> None:
        if part == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        _at_each_part(patched, die)
        with pytest.raises(KeyboardInterrupt):
            bazaar.replay(start="kafka")
    assert bazaar.offsets() == left
    assert bazaar.raw_refs() == {"main", MARKER_TAG, GENESIS_TAG, REFILL_BRANCH}
    refused = bazaar.replay().error
    assert refused is not None, "what is there in part counts for no other replay"
    begun = bazaar.batches(f".`branch_{REFILL_BRANCH}`")
    assert begun.keys() == {*range(8), *range(12, 16)}

    found = bazaar.replay(start="kafka", publish=True)

    assert (found.error, found.refilled, found.equal) == (None, 12, True)
    assert bazaar.offsets() == list(range(16))
    assert bazaar.batches().items() >= begun.items()
    assert bazaar.is_sound()


def test_whatever_it_is_killed_at_raw_is_what_it_was_or_whole(
    spark: "SparkSession", bazaar: Bazaar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one gets a point further than the one before, and goes on with what that has left."""
    bazaar.lose("offset < 6")
    work = run.open_work(bazaar.config, run.RunOptions())
    lake = Lake(adopt_session(spark, bazaar.config), bazaar.config.catalog.name)
    line = Line(bazaar.config.name, work.tables[0], work.source, None, None, lake)
    left = 0

    def reach(step: str, table: TableName) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyError(crash_points.point_of(step, table))

    monkeypatch.setattr(crash_points, "reach", reach)
    # The first part, the second one, and the commit that brings both.
    for number, point, whole in (
        *((1, "raw.branched", False), (2, "raw.staged", False), (3, "raw.published", False)),
        *((1, "raw.branched", False), (2, "raw.staged", False), (4, "replay.refilled", False)),
        *((1, "raw.branched", False), (2, "raw.staged", False), (3, "raw.published", True)),
    ):
        left = number
        with pytest.raises(KeyError, match=point):
            refill(line)
        assert bazaar.offsets() == ([0, 1, 2, 3, 4, 5] if whole else [])

    assert refill(line) == 0
    assert bazaar.offsets() == [0, 1, 2, 3, 4, 5]
    assert bazaar.raw_refs() == {"main", MARKER_TAG, GENESIS_TAG}


def test_what_is_landed_meanwhile_stays_and_is_not_stopped(bazaar: Bazaar, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run comes between the parts and in the midst of the last commit, which is made again on what it has landed."""
    bazaar.lose("offset < 5")
    points: list[str] = []

    def reach(step: str, table: TableName) -> None:
        point = crash_points.point_of(step, table)
        points.append(point)
        # There are two parts, and behind them the last commit.
        if point == "replay.refilled" or (point == "raw.staged" and points.count(point) == 3):
            with monkeypatch.context() as patched:
                patched.setattr(crash_points, "reach", lambda *_: None)
                bazaar.send(("u", 3, 40 + len(points)), ("c", 20 + len(points), 7))
                bazaar.run()

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reach", reach)
        found = bazaar.replay(start="kafka", publish=True)

    assert (found.error, found.refilled, found.equal, found.published) == (None, 5, True, True)
    assert points.count("raw.staged") == 4, "the last commit was made twice"
    assert bazaar.offsets() == list(range(len(bazaar.topic.messages)))
    assert bazaar.marker.offsets == {0: len(bazaar.topic.messages)}
    assert bazaar.raw_refs() == {"main", MARKER_TAG, GENESIS_TAG}
    assert bazaar.is_sound()


def test_a_part_that_loses_to_a_run_is_read_again(bazaar: Bazaar, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each commit to the branch can: the run has nothing to do with what is read there."""
    bazaar.lose("offset < 5")
    points: list[str] = []

    def reach(step: str, table: TableName) -> None:
        points.append(crash_points.point_of(step, table))
        if points[-1] == "raw.branched" and points.count("raw.branched") in (1, 3):
            raise CommitConflict("Another writer was first.", "Run again.")

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reach", reach)
        found = bazaar.replay(start="kafka", publish=True)

    assert (found.error, found.refilled, found.equal, found.published) == (None, 5, True, True)
    assert points.count("raw.branched") == 5, "two parts and the last commit, of which two were made twice"
    assert bazaar.offsets() == [0, 1, 2, 3, 4, 5]
    assert bazaar.raw_refs() == {"main", MARKER_TAG, GENESIS_TAG}
    assert bazaar.is_sound()


def test_what_is_deleted_meanwhile_is_noticed(bazaar: Bazaar, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is of no use then, and the next one begins anew."""
    bazaar.lose("offset < 2")
    with monkeypatch.context() as patched:
        _at_each_part(patched, lambda _: bazaar.lose("offset = 5"))
        error = bazaar.replay(start="kafka").error
    assert error is not None
    assert (error.code, bazaar.offsets()) == ("CommitConflict", [2, 3, 4])

    found = bazaar.replay(start="kafka")

    assert (found.error, found.refilled, bazaar.offsets()) == (None, 3, list(range(6)))
    assert bazaar.is_sound()


def test_what_no_run_was_to_land_is_not_asked_for(bazaar: Bazaar) -> None:
    """A gap was accepted, and another program has deleted messages on both sides of it.

    Those that the topic has are read; those that it has not are refused, and no other replay is advised then.
    """
    bazaar.send(("c", 5, 50), ("c", 6, 60), ("u", 1, 12), ("u", 3, 31))
    bazaar.source.forget_before(bazaar.topic.topic, 8)
    assert run.run_once(bazaar.config, bazaar.spark).exit_code == 6
    adopt_table(bazaar.config, bazaar.mirror, Decision("tests", EPOCH), bazaar.spark)
    bazaar.run()
    bazaar.lose("offset = 9")

    found = bazaar.replay(start="kafka", publish=True)

    assert (found.error, found.refilled, found.equal, found.published) == (None, 1, True, True)
    assert bazaar.offsets() == [*range(6), 8, 9]
    assert bazaar.is_sound()
    bazaar.lose("offset IN (5, 8)")
    error = bazaar.replay(start="kafka").error
    assert error is not None
    assert "no message at 0/5, and the topic" in error.message
    assert "still has them" in error.message
    assert "earliest" not in error.message


def test_what_raw_has_of_the_topics_lost_head_is_not_asked_for(bazaar: Bazaar) -> None:
    """A bucket of offsets with a hole is read as a whole, but for what the topic has no more."""
    bazaar.lose("offset = 4")
    bazaar.source.forget_before(bazaar.topic.topic, 2)

    found = bazaar.replay(start="kafka", publish=True)

    assert (found.error, found.refilled, found.equal, found.published) == (None, 1, True, True)
    assert bazaar.offsets() == [0, 1, 2, 3, 4, 5]
    assert bazaar.is_sound()


def _head_gone(bazaar: Bazaar) -> None:
    bazaar.source.forget_before(bazaar.topic.topic, 3)


def _compacted(bazaar: Bazaar) -> None:
    bazaar.source.compact(bazaar.topic.topic, 0)


def _made_again(bazaar: Bazaar) -> None:
    bazaar.source.create(bazaar.topic.topic)
    for message in bazaar.topic.messages:
        bazaar.source.send(message.topic, message.key, message.value)


def test_what_the_topic_cannot_tell_is_refused_with_its_places(bazaar: Bazaar) -> None:
    """Its head is gone; it is compacted, so that any of them may have gone; it is another one. Nothing is written."""
    bazaar.lose("offset IN (1, 4)")
    left, before = bazaar.offsets(), bazaar.marker
    for happens, places, why in (
        (_head_gone, "0/1,", "its head is gone (before 0/3)"),
        (_compacted, "0/1, 0/4,", "is compacted"),
        (_made_again, "0/1, 0/4,", "was made again"),
    ):
        happens(bazaar)

        found = bazaar.replay(start="kafka", publish=True)

        assert found.error is not None
        assert (found.error.code, found.published, found.refilled) == ("UsageError", False, 0)
        assert f"no message at {places} and the topic" in found.error.message
        assert why in found.error.message
    assert (bazaar.offsets(), bazaar.marker, bazaar.rows()) == (left, before, _ROWS)


def test_what_raw_has_of_the_topic_is_not_read_again(bazaar: Bazaar) -> None:
    """Nothing is written to it, whether offsets have no message in the topic either, or the topic lost what raw has.

    Only a topic that was made again is no longer what raw was read from.
    """
    bazaar.source.skip(bazaar.topic.topic, 3)
    last = bazaar.topic.messages[-1]
    bazaar.source.send(last.topic, last.key, last.value)
    bazaar.run()
    before = bazaar.marker

    holes = bazaar.replay(start="kafka")
    bazaar.source.forget_before(last.topic, 9)
    error = bazaar.replay(start="kafka").error

    assert (holes.error, holes.equal, holes.refilled) == (None, True, 0)
    assert (bazaar.marker, bazaar.offsets()) == (before, [0, 1, 2, 3, 4, 5, 9])
    assert bazaar.raw_refs() == {"main", MARKER_TAG, GENESIS_TAG}
    assert error is not None
    assert "no message at 0/6 to 0/8, and" in error.message


def test_a_topic_that_was_made_again_and_accepted_gives_what_raw_lacks_of_it(bazaar: Bazaar) -> None:
    """Raw's offsets follow on those of the earlier topic, of which nothing can be read any more."""
    _head_gone(bazaar)
    _compacted(bazaar)
    whole = bazaar.replay(start="kafka")
    assert (whole.error, whole.equal) == (None, True), "raw has what the topic has lost"
    _made_again(bazaar)
    other = bazaar.replay(start="kafka").error
    assert other is not None
    assert (other.code, "was made again" in other.message) == ("OFFSET_REGRESSION", True)
    adopt_table(bazaar.config, bazaar.mirror, Decision("tests", EPOCH), bazaar.spark)
    bazaar.run()
    assert bazaar.offsets() == list(range(12))
    bazaar.lose("offset IN (7, 8, 11)")

    found = bazaar.replay(start="kafka", publish=True)

    assert (found.error, found.refilled, found.equal) == (None, 3, True)
    assert bazaar.offsets() == list(range(12))
    assert bazaar.is_sound()
    bazaar.lose("offset IN (2, 7)")
    error = bazaar.replay(start="kafka").error
    assert error is not None
    assert "no message at 0/2, and the topic" in error.message
