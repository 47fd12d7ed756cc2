"""The trend of a table, from the markers of its snapshots."""

from dataclasses import replace
from datetime import timedelta

from cdc_materializer.marker.marker import STOPPED, Marker, beside_mirror
from cdc_materializer.marker.swapped import Swapped
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.trend import OUTCOMES, POINTS_MAX, last_published, trend
from tests.unit.quarantines import NOW, line


def test_each_batch_is_a_point_with_its_counts() -> None:
    """Oldest first, by outcome, with the remarks of its messages and the time of its publication."""
    found = trend(
        [
            line(3, 10, "b2", read=1, deleted=1),
            line(2, 60, "b1", read=10, upserted=4, quarantined=3, superseded=3),
            line(1, 61, "start"),
        ],
        [],
        {"b1": 2},
    )

    assert [(point.batch, point.batches, point.read, point.reported) for point in found] == [
        ("b1", 1, 10, 2),
        ("b2", 1, 1, 0),
    ]
    assert {name: getattr(found[0], name) for name in OUTCOMES if getattr(found[0], name)} == {
        "upserted": 4, "quarantined": 3, "superseded": 3
    }  # fmt: skip
    assert found[0].since == found[0].until == NOW - timedelta(minutes=60)


def test_a_batch_that_is_marked_again_is_counted_once() -> None:
    """Maintenance marks the head again; the batch keeps the time at which it was published."""
    found = trend(
        [
            line(4, 1, "b1", read=10, upserted=4, quarantined=3, superseded=3),
            line(3, 5),
            line(2, 60, "b1", read=10, upserted=4, quarantined=3, superseded=3),
        ],
        [line(1, 62, "b1", read=10, upserted=4, quarantined=3, superseded=3)],
        {},
    )

    assert [(point.batch, point.read, point.stopped) for point in found] == [("b1", 10, 0)]
    assert found[0].until == NOW - timedelta(minutes=60)


def test_a_replay_is_no_batch() -> None:
    """Its batches are in main's line once it is published, and their messages were counted when they were read."""
    batches = [line(3, 20, "r2", read=4), line(2, 25, "r1", read=6)]
    swapped = line(4, 10, "r2", read=4)
    marker = Marker.from_summary(swapped.summary)
    assert marker is not None
    swap = replace(swapped, summary=replace(marker, swapped=Swapped(7, None)).to_summary())
    seen = [line(5, 5, "b2", read=1), swap, line(1, 60, "b1", read=10)]
    mirror = [*seen[:2], *(replace(one, is_seen=False) for one in batches), seen[2]]

    assert [(point.batch, point.read) for point in trend(mirror, [], {})] == [("b1", 10), ("b2", 1)]
    assert last_published(mirror[1:]) == swap.at


def test_a_batch_that_is_only_beside_mirror_was_stopped() -> None:
    """Its messages are counted where they are published, and not twice; so it is before there is a mirror."""
    quarantine = [line(2, 11, "b2", read=12), line(1, 30, "b1", read=10, quarantined=3)]
    found = trend([line(2, 10, "b2", read=12), line(1, 31, "start")], quarantine, {"b1": 1})

    assert [(point.batch, point.stopped, point.read, point.quarantined, point.reported) for point in found] == [
        ("b1", 1, 0, 0, 0),
        ("b2", 0, 12, 0, 0),
    ]
    assert [(point.batch, point.stopped) for point in trend([], quarantine[1:], {})] == [("b1", 1)]


def test_a_batch_from_before_what_the_mirror_keeps_is_left_out() -> None:
    """Its snapshot has expired, or the mirror was made anew; nobody can say that it was stopped."""
    quarantine = [line(2, 11, "b2", read=12), line(1, 30, "b1", read=10)]

    assert [point.batch for point in trend([line(2, 10, "b2", read=12)], quarantine, {})] == ["b2"]


def test_many_batches_are_added_up_and_none_is_lost() -> None:
    """At most so many points; the newest ones are full."""
    lines = [line(number, 1000 - number, f"b{number}", read=1) for number in range(POINTS_MAX * 2 + 1, 0, -1)]
    found = trend(lines, [], {})

    assert len(found) <= POINTS_MAX
    assert sum(point.batches for point in found) == sum(point.read for point in found) == len(lines)
    assert {point.batches for point in found[1:]} == {3}
    assert found[-1].batch == f"b{POINTS_MAX * 2 + 1}"
    assert found[-1].since < found[-1].until


def test_a_table_without_batches_has_no_trend() -> None:
    """Its first snapshot only marks where it starts."""
    assert trend([line(1, 5, "start")], [], {}) == []
    assert last_published([line(1, 5, "start")]) is None


def test_the_last_publish_is_that_of_the_newest_batch() -> None:
    """Not when maintenance marked it again."""
    lines = [line(4, 1), line(3, 2, "b2", read=1), line(2, 20, "b2", read=1), line(1, 60, "b1", read=1)]

    assert last_published(lines) == NOW - timedelta(minutes=20)


def _ended() -> int:
    """What quarantine's marker counts when a stop has been ended."""
    start = Marker("shop", "b1", "t", None, Offsets({0: 3}), {}, None, None, {})
    stopped = replace(start, counts={STOPPED: 1})
    return beside_mirror(stopped, replace(stopped, counts={STOPPED: 0})).counts[STOPPED]


def test_a_stop_that_no_message_carries_is_a_point_of_its_own() -> None:
    """A broken rule about the table: drawn once, until something is published; its end is no point."""
    mirror = [line(3, 20, "b2", read=5), line(2, 60, "b1", read=10)]
    quarantine = [
        line(6, 10, "b1", stopped=1),
        line(5, 19, "b1", stopped=_ended()),
        line(4, 40, "b1", stopped=1),
        line(3, 41, "b1", stopped=1),
        line(2, 61, "b1", read=10),
    ]

    assert [(point.batch, point.stopped, point.until) for point in trend(mirror, quarantine, {})] == [
        ("b1", 0, NOW - timedelta(minutes=60)),
        ("", 1, NOW - timedelta(minutes=41)),
        ("b2", 0, NOW - timedelta(minutes=20)),
        ("", 1, NOW - timedelta(minutes=10)),
    ]


def test_a_stop_of_a_batch_that_was_judged_is_told_once() -> None:
    """What a batch would hold is committed, and then that this was too much: one bar, with the batch's id."""
    quarantine = [line(3, 39, "b2", stopped=1), line(2, 40, "b2", read=5, quarantined=5), line(1, 60, "b1", read=10)]

    assert [(point.batch, point.stopped) for point in trend([line(2, 60, "b1", read=10)], quarantine, {})] == [
        ("b1", 0),
        ("b2", 1),
    ]


def test_a_stop_before_anything_was_judged_is_told() -> None:
    """The quarantine table was made for it."""
    quarantine = [line(3, 5, "x", stopped=_ended()), line(2, 10, "x", stopped=1), line(1, 11, "x")]

    assert [(point.batch, point.stopped) for point in trend([], quarantine, {})] == [("", 1)]
