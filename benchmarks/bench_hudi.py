"""The same recorded changes into a Hudi table ([peers/hudi.py](peers/hudi.py)) and into a mirror of ours.

Two commands each: the first `--changes` messages into no table, and `--more` into that. All are processes of their own.
Hudi gets its keys, columns and types from a program; it keeps no messages and has no contract. Ours reads them from a
contract without rules, and keeps raw. Both end with the same rows, which is checked, and behind them the same query of
all rows is timed, five times in one process each; the first of these does not count.

It needs another Python, with the PySpark that Hudi's bundle is for: a virtual environment with `pyspark==3.5.5`, and
`org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0` from a Maven repository. Without them nothing is measured.
"""

import json
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.bench_rules import MIRROR, prepare
from benchmarks.measure import Cost, cdcm, command, digest, digest_of, machine, options, session
from benchmarks.orders import COLUMNS, TOPIC, write_orders
from cdc_materializer.config import load_config

_JOB = Path(__file__).parent / "peers" / "hudi.py"
#: A query of all rows, which reads four of the twelve columns.
_QUERY = "SELECT count(*), sum(amount), max(placed_at), max(note) FROM lake.{}"


def main() -> int:
    """Measure, print one JSON document, and end with 1 where the two end with different rows."""
    parser = options(__doc__, pairs=3)
    parser.add_argument("--more", type=int, default=50_000, help="messages of the second batch")
    parser.add_argument("--python", type=Path, help="a Python with PySpark 3.5")
    parser.add_argument("--jar", type=Path, help="Hudi's bundle for it")
    parser.add_argument("--kind", choices=["MERGE_ON_READ", "COPY_ON_WRITE"], default="MERGE_ON_READ")
    asked = parser.parse_args()
    if asked.python is None or asked.jar is None:
        sys.stderr.write("Nothing is measured without --python and --jar: see bench_hudi.py.\n")
        sys.stdout.write(json.dumps({"benchmark": "hudi", "measured": False}) + "\n")
        return 0
    work = asked.folder.resolve()
    whole = write_orders(work, asked.changes + asked.more, "json") / "recorded" / f"{TOPIC}.jsonl"
    ours, theirs = work / "hudi-ours", work / "hudi-theirs"
    costs: dict[str, list[dict[str, float]]] = {}
    digests: set[str] = set()

    def note(name: str, cost: Cost) -> None:
        cost.told(name)
        costs.setdefault(name, []).append({"wall": round(cost.wall, 1), "cpu": round(cost.cpu, 1)})

    def run_ours() -> None:
        topic = work / "hudi-topic"
        shutil.rmtree(topic, ignore_errors=True)
        (topic / "recorded").mkdir(parents=True)
        prepare(ours, topic, with_rules=False)
        with whole.open(encoding="utf-8") as lines, (topic / "recorded" / whole.name).open("w") as recorded:
            recorded.writelines(next(lines) for _ in range(asked.changes))
            recorded.flush()
            note("ours: first", cdcm("run", "--json", folder=ours))
            recorded.writelines(lines)
            recorded.flush()
            note("ours: more", cdcm("run", "--json", folder=ours))
        digests.add(digest(ours, MIRROR, "id"))

    def job(*arguments: str) -> Cost:
        table = ("--jar", str(asked.jar.resolve()), "--table", str(theirs / "orders"), "--kind", asked.kind)
        return command(str(asked.python), str(_JOB), *table, *arguments, folder=theirs)

    def run_theirs() -> None:
        shutil.rmtree(theirs, ignore_errors=True)
        theirs.mkdir()
        end = asked.changes + asked.more
        note("hudi: first", job("--topic", str(whole), "--end", str(asked.changes)))
        note("hudi: more", job("--topic", str(whole), "--begin", str(asked.changes), "--end", str(end)))
        job("--export", str(theirs / "rows"), "--seconds", str(theirs / "seconds.json"))
        digests.add(digest_of(pq.read_table(theirs / "rows", columns=list(COLUMNS)), "id"))

    for at in range(asked.pairs):
        for way in (run_ours, run_theirs) if at % 2 == 0 else (run_theirs, run_ours):
            way()
    middle = {name: statistics.median(cost["cpu"] for cost in found) for name, found in costs.items()}
    told: dict[str, Any] = {
        "benchmark": "hudi",
        "changes": asked.changes,
        "more": asked.more,
        "kind": asked.kind,
        "bundle": asked.jar.name,
        "spark": _version(asked.python),
        "same_table": len(digests) == 1,
        **machine(),
        "costs": costs,
        "hudi_of_ours_cpu": {
            part: round(middle[f"hudi: {part}"] / middle[f"ours: {part}"], 2) for part in ("first", "more")
        },
        "query_seconds": {"ours": _asked(ours), "hudi": json.loads((theirs / "seconds.json").read_text())[1:]},
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 0 if len(digests) == 1 else 1


def _asked(folder: Path) -> list[float]:
    found = []
    with session(load_config(folder / "pipeline.yaml")) as spark:
        for _ in range(5):
            began = time.monotonic()
            spark.sql(_QUERY.format(MIRROR)).collect()
            found.append(round(time.monotonic() - began, 3))
    return found[1:]


def _version(python: Path) -> str:
    asked = [str(python), "-c", "import pyspark; print(pyspark.__version__)"]
    return subprocess.run(asked, capture_output=True, check=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
