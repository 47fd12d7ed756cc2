"""Swaps that are killed, taken back and done again: mirror and quarantine are two tables, and what is begun is ended.

Kills are exceptions here, at the named points; `test_replay_crash` kills processes.
"""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import pytest

from cdc_materializer import crash_points
from cdc_materializer.adopt import Decision, adopt_table
from cdc_materializer.config import Config
from cdc_materializer.errors import EXIT_BLOCKED, EXIT_REWOUND
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG
from cdc_materializer.names import TableName
from cdc_materializer.rebuild.rebuild import let_go, roll_back
from cdc_materializer.report.replay_models import TableReplay
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import EPOCH, write_recorded_topic
from cdc_materializer.testing.faults import Killed
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.shops import Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]

_numbers = itertools.count()


@pytest.fixture
def shop(spark: "SparkSession", lake_config: Config) -> Shop:
    """A shop whose rows 1 and 3 readers see, and whose row 4 is held; under a contract that would hold nothing."""
    made = Shop(lake_config, spark, f"swap_{next(_numbers)}")
    assert _state(made) == BEFORE
    made.judge("2", -5)
    return made


#: What readers see, and the offsets of what is held; before any replay, and after one under the later contract.
_State: TypeAlias = tuple[dict[int, int], list[int]]
BEFORE: _State = ({1: 11, 3: 30}, [3])
AFTER: _State = ({1: 11, 3: 30, 4: -1}, [])


def _state(shop: Shop) -> _State:
    held = shop.spark.table(f"lake.{shop.mirror}__quarantine").where("status = 'open'").collect()
    return shop.rows(), sorted(row["offset"] for row in held)


def _tags(table: str, shop: Shop) -> set[str]:
    return {row["name"] for row in shop.spark.table(f"lake.{table}.refs").where("type = 'TAG'").collect()}


def _rolled_back(shop: Shop) -> TableReplay:
    return roll_back(shop.config, (shop.mirror,), shop.spark).tables[0]


def _killed_at(point: str, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something that ends at a named point."""

    def reach(step: str, table: TableName) -> None:
        if crash_points.point_of(step, table) == point:
            raise Killed(point)

    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reach", reach)
        with pytest.raises(Killed, match=point):
            do()


@pytest.mark.parametrize("point", ["swapped", "settled"])
def test_what_a_replay_was_killed_at_is_ended_by_the_next_run_and_can_be_taken_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Nothing is told as held that readers see; a rollback brings back both tables as they were."""
    _killed_at(f"replay.{point}", monkeypatch, lambda: shop.replay(publish=True))
    assert shop.rows() == AFTER[0]

    shop.run()

    assert _state(shop) == AFTER
    assert shop.is_proven()
    assert _rolled_back(shop).rolled_back
    assert _state(shop) == BEFORE


@pytest.mark.parametrize("point", ["swapped", "settled"])
def test_a_replay_that_is_done_again_keeps_what_was_there_before_the_first(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """It ends what the killed one began, and finds the rows that it would publish published."""
    _killed_at(f"replay.{point}", monkeypatch, lambda: shop.replay(publish=True))

    again = [shop.replay(publish=True) for _ in range(2)]

    assert [(one.published, one.equal, one.held_live) for one in again] == [(True, True, {})] * 2
    assert _state(shop) == AFTER
    assert _rolled_back(shop).rolled_back
    assert _state(shop) == BEFORE


def test_a_replay_that_was_killed_before_its_swap_has_changed_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what readers see and what is held, nor what a rollback brings back: both tables as they were once."""
    shop.replay(publish=True)
    assert _state(shop) == AFTER
    shop.judge("3", 20)
    _killed_at("replay.marked", monkeypatch, lambda: shop.replay(publish=True))

    assert _state(shop) == AFTER
    assert _rolled_back(shop).rolled_back
    assert _state(shop) == BEFORE


@pytest.mark.parametrize("by", ["rollback", "run", "replay", "repair"])
def test_a_rollback_that_was_killed_is_ended_too(shop: Shop, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """By whoever comes next; what was kept for it is gone then."""
    shop.replay(publish=True)
    _killed_at("replay.swapped", monkeypatch, lambda: _rolled_back(shop))
    assert shop.rows() == BEFORE[0]

    if by == "rollback":
        assert _rolled_back(shop).rolled_back
    elif by == "run":
        shop.run()
    elif by == "repair":
        # By that of the replay row 4 is good, and what quarantine says of it would be wrong.
        shop.judge("1", 0)
        assert shop.verify(repair=True).equal
    else:
        assert shop.replay().held_live == {"CONTRACT price.between": 1}

    assert _state(shop) == BEFORE
    assert _tags(f"{shop.mirror}__quarantine", shop) == {MARKER_TAG, GENESIS_TAG}
    found = _rolled_back(shop)
    assert not found.rolled_back
    assert found.error is not None
    assert "keeps no state" in found.error.message


def test_a_stop_stays_open_where_a_repair_ends_a_killed_swap(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in no quarantine that was rebuilt, and alone tells of a topic that has grown again that it lost its end."""
    write_recorded_topic(shop.folder, shop.topic.topic, shop.topic.messages[:-1])
    assert run_once(shop.config, shop.spark).exit_code == EXIT_REWOUND
    shop.topic.write(shop.folder)
    _killed_at("replay.swapped", monkeypatch, lambda: shop.replay(publish=True))

    repaired = shop.verify(repair=True)

    assert (repaired.equal, repaired.error, shop.rows()) == (True, None, AFTER[0])
    held = shop.spark.table(f"lake.{shop.mirror}__quarantine").where("status = 'open'").collect()
    assert [row["code"] for row in held] == ["OFFSET_REGRESSION"]
    shop.send(("u", 1, 12))
    assert run_once(shop.config, shop.spark).exit_code == EXIT_REWOUND
    adopt_table(shop.config, shop.mirror, Decision("tests", EPOCH), shop.spark)
    shop.run()
    assert _state(shop) == ({1: 12, 3: 30, 4: -1}, [])


def test_deleted_rows_that_are_kept_and_the_ledger_are_swapped_and_taken_back(
    spark: "SparkSession", lake_config: Config
) -> None:
    """Both states are what raw makes of them, batches go on from both, and the ledger is that of the rows."""
    shop = Shop(lake_config, spark, f"swap_{next(_numbers)}", deletes="soft", ledger=True)
    before = {1: (11, False), 2: (20, True), 3: (30, False)}
    assert shop.lives() == before
    shop.judge("2", -5)

    replayed = shop.replay(publish=True)

    assert (replayed.published, replayed.error) == (True, None)
    assert shop.lives() == before | {4: (-1, False)}
    assert shop.verify(ledger=True).equal
    assert shop.is_proven()
    shop.send(("d", 4, None), ("c", 2, 21))
    shop.run()
    assert shop.lives() == before | {2: (21, False), 4: (-1, True)}
    assert shop.verify(ledger=True).equal
    assert shop.is_proven()
    shop.judge("1", 0)
    assert _rolled_back(shop).rolled_back
    assert shop.lives() == before
    assert shop.verify(ledger=True).equal
    assert shop.is_proven()
    shop.send(("d", 3, None))
    shop.run()
    assert shop.lives() == before | {2: (21, False), 3: (30, True)}
    assert shop.verify(ledger=True).equal
    assert shop.is_proven()


def test_of_several_tables_each_is_taken_back_that_can_be(spark: "SparkSession", lake_config: Config) -> None:
    """And each says what became of it."""
    one, other = (Shop(lake_config, spark, f"swap_{next(_numbers)}") for _ in range(2))
    one.judge("2", -5)
    one.replay(publish=True)
    both = one.config.model_copy(update={"tables": (*one.config.tables, *other.config.tables)})

    found = roll_back(both, (one.mirror, other.mirror), spark).tables

    assert [(table.rolled_back, table.error is None) for table in found] == [(True, True), (False, False)]
    assert _state(one) == BEFORE


def test_what_a_batch_was_blocked_for_is_held_once_after_a_rollback(shop: Shop) -> None:
    """It lies behind what was replaced and behind what replaced it, so that both have it, and it is one message's."""
    shop.judge("2", -5, action="block")
    shop.send(("c", 5, -7))
    assert run_once(shop.config, shop.spark).exit_code == EXIT_BLOCKED
    shop.judge("3", -5)
    before = _state(shop)

    assert shop.replay(publish=True).published
    assert _state(shop) == (AFTER[0], [6])
    assert _rolled_back(shop).rolled_back

    assert before == (BEFORE[0], [3, 6])
    assert _state(shop) == before


def test_what_is_forgotten_cannot_be_taken_back(shop: Shop) -> None:
    """No tag keeps it then, of the mirror or of quarantine, so that it can expire."""
    shop.replay(publish=True)

    first, again = (let_go(shop.config, (shop.mirror,), shop.spark).tables[0] for _ in range(2))

    assert (first.forgotten, first.error) == (True, None)
    assert again.error is not None
    assert "keeps no state" in again.error.message
    assert _rolled_back(shop).error is not None
    assert _state(shop) == AFTER
    assert {*shop.refs(), *_tags(f"{shop.mirror}__quarantine", shop)} == {"main", MARKER_TAG, GENESIS_TAG}
