"""What every clock does, this machine's and the one in a test's hand alike, and who goes by it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cdc_materializer.clocks import Clock, SystemClock
from cdc_materializer.errors import LakeUnavailable
from cdc_materializer.names import TableName
from cdc_materializer.retry import Deadline
from cdc_materializer.testing import EPOCH, FixedClock, MemoryCatalog, MemoryLake, MemoryRows, memory_lake
from tests.model.lake_contract import SCHEMA, marker


class ClockContract:
    """The tests; a subclass beside a fixture `clock` runs them."""

    def test_it_tells_the_time_in_utc(self, clock: Clock) -> None:
        """What is compared with a snapshot's date needs a zone."""
        assert clock.now().utcoffset() == timedelta(0)

    def test_neither_goes_back_by_itself(self, clock: Clock) -> None:
        """Two looks, one after the other."""
        first = clock.monotonic(), clock.now()

        assert (clock.monotonic(), clock.now()) >= first

    def test_a_deadline_goes_by_it(self, clock: Clock) -> None:
        """It is handed over as a function."""
        deadline = Deadline.after(3_600, clock.monotonic)

        assert 3_590 < deadline.left <= 3_600
        assert Deadline.after(0, clock.monotonic).is_over


class TestSystemClock(ClockContract):
    """This machine's."""

    @pytest.fixture
    def clock(self) -> Clock:
        """The one that a run has."""
        return SystemClock()


class TestFixedClock(ClockContract):
    """The one that stands still."""

    @pytest.fixture
    def clock(self) -> FixedClock:
        """Made at a time of another zone."""
        return FixedClock(datetime(2026, 3, 29, 3, 30, tzinfo=UTC).astimezone())

    def test_it_goes_on_when_it_is_told_to(self, clock: FixedClock) -> None:
        """Both ways to tell the time do, and the one that Iceberg dates commits by."""
        at, ms = clock.now(), clock.ms()

        clock.advance(1.5)

        assert (clock.monotonic(), clock.now() - at, clock.ms() - ms) == (1.5, timedelta(seconds=1.5), 1_500)
        with pytest.raises(ValueError, match="cannot pass by -1"):
            clock.advance(-1)

    def test_its_hands_can_be_put(self, clock: FixedClock) -> None:
        """The date changes, by a day or back again; no time has passed."""
        at = clock.now()

        clock.put(-86_400)

        assert (clock.monotonic(), clock.now() - at) == (0.0, timedelta(days=-1))

    def test_a_deadline_comes_when_it_is_there(self, clock: FixedClock) -> None:
        """And not before."""
        deadline = Deadline.after(10, clock.monotonic)

        clock.advance(9.5)
        clock.put(86_400)
        left = deadline.left
        clock.advance(0.5)

        assert (left, deadline.is_over) == (0.5, True)


def test_a_clock_that_was_told_nothing_begins_with_2026() -> None:
    """As do the messages of `testing`."""
    assert FixedClock().now() == EPOCH == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_clock_that_goes_forward_by_a_day_keeps_only_those_behind_it_away() -> None:
    """Another process, whose clock was not put forward, is told to wait; nothing else hangs on it."""
    clock, other, name = FixedClock(), FixedClock(), TableName.parse("shop.t")
    catalog = MemoryCatalog(clock)
    ahead, behind = memory_lake(catalog), memory_lake(catalog, "app-2", clock=other)

    def append(lake: MemoryLake, batch: str, offset: int) -> None:
        base = lake.load(name)
        assert base is not None
        rows: Any = MemoryRows(lake, ((batch, ""),))
        lake.publish(base, marker(batch, offset), lambda stage: stage.append(rows))

    ahead.create(name, SCHEMA, marker("start", 0), {})
    append(ahead, "one", 5)
    clock.put(86_400)
    append(ahead, "two", 7)

    with pytest.raises(LakeUnavailable, match="86,400 s ahead"):
        append(behind, "three", 9)
    other.advance(86_400)
    append(behind, "three", 9)

    found = ahead.load(name)
    assert found is not None
    assert sorted(row[0] for row in ahead.rows(found)) == ["one", "three", "two"]
