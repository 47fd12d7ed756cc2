"""What docs/integration.md says that one would not expect of the connectors: it is still so.

With CDCM_RECORD=FOLDER in the environment each history is recorded there, beside what the database says.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.chain import connectors
from integration.chain.connect import Connect
from integration.chain.downloads import Parts
from integration.chain.kafka import Kafka
from integration.chain.postgres import Postgres
from integration.chain.process import ChainError, wait_until
from integration.chain.registry import Registry
from integration.chain.running import running
from integration.chain.sources import PostgresSource
from integration.record import messages, record_if_asked, topics_like

pytestmark = pytest.mark.long

ROWS = 5
SNAPSHOT_SECONDS_MAX = 300.0


@pytest.fixture
def source(request: pytest.FixtureRequest, postgres: Postgres) -> PostgresSource:
    """A database with a table of cities, named by a parameter."""
    made = PostgresSource(postgres, request.param)
    made.create()
    with made.session() as session:
        session.run(
            "CREATE TABLE shop.heartbeat (id int PRIMARY KEY)",
            "CREATE TABLE shop.cities (id int PRIMARY KEY, name text)",
            f"INSERT INTO shop.cities SELECT n, 'city ' || n FROM {made.series(1, ROWS)}",
        )
    return made


@pytest.mark.parametrize("source", ["forgetful"], indirect=True)
def test_a_snapshot_that_was_not_noted_is_made_again(
    source: PostgresSource, parts: Parts, kafka: Kafka, registry: Registry, folder: Callable[[str], Path]
) -> None:
    """Killed before its first flush, a worker reads every row again, as if for the first time."""
    slow = Connect(parts, folder("forgetful-connect"), kafka, source.name, flush_ms=600_000)
    topic = f"{source.name}.shop.cities"
    with running("connect (forgetful)", lambda: slow):
        slow.create(source.name, connectors.encoded(source.connector(source.name), "avro", registry))
        _wait_for_messages(kafka, topic, ROWS)
        slow.kill()
        slow.start()
        slow.ready()
        _wait_for_messages(kafka, topic, 2 * ROWS)
    record_if_asked(
        "postgres-snapshot-again", kafka.bootstrap, [topic], registry.url, (source.session, ["shop.cities"])
    )
    keys = [message.key() for message in messages(kafka.bootstrap, topic)]

    assert keys[:ROWS] == keys[ROWS:]
    assert len(set(keys)) == ROWS


def _wait_for_messages(kafka: Kafka, topic: str, count: int) -> None:
    def are_there() -> bool:
        try:
            return sum(1 for _ in messages(kafka.bootstrap, topic)) == count
        except ChainError:  # the topic is yet to be made
            return False

    wait_until(f"{topic} has {count} messages", are_there, SNAPSHOT_SECONDS_MAX, 0.5)


@pytest.mark.parametrize("source", ["later"], indirect=True)
def test_a_table_made_later_is_never_sent(
    source: PostgresSource, kafka: Kafka, registry: Registry, connect: Connect
) -> None:
    """The publication has the tables of the moment when it was made, also where the connector's pattern has more."""
    connect.create(source.name, connectors.encoded(source.connector(source.name), "avro", registry))
    source.deliver(connect, [source.name])
    with source.session() as session:
        session.run(
            "CREATE TABLE shop.branches (id int PRIMARY KEY, city text)",
            "INSERT INTO shop.branches VALUES (1, 'Oslo')",
            "DELETE FROM shop.cities WHERE id > 3",
        )
        source.deliver(connect, [source.name])
        published = session.run("SELECT tablename FROM pg_publication_tables ORDER BY tablename")
    connect.delete(source.name)
    found = topics_like(kafka.bootstrap, rf"{source.name}\.shop\..*")
    truth = (source.session, ["shop.cities", "shop.branches"])
    record_if_asked("postgres-later-table", kafka.bootstrap, found, registry.url, truth)

    assert found == [f"{source.name}.shop.{table}" for table in ("cities", "heartbeat")]
    assert published == ["cities", "heartbeat"]
