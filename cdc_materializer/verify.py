"""`cdcm verify`: fold raw again from its first message and compare with the mirror, key by key.

The promise is `mirror = fold(raw before the marker) less held rows` (design §3). This is the same fold, on the same
snapshots, without any of the short cuts that batches take: no base rows, no positions, no earlier quarantine.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer import batch, life, rows, verdict
from cdc_materializer.batch import Past
from cdc_materializer.changes import model as m
from cdc_materializer.decoders import find_decoders
from cdc_materializer.epochs import Recorded
from cdc_materializer.errors import CdcError, LakeUnavailable
from cdc_materializer.lake import Lake, LakeTable
from cdc_materializer.lake_errors import translated
from cdc_materializer.line import Line, check_deletes, check_masks, check_whole, marker_of
from cdc_materializer.merge import CDC
from cdc_materializer.offsets import Offsets
from cdc_materializer.report.models import ErrorInfo, MessagePlace, TableVerify, VerifyReport
from cdc_materializer.run import TABLES_AT_ONCE, RunOptions, Work, open_work, session_for
from cdc_materializer.schema import TableSchema
from cdc_materializer.session import beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config, TableConfig

#: Differing keys whose places a report names.
PLACES_MAX = 10
_TWICE = "RAW_DUPLICATES"


def verify_tables(config: Config, spark: SparkSession | None = None, tables: Sequence[str] = ()) -> VerifyReport:
    """Compare mirrors with a fold of their raw tables.

    Args:
        config: from `load_config`.
        spark: a session with Iceberg's extensions, where there is one.
        tables: names of the mirrors; all for none.

    Raises:
        CdcError: nothing could be compared: the configuration or Spark.
    """
    work = open_work(config, RunOptions(tables=tables))
    with session_for(work, spark) as session, ThreadPoolExecutor(max_workers=TABLES_AT_ONCE) as pool:
        found = list(pool.map(lambda table: _verify(work, session, table), work.tables))
    return VerifyReport(pipeline=config.name, tables=found)


def _verify(work: Work, spark: SparkSession, table: TableConfig) -> TableVerify:
    began = time.monotonic()
    lake = Lake(beside(spark, work.config), work.config.catalog.name, read_only=True)
    line = Line(work.config.name, table, work.source, work.registry, work.contracts.get(str(table.mirror)), lake)
    name = str(table.mirror)
    try:
        mirror, raw = line.load_mirror(), lake.load(table.mirror.raw)
        if mirror is None:
            return TableVerify(table=name, topic=table.topic, equal=True, seconds=time.monotonic() - began)
        if raw is None:
            what = f"{table.mirror.raw} is gone, so nothing tells what {name} should hold."
            raise LakeUnavailable(what, "Restore it, or mirror the topic anew under another `mirror` name.")
        with translated(table.mirror):
            check_whole(line, raw)
            found = compare(line, raw, mirror)
    except CdcError as failure:
        error = ErrorInfo(code=failure.code or type(failure).__name__, message=str(failure))
        return TableVerify(table=name, topic=table.topic, equal=False, error=error, seconds=time.monotonic() - began)
    return found.model_copy(update={"seconds": round(time.monotonic() - began, 3)})


def compare(line: Line, raw: LakeTable, mirror: LakeTable) -> TableVerify:
    """What differs between a mirror and the fold of its raw table, both as they were loaded."""
    check_deletes(line, mirror)
    check_masks(line, mirror)
    span = batch.whole(Offsets(), marker_of(mirror).offsets, line.table.topic)
    stored = line.lake.rows(raw)
    messages = batch.messages(stored, span, line.id_bytes)
    decoders = find_decoders(messages, line.lookup(mirror.schema))
    target = mirror.schema
    known = marker_of(mirror)
    recorded = Recorded(partitions=len(span.end), epochs=known.epochs, is_final=True, routed=mirror.routed)
    watch = line.watch(None, marker_of(raw), span.end)
    past = Past(line.lookup(target), recorded=recorded, truncate=line.table.truncate, lives=line.is_soft, watch=watch)
    folded = batch.fold_batch(messages, decoders, past)
    seen, partitions = decoders.folded, past.recorded.partitions
    judgement = line.judgement(seen, partitions, folded.snapshots, routed=folded.facts.routed)
    decided = verdict.decide(folded.states, judgement)
    decided = (life.remember(decided, target) if line.is_soft else decided).persist()
    expected = rows.final_rows(decided, target, soft=line.is_soft, routed=mirror.routed)
    found = line.lake.rows(mirror)
    if mirror.routed:
        expected, found = (rows.with_source_tables(side, known.source_table) for side in (expected, found))
    difference = compare_rows(expected, found, target)
    log = decided.agg(F.count_if(F.col(m.PART) == 0).alias("messages"), _held_keys()).collect()[0]
    twice = stored.where(batch.within(span, "partition", "offset")).groupBy("partition", "offset").count()
    doubled = twice.where(F.col("count") > 1).agg(F.count_if(F.lit(True)).alias("twice")).collect()[0]["twice"]
    decided.unpersist()
    folded.release()
    return TableVerify(
        table=str(line.mirror),
        topic=line.table.topic,
        equal=difference.is_none and doubled == 0,
        expected=difference.expected,
        found=difference.found,
        missing=difference.missing,
        unexpected=difference.unexpected,
        different=difference.different,
        held=log["held"],
        columns=difference.columns,
        places=difference.places,
        messages=log["messages"],
        raw_snapshot=raw.head,
        mirror_snapshot=mirror.head,
        error=_doubled_error(line, doubled) if doubled else None,
    )


@dataclass(frozen=True)
class Difference:
    """How two states of a mirror differ: keys by kind, by column, and where the first of them were last written."""

    expected: int
    found: int
    missing: int
    unexpected: int
    different: int
    columns: dict[str, int]
    places: list[MessagePlace]

    @property
    def is_none(self) -> bool:
        """Whether both hold the same rows."""
        return self.missing == self.unexpected == self.different == 0


def compare_rows(expected: DataFrame, found: DataFrame, target: TableSchema) -> Difference:
    """Compare two states of a mirror key by key, value by value; reads back one row of counts.

    Args:
        expected: the rows that should be there, with our own column.
        found: the rows that are.
        target: the mirror's columns.
    """
    sides = _sides(expected, found, target)
    counted = sides.agg(*_counts(target)).collect()[0]
    names = [*target.types, CDC]
    columns = {name: counted[f"column_{at}"] for at, name in enumerate(names) if counted[f"column_{at}"]}
    kinds = ("expected", "found", "missing", "unexpected", "different")
    difference = Difference(**{kind: counted[kind] for kind in kinds}, columns=columns, places=[])
    return difference if difference.is_none else replace(difference, places=_places(sides))


def _doubled_error(line: Line, doubled: int) -> ErrorInfo:
    what = f"{line.mirror.raw} has {doubled} messages more than once."
    return ErrorInfo(code=_TWICE, message=f"{what} Another program wrote to it; only `cdcm run` may write raw.")


def _sides(expected: DataFrame, found: DataFrame, target: TableSchema) -> DataFrame:
    """Both sides of every key as structs: the fold's row and the mirror's; NULL where one has none."""
    one = Window.partitionBy("key").orderBy(F.col("row")[CDC]["offset"])
    values = [comparable(m.column(name), ddl).alias(name) for name, ddl in target.types.items()]
    keyed = [
        side.select(_key(target), F.struct(*values, CDC).alias("row"))
        for side in (side.select(*life.in_columns(side, target), CDC) for side in (expected, found))
    ]
    copies = keyed[1].withColumn("copy", F.row_number().over(one))
    left = keyed[0].select(F.col("key").alias("left_key"), F.col("row").alias("expected"))
    right = copies.select(F.col("key").alias("right_key"), F.col("row").alias("found"), "copy")
    # A second copy of a key in the mirror has no partner: it is a row too many.
    return left.join(right, (F.col("left_key") == F.col("right_key")) & (F.col("copy") == 1), "full_outer")


def _key(target: TableSchema) -> Column:
    return m.key_json(F.struct(*[m.column(name).alias(name) for name in target.key]), target).alias("key")


def comparable(value: Column, ddl: str) -> Column:
    """A value in a form that can be compared: maps, which Spark compares with nothing, as their sorted entries."""
    return F.array_sort(F.map_entries(value)) if ddl.startswith("map<") else value


def _differs(name: str) -> Column:
    both = F.col("expected").isNotNull() & F.col("found").isNotNull()
    return both & ~F.col("expected")[name].eqNullSafe(F.col("found")[name])


def _any_differs(target: TableSchema) -> Column:
    found = F.lit(False)
    for name in [*target.types, CDC]:
        found = found | _differs(name)
    return found


def _counts(target: TableSchema) -> list[Column]:
    expected, found = F.col("expected").isNotNull(), F.col("found").isNotNull()
    columns = [F.count_if(_differs(name)).alias(f"column_{at}") for at, name in enumerate([*target.types, CDC])]
    return [
        F.count_if(expected).alias("expected"),
        F.count_if(found).alias("found"),
        F.count_if(expected & ~found).alias("missing"),
        F.count_if(~expected & found).alias("unexpected"),
        F.count_if(_any_differs(target)).alias("different"),
        *columns,
    ]


def _held_keys() -> Column:
    is_open = F.exists(verdict.VIOLATIONS, lambda violation: violation["status"] == verdict.OPEN)
    return F.count_distinct(F.when(is_open, F.col(m.KEY))).alias("held")


def _places(sides: DataFrame) -> list[MessagePlace]:
    side = F.coalesce(F.col("found"), F.col("expected"))[CDC]
    unequal = ~F.col("expected").eqNullSafe(F.col("found"))
    names = ("topic", "partition", "offset")
    found = sides.where(unequal).select(*[side[name].alias(name) for name in names]).orderBy("partition", "offset")
    return [MessagePlace(**{name: row[name] for name in names}) for row in found.limit(PLACES_MAX).collect()]
