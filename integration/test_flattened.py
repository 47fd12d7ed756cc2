"""PostgreSQL through ExtractNewRecordState, which runs in Kafka Connect: its rows alone, in each mode of deletes.

One life of a table is told by a connector for each mode. Where rows bring their place along, all of them are right; a
mode that tells no delete's place loses one value, and the one that tells no deletes loses those.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
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

pytestmark = pytest.mark.long

NAME = "flattened"
_TABLES = """
CREATE TABLE shop.heartbeat (id int PRIMARY KEY);
CREATE TABLE shop.things (id int PRIMARY KEY, name text NOT NULL DEFAULT 'n/a', qty int DEFAULT 3, body text,
    price numeric(10, 2), at timestamptz, tag bytea, day date);
ALTER TABLE shop.things ALTER COLUMN body SET STORAGE EXTERNAL;
INSERT INTO shop.things SELECT n, 'first ' || n, n, repeat('x', 9000), 1.50, '2026-01-02 03:04:05+00', '\\x00ff',
    '2026-01-01' FROM generate_series(1, 4) n
"""
#: Long texts that a statement does not touch are not in the log.
_LIFE = (
    "UPDATE shop.things SET name = 'renamed' WHERE id = 1",
    "INSERT INTO shop.things (id, body) SELECT n, 'short' FROM generate_series(5, 9) n",
    "DELETE FROM shop.things WHERE id = 2",
    "BEGIN; DELETE FROM shop.things WHERE id = 3; INSERT INTO shop.things (id, name) VALUES (3, 'again'); COMMIT",
    "UPDATE shop.things SET qty = NULL, price = 10.25 WHERE id = 5",
    "INSERT INTO shop.things (id) VALUES (10)",
    "DELETE FROM shop.things WHERE id = 10",
    "UPDATE shop.things SET id = 60 WHERE id = 6",
    "UPDATE shop.things SET body = repeat('y', 9000) WHERE id = 8",
    "UPDATE shop.things SET name = '', tag = '\\x01' WHERE id = 8",
    "DELETE FROM shop.things WHERE id IN (7, 9)",
    "INSERT INTO shop.things (id, name) VALUES (7, 'back')",
    "UPDATE shop.things SET id = 40, name = 'moved' WHERE id = 4",
)
#: Apicurio's converter writes a column's default where the row has NULL, whatever the transform is told; JSON's can be
#: told not to.
_DEFAULTS = {"5": {"qty": (None, "3")}}
#: The keys that rows have lost, and the one that a row with an untouched text has got.
_GONE, _MOVED = ("10", "2", "4", "6", "9"), "40"
#: Messages of a batch: more than the snapshot's four, fewer than all.
_BATCH = 14
_PLACE = "op,source.connector,source.sequence,source.lsn,source.ts_ms"


@dataclass(frozen=True)
class Way:
    """A way to configure the transform, and what the table needs to be told of it.

    Attributes:
        deletes: its mode of deletes.
        encoding: of the messages.
        transform: its other settings.
        table: settings of the table.
        partitions: of the topic.
    """

    deletes: str
    encoding: str
    transform: Mapping[str, str] = field(default_factory=dict)
    table: Mapping[str, Any] = field(default_factory=lambda: {"format": "debezium-flat"})
    partitions: int = 1

    def connector(self, config: Mapping[str, str], registry: Registry) -> dict[str, str]:
        """A connector's configuration with the transform."""
        transform = {
            "type": "io.debezium.transforms.ExtractNewRecordState",
            "delete.tombstone.handling.mode": self.deletes,
            "replace.null.with.default": "false",
            **self.transform,
        }
        topics = {"partitions": str(self.partitions), "replication.factor": "1"}
        return {
            **connectors.encoded(config, self.encoding, registry),
            # Otherwise it writes a column's default where the row has NULL.
            **({"value.converter.replace.null.with.default": "false"} if self.encoding == "json" else {}),
            **{f"topic.creation.default.{name}": text for name, text in topics.items()},
            "transforms": "flat",
            **{f"transforms.flat.{name}": text for name, text in transform.items()},
        }


_AUTO = {"format": "auto"}
_NAMED = {
    "format": "debezium-flat",
    "added_fields": ["op:what", "source.connector", "source.sequence", "source.lsn", "source.ts_ms"],
    "added_fields_prefix": "x_",
}
#: By the name of the connector, of its topics' prefix and of the mirror's namespace.
WAYS = {
    "rewritten": Way("rewrite", "avro", {"add.fields": _PLACE}, _AUTO),
    "both": Way(
        "rewrite-with-tombstone",
        "json",
        {"add.fields": _PLACE.replace("op,", "op:what,"), "add.fields.prefix": "x_"},
        _NAMED,
        partitions=3,
    ),
    "tombstones": Way("tombstone", "json", {"add.fields": _PLACE}),
    "to_tombstones": Way("delete-to-tombstone", "avro", {"add.headers": _PLACE}, _AUTO),
    "dropped": Way("drop", "json", table=_AUTO),
}


@dataclass(frozen=True)
class Seen:
    """What one run made of it all, and what the database says."""

    pipeline: Pipeline
    document: dict[str, Any]
    source: PostgresSource

    def differences(self, way: str) -> dict[str, Any]:
        """Where a mirror differs from the table."""
        said = self.source.ask("things")
        return differences(said.columns, said.key, said.rows, self.pipeline.rows(f"{way}.things"))

    def told(self, way: str) -> dict[str, int]:
        """The violations of a mirror's messages by code."""
        codes: dict[str, int] = {}
        for row in self.pipeline.quarantine(f"{way}.things"):
            codes[row["code"]] = codes.get(row["code"], 0) + 1
        return codes


@pytest.fixture(scope="module")
def seen(postgres: Postgres, kafka: Kafka, registry: Registry, connect: Connect, folder: Callable[[str], Path]) -> Seen:
    """Let it all happen while the connectors follow, and run once, in batches that cut it."""
    source = PostgresSource(postgres, NAME)
    source.create()
    with source.session() as session:
        session.run(*_TABLES.split(";\n"))
    for name, way in WAYS.items():
        connect.create(name, way.connector(source.connector(name), registry))
    deliver = partial(source.deliver, connect, list(WAYS))
    deliver()
    with source.session() as session:
        session.run(*_LIFE)
    deliver()
    tables = [
        {"topic": f"{name}.shop.things", "mirror": f"{name}.things", "records_max": _BATCH, **way.table}
        for name, way in WAYS.items()
    ]
    kafka_source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    pipeline = Pipeline.write(folder(NAME), kafka_source, tables, {"registry": {"url": registry.url}})
    document = pipeline.run_once()
    for name in WAYS:
        connect.delete(name)
    return Seen(pipeline, document, source)


def test_the_run_ends_well(seen: Seen) -> None:
    """Every format was told by its messages, and no table stopped."""
    assert (seen.document["exit_code"], [table["error"] for table in seen.document["tables"]]) == (0, [None] * 5)


@pytest.mark.parametrize(("way", "lost"), [("rewritten", _DEFAULTS), ("both", {})])
def test_each_mirror_equals_the_database(seen: Seen, way: str, lost: dict[str, Any]) -> None:
    """Column by column, from one partition and from three, with nothing held or doubted."""
    assert (seen.differences(way), seen.told(way)) == (lost, {})


@pytest.mark.parametrize(("way", "lost"), [("tombstones", {}), ("to_tombstones", _DEFAULTS)])
def test_deletes_without_a_place(seen: Seen, way: str, lost: dict[str, Any]) -> None:
    """All is right but the text of a row whose key changed without it, which the report says."""
    text = "x" * 9000

    assert seen.differences(way) == {_MOVED: {"body": (text, None)}, **lost}
    assert seen.told(way) == {"UNAVAILABLE_NO_BASE": 1}


def test_deletes_that_are_dropped(seen: Seen) -> None:
    """Rows that are gone stay; those that came back are as they are."""
    found = seen.differences("dropped")

    assert {key for key, wrong in found.items() if wrong == "only in the mirror"} == set(_GONE)
    assert found.keys() - set(_GONE) == {_MOVED}
