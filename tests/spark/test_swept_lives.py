"""Random lives of which a complete snapshot ends what it does not show, with rows that end and rows that are kept.

After every run the mirror shows what the database held; in a topic of one partition its history is the same whichever
way its log was cut, and the type-2 table of any has the mirror's rows as its current ones. Each life has two tables,
one read in a batch a run and one in small batches. With CDCM_TESTS=all there are more kinds, and more and longer lives;
with CDCM_SEED=17 the first of them is that one, or the next of which something is swept.
"""

import itertools
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cdc_materializer import type_2
from cdc_materializer.config import Config, load_config
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.run.run import run_once
from tests.model.history import Event, History, Rows
from tests.model.telling import Telling
from tests.spark.chains import broken
from tests.spark.marks import TURNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, TURNS]

_ALL = os.environ.get("CDCM_TESTS") == "all"
_FIRST_SEED = int(os.environ.get("CDCM_SEED", "1"))
#: Lives of each kind, events of each, runs, and in how many batches the second table of a life reads its log.
_LIVES, _EVENTS, _RUNS, _BATCHES = (4, 80, 3, 8) if _ALL else (1, 30, 2, 4)
_ONE, _TWO = (1, 1), (2, 2)
#: By partitions and settings.
_KINDS: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "kept": (_ONE, {"deletes": "soft", "history": True}),
    "kept_among": (_TWO, {"deletes": "soft", "history": True}),
}
_MORE_KINDS: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "hard": (_ONE, {}),
    "hard_among": (_TWO, {}),
    "soft": (_ONE, {"deletes": "soft"}),
    "soft_among": (_TWO, {"deletes": "soft"}),
    "told": (_ONE, {"history": True}),
    "told_among": (_TWO, {"history": True}),
}
#: Rows inserted at the end, one a transaction, so that every partition gets behind the last snapshot.
_LAST = 12


@dataclass
class SweptTelling(Telling):
    """A table whose snapshots sweep."""

    settings: dict[str, Any] = field(default_factory=dict)
    batches: int = 1

    def entry(self) -> dict[str, Any]:
        """As of other lives, with the settings."""
        size = max(1, len(self.messages) // self.batches)
        return {**super().entry(), "snapshot_sweep": True, "records_max": size, **self.settings}

    @property
    def has_history(self) -> bool:
        """Whether it tells each change."""
        return bool(self.settings.get("history"))

    def live(self, spark: "SparkSession") -> "DataFrame":
        """The mirror's rows that are there."""
        mirror = spark.table(f"lake.{self.mirror}")
        return mirror.where("NOT __cdc.deleted") if self.settings.get("deletes") == "soft" else mirror

    def wrong(self, spark: "SparkSession", expected: Rows, *, is_over: bool) -> str:
        """What the mirror shows otherwise than it must; of several partitions a sweep may have to wait for one."""
        rows = self.live(spark).collect()
        found = {int(row["id"]): self.layout.shown(row.asDict()) for row in rows}
        if len(rows) != len(found):
            return "a key has two rows"
        waiting = (
            {key for event in self.events for key in event.swept} if self.partitions == _TWO and not is_over else ()
        )
        keys = [
            key for key in sorted({*found, *expected}) if found.get(key) != expected.get(key) and key not in waiting
        ]
        return "; ".join(f"key {key}: {found.get(key)} in place of {expected.get(key)}" for key in keys)

    def wrong_in_history(self, spark: "SparkSession") -> str:
        """What is wrong with the history beside the mirror."""
        history = spark.table(f"lake.{self.mirror}__history")
        if broken(history):
            return "versions do not begin where those before them ended"
        current = _rows(type_2(history, ["id"]).where("is_current"))
        live = _rows(self.live(spark))
        return "" if current == live else f"current {list(current - live)}, live {list(live - current)}"

    def told(self, spark: "SparkSession") -> Counter[tuple[Any, ...]]:
        """Every change of the history."""
        shown = "op", "partition", "offset", "to_json(before)", "to_json(after)"
        rows = spark.table(f"lake.{self.mirror}__history").selectExpr(*shown).collect()
        return Counter(tuple(row) for row in rows)


def _rows(frame: "DataFrame") -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.select("id", "note", "qty").collect())


def _life(seed: int) -> list[Event]:
    history = History(seed, _EVENTS, returns=seed % 2 == 0, sweeps=True)
    history.live()
    history.go_on(_LAST)
    return history.events


def _pairs() -> list[tuple[SweptTelling, SweptTelling]]:
    """The tables of each life of which something is swept: one read in a batch a run, and one in small batches."""
    swept = (seed for seed in itertools.count(_FIRST_SEED) if any(event.swept for event in _life(seed)))
    seeds, found = tuple(itertools.islice(swept, _LIVES)), []
    for kind, (among, settings) in (_KINDS | (_MORE_KINDS if _ALL else {})).items():
        for seed in seeds:
            whole, cut = (
                SweptTelling([seed], _life(seed), 25, among, called=f"{kind}_{seed}_{batches}", batches=batches)
                for batches in (1, _BATCHES)
            )
            whole.settings = cut.settings = settings
            found.append((whole, cut))
    return found


def test_what_a_snapshot_does_not_show_is_gone_in_any_cut(spark: "SparkSession", lake_config: Config) -> None:
    """Whatever is sent again, in one partition and in two."""
    pairs, faults = _pairs(), []
    tables = [table for pair in pairs for table in pair]
    folder, path = lake_config.root / "swept", lake_config.root / "swept.yaml"
    for run in range(1, _RUNS + 1):
        expected = [table.write(folder, run / _RUNS) for table in tables]
        entries = [table.entry() for table in tables]
        path.write_text(yaml.safe_dump({"name": "swept", "source": {"files": "swept"}, "tables": entries}))
        report = run_once(load_config(path), spark)
        faults += [f"{one.table}: {one.error.message}" for one in report.tables if one.error is not None]
        for table, rows in zip(tables, expected, strict=True):
            wrong = [table.wrong(spark, rows, is_over=run == _RUNS)]
            wrong += [table.wrong_in_history(spark)] if table.has_history else []
            faults += [f"{table.name} in run {run}: {one}" for one in wrong if one]
    unequal = [entry.table for entry in verify_tables(load_config(path), spark).tables if not entry.equal]
    faults += [f"{name}: verify finds a difference" for name in unequal]
    # Of several partitions a history has what was known of all of them when each change was read.
    for whole, cut in [pair for pair in pairs if pair[0].partitions == _ONE]:
        one, other = (table.told(spark) if table.has_history else Counter() for table in (whole, cut))
        faults += [f"{whole.name}: {list(one - other)} whole, {list(other - one)} cut"] if one != other else []

    assert faults == []
