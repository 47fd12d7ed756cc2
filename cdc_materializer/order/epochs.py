"""Epochs of a source: positions can be compared inside one life of a database, and not across two (§0 rule 15).

A database that was restored, or replaced by one that lags behind, sends changes from positions that were passed long
ago. Taken for re-sends they would be lost in silence. So a change at an earlier position that cannot be a re-send stops
the table (`POSITION_REGRESSION`) until someone adopts the new epoch. Only where the source's own transaction ids prove
that the change is new (GTIDs after a failover) does the table go on by itself, in a new epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.positions import FILE_LOG
from cdc_materializer.changes.shards import SERVER
from cdc_materializer.changes.signatures import at_most, is_stamped
from cdc_materializer.lanes import WIDTH, topic_of
from cdc_materializer.marker.gtids import GtidSets
from cdc_materializer.marker.unpaired import Unpaired
from cdc_materializer.order.numbered import is_unseen, may_be_read

#: Whether the database went back behind what was read: an earlier position at a later time, or another series of files.
REGRESSED = "__cdc_regressed"
#: Whether the change is at an earlier position, and new beyond doubt: its transaction id was not seen before.
CONTINUED = "__cdc_continued"

#: Positions of later epochs begin so: `~` sorts behind every letter and digit. Of more epochs they would not sort.
_PREFIX, EPOCHS_MAX = "~%04d/", 9_999
#: That keys may stand in several partitions (`Recorded.home`).
MOVES = ""
#: Where an epoch begins in partitions of another server than its own.
NEVER = 2**62


@dataclass(frozen=True)
class Recorded:
    """How far the source had got before the batch.

    Attributes:
        positions: the highest streaming position of each partition.
        times: when the source made the latest of the changes up to there, in microseconds since 1970. It need not be
            the highest: Oracle tells when a transaction made a change, and not when it was committed.
        stamps: the highest m.STAMP of what was read of each partition from its beginning on, or from its first change
            on that tells one.
        tolerance: how many microseconds later than that a change at an earlier position may have been made.
        offsets: up to where each partition was read.
        truncated: the highest position of a truncate that was applied, of each server: other partitions can be behind
            it still.
        partitions: how many the topic has; with one, offsets are all the order there is.
        topics: how many they are of.
        alone: how far partition 0 had been read while the topic had no other.
        epochs: where each epoch after the first begins in each partition, oldest first.
        logs: the logs that the epoch's positions came from, with the number of the last transaction of each.
        gtids: the transactions that were read of logs whose servers number them.
        passing: as `Marker.passing`.
        truncates: how many truncates were applied to the mirror since its log began; None where its marker is of a
            version that did not say.
        exact: whether what was sent before is told from all that a key has shown, see `resends`.
        has_past: whether keys whose past matters are folded with it.
        is_final: whether the epochs are all there are, as in a log that was read before.
        table: the source table of the mirror's rows that name none.
        routed: whether several source tables feed the mirror, see `owners`.
        sharded: whether each topic of the mirror is of a server of its own, see `changes.shards`.
        forgets: whether a delete may come without its place, see `resends.with_highest`.
        readings: how far rows of snapshots reach that were read of each partition, where there are several.
        deleted_at: when the last delete (or change, where others have places) without its place was written, in ms.
        home: how the keys of all messages so far are written, if Kafka's own partitioner has put each where it is, and
            behind how many partitions there were (`changes.home`); None before the first message, otherwise MOVES.
        mends: whether the mirror gets what a key change has left out, if its delete is read in a later batch.
        unpaired: key changes of which the mirror lacks what their deletes will tell.
    """

    positions: Mapping[int, str] = field(default_factory=dict)
    times: Mapping[int, int] = field(default_factory=dict)
    stamps: Mapping[int, str] = field(default_factory=dict)
    tolerance: int = 3_600_000_000
    offsets: Mapping[int, int] = field(default_factory=dict)
    truncated: tuple[str, ...] = ()
    truncates: int | None = None
    passing: tuple[Mapping[int, int], ...] = ()
    partitions: int = 1
    topics: int = 1
    alone: int = 0
    epochs: tuple[Mapping[int, int], ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)
    gtids: GtidSets = field(default_factory=GtidSets)
    exact: bool = False
    has_past: bool = False
    is_final: bool = False
    table: str | None = None
    routed: bool = False
    sharded: bool = False
    forgets: bool = False
    readings: Mapping[int, str] = field(default_factory=dict)
    deleted_at: Mapping[int, int] = field(default_factory=dict)
    home: str | None = MOVES
    mends: bool = False
    unpaired: tuple[Unpaired, ...] = ()

    @property
    def all_stamps(self) -> Mapping[int, str]:
        """The stamps; of partitions that a version has read which kept none, the highest that its times leave open.

        Where there are positions, times may be those of changes that have one.
        """
        unplaced = {partition: at for partition, at in self.times.items() if partition not in self.positions}
        return {**{partition: at_most(at) for partition, at in unplaced.items()}, **self.stamps}

    def is_alone(self, partition: int, offset: int) -> bool:
        """Whether a message is of the time when the topic had one partition, or has one now."""
        return self.partitions == 1 or (partition == 0 and offset < self.alone)

    def was_alone(self, partition: Column, offset: Column) -> Column:
        """As `is_alone`, of messages in a frame."""
        return F.lit(self.partitions == 1) | ((partition == 0) & (offset < self.alone))

    def was_alone_in_topic(self, partition: Column, offset: Column) -> Column:
        """Whether a message is of a time when its topic had one partition, or each topic has one now."""
        return F.lit(self.partitions == self.topics) | self.was_alone(partition, offset)

    @property
    def keys_stay(self) -> bool:
        """Whether each key has been in one partition only, so that what others have read says nothing of it."""
        return self.home is None or self.home.startswith(f"{self.partitions} ")

    @property
    def keys_move(self) -> bool:
        """Whether what one partition has shown of a key, another may bring older news of."""
        return self.partitions > 1 and not self.keys_stay


def in_epochs(changes: DataFrame, epochs: Sequence[Mapping[int, int]]) -> DataFrame:
    """Changes with their epoch, their positions made to sort behind those of earlier ones."""
    if not epochs:
        return changes
    begun = []
    for beginning in epochs:
        # A partition that an epoch does not name was added after it began.
        has_begun = _is_concerned(beginning)
        for partition, offset in beginning.items():
            if offset != NEVER:
                has_begun = F.when(F.col(m.PARTITION) == partition, F.col(m.OFFSET) >= offset).otherwise(has_begun)
        begun.append(has_begun.cast("int"))
    epoch = _sum(begun)
    prefix = F.when(epoch > 0, F.format_string(_PREFIX, epoch)).otherwise(F.lit(""))
    return changes.withColumns({m.EPOCH: epoch, m.POSITION: F.concat(prefix, m.POSITION)})


def _sum(parts: Sequence[Column]) -> Column:
    """The sum of some columns, no deeper than it has to be: a chain of thousands is too deep for Spark's planner."""
    half = len(parts) // 2
    return _sum(parts[:half]) + _sum(parts[half:]) if half else parts[0]


def within(position: str, epoch: int) -> str | None:
    """A position as its source wrote it, if it is of an epoch; None if it is of another."""
    prefix = _PREFIX % epoch if epoch > 0 else ""
    return position.removeprefix(prefix) if position.startswith(prefix) else None


def beginning_of(beginning: Mapping[int, int], recorded: Recorded, since: Iterable[int]) -> Mapping[int, int]:
    """Where an epoch begins, which is only the server's whose positions went back.

    Args:
        beginning: where it would in each partition.
        recorded: how far the source had got.
        since: the partitions that show it.
    """
    if not recorded.sharded:
        return beginning
    own = {topic_of(partition) for partition in since}
    return {partition: offset if topic_of(partition) in own else NEVER for partition, offset in beginning.items()}


def next_epoch(own: DataFrame, end: Mapping[int, int], recorded: Recorded) -> Mapping[int, int] | None:
    """Where the epoch begins whose first change goes on from an earlier position; None where there is none.

    Partitions without such a change are in the epoch from the time on at which the first one was written, and
    otherwise from the end of the batch.

    Args:
        own: the messages that the batch reads for the first time, with CONTINUED.
        end: where it ends in each partition.
        recorded: how far the source had got before.
    """
    first = own.where(CONTINUED).groupBy(m.PARTITION).agg(F.min(F.struct(m.OFFSET, m.TIME)).alias("at")).collect()
    if not first:
        return None
    since = min(row["at"][m.TIME] for row in first)
    later = own.where(F.col(m.TIME) >= F.lit(since)).groupBy(m.PARTITION).agg(F.min(m.OFFSET).alias("at")).collect()
    beginning = {**end, **{row[m.PARTITION]: row["at"] for row in later}}
    beginning |= {row[m.PARTITION]: min(row["at"][m.OFFSET], beginning[row[m.PARTITION]]) for row in first}
    return beginning_of(beginning, recorded, [row[m.PARTITION] for row in first])


def current_epoch(recorded: Recorded) -> Column:
    """The newest epoch of a change's source."""
    if not recorded.sharded:
        return F.lit(len(recorded.epochs))
    return _sum([F.lit(0), *[_is_concerned(beginning).cast("int") for beginning in recorded.epochs]])


def _is_concerned(beginning: Mapping[int, int]) -> Column:
    """Whether an epoch is one of the partition's server."""
    others = {topic_of(partition) for partition, offset in beginning.items() if offset == NEVER}
    return ~F.floor(F.col(m.PARTITION) / WIDTH).isin(*others) if others else F.lit(True)


def went_back(
    recorded: Recorded, comparable: Column, shown: Column, new_in_key: Column, again: Column
) -> dict[str, Column]:
    """REGRESSED and CONTINUED of a message.

    Args:
        recorded: how far the source had got before the batch.
        comparable: whether the message's position can be held against others.
        shown: of the change at the highest position of its key, a struct of micros, log, number and epoch.
        new_in_key: whether the change is behind that position, and new beyond doubt; `resends.new_in_key`.
        again: whether it was sent before beyond doubt; `resends.is_sent_again`.
    """
    if recorded.is_final:
        return {REGRESSED: F.lit(False), CONTINUED: F.lit(False)}
    log, is_numbered = F.col(m.LOG), F.col(m.LOG_NUMBER).isNotNull()
    # What another epoch has shown says nothing.
    are_of_files = log.startswith(FILE_LOG) & shown["log"].startswith(FILE_LOG)
    other_in_key = (shown["epoch"] == F.col(m.EPOCH)) & are_of_files & (log != shown["log"])
    behind = is_behind(recorded) & ~again
    continued = (new_in_key & is_numbered) | (behind & is_unseen(recorded))
    other = F.coalesce(other_in_key, F.lit(False)) | _is_other_series(recorded)
    regressed = (new_in_key | (behind & _is_late(recorded)) | other) & ~F.coalesce(continued, F.lit(False))
    # Messages that are read once more belong to the epoch that they were in.
    is_current = F.col("__cdc_current") & comparable & (F.col(m.EPOCH) == current_epoch(recorded))
    return {
        REGRESSED: F.coalesce(regressed & is_current, F.lit(False)),
        CONTINUED: F.coalesce(continued & is_current, F.lit(False)),
    }


def may_go_on(highest: Column, shown: Column) -> Column:
    """Whether a change behind the highest position of its key may be new, going by when it was made, and by its number.

    Args:
        highest: the highest position of the messages of its key before it; NULL where there is none.
        shown: as in `went_back`.
    """
    is_behind = (shown["epoch"] == F.col(m.EPOCH)) & (F.col(m.POSITION) < highest)
    # A binlog may tell seconds. And the numbers of two logs are in no order.
    is_level = F.col(m.LOG_NUMBER).isNotNull() & ((micros() == shown["micros"]) | (F.col(m.LOG) != shown["log"]))
    return F.coalesce(is_behind & (is_made_later(shown) | F.coalesce(is_level, F.lit(False))), F.lit(False))


def is_made_later(shown: Column) -> Column:
    """Whether a change was made later than the one at the highest position of its key, `shown` as in `went_back`.

    Changes of one row are made one after the other, so that only at its own place such a one comes again.
    """
    is_numbered_above = (F.col(m.LOG) == shown["log"]) & (F.col(m.LOG_NUMBER) > shown["number"])
    return F.coalesce(micros() > shown["micros"], F.lit(False)) | F.coalesce(is_numbered_above, F.lit(False))


def is_in_what_was_read(recorded: Recorded) -> Column:
    """Whether a change of the log is none that is new by its place alone, so that its key's past has to tell.

    It is new beyond doubt only above every position that was read, and if its transaction has a number that was not:
    another server has it at a place of its own. In a topic of several partitions the positions of all count, unless
    each key is known to have been in one only (`Recorded.keys_stay`).
    """
    is_read = (F.col(m.POSITION) <= highest_position(recorded)) | may_be_read(recorded)
    if recorded.keys_move:
        is_read = is_read | (F.col(m.POSITION) <= _highest(recorded.readings, recorded)) | _may_be_deleted(recorded)
    return F.col(m.STREAMING) & is_read


def is_late_reading(recorded: Recorded) -> Column:
    """Whether a row of a snapshot may be older than what another partition has shown of its key without a position."""
    if not recorded.keys_move:
        return F.lit(False)
    is_behind = (F.col(m.POSITION) < _highest(recorded.readings, recorded)) | _may_be_deleted(recorded)
    return (F.col(m.OP) == "r") & is_behind


def is_behind_reading(recorded: Recorded) -> Column:
    """Whether a change is from before a row of a snapshot that was read."""
    return F.coalesce(F.col(m.POSITION) < _highest(recorded.readings, recorded), F.lit(False))


def _may_be_deleted(recorded: Recorded) -> Column:
    """Whether a delete, or a change, without its place that was read may have been written behind a message."""
    return F.unix_millis(m.TIME) <= _highest(recorded.deleted_at, recorded, "bigint")


def highest_position(recorded: Recorded) -> Column:
    """The highest position that was read where a change's key can have been: of its own server, or its partition."""
    return _where_its_key_was(recorded.positions, recorded)


def is_in_time_read(recorded: Recorded) -> Column:
    """Whether a change that is known when it comes again (m.STAMP) may have been read, going by its time.

    So may a row of a snapshot of such a source. A marker of a version that did not know of them tells no stamps.
    """
    read = [partition for partition, offset in recorded.offsets.items() if offset]
    was_read = F.col(m.PARTITION).isin(read) if recorded.keys_stay else F.lit(bool(read))
    is_late = F.coalesce(F.col(m.STAMP) <= _where_its_key_was(recorded.all_stamps, recorded), was_read)
    found = is_stamped(F.col(m.STAMP)) & (F.col(m.OP) != m.TOMBSTONE) & is_late
    if not recorded.times or recorded.positions:
        return found
    latest = _where_its_key_was(recorded.times, recorded, "bigint")
    return found | ((F.col(m.OP) == "r") & F.coalesce(micros() <= latest, was_read))


def _where_its_key_was(found: Mapping[int, str] | Mapping[int, int], recorded: Recorded, ddl: str = "string") -> Column:
    if not recorded.keys_stay:
        return _highest(found, recorded, ddl)
    highest = F.lit(None).cast(ddl)
    for partition, at in found.items():
        highest = F.when(F.col(m.PARTITION) == partition, at).otherwise(highest)
    return highest


def _highest(found: Mapping[int, str] | Mapping[int, int], recorded: Recorded, ddl: str = "string") -> Column:
    """The highest of what partitions have reached: of those of a change's own server, where there are several."""
    if not recorded.sharded:
        return F.lit(max(found.values(), default=None)).cast(ddl)
    highest = F.lit(None).cast(ddl)
    for number in sorted({topic_of(partition) for partition in found}):
        own = max(at for partition, at in found.items() if topic_of(partition) == number)
        is_own = F.col(m.PARTITION).between(number * WIDTH, (number + 1) * WIDTH - 1)
        highest = F.when(is_own, own).otherwise(highest)
    return highest


def micros() -> Column:
    """When the source made a change, in microseconds since 1970."""
    return F.unix_micros(m.SOURCE_TIME)


def is_behind(recorded: Recorded) -> Column:
    """Whether a change is at an earlier position than what was read of its partition before it.

    One that is read once more, because it could not be read when it came, is not: the recorded ones have come since.
    """
    behind = F.lit(False)
    for partition, position in recorded.positions.items():
        is_unread = F.col(m.OFFSET) >= recorded.offsets.get(partition, 0)
        here = F.col(m.PARTITION) == partition
        behind = F.when(here, is_unread & (F.col(m.POSITION) < position)).otherwise(behind)
    return F.coalesce(behind, F.lit(False))


def _is_late(recorded: Recorded) -> Column:
    """Whether a change was made too late to be a re-send, which was read before in some partition of its server's.

    There it either was at no earlier position, so that `Recorded.times` are no earlier than it, or it was let pass.
    """
    latest = _highest(recorded.times, recorded, "bigint")
    return F.coalesce(micros() > latest + F.lit(recorded.tolerance), F.lit(False))


def _is_other_series(recorded: Recorded) -> Column:
    """Whether a change comes from a series of files of another name than the recorded ones."""
    known = [log for log in recorded.logs if log.startswith(FILE_LOG)]
    if not known:
        return F.lit(False)
    is_other = F.col(m.LOG).startswith(FILE_LOG) & ~F.col(m.LOG).isin(*known)
    if recorded.sharded:
        # A server that was never read has no series yet that its files could be another one than.
        is_other = is_other & F.substring_index(m.LOG, SERVER, -1).isin(*[log.rpartition(SERVER)[2] for log in known])
    return F.coalesce(is_other, F.lit(False))
