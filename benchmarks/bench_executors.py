"""How much sooner two executors are through with a topic than one: a cluster of Spark's own on this machine.

Executors have a core each, and the driver the same cores: what it plans and commits, no executor makes faster. Each run
fills an empty mirror in processes of its own, so what Java takes to make its code fast is in both. Only seconds on the
clock are told, and they count where nothing else runs.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

import yaml

from benchmarks.bench_apply import MIRROR, prepare
from benchmarks.measure import Cost, cdcm, digest, in_pairs, machine, session
from benchmarks.traffic import Batch
from integration.chain.downloads import parts
from integration.chain.kafka import Kafka
from integration.chain.running import running
from integration.chain.spark_cluster import SparkCluster

#: How much sooner two executors are to be through, as a ratio.
TARGET = 1.6
_SEED = 20_261_128
#: What an executor has of memory, and what a worker has to give.
_EXECUTOR, _WORKER = "1800m", "2600m"


def write(folder: Path, bootstrap: str, changes: int) -> None:
    """Write the topic: two thirds are rows that are made, and the others changes of any of them."""
    with session(prepare(folder, bootstrap)) as spark:
        Batch(0, changes, changes * 2 // 3, "uniform", _SEED).write(spark, bootstrap)


def spread(folder: Path, bootstrap: str, master: str, executors: int, records_max: int) -> None:
    """Write a pipeline into an empty folder that runs on so many executors of one core."""
    prepare(folder, bootstrap)
    path = folder / "pipeline.yaml"
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    told["tables"][0]["records_max"] = records_max
    told["spark"] = {
        "spark.master": master,
        "spark.cores.max": str(executors),
        "spark.executor.cores": "1",
        "spark.executor.memory": _EXECUTOR,
        "spark.sql.shuffle.partitions": "4",
    }
    path.write_text(yaml.safe_dump(told), encoding="utf-8")


def main() -> int:
    """Measure, print one JSON document, and end with 1 where tables differ or the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=1_500_000)
    parser.add_argument("--records-max", type=int, default=250_000, help="the most messages of a batch")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    asked = parser.parse_args()
    folder = asked.folder.resolve() / "executors"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kafka").mkdir(parents=True)
    (folder / "cluster").mkdir()
    digests: set[str] = set()
    with running("kafka", lambda: Kafka(parts(), folder / "kafka", lambda _: {"num.partitions": "4"})) as kafka:
        write(folder / "topic", kafka.bootstrap, asked.changes)
        with running("spark cluster", lambda: SparkCluster(folder / "cluster", memory=_WORKER)) as cluster:

            def run(executors: int) -> Cost:
                own = folder / f"on-{executors}"
                spread(own, kafka.bootstrap, cluster.url, executors, asked.records_max)
                cost = cdcm("run", "--json", folder=own).told(f"{executors} executors, without their own CPU-seconds")
                digests.add(digest(own, MIRROR, "id"))
                return cost

            measured = in_pairs(lambda: run(2), lambda: run(1), asked.pairs)
    low, middle, high = measured.ratio(lambda cost: cost.wall)
    told = {
        "benchmark": "executors",
        "changes": asked.changes,
        "records_max": asked.records_max,
        "target": TARGET,
        "same_table": len(digests) == 1,
        **machine(),
        "two": [round(cost.wall, 1) for cost in measured.first],
        "one": [round(cost.wall, 1) for cost in measured.second],
        "ratio_wall": {"low": round(low, 3), "median": round(middle, 3), "high": round(high, 3)},
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 0 if len(digests) == 1 and middle >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
