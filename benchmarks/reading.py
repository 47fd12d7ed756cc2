"""What a command's Spark session read of a table, by Spark's own log of events."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_SQL = "org.apache.spark.sql.execution.ui.SparkListener"
_FILES = "number of result data files"


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        input_bytes: of all files that tasks read, whichever table's they are.
        scans: how many data files of the table each scan of it has planned to open, most first.
    """

    input_bytes: int
    scans: tuple[int, ...]


def keep_events(folder: Path) -> None:
    """Let the sessions of a pipeline's commands keep their events from now on."""
    path, events = folder / "pipeline.yaml", folder / "events"
    events.mkdir()
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    wanted = {"enabled": "true", "dir": events.as_uri(), "compress": "false", "rolling.enabled": "false"}
    # What is counted is in the events of tasks that ended. A session of ours keeps none of those: where a task failed,
    # they name a value. Here all values are made up.
    wanted["excludedPatterns"] = "none"
    told["spark"] = {**told.get("spark", {}), **{f"spark.eventLog.{name}": value for name, value in wanted.items()}}
    path.write_text(yaml.safe_dump(told), encoding="utf-8")


def reading_of(folder: Path, table: str) -> Reading:
    """What the commands have read that were run in a folder since `keep_events`.

    Args:
        folder: the pipeline's.
        table: the table whose scans are told, as plans write it.
    """
    total, scans, found = 0, set[int](), dict[int, int]()
    for event in _events(folder / "events"):
        match event["Event"].removeprefix(_SQL):
            case "SparkListenerTaskEnd":
                total += event.get("Task Metrics", {}).get("Input Metrics", {}).get("Bytes Read", 0)
            case "SQLExecutionStart" | "SQLAdaptiveExecutionUpdate":
                scans |= set(_metrics(event["sparkPlanInfo"], table))
            case "DriverAccumUpdates":
                found |= dict(event["accumUpdates"])
    return Reading(total, tuple(sorted((found[scan] for scan in scans if scan in found), reverse=True)))


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _metrics(plan: Mapping[str, Any], table: str) -> Iterator[int]:
    """The accumulators that count the files of a table's scans."""
    if table in f"{plan['nodeName']} {plan['simpleString']}" and not plan["children"]:
        yield from (one["accumulatorId"] for one in plan["metrics"] if one["name"] == _FILES)
    for child in plan["children"]:
        yield from _metrics(child, table)
