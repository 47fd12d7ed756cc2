"""`cdcm verify --source` on real databases: equal while everything goes on, and wrong rows are found and named.

A database is followed by a connector and `cdcm run --follow` all the time. Its heartbeat table is written to twice a
second, as a connector's own heartbeat does, so that the log of a database in which nothing else happens goes on too.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from integration.chain import connectors
from integration.chain.connect import Connect
from integration.chain.kafka import Kafka
from integration.chain.pipeline import Follower, Pipeline
from integration.chain.registry import Registry
from integration.chain.sources import MariadbSource, PostgresSource, Source
from integration.workloads import mariadb as mariadb_life
from integration.workloads import postgres as postgres_life

pytestmark = pytest.mark.long

DATABASE = "proof"
TABLES = ("customers", "orders", "order_lines", "types_zoo", "heartbeat")
#: Those that no test makes differ; each of these takes a table of its own, so that their order says nothing.
STEADY = ("customers", "types_zoo")
PULSE_SECONDS = 0.5
EVENT_LOGS = "event-logs"
#: Types whose form in a mirror is the connector's own: their columns are left out, and said to be.
LEFT_OUT = {
    "postgres": {
        *("c_bit12", "c_varbit", "c_hstore", "c_tstzrange"),
        *("c_ints", "c_texts", "c_uuids", "c_dates", "c_numerics"),
    },
    "mariadb": {"c_bit12"},
}


@dataclass(frozen=True)
class Proof:
    """A database with a shop in it, and the mirrors of it that are followed."""

    source: Source
    life: ModuleType
    pipeline: Pipeline
    connect: Connect

    def verify(self, *arguments: str) -> tuple[int, dict[str, dict[str, Any]], str]:
        """Run `verify --source`: its exit code, what it said by table, and all that it printed."""
        done = self.pipeline.run("verify", "--source", "--debug", *arguments)
        assert done.stdout, done.stderr
        told = json.loads(done.stdout)
        return done.returncode, {table["table"]: table for table in told["tables"]}, done.stdout + done.stderr

    def run(self, *statements: str) -> None:
        """Run statements in the database, in a session of their own."""
        with self.source.session() as session:
            session.run(*statements)

    def deliver(self) -> None:
        """Wait until all that is committed is in its topics."""
        self.source.deliver(self.connect, [self.source.name])

    def table(self, name: str) -> str:
        """A table in a statement."""
        return f"{self.source.place}.{name}"


@contextmanager
def _again_and_again(work: Callable[[int], None], seconds: float) -> Iterator[None]:
    """Do something in a thread of its own until the block ends, with a pause after each time."""
    stop = threading.Event()

    def loop() -> None:
        number = 1_000_000
        while not stop.is_set():
            number += 1
            work(number)
            stop.wait(seconds)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def proof(
    request: pytest.FixtureRequest, kafka: Kafka, registry: Registry, connect: Connect, folder: Callable[[str], Path]
) -> Iterator[Proof]:
    """A shop with every type of its database, followed."""
    server = request.getfixturevalue(request.param)
    is_postgres = request.param == "postgres"
    source = PostgresSource(server, DATABASE) if is_postgres else MariadbSource(server, DATABASE, kafka)
    life = postgres_life if is_postgres else mariadb_life
    life.begin(server, DATABASE)
    connect.create(DATABASE, connectors.encoded(source.connector(DATABASE), "avro", registry))
    source.deliver(connect, [DATABASE])
    scheme, end = ("postgresql", DATABASE) if is_postgres else ("mariadb", "")
    more = {
        "registry": {"url": registry.url},
        "databases": {
            "shop": {
                "url": f"jdbc:{scheme}://{server.host}:{server.port}/{end}",
                "user": server.user,
                "password": server.password,
                "partitions": 3,
                "wait": "4m",
            }
        },
        "defaults": {"source_database": "shop", "properties": {"format-version": "2"}},
    }
    tables = [{"topic": f"{DATABASE}.{source.place}.{table}", "mirror": f"mirror.{table}"} for table in TABLES]
    kafka_source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    place = folder(f"proof-{request.param}")
    (place / EVENT_LOGS).mkdir()
    logs = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (place / EVENT_LOGS).as_uri()}
    pipeline = Pipeline.write(place, kafka_source, tables, more, {**logs, "spark.eventLog.compress": "false"})
    follower = Follower(pipeline)
    follower.start()
    beat = f"INSERT INTO {source.place}.heartbeat VALUES ({{}})"
    try:
        follower.catch_up()
        with _again_and_again(lambda number: _run(source, beat.format(number)), PULSE_SECONDS):
            yield Proof(source, life, pipeline, connect)
    finally:
        follower.kill()
        connect.delete(DATABASE)


def _run(source: Source, *statements: str) -> None:
    with source.session() as session:
        session.run(*statements)


def _counts(told: dict[str, Any]) -> tuple[int, int, int]:
    return told["missing"], told["unexpected"], told["different"]


def test_equal_tables_are_told_equal_while_they_change(proof: Proof) -> None:
    """A workload runs, one row changes all the time: nothing is taken for wrong; no password is in output or logs."""
    source = proof.source
    hot = f"UPDATE {proof.table('customers')} SET name = 'hot {{}}' WHERE id = 1"
    change = threading.Thread(target=partial(proof.life.change_rows, source.server, DATABASE))
    change.start()
    with _again_and_again(lambda number: _run(source, hot.format(number)), 0.05):
        code, told, output = proof.verify(*[part for table in STEADY for part in ("--table", f"mirror.{table}")])
    change.join()

    assert (code, {name: table["error"] for name, table in told.items() if table["error"]}) == (0, {})
    assert {name: _counts(table) for name, table in told.items()} == dict.fromkeys(told, (0, 0, 0))
    assert set(told) == {f"mirror.{table}" for table in STEADY}
    logs = [log.read_bytes() for log in (proof.pipeline.path.parent / EVENT_LOGS).rglob("*") if log.is_file()]
    assert any(b"JDBCRelation" in log for log in logs)
    assert source.server.password not in output
    assert not any(source.server.password.encode() in log for log in logs)


def test_every_type_is_equal_or_said_not_to_be_compared(proof: Proof) -> None:
    """Every column of the zoo of types, with its extremes, but for those that are told."""
    proof.deliver()
    code, told, _ = proof.verify("--table", "mirror.types_zoo")
    zoo = told["mirror.types_zoo"]

    assert (code, zoo["error"], zoo["columns"], _counts(zoo)) == (0, None, {}, (0, 0, 0))
    assert set(zoo["left_out"]) == LEFT_OUT[proof.source.kind]
    assert zoo["expected"] == zoo["found"] > 0


def test_a_change_that_never_came_is_found(proof: Proof) -> None:
    """The database was changed while its log was told nothing of the table: nothing in the lake can know."""
    table = proof.table("orders")
    update = f"UPDATE {table} SET amount = amount + 0.5 WHERE id IN (5, 6)"
    if proof.source.kind == "postgres":
        publication = f"ALTER PUBLICATION publication_{DATABASE}"
        proof.run(f"{publication} DROP TABLE {table}", update, f"{publication} ADD TABLE {table}")
    else:
        proof.run("SET sql_log_bin = 0", update)
    code, told, _ = proof.verify("--table", "mirror.orders", "--keys")
    found = told["mirror.orders"]

    assert (code, found["error"], _counts(found), found["columns"]) == (8, None, (0, 0, 2), {"amount": 2})
    assert {int(json.loads(key)["id"]) for key in found["keys"]} == {5, 6}


def test_a_mirror_that_does_not_come_up_is_told_of_after_the_wait(proof: Proof) -> None:
    """The connector stands still: nothing shows that the mirror has all, so nothing is compared; exit code 3."""
    text = proof.pipeline.path.read_text(encoding="utf-8")
    proof.connect.stop_connector(DATABASE)
    try:
        proof.pipeline.path.write_text(text.replace("wait: 4m", "wait: 5s"), encoding="utf-8")
        code, told, _ = proof.verify("--table", "mirror.customers")
    finally:
        proof.pipeline.path.write_text(text, encoding="utf-8")
        proof.connect.resume(DATABASE)

    error = told["mirror.customers"]["error"]
    assert (code, error["code"]) == (3, "SourceBehind")
    assert (f"slot_{DATABASE}" in error["message"]) is (proof.source.kind == "postgres")
