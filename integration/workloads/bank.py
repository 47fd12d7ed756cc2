"""Accounts in PostgreSQL that keep changing, and one connector in Avro that follows them: what fault tests work on."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.chain import connectors, postgres_truth
from integration.chain.connect import Connect
from integration.chain.delivery import deliver_postgres
from integration.chain.kafka import Kafka
from integration.chain.live import Said
from integration.chain.pipeline import Pipeline
from integration.chain.postgres import Postgres
from integration.chain.registry import Registry

_SCHEMA = """
CREATE SCHEMA shop;
CREATE TABLE shop.heartbeat (id int PRIMARY KEY);
CREATE TABLE shop.signals (id text PRIMARY KEY, type text, data text);
CREATE TABLE shop.accounts (id int PRIMARY KEY, balance numeric(12, 2) NOT NULL, owner text, note text);
ALTER TABLE shop.accounts ALTER note SET STORAGE EXTERNAL
"""
_LONG = "repeat(md5({}::text), 200)"


@dataclass
class Bank:
    """A bank with a database, a connector and topics of its own, all named alike.

    Attributes:
        name: of the database, of the connector and of the topics' prefix.
    """

    name: str
    postgres: Postgres
    kafka: Kafka
    registry: Registry
    connect: Connect
    _rounds: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def topic(self) -> str:
        """The topic of the accounts."""
        return f"{self.name}.shop.accounts"

    def open(self, more: Mapping[str, str] | None = None) -> None:
        """Make the database with thirty accounts, and start the connector; ``more`` adds to its configuration."""
        self.postgres.run("postgres", f"CREATE DATABASE {self.name}")
        self.postgres.run(
            self.name,
            *_SCHEMA.split(";\n"),
            f"INSERT INTO shop.accounts SELECT n, n * 10, 'owner ' || n, {_LONG.format('n')}"
            " FROM generate_series(1, 30) n",
        )
        config = connectors.postgres_connector(self.postgres, self.name, self.name, r"shop\..*")
        self.connect.create(self.name, connectors.encoded({**config, **(more or {})}, "avro", self.registry))

    def work(self, rounds: int = 3) -> None:
        """Open accounts, move money, close accounts, number one anew; a round is eight transactions."""
        with self.postgres.session(self.name) as session:
            for _ in range(rounds):
                number = next(self._rounds)
                first = 1000 * number
                session.run(
                    f"INSERT INTO shop.accounts SELECT n, 1, 'new', {_LONG.format('n')}"
                    f" FROM generate_series({first}, {first + 4}) n",
                    f"UPDATE shop.accounts SET balance = balance + {number}.01 WHERE id % 3 = {number % 3}",
                    f"UPDATE shop.accounts SET id = id + 500 WHERE id = {first}",
                    f"DELETE FROM shop.accounts WHERE id = {first + 1}",
                    "BEGIN",
                    f"UPDATE shop.accounts SET balance = balance - 5 WHERE id = {1 + number % 10}",
                    f"UPDATE shop.accounts SET balance = balance + 5 WHERE id = {11 + number % 10}",
                    "COMMIT",
                    f"UPDATE shop.accounts SET note = NULL WHERE id = {first + 2}",
                )

    def deliver(self) -> None:
        """Wait until all that is committed is in the topic."""
        deliver_postgres(self.postgres, self.name, self.connect, [self.name])

    def ask(self, _: str = "accounts") -> Said:
        """What the database says of the accounts."""
        with self.postgres.session(self.name) as session:
            columns = postgres_truth.columns_of(session, "shop.accounts")
            key = postgres_truth.key_of(session, "shop.accounts")
            return Said(columns, key, postgres_truth.rows_of(session, "shop.accounts", columns))

    def pipeline(
        self, folder: Path, more: Mapping[str, Any] | None = None, spark: Mapping[str, str] | None = None
    ) -> Pipeline:
        """A pipeline with the mirror ``avro.accounts``; ``more`` are other entries of the file."""
        source = {"kafka": {"bootstrap.servers": self.kafka.bootstrap}}
        table = {"topic": self.topic, "mirror": "avro.accounts"}
        entries = {"registry": {"url": self.registry.url}, **(more or {})}
        return Pipeline.write(folder, source, [table], entries, spark)
