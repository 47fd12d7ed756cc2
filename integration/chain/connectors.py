"""Configurations of Debezium's connectors, as the tests and docker/ run them."""

from collections.abc import Mapping
from typing import Protocol

from integration.chain.registry import Registry

#: How the values of a message are written, by the name that the tests give it.
ENCODINGS = ("avro", "json")

#: What a connector for PostgreSQL is told, whatever database it reads.
POSTGRES: Mapping[str, str] = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "filtered",
    "snapshot.mode": "initial",
    # By default truncates are skipped; a mirror has to follow them.
    "skipped.operations": "none",
    "tombstones.on.delete": "true",
    "include.unknown.datatypes": "true",
    "incremental.snapshot.chunk.size": "8",
    "poll.interval.ms": "100",
    # After the database went away.
    "retriable.restart.connector.wait.ms": "1000",
}

#: Likewise for MariaDB.
MARIADB: Mapping[str, str] = {
    "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
    "tasks.max": "1",
    "snapshot.mode": "initial",
    "skipped.operations": "none",
    "tombstones.on.delete": "true",
    "include.schema.changes": "true",
    # In the default mode numbers past 2^63 come out negative, in keys too.
    "bigint.unsigned.handling.mode": "precise",
    "incremental.snapshot.chunk.size": "8",
    "poll.interval.ms": "100",
    # After the database went away.
    "retriable.restart.connector.wait.ms": "1000",
}


class Server(Protocol):
    """A database server as a connector reaches it."""

    @property
    def host(self) -> str:
        """Its address."""

    @property
    def port(self) -> int:
        """Its port."""

    @property
    def user(self) -> str:
        """Who logs in."""

    @property
    def password(self) -> str:
        """With what."""


def postgres_connector(server: Server, database: str, prefix: str, tables: str) -> dict[str, str]:
    """The configuration for one database of a PostgreSQL server.

    Args:
        server: the server.
        database: the database's name.
        prefix: what the topics' names begin with; the replication slot and the publication are named after it.
        tables: a regular expression of the tables, with their schema.
    """
    return {
        **POSTGRES,
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.dbname": database,
        "topic.prefix": prefix,
        "slot.name": f"slot_{prefix}",
        "publication.name": f"publication_{prefix}",
        "table.include.list": tables,
    }


def mariadb_connector(
    server: Server, database: str, prefix: str, tables: str, server_id: int, bootstrap: str
) -> dict[str, str]:
    """The configuration for one database of a MariaDB server; ``server_id`` is the connector's own as a replica."""
    return {
        **MARIADB,
        "database.hostname": server.host,
        "database.port": str(server.port),
        "database.user": server.user,
        "database.password": server.password,
        "database.server.id": str(server_id),
        "database.include.list": database,
        "topic.prefix": prefix,
        "table.include.list": tables,
        "schema.history.internal.kafka.bootstrap.servers": bootstrap,
        "schema.history.internal.kafka.topic": f"_history_{prefix}",
    }


def encoded(config: Mapping[str, str], encoding: str, registry: Registry | None) -> dict[str, str]:
    """Add how keys and values are written: ``avro`` with Confluent's framing, or ``json`` with schemas."""
    if encoding == "json":
        converters = {
            name: value
            for part in ("key", "value")
            for name, value in {
                f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter",
                f"{part}.converter.schemas.enable": "true",
            }.items()
        }
        return {**config, **converters}
    assert registry is not None, "Avro needs a registry"
    return {**config, **avro_converters(registry.native_url)}


def avro_converters(registry_url: str) -> dict[str, str]:
    """Apicurio's converter, told to write what Confluent's would."""
    settings = {
        "converter": "io.apicurio.registry.utils.converter.AvroConverter",
        "converter.apicurio.registry.url": registry_url,
        "converter.apicurio.registry.auto-register": "true",
        "converter.apicurio.registry.find-latest": "false",
        "converter.apicurio.registry.as-confluent": "true",
        "converter.apicurio.registry.headers.enabled": "false",
        "converter.apicurio.registry.use-id": "contentId",
    }
    parts = {f"{part}.{name}": value for part in ("key", "value") for name, value in settings.items()}
    return {**parts, "schema.name.adjustment.mode": "avro", "field.name.adjustment.mode": "avro"}
