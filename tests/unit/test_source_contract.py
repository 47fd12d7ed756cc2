"""What the driver learns from a source: the one in memory is held to the tests of those that are real."""

from datetime import timedelta
from pathlib import Path

import pytest

from cdc_materializer.config import TableConfig
from cdc_materializer.errors import OffsetGap, OffsetRegression, SourceUnavailable
from cdc_materializer.marker.lost import skip_lost
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.progress import plan_reading
from cdc_materializer.testing import ScriptedSource
from tests.model.source_benches import TOPIC, RecordedBench, ScriptedBench
from tests.model.source_contract import SourceContract, fill, plan


class TestRecordedSource(SourceContract):
    """A folder of files."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> RecordedBench:
        """An empty file."""
        return RecordedBench(tmp_path)


class TestScriptedSource(SourceContract):
    """The broker in memory, and what only it can be told to do."""

    @pytest.fixture
    def bench(self) -> ScriptedBench:
        """An empty topic."""
        return ScriptedBench()

    def test_a_topic_that_lost_its_end_is_noticed(self, bench: ScriptedBench) -> None:
        """As after an unclean election: its id is the same."""
        fill(bench, 4)
        before = bench.source.state(TOPIC)
        bench.source.cut(TOPIC, 2)

        assert bench.source.state(TOPIC).topic_id == before.topic_id
        with pytest.raises(OffsetRegression):
            plan(bench, before)

    def test_a_topic_that_was_made_again_is_noticed_when_it_has_grown(self, bench: ScriptedBench) -> None:
        """By its id alone: its offsets fit."""
        fill(bench, 2)
        before = bench.source.state(TOPIC)
        bench.source.delete(TOPIC)
        bench.make_again()
        fill(bench, 3)

        with pytest.raises(OffsetRegression):
            plan(bench, before)

    def test_a_partition_that_lost_its_first_messages_before_it_was_read_is_a_gap(self, bench: ScriptedBench) -> None:
        """It was added since, so that they were there to be read; accepted, the rest of it is."""
        fill(bench, 2)
        before = bench.source.state(TOPIC)
        bench.add_partition()
        fill(bench, 3, 1)
        assert list(plan(bench, before).ranges()) == [(1, 0, 3)]
        bench.source.forget_before(TOPIC, 2, partition=1)

        with pytest.raises(OffsetGap, match=r"Partition 1 was added .* first 2 messages are gone") as caught:
            plan(bench, before)

        now = bench.source.state(TOPIC)
        raw = Marker("p", "b", TOPIC, before.topic_id, before.ends, {}, None, None, {})
        adopted = skip_lost(raw, now.topic_id, now.beginnings, now.ends)
        assert (caught.value.place, dict(adopted.offsets)) == ((1, 0), {0: 2, 1: 2})
        assert list(plan(bench, now, adopted.offsets).ranges()) == [(1, 2, 3)]

    def test_a_topic_that_was_made_again_with_more_partitions_is_adopted_once(self, bench: ScriptedBench) -> None:
        """Those that raw has never seen begin where they begin."""
        fill(bench, 2)
        before = bench.source.state(TOPIC)
        bench.make_again()
        bench.add_partition()
        fill(bench, 3, 1)
        bench.source.forget_before(TOPIC, 2, partition=1)

        now = bench.source.state(TOPIC)
        raw = Marker("p", "b", TOPIC, before.topic_id, before.ends, {}, None, None, {})
        adopted = skip_lost(raw, now.topic_id, now.beginnings, now.ends)
        table = TableConfig.model_validate({"topic": TOPIC, "mirror": "shop.things"})

        assert list(plan_reading(table, now, adopted).ranges()) == [(1, 2, 3)]

    def test_compaction_leaves_holes_and_the_beginning_where_it_was(self, bench: ScriptedBench) -> None:
        """Who has read nothing misses nothing that could be read."""
        fill(bench, 4)
        bench.source.compact(TOPIC, 0, 2)

        state = bench.source.state(TOPIC)
        assert (state.beginnings, state.ends) == (Offsets({0: 0}), Offsets({0: 4}))
        assert [one.offset for one in bench.source.messages(plan(bench, None))] == [1, 3]
        assert bench.source.is_compacted(TOPIC)
        assert bench.source.deletes_kept(TOPIC) == timedelta(days=1)

    def test_what_is_not_there_yet_is_not_read(self, bench: ScriptedBench) -> None:
        """Nor is a partition that the topic has not."""
        fill(bench, 1)

        for end in ({0: 2}, {0: 1, 1: 1}):
            with pytest.raises(SourceUnavailable, match="no longer holds"):
                bench.source.messages(Span(TOPIC, Offsets(dict.fromkeys(end, 0)), Offsets(end)))

    def test_it_refuses_as_often_as_it_was_told_to(self) -> None:
        """Then it answers."""
        source = ScriptedSource()
        source.refuse(SourceUnavailable("It is down.", "Start it."), SourceUnavailable("It is down.", "Start it."))

        for _ in range(2):
            with pytest.raises(SourceUnavailable):
                source.topics()
        assert source.topics() == ()
