"""The same job on a cluster, by `spark.master` alone and by `spark-submit`: both executors work, the rows are right."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cdc_materializer import jars
from cdc_materializer.testing import kafka_partition
from integration.chain.events import Event, change, create_topic, producer, send, tombstone
from integration.chain.kafka import Kafka
from integration.chain.pipeline import RUN_SECONDS_MAX, Pipeline, run_program
from integration.chain.spark_cluster import HOME, WORKERS, SparkCluster

pytestmark = pytest.mark.long

_TOPIC, _MIRROR, _PARTITIONS = "live.spread.things", "live.things", 4
#: As docs/cluster.md shows it.
_JOB = """
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from cdc_materializer import load_config, run_once

report = run_once(load_config(Path(sys.argv[1])), SparkSession.builder.getOrCreate())
print(report.model_dump_json())
sys.exit(report.exit_code)
"""


def _send(kafka: Kafka, first: int, last: int) -> None:
    """Changes of rows by Kafka's own partitioner: each is made, every second one changed, every fifth deleted."""
    sender = producer(kafka.bootstrap)
    events: dict[int, list[Event]] = {}
    for row in range(first, last):
        own = [change("c", row, "made", 10 * row)]
        own += [change("u", row, "changed", 10 * row + 1)] if row % 2 == 0 else []
        own += [change("d", row, None, 10 * row + 2), tombstone(row)] if row % 5 == 0 else []
        key = own[0].key
        assert key is not None
        events.setdefault(kafka_partition(key, _PARTITIONS), []).extend(own)
    for partition, found in events.items():
        send(sender, _TOPIC, found, partition)


def _expected(last: int) -> dict[int, str]:
    return {row: "changed" if row % 2 == 0 else "made" for row in range(last) if row % 5}


def _executors(events: Path) -> set[str]:
    """The executors that were given a task, by Spark's own events; those of a task's end are not kept (`secrets`)."""
    files = [path for path in events.rglob("*") if path.is_file() and not path.name.startswith(".")]
    told = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    return {event["Task Info"]["Executor ID"] for event in told if event["Event"] == "SparkListenerTaskStart"}


def _rows(pipeline: Pipeline) -> Mapping[int, str]:
    return {row["id"]: row["text"] for row in pipeline.rows(_MIRROR)}


def test_a_cluster_makes_the_same_mirror(
    kafka: Kafka, spark_cluster: SparkCluster, folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """First a run of `cdcm` with `spark.master`, of more than is folded as one task; then one of `spark-submit`."""
    create_topic(kafka.bootstrap, _TOPIC, partitions=_PARTITIONS)
    _send(kafka, 0, 4_000)
    home = folder("spread")
    events = home / "events"
    events.mkdir()
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    spread = {"spark.master": spark_cluster.url, "spark.executor.memory": "640m"}
    pipeline = Pipeline.write(
        home,
        {"kafka": {"bootstrap.servers": kafka.bootstrap}},
        [{"topic": _TOPIC, "mirror": _MIRROR}],
        spark={**spread, "spark.sql.leafNodeDefaultParallelism": "2", "spark.sql.shuffle.partitions": "2", **logged},
    )

    document = pipeline.run_once()

    assert (document["exit_code"], document["tables"][0]["quarantined"]) == (0, 0)
    assert _rows(pipeline) == _expected(4_000)
    assert len(_executors(events) - {"driver"}) == WORKERS

    _send(kafka, 4_000, 4_100)
    job = home / "job.py"
    job.write_text(_JOB, encoding="utf-8")
    libraries = ",".join(map(str, jars.resolve()))
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.executor.memory": "640m",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [word for name, text in settings.items() for word in ("--conf", f"{name}={text}")]
    submit = str(HOME / "bin" / "spark-submit")
    monkeypatch.setenv("SPARK_HOME", str(HOME))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    done = run_program(
        [submit, "--master", spark_cluster.url, "--jars", libraries, *options, str(job), str(pipeline.path)],
        RUN_SECONDS_MAX,
    )

    assert done.returncode == 0, done.stderr[-2_000:]
    assert json.loads(done.stdout.splitlines()[-1])["tables"][0]["quarantined"] == 0
    assert _rows(pipeline) == _expected(4_100)
    proven = pipeline.run("verify")
    assert (proven.returncode, json.loads(proven.stdout)["equal"]) == (0, True)
