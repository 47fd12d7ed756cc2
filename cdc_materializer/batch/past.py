"""What a batch may have to look up, because its own messages do not tell it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc_materializer.changes.messages import to_changes
from cdc_materializer.changes.positions import FILE_LOG
from cdc_materializer.changes.shards import SERVER, server_of
from cdc_materializer.decoders.decoders import Decoders, Lookup
from cdc_materializer.marker.sweeps import Sweep
from cdc_materializer.offsets import Span
from cdc_materializer.order.epochs import MOVES, Recorded, in_epochs
from cdc_materializer.order.sweeping import Watch
from cdc_materializer.order.truncates import Truncate, was_passed_over
from cdc_materializer.schema.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.marker.marker import Marker


@dataclass(frozen=True)
class Past:
    """What a batch may have to look up.

    Attributes:
        lookup: where the writers of raw's messages are found.
        raw: all messages of raw before the batch, as `messages` gives them; None where there are none.
        mirror: the mirror's rows; None where it is empty.
        held: the open held messages from before the batch: key (as m.KEY), partition, offset; None for none.
        recorded: how far the source's positions had got.
        retried: the span behind which the batch has messages again that could not be read before; None where it has
            none.
        truncate: the table's setting; only under `apply` do truncates wipe rows from then on.
        marker: what the mirror remembers, where a log is folded as a whole; None where `recorded` has it.
        span: the messages that are read for the first time; None where epochs are not looked for.
        lives: whether all states of a row matter, and not the last alone (see `life`). Whose row a key is, of
            several source tables, is one that does.
        watch: how snapshots are followed; None where the table does not sweep.
        judges: whether rules may hold a row of today that they, or their like, let pass when it came.
    """

    lookup: Lookup
    raw: DataFrame | None = None
    mirror: DataFrame | None = None
    held: DataFrame | None = None
    recorded: Recorded = field(default_factory=Recorded)
    retried: Span | None = None
    truncate: str = "apply"
    marker: Marker | None = None
    span: Span | None = None
    lives: bool = False
    watch: Watch | None = None
    judges: bool = False

    @property
    def rows(self) -> int | None:
        """How many messages the batch has at most; None where nobody knows."""
        return self.span.count if self.span is not None and self.retried is None else None

    @property
    def sees_plain(self) -> bool:
        """Whether rules see columns unmasked, of which the mirror's rows have the masked values only."""
        return bool(self.lookup.options.masks.judged)

    @property
    def asks_where(self) -> bool:
        """Whether the mirror has to tell if a key has moved to another partition: no positions of its changes do."""
        return self.mirror is not None and self.recorded.keys_move and not self.recorded.positions

    @property
    def may_lack_places(self) -> bool:
        """Whether rows of the mirror may tell no position; those of a snapshot that is being read have one."""
        return bool(self.recorded.deleted_at) or not self.recorded.readings

    def routed(self) -> Past:
        """The same, for a fold of changes from several source tables, of which equal keys have other bytes."""
        return replace(self, recorded=replace(self.recorded, routed=True, home=MOVES), lives=True)

    def living(self) -> Past:
        """The same, for a fold that has all states of a row, each with what ends it in its place."""
        return replace(self, lives=True)

    def moving(self) -> Past:
        """The same, for a fold that takes no key to be bound to its partition."""
        return replace(self, recorded=replace(self.recorded, home=MOVES))

    def beginning_with(self, files: Sequence[str]) -> Past | None:
        """The same, for a fold that knows which series of files a log begins with; None where nobody has to know.

        Args:
            files: the series that the batch's changes are of, as they began.
        """
        recorded, of_server = self.recorded, dict[str, list[str]]()
        for log in files:
            of_server.setdefault(log.rpartition(SERVER)[2] if recorded.sharded else "", []).append(log)
        known = [log for log in recorded.logs if log.startswith(FILE_LOG)]
        read = {log.rpartition(SERVER)[2] if recorded.sharded else "" for log in known}
        first = {logs[0]: 0 for server, logs in of_server.items() if server not in read and len(logs) > 1}
        if not first or recorded.is_final:
            return None
        return replace(self, recorded=replace(recorded, logs={**recorded.logs, **first}))

    def forgetting(self) -> Past:
        """The same, for a fold of changes among which are deletes without their places."""
        return replace(self, recorded=replace(self.recorded, forgets=True))

    def exactly(self) -> Past:
        """The same, for a fold that tells what was sent before from all that a key has shown."""
        lookup = replace(self.lookup, options=replace(self.lookup.options, exact=True))
        return replace(self, lookup=lookup, recorded=replace(self.recorded, exact=True))

    def doubting(self) -> Past:
        """The same, for a fold that holds deletes against their `before`."""
        return replace(self, lookup=replace(self.lookup, options=replace(self.lookup.options, doubtful_keys=True)))

    def seeing_snapshots(self) -> Past:
        """The same, for changes of which each says what record of a snapshot it is, also where the table sweeps not."""
        return replace(self, lookup=replace(self.lookup, options=replace(self.lookup.options, snapshots=True)))

    def wiped(self, truncates: Sequence[Truncate]) -> tuple[Truncate, ...]:
        """Those of all truncates of the past that wipe rows: the setting of the time at which each was read counts."""
        passing = self.recorded.passing if self.marker is None else self.marker.passing_under(self.truncate)
        return self._ordered([one for one in truncates if not was_passed_over(one, passing)])

    def wiping(self, truncates: Sequence[Truncate]) -> tuple[Truncate, ...]:
        """Those of a batch's truncates that wipe rows; of a mirror's whole log, those of its past."""
        if self.marker is not None:
            return self.wiped(truncates)
        return self._ordered(truncates) if self.truncate == "apply" else ()

    def passed_over(self, truncates: Sequence[Truncate]) -> tuple[tuple[int, int], ...]:
        """Where the truncates of a mirror's whole log stand that were passed over: partition and offset."""
        if self.marker is None:
            return ()
        passing = self.marker.passing_under(self.truncate)
        return tuple((one.partition, one.offset) for one in truncates if was_passed_over(one, passing))

    def _ordered(self, truncates: Sequence[Truncate]) -> tuple[Truncate, ...]:
        """Those that have a place; without a position one is in no order with the rows of other partitions."""
        is_alone = self.recorded.is_alone
        return tuple(one for one in truncates if one.position or is_alone(one.partition, one.offset))

    def is_late(self, truncates: Sequence[Truncate]) -> bool:
        """Whether a truncate is no later than what was read: which rows it is about, only their keys' past tells."""
        read = self.recorded.positions.values()
        places = [found.position for found in truncates if found.position is not None]
        return any(own <= other and server_of(own) == server_of(other) for own in places for other in read)

    def is_known(self, truncates: Sequence[Truncate]) -> bool:
        """Whether a truncate may have been read before: none was applied that is at a higher position, nor ignored."""
        if self.recorded.passing:
            return bool(truncates)
        last = {server_of(position): position for position in self.recorded.truncated}
        places = [found.position for found in truncates if found.position is not None]
        return any(own <= last.get(server_of(own), "") for own in places)

    def has_begun(self, sweeps: Sequence[Sweep]) -> bool:
        """Whether the batch has no more than the rest of some snapshot: what it showed, only the past tells."""
        return self.span is not None and any(sweep.begins_before(self.span.start) for sweep in sweeps)


def changes_of(found: DataFrame, decoders: Decoders, target: TableSchema, past: Past) -> DataFrame:
    """Messages as changes of the target's columns, each in its epoch."""
    changes = to_changes(found, decoders.writers, target, past.lookup.options)
    return in_epochs(changes, past.recorded.epochs)
