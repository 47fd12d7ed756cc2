"""What must hold of a mirror's tables, told from their metadata alone."""

from dataclasses import replace

import pytest

from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.errors import EXIT_LAKE, LakeUnavailable
from cdc_materializer.invariants import broken_between, broken_in, cut_in, foreign, lost_quarantine
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.line.checks import check_pair
from cdc_materializer.line.line import Tables
from cdc_materializer.marker.adopted import Adoption
from cdc_materializer.marker.marker import PLANNED_ON, Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets
from cdc_materializer.schema.schema import TableSchema

MARKER = Marker("p", "b", "t", None, Offsets({0: 4, 1: 2}), {}, None, None, {"read": 3, "upserted": 2, "ignored": 1})


def line(number: int, marker: Marker | None = None, total: int = 3, **told: str) -> SnapshotLine:
    """A snapshot with a marker, or with what else its summary tells."""
    known = {"cdcm.batch" if name == "batch" else name.replace("_", "-"): value for name, value in told.items()}
    summary = {"operation": "append", "total-records": str(total), **known}
    return SnapshotLine(number, number - 1 or None, number, summary | (marker.to_summary() if marker else {}))


def test_sound_tables_have_nothing_wrong() -> None:
    """Rising offsets, counts that add up, no more messages than offsets, one raw table."""
    earlier = replace(MARKER, offsets=Offsets({0: 1}), counts={})
    lines = [line(3, MARKER), line(2, total=3, operation="replace"), line(1, earlier, 1)]

    assert list(broken_in("t", lines, is_raw=True)) == []
    assert list(broken_between("t", "u", MARKER, replace(MARKER, raw_table="u"))) == []
    assert foreign(lines) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([line(1, MARKER, 7)], "t has 7 messages, of 6 offsets that were read"),
        ([line(1, replace(MARKER, counts={"read": 3, "upserted": 2}))], "read 3 messages and accounts for 2"),
        ([line(2, MARKER), line(1, replace(MARKER, offsets=Offsets({0: 5})))], "went back in partition 0"),
        ([line(2, MARKER), line(1, replace(MARKER, offsets=Offsets({7: 1})))], "went back in partition 7"),
    ],
)
def test_what_is_wrong_with_a_table_is_said(lines: list[SnapshotLine], said: str) -> None:
    """Messages twice, messages without an outcome, offsets that went back, partitions that were forgotten."""
    (found,) = broken_in("t", lines, is_raw=True)

    assert said in found


_LATE = replace(MARKER, offsets=Offsets({0: 1_000_004, 1: 2}))
_BEGUN = replace(MARKER, offsets=Offsets({0: 1_000_000}), counts={})
_GAP = Adoption("gap", {0: 900_004, 1: 2}, 900_000, "2026-01-01T00:00:00+00:00", "me", began={0: 4, 1: 2})


@pytest.mark.parametrize(
    ("marker", "below", "begun", "most"),
    [
        pytest.param(_LATE, [line(1, _BEGUN, 0)], None, 6, id="its first snapshot tells where it began"),
        pytest.param(_LATE, [], {0: 1_000_000}, 6, id="a tag tells it"),
        pytest.param(_LATE, [line(2, _BEGUN, 0)], None, 1_000_006, id="the first is kept no more"),
        pytest.param(_LATE, [line(1, _BEGUN, 1)], None, 1_000_006, id="nor is it where it has rows"),
        pytest.param(_LATE, [line(1, total=0)], None, 1_000_006, id="nor without a marker"),
        pytest.param(replace(_LATE, adopted=(_GAP,)), [], {0: 2}, 100_004, id="a gap was accepted, of none"),
        pytest.param(replace(_LATE, refilled=9), [line(1, _BEGUN, 0)], None, 15, id="some was read again later"),
        pytest.param(replace(_LATE, refilled=2**31), [line(1, _BEGUN, 0)], None, 1_000_006, id="or all of it"),
        pytest.param(MARKER, [], {0: 9, 7: 3}, 2, id="it began behind where it is: taken back, and no partition 7"),
    ],
)
def test_messages_that_are_there_twice_are_told_whatever_offset_raw_began_at(
    marker: Marker, below: list[SnapshotLine], begun: dict[int, int] | None, most: int
) -> None:
    """There are no more than offsets from there on, less those of accepted gaps; as far as it is known."""
    found = [list(broken_in("t", [line(3, marker, most + more), *below], is_raw=True, begun=begun)) for more in (0, 1)]

    assert found == [[], [f"t has {most + 1} messages, of {most} offsets that were read: some are there twice."]]


def test_a_batch_lies_on_what_it_was_planned_on() -> None:
    """With its own deletes between, or on one that is kept no more."""

    def planned(number: int, on: int) -> SnapshotLine:
        known = line(number, MARKER)
        return replace(known, summary={**known.summary, PLANNED_ON: str(on)})

    below = [line(3, batch="b"), line(2, batch="b"), line(1, replace(MARKER, batch="a"))]
    again = [planned(5, 4), planned(4, 1), *below]

    assert list(broken_in("t", again, is_raw=False)) == []
    assert list(broken_in("t", [planned(4, 1), *below[:2]], is_raw=False)) == []
    assert list(broken_in("t", [planned(4, 7), *below], is_raw=False)) == [
        "Snapshot 4 of t was planned on 7, and 1 is below it."
    ]


def test_a_delete_of_whole_files_belongs_to_the_batch_that_stands_on_it() -> None:
    """Iceberg gives it no batch's name: a truncate's, a replay's, or that of the swap of quarantine."""
    known = line(3, MARKER)
    rebuilt = replace(known, summary={**known.summary, PLANNED_ON: "1"})
    before = line(1, replace(MARKER, batch="a"))

    emptied = line(2, total=1, operation="delete", deleted_records="1")
    assert list(broken_in("t", [rebuilt, emptied, before], is_raw=False)) == []
    assert foreign([rebuilt, emptied, before]) == []
    assert foreign([known, emptied, before]) == [emptied], "nothing says that it was the batch's"
    of_trino = replace(emptied, summary={**emptied.summary, "engine-name": "trino"})
    assert foreign([rebuilt, of_trino, before]) == [of_trino]
    assert list(broken_in("t", [rebuilt, of_trino, before], is_raw=False)) != []
    assert foreign([replace(rebuilt, summary={**known.summary, PLANNED_ON: "2"}), emptied, before]) == [emptied]
    assert list(broken_in("t", [rebuilt, line(2, total=1, operation="overwrite"), before], is_raw=False)) == [
        "Snapshot 3 of t was planned on 1, and 2 is below it."
    ]


def test_what_maintenance_wrote_anew_belongs_to_the_marker_above_it() -> None:
    """Iceberg gives it no batch's name either; it has the same rows."""
    known = line(3, MARKER)
    marked = replace(known, summary={**known.summary, PLANNED_ON: "1"})

    assert list(broken_in("t", [marked, line(2, operation="replace"), line(1, MARKER)], is_raw=False)) == []


def test_a_replay_may_begin_before_what_was_read() -> None:
    """It empties the table first, in a snapshot of its own."""
    lines = [line(3, MARKER), line(2, total=0, cdcm="x"), line(1, replace(MARKER, offsets=Offsets({0: 9})))]

    assert list(broken_in("t", lines, is_raw=False)) == []


def test_a_mirror_belongs_to_one_raw_table_and_is_never_ahead_of_it() -> None:
    """Raw was replaced, rolled back, or dropped."""
    mirror = replace(MARKER, raw_table="u")

    assert ["another raw table" in found for found in broken_between("t", "v", MARKER, mirror)] == [True]
    ahead = list(broken_between("t", "u", replace(MARKER, offsets=Offsets({0: 4})), mirror))
    assert ahead == ["The mirror is ahead of raw in partition 1 (2 past 0)."]
    assert len(list(broken_between("t", None, None, mirror))) == 2


def test_a_mirror_without_its_quarantine_is_told() -> None:
    """It was dropped, or another table has its name; a mirror that had none yet misses none."""
    mirror = replace(MARKER, held_table="q")

    assert [list(lost_quarantine("t", held, mirror)) != [] for held in ("q", "other", None)] == [False, True, True]
    assert list(lost_quarantine("t", None, MARKER)) == list(lost_quarantine("t", "q", None)) == []


_NAME = TableName.parse("shop.t")


def _table(name: TableName, uuid: str, marker: Marker) -> LakeTable:
    return LakeTable(name, uuid, 1, marker, TableSchema(()), is_empty=False)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        pytest.param(None, "was folded from a raw table that is gone", id="dropped"),
        pytest.param(_table(_NAME.raw, "v", MARKER), "was folded from a raw table that is gone", id="another one"),
        pytest.param(
            _table(_NAME.raw, "u", replace(MARKER, offsets=Offsets({0: 4, 1: 1}))),
            "has messages of partition 1 that shop.t__raw has not: raw went back",
            id="rolled back",
        ),
        pytest.param(
            _table(_NAME.raw, "u", replace(MARKER, offsets=Offsets({0: 9}))),
            "has messages of partition 1 that shop.t__raw has not: raw went back",
            id="a partition less",
        ),
    ],
)
def test_a_run_stops_at_a_mirror_that_is_not_the_fold_of_its_raw_table(raw: LakeTable | None, says: str) -> None:
    """What it would add goes with another beginning, or would be there already."""
    mirror = _table(_NAME, "m", replace(MARKER, raw_table="u"))
    check_pair(Tables(_table(_NAME.raw, "u", MARKER), mirror, None))

    with pytest.raises(LakeUnavailable, match=says) as caught:
        check_pair(Tables(raw, mirror, None))
    assert caught.value.exit_code == EXIT_LAKE
    assert "Bring raw back, or move the mirror away" in caught.value.do


@pytest.mark.parametrize(("held", "refused"), [("q", False), ("other", True), (None, True)])
def test_a_run_stops_at_a_mirror_without_its_quarantine(held: str | None, refused: bool) -> None:  # noqa: FBT001
    """It would make an empty one, and forget what held messages have told of their rows."""
    raw, mirror = _table(_NAME.raw, "u", MARKER), _table(_NAME, "m", replace(MARKER, raw_table="u", held_table="q"))
    tables = Tables(raw, mirror, _table(_NAME.quarantine, held, MARKER) if held is not None else None)

    if not refused:
        check_pair(tables)
        return
    with pytest.raises(LakeUnavailable, match=r"shop\.t__quarantine is gone.*cdcm replay shop\.t --publish") as caught:
        check_pair(tables)
    assert caught.value.exit_code == EXIT_LAKE


def test_snapshots_of_other_programs_are_found_wherever_they_are() -> None:
    """Also below our own newer ones; compaction changes no rows, and what a batch stages has its id."""
    other = line(2, added_records="1", engine_name="trino")
    staged = line(3, operation="delete", added_position_deletes="2", batch="b")
    compacted = line(1, operation="replace", added_records="9", deleted_records="9")
    by_value = line(5, operation="delete", added_equality_deletes="3")

    lines = [by_value, line(4, MARKER, added_records="1"), staged, other, compacted]
    assert foreign(lines) == [by_value, other]


def test_of_messages_that_were_deleted_by_their_values_the_least_number_is_told() -> None:
    """An equality delete takes every row that has its value; its snapshot counts values."""
    by_value = line(2, operation="delete", added_equality_deletes="3")
    by_place = line(2, operation="delete", added_position_deletes="3")

    told = [cut_in([deletes, line(1, MARKER)]) for deletes in (by_value, by_place)]

    assert [cut.told("t__raw")[0].split(" of ")[0] for cut in told if cut is not None] == [
        "Another program has deleted at least 3 messages",
        "Another program has deleted 3 messages",
    ]
