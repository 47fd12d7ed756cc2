"""Several topics read as one: their numbers never change, and nothing of one is taken for another's."""

from hypothesis import given
from hypothesis import strategies as st

from cdc_materializer.lanes import WIDTH, joined, joined_ids, numbered, other_topics, split, topic_of
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.source import TopicState, in_order_of

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


def _state(topic: str, end: int) -> TopicState:
    return TopicState(topic, f"id-{topic}", Offsets({0: 0}), Offsets({0: end}))


def test_states_come_in_the_order_that_raw_knows() -> None:
    """A topic that is gone has no partitions, so that it is missed; a new one comes last."""
    parts = (_state("a", 1), _state("c", 3), _state("d", 4))
    found = in_order_of(TopicState("*", None, Offsets(), Offsets(), parts), ("c", "b"))

    assert found.topics == ("c", "b", "a", "d")
    assert found.ends == {0: 3, 2 * WIDTH: 1, 3 * WIDTH: 4}
    assert found.topic_id == "id-c,,id-a,id-d"
    assert in_order_of(found, found.topics) == found
