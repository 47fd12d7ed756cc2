"""Which of a batch's truncates and snapshots ended a row first."""

import pytest

from cdc_materializer.line.swept import _is_before
from cdc_materializer.marker.sweeps import End, Sweep
from cdc_materializer.order.truncates import Truncate

_LOG = "{:020d}/{:020d}"


def _sweep(position: str | None) -> Sweep:
    return Sweep({0: 3}, {0: 8}, end=End("t", 0, 8, position, 0, None, None))


@pytest.mark.parametrize(("offset", "is_before"), [(7, True), (9, False)])
def test_in_one_partition_the_order_of_messages_says_it(offset: int, is_before: bool) -> None:  # noqa: FBT001
    """Whatever their positions."""
    assert _is_before(Truncate("9", 0, offset), _sweep("5"), 1) is is_before


@pytest.mark.parametrize(("log", "is_before"), [((40, 50), True), ((40, 70), False), ((70, 75), False)])
def test_in_several_partitions_their_positions_do(log: tuple[int, int], is_before: bool) -> None:  # noqa: FBT001
    """Of a change in PostgreSQL's log its own number, as a snapshot knows no last commit."""
    truncate = Truncate(_LOG.format(*log), 1, 2)

    assert _is_before(truncate, _sweep(_LOG.format(60, 60)), 2) is is_before


def test_a_snapshot_without_a_position_is_behind_no_truncate_of_another_partition() -> None:
    """Nothing says that it is."""
    assert not _is_before(Truncate("5", 1, 2), _sweep(None), 2)
