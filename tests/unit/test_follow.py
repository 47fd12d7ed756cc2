"""`run --follow` as it goes on and on: what one table's failure means for others, who is left alone, what is kept."""

import gc
import itertools
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, Protocol

import pytest
import yaml

from cdc_materializer import pipeline
from cdc_materializer.batch.steps import Batch
from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.cli.following import Following
from cdc_materializer.clocks import SystemClock
from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.errors import (
    EXIT_BUG,
    EXIT_REWOUND,
    EXIT_SOURCE,
    EXIT_USAGE,
    BatchBlocked,
    LakeUnavailable,
    SourceUnavailable,
    SparkEnded,
)
from cdc_materializer.lease import LEASE_SECONDS, worked_on_by
from cdc_materializer.line.line import Line
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.report.models import ErrorInfo, RunReport, TableRun
from cdc_materializer.run.run import RunOptions, run_forever
from cdc_materializer.source import TopicState
from cdc_materializer.testing import FixedClock, TopicBuilder
from tests.unit.paces import UNPACED

NAMES = ("shop.public.one", "shop.public.two", "shop.public.three")
Advance = Callable[[Line, TopicState], Batch | None]


class Follow(Protocol):
    """Follows; see `follow`."""

    def __call__(
        self, advance: Advance, rounds: int, clock: FixedClock | None = None, config: Config | None = None
    ) -> Following:
        """So many rounds; with a clock, which goes on only while it is waited, by five seconds."""


def _unreached() -> LakeUnavailable:
    """What is said of a catalog that does not answer."""
    cause = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: "ConnectException"))
    cause.getCause = lambda: None
    error = LakeUnavailable("It does not answer.", "Look.")
    error.__cause__ = Exception()
    error.__cause__.java_exception = cause  # type: ignore[attr-defined]
    return error


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Three tables, each with a message that nothing has read."""
    for name in NAMES:
        topic = TopicBuilder(name)
        topic.add(b"1", b"{}")
        topic.write(tmp_path / "recorded")
    content = {"name": "shop", "source": {"files": "recorded"}, "tables": [{"topic": name} for name in NAMES]}
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_config(path)


@pytest.fixture
def follow(config: Config, monkeypatch: pytest.MonkeyPatch) -> Follow:
    """Follow with these batches for so many rounds; nothing of Spark is there."""
    context = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    session = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="ours", _jsc=context))

    @contextmanager
    def session_for(*_: object) -> Iterator[Any]:
        yield session

    class Lakes:
        spark = session

        def __init__(self, *_: object) -> None:
            pass

        def of(self, _: str) -> Any:  # noqa: ANN401 - as much of a Lake as is asked
            return SimpleNamespace(prepare=lambda _: None, spark=session)

        def pace(self, _: object) -> Any:  # noqa: ANN401 - likewise
            return UNPACED

    usual = config

    def go(advance: Advance, rounds: int, clock: FixedClock | None = None, config: Config | None = None) -> Following:
        options = RunOptions()
        left = itertools.count(1)

        def wait(seconds: float) -> bool:
            if clock is not None:
                clock.advance(seconds)
            if next(left) >= rounds:
                options.stop.set()
            return options.stop.is_set()

        stop = SimpleNamespace(set=options.stop.set, is_set=options.stop.is_set, wait=wait)
        monkeypatch.setattr("cdc_materializer.pipeline.advance", advance)
        told = Following("shop")
        asked = RunOptions(stop=stop, clock=clock or SystemClock())  # type: ignore[arg-type]
        for report in run_forever(config or usual, options=asked, poll=0.0 if clock is None else 5.0):
            told.add(report)
        return told

    monkeypatch.setattr("cdc_materializer.run.run.session_for", session_for)
    monkeypatch.setattr("cdc_materializer.run.run.Lakes", Lakes)
    return go


def test_without_spark_a_follower_ends(follow: Follow) -> None:
    """With 4, so that whoever watches it starts it again; no table is told to have met a bug."""

    def advance(line: Line, _: TopicState) -> Batch | None:
        context: Any = line.lake.spark.sparkContext
        context._jsc.sc = _refused
        raise ConnectionRefusedError

    told = follow(advance, 1000)

    codes = {run.error.code if run.error else None for run in told.report().tables}
    assert (codes, told.exit_code) == ({"SparkEnded"}, 4)


def _refused() -> NoReturn:
    raise ConnectionRefusedError


def test_one_bad_table_does_not_stop_the_others(follow: Follow) -> None:
    """Whether it fails by an error of ours or by a bug: the others' batches are published, round after round."""
    worked: Counter[str] = Counter()

    def advance(line: Line, _: TopicState) -> Batch | None:
        name = str(line.mirror)
        worked[name] += 1
        if name == "public.one":
            raise SourceUnavailable("It is down.", "Start it.")
        if name == "public.two":
            raise ZeroDivisionError
        return Batch({"upserted": 1}, {}, Offsets({0: 1}), 1, 1) if worked[name] == 1 else None

    told = follow(advance, 3)

    codes = {run.table: run.error.code if run.error else None for run in told.report().tables}
    assert codes == {"public.one": "SourceUnavailable", "public.two": "BUG", "public.three": None}
    assert told.exit_code == EXIT_BUG
    assert worked["public.three"] >= 4
    assert {run.table: run.batches > 0 for run in told.report().tables}["public.three"]


def test_tables_with_little_to_do_come_first(
    follow: Follow, config: Config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And are told in the order of the file."""
    for name, messages in zip(NAMES, (3, 1, 2), strict=True):
        topic = TopicBuilder(name)
        for _ in range(messages):
            topic.add(b"1", b"{}")
        topic.write(tmp_path / "recorded")
    monkeypatch.setattr("cdc_materializer.run.run.TABLES_AT_ONCE", 1)
    worked: list[str] = []

    def advance(line: Line, _: TopicState) -> Batch | None:
        worked.append(line.table.topic)
        raise SourceUnavailable("It is down.", "Start it.")

    told = follow(advance, 1, FixedClock(), config)

    assert worked == [NAMES[1], NAMES[2], NAMES[0]]
    assert [run.topic for run in told.report().tables] == list(NAMES)


def test_a_follower_ends_with_what_each_table_met_last() -> None:
    """Not with what another table, which has recovered, met in the same round."""

    def failed(name: str, code: str) -> TableRun:
        return TableRun(table=name, topic="t", error=ErrorInfo(code=code, message="It stopped."))

    told = Following("shop")
    both = [failed("one", "OFFSET_GAP"), failed("two", "SourceUnavailable")]
    told.add(RunReport(pipeline="shop", tables=both, exit_code=EXIT_REWOUND))
    assert told.exit_code == EXIT_REWOUND
    told.add(RunReport(pipeline="shop", tables=[TableRun(table="one", topic="t")]))
    assert told.exit_code == EXIT_SOURCE
    told.add(RunReport(pipeline="shop", tables=[failed("one", "BUG")], exit_code=EXIT_BUG))
    assert told.exit_code == EXIT_BUG


def test_a_table_that_failed_is_tried_again_when_its_pause_is_over(follow: Follow) -> None:
    """By the clock that the run was given: after 5 seconds, then 10, 20 and 40; the others are looked at each time."""
    clock, tried, others = FixedClock(), list[float](), set[float]()

    def advance(line: Line, _: TopicState) -> Batch | None:
        if str(line.mirror) != "public.one":
            others.add(clock.monotonic())
            return None
        tried.append(clock.monotonic())
        assert line.now() == clock.now()
        raise SourceUnavailable("It is down.", "Start it.")

    follow(advance, 20, clock)

    assert tried == [0.0, 5.0, 15.0, 35.0, 75.0]
    assert others == {5.0 * number for number in range(20)}


def test_a_table_that_is_far_behind_ends_its_turn(follow: Follow) -> None:
    """So that the others are looked at each time that it has worked for half a minute, and not only when it is done."""
    clock, worked = FixedClock(), Counter[str]()

    def advance(line: Line, _: TopicState) -> Batch | None:
        name = str(line.mirror)
        worked[name] += 1
        if name != "public.one" or worked[name] > 6:
            return None
        clock.advance(20.0)
        return Batch({"upserted": 1}, {}, Offsets({0: 1}), 1, 1)

    told = follow(advance, 1, clock)

    assert worked == {"public.one": 7, "public.two": 4, "public.three": 4}, "three turns of two batches, and a look"
    assert {run.table: run.batches for run in told.report().tables}["public.one"] == 6


def test_a_stopped_table_that_is_far_behind_ends_its_turn(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it can still do is land, and it goes on with that in each round until nothing is left; then it pauses."""
    clock, begun, looks = FixedClock(), list[float](), Counter[str]()
    landed: list[float] = []
    lake = SimpleNamespace(prepare=lambda _: None, load=lambda _: None, spark=None)
    advance_in_full = pipeline.advance

    def plan(*_: object) -> Span:
        return Span("t", Offsets({0: len(landed)}), Offsets({0: min(len(landed) + 1, 7)}))

    def land(_line: object, _raw: object, span: Span, _topic: object) -> None:
        if not span.is_empty:
            landed.append(clock.monotonic())
            clock.advance(10.0)

    def fold(*_: object, **__: object) -> NoReturn:
        raise BatchBlocked("A rule blocks it.", "Look at it.")

    def advance(line: Line, topic: TopicState) -> Batch | None:
        looks[str(line.mirror)] += 1
        if str(line.mirror) != "public.one":
            return None
        begun.append(clock.monotonic())
        return advance_in_full(line, topic)

    known = SimpleNamespace(raw=None, mirror=None, quarantine=None)
    steps = {"load": lambda _: known, "plan_landing": plan, "land": land, "fold_next": fold}
    for name, step in {**steps, "told_by_raw": lambda *_: (None, None, known)}.items():
        monkeypatch.setattr(pipeline, name, step)
    monkeypatch.setattr("cdc_materializer.run.run.Lakes.of", lambda *_: lake)
    told = follow(advance, 6, clock)

    assert landed == [0.0, 10.0, 20.0, 35.0, 45.0, 55.0, 70.0], "three messages a turn, and no pause between"
    assert begun == [0.0, 35.0, 70.0, 85.0, 95.0], "once all has landed it is left alone, for 5 and 10 seconds"
    assert looks == {"public.one": 5, "public.two": 6, "public.three": 6}
    assert {run.table: run.error.code for run in told.report().tables if run.error} == {"public.one": "BatchBlocked"}


def test_a_table_that_takes_long_to_fail_is_left_alone_too(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its turn is over by then, but nothing was left to land: there is no haste."""
    clock, begun = FixedClock(), list[float]()
    advance_in_full = pipeline.advance

    def fold(*_: object, **__: object) -> NoReturn:
        clock.advance(40.0)
        raise BatchBlocked("A rule blocks it.", "Look at it.")

    def advance(line: Line, topic: TopicState) -> Batch | None:
        if str(line.mirror) != "public.one":
            return None
        begun.append(clock.monotonic())
        return advance_in_full(line, topic)

    known, nothing = SimpleNamespace(raw=None, mirror=None, quarantine=None), Span("t", Offsets(), Offsets())
    steps = {"load": lambda _: known, "plan_landing": lambda *_: nothing, "land": lambda *_: None, "fold_next": fold}
    for name, step in {**steps, "told_by_raw": lambda *_: (None, None, known)}.items():
        monkeypatch.setattr(pipeline, name, step)
    lake = SimpleNamespace(prepare=lambda _: None, load=lambda _: None, spark=None)
    monkeypatch.setattr("cdc_materializer.run.run.Lakes.of", lambda *_: lake)
    follow(advance, 8, clock)

    pauses = [after - before - 40.0 for before, after in pairwise(begun)]
    assert pauses[:3] == [5.0, 10.0, 20.0]


@pytest.mark.parametrize(
    ("failure", "asked", "stopped"),
    [
        pytest.param(LakeUnavailable("It may not.", "Ask."), ["closed", "open"], {"closed.one", "closed.two"}, id="no"),
        pytest.param(
            SparkEnded("It is gone.", "Again."), ["closed"], {"closed.one", "closed.two", "open.three"}, id="ended"
        ),
        pytest.param(
            _unreached(), ["closed"], {"closed.one", "closed.two", "open.three"}, id="away: it would take a minute each"
        ),
    ],
)
def test_a_namespace_that_cannot_be_made_stops_its_own_tables(
    follow: Follow,
    config: Config,
    monkeypatch: pytest.MonkeyPatch,
    failure: LakeUnavailable,
    asked: list[str],
    stopped: set[str],
) -> None:
    """Each is asked for once, however many tables are in it, and none behind a catalog that answers nobody."""
    namespaces, worked = list[str](), set[str]()

    def prepare(name: TableName) -> None:
        namespaces.append(".".join(name.namespace))
        if name.namespace == ("closed",):
            raise failure

    def advance(line: Line, _: TopicState) -> Batch | None:
        worked.add(str(line.mirror))
        return None

    mirrors = ("closed.one", "closed.two", "open.three")
    tables = [TableConfig(topic=name, mirror=mirror) for name, mirror in zip(NAMES, mirrors, strict=True)]
    monkeypatch.setattr("cdc_materializer.run.run.Lakes.of", lambda *_: SimpleNamespace(prepare=prepare, spark=None))
    told = follow(advance, 1, FixedClock(), config.model_copy(update={"tables": tables}))

    assert (namespaces, worked) == (asked, set(mirrors) - stopped)
    assert {run.table for run in told.report().tables if run.error} == stopped


def test_a_table_that_another_process_works_on_is_left_to_it(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go on."""
    worked: Counter[str] = Counter()

    def advance(line: Line, _: TopicState) -> Batch | None:
        worked[str(line.mirror)] += 1
        return None

    def by(_: object, mirror: TableName, own: str, __: datetime) -> str | None:
        return "theirs" if str(mirror) == "public.two" and own == "ours" else None

    monkeypatch.setattr("cdc_materializer.run.run.worked_on_by", by)
    follow(advance, 2)

    assert set(worked) == {"public.one", "public.three"}


@pytest.fixture
def globs(config: Config) -> Config:
    """The same topics by globs: a mirror of each of some, and one mirror of others."""
    globs = [{"topic": "shop.public.t*"}, {"topic": "*.public.one", "mirror": "public.one"}]
    return config.model_copy(update={"tables": [TableConfig.model_validate(entry) for entry in globs]})


def _make(config: Config, name: str) -> None:
    topic = TopicBuilder(name)
    topic.add(b"1", b"{}")
    topic.write(config.root / "recorded")


def test_a_topic_that_comes_while_a_run_follows_is_taken_up(follow: Follow, globs: Config) -> None:
    """As a table of its own, and as one more topic of a table; one that goes is told as missing, as before."""
    seen: list[tuple[str, tuple[str, ...]]] = []

    def advance(line: Line, topic: TopicState) -> Batch | None:
        seen.append((str(line.mirror), topic.topics))
        if len(seen) == 3:
            _make(globs, "shop.public.ten")
            _make(globs, "other.public.one")
            (globs.root / "recorded" / "shop.public.two.jsonl").unlink()
        return None

    told = follow(advance, 2, config=globs)

    assert sorted(seen[:3]) == [("public.one", ("shop.public.one",)), ("public.three", ()), ("public.two", ())]
    both = ("other.public.one", "shop.public.one")
    assert sorted(seen[3:]) == [("public.one", both), ("public.ten", ()), ("public.three", ())]
    assert {run.table: run.error.code for run in told.report().tables if run.error} == {"public.two": "TopicMissing"}


def test_a_topic_that_no_table_can_be_made_of_keeps_none_away(follow: Follow, globs: Config) -> None:
    """It is told once, those that come later are taken up, and a mirror stays that of the topic that it has."""
    coming = iter([["shop.public.t__raw", "a.public.two"], ["shop.public.ten"], ["x.y.z"], []])
    worked: Counter[str] = Counter()

    def advance(line: Line, _: TopicState) -> Batch | None:
        worked[line.table.topic] += 1
        for name in next(coming) if line.table.topic == "shop.public.two" else ():
            _make(globs, name)
        return None

    waits = [TableConfig(topic=topic) for topic in ("*.public.t*", "x.*")]
    told = follow(advance, 4, config=globs.model_copy(update={"tables": waits}))

    failed = {run.table: run.error.code for run in told.report().tables if run.error}
    assert failed == {"a.public.two": "ConfigError", "shop.public.t__raw": "InvalidName"}
    assert told.exit_code == EXIT_USAGE
    assert (worked["shop.public.two"], worked["shop.public.ten"], worked["x.y.z"]) == (4, 2, 1)
    assert "a.public.two" not in worked


def test_a_run_goes_on_with_the_topics_that_it_knows(
    follow: Follow, globs: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where they cannot be listed for some time, which is told once, and where none is listed."""
    worked: Counter[str] = Counter()
    answers: list[tuple[str, ...] | None] = [NAMES, NAMES, None, None, (), NAMES]

    def topics(_: object) -> tuple[str, ...]:
        found = answers.pop(0)
        if found is None:
            raise SourceUnavailable("It is down.", "Start it.")
        return found

    def advance(line: Line, _: TopicState) -> Batch | None:
        worked[str(line.mirror)] += 1
        return None

    monkeypatch.setattr("cdc_materializer.source.recorded.RecordedSource.topics", topics)
    follow(advance, 5, config=globs)

    assert answers == []
    assert worked == dict.fromkeys(("public.one", "public.two", "public.three"), 5)
    assert caplog.text.count("The run goes on with the topics that it knows: It is down.") == 1


NOW = datetime(2026, 1, 1, tzinfo=UTC)


class _Tables:
    """As much of a catalog as is asked: the newest snapshots of raw and mirror."""

    def __init__(self, raw: tuple[str | None, float] | None, mirror: tuple[str | None, float] | None = None) -> None:
        self._found = {"shop.t__raw": raw, "shop.t": mirror}

    def lines_of(self, name: TableName) -> tuple[SnapshotLine, ...]:
        found = self._found[str(name)]
        if found is None:
            return ()
        application, age = found
        told = {"app-id": application} if application is not None else {}
        at = int((NOW - timedelta(seconds=age)).timestamp() * 1000)
        return (SnapshotLine(1, None, 1, told, at), SnapshotLine(2, None, 1, {"app-id": "long ago"}, 0))


@pytest.mark.parametrize(
    ("raw", "mirror", "expected"),
    [
        (None, None, None),
        (("theirs", 1.0), None, "theirs"),
        (("theirs", LEASE_SECONDS + 1), None, None),
        (("theirs", -1.0), None, "theirs"),
        (("theirs", -86_400.0), None, None),
        (("ours", 1.0), ("theirs", 5.0), None),
        (("ours", 5.0), ("theirs", 1.0), "theirs"),
        ((None, 1.0), None, None),
    ],
)
def test_the_newest_commit_says_who_works_on_a_table(
    raw: tuple[str | None, float] | None, mirror: tuple[str | None, float] | None, expected: str | None
) -> None:
    """For some seconds; who was killed keeps nobody away for longer, and neither does a clock that is a day off."""
    tables: Any = _Tables(raw, mirror)

    assert worked_on_by(tables, TableName.parse("shop.t"), "ours", NOW) == expected


def test_a_catalog_that_cannot_be_asked_keeps_nobody_away(follow: Follow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only work would be lost."""
    worked: Counter[str] = Counter()

    def advance(line: Line, _: TopicState) -> Batch | None:
        worked[str(line.mirror)] += 1
        return None

    def refuse(*_: object) -> None:
        raise LakeUnavailable("Down.", "Up.")

    monkeypatch.setattr("cdc_materializer.run.run.worked_on_by", refuse)
    follow(advance, 1)

    assert len(worked) == len(NAMES)


def test_hundreds_of_rounds_keep_nothing(follow: Follow) -> None:
    """Rounds without news, rounds with a batch and rounds that fail, hundreds of each, hold no more than a few."""
    rounds = itertools.count()
    held: list[int] = []

    def advance(line: Line, _: TopicState) -> Batch | None:
        number = next(rounds)
        if number in {200, 900, 1600}:
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
        if number % 7 == 0 and str(line.mirror) == "public.one":
            raise SourceUnavailable("It is down.", "Start it.")
        return None

    tracemalloc.start()
    try:
        follow(advance, 600)
    finally:
        tracemalloc.stop()

    # What grows with the rounds grows in both halves; a cache that something else fills meanwhile, once.
    assert len(held) == 3
    assert min(after - before for before, after in itertools.pairwise(held)) < 50_000, held
