"""The commit protocol under faults: random schedules over a lake in memory, and mistakes that they have to notice.

Two hundred schedules in a run of seconds; `make test` asks for a thousand by CDCM_SEEDS, `make soak` for a hundred
thousand. They begin at the `--randomly-seed` of the run, which is printed first, so that no two runs try the same ones;
CDCM_SEED=17 begins with that one.
"""

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pyspark.errors import PySparkTypeError

from cdc_materializer import offsets, progress
from cdc_materializer.cli.main import main
from cdc_materializer.crash_points import POINTS, STEPS, point_of
from cdc_materializer.errors import (
    EXIT_USAGE,
    CdcError,
    CommitConflict,
    CommitUnknown,
    InvariantBroken,
    LakeUnavailable,
)
from cdc_materializer.lake import commit as lake_commit
from cdc_materializer.lake.errors import MEANINGS, lake_error
from cdc_materializer.lake.lake import Lake
from cdc_materializer.lake.line import brought_by_others, is_ours_alone
from cdc_materializer.line import quarantine, tally
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_TAG
from cdc_materializer.merge import table_path
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.retry import RetryPolicy
from cdc_materializer.testing import FAULTS, Fault, FaultPlan, JavaError, delete_statement
from cdc_materializer.testing.lake import _References
from tests.model import commits
from tests.model.commits import World, schedule
from tests.model.lake_contract import SCHEMA, LakeContract, again, append, create, marker
from tests.unit.memory import NAME, PATH, PUBLISHES
from tests.unit.memory import MemoryBench as _Bench

_SEEDS = int(os.environ.get("CDCM_SEEDS", "200"))


@pytest.fixture
def bench() -> _Bench:
    """A catalog of the test's own."""
    return _Bench()


class TestMemoryLake(LakeContract):
    """The public fake."""


# --- schedules
# --------------------------------------------------------------------------------------------------------


def _first_seed(request: pytest.FixtureRequest) -> int:
    """CDCM_SEED, or the seed of the run of the tests; 1 where it has none (`-p no:randomly`)."""
    seed = request.config.getoption("randomly_seed", None)
    return int(os.environ.get("CDCM_SEED", seed if isinstance(seed, int) else 1))


def test_whatever_happens_nothing_is_lost_doubled_or_half_visible(request: pytest.FixtureRequest) -> None:
    """Changes, re-sends, kills, lost and late commits, other writers, maintenance, retention, new topics, partitions.

    After every commit that readers can see the mirror is the fold of raw, and at the end raw has all that was there, or
    the topic lost it and someone was told.
    """
    met, first = Counter[str](), _first_seed(request)
    for seed in range(first, first + _SEEDS):
        try:
            met.update(schedule(seed).met)
        except (AssertionError, CdcError, AttributeError) as error:
            pytest.fail(f"CDCM_SEED={seed}: {error}")

    seldom = {*FAULTS, "CommitConflict", "CommitUnknown", "LakeUnavailable", "maintain", "retain", "make again"}
    seldom |= {"made again meanwhile"}
    assert seldom <= set(met)


class Machine(RuleBasedStateMachine):
    """The same world, whose steps hypothesis chooses, so that it can tell the shortest way to a failure."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.world = World(random.Random(0))  # noqa: S311 - repeatable, not secret

    @rule(key=st.integers(0, 4), value=st.sampled_from(["a", "b", None]), bad=st.booleans())
    def change(self, key: int, value: str | None, bad: bool) -> None:  # noqa: FBT001
        """A row changes."""
        self.world.change(key, value, bad=bad)

    @rule(old=st.integers(0, 4), new=st.integers(5, 7))
    def move(self, old: int, new: int) -> None:
        """A row's key changes."""
        self.world.move(old, new)

    @rule()
    def redeliver(self) -> None:
        """Something is sent again."""
        self.world.redeliver()

    @rule(batches=st.integers(1, 3))
    def run(self, batches: int) -> None:
        """A process works."""
        self.world.run(batches)

    @rule(fault=st.sampled_from(FAULTS), at=st.integers(1, 14), silent=st.booleans())
    def fail(self, fault: Any, at: int, silent: bool) -> None:  # noqa: ANN401, FBT001 - one of FAULTS
        """One commit of a process goes wrong."""
        self.world.run_faulty(fault, at, silent=silent)

    @rule(at=st.integers(1, 14), batches=st.integers(0, 2), unaware=st.booleans(), after=st.booleans())
    def overtake(self, at: int, batches: int, unaware: bool, after: bool) -> None:  # noqa: FBT001
        """A process sleeps while another one works."""
        self.world.run_overtaken(at, batches, unaware=unaware, after=after)

    @rule()
    def deliver(self) -> None:
        """Late commits arrive."""
        self.world.catalog.deliver()

    @rule(path=st.integers(0, 3), twice=st.booleans())
    def maintain(self, path: int, twice: bool) -> None:  # noqa: FBT001
        """Another tool compacts and expires."""
        found = [path for path, metadata in self.world.catalog.tables.items() if metadata.refs.get("main")]
        for _ in range((1 + twice) if found else 0):
            self.world.catalog.compact(found[path % len(found)])
        self.world.check_lines()
        if found:
            self.world.catalog.expire(found[path % len(found)], tidy=twice)

    @rule()
    def retain(self) -> None:
        """The broker forgets."""
        self.world.retain()

    @rule()
    def grow(self) -> None:
        """The topic has a partition more."""
        self.world.grow()

    @rule()
    def make_again(self) -> None:
        """The topic is made again."""
        self.world.make_again()

    @rule()
    def adopt(self) -> None:
        """Someone accepts what was lost."""
        self.world.adopt()

    @invariant()
    def holds(self) -> None:
        """What has to hold, does."""
        self.world.check()

    def teardown(self) -> None:
        """At the end nothing is missing."""
        self.world.finish()


#: Others each time where many are asked for; one that fails is printed as its steps, the fewest that were found.
Machine.TestCase.settings = settings(
    max_examples=max(30, _SEEDS // 20), stateful_step_count=15, deadline=None, derandomize=_SEEDS <= 200, database=None
)
TestMachine = Machine.TestCase


def _no_parent(table: Any, base: Any, staged: Any) -> int:  # noqa: ANN401 - a Java object, a table and a stage
    # A branch that is gone is none to publish with or without the assertion.
    return lake_commit.head_of(table, staged.branch, base.name)


def _dropped(lake: Any, name: TableName, _: str) -> None:  # noqa: ANN401 - a lake in memory
    tables, path = lake.spark.tables.tables, table_path(lake.catalog, name)
    if path in tables and not tables[path].refs.get("main"):
        del tables[path]


MISTAKES: dict[str, tuple[Any, str, Any]] = {
    "the parent is not asserted": (lake_commit, "check_staged", _no_parent),
    "the guard of the fast-forward is gone": (_References, "fastForwardBranch", _References.replaceBranch),
    "no tag keeps the marker": (lake_commit, "keep_marker", lambda update, *_: update),
    "a table that another process filled as it was made is taken for empty": (
        lake_commit,
        "check_made",
        lambda *_: None,
    ),
    "a table that another process has begun is dropped": (Lake, "_begun", _dropped),
    "left-over branches stay": (Lake, "_drop_left_over_branches", lambda *_: None),
    "a topic that is made again within a run is not noticed": (progress, "check_unchanged", lambda *_: None),
    "a partition that was added begins where it begins": (progress, "_begun_late", lambda *_: {}),
    "messages that left the topic unread are skipped": (offsets, "_check_no_gap", lambda *_: None),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_the_protocol_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of its parts some schedule breaks an invariant; that it falls over would tell nothing."""
    monkeypatch.setattr(*MISTAKES[name])

    with pytest.raises((AssertionError, CdcError)):
        Counter(schedule(seed).topic_id for seed in range(1, 1000))


def _looked_at_meanwhile() -> None:
    """Another process loads the tables, and no more, at each moment of a batch that publishes no row."""
    for at in range(1, 12):
        world = World(random.Random(at))  # noqa: S311 - repeatable, not secret
        world.change(1, "first")
        world.run()
        world.change(1, "held", bad=True)
        world.run_overtaken(at, 0, unaware=False, after=True)
        world.change(1, "second")
        world.finish()


def test_a_branch_that_begins_anew_would_double_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the totals that Iceberg gives it the mirror is empty, so that the next batch would take no row away first."""
    _looked_at_meanwhile()

    monkeypatch.setattr(lake_commit, "_begins_anew", lambda *_: False)
    _looked_at_meanwhile()
    monkeypatch.setattr(
        lake_commit, "has_rows", lambda _, one: one is not None and one.told.get("total-records", "0") != "0"
    )
    with pytest.raises(AssertionError, match="a key has two rows"):
        _looked_at_meanwhile()


def test_a_change_that_was_tried_and_comes_again_in_a_shorter_batch_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """History remembers how far it was ever told; with each batch's own offsets the rest would be told twice."""
    monkeypatch.setattr(quarantine, "after", lambda _, batch: batch)

    with pytest.raises(InvariantBroken, match="would go back"):
        Counter(schedule(seed).topic_id for seed in range(1, 400))

    monkeypatch.setattr(lake_commit, "check_progress", lambda *_: None)
    monkeypatch.setattr(World, "check_offsets", lambda *_: None)
    with pytest.raises(AssertionError, match="a place is twice in history"):
        Counter(schedule(seed).topic_id for seed in range(1, 400))


def test_a_message_that_a_batch_loses_is_noticed_before_and_only_by_accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    """With it nothing wrong is ever published; without it readers see a mirror that is not the fold of raw."""
    monkeypatch.setattr(commits, "taken", lambda rows, batch, take=commits.taken: take(rows, batch)[:-1])

    with pytest.raises(InvariantBroken, match="accounts for"):
        Counter(schedule(seed).topic_id for seed in range(1, 400))

    def unasserted(*given: Any) -> int:  # noqa: ANN401 - those of `check`
        return int(given[-1](given[1], given[3].span))

    monkeypatch.setattr(tally, "check", unasserted)
    with pytest.raises(AssertionError, match=r"read \d+ messages and accounts for"):
        Counter(schedule(seed).topic_id for seed in range(1, 400))


# --- one fault at a time
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["unanswered", "contradicted"])
def test_a_commit_that_happened_is_found_to_have_happened(bench: _Bench, fault: Fault) -> None:
    """Its answer was lost, or a client that asked twice was told that it lost: the snapshot is looked for."""
    table = create(bench)
    bench.catalog.follow(FaultPlan({PUBLISHES: fault}))

    head = append(bench, table, "one", 5)

    found = again(bench)
    assert (found.head, bench.rows(found)) == (head, ["one"])


def test_a_commit_whose_outcome_nobody_tells_ends_with_7_and_nothing_is_deleted(bench: _Bench) -> None:
    """The catalog stays silent; what was staged is still there, so a commit that arrives later is whole."""
    table = create(bench)
    bench.catalog.follow(FaultPlan({PUBLISHES: "late"}, falls_silent=True))
    with pytest.raises(CommitUnknown) as caught:
        append(bench, table, "one", 5)
    staged = bench.catalog.tables[PATH].snapshots

    bench.catalog.follow(FaultPlan())
    bench.catalog.deliver()

    assert caught.value.exit_code == 7
    assert len(staged) == 2
    assert bench.rows(again(bench)) == ["one"]


def test_a_catalog_that_refuses_a_commit_is_told_of_with_4(bench: _Bench) -> None:
    """It answered 503 before it did anything; running again goes through."""
    table = create(bench)
    bench.catalog.follow(FaultPlan({PUBLISHES: "refused"}))

    with pytest.raises(LakeUnavailable, match="does not answer") as caught:
        append(bench, table, "one", 5)
    append(bench, again(bench), "one", 5)

    assert caught.value.exit_code == 4
    assert bench.rows(again(bench)) == ["one"]


@pytest.mark.parametrize(("commits", "is_published"), [(3, True), (99, False)])
def test_a_commit_to_another_branch_takes_no_batch_back(bench: _Bench, commits: int, is_published: bool) -> None:  # noqa: FBT001
    """Someone else's branch moves right before ours is published: the same step is tried again, and not for ever."""
    table = create(bench)
    others = iter(range(commits))
    left, staged = [2], list[int]()

    def fault(_path: str) -> None:
        left[0] -= 1
        if left[0] < 0 and (other := next(others, None)) is not None:
            bench.branch(f"other_{other}")

    def stage(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
        staged.append(1)
        stage.append(bench.frame([("one", "")]))

    bench.catalog.fault = fault
    if is_published:
        bench.lake.publish(table, marker("one", 5), stage)
    else:
        with pytest.raises(CommitConflict):
            bench.lake.publish(table, marker("one", 5), stage)
    bench.catalog.fault = lambda _: None

    assert staged == [1]
    assert bench.rows(again(bench)) == (["one"] if is_published else [])


def test_a_clock_that_is_behind_the_newest_commit_is_told_of(bench: _Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a minute Iceberg lets clocks differ; what is said names the clock, and nothing was written."""
    table = create(bench)
    now = bench.lake.clock_ms()
    monkeypatch.setattr(type(bench.lake), "clock_ms", lambda _: now - 86_400_000)

    with pytest.raises(LakeUnavailable, match=r"86,400 s ahead of this machine's clock.*set the clock right") as caught:
        append(bench, table, "one", 5)
    assert (caught.value.exit_code, bench.refs()) == (4, {"main", MARKER_TAG, GENESIS_TAG})

    monkeypatch.setattr(type(bench.lake), "clock_ms", lambda _: now - 59_000)
    append(bench, table, "one", 5)


def test_commits_of_other_programs_are_counted_when_the_table_is_loaded(bench: _Bench) -> None:
    """Those that changed rows since our newest batch; compaction changes none."""
    append(bench, create(bench), "one", 5)
    bench.catalog.compact(PATH)
    assert again(bench).foreign == 0

    bench.insert("other")
    bench.insert("another")
    found = again(bench)
    assert found.foreign == 2
    append(bench, found, "two", 6)
    assert again(bench).foreign == 0


def test_the_first_commit_of_a_table_is_not_made_on_main(bench: _Bench) -> None:
    """The library removes the files of a commit that it takes for failed, so readers must not stand on them yet."""
    seen: list[set[str]] = []
    bench.catalog.happened = lambda path: seen.append(set(bench.catalog.tables[path].refs))

    create(bench)

    assert [min(refs).startswith("cdcm_made_") for refs in seen] == [True, False]
    assert seen[-1] == {"main", MARKER_TAG, GENESIS_TAG}


def test_a_writer_that_is_faster_is_named(bench: _Bench) -> None:
    """With the pipeline, engine and application that its snapshot tells of, shortened and made printable."""
    table = create(bench)
    told = {"engine-name": "trino", "engine-version": "476", "app-id": "a\x00" + "b" * 200}
    now = bench.catalog.tables[PATH]
    bench.catalog.tables[PATH] = now.with_snapshot(told, (), "main", bench.catalog.number())

    with pytest.raises(CommitConflict, match=r"engine trino 476, application a\?b+…"):
        append(bench, table, "one", 5)


def test_a_marker_that_reads_otherwise_than_it_was_written_is_not_published(
    bench: _Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read back from the branch before readers see it."""
    table = create(bench)
    written = marker("one", 5).to_summary()
    monkeypatch.setattr("cdc_materializer.marker.marker.Marker.to_summary", lambda _: {**written, "cdcm.offsets": "{}"})

    def stage(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
        stage.append(bench.frame([("one", "")]))
        monkeypatch.undo()

    with pytest.raises(InvariantBroken, match="does not read as it was written"):
        bench.lake.publish(table, marker("one", 5), stage)
    assert bench.rows(again(bench)) == []


def test_raw_takes_no_more_messages_than_its_offsets_move(bench: _Bench) -> None:
    """More rows than offsets would be messages that are there twice; fewer are holes that compaction has left."""
    name = NAME.raw
    table = bench.lake.create(name, SCHEMA, marker("start", 0), {})

    with pytest.raises(InvariantBroken, match="3 messages of a span of 2"):
        bench.lake.publish(table, marker("one", 2), lambda stage: stage.append(bench.frame([("a", "")] * 3)))
    bench.lake.publish(table, marker("two", 9), lambda stage: stage.append(bench.frame([("a", "")] * 3)))


@pytest.mark.parametrize(("written", "expected"), [(2, 1), (0, 1), (1, 0)])
def test_a_batch_that_writes_other_rows_than_it_decided_is_not_published(
    bench: _Bench, written: int, expected: int
) -> None:
    """Iceberg counts what was written."""
    base = create(bench)

    with pytest.raises(InvariantBroken, match=f"has {expected} rows for shop.t, and {written} were written"):
        bench.lake.publish(
            base, marker("one", 5), lambda stage: stage.append(bench.frame([("a", "")] * written), expected)
        )
    assert bench.rows(again(bench)) == []
    bench.lake.publish(again(bench), marker("one", 5), lambda stage: stage.append(bench.frame([("a", "")]), 1))


@pytest.mark.parametrize("story", ["ours alone", "another program's", "another program's, expired", "tidily expired"])
def test_a_batch_that_takes_more_rows_than_it_has_keys_is_not_published(bench: _Bench, story: str) -> None:
    """Unless another program may have written to the table: rows that it doubled go with their key, as they should."""
    base, is_foreign = create(bench), story != "ours alone"
    bench.lake.publish(base, marker("start", 1), lambda stage: stage.append(bench.frame([("a", "")])))
    if is_foreign:
        bench.insert("a")
        append(bench, again(bench), "two", 2)
        if "expired" in story:
            bench.catalog.expire(table_path(bench.lake.catalog, bench.name()), tidy="tidily" in story)
    else:
        bench.lake.publish(again(bench), marker("two", 2), lambda stage: stage.append(bench.frame([("a", "")])))

    def stage(stage: Any) -> None:  # noqa: ANN401 - the lake's own stage
        stage.execute(delete_statement(bench.lake, NAME, stage.branch, ["a"]), rows_max=1)
        stage.append(bench.frame([("a", "new")]), 1)

    if is_foreign:
        bench.lake.publish(again(bench), marker("one", 5), stage)
        assert bench.rows(again(bench)) == ["a", "two"]
        return
    with pytest.raises(
        InvariantBroken, match=r"1 keys for shop.t, and 2 rows would go.*cdcm verify --table shop.t --repair"
    ):
        bench.lake.publish(again(bench), marker("one", 5), stage)
    assert bench.rows(again(bench)) == ["a", "a"]


def test_who_changed_rows_is_known_where_a_deletion_vector_was_written_anew() -> None:
    """All of its positions count as added, and those that it had before as removed. Deletes alone bring no row."""
    vector = {"added-records": "1", "added-position-deletes": "11", "removed-position-deletes": "10"}
    told = {1: {"total-records": "0"}, 2: vector, 3: {"added-equality-deletes": "1"}}

    def snapshot(number: int) -> Any:  # noqa: ANN401 - a Java object
        parent = number - 1 or None
        found = {"snapshotId": number, "parentId": parent, "summary": told[number], "operation": "overwrite"}
        return SimpleNamespace(**{name: lambda value=value: value for name, value in found.items()})

    table = SimpleNamespace(snapshot=snapshot)

    assert brought_by_others(table, 3) == brought_by_others(table, 2) == [2]
    assert not is_ours_alone(table, 2)


_MERGE_ON_READ = {"added-position-deletes": "5", "removed-position-deletes": "2"}
_COPY_ON_WRITE = {"deleted-data-files": "1", "deleted-records": "9", "added-records": "7"}


@pytest.mark.parametrize(
    ("before", "summary", "gone"),
    [
        ({"total-position-deletes": "2"}, _MERGE_ON_READ, 3),
        ({"total-position-deletes": "0"}, _COPY_ON_WRITE, 2),
        ({"total-position-deletes": "1"}, _COPY_ON_WRITE, None),
        ({"total-equality-deletes": "1"}, _COPY_ON_WRITE, None),
        ({}, {}, 0),
    ],
)
def test_what_a_snapshot_took_away_is_told_where_its_counters_tell(
    before: dict[str, str], summary: dict[str, str], gone: int | None
) -> None:
    """Files that were written anew hide how many of their rows were gone before."""
    assert lake_commit.rows_gone(before, summary) == gone


def test_a_named_point_ends_the_process() -> None:
    """Only that one, of that kind of table, and by a signal that nothing can answer."""
    code = "from cdc_materializer import crash_points as c, names as n; t = n.TableName.parse('a.b'); "
    code += (
        "c.reach('staged', t.raw); c.reach('made', t); print('there', flush=True); c.reach('staged', t); print('on')"
    )
    environment = {**os.environ, "CDCM_CRASH_AT": "mirror.staged"}
    ended = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment)

    assert (ended.returncode, ended.stdout.split()) == (-signal.SIGKILL, ["there"])
    assert {point_of(step, NAME.history) for step in STEPS} <= set(POINTS)


def test_a_point_that_there_is_not_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or a test that kills a process by a misspelt name would see all go well."""
    monkeypatch.setenv("CDCM_CRASH_AT", "miror.staged")

    assert main(["status"]) == EXIT_USAGE
    assert "Did you mean mirror.staged?" in capsys.readouterr().err


# --- accounting
# -------------------------------------------------------------------------------------------------------


def _decided(count: int, end: int, *, again: int = 0) -> Any:  # noqa: ANN401 - as much of a Decided as is asked
    span = Span("t", Offsets({0: 4}), Offsets({0: end}))
    return SimpleNamespace(span=span, counts={"upserted": count}, again=again)


@pytest.mark.parametrize("end", [9, 7])
@pytest.mark.parametrize(
    ("count", "again", "is_right"),
    [(3, 0, True), (2, 0, False), (4, 0, False), (4, 1, True), (3, 1, False), (5, 1, False)],
)
def test_a_message_without_an_outcome_stops_the_batch(
    bench: _Bench,
    end: int,
    count: int,
    again: int,
    is_right: bool,  # noqa: FBT001
) -> None:
    """Raw's snapshots say how many there are; its rows, where a batch ends between two landings (7)."""
    table = bench.lake.create(NAME.raw, SCHEMA, marker("start", 4), {})
    bench.lake.publish(table, marker("one", 9), lambda stage: stage.append(bench.frame([("a", "")] * 3)))
    raw = bench.lake.load(NAME.raw)
    line: Any = SimpleNamespace(lake=bench.lake)
    assert raw is not None
    counted: list[Span] = []

    def stored(_: object, span: Span) -> int:
        counted.append(span)
        return 3

    def check() -> int:
        decided = _decided(count, end, again=again)
        return tally.check(line, raw, Offsets({0: 4}), decided, stored)

    if is_right:
        assert check() == count
    else:
        with pytest.raises(InvariantBroken, match=rf"has {3 + again} messages for this batch, and .* for {count}"):
            check()
    assert bool(counted) == (end == 7)


@pytest.mark.parametrize(("fault", "says"), [("doubled", "more than one row of a key"), ("keyless", "without a key")])
def test_a_batch_with_two_rows_of_a_key_or_none_is_not_published(fault: str, says: str) -> None:
    """Before anything of it is written."""
    line: Any = SimpleNamespace(mirror=NAME)
    counts = {"doubled": 0, "keyless": 0}
    decided: Any = SimpleNamespace(**counts)
    tally.check_keys(line, decided)

    wrong: Any = SimpleNamespace(**counts | {fault: 2})
    with pytest.raises(InvariantBroken, match=says):
        tally.check_keys(line, wrong)


# --- errors and retries
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("meaning", MEANINGS, ids=lambda meaning: min(meaning.classes))
def test_a_java_error_is_known_by_any_class_in_its_chain(meaning: Any) -> None:  # noqa: ANN401 - a Meaning
    """However deep it is wrapped; the error that comes of it has an exit code and a remedy."""
    for name in meaning.classes:
        found = lake_error(NAME, JavaError("RuntimeException", "UncheckedIOException2", name), "someone")

        assert type(found) is meaning.error
        assert found.exit_code in {4, 7, 70}
        assert found.do.endswith(".")


def test_an_unknown_outcome_goes_before_what_else_is_in_the_chain() -> None:
    """Iceberg wraps the failure that left it in doubt."""
    error = JavaError("CommitStateUnknownException", "CommitFailedException")

    assert isinstance(lake_error(NAME, error, "someone"), CommitUnknown)


def test_a_call_that_pyspark_refuses_is_a_bug_and_no_outage() -> None:
    """It says so before anything is asked of the lake, and would say it again and again."""
    error = PySparkTypeError(errorClass="NOT_COLUMN_OR_STR", messageParameters={"arg_name": "a", "arg_type": "bool"})

    found = lake_error(NAME, error)

    assert isinstance(found, InvariantBroken)
    assert "NOT_COLUMN_OR_STR" in found.what


def test_what_only_a_commit_can_mean_is_not_concluded_while_a_batch_is_staged() -> None:
    """Spark's planner throws the same class for a mistake of ours, and a staging branch concerns no reader."""
    for name in ("IllegalArgumentException", "CommitStateUnknownException"):
        assert type(lake_error(NAME, JavaError(name))) is LakeUnavailable


def test_a_retryable_step_is_done_again_with_growing_pauses_and_no_more_often_than_allowed() -> None:
    """Others are not, and neither is anything once the run is to stop."""
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return False

    stop: Any = SimpleNamespace(wait=wait)
    policy = RetryPolicy(attempts=4, base_seconds=1.0, cap_seconds=3.0)
    failures: list[CdcError] = [CommitConflict("Lost.", "Again.")] * 3

    def step() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert policy.call(step, stop) == "done"
    assert pauses == [1.0, 2.0, 3.0]

    for errors, ended in (([CommitConflict("Lost.", "Again.")] * 9, 3), ([LakeUnavailable("Down.", "Up.")], 0)):
        pauses.clear()
        failures.extend(errors)
        with pytest.raises(LakeUnavailable):
            policy.call(step, stop)
        assert len(pauses) == ended
        failures.clear()

    failures.append(CommitConflict("Lost.", "Again."))
    with pytest.raises(CommitConflict):
        policy.call(step, SimpleNamespace(wait=lambda _: True))  # type: ignore[arg-type]
