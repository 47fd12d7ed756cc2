"""How many messages fit into a batch."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.lake.line import landings
from cdc_materializer.line.size import Landing, fitting, landed_since
from cdc_materializer.offsets import Offsets

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


def _ends(*offsets: tuple[int, int]) -> list[tuple[Offsets, int]]:
    return [(Offsets({0: end}), stored) for end, stored in offsets]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        pytest.param(_ends((100, 7), (200, 50)), [(100, 200, 50)], id="one ended before"),
        pytest.param(
            _ends((150, 7), (250, 50), (350, 150)), [(120, 150, 60), (150, 250, 50), (250, 350, 150)], id="cut"
        ),
        pytest.param(_ends((350, 7)), [(120, 350, 460)], id="nothing but the last"),
        pytest.param([], [(120, 350, 460)], id="none"),
        pytest.param(_ends((100, 0), (350, 7)), [(100, 350, 7)], id="a table that was made empty"),
    ],
)
def test_what_landed_before_the_snapshots_that_are_known_is_as_large_as_raw_is_on_average(
    found: list[tuple[Offsets, int]], wanted: list[tuple[int, int, int]]
) -> None:
    """It has no size of its own, and is no free room; nor is what a landing had that is the only one left."""
    landed = landed_since(Offsets({0: 120}), Offsets({0: 350}), found, (Offsets({0: 50}), 600))

    assert [(one.start[0], one.end[0], one.stored) for one in landed] == wanted


@pytest.mark.parametrize("found", [[], _ends((90, 7)), _ends((100, 7), (120, 3))])
def test_nothing_is_left_to_read_at_the_end_of_raw(found: list[tuple[Offsets, int]]) -> None:
    """Whatever is known of what came before."""
    end = Offsets({0: 120})

    assert (
        sum(one.stored for one in landed_since(end, end, found, (Offsets({0: 50}), 600)) if one.end.is_ahead_of(end))
        == 0
    )


def test_the_landings_of_raw_are_told_by_its_snapshots_down_to_one_that_ended_before() -> None:
    """Compaction brings nothing, nor does the commit that marks it, and what is older is not looked at."""
    told = [("append", 100, 7), ("append", 200, 8), ("replace", 200, 99), ("append", 200, 0), ("append", 300, 9)]
    snapshots: dict[int | None, Any] = {}
    for number, (operation, end, size) in enumerate(told):
        summary = {"cdcm.offsets": f'{{"0":{end}}}', "added-files-size": str(size)}
        snapshots[number] = SimpleNamespace(
            summary=lambda summary=summary: summary,
            operation=lambda operation=operation: operation,
            parentId=lambda number=number: number - 1 if number else None,
        )
    table = SimpleNamespace(snapshot=snapshots.get)

    assert landings(table, 4, Offsets({0: 200}), 10) == _ends((200, 0), (300, 9))
    assert landings(table, 4, Offsets({0: 150}), 10) == _ends((100, 7), (200, 8), (300, 9))
    assert landings(table, 3, Offsets({0: 150}), 1) == [], "the landing has expired, and its mark is left"
    assert landings(table, 4, Offsets({0: 0}), 4) == _ends((200, 8), (300, 9))
    assert landings(table, None, Offsets({0: 0}), 3) == []
