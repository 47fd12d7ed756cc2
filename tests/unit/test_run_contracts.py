"""A contract that cannot be followed is its own table's matter: it is told there, and nothing but landing goes on."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, Self

import pytest
import yaml

from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.errors import EXIT_USAGE, ConfigError, ContractInvalid, LakeUnavailable, UsageError
from cdc_materializer.line.line import Line
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets
from cdc_materializer.plan import _plan_or_stop
from cdc_materializer.progress import Backlog
from cdc_materializer.proof import proof
from cdc_materializer.query.query import run_query
from cdc_materializer.rebuild import rebuild
from cdc_materializer.report.models import VerifyReport
from cdc_materializer.report.replay_models import ReplayReport
from cdc_materializer.run.contracts import ContractFiles, Stated
from cdc_materializer.run.run import RunOptions, _bring_up, open_work, run_forever, run_once
from cdc_materializer.source import TopicState
from cdc_materializer.testing import FixedClock, TopicBuilder
from tests.unit.contracts import HEAD
from tests.unit.paces import UNPACED

ORDERS, PAYMENTS = "shop.orders", "shop.payments"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Two tables of two messages; in line 10 of the second one's contract is a typo."""
    for name in (ORDERS, PAYMENTS):
        topic = TopicBuilder(f"p.{name}")
        topic.add(b"1", b"{}")
        topic.add(b"1", b"{}")
        topic.write(tmp_path / "recorded")
    (tmp_path / "orders.yaml").write_text(HEAD, encoding="utf-8")
    (tmp_path / "payments.yaml").write_text(f"{HEAD}      - {{name: card, requierd: true}}\n", encoding="utf-8")
    tables = [{"topic": f"p.{name}", "mirror": name, "contract": f"{name[5:]}.yaml"} for name in (ORDERS, PAYMENTS)]
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump({"name": "p", "source": {"files": "recorded"}, "tables": tables}), encoding="utf-8")
    return load_config(path)


def _done(config: Config, at: int = 2) -> list[Backlog]:
    """Both tables brought up so far."""
    found = []
    for table in config.tables:
        offsets = Offsets({0: at})
        here = Marker("p", "b", table.topic, None, offsets, {}, source_snapshot=None, contract=None, counts={"read": 2})
        found.append(Backlog(table, TopicState(table.topic, None, Offsets({0: 0}), Offsets({0: 2})), here, here))
    return found


def test_a_table_whose_contract_cannot_be_followed_stops_alone(
    config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so with file and line even where nothing has come; nobody says that its contract was changed."""
    monkeypatch.setattr("cdc_materializer.run.run.backlogs", lambda *_: _done(config))

    report = run_once(config)

    assert report.exit_code == EXIT_USAGE
    assert [run.error.code if run.error else None for run in report.tables] == [None, "ContractInvalid"]
    assert "payments.yaml:10" in str(report.tables[1].error)
    assert "shop.payments is another one" not in caplog.text


def test_a_run_that_goes_on_for_ever_tells_of_it_in_its_rounds(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of any table that failed: with nothing to do for the others, too."""
    monkeypatch.setattr("cdc_materializer.run.run.backlogs", lambda _, __, tables, ___: [
        one for one in _done(config) if one.table in tables
    ])  # fmt: skip
    monkeypatch.setattr("cdc_materializer.run.run.session_for", _Session)
    monkeypatch.setattr("cdc_materializer.run.run._leave_to_others", lambda _, waiting, *__: waiting)
    monkeypatch.setattr("cdc_materializer.run.run.Lakes", lambda *_: _Lakes())
    monkeypatch.setattr("cdc_materializer.session.watch.has_ended", lambda _: True)

    (report,) = run_forever(config, options=RunOptions(clock=FixedClock()))

    assert [run.error.code for run in report.tables if run.error] == ["ContractInvalid"]
    assert report.exit_code == EXIT_USAGE


class _Session:
    """Stands in for a Spark session, and for what gives one."""

    def __init__(self, *_: object) -> None:
        self.sparkContext = self
        self.applicationId = "app"
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def prepare(self, *_: object) -> None:
        """Nothing is made."""


class _Lakes:
    spark = _Session()

    def of(self, _: str) -> _Session:
        """Any table's."""
        return self.spark

    def pace(self, _: object) -> Any:  # noqa: ANN401 - as much of a pace as is asked
        """Any table's."""
        return UNPACED


def test_a_table_that_nothing_was_left_to_land_of_is_told_as_failed(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that asks for no contract, because it has no messages, does not hide what is wrong with it."""
    work = open_work(config, RunOptions(), refuse=False)
    monkeypatch.setattr("cdc_materializer.pipeline.advance", lambda *_: None)

    lakes: Any = _Lakes()
    runs = [_bring_up(work, lakes, backlog, RunOptions()) for backlog in _done(config, at=1)]

    assert [(run.error.code if run.error else None, code) for run, code in runs] == [
        (None, 0),
        ("ContractInvalid", EXIT_USAGE),
    ]


MASKED = "      - {name: card, customProperties: [{property: mask, value: 'null'}]}\n"


def _following(config: Config) -> ContractFiles:
    """Those of a run that has just begun."""
    work = open_work(config, RunOptions(), refuse=False)
    return ContractFiles(config, work.tables, work.contracts)


def test_a_contract_that_is_changed_is_taken_up_between_two_rounds(
    config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    """At the second look that finds the file the same; the log tells of it as the next run would, once."""
    files, path = _following(config), config.root / "orders.yaml"
    assert [files.look(), files.look(), files.look()] == [set(), set(), set()]
    begun = files.contracts[ORDERS]
    assert files.tell(_done(config)).keys() == {ORDERS}
    assert files.tell(_done(config)) == {}

    path.write_text(f"{HEAD}{MASKED}", encoding="utf-8")
    assert files.look() == set()
    assert files.contracts[ORDERS] is begun
    caplog.clear()
    assert files.look() == {ORDERS}
    (change,) = files.tell(_done(config)).values()

    assert _told(files.contracts[ORDERS]) == change.now != _told(begun)
    assert "shop.orders is another one" in caplog.text
    assert (files.look(), files.tell(_done(config))) == (set(), {})


def test_what_a_run_finds_at_its_beginning_is_read_again(config: Config) -> None:
    """It may have been written between its reading and the first look."""
    work = open_work(config, RunOptions(), refuse=False)
    (config.root / "orders.yaml").write_text(f"{HEAD}{MASKED}", encoding="utf-8")
    files = ContractFiles(config, work.tables, work.contracts)

    assert [files.look(), files.look()] == [set(), {ORDERS}]


def test_a_table_that_comes_while_a_run_follows_is_judged_by_its_contract(config: Config) -> None:
    """Without it nobody would know what is masked; it is told of, and looked at, as those of the others are."""
    work, path = open_work(config, RunOptions(), refuse=False), config.root / "orders.yaml"
    files = ContractFiles(config, (), {})
    assert (files.look(), files.tell(_done(config))) == (set(), {})

    files.follow(work.tables)
    files.follow(work.tables)

    assert files.contracts.keys() == work.contracts.keys()
    assert files.tell(_done(config)).keys() == {ORDERS}
    path.write_text(f"{HEAD}{MASKED}", encoding="utf-8")
    assert [files.look(), files.look(), files.look()] == [set(), {ORDERS}, set()]


def test_half_of_a_contract_that_is_being_written_is_not_followed(config: Config) -> None:
    """It reads well, and lacks the masks that are yet to come."""
    (config.root / "orders.yaml").write_text(f"{HEAD}{MASKED}", encoding="utf-8")
    files, path = _following(config), config.root / "orders.yaml"
    masked = files.contracts[ORDERS]
    files.look(), files.look()

    path.write_text(HEAD, encoding="utf-8")
    seen = files.look()
    path.write_text(f"{HEAD}{MASKED}{MASKED.replace('card', 'iban')}", encoding="utf-8")

    assert (seen, files.look(), files.contracts[ORDERS]) == (set(), set(), masked)
    assert files.look() == {ORDERS}


@pytest.mark.parametrize("how", ["a typo", "gone"])
def test_a_contract_that_has_become_bad_stops_its_own_table(config: Config, how: str) -> None:
    """Until it is mended, which is taken up by itself; of the other table nothing changes."""
    files, path = _following(config), config.root / "orders.yaml"
    files.look(), files.look()
    other = files.contracts[PAYMENTS]

    if how == "gone":
        path.unlink()
    else:
        path.write_text(f"{HEAD}      - {{name: card, requierd: true}}\n", encoding="utf-8")
    assert [files.look(), files.look(), files.look()] == [set(), {ORDERS}, set()]
    assert isinstance(files.contracts[ORDERS], ContractInvalid)
    assert str(files.contracts[PAYMENTS]) == str(other)
    assert files.tell(_done(config)) == {}

    path.write_text(HEAD, encoding="utf-8")
    assert [files.look(), files.look()] == [set(), {ORDERS}]
    assert files.tell(_done(config)).keys() == {ORDERS}


def test_a_key_of_hashes_that_comes_later_is_taken_up(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract's file is the same; what was wrong with it lay elsewhere."""
    hashed = "      - {name: card, customProperties: [{property: mask, value: hash}]}\n"
    (config.root / "payments.yaml").write_text(HEAD + hashed, encoding="utf-8")
    files = _following(config)
    assert [files.look(), files.look(), files.look()] == [set(), set(), set()]

    monkeypatch.setattr("cdc_materializer.run.contracts.with_key", lambda contract, _: contract)

    assert files.look() == {PAYMENTS}


def _told(stated: Stated) -> str:
    assert not isinstance(stated, Exception)
    return stated.fingerprint


def test_a_mended_contract_ends_its_tables_pause(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within two rounds, however often it had failed; the round's report says what the change means."""
    clock, rounds, told = FixedClock(), itertools.count(1), list[tuple[str, str | None]]()
    monkeypatch.setattr("cdc_materializer.run.run.backlogs", lambda _, __, tables, ___: [
        one for one in _done(config, at=1) if one.table in tables
    ])  # fmt: skip
    monkeypatch.setattr("cdc_materializer.run.run.session_for", _Session)
    monkeypatch.setattr("cdc_materializer.run.run._leave_to_others", lambda _, waiting, *__: waiting)
    monkeypatch.setattr("cdc_materializer.run.run.Lakes", lambda *_: _Lakes())
    monkeypatch.setattr("cdc_materializer.pipeline.advance", lambda *_: None)
    monkeypatch.setattr("cdc_materializer.session.watch.has_ended", lambda _: False)
    options = RunOptions(clock=clock)

    def wait(seconds: float) -> bool:
        clock.advance(seconds)
        at = next(rounds)
        if at == 10:
            (config.root / "payments.yaml").write_text(HEAD, encoding="utf-8")
        if at == 13:
            options.stop.set()
        return False

    monkeypatch.setattr(options.stop, "wait", wait)
    monkeypatch.setattr("cdc_materializer.run.run._bring_up", _spy(told))
    for _ in run_forever(config, options=options):
        pass

    tried = [error for name, error in told if name == PAYMENTS]
    assert tried == ["ContractInvalid"] * 4 + [None] * 2, "at 0, 5, 15 and 35 seconds; the next one would be at 75"


def _spy(told: list[tuple[str, str | None]]) -> Callable[..., Any]:
    """Bring a table up as ever, and note how that ended."""

    def bring_up(*of: Any) -> Any:  # noqa: ANN401 - what the run's own takes and gives
        run, code = _bring_up(*of)
        told.append((run.table, run.error.code if run.error else None))
        return run, code

    return bring_up


def test_other_commands_refuse_the_tables_that_they_are_asked_for(config: Config) -> None:
    """Before they show, rebuild or write anything; of the other table they go on."""
    assert list(open_work(config, RunOptions(tables=(ORDERS,))).contracts) == [ORDERS]
    for asked in ((PAYMENTS,), ()):
        with pytest.raises(ContractInvalid, match=r"payments\.yaml:10"):
            open_work(config, RunOptions(tables=asked))


@pytest.mark.parametrize("do", ["verify", "replay", "roll_back", "let_go"])
def test_what_is_done_to_several_tables_leaves_out_the_one_whose_contract_is_bad(
    config: Config, monkeypatch: pytest.MonkeyPatch, do: str
) -> None:
    """It is told in its entry, and the others are worked on; without another one nothing is begun.

    Nor is anything replaced where none is named.
    """

    @dataclass(init=False)
    class Lake:
        """Of which nothing can be loaded, by which the table that is asked for shows."""

        spark = _Session()

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def load(self, name: TableName) -> NoReturn:
            assert "payments" not in str(name)
            raise LakeUnavailable("It is down.", "Start it.")

    sessions = list[object]()

    def session_for(work: object, *_: object, **__: object) -> _Session:
        sessions.append(work)
        return _Session()

    for module in ("proof.proof", "rebuild.rebuild"):
        monkeypatch.setattr(f"cdc_materializer.{module}.session_for", session_for)
        monkeypatch.setattr(f"cdc_materializer.{module}.beside", lambda *_: None)
        monkeypatch.setattr(f"cdc_materializer.{module}.Lake", Lake)
    asked: dict[str, Callable[..., VerifyReport | ReplayReport]] = {
        "verify": lambda *names: proof.verify_tables(config, options=proof.VerifyOptions(names)),
        "replay": lambda *names: rebuild.replay_tables(config, names, rebuild.ReplayOptions()),
        "roll_back": lambda *names: rebuild.roll_back(config, names),
        "let_go": lambda *names: rebuild.let_go(config, names),
    }

    found = asked[do](ORDERS, PAYMENTS)

    assert [table.error.code for table in found.tables if table.error] == ["LakeUnavailable", "ContractInvalid"]
    assert "payments.yaml:10" in str(found.tables[1].error)
    assert sessions
    sessions.clear()
    with pytest.raises(ContractInvalid, match=r"payments\.yaml:10"):
        asked[do](PAYMENTS)
    if do != "verify":
        with pytest.raises(UsageError, match="No mirror is named"):
            asked[do]()
    assert not sessions


@pytest.mark.parametrize("fresh", [False, True])
def test_a_query_asks_for_the_contracts_of_the_mirrors_that_it_names(
    config: Config, monkeypatch: pytest.MonkeyPatch, *, fresh: bool
) -> None:
    """What is hidden in a mirror is not known without its contract; what is hidden in others does not matter."""

    def begun(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("cdc_materializer.query.query.session_for", begun)

    with pytest.raises(ContractInvalid, match=r"payments\.yaml:10"):
        run_query(config, f"SELECT * FROM {ORDERS} JOIN {PAYMENTS} USING (id)", 1, fresh=fresh)
    with pytest.raises(InterruptedError):
        run_query(config, f"SELECT * FROM {ORDERS}", 1, fresh=fresh)


def test_a_plan_says_that_the_table_would_stop(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own entry, as the run would."""
    monkeypatch.setattr("cdc_materializer.plan.beside", lambda *_: None)
    work = open_work(config, RunOptions(), refuse=False)
    session: Any = None

    told, code = _plan_or_stop(work, session, _done(config)[1])

    assert (told.action, code) == ("stop", EXIT_USAGE)
    assert told.error is not None
    assert told.error.code == "ContractInvalid"


def test_a_contract_that_has_no_key_for_its_hashes_stops_its_table_alone(config: Config) -> None:
    """It could be read, and nothing of the table may be shown."""
    hashed = "      - {name: card, customProperties: [{property: mask, value: hash}]}\n"
    (config.root / "payments.yaml").write_text(HEAD + hashed, encoding="utf-8")

    stated = open_work(config, RunOptions(), refuse=False).contracts[PAYMENTS]

    assert isinstance(stated, ConfigError)
    assert "has no key" in str(stated)


def test_a_line_without_a_readable_contract_gives_neither_rules_nor_masks() -> None:
    """Whatever shows, judges or writes a value asks for one of these; landing asks for none."""
    table = TableConfig.model_validate({"topic": "p.shop.orders", "mirror": ORDERS, "format": "debezium"})
    nothing: Any = None
    line = Line("p", table, nothing, None, ContractInvalid("orders.yaml:9 is wrong.", "Mend it."), nothing)

    for asked in ("contract", "masks", "options"):
        with pytest.raises(ContractInvalid, match=r"orders\.yaml:9"):
            getattr(line, asked)
    with pytest.raises(ContractInvalid, match=r"orders\.yaml:9"):
        line.lookup(None)
    assert replace(line, stated=None).contract is None
