"""How far the source has got, as a marker keeps it: what a batch tells never takes anything of it back."""

from dataclasses import replace

from cdc_materializer.batch.facts import Facts
from cdc_materializer.batch.markers import reached
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets


def _after(marker: Marker | None, facts: Facts) -> Marker:
    begun = marker or Marker("p", "b", "t", None, Offsets(), {}, None, None, {})
    return replace(begun, **reached(marker, facts, (), {}, "apply"))


def test_the_latest_change_is_kept_behind_one_of_a_long_transaction() -> None:
    """Which is at a higher position and tells an earlier time; nor does one without a time take it away."""
    first = _after(None, Facts(positions={0: "40", 1: "20"}, times={0: 7_200, 1: 100}))
    long = _after(first, Facts(positions={0: "50"}, times={0: 0}))
    silent = _after(long, Facts(positions={0: "60", 1: "30"}))

    assert (long.positions, long.times) == ({0: "50", 1: "20"}, {0: 7_200, 1: 100})
    assert (silent.positions, silent.times) == ({0: "60", 1: "30"}, {0: 7_200, 1: 100})


def test_an_earlier_position_takes_no_higher_one_back() -> None:
    """A batch may have nothing but what was sent again."""
    first = _after(None, Facts(positions={0: "50"}, times={0: 7_200}, readings={0: "9"}, deleted_at={0: 5}))
    again = _after(first, Facts(positions={0: "40"}, readings={0: "8"}, deleted_at={0: 4}))

    assert again == first
