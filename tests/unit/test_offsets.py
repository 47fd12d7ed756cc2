"""Spans cover every offset once, in fair turns; markers survive a snapshot's summary and carry nothing of a row."""

import copy
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.errors import InvariantBroken, OffsetGap, OffsetRegression
from cdc_materializer.marker.adopted import Adoption
from cdc_materializer.marker.lost import skip_lost
from cdc_materializer.marker.marker import Marker
from cdc_materializer.marker.snapshots import Followed, Snapshot
from cdc_materializer.offsets import Offsets, Span, batch_id, plan_span

_partitions = st.integers(0, 40)
_offsets = st.dictionaries(_partitions, st.integers(0, 2**62), max_size=6).map(Offsets)
_names = st.text(st.characters(categories=("L", "N"), include_characters="_.-"), min_size=1, max_size=20)
_snapshots = st.builds(
    Snapshot,
    position=st.none() | st.text(),
    begins=st.dictionaries(_partitions, st.integers(0, 2**62), max_size=3),
    ends=st.dictionaries(_partitions, st.integers(0, 2**62), max_size=3),
    ahead=st.dictionaries(_partitions, st.text(), max_size=3),
    has_begin=st.booleans(),
    has_end=st.booleans(),
    is_fresh=st.booleans(),
)
_markers = st.builds(
    Marker,
    pipeline=st.text(),
    batch=_names,
    topic=_names,
    topic_id=st.none() | st.text(),
    offsets=_offsets,
    positions=st.dictionaries(_partitions, st.text(), max_size=4),
    times=st.dictionaries(_partitions, st.integers(), max_size=4),
    stamps=st.dictionaries(_partitions, st.text(), max_size=4),
    source_snapshot=st.none() | st.integers(0, 2**63 - 1),
    contract=st.none() | _names,
    counts=st.dictionaries(_names, st.integers(0, 2**40), max_size=4),
    bases=_offsets,
    epochs=st.lists(_offsets, max_size=2).map(tuple),
    logs=st.dictionaries(_names, st.integers(0, 2**40), max_size=3),
    adopted=st.lists(
        st.builds(
            Adoption,
            what=st.sampled_from(["gap", "topic", "positions"]),
            offsets=_offsets,
            lost=st.integers(0, 2**40),
            at=_names,
            by=st.text(),
            reason=st.none() | st.text(),
        ),
        max_size=2,
    ).map(tuple),
    source_table=st.none() | _names,
    snapshots=st.none()
    | st.builds(Followed, running=st.lists(_snapshots, max_size=2).map(tuple), tables=st.tuples(st.text())),
)


@st.composite
def _topics(draw: st.DrawFn) -> tuple[Offsets, Offsets]:
    """Draw the beginnings and ends of a topic."""
    lengths = draw(st.dictionaries(_partitions, st.tuples(st.integers(0, 1000), st.integers(0, 60)), max_size=6))
    return (
        Offsets({partition: first for partition, (first, _) in lengths.items()}),
        Offsets({partition: first + length for partition, (first, length) in lengths.items()}),
    )


@given(_offsets)
def test_offsets_read_back_from_their_json(offsets: Offsets) -> None:
    """The JSON holds all of it, and equal offsets give equal text."""
    assert Offsets.from_json(offsets.to_json()) == offsets
    assert hash(Offsets.from_json(offsets.to_json())) == hash(offsets)


def test_offsets_are_ordered_by_number_not_by_text() -> None:
    """Partition 10 comes after partition 9."""
    assert Offsets({10: 1, 9: 2}).to_json() == '{"9":2,"10":1}'


def test_offsets_do_not_change_with_the_mapping_they_came_from() -> None:
    """They are a copy, and can be copied."""
    given_offsets = {0: 5}
    offsets = Offsets(given_offsets)
    given_offsets[0] = 6

    assert offsets == {0: 5}
    assert copy.deepcopy(offsets) == offsets
    assert len(Offsets()) == 0


@pytest.mark.parametrize("bad", [{0: -1}, {-1: 0}, {0: True}, {0: 1.0}, {"0": 1}])
def test_offsets_that_are_none_are_refused(bad: dict[int, int]) -> None:
    """Only whole numbers from zero up pass."""
    with pytest.raises(InvariantBroken):
        Offsets(bad)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", '{"0":"5"}', '{"0":-5}', '{"00":5}', '{"a":5}', '{"0":1,"0":2}', '{"0":1.5}', "[" * 100_000],
)
def test_offsets_that_cannot_be_read_are_refused_not_guessed(text: str) -> None:
    """Unreadable progress must never count as none."""
    with pytest.raises(InvariantBroken):
        Offsets.from_json(text)


def test_a_span_knows_its_ranges_and_size() -> None:
    """Partitions with nothing to read are in the span and not in its ranges."""
    span = Span("t", Offsets({0: 5, 1: 7}), Offsets({0: 8, 1: 7}))

    assert (span.is_empty, span.count, span.ranges()) == (False, 3, ((0, 5, 8),))


@pytest.mark.parametrize(("start", "end"), [({0: 5}, {0: 4}), ({0: 5}, {1: 5}), ({0: 5}, {})])
def test_a_span_that_ends_before_it_starts_cannot_be_made(start: dict[int, int], end: dict[int, int]) -> None:
    """Both ends name the same partitions, in order."""
    with pytest.raises(InvariantBroken):
        Span("t", Offsets(start), Offsets(end))


@given(_topics(), st.integers(1, 100))
def test_a_plan_takes_exactly_what_there_is_up_to_the_limit(topic: tuple[Offsets, Offsets], limit: int) -> None:
    """Neither a message less, nor one more; and none beyond the ends."""
    beginnings, ends = topic
    span = plan_span("t", None, beginnings, ends, limit)

    assert span.count == min(limit, sum(ends[p] - beginnings[p] for p in ends))
    assert all(span.end[p] <= ends[p] for p in ends)


@given(_topics(), st.integers(1, 100))
def test_chained_plans_reach_the_ends_without_a_hole_or_an_overlap(topic: tuple[Offsets, Offsets], limit: int) -> None:
    """From nothing recorded, each plan starts where the last ended, moves on, and the last one ends at the ends."""
    beginnings, ends = topic
    recorded: Offsets | None = None
    reached = beginnings
    while not (span := plan_span("t", recorded, beginnings, ends, limit)).is_empty:
        assert span.start == reached
        recorded = reached = span.end

    assert reached == ends


@given(_topics(), st.integers(1, 100))
def test_no_partition_gets_less_than_its_even_share(topic: tuple[Offsets, Offsets], limit: int) -> None:
    """Each partition gets all it has, or at least the limit divided by the partitions that have something."""
    beginnings, ends = topic
    shares = {p: end - start for p, start, end in plan_span("t", None, beginnings, ends, limit).ranges()}
    waiting = [p for p in ends if ends[p] > beginnings[p]]

    for partition in waiting:
        assert shares.get(partition, 0) >= min(ends[partition] - beginnings[partition], limit // len(waiting))


@given(st.integers(2, 7), st.integers(1, 7))
def test_with_fewer_records_than_partitions_each_gets_its_turn(partitions: int, limit: int) -> None:
    """A quiet partition is not starved by busy ones: within as many batches as partitions, each is read."""
    zero, ends = Offsets(dict.fromkeys(range(partitions), 0)), Offsets(dict.fromkeys(range(partitions), 1000))
    recorded: Offsets | None = None
    for _ in range(partitions):
        recorded = plan_span("t", recorded, zero, ends, limit).end

    assert recorded is not None
    assert min(recorded.values()) >= 1
    assert max(recorded.values()) - min(recorded.values()) <= 1


def test_a_new_partition_starts_at_its_beginning() -> None:
    """A topic that was given more partitions goes on."""
    span = plan_span("t", Offsets({0: 5}), Offsets({0: 0, 1: 3}), Offsets({0: 5, 1: 4}), 10)

    assert span.ranges() == ((1, 3, 4),)


def test_a_plan_with_nothing_new_is_empty() -> None:
    """Recorded at the ends: nothing to read, nothing to commit."""
    assert plan_span("t", Offsets({0: 5}), Offsets({0: 0}), Offsets({0: 5}), 10).is_empty
    assert plan_span("t", None, Offsets(), Offsets(), 10).is_empty


@pytest.mark.parametrize("ends", [{0: 4}, {}, {1: 9}])
def test_a_topic_that_ends_before_what_was_read_stops_the_table(ends: dict[int, int]) -> None:
    """A partition that ends early or is gone means another topic than the one that was read."""
    beginnings = Offsets(dict.fromkeys(ends, 0))
    with pytest.raises(
        OffsetRegression, match=r"Topic shop\.a, partition 0: everything before offset 5 was read"
    ) as caught:
        plan_span("shop.a", Offsets({0: 5}), beginnings, Offsets(ends), 10)

    assert (caught.value.exit_code, caught.value.code) == (6, "OFFSET_REGRESSION")


@pytest.mark.parametrize("end", [9, 7])
def test_messages_that_left_the_topic_unread_stop_the_table(end: int) -> None:
    """The message says how many at most."""
    with pytest.raises(OffsetGap, match="up to 2 messages are lost") as caught:
        plan_span("t", Offsets({0: 5}), Offsets({0: 7}), Offsets({0: end}), 10)

    assert (caught.value.exit_code, caught.value.code) == (6, "OFFSET_GAP")


def test_a_source_that_contradicts_itself_is_refused() -> None:
    """Beginnings and ends name the same partitions, and a batch may have at least one message."""
    with pytest.raises(InvariantBroken):
        plan_span("t", None, Offsets({0: 0}), Offsets({1: 0}), 10)
    with pytest.raises(InvariantBroken):
        plan_span("t", None, Offsets({0: 0}), Offsets({0: 1}), 0)


@given(_markers)
def test_a_marker_reads_back_from_a_summary(marker: Marker) -> None:
    """Whatever else the summary holds, every field comes back, and only declared fields are in it."""
    summary = marker.to_summary()
    declared = {"cdcm." + field.name.replace("_", "-") for field in dataclasses.fields(Marker)}

    assert Marker.from_summary({"operation": "append", "added-records": "1", **summary}) == marker
    assert summary.keys() <= declared
    assert all(isinstance(value, str) for value in summary.values())


def test_a_marker_is_written_under_the_agreed_names() -> None:
    """Other tools read these properties: names and forms stay."""
    marker = Marker(
        "shop", "ab12", "s.p.o", "id", Offsets({1: 2, 0: 5}), {0: "0/16B"}, 77, "c0ffee", {"read": 5}, {0: -1}
    )

    assert marker.to_summary() == {
        "cdcm.version": "1",
        "cdcm.pipeline": "shop",
        "cdcm.batch": "ab12",
        "cdcm.topic": "s.p.o",
        "cdcm.topic-id": "id",
        "cdcm.offsets": '{"0":5,"1":2}',
        "cdcm.positions": '{"0":"0/16B"}',
        "cdcm.source-snapshot": "77",
        "cdcm.contract": "c0ffee",
        "cdcm.counts": '{"read":5}',
        "cdcm.times": '{"0":-1}',
    }


def test_a_snapshot_without_a_marker_has_none() -> None:
    """Snapshots of maintenance carry no marker."""
    assert Marker.from_summary({"operation": "replace"}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("version", "2"),
        ("version", "0"),
        ("version", "x"),
        ("offsets", "{"),
        ("offsets", None),
        ("positions", '{"0":1}'),
        ("times", '{"0":"1"}'),
        ("positions", '{"x":"1"}'),
        ("source-snapshot", "-1"),
        ("counts", '{"read":"5"}'),
        ("counts", '{"read":true}'),
        ("batch", None),
        ("topic", None),
        ("pipeline", None),
        ("bases", '{"0":-1}'),
        ("epochs", "[1]"),
        ("epochs", '{"0":1}'),
        ("logs", '{"a":"1"}'),
        ("settles", "false"),
        ("settles", ""),
        ("swapped", ""),
        ("swapped", "1 2 3"),
        ("adopted", '[{"what":"more","offsets":{},"lost":0,"at":"","by":""}]'),
        ("adopted", '[{"what":"gap","lost":0,"at":"","by":""}]'),
    ],
)
def test_a_marker_that_cannot_be_read_stops_everything(name: str, value: str | None) -> None:
    """Garbage, a missing field and a newer version are a broken invariant, never a fresh start."""
    summary = Marker("p", "b", "t", None, Offsets({0: 5}), {}, 1, None, {}).to_summary()
    changed = {**summary, f"cdcm.{name}": value}
    with pytest.raises(InvariantBroken, match="marker"):
        Marker.from_summary({key: text for key, text in changed.items() if text is not None})


@given(_topics(), st.integers(1, 100))
def test_a_batch_has_the_same_id_on_every_retry_and_another_in_another_place(
    topic: tuple[Offsets, Offsets], limit: int
) -> None:
    """The id depends on pipeline, table and span alone."""
    span = plan_span("t", None, *topic, limit)
    own = batch_id("p", "uuid", span)

    assert own == batch_id("p", "uuid", Span("t", Offsets(span.start), Offsets(span.end)))
    assert len(own) == 16
    assert int(own, 16) >= 0
    assert own not in {batch_id("q", "uuid", span), batch_id("p", "other", span)}
    assert own != batch_id("p", "uuid", Span("u", span.start, span.end))


def test_what_looks_again_is_told_by_the_batch_before_it() -> None:
    """Releases and repairs at one place are as many batches; a retry of one finds its own id, whatever it has read."""
    here = Span("t", Offsets({0: 7}), Offsets({0: 7}))
    first = batch_id("p", "uuid", here, "b")

    assert first == batch_id("p", "uuid", Span("t", Offsets({0: 7}), Offsets({0: 9})), "b")
    assert len({first, batch_id("p", "uuid", here, first), batch_id("p", "uuid", here, "repair b")}) == 3
    assert first != batch_id("p", "uuid", here)


def _landed(offsets: dict[int, int], topic_id: str | None = None, bases: dict[int, int] | None = None) -> Marker:
    return Marker("p", "b", "t", topic_id, Offsets(offsets), {}, None, None, {}, bases=bases or {})


@pytest.mark.parametrize(
    ("before", "topic_id", "beginnings", "ends", "bases", "offsets"),
    [
        pytest.param(_landed({0: 5}), None, {0: 9}, {0: 12}, {}, {0: 9}, id="messages left the topic"),
        pytest.param(_landed({0: 5}), None, {0: 0}, {0: 3}, {0: 5}, {0: 5}, id="it ends before what was read"),
        pytest.param(_landed({0: 5}, "a"), "b", {0: 0}, {0: 30}, {0: 5}, {0: 5}, id="another topic, and longer"),
        pytest.param(_landed({0: 5}, "a"), "b", {0: 7}, {0: 9}, {0: 0}, {0: 7}, id="another topic, begun late"),
        pytest.param(_landed({0: 5}, "a"), "a", {0: 0}, {0: 3}, {0: 5}, {0: 5}, id="the same topic lost its end"),
        pytest.param(
            _landed({0: 5, 1: 4}, "a"), "b", {0: 0}, {0: 1}, {0: 5, 1: 4}, {0: 5, 1: 4}, id="a partition less"
        ),
        pytest.param(_landed({0: 8}, None, {0: 5}), None, {0: 0}, {0: 2}, {0: 8}, {0: 8}, id="made again once more"),
        pytest.param(_landed({0: 5}), None, {0: 2}, {0: 7}, {}, {0: 5}, id="nothing was lost"),
    ],
)
def test_what_was_lost_is_skipped_and_nothing_else(
    before: Marker,
    topic_id: str | None,
    beginnings: dict[int, int],
    ends: dict[int, int],
    bases: dict[int, int],
    offsets: dict[int, int],
) -> None:
    """After it the topic can be planned on, from where it begins or goes on, and never back in the table's offsets."""
    after = skip_lost(before, topic_id, Offsets(beginnings), Offsets(ends))

    assert (dict(after.bases), dict(after.offsets)) == (bases, offsets)
    own = after.in_table(ends)
    span = plan_span("t", after.next_of(own), after.in_table(beginnings), own, 1_000)
    assert after.in_topic(span.end) == ends


def test_a_rewound_topic_that_has_grown_again_is_read_from_its_beginning() -> None:
    """Without an id nothing but the stop itself tells that it is another topic."""
    before = _landed({0: 5})

    assert skip_lost(before, None, Offsets({0: 0}), Offsets({0: 9})) == before
    assert skip_lost(before, None, Offsets({0: 0}), Offsets({0: 9}), frozenset({0})).bases == {0: 5}
