"""Knowing that everything a database committed is in Kafka, from what the connectors noted, not from a pause."""

import itertools
from collections.abc import Iterable

from integration.chain.connect import Connect
from integration.chain.mariadb import MariaDB
from integration.chain.postgres import Postgres
from integration.chain.process import wait_until

DELIVERY_SECONDS_MAX = 300.0
#: A commit after which the connectors are looked at again: they note a position only when they sent something.
_MARK_SECONDS = 0.5
_marks = itertools.count(1)


def deliver_postgres(server: Postgres, database: str, connect: Connect, connectors: Iterable[str]) -> None:
    """Wait until the connectors have sent everything that is committed now, and the broker has it.

    A connector is told by Kafka Connect that its messages arrived, and only then confirms their place in the log to
    its replication slot ``slot_<connector>``. One of its tables must be ``shop.heartbeat (id int)``, written to here.

    Raises:
        ChainError: one of them failed, or it takes too long.
    """
    names = tuple(connectors)
    with server.session(database) as session:
        end = session.value("SELECT pg_current_wal_lsn()")
        slots = ", ".join(f"'slot_{name}'" for name in names)
        query = (
            f"SELECT count(*) FROM pg_replication_slots WHERE slot_name IN ({slots}) AND confirmed_flush_lsn > '{end}'"
        )

        def all_delivered() -> bool:
            for name in names:
                connect.check(name)
            session.run(f"INSERT INTO shop.heartbeat VALUES ({next(_marks)})")
            return int(session.value(query)) == len(names)

        wait_until(f"{', '.join(names)} delivered everything", all_delivered, DELIVERY_SECONDS_MAX, _MARK_SECONDS)


def deliver_mariadb(server: MariaDB, database: str, connect: Connect, connectors: Iterable[str]) -> None:
    """Wait until the connectors have sent everything that is committed now, and the broker has it.

    What they noted is read from Kafka Connect: the file and place of the binlog up to which all has arrived. One of
    their tables must be ``heartbeat (id int)``, which is written to here.

    Raises:
        ChainError: one of them failed, or it takes too long.
    """
    names = tuple(connectors)
    with server.session(database) as session:
        file, place = session.value("SHOW MASTER STATUS").split("\t")[:2]

        def all_delivered() -> bool:
            for name in names:
                connect.check(name)
            session.run(f"INSERT INTO heartbeat VALUES ({next(_marks)})")
            noted = [connect.offset(name) for name in names]
            return all(at.get("file") and (at["file"], int(at["pos"])) > (file, int(place)) for at in noted)

        wait_until(f"{', '.join(names)} delivered everything", all_delivered, DELIVERY_SECONDS_MAX, _MARK_SECONDS)
