"""A REST catalog that answers 503 before or after it did what it was asked, or never answers: rows are there once."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cdc_materializer.errors import EXIT_DONE, EXIT_LAKE, EXIT_UNKNOWN
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from integration.chain.downloads import Parts
from integration.chain.pipeline import Pipeline
from integration.chain.proxy import Proxy, Trigger
from integration.chain.rest_catalog import RestCatalog
from integration.chain.running import running
from tests.model.fault_contract import CASES, Case, check

_BODY = b'{"error": {"message": "busy", "type": "ServiceUnavailableException", "code": 503}}'
#: What a catalog says that is overloaded, or a proxy before it that cannot reach it.
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_BODY)
_REFUSAL = b'{"error": {"message": "no", "type": "ForbiddenException", "code": 403}}'
#: What a catalog says that does not do what it is asked. Of a commit's 503, Iceberg says that nobody knows.
REFUSED = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(_REFUSAL)
_ANSWER_SECONDS_MAX = 60
_COLUMNS = {"id": {"type": "int64", "optional": False}}


class _Topic:
    """A topic to which a row is added for each fault."""

    def __init__(self, folder: Path) -> None:
        self.rows = 0
        self._folder, self._topic = folder, TopicBuilder("shop.public.things")

    def add(self) -> None:
        """One row more."""
        self.rows += 1
        envelope = debezium_envelope("c", None, {"id": self.rows}, lsn=100 + self.rows)
        key, schema = connect_key_schema("t", _COLUMNS), connect_envelope_schema("t", _COLUMNS)
        self._topic.add(debezium_json({"id": self.rows}, key), debezium_json(envelope, schema))
        self._topic.write(self._folder)


def _publishes(request: bytes) -> bool:
    """Whether a request makes readers see a batch of the mirror."""
    return b"/tables/things HTTP" in request and b'"ref-name":"main"' in request


def _stages(request: bytes) -> bool:
    """Whether a request makes the branch on which a batch of the mirror is staged."""
    return b"/tables/things HTTP" in request and b'"ref-name":"cdcm_' in request


def _nothing() -> None:
    """What the server is done to: nothing; the answer is all."""


@dataclass
class _Bench:
    """A pipeline whose catalog stands behind a proxy."""

    catalog: RestCatalog
    proxy: Proxy
    pipeline: Pipeline
    topic: _Topic
    said: str = ""

    def run(self, trigger: Trigger | None = None) -> int:
        """Add a row and run; how it ended. With a trigger that has to have met its request."""
        self.topic.add()
        self.proxy.arm(trigger)
        document = self.pipeline.run_once()
        assert trigger is None or self.proxy.happened.is_set(), document
        self.proxy.arm(None)
        self.said = (document["tables"][0]["error"] or {}).get("message", "")
        code: int = document["exit_code"]
        return code

    def shown(self) -> int:
        """How many of the rows readers see; raw and mirror have to be right that far."""
        raw = sorted(row["offset"] for row in self.pipeline.raw("shop.things"))
        rows = sorted(row["id"] for row in self.pipeline.rows("shop.things"))
        assert raw == list(range(len(raw)))
        assert rows == list(range(1, len(rows) + 1))
        return len(rows)


@pytest.fixture
def bench(parts: Parts, folder: Callable[[str], Path], request: pytest.FixtureRequest) -> Iterator[_Bench]:
    """A pipeline that has done its first row."""
    name = request.node.name.removeprefix("test_")
    catalog = RestCatalog(parts, folder(f"{name}-catalog"))
    proxy, place = Proxy(catalog.port), folder(f"{name}-pipeline")
    with running("rest catalog (busy)", lambda: catalog), running("proxy", lambda: proxy):
        more = {"catalog": {"type": "rest", "uri": f"http://127.0.0.1:{proxy.port}"}}
        table = {"topic": "shop.public.things", "mirror": "shop.things"}
        pipeline = Pipeline.write(place, {"files": "recorded"}, [table], more)
        found = _Bench(catalog, proxy, pipeline, _Topic(place / "recorded"))
        assert found.run() == EXIT_DONE
        yield found


@pytest.mark.long
def test_a_catalog_that_is_busy_before_or_after_it_committed(bench: _Bench) -> None:
    """Whatever it says and does, the exit code is right, the rows are there once, and the next run goes on."""
    # Nothing of the batch is on its branch: no reader is concerned, so the outcome is no question.
    assert bench.run(Trigger(_stages, _nothing, "before", answer=BUSY + _BODY)) == EXIT_LAKE
    assert "then run again" in bench.said
    assert bench.shown() == 1
    # The commit that readers would see is not there, and might still come: of a 503, too, Iceberg says that nobody can
    # tell.
    assert bench.run(Trigger(_publishes, _nothing, "before", answer=BUSY + _BODY)) == EXIT_UNKNOWN
    assert bench.shown() == 1
    # Nor can they where the connection ends without a word; the client does not ask twice, as it would not know either.
    assert bench.run(Trigger(_publishes, _nothing, "before")) == EXIT_UNKNOWN
    assert bench.shown() == 1
    # It is there, whatever the answer was; and the batches before have come with it.
    assert bench.run(Trigger(_publishes, _nothing, "after", answer=BUSY + _BODY)) == EXIT_DONE
    assert bench.shown() == bench.topic.rows


@pytest.mark.long
def test_a_catalog_that_committed_and_never_answers(bench: _Bench) -> None:
    """That it happened is not known, and nothing is deleted; when it answers again the next run goes on."""
    assert bench.run(Trigger(_publishes, bench.catalog.kill, "after")) == EXIT_UNKNOWN
    bench.catalog.start()
    bench.catalog.ready()
    assert bench.shown() == bench.topic.rows

    assert bench.run() == EXIT_DONE
    assert bench.shown() == bench.topic.rows


class _Faults:
    """The same bench, as the contract of faults handles one."""

    def __init__(self, bench: _Bench) -> None:
        self._bench, self._late = bench, b""

    def run(self, case: Case | None) -> int:
        """Add a row and run, with a request of the mirror's batch that meets the fault."""
        if case is None:
            return self._bench.run()
        code = self._bench.run(self._trigger(case))
        if case.falls_silent:
            self._bench.catalog.start()
            self._bench.catalog.ready()
        return code

    def added(self) -> int:
        """How many rows there are."""
        return self._bench.topic.rows

    def shown(self) -> int:
        """How many of them readers see."""
        return self._bench.shown()

    def deliver(self) -> bool:
        """Send the server the request that it never had, as a network would that held it up."""
        head, _, body = self._late.partition(b"\r\n\r\n")
        assert b"content-length: %d\r\n" % len(body) in head.lower() + b"\r\n"
        with socket.create_connection(("127.0.0.1", self._bench.catalog.port), _ANSWER_SECONDS_MAX) as server:
            server.sendall(self._late)
            status = int(server.recv(4096).split(b" ", 2)[1])
        assert status in {200, 409}
        return status == 200

    def _trigger(self, case: Case) -> Trigger:
        matches = _publishes if case.at == "publish" else _stages
        if case.fault == "refused":
            return Trigger(matches, _nothing, "before", answer=REFUSED + _REFUSAL)
        if case.fault == "unanswered":
            return Trigger(matches, self._bench.catalog.kill if case.falls_silent else _nothing, "after")

        def kept(request: bytes) -> bool:
            self._late = request if matches(request) else self._late
            return matches(request)

        assert case.fault in {"lost", "late"}
        return Trigger(kept, _nothing, "before")


@pytest.mark.long
def test_a_rest_catalog_fails_as_the_one_in_memory(bench: _Bench) -> None:
    """What the schedules of faults take for granted of commits that are refused, lost, unanswered or late is so."""
    faults = _Faults(bench)
    for name in CASES:
        check(faults, name)
