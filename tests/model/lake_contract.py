"""What every lake does, Iceberg's in Spark and the one in memory alike: the tests of both are these."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

import pytest

from cdc_materializer import crash_points
from cdc_materializer.errors import CommitConflict, ConfigError, InvariantBroken, LakeUnavailable
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.line.line import marker_of
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG, Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets
from cdc_materializer.schema.schema import Column, TableSchema

SCHEMA = TableSchema((Column("key", "string"), Column("value", "string")))


class Bench(Protocol):
    """A lake with one table, and what other programs do to it."""

    lake: Lake

    def process(self) -> Lake:
        """A lake as another process has it that had loaded the table before."""

    def name(self) -> TableName:
        """The name of the table."""

    def frame(self, rows: Sequence[tuple[str, str]]) -> Any:  # noqa: ANN401 - whatever a stage takes
        """What a stage appends."""

    def rows(self, table: LakeTable) -> list[str]:
        """The keys that a table has."""

    def refs(self) -> set[str]:
        """The branches and tags of the table."""

    def insert(self, key: str) -> None:
        """Another program adds a row."""

    def branch(self, name: str) -> None:
        """Someone makes a branch."""

    def expire(self) -> None:
        """Another program removes every snapshot that nothing points to."""

    def alter(self) -> None:
        """Another program changes the columns."""

    def partition(self) -> None:
        """Another program changes the partitions."""

    def drop(self) -> None:
        """Another program drops the table."""

    def replace(self, rows: bool) -> None:  # noqa: FBT001
        """Another program makes the table anew under its name, with a row or without (CREATE OR REPLACE TABLE)."""

    def make(self) -> None:
        """Another tool makes the table, with a row."""


def marker(batch: str, offset: int) -> Marker:
    """A marker that says how far a table was filled."""
    return Marker("tests", batch, "t", None, Offsets({0: offset}), {}, None, None, {})


def create(bench: Bench) -> LakeTable:
    """An empty table with its first marker."""
    return bench.lake.create(bench.name(), SCHEMA, marker("start", 0), {"format-version": "2"})


def append(bench: Bench, base: LakeTable, batch: str, offset: int) -> int:
    """Publish one row with a marker; its key is the batch."""
    return bench.lake.publish(base, marker(batch, offset), lambda stage: stage.append(bench.frame([(batch, "")])))


def again(bench: Bench) -> LakeTable:
    """The table as it is now."""
    found = bench.lake.load(bench.name())
    assert found is not None
    return found


def again_beside(bench: Bench) -> LakeTable:
    """The table as another process sees it, which leaves branches alone."""
    found = bench.process().load(bench.name())
    assert found is not None
    return found


class LakeContract:
    """The tests; a subclass beside a fixture `bench` runs them."""

    def test_a_published_batch_shows_its_rows_and_its_marker(self, bench: Bench) -> None:
        """Both stand in one snapshot, no branch is left, and a tag keeps the snapshot."""
        head = append(bench, create(bench), "one", 5)
        found = again(bench)

        assert found.head == head
        assert found.marker == marker("one", 5)
        assert bench.rows(found) == ["one"]
        assert bench.refs() == {"main", MARKER_TAG, GENESIS_TAG}

    def test_no_library_tries_a_commit_again_beneath_us(self, bench: Bench) -> None:
        """It would put the commit on top of a head that it was not planned on."""
        create(bench)

        assert bench.lake.iceberg(bench.name()).properties().get("commit.retry.num-retries") == "0"

    def test_the_first_snapshot_is_kept_for_good(self, bench: Bench) -> None:
        """Its tag is set when the table is made, moved by nothing, and whoever expires snapshots leaves it."""
        first = create(bench)
        for number in (1, 2):
            append(bench, again(bench), f"batch {number}", number)
        bench.expire()

        kept = bench.lake.iceberg(bench.name()).snapshot(GENESIS_TAG)
        assert kept is not None
        assert (kept.snapshotId(), bench.rows(first)) == (first.head, [])

    @pytest.mark.parametrize("writes", [True, False])
    def test_what_is_found_in_staged_rows_is_told_in_the_marker_that_is_published_with_them(
        self,
        bench: Bench,
        writes: bool,  # noqa: FBT001
    ) -> None:
        """The rows are counted where they were written, and what readers see says it all."""

        def stage(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
            if writes:
                stage.append(bench.frame([("one", "")]), 1)
            stage.tell(replace(stage.marker, warned=("a rule",)))

        head = bench.lake.publish(create(bench), marker("one", 5), stage)

        found = again(bench)
        assert (found.head, found.marker) == (head, replace(marker("one", 5), warned=("a rule",)))
        assert bench.rows(found) == (["one"] if writes else [])

    def test_what_is_done_before_a_batch_is_seen_is_done_when_it_was_found_right(self, bench: Bench) -> None:
        """Once, behind everything that may refuse the batch; where it fails, readers see nothing of the batch."""
        table, done = create(bench), list[list[str]]()

        def publish(base: LakeTable, batch: str, stage: Any, then: Any) -> None:  # noqa: ANN401 - functions
            bench.lake.publish(base, marker(batch, len(batch)), stage, then)

        def note() -> None:
            done.append(bench.rows(again_beside(bench)))

        def fail(*_: object) -> None:
            raise KeyError

        with pytest.raises(KeyError):
            publish(table, "refused", fail, note)
        with pytest.raises(InvariantBroken, match="2 rows"):
            publish(table, "wrong", lambda stage: stage.append(bench.frame([("a", "")]), 2), note)
        with pytest.raises(KeyError):
            publish(table, "undone", lambda stage: stage.append(bench.frame([("b", "")])), fail)
        publish(table, "right", lambda stage: stage.append(bench.frame([("c", "")])), note)

        assert done == [[]]
        assert bench.rows(again(bench)) == ["c"]

    def test_the_loser_of_two_writers_changes_nothing(self, bench: Bench) -> None:
        """Both planned on one head; the second is told who was faster, and readers see the first one's rows alone."""
        table = create(bench)
        won = append(bench, table, "winner", 5)

        with pytest.raises(CommitConflict, match="pipeline tests") as caught:
            append(bench, table, "loser", 9)

        found = again(bench)
        assert (caught.value.exit_code, caught.value.retryable) == (4, True)
        assert (found.head, found.marker) == (won, marker("winner", 5))
        assert bench.rows(found) == ["winner"]

    def test_a_writer_between_staging_and_publishing_wins(self, bench: Bench) -> None:
        """Also when the other one comes while the batch is being staged."""
        table = create(bench)

        def stage_slowly(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
            bench.insert("other")
            stage.append(bench.frame([("mine", "")]))

        with pytest.raises(CommitConflict):
            bench.lake.publish(table, marker("loser", 9), stage_slowly)

        found = again(bench)
        assert bench.rows(found) == ["other"]
        assert found.marker == marker("start", 0)

    def test_a_branch_that_was_dropped_and_came_back_is_not_published(self, bench: Bench) -> None:
        """Another process took it for left over while it was written to; what was staged before is not on it."""
        table = create(bench)

        def stage(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
            stage.append(bench.frame([("first", "")]))
            stage.steps.append(bench.lake.branch_head(table.name, stage.branch))
            again(bench)
            stage.append(bench.frame([("second", "")]))

        with pytest.raises(CommitConflict):
            bench.lake.publish(table, marker("one", 5), stage)

        assert bench.rows(again(bench)) == []

    @pytest.mark.parametrize("writes", [True, False])
    def test_a_branch_that_was_dropped_before_anything_was_on_it_is_not_published(
        self,
        bench: Bench,
        writes: bool,  # noqa: FBT001
    ) -> None:
        """It comes back on the same parent, with totals by which the table would be empty."""
        append(bench, create(bench), "one", 5)

        def stage(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
            again(bench)
            if writes:
                stage.append(bench.frame([("two", "")]))

        # Spark's own writer may see in time that the branch is gone.
        with pytest.raises(CommitConflict, match=r"disturbed by another process|another writer was first"):
            bench.lake.publish(again(bench), marker("two", 7), stage)

        found = again(bench)
        assert (bench.rows(found), found.is_empty, found.marker) == (["one"], False, marker("one", 5))

    def test_left_over_branches_are_dropped_when_the_table_is_loaded(self, bench: Bench) -> None:
        """A killed run leaves its branch; another tool's branch is none of our business."""
        create(bench)
        for branch in ("cdcm_killed", "someone"):
            bench.branch(branch)

        again(bench)

        assert bench.refs() == {"main", MARKER_TAG, GENESIS_TAG, "someone"}

    def test_a_failed_stage_can_be_tried_again(self, bench: Bench) -> None:
        """The branch of the first try, with the same batch id, does not stand in the second's way."""
        table = create(bench)

        def fail(_: Any) -> None:  # noqa: ANN401 - the lake's own stage
            raise RuntimeError

        with pytest.raises(RuntimeError):
            bench.lake.publish(table, marker("one", 5), fail)
        append(bench, again(bench), "one", 5)

        assert bench.rows(again(bench)) == ["one"]

    def test_the_marker_survives_whatever_other_tools_commit_and_expire(self, bench: Bench) -> None:
        """Snapshots without one are passed over, and where expiry has cut their line off, the tag has the newest."""
        append(bench, create(bench), "one", 5)
        bench.insert("other")
        assert again(bench).marker == marker("one", 5)

        bench.insert("another")
        bench.expire()

        found = again(bench)
        assert found.marker == marker("one", 5)
        assert bench.rows(found) == ["another", "one", "other"]
        append(bench, found, "two", 7)
        assert again(bench).marker == marker("two", 7)

    def test_a_table_without_a_marker_is_refused(self, bench: Bench) -> None:
        """It is another tool's, or its progress was lost; what to do is said, and nothing is written."""
        bench.make()

        with pytest.raises(LakeUnavailable, match=r"no snapshot of it says how far.*makes it again from raw"):
            marker_of(again(bench))

    @pytest.mark.parametrize("rows", [True, False])
    def test_a_table_that_another_program_made_anew_is_refused(self, bench: Bench, rows: bool) -> None:  # noqa: FBT001
        """Its tag still says how far it was filled, and what it was filled with is gone."""
        append(bench, create(bench), "one", 5)
        bench.replace(rows)

        for _ in range(2):
            with pytest.raises(LakeUnavailable, match="no snapshot of it says how far"):
                marker_of(again(bench))
            bench.expire()

    @pytest.mark.parametrize("changed", ["schema", "layout"])
    @pytest.mark.parametrize("is_staged", [False, True])
    def test_a_table_whose_columns_were_changed_meanwhile_is_not_written_to(
        self,
        bench: Bench,
        changed: str,
        is_staged: bool,  # noqa: FBT001
    ) -> None:
        """Nor one whose partitions were: the batch was planned for others; planned anew it goes through."""
        table, change = create(bench), {"schema": bench.alter, "layout": bench.partition}[changed]
        if not is_staged:
            change()

        def stage(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
            stage.append(bench.frame([("one", "")]))
            if is_staged:
                change()

        with pytest.raises(CommitConflict, match=rf"The {changed} of .* was changed by another program"):
            bench.lake.publish(table, marker("one", 5), stage)

        found = again(bench)
        bench.lake.publish(found, marker("two", 5), lambda _: None)
        assert (again(bench).marker, bench.rows(again(bench))) == (marker("two", 5), [])

    def test_a_table_that_was_dropped_and_made_again_meanwhile_is_not_written_to(self, bench: Bench) -> None:
        """It is another one under the same name, and nothing of what the batch was planned on is in it."""
        table = create(bench)
        bench.drop()
        bench.make()

        with pytest.raises(CommitConflict, match=r"The table of .* was changed by another program"):
            append(bench, table, "one", 5)

        assert bench.rows(again(bench)) == ["other"]

    def test_progress_never_goes_back(self, bench: Bench) -> None:
        """A batch that would take offsets back, or forget a partition, is a bug, and nothing of it is written."""
        append(bench, create(bench), "one", 5)

        with pytest.raises(InvariantBroken, match="would go back in partition 0"):
            append(bench, again(bench), "two", 4)

        assert again(bench).marker == marker("one", 5)

    def test_a_table_that_another_process_makes_at_once_is_made_once(self, bench: Bench) -> None:
        """Who comes second is told so, and what the first has written stays."""
        append(bench, create(bench), "one", 5)

        with pytest.raises(CommitConflict, match="made by another writer"):
            bench.process().create(bench.name(), SCHEMA, marker("start", 0), {"format-version": "2"})

        assert bench.rows(again(bench)) == ["one"]

    def test_a_table_that_a_killed_run_began_is_taken_over(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is not there until it has its first marker, and is never dropped: its maker might still be at it."""

        def killed(*_: object) -> None:
            raise RuntimeError

        monkeypatch.setattr(crash_points, "reach", killed)
        with pytest.raises(RuntimeError):
            create(bench)
        monkeypatch.undo()
        begun = bench.lake.iceberg(bench.name()).uuid().toString()
        assert bench.lake.load(bench.name()) is None

        # What is there may have other columns; then the batch is planned on them.
        with suppress(CommitConflict):
            create(bench)

        found = again(bench)
        assert (found.uuid, found.marker, bench.rows(found)) == (begun, marker("start", 0), [])
        append(bench, found, "one", 5)
        assert bench.rows(again(bench)) == ["one"]

    def test_a_begun_table_is_not_finished_under_other_settings(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It has those that it was begun with, and would keep them unseen: who asks for others is told to drop it."""

        def killed(*_: object) -> None:
            raise RuntimeError

        monkeypatch.setattr(crash_points, "reach", killed)
        with pytest.raises(RuntimeError):
            create(bench)
        monkeypatch.undo()

        with pytest.raises(ConfigError, match=r"begun with other properties.*drop it in the catalog"):
            bench.lake.create(bench.name(), SCHEMA, marker("start", 0), {"write.merge.mode": "copy-on-write"})

        assert bench.lake.load(bench.name()) is None

    def test_of_two_that_make_a_table_at_once_neither_takes_the_others_rows(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The one that was overtaken between two of its steps finds a whole table, and leaves it as it is."""
        waiting = ["made"]

        def overtake(*_: object) -> None:
            if waiting:
                waiting.clear()
                with suppress(CommitConflict):
                    bench.process().create(bench.name(), SCHEMA, marker("start", 0), {"format-version": "2"})
                append(bench, again(bench), "other", 5)

        monkeypatch.setattr(crash_points, "reach", overtake)
        with pytest.raises(CommitConflict):
            create(bench)

        found = again(bench)
        assert (bench.rows(found), found.marker) == (["other"], marker("other", 5))
