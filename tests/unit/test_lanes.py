"""Several topics read as one: their numbers never change, and nothing of one is taken for another's."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.config import TableConfig
from cdc_materializer.errors import ConfigError, OffsetRegression
from cdc_materializer.lanes import WIDTH, joined, joined_ids, kept_ids, numbered, other_topics, split, topic_of
from cdc_materializer.marker.lost import skip_lost
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.progress import check_unchanged
from cdc_materializer.source import TopicState, as_raw_counts

_topics = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=6)


@given(_topics, _topics, _topics)
def test_a_topic_keeps_its_number(first: list[str], then: list[str], last: list[str]) -> None:
    """Whichever topics come and go behind it; and each has one."""
    known = numbered((), first)
    later = numbered(numbered(known, then), last)

    assert later[: len(known)] == known
    assert sorted(later) == sorted({*first, *then, *last})


@given(st.lists(st.dictionaries(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=4))
def test_what_is_joined_is_split_into_the_same(parts: list[dict[int, int]]) -> None:
    """Each topic gets its own partitions back, by their own numbers."""
    end = joined(parts)
    span = Span("all", Offsets(dict.fromkeys(end, 0)), end)
    topics = [f"t{number}" for number in range(len(parts))]

    found = {part.topic: dict(part.end) for _, part in split(span, topics)}

    read = [{p: offset for p, offset in part.items() if offset} for part in parts]
    assert found == {topic: part for topic, part in zip(topics, read, strict=True) if part}
    assert {topic_of(partition) for partition in end} <= set(range(len(parts)))


def test_the_first_topic_keeps_its_partitions() -> None:
    """A mirror of one topic that becomes one of several goes on where it was."""
    assert joined([{0: 5, 1: 6}, {0: 7}]) == {0: 5, 1: 6, WIDTH: 7}


def test_only_the_topic_that_was_made_again_is_another() -> None:
    """Not one that came, and not one that is not there at the moment."""
    assert other_topics("a,b", "a,x") == {1}
    assert other_topics("a,b", "a,b,c") == other_topics("a,b", "a,") == other_topics(None, "a") == set()
    assert other_topics("a", "b") == {0}
    assert joined_ids(["a", None]) == "a,"
    assert joined_ids([None, None]) is None


def test_the_id_of_a_topic_that_was_not_asked_is_kept() -> None:
    """Else one that is made again would not be noticed; what was asked is told as it is."""
    assert kept_ids("a,b,c", "a,,d") == "a,b,d"
    assert kept_ids("a,b", "x") == "x,b"
    assert kept_ids("a", "a,b") == "a,b"
    assert kept_ids("a,b", None) == "a,b"
    assert kept_ids(None, "a") == "a"
    assert kept_ids(None, None) is None


def _state(topic: str, end: int) -> TopicState:
    return TopicState(topic, f"id-{topic}", Offsets({0: 0}), Offsets({0: end}))


def _raw(topic: str, topics: tuple[str, ...] = ()) -> Marker:
    return Marker("p", "b", topic, None, Offsets(), {}, None, None, {}, topics=topics)


def test_states_come_in_the_order_that_raw_knows() -> None:
    """A topic that is gone has no partitions, so that it is missed; a new one comes last."""
    parts = (_state("a", 1), _state("c", 3), _state("d", 4))
    raw = _raw("*", ("c", "b"))
    found = as_raw_counts(TopicState("*", None, Offsets(), Offsets(), parts), raw)

    assert found.topics == ("c", "b", "a", "d")
    assert found.ends == {0: 3, 2 * WIDTH: 1, 3 * WIDTH: 4}
    assert found.topic_id == "id-c,,id-a,id-d"
    assert as_raw_counts(found, raw) == found


def test_a_topic_that_becomes_one_of_several_stays_the_first() -> None:
    """Whatever the names of the others: its partitions are in raw already."""
    several = TopicState("*", None, Offsets(), Offsets(), (_state("a", 1), _state("b", 2)))

    assert as_raw_counts(several, _raw("b")).topics == ("b", "a")
    assert as_raw_counts(_state("b", 2), _raw("*", ("a", "b"))).ends == {WIDTH: 2}
    assert as_raw_counts(_state("b", 2), _raw("b")).topics == ()


@pytest.mark.parametrize("state", [_state("b", 2), TopicState("b*", None, Offsets(), Offsets(), (_state("b", 2),))])
def test_another_topic_than_raws_is_refused(state: TopicState) -> None:
    """Its offsets say nothing of what was read."""
    with pytest.raises(ConfigError, match=r"filled from the topic a, and pipeline\.yaml says b"):
        as_raw_counts(state, _raw("a"))


def test_what_was_lost_of_one_topic_is_no_others() -> None:
    """The topic that was made again is read from its beginning, the other goes on."""
    before = replace(_raw("*", ("a", "b")), topic_id="x,y", offsets=Offsets({0: 5, WIDTH: 7}))
    ends = Offsets({0: 9, WIDTH: 9})
    begin = Offsets({0: 0, WIDTH: 0})

    assert skip_lost(before, "x,z", begin, ends).bases == {WIDTH: 7}
    assert skip_lost(before, "x,y", begin, ends, frozenset({1})).bases == {WIDTH: 7}
    assert skip_lost(before, "x,", Offsets({0: 0}), Offsets({0: 9})).bases == {WIDTH: 7}


@pytest.mark.parametrize(("again", "place"), [("a", None), ("b", (WIDTH, 1)), ("", None)])
def test_of_several_topics_those_that_were_read_have_to_be_what_they_were(
    again: str, place: tuple[int, int] | None
) -> None:
    """One that a batch has nothing of is not asked for: it may be gone, and nothing of it was taken for another's."""
    planned = TopicState("*", "id-a,id-b", Offsets(), Offsets(), (_state("a", 1), _state("b", 2)))
    span = Span("*", Offsets({0: 1, WIDTH: 1}), Offsets({0: 1, WIDTH: 2}))
    table = TableConfig.model_validate({"topic": "*", "mirror": "shop.t"})
    asked: list[str] = []

    def state(topic: str) -> TopicState:
        asked.append(topic)
        return replace(_state(topic, 9), topic_id="other") if topic == again else _state(topic, 9)

    source: Any = SimpleNamespace(state=state)
    if place is None:
        check_unchanged(source, table, planned, span)
    else:
        with pytest.raises(OffsetRegression, match="Topic b was made again") as caught:
            check_unchanged(source, table, planned, span)
        assert caught.value.place == place
    assert asked == ["b"]
