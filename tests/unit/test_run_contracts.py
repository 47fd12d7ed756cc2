"""A contract that cannot be followed is its own table's matter: it is told there, and nothing but landing goes on."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from cdc_materializer.config import Config, TableConfig, load_config
from cdc_materializer.errors import EXIT_USAGE, ConfigError, ContractInvalid
from cdc_materializer.line import Line
from cdc_materializer.marker import Marker
from cdc_materializer.offsets import Offsets
from cdc_materializer.plan import _plan_or_stop
from cdc_materializer.progress import Backlog
from cdc_materializer.query import run_query
from cdc_materializer.run import RunOptions, _bring_up, open_work, run_forever, run_once
from cdc_materializer.source import TopicState
from cdc_materializer.testing import TopicBuilder
from cdc_materializer.testing_clock import FixedClock
from tests.unit.contracts import HEAD

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
    monkeypatch.setattr("cdc_materializer.run.backlogs", lambda *_: _done(config))

    report = run_once(config)

    assert report.exit_code == EXIT_USAGE
    assert [run.error.code if run.error else None for run in report.tables] == [None, "ContractInvalid"]
    assert "payments.yaml:10" in str(report.tables[1].error)
    assert "shop.payments is another one" not in caplog.text


def test_a_run_that_goes_on_for_ever_tells_of_it_in_its_rounds(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of any table that failed: with nothing to do for the others, too."""
    monkeypatch.setattr("cdc_materializer.run.backlogs", lambda _, __, tables, ___: [
        one for one in _done(config) if one.table in tables
    ])  # fmt: skip
    monkeypatch.setattr("cdc_materializer.run.session_for", _Session)
    monkeypatch.setattr("cdc_materializer.run._leave_to_others", lambda _, waiting, *__: waiting)
    monkeypatch.setattr("cdc_materializer.run.Lakes", lambda *_: _Lakes())
    monkeypatch.setattr("cdc_materializer.session_watch.has_ended", lambda _: True)

    (report,) = run_forever(config, options=RunOptions(clock=FixedClock()))

    assert [run.error.code for run in report.tables if run.error] == ["ContractInvalid"]
    assert report.exit_code == EXIT_USAGE


class _Session:
    """Stands in for a Spark session, and for what gives one."""

    def __init__(self, *_: object) -> None:
        self.sparkContext = self
        self.applicationId = "app"

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


def test_other_commands_refuse_the_tables_that_they_are_asked_for(config: Config) -> None:
    """Before they show, rebuild or write anything; of the other table they go on."""
    assert list(open_work(config, RunOptions(tables=(ORDERS,))).contracts) == [ORDERS]
    for asked in ((PAYMENTS,), ()):
        with pytest.raises(ContractInvalid, match=r"payments\.yaml:10"):
            open_work(config, RunOptions(tables=asked))


@pytest.mark.parametrize("fresh", [False, True])
def test_a_query_asks_for_the_contracts_of_the_mirrors_that_it_names(
    config: Config, monkeypatch: pytest.MonkeyPatch, *, fresh: bool
) -> None:
    """What is hidden in a mirror is not known without its contract; what is hidden in others does not matter."""

    def begun(*_: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("cdc_materializer.query.session_for", begun)

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
