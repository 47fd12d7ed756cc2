"""Changes to one final row a key: the rule of changelog-semantics §2.3 and §0.2 as column algebra.

Everything happens inside windows over one key in the order of its messages, so the whole fold costs one shuffle and one
sort. Three questions are answered for each message:

1. Was it sent before? A streaming change at or below the highest position that its key has shown is a re-send.
2. What is the row after it? Columns that the message does not tell keep the value of the message before.
3. What becomes of it? That is `verdict.py`: the last state of a key that may be published is the one that is.

Nothing is dropped on the way: each message leaves with its outcome, so that a batch can account for every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from cdc_materializer.built_once import built_once
from cdc_materializer.changes import model as m
from cdc_materializer.changes.shards import same_server
from cdc_materializer.errors import Code
from cdc_materializer.fold.packing import UNASKED, packed, unpacked
from cdc_materializer.fold.swept import SWEPT, WIPED, with_sweeps
from cdc_materializer.fold.truncated import without_idle_wipes
from cdc_materializer.marker.sweeps import Sweep
from cdc_materializer.order import key_order, owners, resends
from cdc_materializer.order import stamped as stamped_changes
from cdc_materializer.order.epochs import CONTINUED, MOVES, REGRESSED, Recorded, went_back
from cdc_materializer.order.key_order import AMBIGUOUS, GROUP, ORDER
from cdc_materializer.order.resends import IN_DOUBT, REPLAYED
from cdc_materializer.order.truncates import Truncate, is_before_truncate, is_from_before, is_wiped
from cdc_materializer.schema.schema import TableSchema

#: Counts the resets (deletes, and inserts of key changes, which start from nothing) that a row of the window has seen.
SEGMENT = "__cdc_segment"
#: Which insert opened the segment: partition, offset and part; NULL where none did, as behind a delete.
OPENER = "__cdc_opener"
#: Whether the message is the insert of a key change.
_MOVED = "__cdc_is_moved"
#: Whether the message is the first of its segment that leaves a row.
_BEGINS = "__cdc_begins"
#: Whether the message shows once more what the row shows.
_SHOWN_AGAIN = "__cdc_shown_again"
#: What the first message of the segment that leaves a row does not have: its segment, and its absent columns.
_BEGUN = "__cdc_begun"
#: Whether the last change of the row before this message had ended it.
GONE = "__cdc_gone"
#: Unavailable columns for which neither this message nor an earlier one of its segment has a value. Not those that the
#: segment's first message does not have: its row has NULL there, which is kept (§0 rule 5), as behind that message.
OPEN_COLUMNS = "__cdc_open"
#: Absent columns of the same kind, and those that its first message does not have.
MISSING_COLUMNS = "__cdc_missing"
#: Codes that the state has from values carried out of held messages: array<struct<column,code>>.
CARRIED = "__cdc_carried"
ORPHAN = "__cdc_orphan"
#: Whether no message of the key is ahead, not even one that cannot be read.
FIRST = "__cdc_first"
#: Whether a message ahead of it among those of its key stands in the very same place, which must never be.
TWIN = "__cdc_twin"
#: Whether the message is one of the batch's own; history that is folded again is not counted again.
CURRENT = "__cdc_current"
#: Whether the key is folded from its first message, so that the mirror's row is no base for it.
REBUILT = "__cdc_rebuilt"
#: Whether the key has open held messages from earlier batches.
HELD = "__cdc_held"
#: Whether the mirror's row is as this message of its key's past has left it, see `standing`.
STANDS = "__cdc_stands"
#: Whether this message of its key's past is held.
WAITS = "__cdc_waits"

#: DDL of a list of column names, and of what is wrong with one of them.
NO_NAMES = "array<string>"
PROBLEM = "struct<column:string,code:string>"


@dataclass(frozen=True)
class Partial:
    """What some message of the batch may leave out: the columns that alone have to be carried, and its position.

    Attributes:
        absent: columns that some writer of the batch does not have.
        unavailable: columns whose wire type has a placeholder for unknown values.
        stamped: whether a change may have no position and be known all the same (m.STAMP).
    """

    absent: tuple[str, ...] = ()
    unavailable: tuple[str, ...] = ()
    stamped: bool = False

    def union(self, other: Partial) -> Partial:
        """What either of two lots of messages may leave out."""
        absent, unavailable = (
            dict.fromkeys(self.absent + other.absent),
            dict.fromkeys(self.unavailable + other.unavailable),
        )
        return Partial(tuple(absent), tuple(unavailable), self.stamped or other.stamped)


@built_once
def _window() -> WindowSpec:
    return Window.partitionBy(GROUP).orderBy(ORDER)


@built_once
def _so_far() -> WindowSpec:
    return _window().rowsBetween(Window.unboundedPreceding, Window.currentRow)


@built_once
def _before() -> WindowSpec:
    return _window().rowsBetween(Window.unboundedPreceding, -1)


def states(
    changes: DataFrame,
    target: TableSchema,
    partial: Partial,
    recorded: Recorded,
    truncates: Sequence[Truncate] = (),
    sweeps: Sequence[Sweep] = (),
    *,
    lives: bool = False,
) -> DataFrame:
    """Each message with the state of its row after it, as far as the batch itself tells it.

    Args:
        changes: columns of `changes.model`, and CURRENT and REBUILT.
        target: the mirror's columns.
        partial: the columns that have to be carried.
        recorded: how far the source had got before.
        truncates: the truncates among the changes, once they are known.
        sweeps: the complete snapshots among the changes, once they are known.
        lives: whether the changes have in them what truncates and snapshots do to each key (`life.with_endings`).
    """
    # What ends rows of all partitions comes in one: between it and them positions decide.
    recorded = replace(recorded, home=MOVES) if lives else recorded
    changes = packed(changes, target)
    guarded = _guard(changes, recorded, truncates, sweeps, lives=lives, stamped=partial.stamped)
    if lives:
        guarded = without_idle_wipes(guarded, recorded, effective(), is_delete(), _before())
    if sweeps:
        guarded = with_sweeps(guarded, sweeps, F.col(REBUILT), lives=lives, exact=recorded.exact)
    if recorded.routed:
        guarded = owners.hold_collisions(guarded, effective(), is_delete(), _window())
    return _carry(guarded, target, partial)


# --- 1. was it sent before? ---


def _guard(
    changes: DataFrame,
    recorded: Recorded,
    truncates: Sequence[Truncate],
    sweeps: Sequence[Sweep],
    *,
    lives: bool,
    stamped: bool,
) -> DataFrame:
    # Messages without a key share no state; each gets a group of its own, so that they do not meet in one task.
    alone = F.concat(F.lit("\u0000"), F.col(m.PARTITION), F.lit(":"), F.col(m.OFFSET))
    # Truncates and snapshots either are among the messages of each key, in their places, or leave out what they end.
    wiping = truncates
    among, truncates = ((truncates, sweeps), ()) if lives else ((), truncates)
    grouped = key_order.ordered(changes.withColumn(GROUP, F.coalesce(F.col(m.KEY), alone)), recorded, *among)
    lagged = (m.OP, m.NAMELESS, m.PARTITION, m.SIGNATURE, ORDER, *_of_delete(stamped=stamped))
    previous = {name: F.lag(name).over(_window()) for name in lagged}
    # A tombstone says nothing of its own: it belongs to the delete before it, and is a re-send if that one is, and no
    # delete at all where that one does not say which row it ends.
    follows = (F.col(m.OP) == m.TOMBSTONE) & (previous[m.OP] == "d")
    repeats = (F.col(m.OP) == m.TOMBSTONE) & F.coalesce(previous[m.NAMELESS], F.lit(False))
    placed = grouped.withColumns(
        {
            m.OP: F.when(~F.coalesce(repeats, F.lit(False)), F.col(m.OP)),
            **{name: F.when(follows, previous[name]).otherwise(F.col(name)) for name in _of_delete(stamped=stamped)},
            ORPHAN: (F.col(m.OP) == m.TOMBSTONE) & (previous[m.OP].isNull() | F.col(key_order.LEADS)) & ~repeats,
            FIRST: previous[m.PARTITION].isNull(),
            TWIN: F.coalesce(previous[ORDER] == F.col(ORDER), F.lit(False)),
            key_order.LEVEL: key_order.is_level(previous, recorded),
        }
    )
    placed = resends.with_highest(placed, _before(), forgets=recorded.forgets, stamped=stamped)
    told = resends.told_by_highest(recorded, stamped=stamped)
    if recorded.exact:
        placed = resends.with_known(placed, GROUP, ORDER, forgets=recorded.forgets)
        if resends.looks_for_copies(recorded):
            placed = resends.with_copies(placed, GROUP, ORDER, truncates, forgets=recorded.forgets)
        placed = stamped_changes.with_again(placed, GROUP, ORDER) if stamped else placed
        told = resends.told_by_all(stamped=stamped)
    new_in_key, again = resends.new_in_key(recorded), resends.is_sent_again(recorded)
    is_message = ~F.coalesce(F.col(m.OP).isin(m.WIPE, m.SWEEP), F.lit(False))
    is_ended = is_message & is_from_before(wiping, resends.was_read(recorded))
    is_ended = is_ended | is_wiped(truncates) | is_truncated(recorded)
    # A row of another partition that has no position outlives a truncate; the delete that ended it before is its own.
    stays = F.coalesce(is_delete(), F.lit(False)) if recorded.partitions > 1 else F.lit(False)
    return placed.withColumns(
        {
            **told,
            AMBIGUOUS: F.col(AMBIGUOUS) | (F.col(key_order.LEVEL) & ~told[resends.REPLAYED]),
            WIPED: is_ended & ~stays,
            **went_back(recorded, resends.comparable(), F.col(resends.AT_HIGHEST), new_in_key, again),
        },
    )


def _of_delete(*, stamped: bool) -> tuple[str, ...]:
    """What a tombstone has of the delete that it follows."""
    return (*key_order.OF_DELETE, *((m.STAMP,) if stamped else ()))


def is_truncated(recorded: Recorded) -> Column:
    """Whether a message is from before a truncate that was applied earlier, in a partition that is ahead of its own.

    What is so in the truncate's own partition is folded with its key's past, among which the truncate is.
    """
    found = F.lit(False)
    for position in recorded.truncated if recorded.partitions > 1 else ():
        found = found | (same_server(F.col(m.POSITION), position) & is_before_truncate(position))
    return F.coalesce(found & ~F.col(REBUILT), F.lit(False))


# --- 2. what is the row after it? ---


@built_once
def effective() -> Column:
    """Whether the message changes a row: understood, not sent before, not truncated away."""
    is_change = F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE, m.WIPE, m.SWEEP)
    return F.coalesce(is_change & ~F.col(REPLAYED) & ~F.col(WIPED), F.lit(False))


@built_once
def is_delete() -> Column:
    """Whether the message ends its row."""
    return F.col(m.OP).isin("d", m.TOMBSTONE, m.WIPE, m.SWEEP)


def _carry(guarded: DataFrame, target: TableSchema, partial: Partial) -> DataFrame:
    deletes = F.sum((effective() & is_delete()).cast("int")).over(_before())
    guarded = guarded.withColumn(_MOVED, _is_moved() if partial.unavailable else F.lit(False))
    is_moved = F.col(_MOVED)
    inserts = F.sum(is_moved.cast("int")).over(_so_far())
    swept = F.col(SWEPT) if SWEPT in guarded.columns else F.lit(0)
    ended = F.last(F.when(effective(), is_delete()), ignorenulls=True).over(_before())
    is_first = F.coalesce(ended, F.lit(True)) | (F.col(m.OP) == "c")
    segmented = guarded.withColumns(
        {
            SEGMENT: F.coalesce(deletes, F.lit(0)) + F.coalesce(inserts, F.lit(0)) + swept,
            GONE: F.coalesce(ended, F.lit(False)),
            _BEGINS: effective() & ~is_delete() & is_first,
            _SHOWN_AGAIN: _is_shown_again() if partial.absent or partial.unavailable else F.lit(False),
        }
    )
    carried = [
        name for name in target.types if name in {*partial.absent, *partial.unavailable} and name not in target.key
    ]
    values = unpacked(target)
    place = F.struct(m.PARTITION, m.OFFSET, m.PART).alias("value")
    opens = F.when(is_moved, F.struct(F.col(SEGMENT).alias("segment"), place))
    begins = F.when(F.col(_BEGINS), F.struct(F.col(SEGMENT).alias("segment"), F.col(m.ABSENT).alias("absent")))
    lasts = segmented.withColumns(
        {OPENER: F.last(opens, ignorenulls=True).over(_so_far())}
        | ({_BEGUN: F.last(begins, ignorenulls=True).over(_so_far())} if _may_begin(partial) else {})
        | {f"__cdc_last_{at}": _last(name, values[name]) for at, name in enumerate(carried)}
        | {
            f"__cdc_good_{at}": _last_good(name, values[name])
            for at, name in enumerate(carried)
            if name in partial.absent
        }
    )
    return _resolve(lasts, target, carried, partial)


def _is_moved() -> Column:
    """Whether a message is the insert of a key change: one that leaves values out, which are the old key's.

    But where a snapshot has shown the row from after that already, they are the row's own: by then the old key may have
    been another row's. Any other insert is an upsert.
    """
    leaves_out = effective() & (F.col(m.OP) == "c") & (F.size(m.UNAVAILABLE) > 0)
    shown = F.last(F.when(effective(), F.struct(m.OP, m.POSITION)), ignorenulls=True).over(_before())
    is_read = (shown[m.OP] == "r") & (shown[m.POSITION] > resends.reach(F.col(m.POSITION)))
    return F.when(leaves_out, ~F.coalesce(is_read, F.lit(False))).otherwise(F.lit(False))


def _is_shown_again() -> Column:
    """Whether a change that was sent before is the last one that the row shows.

    A connector sends again all that is behind the first of it, so what nobody could read ahead of such a change is from
    before it, and took nothing from the row: where it is from behind it, it comes again, too.
    """
    shown = F.last(F.when(effective(), F.struct(m.POSITION, m.SIGNATURE)), ignorenulls=True).over(_before())
    is_same = (shown[m.POSITION] == F.col(m.POSITION)) & (shown[m.SIGNATURE] == F.col(m.SIGNATURE))
    return F.coalesce(F.col(REPLAYED) & resends.comparable() & is_same, F.lit(False))


def _may_begin(partial: Partial) -> bool:
    """Whether a column that some message leaves open may be one that another does not have."""
    return not set(partial.absent).isdisjoint(partial.unavailable)


def tells(name: str) -> Column:
    """Whether a message gives a value (or NULL) for a column."""
    return effective() & _says(name)


def _says(name: str) -> Column:
    silent = F.array_contains(F.col(m.ABSENT), name) | F.array_contains(F.col(m.UNAVAILABLE), name)
    return ~is_delete() & ~silent


def _problem_of(name: str) -> Column:
    found = F.filter(m.PROBLEMS, lambda problem: problem["column"] == name)
    return F.when(F.size(m.PROBLEMS) > 0, F.get(found, F.lit(0))["code"])


def _last(name: str, value: Column) -> Column:
    # A message that is held unread may have set the column: what a later one does not tell is then unknown, not old.
    # One of another row that has this one's key has not, nor a delete that does not say which row it ends.
    unread = (F.col(m.CODE) != str(Code.KEY_COLLISION)) & ~F.col(m.NAMELESS)
    told = F.struct(F.col(SEGMENT).alias("segment"), value.alias("value"), _problem_of(name).alias("code"))
    lost = F.struct(F.col(SEGMENT).alias("segment"), F.lit(None).alias("value"), F.col(m.CODE).alias("code"))
    is_told = tells(name) | (F.col(_SHOWN_AGAIN) & _says(name))
    return F.last(F.when(is_told, told).when(unread, lost), ignorenulls=True).over(_so_far())


def _last_good(name: str, value: Column) -> Column:
    told = F.struct(F.col(SEGMENT).alias("segment"), value.alias("value"))
    return F.last(F.when(tells(name) & _problem_of(name).isNull(), told), ignorenulls=True).over(_so_far())


def _resolve(lasts: DataFrame, target: TableSchema, carried: Sequence[str], partial: Partial) -> DataFrame:
    """Put the carried values into the columns and name what is still open."""
    values = unpacked(target)
    columns: dict[str, Column] = {}
    open_columns, missing, codes = [], [], []
    for at, name in enumerate(carried):
        last = _of_segment(F.col(f"__cdc_last_{at}"))
        is_open = F.array_contains(F.col(m.UNAVAILABLE), name)
        value = F.when(is_open, last["value"]).otherwise(values[name])
        # A delete stays open too: a key change may want to know the row that it ended.
        asks = is_open | is_delete()
        is_null = F.lit(False)
        if _may_begin(partial) and name in partial.absent:
            is_null = F.coalesce(F.array_contains(_of_segment(F.col(_BEGUN))["absent"], name), F.lit(False))
        open_columns.append(F.when(asks & last.isNull() & ~is_null, F.lit(name)))
        code = F.struct(F.lit(name).alias("column"), last["code"].alias("code"))
        codes.append(F.when(asks & last["code"].isNotNull(), code))
        if name in partial.absent:
            good = _of_segment(F.col(f"__cdc_good_{at}"))
            is_missing = F.array_contains(F.col(m.ABSENT), name)
            value = F.when(is_missing, good["value"]).otherwise(value)
            missing.append(F.when((is_missing & good.isNull()) | (asks & last.isNull() & is_null), F.lit(name)))
        # At a delete the columns show the row that it ends: a key change takes its unknown values from there.
        columns[name] = F.when(is_delete() & effective(), last["value"]).otherwise(value)
    row = [columns.get(name, values[name]).alias(name) for name in target.types]
    return lasts.select(
        *row,
        *[values[name].alias(name) if name in UNASKED else F.col(name) for name in m.META],
        *(
            CURRENT,
            REBUILT,
            HELD,
            GROUP,
            ORDER,
            AMBIGUOUS,
            REPLAYED,
            IN_DOUBT,
            REGRESSED,
            CONTINUED,
            WIPED,
            SEGMENT,
            _of_segment(F.col(OPENER))["value"].alias(OPENER),
            GONE,
            ORPHAN,
            FIRST,
            TWIN,
        ),
        _compact(open_columns, NO_NAMES).alias(OPEN_COLUMNS),
        _compact(missing, NO_NAMES).alias(MISSING_COLUMNS),
        _compact(codes, f"array<{PROBLEM}>").alias(CARRIED),
    )


def _of_segment(last: Column) -> Column:
    return F.when(last["segment"] == F.col(SEGMENT), last)


def _compact(parts: Sequence[Column], ddl: str) -> Column:
    return F.when(effective(), m.listed(parts, ddl)).otherwise(F.array().cast(ddl))
