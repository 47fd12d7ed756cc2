"""How PostgreSQL says which row a change is about without a primary key: REPLICA IDENTITY FULL and USING INDEX."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from integration.chain import connectors
from integration.chain.connect import Connect
from integration.chain.kafka import Kafka
from integration.chain.pipeline import Pipeline
from integration.chain.postgres import Postgres
from integration.chain.registry import Registry
from integration.chain.sources import PostgresSource
from integration.chain.values import differences
from integration.record import record_if_asked

pytestmark = pytest.mark.long

NAME = "identity"
_TABLES = """
CREATE TABLE shop.heartbeat (id int PRIMARY KEY);
CREATE TABLE shop.visits (place text NOT NULL, day date NOT NULL, guests int, note text);
ALTER TABLE shop.visits REPLICA IDENTITY FULL;
CREATE TABLE shop.sightings (animal text, seen int);
ALTER TABLE shop.sightings REPLICA IDENTITY FULL;
CREATE TABLE shop.badges (id int PRIMARY KEY, code text NOT NULL, price numeric(8, 2) NOT NULL, since date NOT NULL,
    at timestamptz NOT NULL, tag uuid NOT NULL, ok boolean NOT NULL DEFAULT true, qty int NOT NULL DEFAULT 3,
    owner text);
CREATE UNIQUE INDEX badges_code ON shop.badges (code);
ALTER TABLE shop.badges REPLICA IDENTITY USING INDEX badges_code
"""
_BADGE = "1.50, '2026-01-01', '2026-01-02 03:04:05+00', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true, 1"
_LIFE = (
    "INSERT INTO shop.visits VALUES ('Rome', '2026-01-01', 2, 'a'), ('Rome', '2026-01-02', 1, NULL)",
    "INSERT INTO shop.visits VALUES ('Oslo', '2026-01-01', 3, NULL)",
    "UPDATE shop.visits SET guests = guests + 1, note = NULL WHERE place = 'Rome'",
    "DELETE FROM shop.visits WHERE place = 'Oslo'",
    "INSERT INTO shop.visits VALUES ('Oslo', '2026-02-01', 4, 'again')",
    "TRUNCATE shop.sightings",
    "INSERT INTO shop.sightings VALUES ('fox', 1), ('fox', 1), (NULL, 2)",
    "UPDATE shop.sightings SET seen = 3 WHERE animal = 'fox'",
    "DELETE FROM shop.sightings WHERE animal IS NULL",
    f"INSERT INTO shop.badges SELECT n, 'code ' || n, {_BADGE}, 'owner' FROM generate_series(0, 5) n",
    "UPDATE shop.badges SET owner = 'other' WHERE id = 1",
    "UPDATE shop.badges SET code = 'new code' WHERE id = 2",
    "DELETE FROM shop.badges WHERE id IN (3, 4)",
    "UPDATE shop.badges SET qty = 7 WHERE id = 0",
)
#: Badges that the database has no more, and of which no message said that.
GHOSTS = ("3", "4")
#: What tells one visit from another.
KEY = ("place", "day")


@dataclass(frozen=True)
class Seen:
    """What one run made of it, and what the database says."""

    pipeline: Pipeline
    document: dict[str, Any]
    source: PostgresSource

    def told(self, table: str) -> dict[str, Any]:
        """What the run said of a table."""
        return next(told for told in self.document["tables"] if told["table"] == f"{NAME}.{table}")

    def held(self, table: str) -> list[str]:
        """The codes of a table's violations that are open."""
        return sorted(row["code"] for row in self.pipeline.quarantine(f"{NAME}.{table}") if row["status"] == "open")

    def differences(self, table: str, key: Sequence[str]) -> dict[str, Any]:
        """Where a mirror differs from its table, by these columns as a key."""
        said = self.source.ask(table)
        return differences(said.columns, key, said.rows, self.pipeline.rows(f"{NAME}.{table}"))


@pytest.fixture(scope="module")
def seen(postgres: Postgres, kafka: Kafka, registry: Registry, connect: Connect, folder: Callable[[str], Path]) -> Seen:
    """Let it all happen while a connector follows, and run once."""
    source = PostgresSource(postgres, NAME)
    source.create()
    with source.session() as session:
        session.run(*_TABLES.split(";\n"))
    connect.create(NAME, connectors.encoded(source.connector(NAME), "avro", registry))
    source.deliver(connect, [NAME])
    with source.session() as session:
        session.run(*_LIFE)
    source.deliver(connect, [NAME])
    tables: list[dict[str, Any]] = [
        {"topic": f"{NAME}.shop.visits", "key": list(KEY)},
        {"topic": f"{NAME}.shop.sightings"},
        {"topic": f"{NAME}.shop.badges"},
    ]
    named = [{**table, "mirror": f"{NAME}.{table['topic'].rpartition('.')[2]}"} for table in tables]
    kafka_source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    pipeline = Pipeline.write(folder(NAME), kafka_source, named, {"registry": {"url": registry.url}})
    document = pipeline.run_once()
    topics = [table["topic"] for table in tables]
    truth = (source.session, [topic.removeprefix(f"{NAME}.") for topic in topics])
    record_if_asked("postgres-identity", kafka.bootstrap, topics, registry.url, truth)
    connect.delete(NAME)
    return Seen(pipeline, document, source)


def test_a_table_without_a_primary_key_that_a_key_was_named_for(seen: Seen) -> None:
    """Its mirror equals it, because REPLICA IDENTITY FULL sends the whole old row."""
    assert seen.differences("visits", KEY) == {}
    assert (seen.held("visits"), seen.told("visits")["error"]) == ([], None)


def test_a_table_without_any_key(seen: Seen) -> None:
    """Every change of a row is held; there is no mirror to make, and the run says what to do."""
    inserts, updates, deletes = 3, 2, 1

    assert seen.held("sightings") == ["KEY_NULL"] * (inserts + updates + deletes)
    assert "Name key columns with `key:`" in seen.told("sightings")["error"]["message"]
    assert seen.document["exit_code"] == 2


def test_deletes_by_another_index_are_held(seen: Seen) -> None:
    """Their key is 0, and the row that has this key stays; so do those that they were about, and that is told."""
    assert seen.differences("badges", ["id"]) == dict.fromkeys(GHOSTS, "only in the mirror")
    # An update of the index's column is a delete and an insert, and the delete is such a one.
    assert seen.held("badges") == ["KEY_VALUE_MISMATCH"] * 3
    assert seen.told("badges")["violations"] == {"KEY_VALUE_MISMATCH": 3}
    assert seen.told("badges")["error"] is None
