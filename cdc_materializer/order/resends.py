"""Which messages were sent before (changelog-semantics §0.2, §2.3), told from what their key has shown ahead of them.

A change of the log was, if its place lies before the highest that its key has shown, or if it is the same event again
at that place. A row of a snapshot never was by its place alone; but the very same reading again, behind a later change
of its key, is no new one. Messages that were copied twice bring such.

Nearly always the highest change and the first at its place tell whether an event was there. Where they do not (a
transaction changes a row three times at one place, a reading comes late), the message is IN_DOUBT, and the keys are
folded once more with all that they have shown (`Recorded.exact`, ADR 20). The usual batch pays for none of that.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from cdc_materializer.built_once import built_once
from cdc_materializer.changes import model as m
from cdc_materializer.changes.positions import file_name, file_of, has_own_place, moment
from cdc_materializer.marker.reach import PAIR
from cdc_materializer.order.epochs import Recorded, is_in_what_was_read, is_made_later, may_go_on, micros
from cdc_materializer.order.stamped import AGAIN, is_in_doubt, is_stamped, with_latest
from cdc_materializer.order.truncates import Truncate

REPLAYED = "__cdc_replayed"
#: Whether more would have to be known to tell if the message was sent before: of a reading, the key's past too.
IN_DOUBT = "__cdc_in_doubt"
#: Of the streaming changes of the key ahead of a message: the highest, struct<position,rank>; what it was; and the
#: first one at its position.
HIGHEST, AT_HIGHEST, _FIRST = "__cdc_highest", "__cdc_at_highest", "__cdc_first_at_highest"
#: Counts the deletes of a key ahead of a message that no place is known of: what they ended was another row.
ERA = "__cdc_era"
#: Of the deletes of the key ahead of a message that tell their places, the highest; as HIGHEST and the like.
_END, _AT_END, _FIRST_AT_END = "__cdc_end", "__cdc_at_end", "__cdc_first_at_end"
#: Counts the pieces of transactions that servers have in one of their files, along the changes of a key.
_PIECE = "__cdc_piece"
#: How often a change has come in its piece.
_TIMES = "__cdc_times"
#: The pieces that had a change before, and whether one had it as often.
_SEEN_IN, _REPEATS = "__cdc_seen_in", "__cdc_repeats"
#: Whether a change is one of those that its row shows by turns.
_SHOWN = "__cdc_shown"
#: How often what a key shows is looked at again, because a change that is applied once more shows something else.
_PASSES = 3
#: Whether a change's event was there before; and whether another server had sent the change, so that it tells nothing.
_KNOWN, _COPIED = "__cdc_known", "__cdc_copied"
#: Whether what was there before at a change's place may have been it, by its time; and whether its transaction had made
#: that change, wherever.
_SEEN_HERE, _SEEN_ANYWHERE = "__cdc_seen_here", "__cdc_seen_anywhere"
#: Whether its event was there no earlier, as far as times are told.
_NO_LATER = "__cdc_no_later"
#: In microseconds: by how much another version of a connector may tell a time more exactly, and the time of a change
#: that told none.
_SAME_TIME, _UNKNOWN = 1_000_000, 2**63 - 1
#: When a row of a snapshot was read. It tells two readings apart; of changes of the log it tells nothing.
_READ_AT = "__cdc_read_at"
#: What makes two messages of a key the same event, and two rows of snapshots the same reading; with ERA, of one row.
EVENT = (m.POSITION, m.SIGNATURE, _READ_AT)
#: What a change of a numbered transaction is on every server: replicas keep the time at which it was made.
NUMBERED = (m.LOG, m.LOG_NUMBER, m.SIGNATURE, m.SOURCE_TIME)


@built_once
def comparable() -> Column:
    """Whether a message can be held against others by its position: a change that comes from the source's log."""
    return F.col(m.STREAMING) & F.col(m.POSITION).isNotNull() & F.col(m.OP).isNotNull()


def with_highest(placed: DataFrame, before: WindowSpec, *, forgets: bool = False, stamped: bool = False) -> DataFrame:
    """Add HIGHEST, AT_HIGHEST and the like, ERA where rows are forgotten, and what `stamped` asks where some change is.

    Args:
        placed: changes in the columns of `changes.model`.
        before: the changes of one key ahead of each, in their order.
        forgets: whether a delete may come without its place. Nothing then tells if it was sent before; it ends the row
            each time, and so what the key had shown ahead of it tells nothing of the changes behind it. But for the
            deletes that tell their places: what lies before one of those is no new row.
        stamped: whether some change may be known without a place.
    """
    if stamped:
        placed = with_latest(placed, before)
    # What a truncate shows says nothing of the log that its key's changes come from.
    here, era = comparable() & (F.col(m.OP) != m.WIPE), []
    if forgets:
        placed, era = placed.withColumn(ERA, F.count_if(is_unplaced()).over(before)), [F.col(ERA)]
    mark = F.when(here, F.struct(*era, *_place()))
    told = {"signature": F.col(m.SIGNATURE), "micros": micros(), "log": F.col(m.LOG)}
    told |= {"number": F.col(m.LOG_NUMBER), "epoch": F.col(m.EPOCH)}
    shown = F.when(here, F.struct(*[part.alias(name) for name, part in told.items()]))
    # Changes of a row can share a position; a range that is sent again begins with the first of them.
    earliest = F.when(here, F.struct(*era, F.col(m.POSITION), -F.col(m.OFFSET)))
    found = placed.withColumns(
        {
            HIGHEST: F.max(mark).over(before),
            AT_HIGHEST: F.max_by(shown, mark).over(before),
            _FIRST: F.max_by(F.col(m.SIGNATURE), earliest).over(before),
            _READ_AT: F.when(F.col(m.OP) == "r", F.col(m.SOURCE_TIME)),
        }
    )
    if not forgets:
        return found
    is_end = here & (F.col(m.OP) == "d")
    end, first_end = (F.when(is_end, F.struct(*at)) for at in (_place(), (F.col(m.POSITION), -F.col(m.OFFSET))))
    ends = {_END: F.max(end), _AT_END: F.max_by(shown, end), _FIRST_AT_END: F.max_by(F.col(m.SIGNATURE), first_end)}
    found = found.withColumns({name: column.over(before) for name, column in ends.items()})
    is_of_row = F.col(HIGHEST)[ERA] == F.col(ERA)
    highest = F.when(is_of_row, F.struct(*[F.col(HIGHEST)[name].alias(name) for name in (m.POSITION, "rank")]))
    is_ended = F.coalesce(F.col(_END) > highest, F.col(_END).isNotNull())
    kept = {HIGHEST: (_END, highest), AT_HIGHEST: (_AT_END, F.col(AT_HIGHEST)), _FIRST: (_FIRST_AT_END, F.col(_FIRST))}
    return found.withColumns(
        {name: F.when(is_ended, F.col(ended)).when(is_of_row, own) for name, (ended, own) in kept.items()}
    )


def looks_for_copies(recorded: Recorded) -> bool:
    """Whether what another server sends again is looked for; of several partitions see `with_copies`."""
    return recorded.partitions == 1


def told_by_highest(recorded: Recorded, *, stamped: bool = False) -> dict[str, Column]:
    """REPLAYED and IN_DOUBT of a message, from the highest and the first change at its position alone.

    With `stamped`, of one that may be known without a place, by its time alone.
    """
    mark, highest = _mark(), F.col(HIGHEST)
    is_known = F.col(m.SIGNATURE).isin(F.col(AT_HIGHEST)["signature"], F.col(_FIRST))
    again = (mark < highest) | ((mark == highest) & is_known)
    unsure = _is_level() & (mark <= highest) & ~is_known
    if not recorded.is_final:
        unsure = unsure | (_may_go_on() & F.col("__cdc_current"))
    if looks_for_copies(recorded):
        unsure = unsure | F.coalesce(_is_ahead() & _is_other_piece(may_be_earlier=True), F.lit(False))
    unsure = (comparable() & unsure) | _is_late_reading()
    if stamped:
        unsure = F.coalesce(unsure, F.lit(False)) | is_in_doubt()
    return _flags(comparable() & again, unsure)


def told_by_all(*, stamped: bool = False) -> dict[str, Column]:
    """The same, from all that the key has shown (`with_known`, and with `stamped` `stamped.with_again`)."""
    is_known = F.col(_KNOWN)
    again = F.when(_is_level(), is_known).otherwise(F.col(m.POSITION) < _position_of_highest())
    again = again | F.col(_COPIED)
    again = F.coalesce((comparable() & again) | (_is_late_reading() & is_known), F.lit(False))
    return _flags(again | F.col(AGAIN) if stamped else again, _is_late_reading())


def is_known() -> Column:
    """Whether the same event was there (`with_known`)."""
    return F.col(_KNOWN)


def with_known(placed: DataFrame, group: str, order: str, *, forgets: bool = False) -> DataFrame:
    """Add _KNOWN, whether the same event was there, what was seen, and _COPIED, which `with_copies` may say otherwise.

    Args:
        placed: from `with_highest`.
        group: the column of the key.
        order: the column that orders its messages.
        forgets: as in `with_highest`.
    """
    counts = comparable() | (F.col(m.OP) == "r")
    same = Window.partitionBy(group, *EVENT, *([ERA] if forgets else [])).orderBy(order)
    # Whatever it shows now: the connector may have been set up otherwise since. But no later than it was: another
    # database, or one that was restored, may have made another change there.
    here = _ahead(Window.partitionBy(group, m.POSITION, m.LOG, m.LOG_NUMBER).orderBy(order))
    latest = F.max(F.when(comparable(), F.coalesce(micros(), F.lit(_UNKNOWN)))).over(here)
    was_here = F.coalesce(latest >= F.coalesce(micros(), F.lit(0)) - _SAME_TIME, F.lit(False))
    was_it = F.max(F.when(comparable(), micros())).over(_ahead(same))
    no_later = F.coalesce(was_it >= micros() - _SAME_TIME, F.lit(False))
    anywhere = Window.partitionBy(group, *NUMBERED).orderBy(order)
    seen = {_SEEN_HERE: was_here, _SEEN_ANYWHERE: _is_any(comparable(), anywhere), _NO_LATER: no_later}
    is_known = _is_any(counts, same)
    if forgets:
        is_known = is_known | (_is_before_end() & _is_any(counts, Window.partitionBy(group, *EVENT).orderBy(order)))
    return placed.withColumns({_KNOWN: is_known, **seen, _COPIED: F.lit(False)})


def was_read(recorded: Recorded) -> Column:
    """Whether the same event was there before; told of keys that are folded exactly."""
    return F.col(_KNOWN) if recorded.exact else F.lit(False)


def _is_before_end() -> Column:
    """Whether a message tells of what a delete ahead of it, which tells its place, has ended; or is that delete."""
    end = F.col(_END)[m.POSITION]
    of_log = (F.col(m.POSITION) < end) | ((F.col(m.POSITION) == end) & (F.col(m.OP) == "d"))
    found = F.when(F.col(m.OP) == "r", F.col(m.POSITION) < reach(end)).otherwise(of_log)
    return F.coalesce(found, F.lit(False))


def new_in_key(recorded: Recorded) -> Column:
    """Whether a change behind the highest of its key is no re-send, because nothing that the key has shown was it.

    One that was made later than the highest is none either if another server had sent it: then the key went back since.
    Told of keys that are folded with all of their past, or have none from before the batch that matters.
    """
    if not recorded.exact:
        return F.lit(False)
    is_told = F.lit(True) if recorded.has_past else ~F.coalesce(is_in_what_was_read(recorded), F.lit(False))
    is_new = ~F.col(_SEEN_HERE) & ~F.col(_KNOWN) & (is_made_later(F.col(AT_HIGHEST)) | ~F.col(_SEEN_ANYWHERE))
    return is_told & _may_go_on() & is_new


def is_sent_again(recorded: Recorded) -> Column:
    """Whether the same event was there at its own place, whatever time and number it tells by now.

    Informix and Db2 tell when the connector read a change, and so a later time each time; MySQL's tells no number of a
    transaction until it has begun anew since GTIDs were switched on. Where places are numbers of a log that two
    databases do not share, the event at its place is enough. Elsewhere (a binlog that was made anew by the same script,
    Vitess' ranks) another change may look the same there, later: there it is no later than it was.
    """
    if not recorded.exact:
        return F.lit(False)
    return F.col(_KNOWN) & (has_own_place(F.col(m.POSITION)) | F.col(_NO_LATER))


def with_copies(
    known: DataFrame, group: str, order: str, truncates: Sequence[Truncate], *, forgets: bool = False
) -> DataFrame:
    """Add _COPIED, whether another server has sent a change again and the key shows it or something newer (ADR 8).

    A server has all of a transaction in one piece of one file, at places of its own. What a piece has no more often
    than some earlier one, it repeats. What was shown from the same file, by a snapshot, or without a number may be
    older: then the change is applied once more, as is all that follows it from there.

    Args:
        known: from `with_known`, of a topic of one partition: of several, a truncate may be read behind the copies of
            what follows it.
        group: the column of the key.
        order: the column that orders its messages.
        truncates: those that are known.
        forgets: as in `with_highest`.
    """
    in_order = Window.partitionBy(group).orderBy(order)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    found = known.withColumn(_PIECE, F.count_if(_is_ahead() & _is_other_piece()).over(so_far))
    is_numbered = comparable() & F.col(m.LOG_NUMBER).isNotNull() & ~_is_behind() & ~F.col(_KNOWN)
    by_change = (group, m.EPOCH, *NUMBERED, *([ERA] if forgets else []))
    times = F.count_if(is_numbered).over(Window.partitionBy(*by_change, _PIECE).orderBy(order))
    found = found.withColumn(_TIMES, F.when(is_numbered, times))
    ahead = _ahead(Window.partitionBy(*by_change).orderBy(_PIECE, order))
    repeats = F.coalesce(F.max(_TIMES).over(ahead) >= F.col(_TIMES), F.lit(False))
    seen_in = F.collect_set(F.when(is_numbered, F.col(_PIECE))).over(ahead)
    found = found.withColumns({_REPEATS: repeats, _SEEN_IN: seen_in})
    found = found.withColumn(_SHOWN, _says_something() & ~F.col(_REPEATS))
    for _ in range(_PASSES):
        last = F.last(F.when(F.col(_SHOWN), _what_shows()), ignorenulls=True).over(_ahead(in_order))
        is_newer = _is_newer(last) & ~_is_ended(last, truncates)
        found = found.withColumn(_SHOWN, F.col(_SHOWN) | (F.col(_REPEATS) & ~F.coalesce(is_newer, F.lit(False))))
    return found.withColumn(_COPIED, F.col(_REPEATS) & ~F.col(_SHOWN))


def _is_behind() -> Column:
    """Whether a change is at a place before the highest of its key."""
    return F.coalesce(F.col(m.POSITION) < _position_of_highest(), F.lit(False)) & ~F.coalesce(_is_level(), F.lit(False))


def _says_something() -> Column:
    """Whether a message says something of its row, or may do so, that was not said ahead of it."""
    is_change = F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE, m.WIPE, m.SWEEP) | F.col(m.CODE).isNotNull()
    was_sent = comparable() & (_is_behind() | F.col(_KNOWN))
    return F.coalesce(is_change, F.lit(False)) & ~F.coalesce(was_sent, F.lit(False))


def _what_shows() -> Column:
    """What a message shows its row by: the place, and the piece of a transaction."""
    parts = {"position": F.col(m.POSITION), "log": F.col(m.LOG), "number": F.col(m.LOG_NUMBER), "piece": F.col(_PIECE)}
    return F.struct(*[part.alias(name) for name, part in parts.items()])


def _is_newer(last: Column) -> Column:
    """Whether what a key shows is what a change repeats, or newer than that."""
    number = F.col(m.LOG_NUMBER)
    is_later = (last["log"] == F.col(m.LOG)) & (last["number"] > number)
    is_same = (last["log"] == F.col(m.LOG)) & (last["number"] == number) & F.array_contains(_SEEN_IN, last["piece"])
    is_other_file = file_of(last["position"]) != file_of(F.col(m.POSITION))
    return (F.coalesce(is_later, F.lit(False)) | F.coalesce(is_same, F.lit(False))) & is_other_file


def _is_ended(last: Column, truncates: Sequence[Truncate]) -> Column:
    """Whether a truncate from another file than what a key shows has ended that; it may be an earlier one."""
    found = F.lit(False)
    for truncate in truncates:
        if truncate.position is not None:
            is_between = (last["position"] < truncate.position) & (F.col(m.POSITION) > truncate.position)
            found = found | (is_between & (file_of(last["position"]) != file_name(truncate.position)))
    return F.coalesce(found, F.lit(False))


def _ahead(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, -1)


def reach(position: Column) -> Column:
    """As `reach.reach_of`, of a column."""
    return F.greatest(position, F.regexp_replace(position, PAIR, "$1$2/$2"))


def is_unplaced() -> Column:
    """Whether a message is a delete without its place, or what a truncate without its place makes of a key."""
    return F.col(m.OP).isin(m.TOMBSTONE, m.WIPE) & F.col(m.POSITION).isNull() & ~is_stamped()


def _flags(replayed: Column, in_doubt: Column) -> dict[str, Column]:
    return {REPLAYED: F.coalesce(replayed, F.lit(False)), IN_DOUBT: F.coalesce(in_doubt, F.lit(False))}


def _mark() -> Column:
    return F.struct(*_place())


def _place() -> list[Column]:
    return [F.col(m.POSITION), _rank()]


def _position_of_highest() -> Column:
    return F.col(HIGHEST)[m.POSITION]


def _may_go_on() -> Column:
    """Whether a change behind the highest of its key may be new; of one place, `told_by_all` knows more."""
    is_level = F.coalesce(_is_level(), F.lit(False))
    return comparable() & may_go_on(_position_of_highest(), F.col(AT_HIGHEST)) & ~is_level


def _is_any(test: Column, window: WindowSpec) -> Column:
    """Whether something is true of a message ahead in a window."""
    return F.coalesce(F.count_if(test).over(_ahead(window)) > 0, F.lit(False))


def _is_level() -> Column:
    """Whether a change is at the place of the highest; those of a compressed transaction, or of a commit, have one."""
    return moment(F.col(m.POSITION), F.col(m.LOG)) == moment(_position_of_highest(), F.col(m.LOG))


def _is_ahead() -> Column:
    """Whether a change is at a place behind the highest of its key."""
    return comparable() & (F.col(m.POSITION) > _position_of_highest()) & ~_is_level()


def _is_other_piece(*, may_be_earlier: bool = False) -> Column:
    """Whether a change is of another numbered transaction than the highest of its key, or of another server's file.

    Args:
        may_be_earlier: only one that may have been sent before counts; within a log a higher number was not.
    """
    shown, number = F.col(AT_HIGHEST), F.col(m.LOG_NUMBER)
    # Where the highest is a truncate, or has no number, it is another one.
    is_other_log, is_other_number = ~F.col(m.LOG).eqNullSafe(shown["log"]), ~number.eqNullSafe(shown["number"])
    if may_be_earlier:
        is_other_number = number < shown["number"]
    is_other_file = (number == shown["number"]) & (file_of(F.col(m.POSITION)) != file_of(_position_of_highest()))
    return number.isNotNull() & (is_other_log | is_other_number | is_other_file)


def _is_late_reading() -> Column:
    return (F.col(m.OP) == "r") & (F.col(m.POSITION) < reach(_position_of_highest()))


@built_once
def _rank() -> Column:
    """Order among events of one key at one position: a key change deletes, then inserts (§2.4)."""
    ranks = {m.TRUNCATE: 0, m.WIPE: 0, "d": 1, m.TOMBSTONE: 2, "r": 3, "c": 4, "u": 5}
    found = F.lit(9)
    for op, rank in ranks.items():
        found = F.when(F.col(m.OP) == op, rank).otherwise(found)
    return found.alias("rank")
