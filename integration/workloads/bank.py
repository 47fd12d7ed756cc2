"""Accounts in a database that keep changing, and a connector in Avro that follows them: what fault tests work on."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration.chain import connectors
from integration.chain.connect import Connect
from integration.chain.kafka import Kafka
from integration.chain.live import Said
from integration.chain.pipeline import Pipeline
from integration.chain.registry import Registry
from integration.chain.sources import Source

_SCHEMA = """
CREATE TABLE {place}.heartbeat (id int PRIMARY KEY);
CREATE TABLE {place}.signals (id varchar(64) PRIMARY KEY, type varchar(32), data varchar(2048));
CREATE TABLE {place}.accounts (id int PRIMARY KEY, balance decimal(12, 2) NOT NULL, owner varchar(100), note text)
"""
_LONG = "repeat(md5(concat(n)), 200)"


@dataclass
class Bank:
    """A bank with a database, a connector and topics of its own.

    Attributes:
        source: the database.
        name: of the connector, and of the topics' prefix.
    """

    source: Source
    name: str
    kafka: Kafka
    registry: Registry
    connect: Connect
    _rounds: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def accounts(self) -> str:
        """The accounts in a statement."""
        return f"{self.source.place}.accounts"

    @property
    def topic(self) -> str:
        """The topic of the accounts."""
        return f"{self.name}.{self.accounts}"

    @property
    def mirror(self) -> str:
        """The mirror of the accounts."""
        return f"{self.source.kind}.accounts"

    def open(self, more: Mapping[str, str] | None = None) -> None:
        """Make the database with thirty accounts, and start the connector; ``more`` adds to its configuration."""
        self.source.create()
        self.run(
            *_SCHEMA.format(place=self.source.place).split(";\n"),
            f"INSERT INTO {self.accounts} SELECT n, n * 10, concat('owner ', n), {_LONG}"
            f" FROM {self.source.series(1, 30)}",
        )
        if self.source.kind == "postgres":  # so that it is not sent again where it did not change
            self.run(f"ALTER TABLE {self.accounts} ALTER note SET STORAGE EXTERNAL")
        config = {**self.source.connector(self.name), **(more or {})}
        self.connect.create(self.name, connectors.encoded(config, "avro", self.registry))

    def run(self, *statements: str) -> list[str]:
        """Run statements in a session of their own and return the lines that they print."""
        with self.source.session() as session:
            return session.run(*statements)

    def work(self, rounds: int = 3) -> None:
        """Open accounts, move money, close accounts, number one anew; a round is eight transactions."""
        accounts = self.accounts
        with self.source.session() as session:
            for _ in range(rounds):
                number = next(self._rounds)
                first = 1000 * number
                session.run(
                    f"INSERT INTO {accounts} (id, balance, owner, note)"
                    f" SELECT n, 1, 'new', {_LONG} FROM {self.source.series(first, first + 4)}",
                    f"UPDATE {accounts} SET balance = balance + {number}.01 WHERE id % 3 = {number % 3}",
                    f"UPDATE {accounts} SET id = id + 500 WHERE id = {first}",
                    f"DELETE FROM {accounts} WHERE id = {first + 1}",
                    "BEGIN",
                    f"UPDATE {accounts} SET balance = balance - 5 WHERE id = {1 + number % 10}",
                    f"UPDATE {accounts} SET balance = balance + 5 WHERE id = {11 + number % 10}",
                    "COMMIT",
                    f"UPDATE {accounts} SET note = NULL WHERE id = {first + 2}",
                )

    def deliver(self) -> None:
        """Wait until all that is committed is in the topic."""
        self.source.deliver(self.connect, [self.name])

    def ask(self) -> Said:
        """What the database says of the accounts."""
        return self.source.ask("accounts")


@dataclass(frozen=True)
class Banks:
    """Several banks, which do everything together, and whose accounts have mirrors in one pipeline."""

    all: Sequence[Bank]

    def open(self) -> None:
        """Open them, with some work done."""
        for bank in self.all:
            bank.open()
        self.work()
        self.deliver()

    def close(self) -> None:
        """Take the connectors away."""
        for bank in self.all:
            bank.connect.delete(bank.name)

    def run(self, statement: str) -> None:
        """Run a statement in each database, with ``{accounts}`` for the table."""
        for bank in self.all:
            bank.run(statement.format(accounts=bank.accounts))

    def work(self, rounds: int = 3) -> None:
        """Let each work."""
        for bank in self.all:
            bank.work(rounds)

    def deliver(self) -> None:
        """Wait until all that is committed is in the topics."""
        for bank in self.all:
            bank.deliver()

    def ask(self, mirror: str) -> Said:
        """What the database says of the accounts that a mirror is of."""
        return next(bank for bank in self.all if bank.mirror == mirror).ask()

    def pipeline(
        self, folder: Path, more: Mapping[str, Any] | None = None, spark: Mapping[str, str] | None = None
    ) -> Pipeline:
        """A pipeline with a mirror for each bank; ``more`` are other entries of the file."""
        first = self.all[0]
        source = {"kafka": {"bootstrap.servers": first.kafka.bootstrap}}
        tables = [{"topic": bank.topic, "mirror": bank.mirror} for bank in self.all]
        return Pipeline.write(folder, source, tables, {"registry": {"url": first.registry.url}, **(more or {})}, spark)
