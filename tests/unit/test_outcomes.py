"""What became of a commit whose answer does not tell, and who the other writer was, on the lake in memory."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from cdc_materializer.errors import EXIT_UNKNOWN, CommitConflict, CommitUnknown, LakeUnavailable
from cdc_materializer.lake import branches
from cdc_materializer.lake.errors import lake_error
from cdc_materializer.lake.outcome import see_through
from cdc_materializer.marker.marker import Marker
from cdc_materializer.schema.schema import Column, TableSchema, plan_schema
from cdc_materializer.testing import Fault, FaultPlan, JavaError, memory_lake
from tests.model.commits import NO_ANSWERS
from tests.model.lake_contract import SCHEMA, again, append, create, marker
from tests.unit.memory import NAME, PUBLISHES, MemoryBench


@pytest.fixture
def bench() -> MemoryBench:
    """A catalog of the test's own."""
    return MemoryBench()


@pytest.mark.parametrize("fault", ["unanswered", "contradicted"])
def test_a_table_whose_making_nobody_confirmed_is_made(bench: MemoryBench, fault: Fault) -> None:
    """Its last commit lets readers see it: whether they do is asked, and not concluded."""
    bench.catalog.follow(FaultPlan({PUBLISHES: fault}))

    table = create(bench)

    assert (table.head, table.marker) == (again(bench).head, marker("start", 0))


def test_a_table_of_which_nobody_tells_if_it_is_made_is_unknown(bench: MemoryBench) -> None:
    """The commit that lets readers see it may come late; the next run takes over what is there."""
    bench.catalog.follow(FaultPlan({PUBLISHES: "late"}))
    with pytest.raises(CommitUnknown):
        create(bench)
    bench.catalog.fault = lambda _: None

    # The memory does not keep columns, so that they look like others.
    with suppress(CommitConflict):
        create(bench)
    head = again(bench).head
    bench.catalog.deliver()

    assert again(bench).head == head


def _swapped(bench: MemoryBench, meanwhile: Callable[[], object]) -> bool:
    base = again(bench)
    beside = replace(bench.lake, branch="replay_1")
    beside.publish(base, marker("two", 5), lambda stage: stage.append(bench.frame([("two", "")])))
    rebuilt = beside.load(NAME)
    assert rebuilt is not None
    meanwhile()
    return branches.swap(bench.lake, base, rebuilt, "replay_1", marker("two", 5), "before")


def _taken_back(bench: MemoryBench, meanwhile: Callable[[], object]) -> bool:
    kept = again(bench).head
    assert kept is not None
    branches.keep(bench.lake, NAME, kept, "before")
    append(bench, again(bench), "two", 7)
    base = again(bench)

    def carried(kept: Marker) -> Marker:
        meanwhile()
        return kept

    return branches.go_back(bench.lake, base, "before", carried)


#: What changes the state that readers see, at which of its commits, and the rows that they see then.
_CHANGES: dict[str, tuple[Callable[[MemoryBench, Callable[[], object]], bool], int, list[str]]] = {
    "a rebuilt state is swapped in": (_swapped, 3, ["one", "two"]),
    "the state before is taken back": (_taken_back, 3, ["one"]),
}


@pytest.mark.parametrize("fault", ["unanswered", "contradicted", "late"])
@pytest.mark.parametrize("change", _CHANGES)
def test_another_state_that_nobody_confirmed_is_looked_for(bench: MemoryBench, change: str, fault: str) -> None:
    """Readers see it, or it is unknown if they will; they are never said to see what they do not."""
    append(bench, create(bench), "one", 5)
    do, at, rows = _CHANGES[change]
    left = [at]

    def strike(_path: str) -> Any:  # noqa: ANN401 - a Fault
        left[0] -= 1
        return fault if left[0] == 0 else None

    def arm() -> None:
        bench.catalog.fault = strike

    if fault == "late":
        with pytest.raises(CommitUnknown):
            do(bench, arm)
    else:
        assert do(bench, arm)
        assert bench.rows(again(bench)) == rows
    assert left == [0]


@pytest.mark.parametrize("change", _CHANGES)
def test_another_state_takes_no_batch_back_that_was_published_meanwhile(bench: MemoryBench, change: str) -> None:
    """A run that follows has published since the state was decided on: it wins, and is named."""
    append(bench, create(bench), "one", 5)
    other, done = bench.process(), list[int]()

    def overtake() -> None:
        found = other.load(NAME)
        assert found is not None
        done.append(other.publish(found, marker("other", 9), lambda stage: stage.append(bench.frame([("other", "")]))))

    with pytest.raises(CommitConflict, match="pipeline tests"):
        _CHANGES[change][0](bench, overtake)

    assert [again(bench).head] == done
    assert again(bench).marker == marker("other", 9)


@pytest.mark.parametrize("fault", ["late", "lost", "unanswered"])
@pytest.mark.parametrize("classes", NO_ANSWERS, ids="<".join)
def test_a_lost_answer_is_known_however_a_client_tells_it(
    bench: MemoryBench, classes: tuple[str, ...], fault: Fault
) -> None:
    """Where the catalog answers again and shows no commit, one may still arrive: that is 7 and not 4."""
    table = create(bench)
    bench.catalog.follow(FaultPlan({PUBLISHES: fault}, no_answer=classes))

    if fault == "unanswered":
        append(bench, table, "one", 5)
    else:
        with pytest.raises(CommitUnknown, match="whether the commit happened cannot be told"):
            append(bench, table, "one", 5)
        assert bench.rows(again(bench)) == []


@pytest.mark.parametrize("fault", ["contradicted", "refused"])
def test_a_refusal_that_nobody_confirms_is_unknown(bench: MemoryBench, fault: Fault) -> None:
    """A client that asked twice is told that it lost, be it to itself; and then the catalog cannot be asked."""
    table = create(bench)
    bench.catalog.follow(FaultPlan({PUBLISHES: fault}, falls_silent=True))
    with pytest.raises(CommitUnknown, match="cannot be told: the catalog does not answer any more") as caught:
        append(bench, table, "one", 5)

    bench.catalog.follow(FaultPlan())
    assert caught.value.exit_code == EXIT_UNKNOWN
    assert bench.rows(again(bench)) == (["one"] if fault == "contradicted" else [])


def test_a_commit_that_was_accepted_and_is_not_there_is_unknown(bench: MemoryBench) -> None:
    """A catalog that answers before it has written, or from a copy that is behind: nothing is built on its word."""
    append(bench, create(bench), "one", 5)

    with pytest.raises(CommitUnknown, match="was accepted, and its snapshot is not there"):
        see_through(partial(bench.lake.iceberg, NAME), NAME, "main", 2**40, lambda: None)


@pytest.mark.parametrize("last", ["ConnectException", "UnknownHostException", "SSLHandshakeException"])
@pytest.mark.parametrize("first", ["RESTException", "UncheckedSQLException", "TTransportException"])
def test_a_commit_that_never_left_is_no_unknown_outcome(first: str, last: str) -> None:
    """There was no connection to send it by; but what Iceberg itself says that nobody can tell, nobody can."""
    assert type(lake_error(NAME, JavaError(first, last), "someone")) is LakeUnavailable

    unknown = JavaError("CommitStateUnknownException", first, last)
    assert type(lake_error(NAME, unknown, "someone")) is CommitUnknown


@pytest.mark.parametrize(
    "classes",
    [
        ("RESTException",),
        ("UncheckedSQLException", "SQLiteException"),
        ("UncheckedIOException", "SocketTimeoutException"),
        *NO_ANSWERS,
    ],
    ids="<".join,
)
def test_an_answer_that_no_commit_waited_for_leaves_nothing_unknown(classes: tuple[str, ...]) -> None:
    """A refusal, a warehouse that is slow before the catalog is asked; and all of it while a batch is staged."""
    is_answer = classes not in NO_ANSWERS

    assert type(lake_error(NAME, JavaError(*classes), "someone" if is_answer else None)) is LakeUnavailable


def _begins(bench: MemoryBench) -> None:
    """Another process loads the table, and gets as far as a branch of its own."""
    other = memory_lake(bench.catalog, "app-2")
    found = other.load(NAME)
    assert found is not None

    def killed(_: object) -> None:
        raise RuntimeError

    with suppress(RuntimeError):
        other.publish(found, marker("0123456789abcdef", 9), killed)


def _ends(bench: MemoryBench) -> None:
    """Another process publishes a batch."""
    found = memory_lake(bench.catalog, "app-2").load(NAME)
    assert found is not None
    bench.process().publish(found, marker("two", 9), lambda _: None)


@pytest.mark.parametrize(
    ("other", "named"), [(_begins, "application app-2"), (_ends, "pipeline tests")], ids=["begins", "ends"]
)
@pytest.mark.parametrize("at", [0, 1])
def test_a_writer_that_comes_while_a_batch_is_staged_is_named(
    bench: MemoryBench, other: Callable[[MemoryBench], None], named: str, at: int
) -> None:
    """Whether the two meet in a commit to a branch, or what was staged is gone: by its branch, if by nothing else."""
    table, left = create(bench), [at]

    def fault(_path: str) -> None:
        left[0] -= 1
        if left[0] == -1:
            bench.catalog.fault = lambda _: None
            other(bench)

    bench.catalog.fault = fault
    with pytest.raises(CommitConflict, match=rf"The other writer: .*{named}\."):
        append(bench, table, "one", 5)


def test_of_a_writer_that_leaves_no_name_none_is_made_up(bench: MemoryBench) -> None:
    """Columns that were changed are in no snapshot, and the newest one is ours."""
    table = create(bench)
    bench.alter()

    with pytest.raises(CommitConflict) as caught:
        append(bench, table, "one", 5)

    assert "writer:" not in caught.value.what


def test_branches_are_removed_whoever_else_commits(bench: MemoryBench) -> None:
    """A commit to any branch of the table is in the way of the removal, and none of its business."""
    append(bench, create(bench), "one", 5)
    bench.branch("cdcm-replay-1")
    others = iter(["a", "b"])

    def overtake(_path: str) -> None:
        for other in others:
            bench.branch(other)
            return

    bench.catalog.fault = overtake

    branches.drop_branches(bench.lake, NAME, "cdcm-replay-")

    assert bench.refs() >= {"a", "b"}
    assert "cdcm-replay-1" not in bench.refs()


def test_no_column_is_added_to_a_table_whose_columns_were_changed_meanwhile(bench: MemoryBench) -> None:
    """Another process has renamed one: under its old name it would be added again, and the table had both."""
    append(bench, create(bench), "one", 5)
    table, plan = again(bench), plan_schema(SCHEMA, [TableSchema((Column("old", "string"),))])
    statements: list[str] = []
    session: Any = bench.lake.spark
    session.sql = lambda text, **_: statements.append(text)
    bench.alter()

    with pytest.raises(CommitConflict, match="changed by another program"):
        bench.lake.evolve(table, plan)

    assert not statements
    bench.lake.evolve(again(bench), plan)
    assert len(statements) == 1
