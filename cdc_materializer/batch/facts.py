"""What a batch's folded states tell the next steps: how far the source got, and what of the past is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from cdc_materializer.batch import logs
from cdc_materializer.changes import model as m
from cdc_materializer.changes.masking import is_plain_open
from cdc_materializer.changes.positions import FILE_LOG, is_of_one
from cdc_materializer.changes.signatures import is_stamped
from cdc_materializer.fold import base, fold
from cdc_materializer.fold.fold import CURRENT, HELD, REBUILT
from cdc_materializer.fold.swept import WIPED
from cdc_materializer.marker.gtids import NEAR, GtidSets
from cdc_materializer.marker.reach import PAIR
from cdc_materializer.marker.sweeps import Sweep
from cdc_materializer.marker.unpaired import UNPAIRED_MAX, Unpaired, newest
from cdc_materializer.order import epochs, resends, truncates
from cdc_materializer.order.epochs import CONTINUED, MOVES, Recorded, current_epoch
from cdc_materializer.order.sweeping import is_after
from cdc_materializer.order.truncates import Truncate

#: A position, or a time.
Mark = TypeVar("Mark", str, int)


@dataclass(frozen=True)
class Facts:
    """What one pass over the folded batch found out.

    Attributes:
        positions: the highest streaming position of each partition.
        times: when the source made the latest change of each, but those behind what was read before (`is_behind`), in
            microseconds since 1970.
        stamps: the highest stamp of each (`Recorded.stamps`).
        readings: how far rows of snapshots reach in each partition, where there are several.
        deleted_at: when the last delete without its place was written in each, likewise; where others have places,
            the last change without one.
        truncates: the batch's truncates.
        wants_history: how many states may depend on messages of their keys from before the batch.
        wants_base: how many lack a value that the mirror's row may have.
        moved: how many lack a value that another key's row has.
        held: how many belong to keys with open held messages.
        further_parts: how many are a second change of their message.
        logs: the logs of the batch's streaming changes, each with the highest number of a transaction; see `epochs`.
        files: those of them that are series of files, as they began.
        gtids: the transactions of the batch, where their logs number them.
        continued: how many go on from an earlier position.
        epochs: all the epochs up to the end of the batch.
        doubtful: how many depend on a key that may be made up; see `changes.fillers`.
        unsure: how many may have been sent before, for all that the highest change of their key tells; see `resends`.
        unplaced: how many are deletes of which no place is known, so that they tell nothing of what follows them.
        leading: how many of those are the first messages of their keys, which matters only where keys move.
        placeless: how many are changes that tell no position.
        patched: how many show no document and say only how to make it of the one before.
        paired: how many are deletes that inserts of earlier batches wait for (`Recorded.unpaired`), and how many rows
            of earlier batches may have taken what came late (`earlier.History.mended`).
        unpaired: those inserts, and those of this batch.
        table: the first of the source tables that have fed the mirror, as far as batches tell.
        routed: whether there have been several.
        home: `Recorded.home` after the batch.
    """

    positions: Mapping[int, str] = field(default_factory=dict)
    times: Mapping[int, int] = field(default_factory=dict)
    stamps: Mapping[int, str] = field(default_factory=dict)
    readings: Mapping[int, str] = field(default_factory=dict)
    deleted_at: Mapping[int, int] = field(default_factory=dict)
    truncates: tuple[Truncate, ...] = ()
    wants_history: int = 0
    wants_base: int = 0
    moved: int = 0
    held: int = 0
    further_parts: int = 0
    logs: Mapping[str, int] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    gtids: GtidSets = field(default_factory=GtidSets)
    continued: int = 0
    epochs: tuple[Mapping[int, int], ...] = ()
    doubtful: int = 0
    unsure: int = 0
    unplaced: int = 0
    leading: int = 0
    placeless: int = 0
    patched: int = 0
    paired: int = 0
    unpaired: tuple[Unpaired, ...] = ()
    table: str | None = None
    routed: bool = False
    home: str | None = MOVES

    @property
    def tells_places(self) -> bool:
        """Whether some message tells a position, be it of a snapshot."""
        return bool(self.positions or self.readings)

    @property
    def ends_held(self) -> bool:
        """Whether the batch may publish what was held before it."""
        return bool(self.held or self.paired)

    def may_share_places(self, recorded: Recorded) -> bool:
        """Whether several changes of a row can have one place, or have none (golden cases 0483, 0644, 0764)."""
        places = (*self.positions.values(), *recorded.positions.values())
        has_none = not places and bool(self.times or recorded.times)
        return has_none or bool(self.logs or recorded.logs) or not all(map(is_of_one, places))


def wants_history(
    states: DataFrame,
    recorded: Recorded,
    sweeps: Sequence[Sweep] = (),
    *,
    lives: bool = False,
    plain: bool = False,
) -> Column:
    """Whether a change has to be held against its key's past.

    One of the log has, unless its place alone says that it is new (`epochs.is_in_what_was_read`). Where all states of a
    row matter (`life`), so does what came before a truncate that was read earlier. And whether a snapshot that began in
    an earlier batch showed a key, only the messages of that batch say. A value that a rule has to see unmasked
    (`plain`) is in messages alone. And a key without positions that has moved to another partition is ordered by the
    time of all of its messages (`Past.asks_where`).
    """
    # A row of a snapshot from before that may be a reading which was sent again, also behind a later snapshot alone.
    is_behind = (F.col(m.POSITION) < resends.reach(epochs.highest_position(recorded))) | F.col(resends.IN_DOUBT)
    is_behind = is_behind | _is_behind_own_readings(recorded)
    late = epochs.is_in_what_was_read(recorded) | ((F.col(m.OP) == "r") & is_behind) | epochs.is_late_reading(recorded)
    late = late | epochs.is_in_time_read(recorded)
    past_matters = late | F.col(HELD)
    # A tombstone may belong to a delete that was read earlier, and be a re-send with it. Where no position, or time of
    # a stamped change, was ever read nothing is one, and every tombstone of such a topic would ask for a pass over raw.
    if recorded.positions or recorded.times or not recorded.forgets:
        past_matters = past_matters | F.col(fold.ORPHAN)
    if recorded.keys_move:
        # The rows of a connector's snapshot may have none. Which of what others have read is newer their keys' past
        # tells (golden case 0642).
        is_placeless = F.col(m.POSITION).isNull() & F.col(m.OP).isin(*m.CHANGE_OPS)
        past_matters = past_matters | (is_placeless & epochs.highest_position(recorded).isNotNull())
    if base.ELSEWHERE in states.columns:
        past_matters = past_matters | F.col(base.ELSEWHERE)
    past_matters = past_matters | F.col(WIPED) | fold.is_truncated(recorded) if lives else past_matters
    if plain:
        lacks = is_plain_open(F.concat(fold.OPEN_COLUMNS, fold.MISSING_COLUMNS))
        past_matters = past_matters | (base.wants_base() & lacks & ~fold.is_delete())
    if recorded.readings:
        # What a snapshot that was read ahead of it shows of its row only the key's past tells (`fold.states`).
        leaves_out = (F.col(m.OP) == "c") & (F.size(m.UNAVAILABLE) > 0)
        past_matters = past_matters | (leaves_out & epochs.is_behind_reading(recorded))
    for sweep in sweeps:
        past_matters = past_matters | (base.wants_base() & is_after(sweep, m.PARTITION, m.OFFSET))
    return F.coalesce(past_matters & F.col(m.KEY).isNotNull() & ~F.col(REBUILT), F.lit(False))


def _is_behind_own_readings(recorded: Recorded) -> Column:
    """Whether a message is from before a row of a snapshot that its partition has shown."""
    behind = F.lit(False)
    for partition, position in recorded.readings.items():
        is_lower = resends.reach(F.col(m.POSITION)) < position
        behind = F.when(F.col(m.PARTITION) == partition, is_lower).otherwise(behind)
    return F.coalesce(behind, F.lit(False))


#: Facts that are how many states there are of a kind.
_COUNTED = (
    "wants_history",
    "wants_base",
    "moved",
    "held",
    "further_parts",
    "doubtful",
    "unsure",
    "unplaced",
    "leading",
    "placeless",
    "patched",
    "paired",
    "continued",
)


def facts_of(
    states: DataFrame,
    recorded: Recorded,
    doubtful: Sequence[Column] = (),
    sweeps: Sequence[Sweep] = (),
    *,
    lives: bool = False,
    plain: bool = False,
) -> Facts:
    """Find out about the folded states of a batch what the next steps need; one job, a few rows.

    Args:
        states: from `fold.states`.
        recorded: how far the source had got before.
        doubtful: the keys (m.KEY) that may be made up. One matters at a delete, and where its past is folded once more.
        sweeps: the complete snapshots of the batch that may have begun before it.
        lives: whether all states of a row matter, and not the last alone.
        plain: whether rules see values unmasked, which the mirror cannot tell.
    """
    history = wants_history(states, recorded, sweeps, lives=lives, plain=plain)
    made_up = F.col(m.KEY).isin(*doubtful) if doubtful else F.lit(False)
    micros, ahead = epochs.micros().alias("micros"), (-F.col(m.OFFSET)).alias("ahead")
    place = F.struct(F.col(m.POSITION).alias("position"), ahead, F.col(m.LOG_NUMBER).alias("number"), micros)
    is_own = F.col(m.STREAMING) & F.col(CURRENT)
    says_something = F.col(m.OP).isNotNull() | F.col(m.CODE).isNotNull()
    rows = (
        states.groupBy(m.PARTITION, m.LOG, (F.col(m.LOG_NUMBER) / NEAR).cast("bigint"))
        .agg(
            F.max(F.when(is_own, place)).alias("highest"),
            *_latest(recorded, is_own, F.struct(micros, ahead)),
            *logs.of_logs(is_own & (F.col(m.EPOCH) == current_epoch(recorded))),
            *logs.numbered(is_own),
            *_without_positions(recorded),
            F.count_if(CONTINUED).alias("continued"),
            F.collect_list(F.when((F.col(m.OP) == m.TRUNCATE) & F.col(CURRENT), truncates.fields())).alias("truncates"),
            F.count_if(history).alias("wants_history"),
            F.count_if(F.col(HELD)).alias("held"),
            F.count_if(F.col(CURRENT) & (F.col(m.PART) > 0)).alias("further_parts"),
            F.count_if(made_up & (fold.is_delete() | history)).alias("doubtful"),
            F.count_if(F.col(resends.IN_DOUBT) | epochs.is_in_time_read(recorded)).alias("unsure"),
            *_lacking(recorded),
            *_ends("table", F.when(F.col(CURRENT) & F.col(m.OP).isNotNull(), F.col(m.SOURCE_TABLE))),
            *_ends("home", F.when(F.col(CURRENT) & F.col(m.KEY).isNotNull() & says_something, F.col(m.HOME))),
        )
        .collect()
    )
    placed = [row for row in rows if row["highest"] and row["highest"]["position"]]
    placed.sort(key=lambda row: row["highest"]["position"])
    highest = {row[m.PARTITION]: row["highest"] for row in placed}
    tables = sorted(_found(rows, "table"))
    first = recorded.table or next(iter(tables), None)
    numbered = sorted((row for row in rows if row["number"] is not None), key=lambda row: row["number"])
    return Facts(
        positions={partition: at["position"] for partition, at in highest.items()},
        times=_times(rows, highest),
        stamps=_stamps(rows, recorded),
        readings=highest_of((row[m.PARTITION], row["reading"]) for row in rows),
        deleted_at=_deleted_at(rows, is_placed=bool(highest or recorded.positions or recorded.readings)),
        truncates=truncates.in_order([Truncate(*found) for row in rows for found in row["truncates"]]),
        logs={row[m.LOG]: row["number"] for row in numbered},
        files=logs.files_of([row for row in numbered if row[m.LOG].startswith(FILE_LOG)]),
        gtids=logs.gtids_of(rows, placed),
        epochs=recorded.epochs,
        unpaired=recorded.unpaired,
        **{name: sum(row[name] for row in rows) for name in _COUNTED},
        table=first,
        routed=recorded.routed or any(table != first for table in tables),
        home=_home_after(recorded, _found(rows, "home")),
    )


def _deleted_at(rows: Sequence[Row], *, is_placed: bool) -> dict[int, int]:
    """When the last delete without its place was written in each partition; the last change, where others have some."""
    is_mixed = is_placed or any(row["reading"] for row in rows)
    names = ("deleted_at", "changed_at") if is_mixed else ("deleted_at",)
    return highest_of((row[m.PARTITION], row[name]) for row in rows for name in names)


def _lacking(recorded: Recorded) -> list[Column]:
    """What messages do not tell themselves, and what they tell of others that lack it."""
    positions = {one.position for one in recorded.unpaired}
    is_told = base.is_half() | F.col(m.NAMELESS)
    is_waited_for = is_told & F.col(m.POSITION).isin(*positions) if positions else F.lit(False)
    counts = {
        "wants_base": base.wants_base() & ~fold.is_delete(),
        "moved": base.is_moved(),
        "patched": F.col(m.PATCH).isNotNull() & fold.effective(),
        "paired": is_waited_for,
    }
    return [F.count_if(test).alias(name) for name, test in counts.items()]


def unpaired_after(states: DataFrame, facts: Facts) -> tuple[Unpaired, ...]:
    """The inserts that wait for their deletes after a batch.

    Args:
        states: the batch's, of which some are inserts that lack values for all that is known.
        facts: the batch's; where one of the deletes came, all inserts that waited are among the states.
    """
    # Only PostgreSQL's positions are of one change each: of others another row's delete may be at the same.
    is_waiting = base.is_moved() & F.col(m.POSITION).rlike(PAIR)
    lacking = states.where(is_waiting).orderBy(F.col(m.TIME).desc())
    found = lacking.select(m.POSITION, m.PARTITION, m.OFFSET).limit(UNPAIRED_MAX).collect()
    return newest(() if facts.paired else facts.unpaired, [Unpaired(*row) for row in reversed(found)])


def _latest(recorded: Recorded, is_own: Column, told: Column) -> list[Column]:
    """The latest of what changes of the log tell of their times, if they are not behind what was read before.

    If others counted, a database that went back could go on for ever: each change no later than the one before it by
    more than the tolerance. Of those that tell no position each counts that is known when it comes again.
    """
    is_new = F.col(m.POSITION).isNotNull() & epochs.micros().isNotNull() & ~epochs.is_behind(recorded)
    stamped = F.when(is_own & is_stamped(F.col(m.STAMP)), told["micros"])
    latest, stamp = F.when(is_own & is_new, told), F.when(F.col(CURRENT), F.col(m.STAMP))
    return [F.max(latest).alias("latest"), F.max(stamped).alias("stamped"), F.max(stamp).alias("stamp")]


def _times(rows: Sequence[Row], highest: Mapping[int, Row]) -> dict[int, int]:
    """When the source made the latest change of each partition.

    One that lies behind the highest position, and is later than all before it, is behind that in the batch itself: of
    it nothing is taken, as if the batch had ended between the two. What was sent again is no later than its first.
    """
    latest = highest_of((row[m.PARTITION], row["latest"]) for row in rows)
    found = {
        partition: at["micros"] if at["ahead"] >= highest[partition]["ahead"] else highest[partition]["micros"]
        for partition, at in latest.items()
    }
    return highest_of([*found.items(), *((row[m.PARTITION], row["stamped"]) for row in rows)])


def _stamps(rows: Sequence[Row], recorded: Recorded) -> dict[int, str]:
    """The highest stamp of each partition; of one that has none, and of which earlier messages told none either, that.

    What a version has read that kept no stamps may have had any, as far as its times go.
    """
    found = highest_of((row[m.PARTITION], row["stamp"]) for row in rows)
    is_followed = {p for p in found if p in recorded.stamps or not recorded.offsets.get(p)}
    told = {p: stamp for p, stamp in found.items() if stamp != m.NOT_LOGGED or p in is_followed}
    return {p: max(stamp, recorded.all_stamps.get(p, stamp)) for p, stamp in told.items()}


def _without_positions(recorded: Recorded) -> list[Column]:
    """What messages tell that are no changes of the log: another partition may have older ones where keys move."""
    is_told, position = F.col(CURRENT) & F.lit(recorded.partitions > 1), F.col(m.POSITION)
    # Rows of one partition's snapshots are in order, so that none has to be looked into.
    reached = resends.reach(position) if recorded.partitions > 1 else position
    reading = F.when(F.col(CURRENT) & (F.col(m.OP) == "r"), reached)
    is_unplaced = F.col(m.OP).isin(m.TOMBSTONE, "d") & F.col(m.POSITION).isNull()
    delete = F.when(is_told & is_unplaced, F.unix_millis(m.TIME))
    change = F.when(is_told & F.col(m.OP).isin(*m.CHANGE_OPS) & F.col(m.POSITION).isNull(), F.unix_millis(m.TIME))
    is_alone = fold.effective() & resends.is_unplaced()
    told = [F.max(reading).alias("reading"), F.max(delete).alias("deleted_at"), F.max(change).alias("changed_at")]
    is_placeless = F.col(m.POSITION).isNull() & F.col(m.OP).isin(*m.CHANGE_OPS, m.TOMBSTONE)
    counts = {"unplaced": is_alone & ~F.col(fold.FIRST), "leading": is_alone & F.col(fold.FIRST)}
    counts |= {"placeless": is_placeless & fold.effective()}
    return [*told, *[F.count_if(test).alias(name) for name, test in counts.items()]]


def highest_of(found: Iterable[tuple[int, Mark | None]]) -> dict[int, Mark]:
    """The highest of each partition."""
    highest: dict[int, Mark] = {}
    for partition, at in found:
        if at is not None:
            highest[partition] = max(at, highest.get(partition, at))
    return highest


def _ends(name: str, value: Column) -> list[Column]:
    """The two ends of the values that there are: enough to tell whether there are several."""
    return [F.min(value).alias(f"lowest_{name}"), F.max(value).alias(f"highest_{name}")]


def _found(rows: Sequence[Row], name: str) -> set[str]:
    return {row[f"{end}_{name}"] for row in rows for end in ("lowest", "highest")} - {None}


def _home_after(recorded: Recorded, found: set[str]) -> str | None:
    """`Recorded.home` after messages whose keys are at home in these ways (m.HOME)."""
    told = {f"{recorded.partitions} {home}" if home else MOVES for home in found}
    known = told if recorded.home is None else {recorded.home, *told}
    if not known:
        return None
    return known.pop() if len(known) == 1 else MOVES
