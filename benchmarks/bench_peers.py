"""The same changes of one PostgreSQL table through a peer and through ours, until readers have them.

The peer is debezium-server-iceberg: one process from the database's log to a table of Iceberg, with upsert mode and
equality deletes. Ours goes through Kafka Connect and Kafka, whose CPU is told too, and ends in `cdcm run --follow`.
First rows are read as a snapshot; then transactions change them while both follow. Behind that: what it takes until the
peer's table has no equality deletes, as Spark's procedure removes them, what queries cost, who can read the tables, and
whether their rows are the database's. Needs the peer, built as peers/README.md says; without it nothing is measured.
"""

import argparse
import hashlib
import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measure import machine, seconds_of_tree, session
from benchmarks.peers import readers, shop
from benchmarks.peers.ways import Ours, Peer, PeerOptions, Way, ours
from cdc_materializer.config import load_config
from integration.chain.postgres import Postgres
from integration.chain.process import wait_until
from integration.chain.running import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SEED = 20_261_128
_ARRIVAL_SECONDS_MAX = 3_600.0
_LOOK_SECONDS = 0.5


def spent(way: Way, postgres: Postgres) -> dict[str, float]:
    """The CPU-seconds that each part has had so far, the database's among them."""
    known = {**way.processes(), "postgres": postgres.process.pid}
    return {name: seconds_of_tree(pid) for name, pid in known.items()}


def phase(way: Way, postgres: Postgres, job: Callable[[], int]) -> dict[str, Any]:
    """Do something, and wait until the row can be read whose number that returned: seconds, by part and in all."""
    before, began, arrival = spent(way, postgres), time.monotonic(), readers.Arrival(way)
    number = job()
    done = time.monotonic() - began

    def arrived() -> bool:
        way.check()
        return arrival.has(number)

    wait_until(f"row {number} is in {way.table}", arrived, _ARRIVAL_SECONDS_MAX, _LOOK_SECONDS)
    wall = time.monotonic() - began
    now = spent(way, postgres)
    # A process that was started anew has less than the one before it.
    parts = {name: cpu - (had if (had := before.get(name, 0.0)) <= cpu else 0.0) for name, cpu in now.items()}
    own = sum(cpu for name, cpu in parts.items() if name != "postgres")
    told = {name: round(cpu, 1) for name, cpu in parts.items()}
    sys.stderr.write(f"{way.table}: {wall:.1f} s, {own:.1f} CPU-s\n")
    return {"wall": round(wall, 1), "of_it_until_done": round(done, 1), "cpu": round(own, 1), "cpu_of": told}


def followed(way: Way, postgres: Postgres, asked: argparse.Namespace) -> dict[str, Any]:
    """What the snapshot costs, and each round of changes behind it."""
    life = shop.Life(asked.rows, _SEED)

    def begin() -> int:
        way.start()
        return int(asked.rows) - 1

    def change() -> int:
        return life.change(postgres, asked.changes, asked.transaction)

    def crash() -> int:
        life.change(postgres, asked.changes // 2, asked.transaction)
        way.kill()
        last = life.change(postgres, asked.changes // 2, asked.transaction)
        way.start_again()
        return last

    told: dict[str, Any] = {"before": {name: round(cpu, 1) for name, cpu in spent(way, postgres).items()}}
    told["snapshot"] = phase(way, postgres, begin)
    told["changes"] = [phase(way, postgres, change) for _ in range(asked.rounds)]
    if asked.kill:
        told["changes_with_a_kill"] = {"wall": phase(way, postgres, crash)["wall"]}
    way.stop()
    return told


def difference(truth: Sequence[str], found: Sequence[str]) -> dict[str, Any]:
    """How the rows of a table differ from the database's."""
    right = {_key(row): row for row in truth}
    keys = Counter(map(_key, found))
    return {
        "digest": digest(found),
        "equal": sorted(found) == sorted(truth),
        "rows": len(found),
        "keys_missing": len(right.keys() - keys.keys()),
        "keys_the_database_does_not_have": len(keys.keys() - right.keys()),
        "keys_more_than_once": sum(count > 1 for count in keys.values()),
        "rows_with_other_values": sum(_key(row) in right and right[_key(row)] != row for row in found),
    }


def _key(row: str) -> str:
    return row.partition("|")[0]


def digest(rows: Sequence[str]) -> str:
    """A digest of rows, whatever their order."""
    return hashlib.sha256("\n".join(sorted(rows)).encode()).hexdigest()[:16]


def read(spark: "SparkSession", ways: Mapping[str, Way], truth: Sequence[str], pairs: int) -> dict[str, Any]:
    """What readers find right after the last batch, and then without equality deletes."""
    for way in ways.values():
        readers.known_to(spark, way)
    told: dict[str, Any] = {
        name: {
            "columns": {field.name: str(field.field_type) for field in readers.loaded(way).schema().fields},
            "table": readers.state(spark, way),
            "compared": difference(truth, readers.rows_of(spark, way)),
            "readers": readers.without_spark(way, len(truth)),
        }
        for name, way in ways.items()
    }
    costs = readers.aggregated(spark, list(ways.values()), pairs)
    told["peer"]["rewritten"] = readers.rewritten(spark, ways["peer"])
    again = readers.aggregated(spark, list(ways.values()), pairs)
    for name, way in ways.items():
        told[name] |= {"spark": costs[way.catalog.name], "spark_behind_the_rewrite": again[way.catalog.name]}
    told["peer"] |= {
        "table_rewritten": readers.state(spark, ways["peer"]),
        "compared_rewritten": difference(truth, readers.rows_of(spark, ways["peer"])),
        "readers_rewritten": readers.without_spark(ways["peer"], len(truth)),
    }
    return told


@contextmanager
def _database(folder: Path, rows: int) -> Iterator[Postgres]:
    """A server of its own for a way, with the table's first rows."""
    (folder / "postgres").mkdir(parents=True)
    with running("postgres", lambda: Postgres(folder / "postgres")) as postgres:
        shop.load(postgres, folder, rows, _SEED)
        yield postgres


def measure(asked: argparse.Namespace, options: PeerOptions, folder: Path) -> dict[str, Any]:
    """Both ways, one after the other, and then both tables."""
    told: dict[str, Any] = {}
    ways: dict[str, Way] = {}
    truths: list[list[str]] = []

    def run(name: str, make: Callable[[Path, Postgres], AbstractContextManager[Way]]) -> None:
        place = folder / name
        with _database(place, asked.rows) as postgres, make(place, postgres) as way:
            ways[name], told[name] = way, followed(way, postgres, asked)
            with postgres.session(shop.DATABASE) as session:
                truths.append(list(shop.rows_of(session)))

    @contextmanager
    def peer(place: Path, postgres: Postgres) -> Iterator[Way]:
        way = Peer(options, place / "peer", postgres)
        try:
            yield way
        finally:
            way.stop()

    run("peer", peer)
    run("ours", lambda place, postgres: _as_way(ours(place, postgres)))
    config = load_config(folder / "ours" / "pipeline" / "pipeline.yaml")
    with session(config) as spark:
        for name, found in read(spark, ways, truths[0], asked.pairs).items():
            told[name] |= found
    same = digest(truths[0]) == digest(truths[1])
    return {"rows_in_the_end": len(truths[0]), "digest": digest(truths[0]), "same_workload": same, **told}


@contextmanager
def _as_way(made: AbstractContextManager[Ours]) -> Iterator[Way]:
    with made as way:
        yield way


def main() -> int:
    """Measure, print one JSON document, and end with 1 where ours has other rows than the database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000, help="of the snapshot")
    parser.add_argument("--changes", type=int, default=50_000, help="of a round")
    parser.add_argument("--rounds", type=int, default=3, help="of changes; each is waited for")
    parser.add_argument(
        "--kill", action="store_true", help="kill both behind the last round, and compare after one more"
    )
    parser.add_argument("--transaction", type=int, default=100, help="changes of a transaction")
    parser.add_argument("--pairs", type=int, default=3, help="rounds of queries that count")
    parser.add_argument("--peer", type=Path, default=Path("build/peer"), help="folder of the built peer")
    parser.add_argument("--peer-java", default="java", help="the Java that it runs on, 21 or newer")
    parser.add_argument("--peer-batch", type=int, default=2_048, help="most events of a batch of the peer")
    parser.add_argument("--peer-wait", default="NoBatchSizeWait", help="or MaxBatchSizeWait")
    parser.add_argument("--peer-flush", type=int, default=0, help="milliseconds until it notes its place")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"))
    asked = parser.parse_args()
    options = PeerOptions(asked.peer.resolve(), asked.peer_java, asked.peer_batch, asked.peer_wait, asked.peer_flush)
    if options.runner() is None:
        sys.stderr.write(f"There is no peer in {asked.peer}; benchmarks/peers/README.md says how to build it.\n")
        sys.stdout.write(json.dumps({"benchmark": "peers", "measured": False}) + "\n")
        return 0
    folder = asked.folder.resolve() / "peers"
    shutil.rmtree(folder, ignore_errors=True)
    sizes = {name: value for name, value in vars(asked).items() if name not in {"peer", "peer_java", "folder"}}
    found = measure(asked, options, folder)
    sys.stdout.write(json.dumps({"benchmark": "peers", **sizes, "seed": _SEED, **machine(), **found}, indent=2) + "\n")
    return 0 if found["same_workload"] and found["ours"]["compared"]["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
