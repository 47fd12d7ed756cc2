"""What a run decides before any engine starts: what waits, which tables are meant, what the exit code is."""

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn
from unittest.mock import MagicMock

import pytest
import yaml

from cdc_materializer import plan
from cdc_materializer.config import Config, TableConfig, load_config, resolve_tables
from cdc_materializer.contract import load_contract
from cdc_materializer.errors import (
    EXIT_DONE,
    EXIT_SOURCE,
    BrokerUnreachable,
    ConfigError,
    InvariantBroken,
    LakeUnavailable,
    OffsetRegression,
    SourceUnavailable,
    TopicMissing,
)
from cdc_materializer.lanes import WIDTH
from cdc_materializer.marker.marker import Marker, is_unsettled
from cdc_materializer.marker.swapped import Swapped
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets
from cdc_materializer.progress import Backlog, asked_again, backlogs, landed, plan_reading, plan_up_to
from cdc_materializer.proof import proof
from cdc_materializer.rebuild import rebuild
from cdc_materializer.report.models import ErrorInfo, RunReport, TableRun
from cdc_materializer.retry import Deadline
from cdc_materializer.run.contracts import tell_changes, with_changes
from cdc_materializer.run.pauses import Pauses
from cdc_materializer.run.run import RunOptions, _report, open_work, run_once
from cdc_materializer.source import Source, TopicState, state_of
from cdc_materializer.testing import FixedClock, TopicBuilder
from tests.unit.contracts import HEAD

TOPICS = ("shop.public.orders", "shop.public.customers")


def marker(offsets: dict[int, int], topic_id: str | None = None) -> Marker:
    """A marker at the given offsets."""
    return Marker(
        pipeline="shop",
        batch="b",
        topic=TOPICS[0],
        topic_id=topic_id,
        offsets=Offsets(offsets),
        positions={},
        source_snapshot=None,
        contract=None,
        counts={},
    )


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Two tables and one topic with two messages; the second topic is not there."""
    topic = TopicBuilder(TOPICS[0])
    topic.add(b"1", b"{}")
    topic.add(b"1", b"{}")
    topic.write(tmp_path / "recorded")
    content = {
        "name": "shop",
        "source": {"files": "recorded"},
        "tables": [{"topic": name} for name in TOPICS],
    }
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_config(path)


def backlog(
    config: Config,
    ends: dict[int, int],
    raw: Marker | None,
    mirror: Marker | None,
    *,
    topic_id: str | None = None,
    retries: bool = False,
) -> Backlog:
    """Where the first table stands, with the topic beginning at offset 10."""
    beginnings = Offsets(dict.fromkeys(ends, 10))
    state = TopicState(TOPICS[0], topic_id, beginnings, Offsets(ends))
    return Backlog(config.tables[0], state, raw, mirror, retries)


def test_a_table_at_the_end_of_its_topic_is_done(config: Config) -> None:
    """Raw and mirror both have all messages, so a run has nothing to do."""
    here = marker({0: 15})

    assert backlog(config, {0: 15}, here, here).is_done
    assert backlog(config, {0: 15}, here, here).messages == 0


@pytest.mark.parametrize(("raw", "mirror"), [(None, None), ({0: 15}, None), ({0: 15}, {0: 12}), ({0: 12}, {0: 12})])
def test_a_table_that_lacks_messages_is_not_done(
    config: Config, raw: dict[int, int] | None, mirror: dict[int, int] | None
) -> None:
    """Whether raw or the mirror is behind, and after a crash between the two."""
    found = backlog(config, {0: 15}, marker(raw) if raw else None, marker(mirror) if mirror else None)

    assert not found.is_done
    assert found.messages == (5 if mirror is None else 3)


def test_a_partition_that_came_new_is_work(config: Config) -> None:
    """A topic that was given another partition has messages from that partition's beginning."""
    here = marker({0: 15})
    found = backlog(config, {0: 15, 1: 12}, here, here)

    assert not found.is_done
    assert found.messages == 2


def test_a_partition_that_came_new_and_is_empty_again_is_work(config: Config) -> None:
    """Its messages are gone unread, which a run has to say; without an id it may have begun there."""
    here = marker({0: 15}, "same")

    assert not backlog(config, {0: 15, 1: 10}, here, here, topic_id="same").is_done
    assert backlog(config, {0: 15, 1: 10}, here, here, topic_id=None).is_done


def test_a_marker_that_cannot_be_read_is_its_own_tables_error(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that a newer version wrote: the other tables go on."""

    def marker_of(_: object, name: TableName) -> Marker | None:
        return Marker.from_summary({"cdcm.version": "2"} if name == config.tables[0].mirror.raw else {})

    (config.root / "recorded" / f"{TOPICS[1]}.jsonl").touch()
    monkeypatch.setattr("cdc_materializer.catalog.catalog.Tables.marker_of", marker_of)
    found = backlogs(config, open_work(config, RunOptions()).source, config.tables)

    assert [type(one.error) for one in found] == [InvariantBroken, type(None)]
    assert [one.is_done for one in found] == [False, False]


@pytest.mark.parametrize(
    ("failure", "asked"),
    [(BrokerUnreachable("Down.", "!"), 1), (SourceUnavailable("Not yours.", "!"), 2), (TopicMissing("None.", "!"), 2)],
)
def test_brokers_that_are_down_are_asked_once_and_not_once_a_table(
    config: Config, failure: SourceUnavailable, asked: int
) -> None:
    """Each question takes its ten seconds, of a hundred tables a quarter of an hour in which nothing can be stopped."""
    source = MagicMock(spec=Source)
    source.state.side_effect = failure
    found = backlogs(config, source, config.tables)

    assert [one.error for one in found] == [failure] * len(TOPICS)
    assert source.state.call_count == asked


def test_a_topic_that_was_made_again_is_not_done(config: Config) -> None:
    """Equal offsets prove nothing when the topic is another one."""
    here = marker({0: 15}, "old")

    assert not backlog(config, {0: 15}, here, here, topic_id="new").is_done
    assert backlog(config, {0: 15}, here, here, topic_id="old").is_done
    assert backlog(config, {0: 15}, here, here, topic_id=None).is_done


@pytest.mark.parametrize(
    ("now", "is_lost"), [({0: 17}, False), ({0: 19, 1: 12}, False), ({0: 15}, True)], ids=["landed", "more", "lost"]
)
def test_a_topic_is_asked_again_before_it_is_taken_for_one_that_lost_its_end(
    now: dict[int, int],
    is_lost: bool,  # noqa: FBT001
    config: Config,
) -> None:
    """Another process may have landed more of it since it was asked, partitions that were added too."""
    asked: list[str] = []

    def state(topic: str) -> TopicState:
        asked.append(topic)
        return TopicState(topic, None, Offsets(dict.fromkeys(now, 10)), Offsets(now))

    source: Any = SimpleNamespace(state=state)
    table, before = config.tables[0], TopicState(TOPICS[0], None, Offsets({0: 10}), Offsets({0: 15}))
    for raw in (None, marker({0: 12}), marker({0: 15})):
        assert asked_again(source, table, before, raw) is before
    assert asked == []
    raw = marker({p: min(end, 17) if p == 0 else end for p, end in now.items()} | ({0: 17} if is_lost else {}))

    topic = asked_again(source, table, before, raw)

    assert asked == [TOPICS[0]]
    with pytest.raises(OffsetRegression, match="ends at offset 15") if is_lost else nullcontext():
        assert plan_reading(table, topic, raw).end == now


def test_a_run_goes_no_further_than_it_asked_for_whoever_has_landed_more(config: Config) -> None:
    """It would not end as long as messages come; what it asked for and nobody has landed it still takes."""
    asked, ends = Offsets({0: 15, 1: 14}), Offsets({0: 19, 1: 30, 2: 18})
    before, now = (TopicState(TOPICS[0], None, Offsets(dict.fromkeys(found, 10)), found) for found in (asked, ends))
    source: Any = SimpleNamespace(state=lambda _: now)

    spans = [
        plan_up_to(source, config.tables[0], before, marker(raw))
        for raw in ({0: 17, 1: 12}, {0: 17, 1: 14, 2: 11}, {0: 12, 1: 12})
    ]

    assert [dict(span.end) for span in spans] == [{0: 17, 1: 14, 2: 10}, {0: 17, 1: 14, 2: 11}, {0: 15, 1: 14}]


@pytest.mark.parametrize(
    ("there", "own"), [(True, False), (False, False), (True, True)], ids=["new", "gone", "another's"]
)
def test_a_topic_of_a_glob_that_another_process_landed_first_is_no_lost_one(
    there: bool,  # noqa: FBT001
    own: bool,  # noqa: FBT001
) -> None:
    """It was made since this one listed them. One that is gone, or has an entry of its own, is missed as ever."""
    ends = {"a.t": 5, "b.t": 7} if there else {"a.t": 5}

    def state(topic: str) -> TopicState:
        if topic not in ends:
            raise TopicMissing("There is no such topic.", "Make it.")
        return TopicState(topic, f"id-{topic}", Offsets({0: 0}), Offsets({0: ends[topic]}))

    source: Any = SimpleNamespace(state=state)
    entries = [{"topic": "*.t", "mirror": "shop.t"}] + ([{"topic": "b.t", "mirror": "shop.b"}] if own else [])
    table, *_ = resolve_tables([TableConfig.model_validate(entry) for entry in entries], ["a.t"])
    topic = state_of(source, table.topic, table.topics)
    raw = replace(marker({0: 4, WIDTH: 6}, "id-a.t,id-b.t"), topic="*.t", topics=("a.t", "b.t"))

    with nullcontext() if there and not own else pytest.raises(OffsetRegression):
        assert plan_reading(table, asked_again(source, table, topic, raw), raw).end == {0: 5, WIDTH: 7}
        assert plan_up_to(source, table, topic, raw).end == {0: 5, WIDTH: 6}


def test_messages_that_wait_for_their_schema_are_work(config: Config) -> None:
    """Every run tries them again (design section 4.5)."""
    here = marker({0: 15})

    assert not backlog(config, {0: 15}, here, here, retries=True).is_done


@pytest.mark.parametrize(
    ("mirror", "quarantine", "owes"),
    [
        ({"settles": "0"}, {"batch": "a"}, True),
        ({"settles": "0"}, {"batch": "b"}, True),
        ({"settles": "-7"}, {"batch": "b", "settled": "a"}, True),
        ({"settles": "-7"}, {"batch": "b", "settled": "b"}, False),
        # A later batch that was not published has been held since.
        ({"settles": "-7"}, {"batch": "c", "settled": "b"}, False),
        ({"settles": "0"}, None, False),
        ({}, {"batch": "a"}, False),
        ({"warned": ("rule",)}, None, True),
        ({"warned": ("rule",)}, {"noted": "a", "settled": "a"}, True),
        ({"warned": ("rule",)}, {"noted": "b"}, False),
        # A replay's batch that was swapped in took what it noted with it.
        ({"warned": ("rule",)}, {"settled": "b"}, False),
        ({"warned": ("rule",), "settles": "-7"}, {"noted": "b"}, True),
        ({"swapped": Swapped(7, 5)}, {}, True),
        ({"swapped": Swapped(7)}, {"swapped": Swapped(7, 5), "settled": "b"}, True),
        ({"swapped": Swapped(7, 5)}, {"swapped": Swapped(7, 5), "settled": "a"}, False),
        ({"swapped": Swapped(7, 5), "warned": ("rule",)}, {"swapped": Swapped(7, 5), "settled": "b"}, False),
        ({"swapped": Swapped(7, 5), "warned": ("rule",)}, {"noted": "b"}, True),
        ({"swapped": Swapped(7, 5)}, None, False),
        # A batch was published since.
        ({}, {"swapped": Swapped(7, 5)}, False),
    ],
)
def test_a_batch_that_has_not_ended_what_it_ends_in_quarantine_is_work(
    mirror: dict[str, Any],
    quarantine: dict[str, Any] | None,
    owes: bool,  # noqa: FBT001
    config: Config,
) -> None:
    """Its run was killed behind the commit that readers see, or a replay behind its swap; the markers tell."""
    here = replace(marker({0: 15}), **mirror)
    held = replace(here, **{"settles": None, "swapped": None, **quarantine}) if quarantine is not None else None

    assert here == Marker.from_summary(here.to_summary())
    assert is_unsettled(here, held) == owes
    assert replace(backlog(config, {0: 15}, here, here), unsettled=owes).is_done != owes


def test_a_topic_that_is_missing_is_its_own_tables_error(config: Config) -> None:
    """The other table is looked at all the same, and no table was made."""
    work = open_work(config, RunOptions())
    found = backlogs(config, work.source, work.tables)

    assert [type(one.error) for one in found] == [type(None), TopicMissing]
    assert found[0].messages == 2
    assert found[0].published is None
    assert found[1].messages == 0


def test_a_catalog_that_only_spark_opens_leaves_markers_unknown(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing is known to be done, and Spark has to look."""

    def refuse(*_: object) -> None:
        raise LakeUnavailable("PyIceberg cannot open it.", "Use Spark.")

    monkeypatch.setattr("cdc_materializer.progress.open_tables", refuse)
    work = open_work(config, RunOptions())
    found = backlogs(config, work.source, work.tables)

    assert found[0].raw is None
    assert not found[0].is_done


def test_only_the_tables_that_were_asked_for_are_opened(config: Config) -> None:
    """By the mirror's name."""
    work = open_work(config, RunOptions(tables=["public.customers"]))

    assert [str(table.mirror) for table in work.tables] == ["public.customers"]


def test_a_table_that_the_configuration_lacks_is_named(config: Config) -> None:
    """With the names that it has."""
    with pytest.raises(ConfigError, match=r"no table shop\.nothing .*public\.orders, public\.customers"):
        open_work(config, RunOptions(tables=["public.orders", "shop.nothing"]))


def run_of(error: str | None = None) -> TableRun:
    """What one table's run says."""
    info = ErrorInfo(code=error, message="It stopped.") if error else None
    return TableRun(table="shop.orders", topic=TOPICS[0], batches=0, read=0, offsets={}, seconds=0.0, error=info)


@pytest.mark.parametrize(
    ("codes", "expected"), [([0, 0], 0), ([0, 5], 5), ([3, 5, 6], 6), ([4, 70], 70), ([7, 6], 7), ([2, 3], 3)]
)
def test_the_worst_of_the_tables_decides_the_exit_code(config: Config, codes: Iterable[int], expected: int) -> None:
    """The first of 70, 7, 6, 5, 4, 3, 2 that occurred (design section 4.5)."""
    assert _report(config, [(run_of("X" if code else None), code) for code in codes]).exit_code == expected


def test_the_exit_code_is_no_part_of_the_document(config: Config) -> None:
    """Design section 4.6 fixes what `run --json` prints."""
    printed = _report(config, [(run_of(), 5)]).model_dump(mode="json")

    assert set(printed) == {"pipeline", "tables"}


def _pause(clock: FixedClock, is_over: Callable[[], bool]) -> int:
    """Seconds until a pause is over."""
    seconds = 0
    while not is_over():
        clock.advance(1)
        seconds += 1
    return seconds


def test_a_failing_table_is_left_alone_for_longer_each_time() -> None:
    """Twice as long, up to five minutes, and no longer at all after a success."""
    clock = FixedClock()
    pauses, found = Pauses(5.0, clock), []
    for error in (*["TOPIC_MISSING"] * 9, None, "TOPIC_MISSING"):
        pauses.note([], RunReport(pipeline="p", tables=[run_of(error)]))
        found.append(_pause(clock, lambda: pauses.is_over("shop.orders")))

    assert found == [5, 10, 20, 40, 80, 160, 300, 300, 300, 0, 5]


def test_what_waits_for_a_schema_is_tried_less_and_less_often(config: Config) -> None:
    """It held up nothing, and cost a look through quarantine and raw every five seconds; news are worked on at once."""
    here, clock = marker({0: 15}), FixedClock()
    waits = backlog(config, {0: 15}, here, here, retries=True)
    news = backlog(config, {0: 16}, here, here, retries=True)
    mirror = str(waits.table.mirror)
    pauses, found = Pauses(5.0, clock), []
    for batches in (0, 0, 0, 1, 0):
        run = TableRun(table=mirror, topic=TOPICS[0], batches=batches)
        pauses.note([waits], RunReport(pipeline="p", tables=[run]))
        assert pauses.is_over(mirror)
        assert pauses.is_to_do(news)
        found.append(_pause(clock, lambda: pauses.is_to_do(waits)))

    assert found == [5, 10, 20, 0, 5]


def test_without_a_registry_nothing_waits_for_one(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run would start Spark each time, and find nothing to try."""
    here = marker({0: 2})
    monkeypatch.setattr("cdc_materializer.catalog.catalog.Tables.marker_of", lambda *_: here)
    held: list[dict[str, str | None]] = [{"code": "SCHEMA_UNKNOWN", "rule": None, "status": "open"}]
    monkeypatch.setattr("cdc_materializer.catalog.catalog.Tables.values_of", lambda *_: held)
    source, asked = open_work(config, RunOptions()).source, config.tables[:1]
    registry: Any = SimpleNamespace()

    assert [one.is_done for one in backlogs(config, source, asked)] == [True]
    (one,) = backlogs(config.model_copy(update={"registry": registry}), source, asked)
    assert (one.is_done, one.only_retries) == (False, True)
    # What messages bring along needs no registry.
    held[0]["rule"] = "many-schemas"
    assert [one.only_retries for one in backlogs(config, source, asked)] == [True]


def test_a_run_with_nothing_to_do_starts_no_spark(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables' markers answer, in a second, without Java."""
    here = marker({0: 2})
    state = TopicState(TOPICS[0], None, Offsets({0: 0}), Offsets({0: 2}))
    done = Backlog(config.tables[0], state, here, here)
    monkeypatch.setattr("cdc_materializer.run.run.backlogs", lambda *_: [done])

    def no_session(*_: object, **__: object) -> None:
        pytest.fail("a session was started")

    monkeypatch.setattr("cdc_materializer.run.run.session_for", no_session)
    report = run_once(config)

    assert [(run.batches, run.read, run.offsets) for run in report.tables] == [(0, 0, {"0": 2})]


def test_a_run_whose_time_is_over_says_what_had_no_time_to_answer(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need be no outage of the source, and is not told as a topic without messages either; nothing is begun."""
    state = TopicState(TOPICS[0], None, Offsets({0: 0}), Offsets({0: 2}))
    slow = Backlog(config.tables[0], None, error=BrokerUnreachable("No answer within 0.01 s.", "Look."))
    monkeypatch.setattr("cdc_materializer.run.run.backlogs", lambda *_: [slow, Backlog(config.tables[0], state)])
    monkeypatch.setattr("cdc_materializer.run.run.session_for", None)

    found = run_once(config, options=RunOptions(deadline=Deadline(0.0)))

    asked, left = found.tables
    assert (found.exit_code, left.error) == (EXIT_SOURCE, None)
    assert asked.error is not None
    assert (asked.error.code, "No answer within 0.01 s." in asked.error.message) == ("TimeOver", True)


@pytest.mark.parametrize(
    ("names", "told", "code"),
    [
        ([], {"public.orders": None, "crm.*": "TopicMissing", "shop.public.orders__raw": "InvalidName"}, EXIT_SOURCE),
        (["public.orders"], {"public.orders": None}, EXIT_DONE),
    ],
)
def test_a_topic_that_no_table_can_be_made_of_is_its_own_error(
    config: Config, monkeypatch: pytest.MonkeyPatch, names: list[str], told: dict[str, str | None], code: int
) -> None:
    """As is a glob that no topic matches; the tables that there are go on, and one that is asked for is told alone."""
    for topic in (f"{TOPICS[0]}__raw", TOPICS[0]):
        (config.root / "recorded" / f"{topic}.jsonl").touch()
    globs = config.model_copy(update={"tables": [TableConfig(topic="shop.*"), TableConfig(topic="crm.*")]})
    here = marker({0: 2})
    state = TopicState(TOPICS[0], None, Offsets({0: 0}), Offsets({0: 2}))
    monkeypatch.setattr(
        "cdc_materializer.run.run.backlogs", lambda *asked: [Backlog(table, state, here, here) for table in asked[2]]
    )
    report = run_once(globs, options=RunOptions(tables=names))

    assert {run.table: run.error.code if run.error else None for run in report.tables} == told
    assert report.exit_code == code


@pytest.mark.parametrize(("names", "error"), [([], TopicMissing), (["public.t"], TopicMissing)])
def test_where_no_table_can_be_made_at_all_nothing_is_begun(
    config: Config, names: list[str], error: type[Exception]
) -> None:
    """Nor where the table that is asked for may be one of a glob that no topic matches yet."""
    tables = [TableConfig(topic="crm.*"), *(TableConfig(topic=topic) for topic in TOPICS if names)]

    with pytest.raises(error):
        open_work(config.model_copy(update={"tables": tables}), RunOptions(tables=names))


def test_a_run_that_can_reach_nothing_starts_no_spark(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is down is told at once, with its exit code."""
    down = Backlog(config.tables[0], None, error=SourceUnavailable("The broker is down.", "Start it."))
    monkeypatch.setattr("cdc_materializer.run.run.backlogs", lambda *_: [down])

    def no_session(*_: object, **__: object) -> None:
        pytest.fail("a session was started")

    monkeypatch.setattr("cdc_materializer.run.run.session_for", no_session)
    report = run_once(config)

    assert report.exit_code == SourceUnavailable.exit_code
    assert [run.error.code for run in report.tables if run.error is not None] == ["SourceUnavailable"]


def test_what_is_read_from_raw_tells_how_large_a_session_it_needs(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the markers of the raw tables alone; where the catalog does not answer, nobody knows."""
    work = open_work(config, RunOptions())
    found: dict[str, Marker | None] = {str(work.tables[0].mirror.raw): marker({0: 2, 3: 40})}
    seen = SimpleNamespace(
        marker_of=lambda name: found.get(str(name)), uuid_of=lambda name: "u" if str(name) in found else None
    )
    monkeypatch.setattr("cdc_materializer.progress.open_tables", lambda *_: seen)

    assert landed(work.config, work.tables) == 42
    found[str(work.tables[1].mirror.raw)] = None
    assert landed(work.config, work.tables) is None, "what a table without a marker has, nobody knows"

    def refuse(*_: object) -> None:
        what = "The catalog is down."
        raise LakeUnavailable(what, "Start it.")

    monkeypatch.setattr("cdc_materializer.progress.open_tables", refuse)
    assert landed(work.config, work.tables) is None


@pytest.mark.parametrize(
    ("before", "counts", "told"),
    [
        ("0123456789abcdef", {"read": 1}, True),
        (None, {"read": 1}, True),
        (None, {}, False),
        ("now", {"read": 1}, False),
    ],
    ids=["another contract", "the first contract", "nothing published yet", "the same contract"],
)
def test_a_run_says_what_a_changed_contract_means(
    config: Config,
    caplog: pytest.LogCaptureFixture,
    before: str | None,
    counts: dict[str, int],
    told: bool,  # noqa: FBT001 - what is expected
) -> None:
    """Once the mirror was judged by another contract, the run says what is judged by this one, and what is not."""
    (config.root / "orders.yaml").write_text(f"{HEAD}", encoding="utf-8")
    contract = load_contract(config.root / "orders.yaml")
    judged = replace(marker({0: 15}), contract=contract.fingerprint if before == "now" else before, counts=counts)
    work = replace(open_work(config, RunOptions()), contracts={"public.orders": contract})

    changes = tell_changes(config, work.contracts, [backlog(config, {0: 15}, marker({0: 15}), judged)])

    assert bool(changes) == told
    assert ("cdcm quarantine release public.orders" in caplog.text) == told
    if told:
        assert (changes["public.orders"].before, changes["public.orders"].now) == (before, contract.fingerprint)
    changed = run_of().model_copy(update={"table": "public.orders"})
    document = json.loads(with_changes(RunReport(pipeline="p", tables=[run_of(), changed]), changes).to_json())
    assert "contract_change" not in document["tables"][0], "another table's"
    assert ("contract_change" in document["tables"][1]) == told
    if told:
        found = document["tables"][1]["contract_change"]
        assert (found["before"], found["now"], found["says"]) == (before, contract.fingerprint, caplog.messages[0])


@pytest.mark.parametrize("known", [True, False], ids=["a catalog that tells", "one that only Spark can open"])
def test_a_changed_contract_is_told_with_how_much_it_does_not_judge(
    config: Config, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    """By the totals of the mirror's newest snapshot and the open rows of quarantine: no table is read through."""
    totals = {"total-records": "1204", "total-position-deletes": "4"}
    about = {"topic": "t", "partition": 0, "status": "open", "batch_id": "b"}
    rows = [
        *({**about, "offset": offset} for offset in (7, 7, 9)),
        {**about, "offset": 10, "status": "released"},
        {**about, "offset": 11, "batch_id": ""},
    ]
    lake = SimpleNamespace(lines_of=lambda _: (SimpleNamespace(summary=totals),), values_of=lambda *_: rows)
    monkeypatch.setattr("cdc_materializer.run.contracts.open_tables", lambda *_: lake if known else _refuse())
    judged = replace(marker({0: 15}), contract="0123456789abcdef", counts={"read": 1})

    (change,) = tell_changes(config, {}, [backlog(config, {0: 15}, marker({0: 15}), judged)]).values()

    assert (change.rows, change.held) == ((1200, 2) if known else (None, None))
    assert ("The mirror has 1,200 rows by now, and 2 messages held." in change.says) == known


def _refuse(*_: object) -> NoReturn:
    what = "The lake is down."
    raise LakeUnavailable(what, "Start it.") from OSError("no route")


def test_what_keeps_a_table_from_being_compared_rebuilt_or_planned_is_shown_with_debug(
    config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its entry has the message alone; of the cause `--debug` tells the classes, and no text: that may have values."""
    caplog.set_level(logging.DEBUG, logger="cdc_materializer")
    work, table = open_work(config, RunOptions()), config.tables[0]
    context = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    lake = SimpleNamespace(spark=SimpleNamespace(sparkContext=SimpleNamespace(_jsc=context)))
    line: Any = SimpleNamespace(mirror=table.mirror, table=table, contract=None, lake=lake, load_mirror=_refuse)
    for module in (proof, plan):
        monkeypatch.setattr(module, "beside", lambda *_: None)
        monkeypatch.setattr(module, "Lake", lambda *_, **__: None)
        monkeypatch.setattr(module, "Line", lambda *_: line)
    monkeypatch.setattr(rebuild, "_replay", _refuse)
    monkeypatch.setattr(plan, "_plan", _refuse)
    spark: Any = lake.spark

    found = (
        proof._verify(work, spark, table, proof.VerifyOptions()).error,
        rebuild._told_or_failed(work, line, rebuild.ReplayOptions()).error,
        plan._plan_or_stop(work, spark, Backlog(table, None))[0].error,
    )

    assert {error.code for error in found if error is not None} == {"LakeUnavailable"}
    assert len(found) == caplog.text.count("OSError")
    assert "no route" not in caplog.text
