"""`cdcm run` in processes of their own, on a small table whose rows come, go, are held and come back."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.names import TableName
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.spark.soundness import marker_of, what_is_unsound

MIRROR = TableName.parse("shop.things")
TABLES = (MIRROR, MIRROR.raw, MIRROR.quarantine, MIRROR.history)
TOPIC = "shop.public.things"
_ROOT = Path(__file__).parents[2]
_SECONDS_MAX = 900
#: Operation, key and price; a price that is text does not fit, and its message is held.
CHANGES: tuple[tuple[str, int, Any], ...] = (
    *(("c", 1, 10), ("c", 2, 20), ("u", 2, "held")),
    *(("u", 2, 21), ("d", 1, None), ("c", 3, "held too")),
    *(("c", 4, 40), ("c", 3, 30), ("c", 5, "held for good")),
)
#: The head of a contract of the table.
THINGS = """
apiVersion: v3.1.0
kind: DataContract
id: things
name: Things
version: 1.0.0
status: active
schema:
  - name: things
"""
#: A contract of one rule about the table, which a table of few rows breaks.
WARNS = (
    THINGS
    + """\
    quality:
      - name: many rows
        metric: rowCount
        mustBeGreaterThan: 100
        customProperties: [{property: action, value: warn}]
"""
)
#: What differs between two runs that do the same.
_OWN = ("batch_id", "detected_at")


def pipeline(root: Path, rounds: int = 1, *, more: dict[str, Any] | None = None, **settings: Any) -> Config:  # noqa: ANN401
    """Write a topic and a pipeline of one table that reads it.

    Args:
        root: an empty folder.
        rounds: how often `CHANGES` are made, each time with other keys.
        more: other entries of pipeline.yaml, such as `catalog`.
        settings: the table's.
    """
    topic = TopicBuilder(TOPIC)
    for number in range(rounds):
        add_changes(topic, number)
    topic.write(root / "recorded")
    table = {"topic": TOPIC, "mirror": str(MIRROR), "records_max": 3, "history": True, **settings}
    path = root / "pipeline.yaml"
    content = {"name": "faults", "source": {"files": "recorded"}, **(more or {}), "tables": [table]}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_config(path)


def add_changes(topic: TopicBuilder, number: int) -> None:
    """Make `CHANGES` once more, for the keys of a round."""
    key = connect_key_schema("t", {"id": {"type": "int64", "optional": False}})
    whole, text = (
        connect_envelope_schema(
            "t", {"id": {"type": "int64", "optional": False}, "price": {"type": kind, "optional": True}}
        )
        for kind in ("int32", "string")
    )
    for at, (op, row, price) in enumerate(CHANGES):
        row_id, lsn = 10 * number + row, 100 * (number + 1) + at
        before, after = (None, {"id": row_id, "price": price}) if op != "d" else ({"id": row_id, "price": None}, None)
        envelope = debezium_envelope(op, before, after, lsn=lsn)
        topic.add(
            debezium_json({"id": row_id}, key), debezium_json(envelope, text if isinstance(price, str) else whole)
        )


def command(config: Config, *options: str) -> list[str]:
    """The command line of `cdcm run`."""
    return [sys.executable, "-m", "cdc_materializer", "run", "--json", "-c", str(config.path), *options]


def replay_command(config: Config, *options: str) -> list[str]:
    """The command line of `cdcm replay --publish`."""
    asked = ["replay", str(MIRROR), "--publish", "--json", "-c", str(config.path), *options]
    return [sys.executable, "-m", "cdc_materializer", *asked]


def environment(**more: str) -> dict[str, str]:
    """What such a process needs."""
    return {**os.environ, "PYTHONPATH": str(_ROOT), **more}


def run_process(config: Config, *options: str, replay: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
    """`cdcm run`, or `cdcm replay --publish`, to its end, with more in its environment."""
    return subprocess.run(
        replay_command(config, *options) if replay else command(config, *options),
        check=False,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        env=environment(**more),
    )


def content(config: Config) -> dict[str, list[dict[str, Any]]]:
    """The rows of the four tables, less what is each run's own; read without Spark."""
    found = {}
    for name in TABLES:
        table = open_tables(config.catalog).load(name)
        rows = table.scan().to_arrow().to_pylist() if table is not None else []
        found[str(name)] = sorted(({k: v for k, v in row.items() if k not in _OWN} for row in rows), key=str)
    return found


def refs(config: Config) -> dict[str, set[str]]:
    """The branches and tags of the tables that are there."""
    loaded = {name: open_tables(config.catalog).load(name) for name in TABLES}
    return {str(name): set(table.refs()) for name, table in loaded.items() if table is not None}


def what_is_broken(config: Config) -> list[str]:
    """Say which invariants do not hold of what readers see now."""
    faults, raw = what_is_unsound(config, MIRROR), marker_of(config, MIRROR.raw)
    places = [(row["partition"], row["offset"]) for row in content(config)[str(MIRROR.raw)]]
    ends = raw.offsets if raw is not None else {}
    if sorted(places) != [(partition, offset) for partition, end in sorted(ends.items()) for offset in range(end)]:
        faults.append(f"Raw has {places}, and its marker says {ends}.")
    rows = content(config)[str(MIRROR)]
    if len({row["id"] for row in rows}) != len(rows):
        faults.append("A key has two rows.")
    return faults
