"""Real processes that are killed at moments chosen by events: afterwards each mirror equals the database all the same.

And nothing is twice in raw, nothing is held, and no failure stays.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.chain.connect import Connect
from integration.chain.downloads import Parts
from integration.chain.events import change, create_topic, producer, send
from integration.chain.kafka import Kafka
from integration.chain.live import Live
from integration.chain.pipeline import Follower, Pipeline
from integration.chain.postgres import Postgres
from integration.chain.process import ChainError, wait_until
from integration.chain.proxy import Moment, Proxy, Trigger
from integration.chain.registry import Registry
from integration.chain.rest_catalog import RestCatalog
from integration.chain.running import running
from integration.record import messages
from integration.workloads.bank import Bank

Folder = Callable[[str], Path]
MOMENT_SECONDS_MAX = 120.0
KILLED_RUN = Path(__file__).parent / "workloads" / "killed_run.py"
#: Steps of a batch in their order: module, function, whether it is killed before or after it, and for which table.
STEPS = (
    ("lake", "Lake._mark", "before", ""),  # raw was made and has no marker yet
    ("lake", "Lake._fast_forward", "before", "avro.accounts__raw"),
    ("lake", "Lake._fast_forward", "after", "avro.accounts__raw"),
    ("lake", "Lake._fast_forward", "before", "avro.accounts"),
    ("lake", "Lake._fast_forward", "after", "avro.accounts"),
)


@pytest.fixture(scope="module")
def bank(postgres: Postgres, kafka: Kafka, registry: Registry, connect: Connect) -> Iterator[Bank]:
    """A bank that all tests of this module let work."""
    made = Bank("faults", postgres, kafka, registry, connect)
    made.open()
    made.work()
    made.deliver()
    yield made
    connect.delete(made.name)


def check(bank: Bank, pipeline: Pipeline, follower: Follower) -> Live:
    """Let everything come to rest, and look."""
    bank.deliver()
    follower.catch_up()
    live = Live(pipeline, follower.stop(), bank.ask)
    assert live.differences("avro", "accounts") == {}
    assert (live.held("avro", "accounts"), live.miscounted()) == ([], [])
    assert (live.document["exit_code"], live.failures(), live.unaccounted()) == (0, [], [])
    return live


def test_connect_sends_again_what_it_had_not_noted(
    parts: Parts, postgres: Postgres, kafka: Kafka, registry: Registry, folder: Folder
) -> None:
    """Killed long after its last flush, a worker sends everything since then once more; none of it counts twice."""
    slow = Connect(parts, folder("slow-connect"), kafka, "slow", flush_ms=600_000)
    with running("connect (slow)", lambda: slow):
        bank = Bank("resent", postgres, kafka, registry, slow)
        bank.open()
        pipeline = bank.pipeline(folder("resent"))
        follower = Follower(pipeline)
        _wait_for_marker(bank)
        _restart(slow, bank, slow.stop)  # notes that the snapshot is done
        bank.work()
        _wait_for_marker(bank)
        follower.start()
        try:
            follower.catch_up()
            _restart(slow, bank, slow.kill)
            bank.work(1)
            _wait_for_marker(bank)
            slow.stop()  # notes where it is, so all of it is there now
            follower.catch_up()
            live = Live(pipeline, follower.stop(), bank.ask)
        finally:
            follower.kill()
    assert live.document["tables"][0]["replayed"] > 0, "nothing was sent again"
    assert live.differences("avro", "accounts") == {}
    assert (live.held("avro", "accounts"), live.miscounted(), live.failures()) == ([], [], [])


def _restart(connect: Connect, bank: Bank, end: Callable[[], None]) -> None:
    end()
    connect.start()
    connect.ready()
    connect.wait_running(bank.name)


def _wait_for_marker(bank: Bank) -> None:
    """Commit something last, and wait until it is in its topic; one connector sends in the order of commits."""
    topic = f"{bank.name}.shop.heartbeat"
    bank.postgres.run(bank.name, "INSERT INTO shop.heartbeat SELECT coalesce(max(id), 0) + 1 FROM shop.heartbeat")
    number = int(bank.postgres.run(bank.name, "SELECT max(id) FROM shop.heartbeat")[0])
    # Marks that are sent again must not be taken for the new one: after five bytes of frame, Avro writes a small
    # number as its double.
    key = bytes([2 * number])

    def is_there() -> bool:
        try:
            return any((message.key() or b"")[5:] == key for message in messages(bank.kafka.bootstrap, topic))
        except ChainError:  # the topic is yet to be made
            return False

    wait_until(f"the mark {number} is in {topic}", is_there, MOMENT_SECONDS_MAX)


@pytest.mark.long
def test_a_database_that_crashes_and_comes_back(bank: Bank, folder: Folder) -> None:
    """The connector goes on where it was, and so does the mirror."""
    pipeline = bank.pipeline(folder("database"))
    follower = Follower(pipeline)
    follower.start()
    try:
        follower.wait_for_progress()
        bank.work(1)
        bank.postgres.kill()
        bank.postgres.start()
        bank.postgres.ready()
        bank.work(1)
        check(bank, pipeline, follower)
    finally:
        follower.kill()


@pytest.mark.long
def test_a_registry_that_is_down_when_a_new_schema_comes(bank: Bank, folder: Folder) -> None:
    """What came is kept in raw; when the registry is back, the rows appear, and nobody had to do anything."""
    pipeline = bank.pipeline(folder("registry-down"))
    follower = Follower(pipeline)
    follower.start()
    try:
        follower.catch_up()
        follower.stop()
        bank.postgres.run(bank.name, "ALTER TABLE shop.accounts ADD COLUMN since date")
        bank.postgres.run(bank.name, "UPDATE shop.accounts SET since = '2026-01-01'")
        bank.deliver()
        bank.registry.kill()
        try:
            follower.start()
            follower.process.wait_until("raw has what came", lambda: _landed(pipeline), MOMENT_SECONDS_MAX)
            assert not pipeline.is_level()
        finally:
            bank.registry.start()
            bank.registry.ready()
        check(bank, pipeline, follower)
    finally:
        follower.kill()


def _landed(pipeline: Pipeline) -> bool:
    return all(table.landed == table.ends for table in pipeline.status())


@pytest.mark.parametrize("moment", [pytest.param("before", marks=pytest.mark.long), "after"])
def test_a_rest_catalog_that_dies_in_mid_commit(parts: Parts, bank: Bank, folder: Folder, moment: Moment) -> None:
    """Whether the commit that publishes rows was lost or only its answer: the rows are there once."""
    catalog = RestCatalog(parts, folder(f"rest-{moment}"))
    proxy = Proxy(catalog.port)
    with running("rest catalog (faults)", lambda: catalog), running("proxy", lambda: proxy):
        more = {"catalog": {"type": "rest", "uri": f"http://127.0.0.1:{proxy.port}"}}
        pipeline = bank.pipeline(folder(f"rest-{moment}-pipeline"), more)
        follower = Follower(pipeline)
        follower.start()
        try:
            follower.catch_up()
            proxy.arm(Trigger(_publishes, catalog.kill, moment))
            bank.work(1)
            assert proxy.happened.wait(MOMENT_SECONDS_MAX), "no commit to the mirror's main was seen"
            catalog.start()
            catalog.ready()
            check(bank, pipeline, follower)
        finally:
            follower.kill()


def _publishes(request: bytes) -> bool:
    return b"/tables/accounts" in request and b'"ref-name":"main"' in request


@pytest.mark.long
def test_a_broker_that_dies_in_mid_read(parts: Parts, folder: Folder) -> None:
    """Killed when it answers the first fetch of a batch, and started again: the batch is read then, whole."""
    proxy, place = Proxy(), folder("broker")
    kafka = Kafka(parts, place, advertised_port=proxy.port)
    proxy.target = kafka.port
    with running("proxy", lambda: proxy), running("kafka (faults)", lambda: kafka):
        create_topic(kafka.bootstrap, "t.shop.things")
        sender = producer(kafka.bootstrap)
        send(sender, "t.shop.things", [change("c", row, "first", row + 1) for row in range(500)])
        table = {"topic": "t.shop.things", "mirror": "json.things", "records_max": 400}
        pipeline = Pipeline.write(folder("broker-pipeline"), {"kafka": {"bootstrap.servers": kafka.bootstrap}}, [table])
        follower = Follower(pipeline)
        proxy.arm(Trigger(_fetches, kafka.kill, "after", skip=1))
        follower.start()
        try:
            assert proxy.happened.wait(MOMENT_SECONDS_MAX), "no fetch was seen"
            kafka.start()
            kafka.ready()
            send(sender, "t.shop.things", [change("u", row, "second", 1000 + row) for row in range(250)])
            follower.catch_up()
            document = follower.stop()
        finally:
            follower.kill()
        assert (document["exit_code"], document["tables"][0]["error"]) == (0, None)
        rows = {row["id"]: row["text"] for row in pipeline.rows("json.things")}
        assert rows == {row: "second" if row < 250 else "first" for row in range(500)}
        assert sorted(row["offset"] for row in pipeline.raw("json.things")) == list(range(750))


def _fetches(request: bytes) -> bool:
    """Whether a request asks for messages: after its length, Kafka's protocol has the kind of a request; 1 is that."""
    return request[4:6] == b"\x00\x01"


@pytest.mark.long
def test_ourselves_killed_at_each_step(bank: Bank, folder: Folder) -> None:
    """Each run is killed one step later than the one before, with new work in between; the last one finds all well."""
    pipeline = bank.pipeline(folder("ourselves"))
    codes = [_killed_run(bank, pipeline, *step) for step in STEPS]

    assert codes == [-signal.SIGKILL] * len(STEPS)
    assert _killed_run(bank, pipeline) == 0
    live = Live(pipeline, {"tables": []}, bank.ask)
    assert (live.differences("avro", "accounts"), live.held("avro", "accounts"), live.miscounted()) == ({}, [], [])
    assert live.verified["accounts"]["equal"]


def _killed_run(bank: Bank, pipeline: Pipeline, *step: str) -> int:
    bank.work(1)
    bank.deliver()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, str(KILLED_RUN), str(pipeline.path), *step]
    return subprocess.run(
        command, check=False, capture_output=True, timeout=MOMENT_SECONDS_MAX, env=environment
    ).returncode
