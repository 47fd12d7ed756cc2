"""What a batch costs to apply, beside what users would do instead, on a live broker and in one warm session.

Ours lands every message in raw, judges, accounts and publishes; the jobs of `jobs.py` only merge, or only append. All
read the same messages, in turns, and end with the same rows: a digest says so after each batch.
"""

import argparse
import functools
import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from benchmarks import jobs
from benchmarks.measure import Cost, in_session, machine, session
from benchmarks.traffic import COLUMNS, TOPIC, Batch, Keys
from cdc_materializer import run_once
from cdc_materializer.config import Config, load_config
from integration.chain.downloads import parts
from integration.chain.kafka import Kafka
from integration.chain.running import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIRROR = "shop.orders"
OURS, APPEND = "ours", "append"
#: What we hold ourselves to, by job and keys: what it costs as a multiple of ours, in CPU-seconds.
TARGETS = {
    ("tutorial", "uniform"): 5.0,
    ("tutorial", "recent"): 10.0,
    ("tuned", "uniform"): 2.0,
    ("tuned", "recent"): 2.0,
}
#: Batches that go before those that count: a JVM compiles what it does often.
_WARM = 2
_SEED = 20_261_122


def prepare(folder: Path, bootstrap: str) -> Config:
    """Write a pipeline into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    columns = [
        {"name": name, "physicalType": physical, **({"primaryKey": True} if name == "id" else {})}
        for name, (physical, _) in COLUMNS.items()
    ]
    contract = {"apiVersion": "v3.1.0", "kind": "DataContract", "id": "orders", "version": "1.0.0", "status": "active"}
    contract["schema"] = [{"name": "orders", "properties": columns}]  # type: ignore[assignment]
    pipeline = {
        "name": "bench",
        "source": {"kafka": {"bootstrap.servers": bootstrap}},
        "spark": {"spark.driver.memory": "6g"},
        "tables": [{"topic": TOPIC, "mirror": MIRROR, "contract": "orders.yaml"}],
    }
    (folder / "orders.yaml").write_text(yaml.safe_dump(contract), encoding="utf-8")
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    return load_config(folder / "pipeline.yaml")


def digest(spark: "SparkSession", table: str) -> tuple[int, str]:
    """How many rows a table has, and a sum over them that does not go by their order."""
    names = ", ".join(COLUMNS)
    sql = f"SELECT count(*), cast(sum(cast(xxhash64({names}) AS decimal(38, 0))) AS string) FROM {table}"
    found = spark.sql(sql).collect()[0]
    return found[0], found[1]


class Bench:
    """The tables of all ways, the topic, and how far it was written."""

    def __init__(self, spark: "SparkSession", config: Config, bootstrap: str, asked: argparse.Namespace) -> None:
        """Write the first rows and load them into every way's table."""
        self._spark, self._config, self._bootstrap, self._asked = spark, config, bootstrap, asked
        self._written = 0
        self._ends: dict[str, int] = {}
        self.costs: dict[str, list[Cost]] = {way: [] for way in asked.ways}
        self.write(asked.rows)
        _say(f"loading {asked.rows} rows")
        self.ours()
        rows = spark.table(f"lake.{MIRROR}").select(*COLUMNS)
        for way in asked.ways:
            if way != OURS:
                jobs.create(spark, f"lake.{MIRROR}_{way}", rows, is_tuned=way != "tutorial")

    def write(self, changes: int) -> None:
        """Append changes to the topic."""
        batch = Batch(self._written, changes, self._asked.rows, self._asked.keys, _SEED)
        batch.write(self._spark, self._bootstrap)
        self._written += changes

    def ours(self) -> None:
        """Bring our mirror to the topic's end."""
        report = run_once(self._config, self._spark)
        if report.exit_code:
            raise RuntimeError(f"the run ended with {report.exit_code}: {report.tables[0].error}")
        self._ends = dict(report.tables[0].offsets)

    def batch(self, *, counts: bool) -> None:
        """Write one batch, and apply it in every way, beginning with another one each time."""
        begin = dict(self._ends)
        self.write(self._asked.changes)
        # Whoever goes first would find the broker's pages cold: a read that does not count.
        end = _ends_of(self._bootstrap)
        jobs.read(self._spark, self._bootstrap, begin, end).write.format("noop").mode("overwrite").save()
        ways = list(self._asked.ways)
        turn = len(self.costs[ways[0]]) % len(ways)
        for way in ways[turn:] + ways[:turn]:
            job = self.ours if way == OURS else functools.partial(self._job, way, begin, end)
            cost = in_session(self._spark, job)
            _say(f"{way}: {cost.wall:.2f} s, {cost.cpu:.2f} CPU-s")
            if counts:
                self.costs[way].append(cost)

    def are_same(self) -> bool:
        """Whether all tables that are merged hold the same rows."""
        merged = [way for way in self._asked.ways if way != APPEND]
        return len({digest(self._spark, self._table(way)) for way in merged}) == 1

    def _table(self, way: str) -> str:
        return f"lake.{MIRROR}" if way == OURS else f"lake.{MIRROR}_{way}"

    def _job(self, way: str, begin: jobs.Ends, end: jobs.Ends) -> None:
        jobs.JOBS[way](self._table(way), jobs.read(self._spark, self._bootstrap, begin, end))


def _ends_of(bootstrap: str) -> dict[str, int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench"})
    try:
        found = consumer.list_topics(TOPIC).topics[TOPIC].partitions
        return {str(at): consumer.get_watermark_offsets(TopicPartition(TOPIC, at))[1] for at in sorted(found)}
    finally:
        consumer.close()


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def told(asked: argparse.Namespace, costs: dict[str, list[Cost]], *, same: bool) -> dict[str, Any]:
    """What was measured, as one document: seconds by way, and each way's cost as a multiple of ours."""
    document: dict[str, Any] = {
        "benchmark": "apply",
        "rows": asked.rows,
        "changes": asked.changes,
        "keys": asked.keys,
        "batches": asked.pairs,
        "same_table": same,
        **machine(),
        "ways": {},
    }
    for way, found in costs.items():
        seconds = {"wall": [round(c.wall, 2) for c in found], "cpu": [round(c.cpu, 2) for c in found]}
        ratios = {
            unit: round(
                statistics.median(getattr(c, unit) / getattr(o, unit) for c, o in zip(found, costs[OURS], strict=True)),
                2,
            )
            for unit in ("wall", "cpu")
        }
        target = TARGETS.get((way, asked.keys))
        document["ways"][way] = {**seconds, "multiple_of_ours": ratios, **({"target": target} if target else {})}
    return document


def main() -> int:
    """Measure, print one JSON document, and end with 1 where tables differ or a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=50_000)
    parser.add_argument("--pairs", type=int, default=5, help="batches that count")
    parser.add_argument("--keys", choices=Keys.__args__, default="uniform")  # type: ignore[attr-defined]
    parser.add_argument("--ways", type=lambda text: text.split(","), default=[OURS, *jobs.JOBS])
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    asked = parser.parse_args()
    folder = asked.folder.resolve() / f"apply-{asked.keys}"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kafka").mkdir(parents=True)
    with running("kafka", lambda: Kafka(parts(), folder / "kafka", lambda _: {"num.partitions": "4"})) as kafka:
        config = prepare(folder / "pipeline", kafka.bootstrap)
        with session(config) as spark:
            bench = Bench(spark, config, kafka.bootstrap, asked)
            for at in range(_WARM + asked.pairs):
                bench.batch(counts=at >= _WARM)
            same = bench.are_same()
    document = told(asked, bench.costs, same=same)
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    missed = [
        way for way, found in document["ways"].items() if found["multiple_of_ours"]["cpu"] < found.get("target", 0.0)
    ]
    return 0 if same and not missed else 1


if __name__ == "__main__":
    sys.exit(main())
