"""Where the batches of a recorded topic spend their time: step by step, and in Java's compilers.

One session makes the table some times over, each time from an empty lake: the first run is that of a new process, the
later ones those of a process that has run for a while. `--property` tries a property of Spark or an option of Java.
"""

import json
import sys
from typing import Any

import yaml

from benchmarks.bench_rules import MIRROR, prepare
from benchmarks.measure import compiler_seconds, digest, in_session, jobs_so_far, machine, options, session
from benchmarks.orders import write_orders
from benchmarks.steps import watched
from cdc_materializer import run_once
from cdc_materializer.config import load_config


def main() -> int:
    """Measure, print one JSON document, and end with 1 where two runs end with different tables."""
    parser = options(__doc__, pairs=2)
    parser.add_argument("--batch", type=int, default=50_000, help="the most messages of a batch")
    parser.add_argument("--property", action="append", default=[], help="NAME=VALUE, of Spark; can be repeated")
    asked = parser.parse_args()
    work = asked.folder.resolve()
    topic, folder = write_orders(work, asked.changes, asked.encoding), work / "batches"
    properties = dict(one.split("=", 1) for one in asked.property)

    def begin() -> None:
        prepare(folder, topic, with_rules=False, records_max=asked.batch)
        path = folder / "pipeline.yaml"
        told = yaml.safe_load(path.read_text(encoding="utf-8")) | {"spark": properties}
        path.write_text(yaml.safe_dump(told), encoding="utf-8")

    begin()
    runs: list[dict[str, Any]] = []
    digests = set()
    with session(load_config(folder / "pipeline.yaml")) as spark:

        def run() -> None:
            report = run_once(load_config(folder / "pipeline.yaml"), spark)
            if report.exit_code:
                raise RuntimeError(f"the run ended with {report.exit_code}: {report.tables[0].error}")

        for number in range(asked.pairs):
            begin()
            compiled, jobs = compiler_seconds(spark), jobs_so_far(spark)
            with watched(spark) as steps:
                cost = in_session(spark, run).told(f"run {number}")
            found = {name: round(steps.total(name).cpu, 1) for name in steps.costs}
            runs.append(
                {
                    "wall": round(cost.wall, 1),
                    "cpu": round(cost.cpu, 1),
                    "compilers_cpu": round(compiler_seconds(spark) - compiled, 1),
                    "jobs": jobs_so_far(spark) - jobs,
                    "steps_cpu": found,
                }
            )
            digests.add(digest(folder, MIRROR, "id"))
    told = {"benchmark": "batches", "changes": asked.changes, "batch": asked.batch, "encoding": asked.encoding}
    told |= {"properties": properties, "same_table": len(digests) == 1, **machine(), "runs": runs}
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 0 if len(digests) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
