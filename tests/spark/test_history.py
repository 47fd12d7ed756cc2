"""Deleted rows that stay, the history of rows, and type-2 tables of it, on random lives of a model database.

Each life goes through the pipeline twice, in large batches and in small ones. What several partitions bring is in one
order only within a batch, so of their lives the mirrors alone have to be the same.
"""

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
import yaml
from pyspark.sql import functions as F

from cdc_materializer import crash_points, type_2, type_2_query
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_BUG
from cdc_materializer.names import TableName
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.run.run import run_once
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.model.history import History
from tests.model.telling import Telling
from tests.spark.chains import broken
from tests.spark.marks import SECOND_TURN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, SECOND_TURN]

_ALL = os.environ.get("CDCM_TESTS") == "all"
_LIVES, _RUNS = (12, 3) if _ALL else (1, 2)
_EVENTS = 300 if _ALL else 60
_BATCHES = {"large": 500_000, "small": 17}
_COLUMNS = ("id", "note", "qty")


class Life(Telling):
    """A table that tells one life."""

    def __init__(self, seed: int) -> None:
        """Live, and send it all."""
        super().__init__([seed], History(seed, _EVENTS).live(), 25)

    @property
    def seed(self) -> int:
        """The life's."""
        return self.seeds[0]


@dataclass(frozen=True)
class Outcome:
    """The lives after their runs, and what `verify` says of their mirrors."""

    spark: "SparkSession"
    config: Config
    single: tuple[Life, ...]
    several: tuple[Life, ...]
    unequal: tuple[str, ...]

    def table(self, life: Life, batches: str, suffix: str = "") -> "DataFrame":
        """The table of a life that went in batches of one size."""
        return self.spark.table(f"lake.{_mirror(life, batches)}{suffix}")


def _mirror(life: Life, batches: str) -> str:
    return f"lives.{batches}{life.seed}"


@pytest.fixture(scope="module")
def outcome(spark: "SparkSession", lake_config: Config) -> Outcome:
    """Send the lives in some runs, each life into two mirrors with soft deletes and history."""
    lives = [Life(seed) for seed in range(100, 140)]
    partitions = {life.seed: len({message.partition for message in life.builder.messages}) for life in lives}
    single = tuple(itertools.islice((life for life in lives if partitions[life.seed] == 1), _LIVES))
    several = tuple(itertools.islice((life for life in lives if partitions[life.seed] > 1), _LIVES))
    path = lake_config.root / "lives.yaml"
    entries = [
        {"topic": life.builder.topic, "mirror": _mirror(life, name), "records_max": limit}
        for life in (*single, *several)
        for name, limit in _BATCHES.items()
    ]
    settings = {"defaults": {"deletes": "soft", "history": True}, "tables": entries}
    path.write_text(yaml.safe_dump({"name": "lives", "source": {"files": "lives"}, **settings}), encoding="utf-8")
    for run in range(1, _RUNS + 1):
        for life in (*single, *several):
            life.write(lake_config.root / "lives", run / _RUNS)
        report = run_once(load_config(path), spark)
        assert report.exit_code == 0, report
    unequal = [table.table for table in verify_tables(load_config(path), spark).tables if not table.equal]
    return Outcome(spark, load_config(path), single, several, tuple(unequal))


def _plain(frame: "DataFrame") -> list[str]:
    return sorted(row[0] for row in frame.select(F.to_json(F.struct("*"))).collect())


def test_a_soft_mirror_is_the_same_in_any_cut(outcome: Outcome) -> None:
    """Deleted rows, their last values and the message that deleted each do not depend on how the log is cut."""
    for life in (*outcome.single, *outcome.several):
        large, small = (_plain(outcome.table(life, name)) for name in _BATCHES)

        assert large == small, life.seed
        assert any('"deleted":true' in row for row in large)
    assert not outcome.unequal


def test_live_rows_of_a_soft_mirror_are_the_databases(outcome: Outcome) -> None:
    """Leaving the deleted rows out gives the table of the database."""
    for life in (*outcome.single, *outcome.several):
        expected = life.write(outcome.config.root / "lives", 1)
        found = outcome.table(life, "small").where("NOT __cdc.deleted").collect()

        assert {row["id"]: {"note": row["note"], "qty": row["qty"]} for row in found} == expected, life.seed


def test_a_history_is_the_same_in_any_cut(outcome: Outcome) -> None:
    """What was overtaken within a batch is in it as what was published is."""
    for life in outcome.single:
        large, small = (_plain(outcome.table(life, name, "__history")) for name in _BATCHES)

        assert large == small, life.seed


def test_each_change_begins_where_the_one_before_it_ended(outcome: Outcome) -> None:
    """The changes of a key are a chain from nothing to what the mirror shows."""
    for life in outcome.single:
        changes = outcome.table(life, "small", "__history").orderBy("offset").collect()
        rows: dict[int, Any] = {}
        for change in changes:
            if change["op"] == "t":
                rows.clear()
                continue
            key = (change["after"] or change["before"])["id"]
            assert change["before"] == rows.pop(key, None), (life.seed, change["offset"])
            rows |= {key: change["after"]} if change["after"] else {}
        live = outcome.table(life, "small").where("NOT __cdc.deleted").select(*_COLUMNS).collect()

        assert {row["id"]: row for row in rows.values()} == {row["id"]: row for row in live}


def test_the_order_of_versions_is_that_in_which_changes_were_applied(outcome: Outcome) -> None:
    """In it, too, each change of a key begins where the one before it ended.

    Small batches of several partitions are left out: a change of theirs can come behind a newer one.
    """
    for life in outcome.single:
        history = outcome.table(life, "small", "__history")
        assert not broken(history), life.seed
        assert history.where("place.sort IS NOT NULL OR place.time IS NOT NULL").isEmpty(), "offsets tell it all"
    for life in outcome.several:
        assert not broken(outcome.table(life, "large", "__history")), life.seed


def test_versions_of_a_row_never_overlap_and_the_current_ones_are_the_mirror(outcome: Outcome) -> None:
    """At each time a key has at most one version; deletes and truncates end the last one."""
    for life in (*outcome.single, *outcome.several):
        versions = type_2(outcome.table(life, "small", "__history"), ["id"]).collect()
        by_key: dict[int, list[Any]] = {}
        for version in sorted(versions, key=lambda version: version["valid_from"]):
            by_key.setdefault(version["id"], []).append(version)
        for chain in by_key.values():
            assert all(one["valid_to"] <= other["valid_from"] for one, other in itertools.pairwise(chain))
            assert all(version["is_current"] == (version["valid_to"] is None) for version in chain)
        current = {row["id"]: tuple(row[name] for name in _COLUMNS) for row in versions if row["is_current"]}
        live = outcome.table(life, "small").where("NOT __cdc.deleted").collect()

        assert len(versions) > len(current)
        assert current == {row["id"]: tuple(row[name] for name in _COLUMNS) for row in live}, life.seed


def test_another_engine_makes_the_same_versions_with_the_query(outcome: Outcome) -> None:
    """DuckDB runs the SQL on the rows that PyIceberg reads."""
    life = outcome.single[0]
    table = open_tables(outcome.config.catalog).load(TableName.parse(_mirror(life, "small")).history)
    assert table is not None
    history = table.scan().to_arrow()
    with duckdb.connect() as engine:
        engine.register("changes", history)
        found = engine.sql(type_2_query("changes", ["id"], _COLUMNS, mark='"')).fetchall()
    query = type_2(outcome.table(life, "small", "__history"), ["id"])
    times = [F.unix_micros(name).alias(name) for name in ("valid_from", "valid_to")]
    expected = query.select(*_COLUMNS, *times, "is_current").collect()

    assert sorted(map(_microseconds, found), key=repr) == sorted(map(tuple, expected), key=repr)


def _microseconds(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(int(part.timestamp() * 1_000_000) if hasattr(part, "timestamp") else part for part in row)


def test_a_change_that_was_kept_before_a_kill_is_kept_once_however_the_rest_is_cut(
    spark: "SparkSession", lake_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was tried had ten messages of one partition; the next batches have five of each, as the other has grown."""
    topic, columns = TopicBuilder("shop.public.cut"), {"id": {"type": "int64", "optional": False}}
    path = lake_config.root / "cut.yaml"
    table = {"topic": topic.topic, "mirror": "cuts.t", "history": True, "records_max": 10}
    path.write_text(yaml.safe_dump({"name": "cut", "source": {"files": "cut"}, "tables": [table]}), encoding="utf-8")
    config = load_config(path)

    def send(partition: int) -> None:
        key, schema = connect_key_schema(topic.topic, columns), connect_envelope_schema(topic.topic, columns)
        for _ in range(10):
            row = {"id": len(topic.messages)}
            change = debezium_envelope("c", None, row, lsn=100 + row["id"])
            topic.add(debezium_json(row, key), debezium_json(change, schema), partition=partition)
        topic.write(lake_config.root / "cut")

    def killed(step: str, name: TableName) -> None:
        if crash_points.point_of(step, name) == "history.published":
            raise KeyError(step)

    send(0)
    with monkeypatch.context() as patched:
        patched.setattr(crash_points, "reach", killed)
        assert run_once(config, spark).exit_code == EXIT_BUG
    send(1)
    report = run_once(config, spark)

    assert report.exit_code == 0, report
    places = [(row["partition"], row["offset"]) for row in spark.table("lake.cuts.t__history").collect()]
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(10)]


def test_a_history_of_an_earlier_version_gets_room_for_source_tables_and_places(
    spark: "SparkSession", lake_config: Config
) -> None:
    """With the next changes; a truncate of any table ends its rows from before, as they name none."""
    topic, columns = TopicBuilder("shop.public.parts"), {"id": {"type": "int64", "optional": False}}
    path, name = lake_config.root / "parts.yaml", "lake.parts.t__history"
    table = {"topic": topic.topic, "mirror": "parts.t", "history": True}
    path.write_text(yaml.safe_dump({"name": "parts", "source": {"files": "parts"}, "tables": [table]}))
    config = load_config(path)
    key, schema = connect_key_schema(topic.topic, columns), connect_envelope_schema(topic.topic, columns)

    def send(*changes: tuple[int | None, str]) -> None:
        for number, source_table in changes:
            row = {"id": number} if number is not None else None
            lsn = 100 + len(topic.messages)
            change = debezium_envelope("c" if row else "t", None, row, lsn=lsn, ts_ms=lsn, table=source_table)
            topic.add(debezium_json(row, key) if row else None, debezium_json(change, schema))
        topic.write(lake_config.root / "parts")
        report = run_once(config, spark)
        assert report.exit_code == 0, report.tables[0].error

    def current() -> list[int]:
        return [row["id"] for row in type_2(spark.table(name), ["id"]).where("is_current").orderBy("id").collect()]

    send((1, "p1"), (2, "p2"))
    for column in ("source_table", "place"):
        spark.sql(f"ALTER TABLE {name} DROP COLUMN {column}")
    assert current() == [1, 2]

    send((3, "p2"), (4, "p1"), (None, "p1"))

    assert current() == [3]
    places = {row["offset"]: row["place"] for row in spark.table(name).collect()}
    assert [places[offset] is not None for offset in sorted(places)] == [False, False, True, True, True]
