"""How much slower a mirror is read after many batches, before maintenance and after it, and what maintenance costs.

Beside it a table of the same rows, written at once in the order of the key. Both are read in turns: a scan of all rows,
and look-ups of single keys. Batches come over a live broker, in one session.
"""

import argparse
import json
import random
import shutil
import statistics
import sys
from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bench_apply import MIRROR, OURS, Bench, digest, prepare
from benchmarks.measure import Cost, in_session, machine, session
from benchmarks.steps import Steps
from cdc_materializer.maintain import MaintainOptions, maintain_tables
from integration.chain.downloads import parts
from integration.chain.kafka import Kafka
from integration.chain.running import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config

#: What reading may cost after the batches, and after maintenance, as multiples of reading the fresh table; and what
#: maintenance may cost as a multiple of what the batches did.
LIMITS = {"batches": 1.8, "maintenance": 1.1, "maintenance_to_apply": 0.5}
_TABLES = {"fresh": f"lake.{MIRROR}_fresh", "mirror": f"lake.{MIRROR}"}
_SCAN = "SELECT count(*), sum(amount), max(rank), count(DISTINCT country), max(email) FROM "
_SEED = 20_261_123


def reading(spark: "SparkSession", rows: int, lookups: int, rounds: int) -> dict[str, Any]:
    """Both tables scanned and looked into, in turns, after one round that does not count."""
    numbers = random.Random(_SEED)  # noqa: S311 - no secret
    keys = [numbers.randrange(rows) for _ in range(lookups)]

    def scan(table: str) -> None:
        spark.sql(_SCAN + table).collect()

    def look_up(table: str) -> None:
        for key in keys:
            spark.sql(f"SELECT * FROM {table} WHERE id = {key}").collect()

    told: dict[str, Any] = {}
    for name, job in (("scan", scan), ("lookups", look_up)):
        costs: dict[str, list[Cost]] = {table: [] for table in _TABLES}
        for at in range(1 + rounds):
            for table in list(_TABLES)[:: 1 if at % 2 else -1]:
                cost = in_session(spark, lambda table=table, job=job: job(_TABLES[table]))  # type: ignore[misc]
                if at:
                    costs[table].append(cost)
        ratio = [own.cpu / fresh.cpu for own, fresh in zip(costs["mirror"], costs["fresh"], strict=True)]
        cpu = {table: [round(cost.cpu, 2) for cost in found] for table, found in costs.items()}
        told[name] = {"cpu": cpu, "ratio": round(statistics.median(ratio), 2)}
    return told


def renew(spark: "SparkSession") -> None:
    """Write the fresh table from the mirror's rows."""
    spark.sql(f"DROP TABLE IF EXISTS {_TABLES['fresh']}")
    spark.sql(
        f"CREATE TABLE {_TABLES['fresh']} USING iceberg TBLPROPERTIES ('format-version'='3')"
        f" AS SELECT * FROM {_TABLES['mirror']} ORDER BY id"
    )


def measure(spark: "SparkSession", config: "Config", bench: Bench, asked: argparse.Namespace) -> dict[str, Any]:
    """The batches, reading between and after them, maintenance, and reading after that."""
    applied = []
    before = {}
    for at in range(1, max(asked.batches) + 1):
        bench.write(asked.changes, "uniform")
        applied.append(in_session(spark, lambda: bench.ours(Steps())).told(f"batch {at}"))
        if at in asked.batches:
            renew(spark)
            before[str(at)] = reading(spark, asked.rows, asked.lookups, asked.pairs)
            sys.stderr.write(f"after {at} batches: {json.dumps(before[str(at)])}\n")
    maintained = in_session(
        spark,
        lambda: _check(maintain_tables(config, MaintainOptions(clock=lambda: datetime.now(UTC)), spark).exit_code),
    ).told("maintenance")
    after = reading(spark, asked.rows, asked.lookups, asked.pairs)
    same = digest(spark, _TABLES["fresh"]) == digest(spark, _TABLES["mirror"])
    batches = sum(cost.cpu for cost in applied)
    return {
        "same_table": same,
        "cpu_a_batch": round(statistics.median(cost.cpu for cost in applied), 2),
        "after_batches": before,
        "after_maintenance": after,
        "maintenance_cpu": round(maintained.cpu, 2),
        "maintenance_to_apply": round(maintained.cpu / batches, 2),
    }


def _check(code: int) -> None:
    if code:
        raise RuntimeError(f"maintenance ended with {code}")


def main() -> int:
    """Measure, print one JSON document, and end with 1 where reading or maintenance costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=5_000, help="of a batch")
    parser.add_argument(
        "--batches",
        type=lambda text: [int(one) for one in text.split(",")],
        default=[50],
        help="after how many the mirror is read; maintenance follows the last",
    )
    parser.add_argument("--lookups", type=int, default=1_000)
    parser.add_argument("--pairs", type=int, default=3, help="rounds of reading that count")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    asked = parser.parse_args()
    folder = asked.folder.resolve() / "reading"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kafka").mkdir(parents=True)
    with running("kafka", lambda: Kafka(parts(), folder / "kafka", lambda _: {"num.partitions": "4"})) as kafka:
        config = prepare(folder / "pipeline", kafka.bootstrap)
        with session(config) as spark:
            bench = Bench(
                spark, config, kafka.bootstrap, Namespace(rows=asked.rows, through=None, ways=[OURS], encoding="json")
            )
            found = measure(spark, config, bench, asked)
    sizes = {name: getattr(asked, name) for name in ("rows", "changes", "batches", "lookups")}
    sys.stdout.write(
        json.dumps({"benchmark": "reading", **sizes, **machine(), "limits": LIMITS, **found}, indent=2) + "\n"
    )
    worst = {
        "batches": max(one["ratio"] for one in found["after_batches"][str(min(asked.batches))].values()),
        "maintenance": max(one["ratio"] for one in found["after_maintenance"].values()),
        "maintenance_to_apply": found["maintenance_to_apply"],
    }
    return 0 if found["same_table"] and all(worst[name] <= limit for name, limit in LIMITS.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
