"""What every source does, Kafka, recorded topics and the scripted one alike: the tests of all of them are these.

Two classes: the one asks only the driver, the other lets Spark read. What a planner makes of a source's states is part
of what is asked: it has to know a gap and a topic that was made again, and to take nothing else for one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import pytest

from cdc_materializer.config import TableConfig
from cdc_materializer.errors import OffsetGap, OffsetRegression, SourceUnavailable, TopicMissing
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.progress import plan_reading
from cdc_materializer.source import MESSAGE_COLUMNS, Source, TopicState, read_failure

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

Headers = Sequence[tuple[str, bytes | None]]


class Bench(Protocol):
    """A source with one topic of one partition, and what producers and brokers do to it."""

    @property
    def source(self) -> Source:
        """The source."""

    @property
    def topic(self) -> str:
        """The name of the topic."""

    def send(
        self, key: bytes | None, value: bytes | None, *, partition: int = 0, headers: Headers | None = None
    ) -> None:
        """A message comes."""

    def hole(self) -> None:
        """An offset, or some, that no reader gets, behind the last message of partition 0."""

    def add_partition(self) -> None:
        """The topic has a partition more: 1."""

    def forget_before(self, offset: int) -> None:
        """Retention takes what is before an offset of partition 0."""

    def make_again(self) -> None:
        """The topic is deleted and made again, of one partition, empty."""


def fill(bench: Bench, count: int, partition: int = 0) -> None:
    """Send messages whose keys and values are their numbers."""
    for number in range(count):
        bench.send(str(number).encode(), b"value %d" % number, partition=partition)


def plan(bench: Bench, before: TopicState | None, reached: Offsets | None = None) -> Span:
    """What is to be read by one that had read all that a topic had; or had got as far as is said.

    Raises:
        OffsetRegression, OffsetGap: as `plan_reading` does.
    """
    table = TableConfig.model_validate({"topic": bench.topic, "mirror": "shop.things", "records_max": 1_000})
    state = bench.source.state(bench.topic)
    if before is None:
        return plan_reading(table, state, None)
    ends = before.ends if reached is None else reached
    marker = Marker("tests", "b", bench.topic, before.topic_id, ends, {}, None, None, {})
    return plan_reading(table, state, marker)


class SourceContract:
    """What the driver asks; a subclass beside a fixture `bench` runs the tests."""

    def test_a_topic_begins_and_ends_where_its_messages_do(self, bench: Bench) -> None:
        """Of each partition the first offset and one past the last; the topic is listed."""
        bench.add_partition()
        fill(bench, 3)
        fill(bench, 2, 1)

        state = bench.source.state(bench.topic)

        assert (state.topic, state.beginnings, state.ends) == (
            *(bench.topic, Offsets({0: 0, 1: 0})),
            Offsets({0: 3, 1: 2}),
        )
        listed = bench.source.topics()
        assert bench.topic in listed
        assert list(listed) == sorted(listed)

    def test_an_empty_topic_has_nothing_to_read(self, bench: Bench) -> None:
        """Whether it says so of its partition, or knows of none yet."""
        state = bench.source.state(bench.topic)

        assert state.beginnings == state.ends
        assert not any(state.ends.values())
        assert plan(bench, None).is_empty
        assert bench.source.sample(bench.topic, 5) == ()

    def test_a_topic_that_is_not_there_is_told_as_such(self, bench: Bench) -> None:
        """Not as a source that cannot be read."""
        for ask in (lambda: bench.source.state(f"{bench.topic}x"), lambda: bench.source.sample(f"{bench.topic}x", 1)):
            with pytest.raises(TopicMissing):
                ask()

    def test_a_topic_says_that_nothing_is_removed_from_its_middle(self, bench: Bench) -> None:
        """Unless it is compacted; and one that is not there is told as such."""
        fill(bench, 2)

        assert not bench.source.is_compacted(bench.topic)
        assert bench.source.deletes_kept(bench.topic) is None
        for ask in (bench.source.is_compacted, bench.source.deletes_kept):
            with pytest.raises(TopicMissing):
                ask(f"{bench.topic}x")

    def test_a_topic_that_grows_stays_the_same_one(self, bench: Bench) -> None:
        """What came since is to be read, and nothing else."""
        fill(bench, 2)
        before = bench.source.state(bench.topic)
        fill(bench, 3)

        span = plan(bench, before)

        assert bench.source.state(bench.topic).topic_id == before.topic_id
        assert list(span.ranges()) == [(0, 2, 5)]
        assert plan(bench, bench.source.state(bench.topic)).is_empty

    def test_a_partition_that_is_added_is_read_from_its_beginning(self, bench: Bench) -> None:
        """The others go on where they were."""
        fill(bench, 2)
        before = bench.source.state(bench.topic)
        bench.add_partition()
        fill(bench, 2, 1)
        fill(bench, 1)

        assert sorted(plan(bench, before).ranges()) == [(0, 2, 3), (1, 0, 2)]

    def test_holes_are_no_gap(self, bench: Bench) -> None:
        """Read up to before one, in it or behind it, a topic goes on; and its end is behind the last message."""
        fill(bench, 1)
        before = bench.source.state(bench.topic)
        bench.hole()
        fill(bench, 1)
        state = bench.source.state(bench.topic)

        assert state.ends[0] > before.ends[0] + 1
        for reached in range(state.ends[0] + 1):
            assert plan(bench, before, Offsets({0: reached})).end == state.ends
        last = max(message.offset for message in bench.source.sample(bench.topic, 5))
        assert before.ends[0] < last < state.ends[0]

    def test_messages_that_retention_took_unread_are_a_gap(self, bench: Bench) -> None:
        """The topic begins later; who had read them is not concerned."""
        fill(bench, 4)
        before = bench.source.state(bench.topic)
        bench.forget_before(2)

        assert bench.source.state(bench.topic).beginnings == Offsets({0: 2})
        assert plan(bench, before).is_empty
        assert list(plan(bench, before, Offsets({0: 2})).ranges()) == [(0, 2, 4)]
        with pytest.raises(OffsetGap):
            plan(bench, before, Offsets({0: 1}))

    def test_a_topic_that_was_made_again_is_another_one(self, bench: Bench) -> None:
        """Its offsets begin anew, so that a plan on the earlier ones would pass over its messages."""
        fill(bench, 3)
        before = bench.source.state(bench.topic)
        bench.make_again()
        fill(bench, 1)

        assert bench.source.state(bench.topic).ends == Offsets({0: 1})
        with pytest.raises(OffsetRegression):
            plan(bench, before)

    def test_a_sample_has_both_ends_of_each_partition_once(self, bench: Bench) -> None:
        """By offset and partition; of a short one all."""
        bench.add_partition()
        fill(bench, 5)
        fill(bench, 1, 1)

        found = bench.source.sample(bench.topic, 2)

        assert [(one.partition, one.offset) for one in found] == [(0, 0), (1, 0), (0, 1), (0, 3), (0, 4)]
        assert (found[0].key, found[0].value) == (b"0", b"value 0")


class ReadContract:
    """What Spark reads; a subclass beside the fixtures `bench` and `spark` runs the tests."""

    def test_messages_are_read_as_they_were_sent(self, bench: Bench, spark: "SparkSession") -> None:
        """Every byte, nulls that are no empty texts, and headers whose names repeat; in the columns of Spark's."""
        every = bytes(range(256))
        bench.send(every, every, headers=[("h", b""), ("h", None), ("é", every)])
        bench.send(None, None)
        bench.send(b"", b"")

        frame = bench.source.read(spark, plan(bench, None))
        first, nulls, empty = frame.orderBy("offset").collect()

        assert tuple(frame.columns) == MESSAGE_COLUMNS
        assert [kind for _, kind in frame.dtypes] == [
            *("binary", "binary", "string", "int", "bigint", "timestamp", "int"),
            "array<struct<key:string,value:binary>>",
        ]
        assert (first.key, first.value, first.topic, first.partition, first.offset) == (every, every, bench.topic, 0, 0)
        assert [tuple(header) for header in first.headers] == [("h", b""), ("h", None), ("é", every)]
        assert (nulls.key, nulls.value, nulls.headers) == (None, None, None)
        assert (empty.key, empty.value) == (b"", b"")
        assert all(row.timestamp is not None for row in (first, nulls, empty))

    def test_a_span_is_read_and_nothing_else(self, bench: Bench, spark: "SparkSession") -> None:
        """Each partition from its start to before its end, also when more has come since it was planned."""
        bench.add_partition()
        fill(bench, 4)
        fill(bench, 3, 1)
        span = Span(bench.topic, Offsets({0: 1, 1: 2}), Offsets({0: 3, 1: 2}))
        fill(bench, 2)

        assert places(bench.source.read(spark, span).collect()) == [(0, 1), (0, 2)]
        nothing = Span(bench.topic, Offsets(), Offsets())
        assert bench.source.read(spark, nothing).collect() == []

    def test_holes_have_no_messages(self, bench: Bench, spark: "SparkSession") -> None:
        """The span has fewer messages than offsets, each once, and reading it again gives the same."""
        fill(bench, 1)
        bench.hole()
        fill(bench, 1)
        span = plan(bench, None)

        found = [places(bench.source.read(spark, span).collect()) for _ in range(2)]

        assert found[0] == found[1]
        assert places_of(bench) == found[0]
        assert len(found[0]) < sum(span.end.values())

    def test_a_span_that_is_gone_is_an_error(self, bench: Bench, spark: "SparkSession") -> None:
        """Retention was faster than the run: fewer messages than were planned never pass for a hole."""
        fill(bench, 4)
        span = plan(bench, None)
        bench.forget_before(2)

        with pytest.raises(Exception, match=r".") as caught:
            bench.source.read(spark, span).collect()

        failure = (
            caught.value if isinstance(caught.value, SourceUnavailable) else read_failure(caught.value, span.topic)
        )
        assert failure is not None
        assert failure.exit_code == 3


def places(found: "list[Row]") -> list[tuple[int, int]]:
    """Where messages lie."""
    return sorted((row.partition, row.offset) for row in found)


def places_of(bench: Bench) -> list[tuple[int, int]]:
    """Where all messages of a short topic lie, by its sample."""
    return sorted((one.partition, one.offset) for one in bench.source.sample(bench.topic, 100))
