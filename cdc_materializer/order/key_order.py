"""The order of a key's messages, also where several partitions have them (changelog-semantics §2.2 to §2.4)."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.marker.reach import reach_of
from cdc_materializer.marker.snapshots import Sweep
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
#: Whether a message is the first of its key in its partition, where others may have the key too.
LEADS = "__cdc_leads"
#: The position that a message's key had reached by the time at which it was written.
_REACHED = "__cdc_reached"
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
    Where deletes have none, one also follows what was written before it in other partitions: it may be the first of its
    own, to which its key has moved. A snapshot comes between all that its partitions have before and behind it, and a
    row that it showed before the truncates that are behind it by their own places in the log (`reach`).

    Args:
        grouped: changes, with GROUP.
        recorded: how many partitions there are, and whether keys stay in theirs.
        truncates: those that are among the messages of each key, in the order of their positions.
        sweeps: the complete snapshots that are.
    """
    ends = F.coalesce(F.col(m.OP) == m.SWEEP, F.lit(False))
    position, rank, time, several = F.lit(""), F.lit(0), F.lit(0).cast("timestamp"), F.lit(False)
    leads = F.lit(False)
    if recorded.partitions > 1 and not recorded.keys_stay:
        of_partition = Window.partitionBy(GROUP, m.PARTITION).orderBy(m.OFFSET)
        so_far = of_partition.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        own = F.when(~ends, F.col(m.POSITION))
        told = F.coalesce(own, F.lit(""))
        is_own = F.coalesce(F.lag(m.OP).over(of_partition) == "d", F.lit(False))
        leads = F.lag(m.PARTITION).over(of_partition).isNull()
        if recorded.forgets:
            written = F.max(own).over(Window.partitionBy(GROUP).orderBy(m.TIME))
            reached = F.when(~is_own, written)
            grouped = grouped.withColumn(_REACHED, F.coalesce(own, reached, F.lit("")))
            told = F.col(_REACHED)
        furthest, time = F.max(_place(own, told, truncates)).over(so_far), F.max(m.TIME).over(so_far)
        position, rank = furthest["position"], furthest["rank"]
        whole = Window.partitionBy(GROUP)
        # A tombstone behind its delete stands where that one does; any other is a delete, whose place nothing tells.
        is_delete_alone = (F.col(m.OP) == m.TOMBSTONE) & ~is_own
        is_change = (F.col(m.OP).isin(*m.CHANGE_OPS) | is_delete_alone) & F.col(m.POSITION).isNull()
        of_messages = F.when(~F.coalesce(F.col(m.OP).isin(m.WIPE, m.SWEEP), F.lit(False)), F.col(m.PARTITION))
        several = is_change & (F.min(of_messages).over(whole) != F.max(of_messages).over(whole))
    told_by = {"position": position, "rank": rank, "time": time}
    fields = [*[by.alias(name) for name, by in told_by.items()], *map(F.col, (m.OFFSET, m.PARTITION, m.PART))]
    place = F.struct(*([behind(sweeps).alias("behind"), ends.alias("ends")] if sweeps else []), *fields)
    return grouped.withColumns({ORDER: place, AMBIGUOUS: F.coalesce(several, F.lit(False)), LEADS: leads})


def _place(own: Column, told: Column, truncates: Sequence[Truncate]) -> Column:
    """A message's place among those of other partitions: a position, and a rank among those that share it.

    A key change may leave and enter one row (1.0 and 1.00), from two partitions: its delete comes first (§0.2). What
    has no position of its own comes behind all that has the one it is told by.
    """
    ranks = [F.when(own.isNull(), len(_RANKS) + 1)]
    ranks += [F.when(F.col(m.OP) == op, at) for at, op in enumerate(_RANKS, 1)]
    place = F.struct(told.alias("position"), F.coalesce(*ranks, F.lit(0)).alias("rank"))
    for truncate in reversed(truncates):
        if truncate.position is not None and reach_of(truncate.position) != truncate.position:
            just_ahead = F.struct(F.lit(truncate.position).alias("position"), F.lit(-1).alias("rank"))
            place = F.when(is_shown_before(truncate.position), just_ahead).otherwise(place)
    return place


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
