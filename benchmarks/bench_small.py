"""What a run costs however small it is: cold, with little that is new, with nothing, and with many tables in a process.

Commands are measured as users start them; many tables in one session, as those of `cdcm run --follow`.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.bench_rules import contract
from benchmarks.measure import Cost, cdcm, in_session, jobs_so_far, machine, options, peak_memory, session
from benchmarks.orders import TOPIC, write_orders
from cdc_materializer import run_once
from cdc_materializer.config import load_config

#: Tables and messages of the small run, and how many messages each of its tables has more in the next one.
TABLES, MESSAGES, MORE = 3, 5_000, 100
#: Of each of many tables, messages of a round.
LITTLE = 20


class Topics:
    """The topics of some tables, all with the same messages, which grow from round to round."""

    def __init__(self, whole: Path, folder: Path, tables: int) -> None:
        """Write a pipeline without messages into an empty folder."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "recorded").mkdir(parents=True)
        self.folder = folder
        self._lines = (whole / "recorded" / f"{TOPIC}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
        self._written, self._topics = 0, [f"shop.public.orders{number}" for number in range(tables)]
        (folder / "orders.yaml").write_text(yaml.safe_dump(contract(with_rules=False)), encoding="utf-8")
        pipeline: dict[str, Any] = {
            "name": "bench",
            "source": {"files": "recorded"},
            "tables": [
                {"topic": topic, "mirror": topic.replace(".public", ""), "contract": "orders.yaml"}
                for topic in self._topics
            ],
        }
        if (whole / "schemas").exists():
            pipeline["registry"] = {"files": str(whole / "schemas")}
        (folder / "pipeline.yaml").write_text(yaml.safe_dump(pipeline), encoding="utf-8")

    def grow(self, messages: int) -> None:
        """The next messages, in each topic."""
        more = "".join(self._lines[self._written : self._written + messages])
        self._written += messages
        for topic in self._topics:
            with (self.folder / "recorded" / f"{topic}.jsonl").open("a", encoding="utf-8") as file:
                file.write(more.replace(f'"{TOPIC}"', f'"{topic}"'))


def small_runs(topics: Topics, pairs: int) -> dict[str, list[Cost]]:
    """A cold run of three tables, runs with a little more, and runs with nothing, in turns."""

    def run(name: str) -> Cost:
        return cdcm("run", "--json", folder=topics.folder).told(name)

    topics.grow(MESSAGES // TABLES)
    found: dict[str, list[Cost]] = {"cold": [run("cold")], "a little more": [], "nothing new": []}
    for _ in range(pairs):
        topics.grow(MORE)
        found["a little more"].append(run("a little more"))
        found["nothing new"].append(run("nothing new"))
    return found


def many_tables(topics: Topics, rounds: int) -> dict[str, Any]:
    """Rounds over many tables in one session: the first makes them, and those behind it are what a round costs."""
    config = load_config(topics.folder / "pipeline.yaml")
    tables = len(config.tables)
    with session(config) as spark:

        def one() -> None:
            report = run_once(config, spark)
            if report.exit_code or any(table.batches != 1 for table in report.tables):
                raise RuntimeError(f"the run ended with {report.exit_code}")

        costs, jobs = [], []
        for at in range(1 + rounds):
            topics.grow(LITTLE)
            before = jobs_so_far(spark)
            costs.append(in_session(spark, one).told(f"{tables} tables, round {at}"))
            jobs.append((jobs_so_far(spark) - before) / tables)
        nothing = jobs_so_far(spark)
        run_once(config, spark)
        return {
            "tables": tables,
            "messages_a_table": LITTLE,
            **_seconds(costs),
            "cpu_a_table": [round(cost.cpu / tables, 2) for cost in costs],
            "jobs_a_table": jobs,
            "jobs_of_nothing_new": jobs_so_far(spark) - nothing,
            "peak_memory_mib": peak_memory(spark),
        }


def _seconds(costs: list[Cost]) -> dict[str, list[float]]:
    return {"wall": [round(cost.wall, 1) for cost in costs], "cpu": [round(cost.cpu, 1) for cost in costs]}


def main() -> int:
    """Measure, print one JSON document, and end with 1 where a run with nothing new starts a job."""
    parser: argparse.ArgumentParser = options(__doc__, pairs=3)
    parser.set_defaults(changes=6_000)
    parser.add_argument("--tables", type=int, default=100, help="how many are many")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over these, behind the one that makes them")
    asked = parser.parse_args()
    work = asked.folder.resolve()
    whole = write_orders(work, asked.changes, asked.encoding)
    small = small_runs(Topics(whole, work / "small", TABLES), asked.pairs)
    many = many_tables(Topics(whole, work / "many", asked.tables), asked.rounds)
    told = {
        "benchmark": "small",
        "encoding": asked.encoding,
        **machine(),
        "small": {"tables": TABLES, "messages": MESSAGES, "more_a_table": MORE},
        **{name: _seconds(costs) for name, costs in small.items()},
        "many": many,
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 1 if many["jobs_of_nothing_new"] else 0


if __name__ == "__main__":
    sys.exit(main())
