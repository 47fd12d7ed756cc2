"""Apache Kafka: one node that is broker and controller (KRaft), no ZooKeeper."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from cdc_materializer import jars
from integration.chain.downloads import Parts
from integration.chain.process import START_SECONDS_MAX, ChainError, Process, Service, free_port

#: A cluster needs an id; any will do.
_CLUSTER_ID = "T3MBJls0TGqyJ8u7pG4K-g"
#: The largest message that broker, Connect and tests agree on, in bytes.
MESSAGE_BYTES_MAX = 32 << 20
#: Starts fast and stays small; nothing here runs long enough for the better compiler.
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Duser.timezone=UTC")

#: What a broker of a test needs and what differs from Kafka's own defaults; docker/compose.yaml has the same.
SETTINGS: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    # A broker that was killed is let in again only when its last life is over by these.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
    "log.cleanup.policy": "delete",
    "auto.create.topics.enable": "true",
    # Topics are compacted within a test's patience.
    "log.cleaner.backoff.ms": "200",
    "message.max.bytes": str(MESSAGE_BYTES_MAX),
}


class Kafka(Service):
    """One broker on a free port, with data that outlives a stop or a kill."""

    def __init__(
        self,
        parts: Parts,
        folder: Path,
        settings: "Callable[[Kafka], Mapping[str, str]] | None" = None,
        advertised_port: int | None = None,
        scram: tuple[str, str] | None = None,
    ) -> None:
        """Lay out a broker in a folder; nothing is started.

        Args:
            parts: the Java parts.
            folder: for its data, its configuration and its log.
            settings: gives broker properties that replace or add to ours.
            advertised_port: where clients are sent to, such as a proxy's; default is the broker's own port.
            scram: name and password of a user for SASL/SCRAM, known to the broker from its beginning.
        """
        self.port = free_port()
        self.listeners = f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{free_port()}"
        self._advertised_port = advertised_port or self.port
        self._scram = scram
        self._folder = folder
        self._properties = folder / "broker.properties"
        self._classpath = f"{folder}:{parts.kafka}/*"
        write_logging(folder)
        write_properties(self._properties, {**self._own_settings(), **(settings(self) if settings else {})})
        command = [str(jars.require_java()), "-Xmx384m", *JAVA_OPTIONS, *log_options(folder), "-cp", self._classpath]
        super().__init__(Process("kafka", [*command, "kafka.Kafka", str(self._properties)], folder))

    @property
    def bootstrap(self) -> str:
        """The address that clients begin with."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Format the data folder at the first time, and start."""
        if not (self._folder / "data" / "meta.properties").exists():
            self._format()
        self.process.start()

    def ready(self, seconds: float = START_SECONDS_MAX) -> None:
        """Wait until clients are served."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def serves() -> bool:
            try:
                return bool(admin.list_topics(timeout=1).brokers)
            except KafkaException:
                return False

        self.process.wait_until("the broker answers", serves, seconds)

    def _own_settings(self) -> dict[str, str]:
        return {
            **SETTINGS,
            "controller.quorum.voters": f"1@{self.listeners.rpartition('//')[2]}",
            "listeners": self.listeners,
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._advertised_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self._folder / "data"),
        }

    def _format(self) -> None:
        command = [
            str(jars.require_java()),
            "-Xmx128m",
            *JAVA_OPTIONS,
            *log_options(self._folder),
            "-cp",
            self._classpath,
        ]
        storage = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(self._properties)]
        if self._scram is not None:
            name, password = self._scram
            storage += ["--add-scram", f"SCRAM-SHA-256=[name={name},password={password}]"]
        done = subprocess.run(
            [*command, *storage], capture_output=True, text=True, check=False, timeout=START_SECONDS_MAX
        )
        if done.returncode:
            message = f"the broker's data folder cannot be formatted: {done.stdout[-500:]}{done.stderr[-500:]}"
            raise ChainError(message)


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write a Java properties file."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")


def write_logging(folder: Path) -> None:
    """Have what runs in the folder log to its standard output."""
    write_properties(
        folder / "log4j2.properties",
        {
            "rootLogger.level": "INFO",
            "rootLogger.appenderRef.c.ref": "C",
            "appender.c.type": "Console",
            "appender.c.name": "C",
            "appender.c.layout.type": "PatternLayout",
            "appender.c.layout.pattern": "[%d] %p %m (%c{1})%n",
        },
    )


def log_options(folder: Path) -> list[str]:
    """The JVM option that makes it log as `write_logging` says."""
    return [f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"]
