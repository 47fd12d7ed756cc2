"""The pipeline against a model database: after every run the mirror shows what the database held at that event.

Each table lives a random life of its own; its topic has some partitions and may get more, is sent with crashes, and is
read in batches of any size, in several runs that end anywhere. With CDCM_TESTS=all there are more lives, and longer
ones; with CDCM_SEED=17 the first of them is that one.
"""

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer.config import Config, load_config
from cdc_materializer.run import run_once
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from cdc_materializer.verify import verify_tables
from tests.model.history import Event, History, Rows, sent, table_after

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST_SEED = int(os.environ.get("CDCM_SEED", "1"))
_LIVES, _EVENTS, _RUNS = (24, 300, 4) if _ALL else (2, 60, 2)
#: Lives that found something once: a chain of key changes over batches; partitions that were read at unequal speed.
_PINNED = (12, 23)
_KEY = {"id": {"type": "int64", "optional": False}}
_COLUMNS = {**_KEY, "note": {"type": "string", "optional": True}, "qty": {"type": "int64", "optional": True}}


@dataclass
class Life:
    """One table's life on its way through the pipeline."""

    seed: int
    events: list[Event] = field(init=False)
    builder: TopicBuilder = field(init=False)
    chance: random.Random = field(init=False)
    #: How many events have been sent when the topic has so many messages.
    reached: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        """Live, and send it all."""
        self.chance = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        self.events = History(self.seed, _EVENTS).live()
        self.builder = TopicBuilder(f"model.public.life{self.seed}")
        fewer, more = self.chance.choice(((1, 1), (3, 3), (1, 3), (2, 3)))
        for at, event in sent(self.events, self.seed):
            # Partitions are added in mid-life, and what is sent from then on goes where its key belongs now.
            self._send(event, fewer if len(self.builder.messages) < _EVENTS // 2 else more)
            self.reached.append(max(self.reached[-1], at + 1))

    @property
    def mirror(self) -> str:
        """The mirror's name."""
        return f"model.life{self.seed}"

    def entry(self) -> dict[str, Any]:
        """The table's entry in pipeline.yaml."""
        limit = self.chance.choice((40, 500_000))
        return {"topic": self.builder.topic, "mirror": self.mirror, "records_max": limit}

    def write(self, folder: "Path", part: float) -> Rows:
        """Write the first part of the topic, and return what the table must show then."""
        count = max(1, round(part * len(self.builder.messages)))
        shown = TopicBuilder(self.builder.topic)
        shown.messages = self.builder.messages[:count]
        shown.write(folder)
        return table_after(self.events, self.reached[count])

    def _send(self, event: Event, partitions: int) -> None:
        key = None if event.key is None else _bytes({"id": event.key}, connect_key_schema(self.builder.topic, _KEY))
        value = None if event.op == "tombstone" else self._value(event)
        self.builder.add(key, value, partition=(event.key or 0) % partitions)

    def _value(self, event: Event) -> bytes:
        before = {"id": event.key, "note": None, "qty": None} if event.op == "d" else None
        after = None if event.after is None else {"id": event.key, **event.after}
        envelope = debezium_envelope(
            event.op,
            before,
            after,
            lsn=event.lsn,
            commit_lsn=event.commit,
            ts_ms=event.ts_ms,
            snapshot=event.snapshot,
        )
        if event.snapshot == "incremental":
            envelope["source"]["sequence"] = f'["{event.commit}","{event.read_at}"]'
        return _bytes(envelope, connect_envelope_schema(self.builder.topic, _COLUMNS))


def _bytes(payload: Mapping[str, Any], schema: Mapping[str, Any]) -> bytes:
    return debezium_json(payload, schema)


@pytest.fixture(scope="module")
def outcome(spark: "SparkSession", lake_config: Config) -> tuple[list[Life], list[dict[int, str]]]:
    """All lives, and for each run what was wrong after it, by seed."""
    seeds = dict.fromkeys((*_PINNED, *range(_FIRST_SEED, _FIRST_SEED + _LIVES)))
    lives = [Life(seed) for seed in seeds]
    folder = lake_config.root / "model"
    path = lake_config.root / "model.yaml"
    faults: list[dict[int, str]] = []
    for run in range(1, _RUNS + 1):
        expected = {life.seed: life.write(folder, run / _RUNS) for life in lives}
        entries = [life.entry() for life in lives]
        path.write_text(yaml.safe_dump({"name": "model", "source": {"files": "model"}, "tables": entries}))
        report = run_once(load_config(path), spark)
        errors = {table.table: table.error.message for table in report.tables if table.error is not None}
        faults.append(
            {
                life.seed: errors.get(life.mirror) or _difference(spark, life, expected[life.seed])
                for life in lives
                if life.mirror in errors or _difference(spark, life, expected[life.seed])
            }
        )
    unequal = [table.table for table in verify_tables(load_config(path), spark).tables if not table.equal]
    faults.append({life.seed: "verify finds a difference" for life in lives if life.mirror in unequal})
    return lives, faults


def _difference(spark: "SparkSession", life: Life, expected: Rows) -> str:
    found = {
        row["id"]: {"note": row["note"], "qty": row["qty"]} for row in spark.table(f"lake.{life.mirror}").collect()
    }
    keys = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
    return f"keys {keys}: {[(found.get(key), expected.get(key)) for key in keys[:3]]}" if keys else ""


def test_a_mirror_is_its_database_at_every_event(outcome: tuple[list[Life], list[dict[int, str]]]) -> None:
    """Whatever is sent again, cut, or ends in between; and folding raw once more finds the same."""
    lives, faults = outcome

    assert lives
    assert faults == [{}] * (_RUNS + 1)
