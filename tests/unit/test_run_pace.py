"""How many messages the next batch reads: what a target duration and the memory allow."""

import pytest

from cdc_materializer.run_pace import MESSAGES_MIN, Pace

MOST = 400_000


def _pace(limit: int = MOST) -> Pace:
    return Pace(MOST, 300.0, limit)


@pytest.mark.parametrize(
    ("limit", "read", "seconds", "collecting", "wanted"),
    [
        (MOST, MOST, 300.0, 0.0, MOST),
        (MOST, MOST, 600.0, 0.0, 200_000),
        # As small as it has to be at once: each that is too long keeps other tables waiting.
        (MOST, MOST, 6_000.0, 0.0, 20_000),
        (MOST, MOST, 10**9, 0.0, MESSAGES_MIN),
        (MOST, MOST, 100.0, 51.0, 200_000),
        (MOST, MOST, 600.0, 301.0, 200_000),
        (MOST, MOST, 1_200.0, 601.0, 100_000),
        # What reads little is slow by its fixed cost; that is no reason to read more than before.
        (20_000, 300, 1.0, 0.0, 20_000),
        (20_000, 300, 400.0, 0.0, MESSAGES_MIN),
        (20_000, 20_000, 149.0, 0.0, 40_000),
        (20_000, 20_000, 151.0, 0.0, 20_000),
        # Held messages are read beside those of the topic.
        (20_000, 20_500, 100.0, 0.0, 40_000),
        (300_000, 300_000, 100.0, 0.0, MOST),
        (20_000, 0, 900.0, 0.0, 20_000),
    ],
)
def test_a_batch_tells_how_much_the_next_one_reads(
    limit: int, read: int, seconds: float, collecting: float, wanted: int
) -> None:
    """Less after one that took too long or hardly had room, in proportion; more, step by step, after a quick one."""
    pace = _pace(limit)

    pace.note(read, seconds, collecting)

    assert pace.limit == wanted


def test_few_messages_a_batch_stay_few() -> None:
    """`records_max` below what a batch costs anyway is the most, whatever comes."""
    pace = Pace(4, 300.0, 4)

    for seconds in (10_000.0, 1.0, 1.0):
        pace.note(4, seconds, 0.0)

        assert pace.limit == 4
