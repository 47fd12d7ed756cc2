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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pyspark.sql import functions as F

from benchmarks import jobs
from benchmarks.measure import Cost, in_session, machine, peak_memory, session
from benchmarks.orders import Encoding
from benchmarks.steps import FLOOR, Steps, watched
from benchmarks.traffic import COLUMNS, TOPIC, Batch, Keys, write_schemas
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
#: What staging, auditing and publishing may cost as a multiple of a plain append of the same rows, by changes and keys.
LIMITS = {
    (50_000, "uniform"): 5.0,
    (50_000, "recent"): 5.0,
    (500_000, "uniform"): 3.5,
    (500_000, "recent"): 2.5,
}
#: Batches that go before those that count: a JVM compiles what it does often. Of another kind of batch, one more.
_WARM, _WARM_AGAIN = 2, 1
_SEED = 20_261_122
#: How many rows that no batch has brought are written into a file, as a batch of the largest size leaves them.
_GIVEN = 500_000


@dataclass
class Phase:
    """Batches of one kind.

    Attributes:
        keys: which rows they change.
        changes: how many messages each has.
        costs: by way, what each batch that counts has cost.
        steps: of ours, likewise, with the plain append of the same final rows.
        is_same: whether all tables that are merged held the same rows in the end.
    """

    keys: Keys
    changes: int
    costs: dict[str, list[Cost]] = field(default_factory=dict)
    steps: list[Steps] = field(default_factory=list)
    is_same: bool = False


def prepare(folder: Path, bootstrap: str, encoding: Encoding = "json") -> Config:
    """Write a pipeline into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    columns = [
        {"name": name, "physicalType": physical, **({"primaryKey": True} if name == "id" else {})}
        for name, (physical, _) in COLUMNS.items()
    ]
    contract = {"apiVersion": "v3.1.0", "kind": "DataContract", "id": "orders", "version": "1.0.0", "status": "active"}
    contract["schema"] = [{"name": "orders", "properties": columns}]  # type: ignore[assignment]
    pipeline: dict[str, Any] = {
        "name": "bench",
        "source": {"kafka": {"bootstrap.servers": bootstrap}},
        "tables": [{"topic": TOPIC, "mirror": MIRROR, "contract": "orders.yaml"}],
    }
    if encoding == "avro":
        pipeline["registry"] = {"files": "schemas"}
        write_schemas(folder / "schemas")
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
        self._written, self._turn = 0, 0
        self._ends: dict[str, int] = {}
        self._floor: str | None = None
        through = min(asked.rows, asked.through or asked.rows)
        self.write(through, "uniform")
        _say(f"loading {through} of {asked.rows} rows through the topic")
        self.load = in_session(spark, lambda: self.ours(Steps()))
        _say(f"loaded: {self.load.wall:.1f} s, {self.load.cpu:.1f} CPU-s")
        self._give(through)
        mirror = spark.table(f"lake.{MIRROR}")
        for way in asked.ways:
            if way != OURS:
                jobs.create(spark, self._table(way), mirror.select(*COLUMNS), is_tuned=way != "tutorial")
        self._floor = f"lake.{MIRROR}_floor"
        mirror.where("false").writeTo(self._floor).tableProperty("format-version", "3").create()

    def _give(self, begin: int) -> None:
        """Append the rows from a number on to our mirror as its batches would leave them, a file each, and no message.

        What a batch costs beside so many rows does not go by how they came.
        """
        mirror = self._spark.table(f"lake.{MIRROR}")
        cdc = mirror.select("__cdc").where("__cdc.op = 'c'").limit(1).collect()[0][0].asDict() if begin else {}
        while begin < self._asked.rows:
            count = min(_GIVEN, self._asked.rows - begin)
            rows = Batch(begin, count, self._asked.rows, "uniform", _SEED, self._asked.encoding).rows_of(self._spark)
            lsn = F.lpad("lsn", 20, "0")
            own = {name: F.lit(part) for name, part in cdc.items()}
            own |= {"position": F.concat(lsn, F.lit("/"), lsn), "offset": F.col("lsn")}
            marked = F.struct(*[part.alias(name) for name, part in own.items()]).cast(mirror.schema["__cdc"].dataType)
            rows.withColumn("__cdc", marked).select(*mirror.columns).writeTo(f"lake.{MIRROR}").append()
            begin += count
        self._written = self._asked.rows

    def write(self, changes: int, keys: Keys) -> None:
        """Append changes to the topic."""
        batch = Batch(self._written, changes, self._asked.rows, keys, _SEED, self._asked.encoding)
        batch.write(self._spark, self._bootstrap)
        self._written += changes

    def ours(self, told: Steps) -> None:
        """Bring our mirror to the topic's end, and tell what the steps cost."""
        with watched(self._spark, self._floor) as steps:
            report = run_once(self._config, self._spark)
        if report.exit_code:
            raise RuntimeError(f"the run ended with {report.exit_code}: {report.tables[0].error}")
        told.costs, told.jobs = steps.costs, steps.jobs
        self._ends = dict(report.tables[0].offsets)

    def run(self, phase: Phase, warm: int) -> None:
        """Some batches that do not count, and then those that do."""
        for at in range(warm + self._asked.pairs):
            self._batch(phase, counts=at >= warm)
        merged = [way for way in self._asked.ways if way != APPEND]
        phase.is_same = len({digest(self._spark, self._table(way)) for way in merged}) == 1

    def _batch(self, phase: Phase, *, counts: bool) -> None:
        """Write one batch, and apply it in every way, beginning with another one each time."""
        begin = dict(self._ends)
        self.write(phase.changes, phase.keys)
        # Whoever goes first would find the broker's pages cold: a read that does not count.
        end = _ends_of(self._bootstrap)
        jobs.read(self._spark, self._bootstrap, begin, end).write.format("noop").mode("overwrite").save()
        ways, steps = list(self._asked.ways), Steps()
        turn = self._turn % len(ways)
        self._turn += 1
        for way in ways[turn:] + ways[:turn]:
            job = functools.partial(self.ours, steps) if way == OURS else functools.partial(self._job, way, begin, end)
            cost = in_session(self._spark, job)
            if way == OURS:
                floor = steps.total(FLOOR)
                cost = Cost(cost.wall - floor.wall, cost.cpu - floor.cpu)
            _say(f"{phase.keys} {phase.changes} {way}: {cost.wall:.2f} s, {cost.cpu:.2f} CPU-s")
            if counts:
                phase.costs.setdefault(way, []).append(cost)
        if counts:
            phase.steps.append(steps)

    def _table(self, way: str) -> str:
        return f"lake.{MIRROR}" if way == OURS else f"lake.{MIRROR}_{way}"

    def _job(self, way: str, begin: jobs.Ends, end: jobs.Ends) -> None:
        messages = jobs.read(self._spark, self._bootstrap, begin, end)
        jobs.JOBS[way](self._table(way), messages, self._asked.encoding)


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


def told(phase: Phase) -> dict[str, Any]:
    """What was measured of one kind of batch: seconds by way, each way's cost as a multiple of ours, and our steps."""
    ours = phase.costs[OURS]
    document: dict[str, Any] = {"keys": phase.keys, "changes": phase.changes, "same_table": phase.is_same, "ways": {}}
    for way, found in phase.costs.items():
        target = TARGETS.get((way, phase.keys))
        document["ways"][way] = {
            **_seconds(found),
            "multiple_of_ours": _median_ratio(found, ours),
            **({"target": target} if target else {}),
        }
    document["changes_a_cpu_second"] = round(phase.changes / statistics.median(cost.cpu for cost in ours))
    names = dict.fromkeys(name for steps in phase.steps for name in steps.costs)
    document["steps"] = {
        name: {
            **_seconds([steps.total(name) for steps in phase.steps]),
            "jobs": max(steps.jobs.get(name, 0) for steps in phase.steps),
        }
        for name in names
    }
    if FLOOR in names:
        applied, floor = ([steps.total(name) for steps in phase.steps] for name in ("publish", FLOOR))
        document["publish_as_multiple_of_append"] = _median_ratio(applied, floor)
        limit = LIMITS.get((phase.changes, phase.keys))
        document |= {"limit": limit} if limit else {}
    return document


def _seconds(costs: Sequence[Cost]) -> dict[str, list[float]]:
    return {"wall": [round(cost.wall, 2) for cost in costs], "cpu": [round(cost.cpu, 2) for cost in costs]}


def _median_ratio(costs: Sequence[Cost], of: Sequence[Cost]) -> dict[str, float]:
    pairs = list(zip(costs, of, strict=True))
    return {
        "wall": round(statistics.median(one.wall / other.wall for one, other in pairs), 2),
        "cpu": round(statistics.median(one.cpu / other.cpu for one, other in pairs), 2),
    }


def misses(document: Mapping[str, Any]) -> list[str]:
    """What is not as it is to be: tables that differ, jobs too near to ours, publishing too far from an append."""
    found = [] if document["same_table"] else ["tables differ"]
    for way, cost in document["ways"].items():
        if cost["multiple_of_ours"]["cpu"] < cost.get("target", 0.0):
            found.append(f"{way}: {cost['multiple_of_ours']['cpu']} < {cost['target']}")
    applied = document.get("publish_as_multiple_of_append", {"cpu": 0.0})["cpu"]
    if applied > document.get("limit", applied):
        found.append(f"publish: {applied} > {document['limit']}")
    return found


def main() -> int:
    """Measure, print one JSON document, and end with 1 where tables differ or a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--through", type=int, help="how many of them come through the topic; the others are given")
    parser.add_argument("--changes", type=lambda text: [int(one) for one in text.split(",")], default=[50_000])
    parser.add_argument("--pairs", type=int, default=5, help="batches that count, of each kind")
    parser.add_argument("--keys", type=lambda text: text.split(","), default=["uniform"], help="uniform, recent, zipf")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=[OURS, *jobs.JOBS])
    parser.add_argument("--encoding", choices=["json", "avro"], default="json")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    asked = parser.parse_args()
    folder = asked.folder.resolve() / "apply"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kafka").mkdir(parents=True)
    phases = [Phase(keys, changes) for changes in asked.changes for keys in asked.keys]
    with running("kafka", lambda: Kafka(parts(), folder / "kafka", lambda _: {"num.partitions": "4"})) as kafka:
        config = prepare(folder / "pipeline", kafka.bootstrap, asked.encoding)
        with session(config) as spark:
            bench = Bench(spark, config, kafka.bootstrap, asked)
            for phase in phases:
                bench.run(phase, _WARM if phase is phases[0] else _WARM_AGAIN)
            document = {
                "benchmark": "apply",
                "encoding": asked.encoding,
                "rows": asked.rows,
                "through": asked.through or asked.rows,
                "batches": asked.pairs,
                **machine(),
                "load_cpu_seconds": round(bench.load.cpu, 1),
                "peak_memory_mib": peak_memory(spark),
                "kinds": [told(phase) for phase in phases],
            }
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    missed = [miss for kind in document["kinds"] for miss in misses(kind)]
    for miss in missed:
        _say(miss)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
