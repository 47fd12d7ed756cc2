"""Whose row a key is, of several source tables: held against the rule read aloud, one change after the other."""

import random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.config import Config
from cdc_materializer.order import owners
from tests.model.golden import Reading
from tests.model.routed import routed_case
from tests.spark.marks import IMPORTS_GREAT_EXPECTATIONS, TURNS
from tests.spark.passages import ALL, CUT, WHOLE, passages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, TURNS, *IMPORTS_GREAT_EXPECTATIONS]

KEYS, CHANGES_MAX = 400, 14
#: So many changes of one key; by lists of those before each, two hundred million steps.
IN_TURN = 20_000
#: A change: its operation, the table that it names, and whether it counts (it was not sent before).
Change = tuple[str, str | None, bool]


def _life(chance: random.Random) -> tuple[str | None, list[Change]]:
    """The owner of a key before its first change, and its changes; tombstones name no table, other changes may not."""
    changes: list[Change] = []
    for _ in range(chance.randint(1, CHANGES_MAX)):
        op = chance.choice(("c", "u", "u", "d", m.TOMBSTONE, m.WIPE))
        table = (
            None if op == m.TOMBSTONE or chance.random() < 0.05 else chance.choice("aab" if len(changes) % 5 else "abc")
        )
        changes.append((op, table, chance.random() < 0.9))
    return chance.choice((None, None, "a", "b")), changes


def _expected(owner: str | None, changes: list[Change]) -> list[tuple[str | None, str | None]]:
    """What is left of the operation of each change, and its code."""
    found: list[tuple[str | None, str | None]] = []
    for at, (op, named, counts) in enumerate(changes):
        follows = op == m.TOMBSTONE and at > 0 and changes[at - 1][0] == "d"
        table = changes[at - 1][1] if follows else named
        if counts and None not in (owner, table) and owner != table:
            found.append((None, "KEY_COLLISION" if op in m.CHANGE_OPS else None))
            continue
        found.append((op, None))
        if counts:
            owner = None if op in {"d", m.TOMBSTONE, m.WIPE} else table or owner
    return found


def test_a_key_is_its_owners_until_that_deletes_it(spark: "SparkSession") -> None:
    """In random lives of keys, changes of another table than the owner's are held, and no others."""
    chance = random.Random(7)  # noqa: S311 - repeatable, not secret
    lives = [_life(chance) for _ in range(KEYS)]

    assert _told(_held(spark, lives)) == [_expected(*life) for life in lives]


def test_a_key_that_tables_take_in_turn_costs_a_step_a_change(spark: "SparkSession") -> None:
    """However often another table changes it: no change carries or goes through a list of those before it."""
    chance = random.Random(11)  # noqa: S311 - repeatable, not secret
    in_turn: list[Change] = [("u", "ab"[at % 2], True) for at in range(IN_TURN)]
    mixed: list[Change] = [
        ("d" if chance.random() < 0.3 else "u", "abc"[(at + chance.randint(0, 1)) % 3], True) for at in range(IN_TURN)
    ]
    lives: list[tuple[str | None, list[Change]]] = [(None, in_turn), (None, mixed)]
    held = _held(spark, lives)
    java: Any = held._jdf
    plan = str(java.queryExecution().analyzed().toString())

    assert "collect_" not in plan, plan
    assert "aggregate(" not in plan, plan
    found = _told(held)
    assert found == [_expected(*life) for life in lives]
    assert [code for _, code in found[0]].count("KEY_COLLISION") == IN_TURN // 2


def _held(spark: "SparkSession", lives: list[tuple[str | None, list[Change]]]) -> "DataFrame":
    """The changes of some keys, each numbered by its place in the list, with those that collide held."""
    rows = [
        (key, at, op, table, None, owner, counts)
        for key, (owner, changes) in enumerate(lives)
        for at, (op, table, counts) in enumerate(changes)
    ]
    columns = f"key int, at int, {m.OP} string, {m.SOURCE_TABLE} string, {m.CODE} string, {owners.OWNER} string"
    guarded = spark.createDataFrame(rows, f"{columns}, counts boolean")
    ends = F.col(m.OP).isin("d", m.TOMBSTONE, m.WIPE)
    ordered = Window.partitionBy("key").orderBy("at")
    return owners.hold_collisions(guarded, F.col("counts"), ends, ordered)


def _told(held: "DataFrame") -> list[list[tuple[str | None, str | None]]]:
    """What is left of the operation of each change of each key, and its code."""
    found: dict[int, list[tuple[str | None, str | None]]] = {}
    for row in held.orderBy("key", "at").collect():
        found.setdefault(row["key"], []).append((row[m.OP], row[m.CODE]))
    return [found[key] for key in sorted(found)]


def test_a_mirror_of_several_tables_is_as_the_rule_says(spark: "SparkSession", lake_config: Config) -> None:
    """Random lives of tables that share keys end in the rows of the reference fold, whole and cut, and `verify` agrees.

    With soft deletes the live rows are compared.
    """
    kinds = [("hard", 1), ("soft", 1)] if not ALL else [("hard", 1), ("soft", 1), ("hard", 2), ("soft", 2)] * 4
    chosen = [
        (routed_case(900 + at, 40 if ALL else 25, cut=1 + 2 * (at % 3), deletes=deletes, partitions=partitions), way)
        for at, (deletes, partitions) in enumerate(kinds)
        for way in (WHOLE, CUT)
    ]
    for passage in passages(chosen, spark, lake_config):
        reading = Reading(passage.case)
        for state, messages in zip(passage.states, reading.steps(), strict=True):
            table = reading.table(messages)
            table.take(messages)
            live = [row for row in state.rows or [] if not row["__cdc"].get("deleted")]

            assert state.run.error is None, (passage.table, state.run.error)
            assert _sorted(live) == _sorted(reading.shown(table)), passage.table
        verified = passage.states[-1].verified
        assert (passage.way, verified is not None and verified.equal) in {(WHOLE, False), (CUT, True)}, passage.table


def _sorted(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return sorted([row["id"], row["name"], row["note"]] for row in rows)
