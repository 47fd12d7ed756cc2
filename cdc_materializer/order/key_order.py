"""The order of a key's messages, also where several partitions have them (changelog-semantics §2.2 to §2.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.marker.reach import reach_of
from cdc_materializer.marker.sweeps import Sweep
from cdc_materializer.order.epochs import Recorded
from cdc_materializer.order.resends import reach
from cdc_materializer.order.sweeping import behind
from cdc_materializer.order.truncates import Truncate, is_shown_before

#: The messages that are folded together: those of one key.
GROUP = "__cdc_group"
#: Where a message stands among those of its key, whatever partitions they are in: a struct that sorts.
ORDER = "__cdc_order"
#: Whether nothing but the records' timestamps says where a message stands among those of its key.
AMBIGUOUS = "__cdc_ambiguous"
#: Whether a change stands right behind one at its own position that another partition has (`is_level`).
LEVEL = "__cdc_level"
#: Whether a message is the first of its key in its partition, where others may have the key too.
LEADS = "__cdc_leads"
#: What a tombstone has of its delete.
OF_DELETE = (m.POSITION, m.LOG, m.LOG_NUMBER, m.STREAMING)
#: Whether a message is a tombstone without a delete ahead of it in its partition, or a delete without one behind it.
_ALONE, _PARTED = "__cdc_alone", "__cdc_parted"
#: The position that the key of a message without one had reached by the time at which it was written.
_REACHED = "__cdc_reached"
#: The lowest place of a message: that of the last one without a position that was written before it.
_LOWEST = "__cdc_lowest"
#: What comes behind a delete at its very place, and in this order, where partitions share the place (§2.4).
_RANKS = ("r", "c", "u")
#: As much of ORDER as is kept, with the field's types; what is in no batch has none of it (`unordered`).
_KEPT = f"struct<position:string,rank:int,time:timestamp,{m.PART}:int>"


def ordered(
    grouped: DataFrame, recorded: Recorded, truncates: Sequence[Truncate] = (), sweeps: Sequence[Sweep] = ()
) -> DataFrame:
    """Put the messages of a key in one order, in which those of each partition stay in the order of their offsets.

    Across partitions the source's positions decide: a key moves when partitions are added, or its bytes change. What
    has no position follows the message before it in its partition, and the record's timestamp decides (§2.2, §2.3).
    Beside messages that have one it also follows what was written before it in other partitions, because it may be the
    first of its own, to which its key has moved; and what was written behind it follows it: what comes again behind a
    delete without its place brings the row back. A snapshot comes between all that its partitions have before and
    behind it, and a row that it showed before the truncates that are behind it by their own places in the log
    (`reach`).

    Args:
        grouped: changes, with GROUP.
        recorded: how many partitions there are, and whether keys stay in theirs.
        truncates: those that are among the messages of each key, in the order of their positions.
        sweeps: the complete snapshots that are.
    """
    ends = F.coalesce(F.col(m.OP) == m.SWEEP, F.lit(False))
    position, rank, time, several = F.lit(""), F.lit(0), F.lit(0).cast("timestamp"), F.lit(False)
    leads = F.lit(False)
    if recorded.keys_move:
        of_partition = Window.partitionBy(GROUP, m.PARTITION).orderBy(m.OFFSET)
        so_far = of_partition.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        own = F.when(~ends, F.col(m.POSITION))
        # A tombstone behind its delete stands where that one does; any other is a delete, whose place nothing tells.
        is_tombstone = F.col(m.OP) == m.TOMBSTONE
        is_own = F.coalesce(is_tombstone & (F.lag(m.OP).over(of_partition) == "d"), F.lit(False))
        leads = F.lag(m.PARTITION).over(of_partition).isNull()
        place, written = _place(own, F.coalesce(own, F.lit("")), truncates), F.col(m.TIME)
        if recorded.forgets:
            grouped = _with_reached(_with_deletes(grouped, is_tombstone & ~is_own), own, is_own)
            # Behind its delete, though both may be of one millisecond.
            written = F.when(is_tombstone, F.col(m.TIME) + F.expr("INTERVAL 1 MICROSECOND")).otherwise(F.col(m.TIME))
            place = F.greatest(_place(own, F.coalesce(own, F.col(_REACHED), F.lit("")), truncates), F.col(_LOWEST))
        furthest, time = F.max(place).over(so_far), F.max(written).over(so_far)
        position, rank = furthest["position"], furthest["rank"]
        whole = Window.partitionBy(GROUP)
        is_change = (F.col(m.OP).isin(*m.CHANGE_OPS) | (is_tombstone & ~is_own)) & own.isNull()
        of_messages = F.when(~F.coalesce(F.col(m.OP).isin(m.WIPE, m.SWEEP), F.lit(False)), F.col(m.PARTITION))
        several = is_change & (F.min(of_messages).over(whole) != F.max(of_messages).over(whole))
    told_by = {"position": position, "rank": rank, "time": time}
    fields = [*[by.alias(name) for name, by in told_by.items()], *map(F.col, (m.OFFSET, m.PARTITION, m.PART))]
    place = F.struct(*([behind(sweeps).alias("behind"), ends.alias("ends")] if sweeps else []), *fields)
    return grouped.withColumns({ORDER: place, AMBIGUOUS: F.coalesce(several, F.lit(False)), LEADS: leads})


def _with_deletes(grouped: DataFrame, is_alone: Column) -> DataFrame:
    """Messages, of which tombstones that are parted from their deletes stand where those do in the log (§0 rule 6).

    A column may say where a row goes, and the key where its tombstones do (PartitionRouting). Such a one belongs to
    the last delete that was written no later and has none right behind it; there may be more of them than of deletes,
    where both are sent again and the deletes' partition is behind. Without any such delete it is one itself; so it is
    where that one is in its own partition, of which the order tells: a topic had deletes as rows alone (0781).
    """
    of_partition = Window.partitionBy(GROUP, m.PARTITION).orderBy(m.OFFSET)
    is_delete = (F.col(m.OP) == "d") | F.col(m.NAMELESS)
    is_parted = is_delete & ~F.coalesce(F.lead(m.OP).over(of_partition) == m.TOMBSTONE, F.lit(False))
    flags = {_ALONE: is_alone, _PARTED: is_parted}
    grouped = grouped.withColumns({name: F.coalesce(flag, F.lit(False)) for name, flag in flags.items()})
    by_time = Window.partitionBy(GROUP).orderBy(F.unix_millis(m.TIME), _ALONE, m.PARTITION, m.OFFSET)
    so_far = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    delete = F.last(F.when(F.col(_PARTED), F.struct(m.PARTITION, *OF_DELETE)), ignorenulls=True).over(so_far)
    is_told = F.col(_ALONE) & is_elsewhere(delete)
    told = {name: F.when(is_told, delete[name]).otherwise(F.col(name)) for name in OF_DELETE}
    return grouped.withColumns(told).drop(_ALONE, _PARTED)


def is_elsewhere(delete: Column) -> Column:
    """Whether a delete, NULL for none, is in another partition than a message."""
    return F.coalesce(delete[m.PARTITION] != F.col(m.PARTITION), F.lit(False))


def _with_reached(grouped: DataFrame, own: Column, is_own: Column) -> DataFrame:
    """Add _REACHED to messages that tell no place, and _LOWEST to what was written behind them.

    Of what was written in the same millisecond deletes alone count, because they may be what such a message repeats.
    """
    by_time = Window.partitionBy(GROUP).orderBy(F.unix_millis(m.TIME))
    earlier = by_time.rangeBetween(Window.unboundedPreceding, -1)
    deleted = F.max(F.when(F.col(m.OP) == "d", own)).over(by_time.rangeBetween(Window.unboundedPreceding, 0))
    # What a truncate makes of a key tells no time, and its place nothing of how far the key had got.
    shown = F.max(F.when(~F.col(m.OP).eqNullSafe(m.WIPE), own)).over(earlier)
    reached = F.coalesce(F.greatest(shown, deleted), F.lit(""))
    grouped = grouped.withColumn(_REACHED, F.when(own.isNull() & ~is_own, reached))
    is_message = F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE)
    unplaced = F.when(is_message & F.col(_REACHED).isNotNull(), _struct(F.col(_REACHED), F.lit(len(_RANKS) + 1)))
    return grouped.withColumn(_LOWEST, F.when(is_message, F.max(unplaced).over(earlier)))


def _place(own: Column, told: Column, truncates: Sequence[Truncate]) -> Column:
    """A message's place among those of other partitions: a position, and a rank among those that share it.

    A key change may leave and enter one row (1.0 and 1.00), from two partitions: its delete comes first (§0.2). What
    has no position of its own comes behind all that has the one it is told by.
    """
    ranks = [F.when(own.isNull(), len(_RANKS) + 1)]
    ranks += [F.when(F.col(m.OP) == op, at) for at, op in enumerate(_RANKS, 1)]
    place = _struct(told, F.coalesce(*ranks, F.lit(0)))
    for truncate in reversed(truncates):
        if truncate.position is not None and reach_of(truncate.position) != truncate.position:
            just_ahead = _struct(F.lit(truncate.position), F.lit(-1))
            place = F.when(is_shown_before(truncate.position), just_ahead).otherwise(place)
    return place


def is_level(previous: Mapping[str, Column], recorded: Recorded) -> Column:
    """LEVEL: whether only the time of its record puts a change behind the one ahead of it, though both tell a position.

    Changes of one statement or transaction can share one (§2.1, §0 rule 10). The number in the transaction would not
    tell: what a connector sends again has other numbers (0650), so that by them it could come ahead of what it repeats.

    Args:
        previous: of the message ahead in ORDER: operation, partition, position and signature.
        recorded: how many partitions there are, and whether keys stay in theirs.
    """
    if not recorded.keys_move:
        return F.lit(False)
    shares = F.col(m.STREAMING) & F.col(m.OP).isin("c", "u")
    for name in (m.OP, m.POSITION):
        shares = shares & (F.col(name) == previous[name])
    for name in (m.PARTITION, m.SIGNATURE):
        shares = shares & (F.col(name) != previous[name])
    return F.coalesce(shares, F.lit(False))


def _struct(position: Column, rank: Column) -> Column:
    return F.struct(position.alias("position"), rank.alias("rank"))


def unordered() -> Column:
    """The ORDER of a change that a batch makes of a row which only the mirror knows."""
    return F.lit(None).cast(_KEPT)


def place(previous: Column) -> Column:
    """What a change was ordered by, as the history keeps it: m.PLACE_TYPE.

    Of a change that the order of offsets placed only the number in the message is told. The end that a complete
    snapshot makes of a row stands right behind the change that made it: what comes back behind the snapshot, in another
    partition than its last record, can be at a lower position than that.

    Args:
        previous: the position by which the row's change before this one was ordered, if that is known.
    """
    order, is_sweep = F.col(ORDER), F.coalesce(F.col(m.OP) == m.SWEEP, F.lit(False))
    # Only where positions were asked is there a time, behind the epoch's first moment.
    is_sorted = F.coalesce(order["time"] > F.lit(0).cast("timestamp"), F.lit(False)) & ~is_sweep
    # The lowest rank is -1; a blank sorts before all that a longer position has there.
    sort = F.concat(order["position"], F.lit(" "), (order["rank"] + 1).cast("string"))
    parts = {
        "sort": F.when(is_sorted, sort).when(is_sweep, behind_all(previous)),
        "time": F.when(is_sorted, order["time"]),
        "part": order[m.PART],
        "reach": F.when(F.col(m.OP) == m.TRUNCATE, reach(F.col(m.POSITION))),
    }
    return F.struct(*[part.alias(name) for name, part in parts.items()])


def behind_all(position: Column) -> Column:
    """The place behind all that a key has at a position, as the history sorts by it; NULL where that is none."""
    return F.concat(F.nullif(position, F.lit("")), F.lit(f" {len(_RANKS) + 3}"))
