"""Kafka Connect with Debezium's connectors: one distributed worker, driven over its REST interface."""

from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from cdc_materializer import jars
from integration.chain.downloads import Parts
from integration.chain.kafka import JAVA_OPTIONS, MESSAGE_BYTES_MAX, Kafka, log_options, write_logging, write_properties
from integration.chain.process import START_SECONDS_MAX, ChainError, Process, Service, free_port
from integration.chain.web import answers, request

#: What a worker of a test needs; docker/compose.yaml has the same.
SETTINGS: Mapping[str, str] = {
    # Every plugin has a manifest for Java's service loader (for Apicurio's converter see downloads.py).
    "plugin.discovery": "service_load",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "scheduled.rebalance.max.delay.ms": "0",
    "topic.creation.enable": "true",
    "connector.client.config.override.policy": "All",
    "producer.max.request.size": str(MESSAGE_BYTES_MAX),
}
#: How often the worker notes where its connectors are, in milliseconds: often, so that a test knows soon that all is
#: delivered.
FLUSH_MS = 1000


class Connect(Service):
    """One worker on a free port, in a group of its own."""

    def __init__(
        self, parts: Parts, folder: Path, kafka: Kafka, group: str = "chain", flush_ms: int = FLUSH_MS
    ) -> None:
        """Lay out a worker in a folder; ``flush_ms`` is how long what it sent may stay unnoted."""
        self.port = free_port()
        write_logging(folder)
        own = {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": f"connect-{group}",
            "listeners": f"http://127.0.0.1:{self.port}",
            "rest.advertised.host.name": "127.0.0.1",
            "plugin.path": str(parts.plugins),
            "offset.flush.interval.ms": str(flush_ms),
            **{f"{kind}.storage.topic": f"_connect_{group}_{kind}" for kind in ("offset", "config", "status")},
        }
        write_properties(folder / "connect.properties", {**SETTINGS, **own})
        command = [str(jars.require_java()), "-Xmx640m", *JAVA_OPTIONS, *log_options(folder)]
        program = ["org.apache.kafka.connect.cli.ConnectDistributed", str(folder / "connect.properties")]
        super().__init__(Process("connect", [*command, "-cp", f"{folder}:{parts.kafka}/*", *program], folder))

    def ready(self, seconds: float = START_SECONDS_MAX) -> None:
        """Wait until it takes connectors."""
        self.process.wait_until("Connect answers", lambda: answers(self.port, "/connectors"), seconds)

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, or change its configuration; returns when its task runs.

        Raises:
            ChainError: Connect refuses the configuration, or the task fails; the message has the reason.
        """
        answer = request("PUT", self.port, f"/connectors/{name}/config", dict(config))
        if not answer.ok:
            message = f"Connect refuses the connector {name}: {answer.text[:2000]}"
            raise ChainError(message)
        self.wait_running(name)

    def wait_running(self, name: str, seconds: float = START_SECONDS_MAX) -> None:
        """Wait until the connector's task runs; raise ChainError with its trace when it failed."""
        self.process.wait_until(f"the connector {name} runs", lambda: self._task_state(name) == "RUNNING", seconds)

    def check(self, name: str) -> None:
        """Raise ChainError, with the trace, when the connector's task has failed."""
        self._task_state(name)

    def delete(self, name: str) -> None:
        """Remove a connector, if it is there; its offsets stay."""
        request("DELETE", self.port, f"/connectors/{name}")

    def stop_connector(self, name: str) -> None:
        """Stop a connector so that its offsets can be changed; returns when no task is left."""
        request("PUT", self.port, f"/connectors/{name}/stop")
        self.process.wait_until(f"{name} stopped", lambda: self._status(name)["connector"]["state"] == "STOPPED")

    def resume(self, name: str) -> None:
        """Let a stopped connector go on."""
        request("PUT", self.port, f"/connectors/{name}/resume")
        self.wait_running(name)

    def forget_offsets(self, name: str) -> None:
        """Make a stopped connector forget how far it was."""
        answer = request("DELETE", self.port, f"/connectors/{name}/offsets")
        if not answer.ok:
            message = f"Connect does not forget the offsets of {name}: {answer.text[:500]}"
            raise ChainError(message)

    def offset(self, name: str) -> dict[str, Any]:
        """How far a connector is, as noted at the last flush: the position in the database's log; empty before that."""
        found = request("GET", self.port, f"/connectors/{name}/offsets")
        offsets = found.json().get("offsets", []) if found.ok else []
        position: dict[str, Any] = offsets[0]["offset"] if offsets else {}
        return position

    def _status(self, name: str) -> dict[str, Any]:
        answer = request("GET", self.port, f"/connectors/{name}/status")
        status: dict[str, Any] = answer.json() if answer.ok else {"connector": {"state": "UNKNOWN"}, "tasks": []}
        return status

    def _task_state(self, name: str) -> str:
        try:
            tasks = self._status(name)["tasks"]
        except (OSError, HTTPException):
            return "UNKNOWN"
        failed = [task.get("trace", "") for task in tasks if task["state"] == "FAILED"]
        if failed:
            message = f"the connector {name} failed: {failed[0][:3000]}"
            raise ChainError(message)
        return str(tasks[0]["state"]) if tasks else "UNKNOWN"
