"""A live PostgreSQL, followed through Debezium, Kafka and the registry: each mirror equals what the database says."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from integration.chain import connectors, postgres_truth
from integration.chain.connect import Connect
from integration.chain.delivery import deliver_postgres
from integration.chain.kafka import Kafka
from integration.chain.live import Live, Said, follow
from integration.chain.pipeline import Pipeline
from integration.chain.postgres import Postgres
from integration.chain.registry import Registry
from integration.workloads import postgres as workload

DATABASE = "live"
PREFIX = {encoding: f"live_{encoding}" for encoding in connectors.ENCODINGS}


@pytest.fixture(scope="module")
def live(postgres: Postgres, kafka: Kafka, registry: Registry, connect: Connect, folder: Callable[[str], Path]) -> Live:
    """Run the workload while a connector for each encoding and `cdcm run --follow` run, and wait until all is still."""
    workload.begin(postgres, DATABASE)
    for encoding, prefix in PREFIX.items():
        config = connectors.postgres_connector(postgres, DATABASE, prefix, r"shop\..*")
        connect.create(prefix, connectors.encoded(config, encoding, registry))
    deliver = partial(deliver_postgres, postgres, DATABASE, connect, PREFIX.values())
    deliver()
    tables = [
        {"topic": f"{prefix}.shop.{table}", "mirror": f"{encoding}.{table}"}
        for encoding, prefix in PREFIX.items()
        for table in workload.TABLES
    ]
    source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    pipeline = Pipeline.write(folder("live-postgres"), source, tables, {"registry": {"url": registry.url}})
    steps = (workload.change_rows, workload.change_tables, workload.empty_tables)
    found = follow(
        pipeline, [partial(step, postgres, DATABASE) for step in steps], deliver, partial(_ask, postgres), "avro"
    )
    for prefix in PREFIX.values():
        connect.delete(prefix)
    return found


def _ask(server: Postgres, table: str) -> Said:
    with server.session(DATABASE) as session:
        columns = postgres_truth.columns_of(session, f"shop.{table}")
        key = postgres_truth.key_of(session, f"shop.{table}")
        return Said(columns, key, postgres_truth.rows_of(session, f"shop.{table}", columns))


def each_mirror(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test for every table in every encoding."""
    encoded = pytest.mark.parametrize("encoding", connectors.ENCODINGS)
    decorated: Callable[..., None] = encoded(pytest.mark.parametrize("table", workload.TABLES)(test))
    return decorated


@each_mirror
def test_a_mirror_equals_the_database(live: Live, encoding: str, table: str) -> None:
    """Row by row and column by column."""
    assert live.differences(encoding, table) == {}


@each_mirror
def test_nothing_was_held(live: Live, encoding: str, table: str) -> None:
    """No message broke a rule."""
    assert live.held(encoding, table) == []


@pytest.mark.parametrize("table", workload.TABLES)
def test_verify_finds_the_mirror_equal(live: Live, table: str) -> None:
    """The fold of raw from its first message gives the same rows, though the log was cut into batches by chance."""
    found = live.verified[table]

    assert (found["equal"], found["error"], found["places"]) == (True, None, [])


def test_the_run_ends_well(live: Live) -> None:
    """Asked to stop, it ends with 0, and each message was in exactly one place."""
    assert (live.document["exit_code"], live.failures(), live.unaccounted()) == (0, [], [])


def test_raw_has_every_message_once(live: Live) -> None:
    """As many messages as the topic's offsets count, and no offset twice."""
    assert live.miscounted() == []
