"""How benchmarks measure: whole commands in processes of their own, in turns, by the table that they end with."""

import argparse
import ctypes
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.names import TableName
from cdc_materializer.session.session import open_session, stop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: prctl's option by which processes whose parents are gone become our children, so that their time is told to us.
_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


def options(doc: str | None, *, pairs: int) -> argparse.ArgumentParser:
    """What a benchmark of recorded orders takes: how many changes, pairs of runs, how they are written, and where.

    Args:
        doc: what the benchmark says of itself.
        pairs: how many there are if nobody says.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=pairs)
    parser.add_argument("--encoding", choices=["avro", "json"], default="avro")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    return parser


@dataclass(frozen=True)
class Cost:
    """What one command cost: seconds on the clock, and of all processors in it and everything that it started."""

    wall: float
    cpu: float

    def told(self, name: str) -> Self:
        """The same, told as progress: what it is of, and how much."""
        sys.stderr.write(f"{name}: {self.wall:.1f} s, {self.cpu:.1f} CPU-s\n")
        return self


def cdcm(*arguments: str, folder: Path) -> Cost:
    """Run a command of the product in a folder and measure it; see `command`."""
    return command(sys.executable, "-m", "cdc_materializer", *arguments, folder=folder)


def command(*words: str, folder: Path) -> Cost:
    """Run a command in a folder and measure it; what it says is in the folder's `bench.log`.

    Raises:
        RuntimeError: it failed; its last words are in the message.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    before = _children()
    log = folder / "bench.log"
    began = time.monotonic()
    with log.open("wb") as told:
        running = subprocess.Popen(words, cwd=folder, stdout=told, stderr=told)
        cpu, failed = _reap(running.pid, before)
    wall = time.monotonic() - began
    running.returncode = failed
    if failed:
        raise RuntimeError(f"{' '.join(words)} ended with {failed}: {log.read_text()[-2_000:]}")
    return Cost(wall, cpu)


def _reap(first: int, others: set[int]) -> tuple[float, int]:
    """Wait for a process and all that it has left to us; the CPU-seconds of these, and the exit code of the first.

    Args:
        first: the process.
        others: our children from before it, such as a broker, which go on.
    """
    cpu, code = 0.0, 0
    while _children() - others:
        pid, status, used = os.wait4(-1, 0)
        if pid in others:
            raise RuntimeError(f"a process that the benchmark needs ended with {os.waitstatus_to_exitcode(status)}")
        cpu += used.ru_utime + used.ru_stime
        if pid == first:
            code = os.waitstatus_to_exitcode(status)
    return cpu, code


def _children() -> set[int]:
    """The processes that we are the parent of, those that have ended and were not waited for among them."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(child) for task in tasks for child in (task / "children").read_text(encoding="ascii").split()}


def seconds_of(*processes: int) -> float:
    """The CPU-seconds that processes have had so far, and those of their children that are gone."""
    total = 0
    for process in processes:
        told = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        total += sum(int(ticks) for ticks in told[11:15])
    return total / _TICKS


def seconds_of_tree(first: int) -> float:
    """The CPU-seconds that a process has had so far, and all below it; less those of a child that nobody waited for."""
    total = 0.0
    try:
        total += seconds_of(first)
        for task in Path(f"/proc/{first}/task").iterdir():
            children = (task / "children").read_text(encoding="ascii").split()
            total += sum(seconds_of_tree(int(child)) for child in children)
    except (FileNotFoundError, ProcessLookupError):
        pass  # gone between the list and the look
    return total


@contextmanager
def session(config: Config) -> Iterator["SparkSession"]:
    """A session as `cdcm run --follow` has it: for throughput, kept open."""
    opened = open_session(config, small=False)
    try:
        yield opened
    finally:
        stop(opened)


def in_session(spark: "SparkSession", job: Callable[[], None]) -> Cost:
    """What a job costs in a session that is there: of this process and of the session's JVM."""
    processes = (os.getpid(), _jvm_of(spark))
    cpu, began = seconds_of(*processes), time.monotonic()
    job()
    return Cost(time.monotonic() - began, seconds_of(*processes) - cpu)


def _jvm_of(spark: "SparkSession") -> int:
    """The process of a session's JVM."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]


def jobs_so_far(spark: "SparkSession") -> int:
    """How many jobs Spark has started since it is there."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def compiler_seconds(spark: "SparkSession") -> float:
    """The CPU-seconds that the compilers of the session's JVM have had so far; less what threads had that are gone."""
    total = 0
    for task in Path(f"/proc/{_jvm_of(spark)}/task").iterdir():
        try:
            name, _, told = (task / "stat").read_text(encoding="ascii").partition("(")[2].rpartition(")")
        except FileNotFoundError:
            continue  # gone between the list and the look
        if "CompilerThre" in name:
            total += sum(int(ticks) for ticks in told.split()[11:13])
    return total / _TICKS


def peak_memory(spark: "SparkSession") -> int:
    """The most memory that this process and the session's JVM have had at a time each, added up, in MiB."""
    total = 0
    for process in (os.getpid(), _jvm_of(spark)):
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return total // 1024


@dataclass(frozen=True)
class Pairs:
    """Two ways measured in turns: what each pair cost, and how the second compares with the first."""

    first: tuple[Cost, ...]
    second: tuple[Cost, ...]

    def ratio(self, of: Callable[[Cost], float]) -> tuple[float, float, float]:
        """The lowest, middle and highest ratio of the pairs."""
        found = sorted(of(two) / of(one) for one, two in zip(self.first, self.second, strict=True))
        return found[0], statistics.median(found), found[-1]

    def as_json(self, names: tuple[str, str]) -> dict[str, object]:
        """As a document: seconds by way, and the ratios."""
        told: dict[str, object] = {
            name: {"wall": [round(c.wall, 2) for c in costs], "cpu": [round(c.cpu, 2) for c in costs]}
            for name, costs in zip(names, (self.first, self.second), strict=True)
        }
        seconds: dict[str, Callable[[Cost], float]] = {"wall": lambda cost: cost.wall, "cpu": lambda cost: cost.cpu}
        for unit, of in seconds.items():
            low, middle, high = self.ratio(of)
            told[f"ratio_{unit}"] = {"low": round(low, 3), "median": round(middle, 3), "high": round(high, 3)}
        return told


def in_pairs(first: Callable[[], Cost], second: Callable[[], Cost], pairs: int) -> Pairs:
    """Measure two ways in turns, each as often first as second, after one run of each that does not count."""
    first(), second()
    one: list[Cost] = []
    two: list[Cost] = []
    for at in range(pairs):
        for way, costs in ((first, one), (second, two)) if at % 2 == 0 else ((second, two), (first, one)):
            costs.append(way())
    return Pairs(tuple(one), tuple(two))


def digest(folder: Path, table: str, key: str) -> str:
    """A digest of a mirror's rows in the order of their key, without our own column."""
    found = open_tables(load_config(folder / "pipeline.yaml").catalog).load(TableName.parse(table))
    if found is None:
        raise RuntimeError(f"There is no table {table}.")
    return digest_of(found.scan().to_arrow().drop_columns(["__cdc"]), key)


def digest_of(rows: pa.Table, key: str) -> str:
    """A digest of rows in the order of their key."""
    rows = rows.take(pa.compute.sort_indices(rows[key])).combine_chunks()
    told = hashlib.sha256(f"{rows.num_rows} {rows.column_names}".encode())
    for column in rows.itercolumns():
        for chunk in column.cast(pa.string()).chunks:
            told.update(json.dumps(chunk.to_pylist()).encode())
    return told.hexdigest()[:16]


def machine() -> Mapping[str, object]:
    """What the figures were measured on, and of which commit; a `+` says that files differed from it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty=+"], cwd=Path(__file__).parent, capture_output=True, check=False
    )
    return {
        "commit": commit.stdout.decode().strip() or "unknown",
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": sys.version.split()[0],
    }
