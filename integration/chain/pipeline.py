"""The product beside the chain: a pipeline.yaml, and `cdcm` run on it as a user runs it, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import CdcError
from cdc_materializer.names import TableName
from cdc_materializer.report.models import TableStatus
from cdc_materializer.status import read_status
from integration.chain.process import Process, ends_with_us

_ROOT = Path(__file__).parents[2]
#: How long a command may take, in seconds; a batch of a small table takes two, on a busy machine many times that.
RUN_SECONDS_MAX = 900.0
CATCH_UP_SECONDS_MAX = 600.0
#: Looking at the state of every table costs what a small batch costs.
_LOOK_SECONDS = 1.0
#: What `cdcm` itself takes for a small run: beside the chain there is no place for a driver of four gigabytes, and no
#: time for the better compiler.
_SPARK = {
    "spark.driver.memory": "1g",
    # With the quick compiler alone, Java has room for 48 MB of code; when that is full, it says so on standard output.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass(frozen=True)
class Pipeline:
    """A pipeline.yaml in a folder of its own."""

    path: Path

    @classmethod
    def write(
        cls,
        folder: Path,
        source: Mapping[str, Any],
        tables: Iterable[Mapping[str, Any]],
        more: Mapping[str, Any] | None = None,
        spark: Mapping[str, str] | None = None,
    ) -> "Pipeline":
        """Write a pipeline.yaml.

        Args:
            folder: where to; the default lake is made beside it.
            source: what stands under `source`.
            tables: what stands under `tables`.
            more: other entries: `registry`, `catalog`, and so on.
            spark: more Spark properties.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "pipeline.yaml"
        settings = {**_SPARK, **(spark or {})}
        content = {"name": "chain", "source": dict(source), "spark": settings, **(more or {}), "tables": list(tables)}
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return cls(path)

    @property
    def config(self) -> Config:
        """The pipeline as the product reads it."""
        return load_config(self.path)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command, like ``run`` or ``verify``, to its end, with one JSON document as its output."""
        return run_program([*_program(), *arguments, "--json", "-c", str(self.path)], RUN_SECONDS_MAX)

    def run_once(self) -> dict[str, Any]:
        """Bring every mirror to the end of its topic, and return what was said; `exit_code` is that of the process."""
        done = self.run("run")
        assert done.stdout, done.stderr
        return {**json.loads(done.stdout), "exit_code": done.returncode}

    def status(self) -> list[TableStatus]:
        """Where each table stands now."""
        return read_status(self.config, datetime.now(UTC)).tables

    def is_level(self) -> bool:
        """Whether every mirror has everything that its topic has now."""
        try:
            return all(table.ends and table.published == table.ends == table.landed for table in self.status())
        except CdcError:
            return False

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a mirror, read without Spark."""
        return self._read(TableName.parse(table))

    def raw(self, table: str) -> list[dict[str, Any]]:
        """The messages that were landed for a mirror."""
        return self._read(TableName.parse(table).raw)

    def quarantine(self, table: str) -> list[dict[str, Any]]:
        """The violations of a mirror's messages; none where no table was made for them."""
        name = TableName.parse(table).quarantine
        return self._read(name) if open_tables(self.config.catalog).load(name) is not None else []

    def _read(self, name: TableName) -> list[dict[str, Any]]:
        loaded = open_tables(self.config.catalog).load(name)
        assert loaded is not None, f"there is no table {name}"
        rows: list[dict[str, Any]] = loaded.scan().to_arrow().to_pylist()
        return rows


class Follower:
    """`cdcm run --follow` on a pipeline."""

    def __init__(self, pipeline: Pipeline, name: str = "follow", driver: Sequence[str] = ()) -> None:
        """Prepare the process; ``driver`` is a program to run instead of `cdcm`."""
        self._pipeline = pipeline
        self._output = pipeline.path.parent / f"{name}.json"
        command = [*(driver or _program()), "run", "--follow", "--json", "--debug", "-c", str(pipeline.path)]
        # The document goes to a file of its own; what is said on the way, with every failure's cause, to the log.
        shell = ["sh", "-c", 'out="$1"; shift; exec "$@" > "$out"', "sh", str(self._output), *command]
        self.process = Process(name, shell, pipeline.path.parent, environment=_environment(), stop_signal=signal.SIGINT)

    def start(self) -> None:
        """Start it; it needs some seconds until its first batch."""
        self.process.start()

    def catch_up(self, seconds: float = CATCH_UP_SECONDS_MAX) -> None:
        """Wait until every mirror has everything that its topic has; raise ChainError when it ends or takes longer."""
        self.process.wait_until("every mirror is level with its topic", self._pipeline.is_level, seconds, _LOOK_SECONDS)

    def wait_for_progress(self, seconds: float = CATCH_UP_SECONDS_MAX) -> None:
        """Wait until some mirror was published after this was called."""
        before = self._published()
        self.process.wait_until("a mirror was published", lambda: self._published() != before, seconds, _LOOK_SECONDS)

    def stop(self) -> dict[str, Any]:
        """Let it end after the running batches, and return its document; `exit_code` is that of the process."""
        popen = self.process._running
        self.process.stop()
        text = self._output.read_text(encoding="utf-8")
        document: dict[str, Any] = json.loads(text) if text.strip() else {}
        return {**document, "exit_code": popen.returncode if popen is not None else None}

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()

    def _published(self) -> list[object]:
        try:
            return [table.published for table in self._pipeline.status()]
        except CdcError:
            return []


def run_program(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program of ours to its end, with what it printed; it ends with us, whatever ends us."""
    return subprocess.run(
        [*ends_with_us(), *command], capture_output=True, text=True, check=False, timeout=seconds, env=_environment()
    )


def _program() -> list[str]:
    return [sys.executable, "-m", "cdc_materializer"]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONUNBUFFERED": "1"}
