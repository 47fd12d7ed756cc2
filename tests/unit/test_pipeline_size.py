"""How many messages fit into a batch."""

from collections.abc import Mapping

import pytest

from cdc_materializer.offsets import Offsets
from cdc_materializer.pipeline_size import Landing, fitting

#: Of a kilobyte each; then of a megabyte each.
SMALL = Landing(Offsets({0: 0}), Offsets({0: 1_000}), 10**6)
LARGE = Landing(Offsets({0: 1_000}), Offsets({0: 1_100}), 10**8)
#: Of two partitions, a kilobyte each.
TWO = Landing(Offsets({0: 0, 1: 500}), Offsets({0: 100, 1: 600}), 200_000)


@pytest.mark.parametrize(
    ("landed", "start", "room", "wanted"),
    [
        pytest.param([SMALL], {0: 0}, 2 * 10**6, 500_000, id="all fits"),
        pytest.param([SMALL], {0: 0}, 10**6, 500_000, id="all just fits"),
        pytest.param([SMALL], {0: 0}, 500_000, 500, id="a half fits"),
        pytest.param([SMALL], {0: 900}, 50_000, 50, id="of what is left of a landing"),
        pytest.param([SMALL, LARGE], {0: 0}, 11 * 10**6, 1_010, id="small ones ahead of large ones"),
        pytest.param([SMALL, LARGE], {0: 1_000}, 11 * 10**6, 11, id="large ones alone"),
        pytest.param([LARGE], {0: 1_000}, 10, 1, id="one where none fits"),
        pytest.param([TWO], {0: 50, 1: 500}, 75_000, 75, id="of each partition what is left"),
        pytest.param([Landing(Offsets({0: 5}), Offsets({0: 5}), 0)], {0: 5}, 10, 500_000, id="a landing of nothing"),
        pytest.param([], {0: 0}, 10, 500_000, id="nothing is known"),
    ],
)
def test_a_batch_reads_what_fits_into_memory(
    landed: list[Landing], start: Mapping[int, int], room: int, wanted: int
) -> None:
    """At most as many as are asked for, at least one; by the size of what comes next, whatever came before."""
    assert fitting(500_000, landed, Offsets(start), room) == wanted
