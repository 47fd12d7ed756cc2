"""How many messages the next batch reads: what a target duration and the memory allow."""

from collections.abc import Callable

import pytest

from cdc_materializer.run.pace import OFFSETS_MIN, Pace

MOST = 400_000


@pytest.mark.parametrize(
    ("limit", "covered", "seconds", "collecting", "wanted"),
    [
        (MOST, MOST, 300.0, 0.0, MOST),
        (MOST, MOST, 400.0, 0.0, 300_000),
        # One alone may have waited for something.
        (MOST, MOST, 6_000.0, 0.0, 200_000),
        (6_000, 6_000, 10**9, 0.0, OFFSETS_MIN),
        (OFFSETS_MIN, OFFSETS_MIN, 10**9, 0.0, 2 * OFFSETS_MIN),
        (MOST, MOST, 100.0, 51.0, 200_000),
        (MOST, MOST, 400.0, 201.0, 200_000),
        (20_000, 20_000, 200.0, 0.0, 30_000),
        (20_000, 20_000, 10.0, 0.0, 40_000),
        (300_000, 300_000, 100.0, 0.0, MOST),
        # What is small because there is no more, or has only landed, says nothing.
        (20_000, 300, 1.0, 0.0, 20_000),
        (MOST, 3, 301.0, 300.0, MOST),
        (20_000, 0, 900.0, 0.0, 20_000),
    ],
)
def test_a_batch_tells_how_much_the_next_one_reads(
    limit: int, covered: int, seconds: float, collecting: float, wanted: int
) -> None:
    """Less after one that took too long or hardly had room; more, step by step, after a quick one."""
    pace = Pace(MOST, 300.0, limit)

    pace.note(covered, seconds, collecting)

    assert pace.limit == wanted


def test_a_batch_that_was_cut_by_the_size_of_its_messages_tells_how_long_it_takes() -> None:
    """It is far from the pace's limit, and as large as it could be."""
    pace = Pace(MOST, 300.0, MOST)

    pace.note(57_000, 3_000.0, 2_500.0, limit=57_000)

    assert pace.limit == 28_500


@pytest.mark.parametrize(
    ("seconds", "low", "high"),
    [
        pytest.param(lambda n: n / 1_000, 280_000, 300_000, id="only what is read takes time"),
        pytest.param(lambda n: 100 + n / 1_000, 190_000, 200_000, id="so does each batch"),
        # Smaller ones would hardly be quicker.
        pytest.param(lambda n: 320 + n / 10_000, MOST, MOST, id="a batch takes too long whatever it reads"),
        pytest.param(lambda n: 160 + n / 10_000, MOST, MOST, id="half the time is the batch's own"),
        pytest.param(lambda n: 200 + n / 1_000, 90_000, 200_000, id="in time, or no smaller than its own time is"),
        pytest.param(lambda _: 1.0, MOST, MOST, id="nothing takes time"),
        pytest.param(lambda _: 0.0, MOST, MOST, id="a clock that stands still"),
    ],
)
def test_batches_become_as_large_as_fits(seconds: Callable[[int], float], low: int, high: int) -> None:
    """From the most that is allowed as from very few, and again after one that took an hour."""
    for limit in (MOST, OFFSETS_MIN):
        pace = Pace(MOST, 300.0, limit)
        for _ in range(3):
            for _ in range(12):
                pace.note(pace.limit, seconds(pace.limit), 0.0)
            assert low <= pace.limit <= high
            pace.note(pace.limit, 3_600.0, 0.0)


def test_few_messages_a_batch_stay_few() -> None:
    """`records_max` below what a batch costs anyway is the most, whatever comes."""
    pace = Pace(4, 300.0, 4)

    for seconds in (10_000.0, 1.0, 1.0):
        pace.note(4, seconds, 0.0)

        assert pace.limit == 4
