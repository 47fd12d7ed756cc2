"""The product with one mistake in it, put in by replacing one function: the list, and how each is put in.

That what a mistake replaces is there is told by `tests/unit/test_mutants.py`, in every run of the tests; that its
golden case catches it, by `tests/spark/test_mutants.py`.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer import merge
from cdc_materializer.batch.earlier import History
from cdc_materializer.changes import model as m
from cdc_materializer.changes.surplus_keys import SURPLUS
from cdc_materializer.order import key_order
from cdc_materializer.order.stamped import AGAIN


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes:
        module: where the function is, below the package.
        name: of the function, of a method with its class, or of a constant.
        mistake: makes what replaces it out of what was there.
        caught_by: the number of the golden case that fails.
    """

    module: str
    name: str
    mistake: Callable[[Any], Any]
    caught_by: int


def _ordered_by(column: Callable[[], Column]) -> Callable[[Any], Any]:
    """Put the messages of a key in another order, offsets last."""

    def mistake(ordered: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def found(*arguments: Any) -> DataFrame:  # noqa: ANN401 - whatever it is
            return ordered(*arguments).withColumn(key_order.ORDER, F.struct(column().alias("by"), F.col(m.OFFSET)))

        return found

    return mistake


def _changes_with(name: str, column: Callable[[], Column]) -> Callable[[Any], Any]:
    """Give all changes another value in one of our columns."""

    def mistake(to_changes: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        return lambda *arguments: to_changes(*arguments).withColumn(name, column())

    return mistake


def _without_deleted(with_history: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    """Know no more of keys than a mirror does: of those that were deleted nothing."""

    def found(own: DataFrame, history: History) -> DataFrame:
        # Materialised: a filter would be pushed into the decoding, and write it out once more for each of its columns.
        known = history.changes.localCheckpoint()
        deleted = known.where(F.col(m.OP) == "d").select(m.KEY).distinct()
        return with_history(own, replace(history, changes=known.join(deleted, m.KEY, "left_anti")))

    return found


def _instead(value: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - a function or a constant
    return lambda _: value


def _placed_first(grouped: DataFrame, *_: Column) -> DataFrame:
    """Put messages without a place ahead of all that have one."""
    nowhere = F.lit(None).cast("struct<position:string,rank:int>")
    return grouped.withColumns({"__cdc_reached": F.lit(None).cast("string"), "__cdc_lowest": nowhere})


def _rank() -> Column:
    return F.when(F.col(m.OP) == "d", 3).when(F.col(m.OP) == "u", 2).otherwise(1)


MUTANTS = {
    "the placeholder is stored": Mutant(
        "decode.reading", "Settings.text_is_placeholder", _instead(lambda *_: F.lit(False)), 7
    ),
    "the placeholder of bytes is stored": Mutant(
        "decode.reading", "Settings.bytes_are_placeholder", _instead(lambda *_: F.lit(False)), 80
    ),
    "the placeholder of arrays is stored": Mutant("decode.types", "_array_placeholder", _instead(lambda *_: None), 80),
    "the high-water mark is forgotten with the batch": Mutant(
        "batch.facts", "wants_history", _instead(lambda *_, **__: F.lit(False)), 486
    ),
    "operations are ranked": Mutant("order.key_order", "ordered", _ordered_by(_rank), 72),
    "messages are ordered by the source's time": Mutant(
        "order.key_order", "ordered", _ordered_by(lambda: F.col(m.SOURCE_TIME)), 30
    ),
    "positions are compared as text": Mutant("changes.positions", "_padded", _instead(lambda digits, *_: digits), 13),
    "log numbers that may be none are compared as text": Mutant(
        "changes.positions", "_number", _instead(lambda digits, *_: digits), 95
    ),
    "snapshot rows are dropped by position": Mutant(
        "batch.past", "to_changes", _changes_with(m.STREAMING, lambda: F.lit(True)), 110
    ),
    "an absent column is NULL": Mutant(
        "batch.past", "to_changes", _changes_with(m.ABSENT, lambda: F.array().cast("array<string>")), 9
    ),
    "what is sent again must have been sent at one time": Mutant(
        "batch.past", "to_changes", _changes_with(m.SIGNATURE, lambda: F.unix_micros(m.TIME)), 74
    ),
    "a truncate wipes all that is before it": Mutant(
        "fold.fold", "is_wiped", _instead(lambda found: F.lit(bool(found))), 104
    ),
    "a truncate ends what is behind it, by its position": Mutant(
        "order.truncates", "_is_made_later", _instead(lambda _: F.lit(False)), 513
    ),
    "a reading that is copied behind a truncate is new": Mutant(
        "order.resends", "was_read", _instead(lambda _: F.lit(False)), 517
    ),
    "a truncate that is sent again is another one": Mutant(
        "batch.earlier", "first_sent", _instead(lambda truncates, *_: tuple(truncates)), 517
    ),
    "a truncate leaves out what it wipes ahead of it": Mutant(
        "batch.life", "outlives", _instead(lambda *_: False), 550
    ),
    "rows number the changes of a transaction": Mutant(
        "order.resends", "moment", _instead(lambda position, _: position), 220
    ),
    "what tells no place is never sent again": Mutant(
        "order.stamped", "with_again", _instead(lambda placed, *_: placed.withColumn(AGAIN, F.lit(False))), 762
    ),
    "no transaction has been read before": Mutant("order.epochs", "may_be_read", _instead(lambda _: F.lit(False)), 404),
    "whatever is behind was sent before": Mutant("order.resends", "new_in_key", _instead(lambda _: F.lit(False)), 444),
    "a database never goes back": Mutant("order.epochs", "_is_late", _instead(lambda _: F.lit(False)), 561),
    "a held message is behind what came since": Mutant(
        "order.epochs",
        "is_behind",
        lambda is_behind: lambda recorded: is_behind(replace(recorded, offsets={})),
        560,
    ),
    "nothing was sent before": Mutant("order.resends", "_is_any", _instead(lambda *_: F.lit(False)), 445),
    "what another server sends again is never applied": Mutant(
        "order.resends", "_is_newer", _instead(lambda _: F.lit(True)), 412
    ),
    "a reading that is sent again is a new one": Mutant(
        "order.resends", "_is_late_reading", _instead(lambda: F.lit(False)), 221
    ),
    "what was shown ahead of a delete without a place is known": Mutant(
        "order.resends", "is_unplaced", _instead(lambda: F.lit(False)), 230
    ),
    "a snapshot's position is held against a transaction's": Mutant(
        "order.truncates", "reach_of", _instead(lambda position: position), 113
    ),
    "a key without positions stays where it is": Mutant(
        "batch.past", "Past.asks_where", lambda _: property(lambda _: False), 487
    ),
    "a key is anybody's": Mutant("order.owners", "hold_collisions", _instead(lambda guarded, *_: guarded), 161),
    "a truncate ends the rows of all tables": Mutant(
        "merge", "is_truncated", _instead(lambda truncate, _: merge._is_before(truncate)), 163
    ),
    "a tombstone is parted from its delete": Mutant(
        "order.key_order", "_with_deletes", _instead(lambda grouped, _: grouped), 727
    ),
    "what tells no place comes ahead of what does": Mutant(
        "order.key_order", "_with_reached", _instead(_placed_first), 728
    ),
    "an insert behind a delete that names no row is a key change": Mutant(
        "fold.base", "with_updates", _instead(lambda changes: changes), 730
    ),
    "a copied snapshot is a later one": Mutant("order.sweeping", "Watch.ahead", lambda _: property(lambda _: {}), 759),
    "what has swept is forgotten when partitions are added": Mutant(
        "marker.sweeps", "SweepPlan.remembering", _instead(lambda plan, *_, **__: plan), 761
    ),
    "a reading that is copied behind a sweep is new": Mutant(
        "fold.swept", "_may_come_again", _instead(lambda *_: F.lit(False)), 735
    ),
    "deleted keys are forgotten": Mutant("batch.batch", "with_history", _without_deleted, 12),
    "a held message has shown its row": Mutant(
        "batch.standing",
        "with_waiting",
        _instead(lambda states, _held, name, _among: states.withColumn(name, F.lit(False))),
        676,
    ),
    "before is the identity": Mutant(
        "changes.old_rows", "configured", _instead(lambda target, _options: tuple(target.key)), 70
    ),
    "what fills before is a key that changed": Mutant(
        "changes.identity", "_WHOLE_BEFORE", _instead(("postgresql",)), 130
    ),
    "a delete without key and value repeats another": Mutant(
        "changes.formats.debezium_flat", "DebeziumFlat.repeats_deletes", _instead(lambda _self, _writers: True), 773
    ),
    "what tells another time or number was never sent": Mutant(
        "order.resends", "is_sent_again", _instead(lambda _recorded: F.lit(False)), 772
    ),
    "what else a key without a schema has is passed over": Mutant(
        "changes.messages", "has_surplus", _instead(lambda *_: F.lit(False).alias(SURPLUS)), 769
    ),
    "an insert is the other half of any delete at its position": Mutant(
        "changes.source_rows", "source_row", _instead(lambda _source: F.lit(None).cast("string")), 776
    ),
    "what cannot be read is new when it comes again": Mutant(
        "fold.fold", "_is_shown_again", _instead(lambda: F.lit(False)), 780
    ),
    "a tombstone is of any delete that has none": Mutant(
        "order.key_order", "is_elsewhere", _instead(lambda delete: delete.isNotNull()), 781
    ),
    "what a row took from another is done with": Mutant(
        "batch.earlier", "_with_heirs", _instead(lambda wanted, log, found, *_: (wanted, log, found, 0)), 782
    ),
}


def owner_of(mutant: Mutant) -> tuple[Any, str]:
    """What has the thing that a mistake replaces, and what it is called there."""
    owner: Any = importlib.import_module(f"cdc_materializer.{mutant.module}")
    *inner, last = mutant.name.split(".")
    for part in inner:
        owner = getattr(owner, part)
    return owner, last


def apply(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a mistake in, until the test ends."""
    owner, last = owner_of(mutant)
    monkeypatch.setattr(owner, last, mutant.mistake(getattr(owner, last)))
