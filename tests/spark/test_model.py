"""The pipeline against a model database: after every run the mirror shows what the database held at that event.

Hundreds of random lives share one table, with keys of their own and their events mixed in one log, so that they cost
a few batches; others, which are truncated, have a table each. Their topics have some partitions and may get more, are
sent with crashes, and are read in batches of any size, in several runs that end anywhere. With CDCM_TESTS=all there
are more lives, and longer ones; with CDCM_SEED=17 the first of them is that one.
"""

import os
import random
from collections.abc import Sequence
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
from tests.model.history import KEYS, Event, History, Rows, Sent, lives, table_after, topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark]

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST_SEED = int(os.environ.get("CDCM_SEED", "1"))
#: Lives that share a table, lives that have their own, events of each life, and runs.
_SHARING, _ALONE, _EVENTS, _RUNS = (1_000, 8, 60, 4) if _ALL else (200, 1, 20, 2)
_KEY = {"id": {"type": "int64", "optional": False}}
_COLUMNS = {**_KEY, "note": {"type": "string", "optional": True}, "qty": {"type": "int64", "optional": True}}


@dataclass
class Telling:
    """One table on its way through the pipeline, and the lives that it tells."""

    seeds: Sequence[int]
    events: list[Event]
    #: How many events a crash sends again at most.
    reach: int
    partitions: tuple[int, int] | None = None
    messages: list[Sent] = field(init=False)
    builder: TopicBuilder = field(init=False)
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        """Send it all."""
        self.chance = random.Random(self.seeds[0])  # noqa: S311 - repeatable, not secret
        self.messages = topic(self.events, self.seeds[0], self.reach, self.partitions)
        self.builder = TopicBuilder(f"model.public.{self.name}")
        for message in self.messages:
            self.builder.add(self._key(message.event), self._value(message.event), partition=message.partition)

    @property
    def name(self) -> str:
        """The table's own name."""
        return f"life{self.seeds[0]}" if len(self.seeds) == 1 else f"lives_from_{self.seeds[0]}"

    @property
    def mirror(self) -> str:
        """The mirror's name."""
        return f"model.{self.name}"

    def entry(self) -> dict[str, Any]:
        """The table's entry in pipeline.yaml."""
        # In several partitions a batch may read the insert of a key change before its delete: then nobody knows the
        # value that it left out (ADR 7), unless both go to one partition, as they do where lives share a table.
        is_cut = len(self.seeds) > 1 or len({message.partition for message in self.messages}) == 1
        limit = len(self.messages) // 3 if is_cut else 500_000
        return {"topic": self.builder.topic, "mirror": self.mirror, "records_max": limit}

    def write(self, folder: "Path", part: float) -> Rows:
        """Write about that part of the topic, and return what the table must show then."""
        count = max(1, round(part * len(self.messages)))
        while not self.events[self.messages[count - 1].reached - 1].settled:
            count += 1
        shown = TopicBuilder(self.builder.topic)
        shown.messages = self.builder.messages[:count]
        shown.write(folder)
        return table_after(self.events, self.messages[count - 1].reached)

    def difference(self, spark: "SparkSession", expected: Rows) -> dict[int, str]:
        """What the mirror shows otherwise than it must, by the seed of the life."""
        rows = spark.table(f"lake.{self.mirror}").collect()
        found = {row["id"]: {"note": row["note"], "qty": row["qty"]} for row in rows}
        keys = sorted(key for key in {*found, *expected} if found.get(key) != expected.get(key))
        by_seed: dict[int, str] = {}
        for key in keys:
            seed = key // KEYS or self.seeds[0]
            by_seed.setdefault(seed, f"key {key}: {found.get(key)} in place of {expected.get(key)}")
        return by_seed

    def _key(self, event: Event) -> bytes | None:
        if event.key is None:
            return None
        return debezium_json({"id": event.key}, connect_key_schema(self.builder.topic, _KEY))

    def _value(self, event: Event) -> bytes | None:
        if event.op == "tombstone":
            return None
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
        return debezium_json(envelope, connect_envelope_schema(self.builder.topic, _COLUMNS))


def _tellings() -> list[Telling]:
    alone = range(_FIRST_SEED, _FIRST_SEED + _ALONE)
    sharing = range(_FIRST_SEED + _ALONE, _FIRST_SEED + _ALONE + _SHARING)
    found = [Telling([seed], History(seed, 3 * _EVENTS).live(), 25) for seed in alone]
    return [Telling(sharing, lives(sharing, _EVENTS), 2 * _SHARING, (2, 3)), *found]


@pytest.fixture(scope="module")
def outcome(spark: "SparkSession", lake_config: Config) -> tuple[list[Telling], list[dict[int, str]]]:
    """All tables, and for each run what was wrong after it, by seed."""
    tables = _tellings()
    folder, path = lake_config.root / "model", lake_config.root / "model.yaml"
    faults: list[dict[int, str]] = []
    for run in range(1, _RUNS + 1):
        expected = {table.mirror: table.write(folder, run / _RUNS) for table in tables}
        entries = [table.entry() for table in tables]
        path.write_text(yaml.safe_dump({"name": "model", "source": {"files": "model"}, "tables": entries}))
        report = run_once(load_config(path), spark)
        errors = {entry.table: entry.error.message for entry in report.tables if entry.error is not None}
        faults.append({})
        for table in tables:
            stopped = {seed: errors[table.mirror] for seed in table.seeds if table.mirror in errors}
            faults[-1] |= stopped or table.difference(spark, expected[table.mirror])
    unequal = [entry.table for entry in verify_tables(load_config(path), spark).tables if not entry.equal]
    faults.append({table.seeds[0]: "verify finds a difference" for table in tables if table.mirror in unequal})
    return tables, faults


def test_a_mirror_is_its_database_at_every_event(outcome: tuple[list[Telling], list[dict[int, str]]]) -> None:
    """Whatever is sent again, cut, or ends in between; and folding raw once more finds the same."""
    tables, faults = outcome

    assert sum(len(table.seeds) for table in tables) == _SHARING + _ALONE
    assert faults == [{}] * (_RUNS + 1)
