"""Until when things are waited for: a value that is handed down, and what takes its time from it."""

import sqlite3
import threading
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import MagicMock

import pytest

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.cli.options import deadline_of
from cdc_materializer.config import CatalogConfig
from cdc_materializer.errors import EXIT_DONE, EXIT_SOURCE, CommitConflict, LakeUnavailable, SourceUnavailable, TimeOver
from cdc_materializer.names import TableName
from cdc_materializer.proof import proof
from cdc_materializer.rebuild import rebuild
from cdc_materializer.rebuild.rebuild import ReplayOptions
from cdc_materializer.registry import RegistryAccess
from cdc_materializer.registry.apicurio import ApicurioRegistry
from cdc_materializer.registry.confluent import ConfluentRegistry
from cdc_materializer.report.models import VerifyReport
from cdc_materializer.report.replay_models import ReplayReport
from cdc_materializer.retry import NEVER, REPLAN, Deadline
from cdc_materializer.run.lakes import Lakes
from cdc_materializer.run.run import RunOptions, Work, _bring_up
from cdc_materializer.source import KafkaSource
from cdc_materializer.status import exit_code_of, exit_code_of_replay
from tests.unit.paces import UNPACED
from tests.unit.registries import Answers, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Much less than what is waited for without a deadline, and enough for a busy machine.
_SECONDS_MAX = 5.0


def test_what_is_left_gets_less_and_never_negative() -> None:
    """By a clock that the test turns."""
    now = [100.0]
    deadline = Deadline.after(3.0, lambda: now[0])

    told = []
    for now[0] in (100.0, 102.5, 103.0, 200.0):
        told.append((deadline.left, deadline.within(2.0), deadline.is_over))

    assert told == [(3.0, 2.0, False), (0.5, 0.5, False), (0.0, 0.01, True), (0.0, 0.01, True)]
    assert (NEVER.within(7.0), NEVER.is_over) == (7.0, False)


def test_nothing_is_tried_again_that_could_not_begin_in_time() -> None:
    """The pause before it counts; what has been tried is told."""
    now, tried = [0.0], list[int]()
    deadline = Deadline.after(0.5, lambda: now[0])

    def step() -> None:
        tried.append(1)
        now[0] += 0.2
        raise CommitConflict("Lost.", "Again.")

    with pytest.raises(CommitConflict):
        REPLAN.call(step, threading.Event(), deadline)

    # Pauses of 0.2 and 0.4 seconds; the second would end behind the deadline.
    assert len(tried) == 2
    assert REPLAN.attempts == 3


def test_a_run_begins_no_batch_behind_its_deadline() -> None:
    """As when it is asked to stop."""
    assert not RunOptions().is_over
    assert RunOptions(deadline=Deadline(0.0)).is_over
    options = RunOptions()
    options.stop.set()
    assert options.is_over


@pytest.mark.parametrize("kind", [ConfluentRegistry, lambda access: ApicurioRegistry(access, "apicurio-content")])
def test_no_registry_is_asked_behind_the_deadline(kind: "type[ConfluentRegistry]") -> None:
    """Nothing listens there; without the deadline that would be what is said, after its retries."""
    registry = kind(RegistryAccess("http://127.0.0.1:9", deadline=Deadline(0.0)))

    with pytest.raises(TimeOver, match="time for this run was over"):
        registry.schema(1)


def test_a_broker_is_waited_for_no_longer_than_the_deadline() -> None:
    """Instead of the ten seconds that it has otherwise."""
    source = KafkaSource({"bootstrap.servers": "127.0.0.1:9"}, deadline=Deadline.after(0.1))
    began = time.monotonic()

    with pytest.raises(SourceUnavailable):
        source.topics()

    assert time.monotonic() - began < _SECONDS_MAX


def test_a_locked_catalog_is_waited_for_no_longer_than_the_deadline(tmp_path: Path) -> None:
    """Instead of the ten seconds that a commit of another process has otherwise."""
    config = CatalogConfig.model_validate({}, context={"root": tmp_path})
    (tmp_path / "lake").mkdir()
    with closing(sqlite3.connect(tmp_path / "lake" / "catalog.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)")
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()

        with pytest.raises(LakeUnavailable, match="locked"):
            open_tables(config, Deadline.after(0.1)).lines_of(TableName.parse("a.b"))

        assert time.monotonic() - began < _SECONDS_MAX


@pytest.mark.parametrize("answered", [(), ("/v1/config",)], ids=["at once", "behind its settings"])
@pytest.mark.parametrize("properties", [{}, {"credential": "a:b"}], ids=["", "by a token"])
def test_a_rest_catalog_that_falls_silent_is_waited_for_no_longer_than_the_deadline(
    answered: tuple[str, ...], properties: dict[str, str]
) -> None:
    """PyIceberg's client has no limit of its own: a connection that is half open would hold up every table for ever."""
    is_over = threading.Event()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(answered):
                is_over.wait(_SECONDS_MAX * 2)
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"defaults": {}, "overrides": {}}')

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    uri = f"http://127.0.0.1:{server.server_port}"
    given = {"type": "rest", "uri": uri, "oauth2-server-uri": f"{uri}/tokens", **properties}
    config = CatalogConfig.model_validate({"name": "lake", **given}, context={"root": Path()})
    began = time.monotonic()
    try:
        with pytest.raises(LakeUnavailable):
            open_tables(config, Deadline.after(0.5)).lines_of(TableName.parse("a.b"))
    finally:
        is_over.set()
        server.shutdown()
        server.server_close()

    assert time.monotonic() - began < _SECONDS_MAX


def test_a_registrys_client_makes_no_request_behind_the_deadline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Confluent's asks again by itself, and knows of no deadline."""
    now = [0.0]
    with serving(monkeypatch, tmp_path) as url:
        monkeypatch.setattr(time, "sleep", lambda _: now.__setitem__(0, 2.0))
        Answers.failing = [503] * 9
        with pytest.raises(TimeOver):
            ConfluentRegistry(RegistryAccess(url, deadline=Deadline(1.0, lambda: now[0]))).schema(1)

        assert len(Answers.seen) == 1


_TABLE: Any = SimpleNamespace(mirror=TableName.parse("shop.orders"), topic="shop.public.orders")


def test_a_table_whose_batch_the_deadline_ends_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As between two batches: what was published by then is told, and the rest is the next run's."""
    done: Any = SimpleNamespace(
        counts={"upserted": 3}, violations={}, offsets={0: 3}, swept=0, foreign=0, raw_snapshot=1, mirror_snapshot=2
    )
    answers: list[Any] = [done]

    def advance(*_: object) -> object:
        if answers:
            return answers.pop()
        raise TimeOver("The time was over.", "Again.")

    monkeypatch.setattr("cdc_materializer.pipeline.advance", advance)
    work: Any = SimpleNamespace(config=SimpleNamespace(name="shop"), source=None, registry=None, contracts={})
    lakes: Any = SimpleNamespace(of=lambda _: None, spark=None, pace=lambda _: UNPACED)
    backlog: Any = SimpleNamespace(is_done=False, error=None, topic=SimpleNamespace(), table=_TABLE, published=None)

    told, code = _bring_up(cast("Work", work), cast("Lakes", lakes), backlog, RunOptions())

    assert (told.error, told.batches, told.read, code) == (None, 1, 3, EXIT_DONE)


def test_no_table_is_compared_or_rebuilt_behind_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entry says so and has no lake behind it; a mirror that was not compared is not called equal."""
    over, spark = Deadline(0.0), cast("SparkSession", None)
    for name in ("beside", "Lake"):
        monkeypatch.setattr(proof, name, lambda *_, **__: None)
    line: Any = SimpleNamespace(mirror=_TABLE.mirror, table=_TABLE, lake=SimpleNamespace(spark=None))
    monkeypatch.setattr(proof, "Line", lambda *_: line)
    work: Any = SimpleNamespace(config=MagicMock(), source=None, registry=None, contracts={})

    compared = proof._verify(work, spark, _TABLE, proof.VerifyOptions(deadline=over))
    rebuilt = rebuild._told_or_failed(work, line, ReplayOptions(publish=True, deadline=over))

    codes = [one.error.code for one in (compared, rebuilt) if one.error is not None]
    assert codes == ["TimeOver"] * 2
    assert (compared.equal, rebuilt.published) == (False, False)
    assert exit_code_of(VerifyReport(pipeline="shop", tables=[compared])) == EXIT_SOURCE
    assert exit_code_of_replay(ReplayReport(pipeline="shop", tables=[rebuilt])) == EXIT_SOURCE


def test_commands_count_their_time_from_when_they_begin() -> None:
    """And have all the time there is without `--for`."""
    assert deadline_of(None) is NEVER
    assert 599 < deadline_of("10m").left <= 600
