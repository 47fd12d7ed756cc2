"""Which snapshots in a topic tell what rows are gone (`docs/adr/0012`).

Pure. One that is whole does: its first record and its last are known, and it is no older than what was read before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cdc_materializer.marker.reach import is_passed
from cdc_materializer.marker.snapshots import Followed, Place, Reached, Records, Snapshot, Swept

#: So many of the last snapshots that have swept a marker remembers: with a hundred partitions each takes 2 KB.
SWEPT_MAX = 20


@dataclass(frozen=True)
class End:
    """The last record of a snapshot, which stands for the deletes that the snapshot tells of.

    Attributes:
        topic, partition, offset: its coordinates.
        position: where the source says the snapshot was taken.
        epoch: the epoch of that position.
        micros: when the source says it was read, in microseconds since 1970.
        written: the message's time, likewise.
    """

    topic: str
    partition: int
    offset: int
    position: str | None
    epoch: int
    micros: int | None
    written: int | None


@dataclass(frozen=True)
class Sweep:
    """A whole snapshot: a row that was there before it, and of which it says nothing, is gone.

    Attributes:
        begins: its first record in each partition.
        ends: its last one.
        place: the message of the batch that completed it: partition and offset.
        is_past: whether an earlier batch completed it: the mirror's rows are then those that it left.
        end: its last record, where the rows that it ends are kept or told of.
        position: of its records; None where the source gives none.
    """

    begins: Mapping[int, int]
    ends: Mapping[int, int]
    place: Place | None = None
    is_past: bool = False
    end: End | None = None
    position: str | None = None

    @property
    def last(self) -> Place:
        """Where its last record is; of several partitions in the lowest, in any cut of the log."""
        partition = min(self.ends)
        return partition, self.ends[partition]

    def begins_before(self, start: Mapping[int, int]) -> bool:
        """Whether some of its records lie before these offsets."""
        return any(begin < start.get(partition, 0) for partition, begin in self.begins.items())


@dataclass(frozen=True)
class SweepPlan:
    """What a batch says of snapshots.

    Attributes:
        sweeps: those that it completes.
        unreconciled: messages of the batch at which one turned out to be unusable: partition and offset.
        waiting: messages at which one ended that may yet turn out to be usable.
        running: those that go on.
        tables: the source tables that the topic has shown; no more than two of them, as one too many is
            enough.
        is_unsure: whether one could be used if a partition was added behind it, which only the whole log tells.
        swept: the last snapshots that have swept, those of earlier batches too.
    """

    sweeps: tuple[Sweep, ...] = ()
    unreconciled: tuple[Place, ...] = ()
    waiting: tuple[Place, ...] = ()
    running: tuple[Snapshot, ...] = ()
    tables: tuple[str, ...] = ()
    is_unsure: bool = False
    swept: tuple[Swept, ...] = ()

    @property
    def followed(self) -> Followed:
        """What the marker is to remember."""
        return Followed(self.running, self.tables, self.swept)

    def remembering(self, known: Sequence[Swept], anew: Sequence[Swept] = ()) -> SweepPlan:
        """The plan, with what earlier batches have swept.

        Args:
            known: those snapshots, oldest first.
            anew: those of them that were planned anew: with today's partitions some may not look whole.
        """
        own = [Swept(one.position, one.begins, one.ends) for one in self.sweeps]
        lost = [one for one in anew if one not in own]
        found = (*self.sweeps, *[Sweep(one.begins, one.ends, position=one.position) for one in lost])
        sweeps = tuple(sorted(found, key=lambda one: (one.position or "", one.last[1]))) if lost else self.sweeps
        return replace(self, sweeps=sweeps, swept=(*[one for one in known if one not in own], *own)[-SWEPT_MAX:])

    def since(self, own: Sequence[Sweep]) -> tuple[Sweep, ...]:
        """The sweeps of a whole log, those but `own`, which are a batch's, as of the past."""
        of_batch = [(sweep.begins, sweep.ends) for sweep in own]
        return tuple(replace(one, is_past=(one.begins, one.ends) not in of_batch) for one in self.sweeps)

    def without(self, unusable: Sequence[Sweep]) -> SweepPlan:
        """The plan, some of whose sweeps have turned out to be impossible."""
        places = tuple(sweep.place for sweep in unusable if sweep.place is not None)
        kept = tuple(sweep for sweep in self.sweeps if sweep not in unusable)
        return replace(self, sweeps=kept, unreconciled=self.unreconciled + places)


@dataclass
class _Found:
    sweeps: list[Sweep] = field(default_factory=list)
    unreconciled: list[Place] = field(default_factory=list)

    def close(self, snapshot: Snapshot, place: Place | None) -> None:
        """Sweep with a snapshot, or tell why not."""
        if snapshot.is_fresh:
            return
        if snapshot.is_whole:
            self.sweeps.append(Sweep(snapshot.begins, snapshot.ends, place, position=snapshot.position))
        elif place is not None:
            self.unreconciled.append(place)


def plan_sweeps(
    running: Sequence[Snapshot],
    records: Sequence[Records],
    reached: Mapping[int, Reached],
    *,
    is_first: bool,
    alone: int = 0,
) -> SweepPlan:
    """Follow snapshots through one batch.

    Args:
        running: what the batch before left; none at the first.
        records: the batch's snapshot records, incremental ones left out.
        reached: every partition of the topic.
        is_first: whether the topic has nothing before the batch.
        alone: how far partition 0 had been read while the topic had no other: what lies before that is in one order.
    """
    if len(reached) == 1:
        return _in_order(running, records, reached, is_first=is_first)
    early = [one for one in records if one.partition == 0 and one.last < alone]
    begun = [one for one in running if one.ends.keys() == {0} and one.ends[0] < alone]
    if not early and not begun:
        return _by_position(running, records, reached, is_first=is_first)
    streamed = reached[0].streamed
    state = replace(reached[0], streamed=streamed if streamed is not None and streamed[0] < alone else None)
    ahead = _in_order(begun, [one.within(alone) for one in early], {0: state}, is_first=is_first)
    others = [one for one in running if one not in begun]
    behind = _by_position(
        [*others, *ahead.running], [one for one in records if one not in early], reached, is_first=is_first
    )
    return replace(behind, sweeps=ahead.sweeps + behind.sweeps, unreconciled=ahead.unreconciled + behind.unreconciled)


# --- a topic of one partition: the order of its messages is the connector's
# --------------------------------------------


def _in_order(
    running: Sequence[Snapshot], records: Sequence[Records], reached: Mapping[int, Reached], *, is_first: bool
) -> SweepPlan:
    (partition, state), found = next(iter(reached.items())), _Found()
    # The first row from the log behind each lot of records: at it the connector is done with their snapshot.
    logged = {one.ends[partition]: state.streamed[0] for one in running if state.streamed is not None}
    logged |= {one.last: one.followed for one in records if one.followed is not None}
    current = running[-1] if running else None
    for part in sorted((part for one in records for part in _parts(one)), key=lambda part: part.ends[partition]):
        begin = part.begins[partition]
        if current is not None and logged.get(current.ends[partition], begin) < begin:
            found.close(current, (partition, logged[current.ends[partition]]))
            current = None
        if part.has_begin or current is None or current.position != part.position:
            # What had begun before was interrupted, and says nothing.
            current = replace(part, is_fresh=is_first and begin == state.first)
        else:
            current = current.joined(part)
        if current.has_end:
            found.close(current, (partition, current.ends[partition]))
            current = None
    if current is not None and current.ends[partition] in logged:
        found.close(current, (partition, logged[current.ends[partition]]))
        current = None
    running = (current,) if current is not None else ()
    return SweepPlan(tuple(found.sweeps), tuple(found.unreconciled), running=running)


def _parts(records: Records) -> Iterator[Snapshot]:
    """Cut a batch's records of one position behind each end; of what is begun again only the last try counts."""
    start = records.first
    for end in (*records.ends, None):
        last = records.last if end is None else end
        begin = max((offset for offset in records.begins if start <= offset <= last), default=None)
        if last >= start:
            first = start if begin is None else begin
            yield Snapshot(
                position=records.position,
                begins={records.partition: first},
                ends={records.partition: last},
                ahead={records.partition: records.ahead[first]} if first in records.ahead else {},
                has_begin=begin is not None,
                has_end=end is not None,
            )
        start = last + 1


# --- several partitions: the snapshot's position says what belongs together
# --------------------------------------------


def _by_position(
    running: Sequence[Snapshot], records: Sequence[Records], reached: Mapping[int, Reached], *, is_first: bool
) -> SweepPlan:
    found, own = _Found(), _own(records)
    # Without a position nothing says what came before a snapshot in another partition.
    found.unreconciled += [(one.partition, end) for one in records if one.position is None for end in one.ends]
    begun = {one.position: one for one in running}
    snapshots = begun | {
        position: begun[position].joined(one) if position in begun else one for position, one in own.items()
    }
    left, waiting, is_unsure = [], [], False
    for position, snapshot in sorted(snapshots.items(), key=lambda item: item[0] or ""):
        known = replace(snapshot, is_fresh=_is_fresh(snapshot, begun.get(position), reached, is_first=is_first))
        later = [one for one in snapshots.values() if (one.position or "") > (position or "")]
        is_over = all(_is_past(position or "", partition, state, later) for partition, state in reached.items())
        ended = [(one.partition, one.ends[-1]) for one in records if one.position == position and one.ends]
        if is_over:
            # Rows of a partition without a record of it have no place before or behind it, unless it was added since.
            missing = {p: state.begun for p, state in reached.items() if p not in known.begins}
            is_everywhere = all(is_passed(position or "", begun or "") for begun in missing.values())
            is_unsure |= known.is_whole and not known.is_fresh and None in missing.values()
            place = _place(ended, position, records, reached) if known.has_end or not later else None
            found.close(replace(known, has_end=known.has_end and is_everywhere), place)
        else:
            left.append(known)
            # It may have records in partitions that are not read so far: until then it cannot be told.
            waiting += [] if known.is_fresh else ended
    return SweepPlan(
        tuple(found.sweeps), tuple(found.unreconciled), tuple(waiting), running=tuple(left), is_unsure=is_unsure
    )


def _own(records: Iterable[Records]) -> dict[str, Snapshot]:
    found: dict[str, Snapshot] = {}
    for one in records:
        if one.position is None:
            continue
        part = Snapshot(
            one.position,
            {one.partition: one.first},
            {one.partition: one.last},
            {one.partition: one.ahead[one.first]} if one.first in one.ahead else {},
            bool(one.begins),
            bool(one.ends),
        )
        found[one.position] = found[one.position].joined(part) if one.position in found else part
    return found


def _is_fresh(snapshot: Snapshot, was: Snapshot | None, reached: Mapping[int, Reached], *, is_first: bool) -> bool:
    """Whether the topic begins with a snapshot, also in the partitions that were not read when it was as it `was`."""
    new = {p: state.first for p, state in reached.items() if was is None or p not in was.begins}
    opens = all(first is None or first == snapshot.begins.get(p) for p, first in new.items())
    return (was.is_fresh if was else is_first) and not snapshot.ahead and opens


def _is_past(position: str, partition: int, state: Reached, later: Iterable[Snapshot]) -> bool:
    """Whether a partition shows something that the connector sent after a snapshot."""
    return is_passed(position, state.position or "") or any(partition in one.begins for one in later)


def _place(
    ended: Sequence[Place], position: str | None, records: Iterable[Records], reached: Mapping[int, Reached]
) -> Place | None:
    """A message of the batch that can speak for a snapshot: its end, else one of its records, else a later change."""
    own = [(one.partition, one.last) for one in records if one.position == position]
    later = [(partition, state.streamed[0]) for partition, state in reached.items() if state.streamed is not None]
    return next(iter([*ended, *own, *later]), None)
