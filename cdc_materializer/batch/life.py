"""What each change found of its row and what it made of it, for tables that keep more than the last state of a row.

With `deletes: soft` a row outlives its delete, with `history: true` every change is kept. Both need what readers saw of
the row just before a change: its last state that was published or, inside a batch, would have been, had the batch ended
there. Then any cut of the log gives the same deleted rows and the same history. Other tables pay for nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from cdc_materializer.batch import doubts, verdict
from cdc_materializer.changes import model as m
from cdc_materializer.changes.image import PROBLEMS_TYPE
from cdc_materializer.changes.shards import told_server
from cdc_materializer.decode.fit import conformed, ddl_of
from cdc_materializer.errors import InvariantBroken
from cdc_materializer.fold import base, fold, truncated
from cdc_materializer.fold.fold import CURRENT, HELD, NO_NAMES, REBUILT
from cdc_materializer.marker.sweeps import Sweep
from cdc_materializer.merge import CDC, DELETED
from cdc_materializer.order import key_order
from cdc_materializer.order.key_order import GROUP, ORDER
from cdc_materializer.order.resends import REPLAYED
from cdc_materializer.order.sweeping import NUMBER
from cdc_materializer.order.truncates import Truncate, is_before_truncate
from cdc_materializer.schema.schema import TableSchema

#: What a change has that comes in no message of its own.
_PLACED = {
    m.OP: "string",
    m.TOPIC: "string",
    m.POSITION: "string",
    m.PARTITION: "int",
    m.OFFSET: "bigint",
    m.EPOCH: "int",
    m.SOURCE_TIME: "timestamp",
    m.TIME: "timestamp",
    m.SOURCE_TABLE: "string",
}
_SERVER = "__cdc_server"
#: What readers saw of the row before the change, and the position by which that was ordered: struct<live,row,position>;
#: NULL where only the mirror's row can tell.
BEFORE = "__cdc_before"
#: Whether the change did something to the row that readers see: a good state, or the end of a live row.
APPLIED = "__cdc_applied"
#: Whether the change is the last applied one of its row; a delete that only ends a held state is none.
WRITTEN = "__cdc_written"
#: How many truncates are looked at: each is three sums of one query, which is planned and compiled with all of them.
_TRUNCATES_MAX = 100


def outlives(
    states: DataFrame, truncates: Sequence[Truncate], earlier: Sequence[Truncate], read: Mapping[int, str] | None
) -> bool:
    """Whether a row may outlive a truncate by what that has left out of a batch, because it ends it.

    A database that was restored begins at lower positions. What its rows replace may be at higher ones, and a truncate
    leaves those alone. So all states of a row matter there, each with what ends it in its place; and so they may where
    there are too many truncates to look at each, as there are of a table that is emptied each night.

    Where it ends the last change of a row of another partition, and an earlier one tells no position, the row would be
    left as that had it.

    It is asked of a truncate's whole partition, and not key by key: then one count over the batch is enough. Where it
    is so of no key, but of two keys together, the batch is folded with all states in vain, and comes to the same.

    Args:
        states: from `fold.states`.
        truncates: those of the batch that wiped rows.
        earlier: those of the past of its keys.
        read: how far the log had been read before the batch in each partition; None where there is no row from then.
    """
    placed = [(one, one.position) for one in (*truncates, *earlier) if one.position is not None]
    if len(placed) > _TRUNCATES_MAX:
        return True
    if not placed:
        return False
    counts = []
    for truncate, position in placed:
        is_ahead = (F.col(m.PARTITION) == truncate.partition) & (F.col(m.OFFSET) < truncate.offset)
        is_told = is_ahead & F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE) & ~F.col(REPLAYED)
        is_behind = F.coalesce(~is_before_truncate(position), F.lit(False))
        is_elsewhere = (F.col(m.PARTITION) != truncate.partition) & F.col(m.OP).isin(*m.CHANGE_OPS)
        is_nowhere = is_elsewhere & F.col(m.POSITION).isNull() & ~F.col(REPLAYED)
        counts += [F.count_if(test) for test in (is_told & ~is_behind, is_told & is_behind, is_nowhere)]
    found = states.agg(*[count.alias(f"__cdc_{at}") for at, count in enumerate(counts)]).collect()[0]
    for at, (truncate, position) in enumerate(placed):
        # Rows of snapshots alone do not tell how far the log was read.
        is_late = read is not None and at < len(truncates) and position <= read.get(truncate.partition, position)
        earlier_places, later_places, without = found[3 * at : 3 * at + 3]
        if without or (earlier_places and (later_places or is_late)):
            return True
    return False


def live_rows(mirror: DataFrame, target: TableSchema) -> DataFrame:
    """The rows of a mirror that are not deleted; a mirror with hard deletes has no others.

    In the columns of the target, of which the batch may have brought some, or widened them, since their snapshot.
    """
    return without_deleted(mirror).select(*in_columns(mirror, target), CDC)


def in_columns(rows: DataFrame, target: TableSchema) -> list[Column]:
    """The columns of a target from rows of an earlier schema; those that it did not have are NULL."""
    types = {field.name: ddl_of(field.dataType) for field in rows.schema}
    found = {
        name: conformed(m.column(name), types[name], ddl) if name in types else F.lit(None).cast(ddl)
        for name, ddl in target.types.items()
    }
    return [column.alias(name) for name, column in found.items()]


def without_deleted(mirror: DataFrame) -> DataFrame:
    """The rows of a mirror that are not deleted, in all its columns."""
    cdc = mirror.schema[CDC].dataType if CDC in mirror.columns else None
    if isinstance(cdc, StructType) and DELETED in cdc.names:
        return mirror.where(~F.coalesce(F.col(CDC)[DELETED], F.lit(False)))
    return mirror


def with_endings(
    changes: DataFrame,
    target: TableSchema,
    truncates: Sequence[Truncate],
    earlier: Sequence[Truncate],
    sweeps: Sequence[Sweep] = (),
    *,
    live: DataFrame | None = None,
    sharded: bool = False,
) -> DataFrame:
    """Add what truncates and complete snapshots do to each key, as deletes at their own places.

    Whether a snapshot has shown a key, and so does nothing to it, `fold.states` finds out.

    Args:
        changes: what `fold.states` takes, with the past of the keys that are REBUILT.
        target: the mirror's columns.
        truncates: those that wipe rows.
        earlier: the ones among them from before the batch; keys without their past have these behind them.
        sweeps: complete snapshots, with their ends; those of the past are behind keys without theirs too.
        live: the mirror's live rows, with our own column; None where it has none.
        sharded: whether rows are of several servers: what ends rows of another one is in no order with a row.
    """
    if not truncates and not sweeps:
        return changes
    # Materialised, because Spark would decode the messages once more for the second use.
    known = changes.localCheckpoint()
    is_change = F.col(m.KEY).isNotNull() & F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE)
    kept = (*target.key, REBUILT)
    server = F.max(told_server(F.col(m.POSITION))).alias(_SERVER)
    keys = known.where(is_change).groupBy(m.KEY).agg(*[F.first(m.column(name)).alias(name) for name in kept], server)
    own_truncates = [truncate for truncate in truncates if truncate not in earlier]
    own = _places(own_truncates, [sweep for sweep in sweeps if not sweep.is_past])
    ends = keys.select("*", F.explode(F.when(F.col(REBUILT), _places(truncates, sweeps)).otherwise(own)).alias("at"))
    if sharded:
        is_own = told_server(F.col("at")[m.POSITION]) == F.col(_SERVER)
        ends = ends.where(F.coalesce(is_own, F.lit(True)))
    wipes = ends.select(
        *[m.column(name) for name in (m.KEY, *target.key, REBUILT)],
        *[F.col("at")[name].alias(name) for name in _PLACED],
        F.lit(0).alias(m.PART),
        # No snapshot says how far the log has come.
        (F.col("at")[m.OP] == m.WIPE).alias(m.STREAMING),
        *[F.array().cast(NO_NAMES).alias(name) for name in (m.ABSENT, m.UNAVAILABLE)],
        F.array().cast(PROBLEMS_TYPE).alias(m.PROBLEMS),
        F.lit(0).cast("bigint").alias(m.SIGNATURE),
        *[F.lit(False).alias(name) for name in (CURRENT, HELD, m.NAMELESS)],
    )
    if live is not None and own_truncates:
        wipes = _with_there(wipes, live, target)
    return known.unionByName(wipes, allowMissingColumns=True)


def _with_there(wipes: DataFrame, live: DataFrame, target: TableSchema) -> DataFrame:
    """Add `truncated.THERE`, for keys of which the batch alone is folded."""
    asked = wipes.where(~F.col(REBUILT))
    there = truncated.row_from(F.col(CDC), F.lit(False)).alias(truncated.THERE)
    known = base.of_keys(live, asked, target).select(m.row_key(target).alias("__cdc_there_key"), there)
    is_asked = ~F.col(REBUILT) & (F.col(m.KEY) == F.col("__cdc_there_key"))
    return wipes.join(known, is_asked, "left").drop("__cdc_there_key")


def _places(truncates: Sequence[Truncate], sweeps: Sequence[Sweep]) -> Column:
    """What ends rows, as the columns _PLACED of a change."""
    parts: list[tuple[str | int | None, ...]] = [
        (m.WIPE, one.topic, one.position, one.partition, one.offset, one.epoch, one.micros, 0, one.table)
        for one in truncates
    ]
    for sweep in sweeps:
        end = sweep.end
        if end is None:
            what = "A complete snapshot's last record is not among the messages that it was found in."
            raise InvariantBroken(what, "Report this as a bug; nothing was written.")
        place = (end.topic, end.position, end.partition, end.offset, end.epoch)
        parts.append((m.SWEEP, *place, end.micros, end.written, None))
    ddl = f"array<struct<{','.join(f'{name}:{kind}' for name, kind in _PLACED.items())}>>"
    return F.array(
        *[F.struct(*[_literal(part, kind) for part, kind in zip(one, _PLACED.values(), strict=True)]) for one in parts]
    ).cast(ddl)


def _literal(part: str | int | None, kind: str) -> Column:
    micros = F.lit(part).cast("bigint")
    return F.timestamp_micros(micros) if kind == "timestamp" else F.lit(part).cast(kind)


def ended_rows(found: DataFrame, sweeps: Sequence[Sweep], target: TableSchema) -> DataFrame:
    """Rows that only the mirror knows, as the changes that their sweeps (NUMBER) make of them.

    Args:
        found: key columns and NUMBER; with all others and CDC where BEFORE is wanted.
        sweeps: those of the batch, with their ends.
        target: the mirror's columns.
    """
    at = F.element_at(_places((), sweeps), F.col(NUMBER) + 1)
    before = known_row(target) if CDC in found.columns else F.lit(None)
    none = {m.TRANSACTION: F.lit(None), ORDER: key_order.unordered()}
    return found.withColumns({name: at[name] for name in _PLACED} | {BEFORE: before, **none})


def known_row(target: TableSchema) -> Column:
    """A live row of the mirror, as BEFORE has it."""
    row = F.struct(*[m.column(name).alias(name) for name in target.types])
    return F.struct(F.lit(True).alias("live"), row.alias("row"), F.col(CDC)["position"].alias("position"))


def remember(decided: DataFrame, target: TableSchema) -> DataFrame:
    """Add BEFORE, APPLIED and WRITTEN to what `verdict.decide` gave."""
    ordered = Window.partitionBy(GROUP).orderBy(ORDER)
    row = F.struct(*[m.column(name).alias(name) for name in target.types])
    # A delete that ends no good state is none of those that pass; the row is gone after it all the same.
    ends = fold.effective() & fold.is_delete()
    if doubts.DOUBTED in decided.columns:
        ends = ends & ~F.col(doubts.DOUBTED)
    shows = F.col(verdict.PASSES) | ends
    place = F.col(ORDER)["position"].alias("position")
    shown = F.when(shows, F.struct((~fold.is_delete()).alias("live"), row.alias("row"), place))
    before = F.last(shown, ignorenulls=True).over(ordered.rowsBetween(Window.unboundedPreceding, -1))
    ends_a_row = F.coalesce(F.col(BEFORE)["live"], F.lit(True))
    applied = F.col(verdict.PASSES) & (~fold.is_delete() | ends_a_row)
    last = F.max(F.when(F.col(APPLIED), F.col(ORDER))).over(Window.partitionBy(GROUP))
    known = decided.withColumn(BEFORE, before).withColumn(APPLIED, applied)
    is_last = F.col(APPLIED) & (F.col(ORDER) == last)
    if verdict.MAY_CHANGE in decided.columns:
        is_last = is_last & F.col(verdict.MAY_CHANGE)
    return known.withColumn(WRITTEN, F.coalesce(is_last, F.lit(False)))


def is_mark() -> Column:
    """Whether a delete ends a row of which only the mirror knows the values."""
    return F.col(WRITTEN) & fold.is_delete() & F.col(BEFORE).isNull()


def last_values(name: str) -> Column:
    """A column as the row has it after the change, where a delete keeps what was there before."""
    return F.when(fold.is_delete(), F.col(BEFORE)["row"][name]).otherwise(m.column(name))
