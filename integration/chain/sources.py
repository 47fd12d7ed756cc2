"""A database that a connector follows, in the same words for PostgreSQL and for MariaDB."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from integration.chain import connectors, mariadb_truth, postgres_truth
from integration.chain.connect import Connect
from integration.chain.delivery import deliver_mariadb, deliver_postgres
from integration.chain.kafka import Kafka
from integration.chain.live import Said
from integration.chain.mariadb import MariaDB
from integration.chain.postgres import Postgres
from integration.chain.process import wait_until
from integration.chain.sql import Session

_FREE_SECONDS_MAX = 60.0
#: Each connector to MariaDB is a replica of its own.
_server_ids = itertools.count(5001)


class Source(Protocol):
    """One database of a server."""

    @property
    def kind(self) -> str:
        """Which database it is: ``postgres`` or ``mariadb``."""

    @property
    def name(self) -> str:
        """The database's name."""

    @property
    def server(self) -> Postgres | MariaDB:
        """Where it is."""

    @property
    def place(self) -> str:
        """What stands before a table's name, in statements and in topics."""

    def create(self) -> None:
        """Make the database, empty."""

    def series(self, first: int, last: int) -> str:
        """A table expression with the numbers from ``first`` to ``last`` as ``n``."""

    def session(self) -> Session:
        """Open a session on the database."""

    def connector(self, prefix: str) -> dict[str, str]:
        """The configuration of a connector that follows all of its tables, with topics that begin ``prefix``."""

    def deliver(self, connect: Connect, prefixes: Iterable[str]) -> None:
        """Wait until the connectors have sent everything that is committed now; see `delivery`."""

    def lose_place(self, connect: Connect, prefix: str) -> None:
        """Take the log away from under a stopped connector, so that it has to begin with a snapshot."""

    def ask(self, table: str) -> Said:
        """What the database says of a table."""


@dataclass(frozen=True)
class PostgresSource:
    """A database of PostgreSQL, whose tables are in the schema ``shop``."""

    server: Postgres
    name: str
    kind: str = "postgres"
    place: str = "shop"

    def create(self) -> None:
        """Make the database, with its schema."""
        self.server.run("postgres", f"CREATE DATABASE {self.name}")
        self.server.run(self.name, f"CREATE SCHEMA {self.place}")

    def series(self, first: int, last: int) -> str:
        """As `Source` says."""
        return f"generate_series({first}, {last}) n"

    def session(self) -> Session:
        """As `Source` says."""
        return self.server.session(self.name)

    def connector(self, prefix: str) -> dict[str, str]:
        """As `Source` says."""
        return connectors.postgres_connector(self.server, self.name, prefix, rf"{self.place}\..*")

    def deliver(self, connect: Connect, prefixes: Iterable[str]) -> None:
        """As `Source` says."""
        deliver_postgres(self.server, self.name, connect, prefixes)

    def lose_place(self, connect: Connect, prefix: str) -> None:
        """Drop the replication slot, and let the connector forget how far it was."""
        slot = f"slot_{prefix}"
        active = f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'"
        with self.session() as session:
            wait_until("the slot is free", lambda: session.run(active) == ["f"], _FREE_SECONDS_MAX)
            session.run(f"SELECT pg_drop_replication_slot('{slot}')")
        connect.forget_offsets(prefix)

    def ask(self, table: str) -> Said:
        """As `Source` says."""
        name = f"{self.place}.{table}"
        with self.session() as session:
            columns = postgres_truth.columns_of(session, name)
            return Said(columns, postgres_truth.key_of(session, name), postgres_truth.rows_of(session, name, columns))


@dataclass(frozen=True)
class MariadbSource:
    """A database of MariaDB, and the broker that its connectors keep the history of its tables in."""

    server: MariaDB
    name: str
    kafka: Kafka
    kind: str = "mariadb"

    @property
    def place(self) -> str:
        """The database is all that stands before a table."""
        return self.name

    def create(self) -> None:
        """As `Source` says."""
        self.server.run("mysql", f"CREATE DATABASE {self.name}")

    def series(self, first: int, last: int) -> str:
        """As `Source` says."""
        return f"(SELECT seq AS n FROM seq_{first}_to_{last}) numbers"

    def session(self) -> Session:
        """As `Source` says."""
        return self.server.session(self.name)

    def connector(self, prefix: str) -> dict[str, str]:
        """As `Source` says."""
        tables = rf"{self.name}\..*"
        return connectors.mariadb_connector(
            self.server, self.name, prefix, tables, next(_server_ids), self.kafka.bootstrap
        )

    def deliver(self, connect: Connect, prefixes: Iterable[str]) -> None:
        """As `Source` says."""
        deliver_mariadb(self.server, self.name, connect, prefixes)

    def lose_place(self, connect: Connect, prefix: str) -> None:
        """Begin a new binlog, remove those before it, and let the connector forget how far it was."""
        with self.session() as session:
            session.run("FLUSH BINARY LOGS")
            # A file that is still being sent to a connector stays, also to one that is gone without a word.
            for sender in session.run(
                "SELECT id FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
            ):
                session.run(f"KILL {sender}")
            newest = session.value("SHOW MASTER STATUS").split("\t")[0]

            def is_alone() -> bool:
                session.run(f"PURGE BINARY LOGS TO '{newest}'")
                return len(session.run("SHOW BINARY LOGS")) == 1

            wait_until("older binlogs are gone", is_alone, _FREE_SECONDS_MAX)
        connect.forget_offsets(prefix)

    def ask(self, table: str) -> Said:
        """As `Source` says."""
        with self.session() as session:
            columns = mariadb_truth.columns_of(session, table)
            return Said(columns, mariadb_truth.key_of(session, table), mariadb_truth.rows_of(session, table, columns))
