"""A mirror through whatever its owners and its neighbours do to it, in any order, each act killed somewhere.

Runs, releases, proofs with repairs, replays, rollbacks, maintenance and another engine's deletes follow each other by
chance, over a table with a contract, soft deletes, a history and a ledger. After each act readers see the fold of just
the messages that the mirror says it has read, and at the end of all of them. CDCM_SEED=17 begins with that one; with
CDCM_TESTS=all there are more.
"""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer.config import Config
from cdc_materializer.crash_points import POINTS
from cdc_materializer.errors import EXIT_DONE
from cdc_materializer.maintain import MaintainOptions, maintain_tables
from cdc_materializer.names import TableName
from cdc_materializer.rebuild.rebuild import roll_back
from cdc_materializer.release import Wanted, release_held
from cdc_materializer.report.models import ErrorInfo
from cdc_materializer.run.run import run_once
from tests.spark.harms import WARNS, remove
from tests.spark.kills import is_killed
from tests.spark.marks import FOURTH_TURN, IMPORTS_GREAT_EXPECTATIONS
from tests.spark.passages import ALL
from tests.spark.shops import Shop
from tests.spark.soundness import marker_of, what_is_unsound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    FOURTH_TURN,
    *WARNS,
    *IMPORTS_GREAT_EXPECTATIONS,
]

_ACTS, _ROWS = 12 if ALL else 8, 5
_FIRST = ("c", 1, 10), ("c", 2, 20), ("c", 3, 30), ("c", 4, -1), ("u", 1, 11), ("d", 2, None)


@dataclass
class World:
    """A shop, what was sent to it, and whether another engine has changed rows that nothing has put right yet."""

    shop: Shop
    chance: random.Random
    done: list[str]
    sent: list[tuple[str, int, int | None]] = field(default_factory=lambda: list(_FIRST))
    is_harmed: bool = False

    @property
    def name(self) -> TableName:
        """The mirror's name."""
        return TableName.parse(self.shop.mirror)

    def expected(self, end: int) -> tuple[dict[int, int], set[int]]:
        """The rows after so many messages, and the keys of which something is held: prices below zero are."""
        rows: dict[int, int] = {}
        held: set[int] = set()
        for op, row, price in self.sent[:end]:
            if op != "d" and (price is None or price < 0):
                held.add(row)
                continue
            held.discard(row)
            rows.pop(row, None)
            if price is not None:
                rows[row] = price
        return rows, held

    def check(self) -> None:
        """Assert what has to hold whatever was done, and whatever it was killed at."""
        marker = marker_of(self.shop.config, self.name)
        assert marker is not None
        assert what_is_unsound(self.shop.config, self.name) == [], self.done
        if not self.is_harmed:
            assert self.rows() == self.expected(sum(marker.offsets.values()))[0], self.done

    def rows(self) -> dict[int, int]:
        """What readers see, without deleted rows."""
        live = self.shop.spark.table(f"lake.{self.shop.mirror}").where("NOT __cdc.deleted")
        found = [(row["id"], row["price"]) for row in live.collect()]
        assert len(dict(found)) == len(found), self.done
        return dict(found)

    # --- what is done to it

    def run(self) -> None:
        """Changes come and are read, or there are none."""
        for _ in range(self.chance.randrange(4)):
            op, row = self.chance.choice("cuud"), self.chance.randint(1, _ROWS)
            self.sent.append((op, row, None if op == "d" else self.chance.randint(-3, 9)))
        self.shop.send(*self.sent[len(self.shop.topic.messages) :])
        assert run_once(self.shop.config, self.shop.spark).exit_code == EXIT_DONE

    def release(self) -> None:
        """Held messages are judged again."""
        release_held(self.shop.config, self.shop.mirror, Wanted(), self.shop.spark)

    def repair(self) -> None:
        """Rows are proven, and put right where they differ."""
        proof = self.shop.verify(repair=True)
        assert (proof.equal, proof.error) == (True, None)
        self.is_harmed = False

    def replay(self) -> None:
        """The mirror is rebuilt and swapped."""
        found = self.shop.replay(publish=True)
        assert (found.published, found.error) == (True, None)
        self.is_harmed = False

    def roll_back(self) -> None:
        """What a replay has replaced comes back, where there is something."""
        harmed, self.is_harmed = self.is_harmed, True
        found = roll_back(self.shop.config, (self.shop.mirror,), self.shop.spark).tables[0]
        _is_for_want_of_it(found.error)
        # What was replaced may have been harmed, and so nothing is known of it.
        self.is_harmed = found.error is None or harmed

    def maintain(self) -> None:
        """Files are compacted and snapshots expire, a month later."""
        later = MaintainOptions(lambda: datetime.now(UTC) + timedelta(days=30))
        assert [one.error for one in maintain_tables(self.shop.config, later, self.shop.spark).tables] == [None] * 4

    def harm(self) -> None:
        """Another engine deletes a row."""
        self.is_harmed = True
        remove(self.shop, self.chance.randint(1, _ROWS))


def _is_for_want_of_it(error: ErrorInfo | None) -> None:
    assert error is None or "no state" in error.message or "nothing" in error.message.lower(), error


_CHOICES: tuple[Callable[[World], None], ...] = (
    *(World.run, World.run, World.run, World.release, World.repair),
    *(World.replay, World.replay, World.roll_back, World.maintain, World.harm),
)


@pytest.mark.parametrize("number", range(24 if ALL else 1))
def test_whatever_is_done_to_a_mirror_it_is_the_fold_of_what_it_has_read(
    spark: "SparkSession",
    lake_config: Config,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    number: int,
) -> None:
    """After each act, and at the end by `verify`, its ledger, and the model of the rows."""
    first = os.environ.get("CDCM_SEED", request.config.getoption("randomly_seed", None) or 0)
    chance = random.Random(int(first) + number)  # noqa: S311 - repeatable, not secret
    kept: dict[str, Any] = {"deletes": "soft", "history": True, "ledger": True, "properties": {"format-version": "2"}}
    world = World(Shop(lake_config, spark, f"acts_{number}", **kept), chance, [f"CDCM_SEED={int(first) + number}"])
    for _ in range(_ACTS):
        act, at, times = chance.choice(_CHOICES), chance.choice(POINTS), chance.randint(1, 2)
        is_cut = is_killed(monkeypatch, at, partial(act, world), times)
        world.done.append(f"{act.__name__}{f' killed at {at}' if is_cut else ''}")
        world.check()

    world.shop.run()
    world.repair()
    world.check()
    assert world.shop.verify(ledger=True).equal, world.done
    assert world.shop.is_proven(), world.done
    rows, held = world.expected(len(world.sent))
    assert world.rows() == rows
    still = {offset for offset, status in world.shop.held().items() if status == "open"}
    assert {world.sent[offset][1] for offset in still} == held, world.done
