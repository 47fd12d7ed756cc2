"""What a replay says of the mirror that it has rebuilt, beside the one that readers see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer.batch import batch, life, rows
from cdc_materializer.contract.model import SHADOW, Action
from cdc_materializer.differences import compare_rows
from cdc_materializer.errors import CommitConflict
from cdc_materializer.lake.columns import newer_columns
from cdc_materializer.line import quarantine
from cdc_materializer.line.audit import Audited, broken_by
from cdc_materializer.line.line import Line, Tables, marker_of
from cdc_materializer.merge import CDC
from cdc_materializer.rebuild.types import as_rebuilt
from cdc_materializer.report.plan_models import RenamePlan
from cdc_materializer.report.replay_models import RebuiltType, TableReplay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cdc_materializer.lake.lake import Lake, LakeTable
    from cdc_materializer.marker.marker import Marker
    from cdc_materializer.rebuild.base import Base

#: The actions of rules about rows that hold none.
_ONLY_TOLD = (str(Action.WARN), SHADOW)


def compared(
    own: tuple[Line, Tables], beside: tuple[Line, Tables], base: Base | None, batches: int, *, plain_keys: bool
) -> tuple[TableReplay, list[Audited]]:
    """Compare both, row by row, and by what today's contract says of each.

    Args:
        own: the way to what readers see, and the tables.
        beside: likewise of what was rebuilt.
        base: what the rebuilding went on from; None for nothing.
        batches: how many it took.
        plain_keys: whether the first differing keys are named as they are.

    Returns:
        What there is to say, and the rules about the table that the rebuilt one breaks.

    Raises:
        CommitConflict: what was rebuilt is gone.
    """
    (line, live), (way, rebuilt) = own, beside
    if live.mirror is None or rebuilt.mirror is None:
        what = f"The branch on which {line.mirror} was rebuilt is gone."
        raise CommitConflict(what, "Another replay of the table has run; run this one again.")
    target, stored = rebuilt.mirror.schema, rebuilt.mirror.stored
    expected, found = way.lake.rows(rebuilt.mirror), line.lake.rows(live.mirror)
    found = as_rebuilt(found, target) if stored.rebuilt else found
    if rebuilt.mirror.routed:
        expected = rows.with_source_tables(expected, marker_of(rebuilt.mirror).source_table)
        found = rows.with_source_tables(found, marker_of(live.mirror).source_table)
    difference = compare_rows(expected, found, target)
    began = marker_of(base.mirror).offsets if base is not None else None
    newer = newer_columns(line.lake.iceberg(line.mirror), live.mirror.head)
    broken = broken_by(way, rebuilt.mirror, live.mirror)
    told = TableReplay(
        table=str(line.mirror),
        topic=line.table.topic,
        batches=batches,
        base_snapshot=base.mirror.head if base is not None else None,
        base_offsets=None if began is None else {str(partition): offset for partition, offset in began.items()},
        equal=difference.is_none,
        rebuilt=difference.expected,
        live=difference.found,
        only_rebuilt=difference.missing,
        only_live=difference.unexpected,
        different=difference.different,
        columns=difference.columns,
        added=[name for name in target.types if name in newer],
        types=[
            RebuiltType(column=name, old=live.mirror.schema.types[name], new=target.types[name])
            for name in stored.rebuilt
        ],
        renamed=[RenamePlan(old=old, new=new) for old, new in stored.later],
        places=difference.places,
        keys=difference.told_keys(plain=plain_keys),
        held_live=_open_codes(line.lake, live.quarantine, marker_of(live.mirror)),
        held_rebuilt=_open_codes(way.lake, rebuilt.quarantine, marker_of(rebuilt.mirror)),
        told_live=_noted(line.lake, live.mirror, live.quarantine),
        told_rebuilt=_noted(way.lake, rebuilt.mirror, rebuilt.quarantine),
        broken_live=_names(broken_by(line, live.mirror)),
        broken_rebuilt=_names(broken),
        live_snapshot=live.mirror.head,
        rebuilt_snapshot=rebuilt.mirror.head,
    )
    return told, broken


def _open_codes(lake: Lake, table: LakeTable | None, marker: Marker) -> dict[str, int]:
    if table is None:
        return {}
    is_held = (F.col("status") == quarantine.OPEN) & ~quarantine.is_noted() & batch.published(marker)
    waiting = lake.rows(table).where(is_held)
    named = waiting.select(F.concat_ws(" ", "code", "rule").alias("name")).groupBy("name").count()
    return {row["name"]: row["count"] for row in named.orderBy("name").collect()}


def _noted(lake: Lake, mirror: LakeTable, table: LakeTable | None) -> dict[str, int]:
    """How many rows break rules that hold none, by rule: those whose newest message was noted for it."""
    if table is None:
        return {}
    notes = lake.rows(table).where(F.col("action").isin(*_ONLY_TOLD) & F.col("key").isNotNull())
    notes = notes.select("partition", "offset", "rule", "key").distinct()
    places = life.without_deleted(lake.rows(mirror)).select(f"{CDC}.partition", f"{CDC}.offset").distinct()
    found = notes.join(places, ["partition", "offset"]).groupBy("rule").count()
    return {row["rule"]: row["count"] for row in found.orderBy("rule").collect()}


def _names(found: Sequence[Audited]) -> list[str]:
    return [one.rule.name for one in found]
