"""Where raw has no message, which spans hold all of that, and what of it a topic can still tell."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.holes import (
    Bucket,
    Hole,
    accepted,
    exactly,
    holes_in,
    merged,
    never_landed,
    parted,
    spans_of,
    without,
)
from cdc_materializer.marker.adopted import Accepted, Adoption

WIDTH = 8
ENDS = 40

_offsets = st.sets(st.integers(0, ENDS - 1))
_holes = st.lists(st.builds(Hole, st.integers(0, 2), st.integers(0, ENDS), st.integers(0, ENDS)), max_size=8).map(
    lambda found: merged(one for one in found if one.start < one.end)
)


def _buckets(partition: int, there: set[int]) -> list[Bucket]:
    numbers = {offset // WIDTH for offset in there}
    parts = {number: [offset for offset in there if offset // WIDTH == number] for number in numbers}
    return [Bucket(partition, number, len(part), min(part), max(part)) for number, part in parts.items()]


def _in(holes: list[Hole]) -> set[tuple[int, int]]:
    return {(hole.partition, offset) for hole in holes for offset in range(hole.start, hole.end)}


@pytest.mark.parametrize(
    ("there", "holes"),
    [
        (range(20), []),
        ((), [Hole(0, 0, 20)]),
        (range(5, 20), [Hole(0, 0, 5)]),
        (range(9, 20), [Hole(0, 0, 9)]),
        ((*range(3), *range(17, 20)), [Hole(0, 3, 17)]),
        (range(11), [Hole(0, 11, 20)]),
        ((*range(3), *range(5, 20)), [Hole(0, 0, 8)]),
    ],
    ids=["none", "all", "the head", "more than a bucket", "the middle", "the end", "inside of a bucket"],
)
def test_holes_are_exact_where_a_buckets_messages_follow_on_each_other(there: range, holes: list[Hole]) -> None:
    """A bucket with a hole between its messages is looked at as a whole."""
    assert holes_in(_buckets(0, set(there)), {0: 20}, WIDTH) == holes


@given(_offsets, _offsets)
def test_no_offset_without_a_message_is_outside_of_the_holes(one: set[int], other: set[int]) -> None:
    """In order, apart from each other, and none where a partition has all."""
    ends = {0: ENDS, 1: ENDS}

    found = holes_in([*_buckets(1, other), *_buckets(0, one)], ends, WIDTH)

    lacking = {(p, at) for p, there in ((0, one), (1, other)) for at in range(ENDS) if at not in there}
    assert lacking <= _in(found)
    assert found == merged(found)
    assert {hole.partition for hole in found} == {partition for partition, _ in lacking}


@given(_holes, st.dictionaries(st.integers(0, 2), st.tuples(st.integers(0, ENDS), st.integers(0, ENDS))))
def test_what_a_topic_has_and_what_it_has_not_are_all_of_the_holes(
    holes: list[Hole], reach: Mapping[int, tuple[int, int]]
) -> None:
    """Each offset is in one of the two, by where the topic begins and ends."""
    there, gone = parted(holes, reach)

    can_be_read = {(p, at) for p, (first, end) in reach.items() for at in range(first, end)}
    assert _in(there) == _in(holes) & can_be_read
    assert _in(gone) == _in(holes) - can_be_read


@given(_holes, _holes)
def test_what_is_left_of_holes_without_others_is_in_them_alone(holes: list[Hole], known: list[Hole]) -> None:
    """Whichever offset."""
    found = without(holes, known)

    assert _in(found) == _in(holes) - _in(known)
    assert found == merged(found)


def _gap(offsets: Mapping[int, int], lost: int, began: Mapping[int, int] | None = None) -> Adoption:
    return Adoption("gap", offsets, lost, "2026-11-01T00:00:00+00:00", "tests", None, began or {})


@pytest.mark.parametrize(
    ("begun", "adopted", "holes"),
    [
        ({0: 0}, (), []),
        ({0: 5, 1: 0}, (), [Hole(0, 0, 5)]),
        ({0: 0}, [_gap({0: 9, 1: 7, 2: 4}, 8, {0: 8, 1: 4})], [Hole(0, 8, 9), Hole(1, 4, 7), Hole(2, 0, 4)]),
        ({0: 2}, [_gap({0: 9}, 3), _gap({0: 30}, 9)], [Hole(0, 0, 2), Hole(0, 6, 9), Hole(0, 21, 30)]),
        ({0: 0, 1: 0}, [_gap({0: 9, 1: 7}, 3)], []),
    ],
    ids=["all", "begun late", "accepted", "accepted by an earlier version", "likewise, in one of two partitions"],
)
def test_what_no_run_was_to_land_is_known(
    begun: Mapping[int, int], adopted: Sequence[Adoption], holes: list[Hole]
) -> None:
    """It is before where raw was begun, and in gaps that were accepted, where these say their places."""
    assert never_landed(begun, adopted) == holes


@given(_holes, st.integers(1, 50))
def test_spans_hold_every_hole_once_and_no_more_offsets_than_a_batch_may_have(holes: list[Hole], limit: int) -> None:
    """Each partition has one range in a span, and no offset comes twice."""
    spans = list(spans_of("t", holes, limit))

    read = [(p, at) for span in spans for p, start, end in span.ranges() for at in range(start, end)]
    assert len(read) == len(set(read))
    assert _in(holes) <= set(read)
    assert all(0 < span.count <= max(limit, len(span.start)) for span in spans)


def test_scattered_holes_do_not_make_a_batch_each() -> None:
    """As marks of transactions are: what lies between is read with them."""
    holes = [Hole(0, at, at + 1) for at in range(0, 1_000, 2)]

    assert [span.ranges() for span in spans_of("t", holes, 500)] == [((0, 0, 499),), ((0, 500, 999),)]


@given(_offsets, _holes)
def test_what_lacks_in_holes_is_told_exactly(there: set[int], holes: list[Hole]) -> None:
    """By the gaps between messages: no offset that has one, and none outside."""
    gaps = merged(Hole(0, at, at + 1) for at in range(-3, ENDS + 3) if at not in there)

    found = exactly(holes, gaps)

    assert _in(found) == {(p, at) for p, at in _in(holes) if p == 0 and at not in there}


def test_holes_are_named_as_messages_are() -> None:
    """By their first and last offsets."""
    assert [str(Hole(3, 5, 9)), str(Hole(3, 5, 6))] == ["3/5 to 3/8", "3/5"]


def _accepted(what: Accepted, offsets: Mapping[int, int], began: Mapping[int, int] | None = None) -> tuple[Hole, ...]:
    told = Adoption(what, offsets, 5, "2026-01-01T00:00:00+00:00", "somebody", began=began or {})
    return accepted([told])


def test_what_was_accepted_as_lost_is_where_it_was() -> None:
    """A partition that lost nothing has none; of a topic that was made again each has an empty one."""
    assert _accepted("gap", {0: 15, 1: 8}, {0: 10, 1: 8}) == (Hole(0, 10, 15),)
    assert _accepted("gap", {0: 15, 2: 3}, {0: 10}) == (Hole(0, 10, 15), Hole(2, 0, 3))
    assert _accepted("topic", {0: 7, 1: 8}, {0: 7, 1: 8}) == (Hole(0, 7, 7), Hole(1, 8, 8))
    assert _accepted("gap", {0: 15}) == (Hole(0, 14, 15),)
    assert _accepted("topic", {0: 15}) == (Hole(0, 15, 15),)
    assert _accepted("positions", {0: 15}) == ()
