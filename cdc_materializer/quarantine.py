"""The quarantine table of a mirror: what is held, what waits for a schema, what has been overtaken (design §4.5)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_materializer import fold, rows, verdict
from cdc_materializer.changes import model as m
from cdc_materializer.errors import Code
from cdc_materializer.lake import LakeTable
from cdc_materializer.line import Decided, Line, Tables, marker_of, new_marker, reload
from cdc_materializer.marker import Marker
from cdc_materializer.merge import QUARANTINE_SCHEMA, resolve_quarantine
from cdc_materializer.offsets import Offsets, Span

_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    # Small and read by people: no delete files, so that every engine reads it.
    "write.delete.mode": "copy-on-write",
    "write.update.mode": "copy-on-write",
    "write.merge.mode": "copy-on-write",
}
_RESOLVED_VIEW = "__cdc_resolved"


def held_keys(line: Line, quarantine: LakeTable | None) -> DataFrame | None:
    """The keys (m.KEY) that have open held messages; None where there is no quarantine."""
    if quarantine is None or quarantine.is_empty:
        return None
    still_open = (F.col("status") == verdict.OPEN) & F.col("key").isNotNull()
    return line.lake.rows(quarantine).where(still_open).select(F.col("key").alias(m.KEY))


def find_retries(line: Line, raw: LakeTable, tables: Tables) -> DataFrame | None:
    """Raw's rows that were held for a schema which the registry knows by now; None where there are none."""
    if tables.mirror is None or tables.quarantine is None or tables.quarantine.is_empty or line.registry is None:
        return None
    held = line.lake.rows(tables.quarantine)
    # Those that a later row has superseded too: a column that only they told is the row's once they can be read.
    held = held.where((F.col("status") != verdict.RELEASED) & (F.col("code") == str(Code.SCHEMA_UNKNOWN)))
    waiting = line.lake.rows(raw).join(
        F.broadcast(held.select("partition", "offset")), ["partition", "offset"], "left_semi"
    )
    ids = (
        waiting.select(F.explode(F.array("key_schema_id", "value_schema_id")).alias("id"))
        .where("id IS NOT NULL")
        .distinct()
    )
    known = [row["id"] for row in ids.collect() if line.registry.schema(row["id"]) is not None]
    unknown = ~F.col("value_schema_id").isin(known) | ~F.coalesce(F.col("key_schema_id").isin(known), F.lit(True))
    ready = waiting.where(~F.coalesce(unknown, F.lit(False))) if known else None
    return ready if ready is not None and not ready.isEmpty() else None


def is_ahead(quarantine: LakeTable | None, reached: Offsets) -> bool:
    """Whether a batch behind the mirror's offsets was tried before: its violations are committed, its rows are not."""
    tried = marker_of(quarantine).offsets if quarantine is not None else {}
    return any(offset > reached.get(partition, 0) for partition, offset in tried.items())


def hold(
    line: Line, quarantine: LakeTable | None, reached: Offsets, marker: Marker, decided: Decided
) -> LakeTable | None:
    """Commit the batch's violations; a batch that was tried before finds its own already there and adds none twice.

    Args:
        line: the table's way.
        quarantine: the table as it was loaded; it is made where there is none.
        reached: how far the mirror has got.
        marker: the batch's.
        decided: the batch.
    """
    if not decided.violations:
        return quarantine
    found = rows.violation_rows(decided.states, marker.batch, line.now())
    if quarantine is None:
        start = new_marker(line, Span(decided.span.topic, decided.span.start, decided.span.start), "", marker.topic_id)
        quarantine = line.lake.create(line.mirror.quarantine, QUARANTINE_SCHEMA, start, _PROPERTIES)
    if is_ahead(quarantine, reached) or marker_of(quarantine).batch == marker.batch:
        same = ("topic", "partition", "offset", "key", "code", "rule")
        again = line.lake.rows(quarantine).select(*[F.col(name).alias(f"again_{name}") for name in same])
        found = found.join(again, [F.col(name).eqNullSafe(F.col(f"again_{name}")) for name in same], "left_anti")
    line.lake.publish(quarantine, marker, lambda stage: stage.append(found))
    return reload(line, line.mirror.quarantine)


def resolve(line: Line, quarantine: LakeTable, marker: Marker, decided: Decided) -> None:
    """End violations that hold no more: superseded where a later message of the key was published, else released.

    A message is released when the batch read it once more and did not find the violation again: its schema is known by
    now, or the rule or setting that stopped its batch was changed.

    After the mirror's commit and not before: a run that was killed between finds them open still, and folds their keys
    from their first message once more.
    """
    held = line.lake.rows(quarantine).where(F.col("status") != verdict.RELEASED)
    # Cut off from its plan: Spark finds a cached frame only once in a plan, and would plan the other use from the
    # start.
    told = decided.states.select(
        m.KEY, m.PARTITION, m.OFFSET, fold.CURRENT, verdict.PUBLISHED, F.col(verdict.VIOLATIONS)["code"].alias("codes")
    ).localCheckpoint()
    final = told.where(F.col(verdict.PUBLISHED)).select(
        F.col(m.KEY).alias("key"), F.col(m.PARTITION).alias("final_partition"), F.col(m.OFFSET).alias("final_offset")
    )
    overtakes = (F.col("partition") != F.col("final_partition")) | (F.col("offset") < F.col("final_offset"))
    overtaken = held.where(F.col("status") == verdict.OPEN).join(final, "key").where(overtakes)
    ended = overtaken.select("partition", "offset", "key", "code", F.lit(verdict.RESOLVED).alias("to"))
    again = _codes_again(told)
    mended = held.join(again, ["partition", "offset"]).where(~F.array_contains("codes", F.col("code")))
    read = mended.select("partition", "offset", "key", "code", F.lit(verdict.RELEASED).alias("to"))
    # One row a target row; materialised, because Spark cannot plan a copy-on-write MERGE whose source reads the target.
    # A message that waited for its schema has been read, whatever came after it.
    is_overtaken = F.array_contains("found", verdict.RESOLVED) & (F.col("code") != str(Code.SCHEMA_UNKNOWN))
    to = F.when(is_overtaken, verdict.RESOLVED).otherwise(F.array_min("found")).alias("to")
    one = ("partition", "offset", "key", "code")
    resolved = ended.unionByName(read).groupBy(*one).agg(F.collect_set("to").alias("found")).select(*one, to)
    resolved = resolved.localCheckpoint()
    resolved.createOrReplaceTempView(_RESOLVED_VIEW)
    statement = resolve_quarantine
    line.lake.publish(
        quarantine,
        marker,
        lambda stage: stage.execute(statement(line.lake.catalog, quarantine.name, stage.branch, _RESOLVED_VIEW)),
    )


def _codes_again(told: DataFrame) -> DataFrame:
    """What each message that was read again has been found to break, in all of its changes together."""
    own = told.where(F.col(fold.CURRENT))
    return own.groupBy(F.col(m.PARTITION).alias("partition"), F.col(m.OFFSET).alias("offset")).agg(
        F.flatten(F.collect_list("codes")).alias("codes")
    )
