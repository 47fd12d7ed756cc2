"""Which of a batch's truncates and snapshots ended a row first."""

import pytest
from pyspark.sql import Row

from cdc_materializer.changes import model as m
from cdc_materializer.line.swept import _is_before
from cdc_materializer.marker.snapshots import Swept
from cdc_materializer.marker.sweeps import End, Sweep
from cdc_materializer.order.sweeping import _among
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


def _seen(partition: int, position: str | None, last: int, *, is_record: bool = True) -> Row:
    return Row(**{m.PARTITION: partition, "is_record": is_record, "position": position, "last": last})


def test_of_a_log_that_is_folded_in_part_only_those_have_swept_whose_ends_it_has() -> None:
    """`cdcm as-of` folds what was there at a moment; the mirror's marker knows of later ones too."""
    seen = [
        _seen(0, "5", 8),
        _seen(1, "5", 3),
        _seen(0, None, 90, is_record=False),
        _seen(0, "9", 14),
    ]
    whole, cut = Swept("5", {0: 2, 1: 1}, {0: 8, 1: 3}), Swept("9", {0: 10, 1: 9}, {0: 14, 1: 11})
    later = Swept("12", {0: 20}, {0: 22})

    assert _among(seen, (whole, cut, later)) == [whole]


def test_a_snapshot_without_a_position_is_behind_no_truncate_of_another_partition() -> None:
    """Nothing says that it is."""
    assert not _is_before(Truncate("5", 1, 2), _sweep(None), 2)
