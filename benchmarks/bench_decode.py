"""How many messages a CPU-second decodes: ours, beside a pass that only reads, and the bare call of Spark's decoder.

All read the same raw table and write nothing, in turns, in one session. What the bare call gives is a struct of the
whole envelope and of the key: no change has an order, a key's text or an exact fit to its column in it.
"""

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from benchmarks.bench_rules import MIRROR, prepare
from benchmarks.measure import Cost, in_session, machine, options, session
from benchmarks.orders import COLUMNS, TOPIC, write_orders
from cdc_materializer import run_once
from cdc_materializer.batch import batch
from cdc_materializer.changes.messages import to_changes
from cdc_materializer.config import load_config
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.line.line import Line
from cdc_materializer.run.lakes import Lakes
from cdc_materializer.run.run import RunOptions, open_work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ENVELOPE = "op string, ts_ms bigint, source struct<lsn: bigint, ts_ms: bigint, snapshot: string>"


def ways_of(folder: Path, spark: "SparkSession", topic: Path) -> dict[str, "Callable[[], DataFrame]"]:
    """What is measured, by name: the frames that are computed and thrown away."""
    config = load_config(folder / "pipeline.yaml")
    work = open_work(config, RunOptions())
    table = work.tables[0]
    line = Line(
        work.config.name, table, work.source, work.registry, work.contracts[MIRROR], Lakes(spark, config).of("")
    )
    raw = line.lake.load(line.mirror.raw)
    if raw is None:
        raise RuntimeError("there is no raw table")
    stored = line.lake.rows(raw)
    decoders = find_decoders(batch.messages(stored, None, line.id_bytes), line.lookup(None))

    def ours() -> "DataFrame":
        messages = batch.messages(stored, None, line.id_bytes)
        return to_changes(messages, decoders.writers, decoders.plan.target, line.options)

    return {"read": lambda: stored.select("key", "value"), "bare": lambda: bare(stored, topic), "ours": ours}


def bare(stored: "DataFrame", topic: Path) -> "DataFrame":
    """Spark's own decoder over raw's bytes."""
    schemas = topic / "schemas" / "ids"
    if schemas.exists():
        key, value = (json.loads((schemas / f"{number}.json").read_text())["schema"] for number in (1, 2))
        datum = [F.expr(f"substring({side}, 6)") for side in ("key", "value")]
        return stored.select(from_avro(datum[0], key).alias("key"), from_avro(datum[1], value).alias("value"))
    row = ", ".join(f"{name}: {kind}" for name, kind in ROW.items())
    parsed = {"key": "id bigint", "value": f"before struct<{row}>, after struct<{row}>, {_ENVELOPE}"}
    return stored.select(*[F.from_json(F.col(side).cast("string"), ddl).alias(side) for side, ddl in parsed.items()])


#: The columns as JSON has them without a schema: what is exact there is a text, times are numbers.
_IN_JSON = {"numeric(12,2)": "string", "timestamp without time zone": "bigint", "date": "int", "text": "string"}
ROW = {
    name: _IN_JSON.get(physical, "int" if physical == "integer" else physical)
    for name, (physical, _) in COLUMNS.items()
}


def main() -> int:
    """Measure and print one JSON document."""
    asked = options(__doc__, pairs=3).parse_args()
    work = asked.folder.resolve()
    topic, folder = write_orders(work, asked.changes, asked.encoding), work / f"decode-{asked.encoding}"
    prepare(folder, topic, with_rules=False)
    with session(load_config(folder / "pipeline.yaml")) as spark:
        if run_once(load_config(folder / "pipeline.yaml"), spark).exit_code:
            raise RuntimeError(f"{TOPIC} could not be landed")
        ways = ways_of(folder, spark, topic)
        costs: dict[str, list[Cost]] = {name: [] for name in ways}
        for at in range(1 + asked.pairs):
            for name, way in ways.items():
                cost = in_session(spark, lambda way=way: _computed(way())).told(name)  # type: ignore[misc]
                if at:
                    costs[name].append(cost)
    middle = {name: statistics.median(cost.cpu for cost in found) for name, found in costs.items()}
    told = {
        "benchmark": "decode",
        "messages": asked.changes,
        "encoding": asked.encoding,
        **machine(),
        "cpu": {name: [round(cost.cpu, 2) for cost in found] for name, found in costs.items()},
        "messages_a_cpu_second": {name: round(asked.changes / cpu) for name, cpu in middle.items()},
        "ours_as_multiple_of_bare": round(middle["ours"] / middle["bare"], 2),
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 0


def _computed(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    sys.exit(main())
