"""A live database, followed through Debezium, Kafka and the registry: each mirror equals what the database says.

Each database has two connectors: one writes Avro, to topics of one partition, and one JSON, to topics of three, where
the delete and the insert of a key change, and a truncate and what it empties, lie in different partitions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from integration.chain import connectors
from integration.chain.connect import Connect
from integration.chain.kafka import Kafka
from integration.chain.live import Live, Said, follow
from integration.chain.pipeline import Pipeline
from integration.chain.registry import Registry
from integration.chain.sources import MariadbSource, PostgresSource, Source
from integration.record import ends
from integration.workloads import mariadb as mariadb_life
from integration.workloads import postgres as postgres_life

DATABASE = "live"
PARTITIONS = {"avro": 1, "json": 3}


@dataclass(frozen=True)
class Shop:
    """A shop in a database, and what happens in it."""

    source: Source
    life: ModuleType

    def prefix(self, encoding: str) -> str:
        """Of the topics in an encoding; the connector is named so too."""
        return f"{self.source.kind}_{encoding}"

    @property
    def prefixes(self) -> list[str]:
        """Those of all topics."""
        return [self.prefix(encoding) for encoding in PARTITIONS]

    @property
    def tables(self) -> list[dict[str, str]]:
        """What stands under `tables`: the mirrors are ``<encoding>.<table>``."""
        return [
            {"topic": f"{self.prefix(encoding)}.{self.source.place}.{table}", "mirror": f"{encoding}.{table}"}
            for encoding in PARTITIONS
            for table in self.life.TABLES
        ]

    def connector(self, encoding: str, registry: Registry) -> dict[str, str]:
        """The connector's configuration for an encoding."""
        config = self.source.connector(self.prefix(encoding))
        topics = {"partitions": str(PARTITIONS[encoding]), "replication.factor": "1"}
        made = {f"topic.creation.default.{name}": text for name, text in topics.items()}
        return connectors.encoded({**config, **made}, encoding, registry)

    def ask(self, mirror: str) -> Said:
        """What the database says of the table of a mirror."""
        return self.source.ask(mirror.partition(".")[2])


def _shop(request: pytest.FixtureRequest, kafka: Kafka) -> Shop:
    server = request.getfixturevalue(request.param)
    if request.param == "postgres":
        return Shop(PostgresSource(server, DATABASE), postgres_life)
    return Shop(MariadbSource(server, DATABASE, kafka), mariadb_life)


@pytest.fixture(scope="module", params=["postgres", pytest.param("mariadb", marks=pytest.mark.long)])
def live(
    request: pytest.FixtureRequest,
    kafka: Kafka,
    registry: Registry,
    connect: Connect,
    folder: Callable[[str], Path],
) -> Live:
    """Run the workload while a connector for each encoding and `cdcm run --follow` run, and wait until all is still."""
    shop = _shop(request, kafka)
    shop.life.begin(shop.source.server, DATABASE)
    for encoding in PARTITIONS:
        connect.create(shop.prefix(encoding), shop.connector(encoding, registry))
    deliver = partial(shop.source.deliver, connect, shop.prefixes)
    deliver()
    source = {"kafka": {"bootstrap.servers": kafka.bootstrap}}
    pipeline = Pipeline.write(folder(f"live-{request.param}"), source, shop.tables, {"registry": {"url": registry.url}})
    steps = (shop.life.change_rows, shop.life.change_tables, shop.life.empty_tables)
    changes = [partial(step, shop.source.server, DATABASE) for step in steps]
    found = follow(pipeline, changes, deliver, shop.ask)
    for prefix in shop.prefixes:
        connect.delete(prefix)
    return found


def test_each_mirror_equals_the_database(live: Live) -> None:
    """Row by row and column by column, in both encodings."""
    assert live.differences() == {}


def test_nothing_was_held(live: Live) -> None:
    """No message broke a rule."""
    assert live.held() == {}


def test_verify_finds_the_mirrors_equal(live: Live) -> None:
    """The fold of raw from its first message gives the same rows, though the log was cut into batches by chance."""
    half = live.mirrors[::2]

    assert live.unequal(half) == {}


def test_the_run_ends_well(live: Live) -> None:
    """Asked to stop, it ends with 0, and each message was in exactly one place."""
    assert (live.document["exit_code"], live.failures(), live.unaccounted()) == (0, [], [])


def test_raw_has_every_message_once(live: Live) -> None:
    """As many messages as the topic's offsets count, and no offset twice."""
    assert live.miscounted() == []


def test_topics_have_one_partition_and_three(live: Live, kafka: Kafka) -> None:
    """And in those of three, the messages of most tables lie in more than one."""
    topics = {str(table.mirror): str(table.topic) for table in live.pipeline.config.tables}
    written = ends(kafka.bootstrap, topics.values())
    used = {mirror: [end > 0 for end in written[topic].values()] for mirror, topic in topics.items()}

    assert {len(found) for mirror, found in used.items() if mirror.startswith("avro.")} == {1}
    assert {len(found) for mirror, found in used.items() if mirror.startswith("json.")} == {3}
    assert all(used[f"json.{table}"] == [True, True, True] for table in ("customers", "orders", "carts"))
