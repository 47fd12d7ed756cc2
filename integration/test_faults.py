"""Real processes that are killed at moments chosen by events: afterwards each mirror equals the database all the same.

And nothing is twice in raw, nothing is held, and no failure stays.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.chain.connect import Connect
from integration.chain.downloads import Parts
from integration.chain.events import change, create_topic, producer, send
from integration.chain.kafka import Kafka
from integration.chain.live import Live
from integration.chain.mariadb import MariaDB
from integration.chain.pipeline import Follower, Pipeline, run_program
from integration.chain.postgres import Postgres
from integration.chain.process import ChainError, wait_until
from integration.chain.proxy import Moment, Proxy, Trigger
from integration.chain.registry import Registry
from integration.chain.rest_catalog import RestCatalog
from integration.chain.running import running
from integration.chain.sources import MariadbSource, PostgresSource
from integration.record import messages
from integration.workloads.bank import Bank, Banks

Folder = Callable[[str], Path]
MOMENT_SECONDS_MAX = 300.0
LOOK_SECONDS = 0.5
#: When a server is killed: before it got the request, or after it did as it was told and before it could say so.
MOMENTS: tuple[Moment, ...] = ("before", "after")
KILLED_RUN = Path(__file__).parent / "workloads" / "killed_run.py"
#: Steps of a batch in their order: module, function, whether it is killed before or after it, and for which table.
STEPS = (
    ("lake.lake", "Lake.mark", "before", ""),  # raw was made and has no marker yet
    ("lake.lake", "Lake._fast_forward", "before", "postgres.accounts__raw"),
    ("lake.lake", "Lake._fast_forward", "after", "postgres.accounts__raw"),
    ("lake.lake", "Lake._fast_forward", "before", "postgres.accounts"),
    ("lake.lake", "Lake._fast_forward", "after", "postgres.accounts"),
)


@pytest.fixture(scope="module")
def banks(postgres: Postgres, mariadb: MariaDB, kafka: Kafka, registry: Registry, connect: Connect) -> Iterator[Banks]:
    """A bank in each database, which all tests of this module let work."""
    made = _banks("faults", postgres, mariadb, kafka, registry, connect)
    made.open()
    yield made
    made.close()


def _banks(
    name: str, postgres: Postgres, mariadb: MariaDB, kafka: Kafka, registry: Registry, connect: Connect
) -> Banks:
    in_postgres = Bank(PostgresSource(postgres, name), f"{name}_pg", kafka, registry, connect)
    in_mariadb = Bank(MariadbSource(mariadb, name, kafka), f"{name}_my", kafka, registry, connect)
    return Banks([in_postgres, in_mariadb])


def check(banks: Banks, pipeline: Pipeline, follower: Follower) -> None:
    """Let everything come to rest, and look."""
    banks.deliver()
    follower.catch_up()
    assert Live(pipeline, follower.stop(), banks.ask).faults() == {}


def test_connect_sends_again_what_it_had_not_noted(
    parts: Parts, postgres: Postgres, mariadb: MariaDB, kafka: Kafka, registry: Registry, folder: Folder
) -> None:
    """Killed long after its last flush, a worker sends everything since then once more; none of it counts twice."""
    slow = Connect(parts, folder("slow-connect"), kafka, "slow", flush_ms=600_000)
    with running("connect (slow)", lambda: slow):
        banks = _banks("resent", postgres, mariadb, kafka, registry, slow)
        for bank in banks.all:
            bank.open()
        pipeline = banks.pipeline(folder("resent"))
        follower = Follower(pipeline)
        _wait_for_marks(banks)
        _restart(slow, banks, slow.stop)  # notes that the snapshots are done
        banks.work()
        _wait_for_marks(banks)
        follower.start()
        try:
            follower.catch_up()
            _restart(slow, banks, slow.kill)
            banks.work(1)
            _wait_for_marks(banks)
            slow.stop()  # notes where it is, so all of it is there now
            follower.catch_up()
            live = Live(pipeline, follower.stop(), banks.ask)
        finally:
            follower.kill()
    replayed = {table["table"]: table["replayed"] for table in live.document["tables"]}
    assert all(replayed.values()), f"nothing was sent again: {replayed}"
    assert live.faults() == {}


def _restart(connect: Connect, banks: Banks, end: Callable[[], None]) -> None:
    end()
    connect.start()
    connect.ready()
    for bank in banks.all:
        connect.wait_running(bank.name)


def _wait_for_marks(banks: Banks) -> None:
    """Commit something last, and wait until it is in its topic; one connector sends in the order of commits."""
    for bank in banks.all:
        table = f"{bank.source.place}.heartbeat"
        bank.run(f"INSERT INTO {table} SELECT coalesce(max(id), 0) + 1 FROM {table}")
        number = int(bank.run(f"SELECT max(id) FROM {table}")[0])
        _wait_for_key(bank, f"{bank.name}.{table}", number)


def _wait_for_key(bank: Bank, topic: str, number: int) -> None:
    # Marks that are sent again must not be taken for the new one: after five bytes of frame, Avro writes a small
    # number as its double.
    key = bytes([2 * number])

    def is_there() -> bool:
        try:
            return any((message.key() or b"")[5:] == key for message in messages(bank.kafka.bootstrap, topic))
        except ChainError:  # the topic is yet to be made
            return False

    wait_until(f"the mark {number} is in {topic}", is_there, MOMENT_SECONDS_MAX, LOOK_SECONDS)


@pytest.mark.long
def test_databases_that_crash_and_come_back(banks: Banks, folder: Folder) -> None:
    """The connectors go on where they were, and so do the mirrors."""
    pipeline = banks.pipeline(folder("databases"))
    follower = Follower(pipeline)
    follower.start()
    try:
        follower.wait_for_progress()
        banks.work(1)
        for bank in banks.all:
            bank.source.server.kill()
            bank.source.server.start()
            bank.source.server.ready()
        banks.work(1)
        check(banks, pipeline, follower)
    finally:
        follower.kill()


@pytest.mark.long
def test_a_registry_that_is_down_when_a_new_schema_comes(banks: Banks, registry: Registry, folder: Folder) -> None:
    """What came is kept in raw; when the registry is back, the rows appear, and nobody had to do anything."""
    pipeline = banks.pipeline(folder("registry-down"))
    follower = Follower(pipeline)
    follower.start()
    try:
        follower.catch_up()
        follower.stop()
        banks.run("ALTER TABLE {accounts} ADD COLUMN since date")
        banks.run("UPDATE {accounts} SET since = '2026-01-01'")
        banks.deliver()
        registry.kill()
        try:
            follower.start()
            follower.process.wait_until("raw has what came", lambda: _landed(pipeline), MOMENT_SECONDS_MAX)
            assert not pipeline.is_level()
        finally:
            registry.start()
            registry.ready()
        check(banks, pipeline, follower)
    finally:
        follower.kill()


def _landed(pipeline: Pipeline) -> bool:
    return all(table.landed == table.ends for table in pipeline.status())


def test_a_rest_catalog_that_dies_in_mid_commit(parts: Parts, banks: Banks, folder: Folder) -> None:
    """Whether the commit that publishes rows was lost or only its answer: the rows are there once."""
    catalog = RestCatalog(parts, folder("rest"))
    proxy = Proxy(catalog.port)
    with running("rest catalog (faults)", lambda: catalog), running("proxy", lambda: proxy):
        more = {"catalog": {"type": "rest", "uri": f"http://127.0.0.1:{proxy.port}"}}
        pipeline = banks.pipeline(folder("rest-pipeline"), more)
        follower = Follower(pipeline)
        follower.start()
        try:
            follower.catch_up()
            for moment in MOMENTS:
                proxy.arm(Trigger(_publishes, catalog.kill, moment))
                banks.work(1)
                assert proxy.happened.wait(MOMENT_SECONDS_MAX), f"no commit to a mirror's main was seen: {moment}"
                catalog.start()
                catalog.ready()
                banks.deliver()
                follower.catch_up()
                assert Live(pipeline, {}, banks.ask).differences() == {}, moment
            check(banks, pipeline, follower)
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
def test_ourselves_killed_at_each_step(banks: Banks, folder: Folder) -> None:
    """Each run is killed one step later than the one before, with new work in between; the last one finds all well."""
    one = Banks(banks.all[:1])
    pipeline = one.pipeline(folder("ourselves"))
    codes = [_killed_run(one, pipeline, *step) for step in STEPS]

    assert codes == [-signal.SIGKILL] * len(STEPS)
    assert _killed_run(one, pipeline) == 0
    live = Live(pipeline, {"tables": [], "exit_code": 0}, one.ask)
    assert live.faults() == {}
    assert live.unequal() == {}


def _killed_run(banks: Banks, pipeline: Pipeline, *step: str) -> int:
    banks.work(1)
    banks.deliver()
    return run_program([sys.executable, str(KILLED_RUN), str(pipeline.path), *step], MOMENT_SECONDS_MAX).returncode
