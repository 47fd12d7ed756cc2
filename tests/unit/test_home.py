"""What is told of a table's keys from batch to batch: that they stay in their partitions, or that they move."""

from typing import TYPE_CHECKING, cast

import pytest

from cdc_materializer.batch.batch import Folded, _anew
from cdc_materializer.batch.facts import Facts, _home_after
from cdc_materializer.batch.past import Past
from cdc_materializer.changes.options import Options
from cdc_materializer.decoders.decoders import Lookup
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.order.epochs import MOVES, Recorded
from cdc_materializer.schema.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAYS = "3 id:00000001"


def test_nothing_is_concluded_from_an_order_that_was_none() -> None:
    """Where two partitions were taken for one, the facts tell only that keys move, and the batch is folded anew."""
    lookup = Lookup(None, None, Options(), None)
    past = Past(lookup, recorded=Recorded(partitions=3, home=None), span=Span("t", Offsets({0: 0}), Offsets({0: 9})))
    facts = Facts(home=MOVES, routed=True, doubtful=1, unsure=1)
    folded = Folded(cast("DataFrame", None), TableSchema(()), facts=facts)
    anew = _anew(folded, past)

    assert anew is not None
    assert (anew.recorded.home, anew.recorded.routed, anew.recorded.exact) == (MOVES, False, False)
    assert not anew.lookup.options.doubtful_keys


@pytest.mark.parametrize(
    ("before", "found", "after"),
    [
        (None, {"id:00000001"}, STAYS),
        (None, set(), None),
        (None, {"id:00000001", "id:00000002"}, MOVES),
        (None, {"id:00000001", ""}, MOVES),
        (STAYS, {"id:00000001"}, STAYS),
        (STAYS, set(), STAYS),
        (STAYS, {"id:00000002"}, MOVES),
        (STAYS, {""}, MOVES),
        ("2 id:00000001", {"id:00000001"}, MOVES),
        (MOVES, {"id:00000001"}, MOVES),
    ],
)
def test_one_message_elsewhere_ends_it_for_good(before: str | None, found: set[str], after: str | None) -> None:
    """And so does another schema of the key, or another number of partitions."""
    assert _home_after(Recorded(partitions=3, home=before), found) == after


def test_keys_stay_among_as_many_partitions() -> None:
    """Of 13 partitions nothing is known that was told of one; before the first message nothing speaks against it."""
    assert Recorded(partitions=3, home=STAYS).keys_stay
    assert Recorded(partitions=3, home=None).keys_stay
    assert not Recorded(partitions=13, home=STAYS).keys_stay
    assert not Recorded(partitions=13, home="1 3 id:00000001").keys_stay
    assert not Recorded(partitions=3).keys_stay


def test_a_marker_tells_it_and_a_log_that_is_read_anew_finds_it_out() -> None:
    """What says nothing was written before there was such a thing, or knows of a key that moved."""
    marker = Marker("p", "b", "t", None, Offsets({0: 1}), {}, 1, None, {}, home=STAYS)
    moved = Marker("p", "b", "t", None, Offsets({0: 1}), {}, 1, None, {}, home=MOVES)
    read = Marker.from_summary(marker.to_summary())

    assert read is not None
    assert read.home == STAYS
    assert Marker.begin(read).home is None
    assert "cdcm.home" not in moved.to_summary()
