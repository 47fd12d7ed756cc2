"""The two ways from PostgreSQL to a table of Iceberg: the peer in one process, and ours through Kafka Connect."""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import yaml

from benchmarks.bench_rules import contract
from benchmarks.peers.shop import DATABASE, TABLE
from cdc_materializer.config import CatalogConfig, load_config
from cdc_materializer.names import TableName
from integration.chain.connect import Connect
from integration.chain.connectors import encoded, postgres_connector
from integration.chain.downloads import parts
from integration.chain.kafka import Kafka
from integration.chain.pipeline import Follower, Pipeline
from integration.chain.postgres import Postgres
from integration.chain.process import Process, Service, wait_until
from integration.chain.registry import Registry
from integration.chain.running import running

_PROPERTIES = Path(__file__).parent / "application.properties"
_MIRROR = TableName.parse("shop.orders")
_TOPIC_SECONDS_MAX = 300.0


class Way(Protocol):
    """A way that is ready to start: what it needs besides runs already."""

    @property
    def catalog(self) -> CatalogConfig:
        """Where its table is."""

    @property
    def table(self) -> TableName:
        """The table that it keeps equal to the database's."""

    def start(self) -> None:
        """Begin with the first row, and go on with what changes."""

    def processes(self) -> Mapping[str, int]:
        """Its processes by name, each the first of a tree."""

    def check(self) -> None:
        """Raise where one of them has ended."""

    def stop(self) -> None:
        """End it, as users would."""

    def kill(self) -> None:
        """End it as a crash does."""

    def start_again(self) -> None:
        """Go on where it was."""


@dataclass(frozen=True)
class PeerOptions:
    """How the peer runs.

    Attributes:
        home: what was built: a runner jar beside its libraries.
        java: the Java that it runs on; it asks for 21.
        batch: most events of a batch.
        wait: how it waits for more.
        flush: after how many milliseconds at the soonest it notes how far it is.
    """

    home: Path
    java: str
    batch: int
    wait: str
    flush: int

    def runner(self) -> Path | None:
        """The jar that starts it; None where it was not built."""
        return next(self.home.glob("*-runner.jar"), None)


class Peer(Service):
    """Debezium Server with the Iceberg sink, one process."""

    table = TableName.parse("peer.bench_public_orders")

    def __init__(self, options: PeerOptions, folder: Path, postgres: Postgres) -> None:
        """Lay it out in a folder; nothing is started."""
        lake = folder / "lake"
        lake.mkdir(parents=True)
        (folder / "config").mkdir()
        shutil.copy(_PROPERTIES, folder / "config")
        uri = f"jdbc:sqlite:{lake / 'catalog.db'}?journal_mode=WAL&busy_timeout=10000"
        warehouse = (lake / "warehouse").as_uri()
        self.catalog = CatalogConfig.model_validate({"name": "peer", "uri": uri, "warehouse": warehouse})
        told = {
            "PEER_CATALOG": uri,
            "PEER_WAREHOUSE": warehouse,
            "PEER_BATCH": str(options.batch),
            "PEER_QUEUE": str(4 * options.batch),
            "PEER_WAIT": options.wait,
            "PEER_OFFSETS": str(folder / "offsets.dat"),
            "PEER_FLUSH": str(options.flush),
            "PEER_PORT": str(postgres.port),
            "PEER_USER": postgres.user,
            "PEER_PASSWORD": postgres.password,
        }
        # As much memory as `cdcm` gives its driver.
        command = [options.java, "-Xmx4g", "-Duser.timezone=UTC", "-cp"]
        classes = f"{options.runner()}:{options.home / 'lib'}/*"
        command += [classes, "io.debezium.server.Main"]
        super().__init__(Process("peer", command, folder, environment={**os.environ, **told}))

    def processes(self) -> Mapping[str, int]:
        """As `Way` says."""
        return {"peer": self.process.pid} if self.process.runs() else {}

    def check(self) -> None:
        """As `Way` says."""
        if not self.process.runs():
            raise self.process.failure("ended")

    def start_again(self) -> None:
        """As `Way` says."""
        self.start()


class Ours:
    """Debezium's connector in Kafka Connect, a broker, a registry, and `cdcm run --follow` with its defaults."""

    table = _MIRROR

    def __init__(self, folder: Path, postgres: Postgres, kafka: Kafka, registry: Registry, connect: Connect) -> None:
        """Lay it out in a folder beside a chain that runs."""
        folder.mkdir()
        self._chain = {"kafka": kafka.process, "registry": registry.process, "connect": connect.process}
        self._kafka, self._connect = kafka, connect
        self._connector = encoded(postgres_connector(postgres, DATABASE, "bench", TABLE), "avro", registry)
        pipeline = {
            "name": "bench",
            "source": {"kafka": {"bootstrap.servers": kafka.bootstrap}},
            "registry": {"url": registry.url},
            "tables": [{"topic": f"bench.{TABLE}", "mirror": str(_MIRROR), "contract": "orders.yaml"}],
        }
        path = folder / "pipeline.yaml"
        path.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
        (folder / "orders.yaml").write_text(yaml.safe_dump(contract(with_rules=False)), encoding="utf-8")
        self.catalog = load_config(path).catalog
        self._follower = Follower(Pipeline(path))

    def start(self) -> None:
        """As `Way` says."""
        self._connect.create("bench", self._connector)
        wait_until("the topic is there", self._has_topic, _TOPIC_SECONDS_MAX)
        self._follower.start()

    def processes(self) -> Mapping[str, int]:
        """As `Way` says."""
        known = {**self._chain, "cdcm": self._follower.process}
        return {name: process.pid for name, process in known.items() if process.runs()}

    def check(self) -> None:
        """As `Way` says."""
        self._connect.check("bench")
        if not self._follower.process.runs():
            raise self._follower.process.failure("ended")

    def stop(self) -> None:
        """As `Way` says."""
        self._follower.stop()
        self._connect.delete("bench")

    def kill(self) -> None:
        """As `Way` says."""
        self._connect.kill()
        self._follower.kill()

    def start_again(self) -> None:
        """As `Way` says."""
        self._connect.start()
        self._connect.ready()
        self._connect.wait_running("bench")
        self._follower.start()

    def _has_topic(self) -> bool:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap, "log_level": 0})
        return f"bench.{TABLE}" in admin.list_topics(timeout=10).topics


@contextmanager
def ours(folder: Path, postgres: Postgres) -> Iterator[Ours]:
    """Ours, with its chain running."""
    java, places = parts(), [folder / name for name in ("kafka", "registry", "connect")]
    for place in places:
        place.mkdir(parents=True)
    with ExitStack() as stack:
        kafka = stack.enter_context(running("kafka", lambda: Kafka(java, places[0])))
        registry = stack.enter_context(running("registry", lambda: Registry(java, places[1])))
        connect = stack.enter_context(running("connect", lambda: Connect(java, places[2], kafka)))
        yield Ours(folder / "pipeline", postgres, kafka, registry, connect)
