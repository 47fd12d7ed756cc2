"""What the steps of the line hand to each other: where a table's way leads, what was loaded, what was decided."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from cdc_materializer.batch.judgement import Judgement
from cdc_materializer.batch.rows import first_messages
from cdc_materializer.changes.formats import Format, find
from cdc_materializer.changes.options import Options
from cdc_materializer.changes.shards import Shard
from cdc_materializer.config import TableConfig
from cdc_materializer.config.formats import AUTO
from cdc_materializer.contract import Contract
from cdc_materializer.contract.judge import compile_to_judge
from cdc_materializer.decode.naming import ID_BYTES
from cdc_materializer.decoders.decoders import Lookup
from cdc_materializer.errors import CommitConflict, ConfigError, LakeUnavailable, UsageError
from cdc_materializer.holes import accepted
from cdc_materializer.lake.lake import MAIN, Lake, LakeTable
from cdc_materializer.lanes import topic_of
from cdc_materializer.line.aliases import Aliases, Pair, final_names, gather
from cdc_materializer.line.schemas import bound_to
from cdc_materializer.marker.marker import Marker, is_half_swapped
from cdc_materializer.masks import Masks, judged_types
from cdc_materializer.merge import RAW_SCHEMA
from cdc_materializer.names import TableName, recovery
from cdc_materializer.offsets import Span, batch_id
from cdc_materializer.order.epochs import MOVES, Recorded
from cdc_materializer.order.sweeping import Watch
from cdc_materializer.recognise import told_format
from cdc_materializer.registry import BoundRegistry, Registry
from cdc_materializer.schema.schema import Evolution, TableSchema, plan_schema
from cdc_materializer.source import Message, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.batch.batch import Folded

_LOG = logging.getLogger(__name__)

#: How many messages of each partition tell a format that nobody names.
TOLD_BY_MESSAGES = 20


@dataclass(frozen=True)
class Line:
    """All that one table's way needs: where it comes from, where it goes, and the rules between."""

    pipeline: str
    table: TableConfig
    source: Source
    registry: Registry | None
    stated: Contract | UsageError | None
    lake: Lake
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    #: Whether the log was read before, up to where it is read now: its epochs are known.
    replays: bool = False
    #: Renames that are told by messages which raw has not got.
    told: frozenset[Pair] = frozenset()
    #: Whether no further batch is to be begun, nor another landing.
    is_over: Callable[[], bool] = field(default=lambda: False)

    @property
    def contract(self) -> Contract | None:
        """Its rules and masks; raises what is `stated` of a file that cannot be followed: only landing needs none."""
        if isinstance(self.stated, UsageError):
            raise self.stated
        return self.stated

    @property
    def mirror(self) -> TableName:
        """The mirror's name."""
        return self.table.mirror

    @property
    def is_soft(self) -> bool:
        """Whether the mirror keeps the rows that are deleted."""
        return self.table.deletes == "soft"

    @property
    def id_bytes(self) -> int:
        """How many bytes a schema's id has in the topic's messages."""
        return self.registry.id_bytes if self.registry is not None else ID_BYTES

    @property
    def keeps_lives(self) -> bool:
        """Whether more than the last state of a row is kept (`life`)."""
        return self.is_soft or self.table.history

    @cached_property
    def format(self) -> Format:
        """How changes are laid out in the topic's messages.

        Raises:
            ConfigError: it is to be told by the messages, and they do not tell it.
            RegistryUnavailable: their schemas are needed for that, and the registry cannot be asked.
        """
        name = self.table.format
        if name == AUTO:
            told = told_format(self._first_messages(), self.bound)
            if told.name is None:
                what = f"`format: auto` cannot tell the format of {self.table.topic}: {told.reason}."
                raise ConfigError(what, "Name it with `format:` in pipeline.yaml.")
            _LOG.info("The format of %s is told to be %s.", self.table.topic, told.why.strip(","))
            name = told.name
        return find(name).for_table(self.table)

    def _first_messages(self) -> tuple[Message, ...]:
        """The first that raw has of each partition, so that the answer stays; the topic's, before there is raw."""
        raw = self.lake.load(self.mirror.raw)
        found = first_messages(self.lake.rows(raw), TOLD_BY_MESSAGES) if raw is not None else ()
        topics = self.table.topics or (self.table.topic,)
        return found or tuple(one for topic in topics for one in self.source.sample(topic, TOLD_BY_MESSAGES))

    @property
    def options(self) -> Options:
        """How the table's messages are read."""
        table, format_ = self.table, self.format
        key = tuple(table.key)
        if format_.rows_name_themselves and not key and self.contract is not None:
            # The server's name, which a contract may declare as a part of the key, is in no row.
            keys = [column.name for column in self.contract.columns if column.primary_key]
            key = tuple(name for name in keys if name != table.shard)
        return Options(
            table.special_values,
            table.unavailable_value,
            key,
            transactions=table.history,
            snapshots=table.snapshot_sweep,
            always_known=tuple(table.always_known),
            shard=Shard(table.shard, table.topic) if table.shard is not None else None,
            masks=self.masks,
            evolution=self.evolution,
            format=format_,
            encoding=None if table.encoding == "auto" else table.encoding,
        )

    @property
    def masks(self) -> Masks:
        """What the contract hides."""
        return self.contract.masks if self.contract is not None else Masks()

    @property
    def evolution(self) -> Evolution:
        """How the table's columns change."""
        names = final_names(self.aliases, self.table.final_names)
        return Evolution(self.table.incompatible_schema == "new_column", names, aliases=bool(self.aliases))

    @property
    def follows_aliases(self) -> bool:
        """Whether aliases in registered schemas are renames."""
        return self.table.aliases == "rename" and self.registry is not None

    @cached_property
    def aliases(self) -> frozenset[Pair]:
        """The renames that the schemas of raw's messages tell, and `told`; none where they are not followed."""
        # Raw has one branch, whatever a replay's mirror is on.
        main = replace(self.lake, branch=MAIN, read_only=True)
        raw = main.load(self.mirror.raw) if self.follows_aliases else None
        return self.told | (self.gathered(raw).pairs if raw is not None else frozenset())

    def gathered(self, raw: LakeTable) -> Aliases:
        """What the schemas of raw's messages say of renames."""
        return gather(replace(self.lake, branch=MAIN), raw, self.schemas, self.format, self.id_bytes)

    @property
    def schemas(self) -> Lookup:
        """Where schemas are found by their names alone."""
        return Lookup(self.bound, None, Options(), None, self.table.topics or (self.table.topic,))

    @cached_property
    def bound(self) -> BoundRegistry | None:
        """The registry, which is to have the schemas that the table's messages were decoded by."""
        return bound_to(self.lake, self.mirror, self.registry)

    def load_mirror(self, lake: Lake | None = None) -> LakeTable | None:
        """The mirror as it is now, its columns under the names that `renames` gives them; None where there is none.

        Args:
            lake: what to load it from, if not the line's.

        Raises:
            SchemaRefused: a column cannot be renamed so.
        """
        found = (lake or self.lake).load(self.mirror)
        if found is None:
            return None
        dropped = self.evolution.untold(found.dropped, found.schema)
        if found.marker is not None and dropped != found.dropped:
            # Ours, for a batch that was killed or a replay that was not published. Hashes of rows are of names too.
            found = replace(found, dropped=dropped, marker=replace(found.marker, ledger=None))
        # Names are the table's, and no branch's own: what is beside `main` gets them when readers see it.
        return found.renaming(self.evolution.pending(found.schema), later=self.lake.branch != MAIN)

    def recorded(self, mirror: LakeTable | None, read: Collection[int]) -> Recorded:
        """How far the source had got when a mirror was last published, in topics that have these partitions now."""
        partitions, topics = len(read), len({topic_of(partition) for partition in read})
        marker = None if mirror is None else marker_of(mirror)
        tolerance = int(self.table.position_regression_tolerance / timedelta(microseconds=1))
        sharded = self.table.shard is not None
        # Not where it is not the Kafka key that says which row is meant, or it has one partition to choose.
        is_asked = partitions > 1 and not (self.table.topics or self.options.key)
        # A history has what readers saw, and its last change is the mirror's row.
        mends = partitions > 1 and not self.table.history
        if mirror is None or marker is None:
            home = None if is_asked else MOVES
            return Recorded(
                tolerance=tolerance, partitions=partitions, topics=topics, sharded=sharded, home=home, mends=mends
            )
        # A marker that has read something and says nothing of it comes from before there were several partitions.
        home = marker.home if marker.home is not None or marker.source_snapshot is None else MOVES
        positions = ("offsets", "positions", "times", "stamps", "readings", "deleted_at", "epochs", "logs", "gtids")
        told = (*positions, "truncated", "truncates", "passing", "alone")
        return Recorded(
            **{name: getattr(marker, name) for name in told},
            tolerance=tolerance,
            partitions=partitions,
            topics=topics,
            is_final=self.replays,
            table=marker.source_table,
            routed=mirror.routed,
            sharded=sharded,
            home=home if is_asked else MOVES,
            mends=mends,
            unpaired=marker.unpaired if mends else (),
        )

    def watch(
        self,
        marker: Marker | None,
        raw: Marker | None,
        partitions: Iterable[int],
        unread: DataFrame | None = None,
        *,
        again: bool = False,
        of: Marker | None = None,
    ) -> Watch | None:
        """What a batch has to know to follow snapshots; None where the table does not sweep.

        Args:
            marker: the mirror's.
            raw: raw's.
            partitions: those that the topic has.
            unread: where messages of unknown keys are held.
            again: whether the batch reads messages from before it, which may complete a snapshot that was given up.
            of: where a log is folded as a whole, the marker of the mirror that it is the log of, if there is one.
        """
        if not self.table.snapshot_sweep:
            return None
        gaps = accepted(raw.adopted if raw is not None else ())
        swept = told.snapshots.swept if (told := marker or of) is not None and told.snapshots is not None else ()
        if marker is None:
            return Watch(tuple(partitions), gaps=gaps, alone=of.alone if of is not None else 0, swept=swept)
        known = None if again else marker.snapshots
        is_first = not any(marker.offsets.values())
        return Watch(
            tuple(partitions), known, is_first, marker.positions, unread, gaps, marker.alone, marker.readings, swept
        )

    def lookup(self, current: TableSchema | None) -> Lookup:
        """Where the writers of messages are found."""
        return replace(self.schemas, contract=self.contract, options=self.options, current=current)

    def judgement(self, target: TableSchema, recorded: Recorded, folded: Folded | None = None) -> Judgement:
        """How the states of a table are judged.

        Args:
            target: the columns that are folded.
            recorded: how far the source had got before.
            folded: the batch; None for states of which nothing else is known.
        """
        contract, types = self.contract, judged_types(target)
        contract = contract.of_table(target.key, types) if contract is not None else None
        stated, file = (contract.row_rules, contract.path.name) if contract is not None else ((), None)
        rules, refused = compile_to_judge(stated, types, file)
        known = Judgement(rules, self.table.strict, self.table.truncate, recorded, refused=refused)
        if folded is None:
            return known
        at, facts = folded.snapshots, folded.facts
        wiped = tuple((one.partition, one.offset) for one in folded.truncates if self.table.truncate != "apply")
        known = replace(known, partial=folded.partial, wiped=wiped, passed=folded.passed)
        known = replace(known, unreconciled=at.unreconciled, waiting=at.waiting)
        return replace(known, routed=facts.routed, has_past=folded.has_past, mends=facts.paired > 0)


@dataclass(frozen=True)
class Tables:
    """The tables of one line as they were loaded; None where one is yet to be made, or is not asked for."""

    raw: LakeTable | None
    mirror: LakeTable | None
    quarantine: LakeTable | None
    history: LakeTable | None = None

    @property
    def foreign(self) -> int:
        """How many commits of other programs changed rows of them since the newest batch of ours."""
        return sum(table.foreign for table in (self.raw, self.mirror, self.quarantine, self.history) if table)

    @property
    def is_half_swapped(self) -> bool:
        """Whether the mirror was swapped in, or taken back, and quarantine is still that of the state before."""
        mirror, held = (table.marker if table is not None else None for table in (self.mirror, self.quarantine))
        return is_half_swapped(mirror, held)


def new_marker(line: Line, span: Span, uuid: str, topic_id: str | None) -> Marker:
    """A marker that says no more than how far its table has got."""
    return Marker(
        pipeline=line.pipeline,
        batch=batch_id(line.pipeline, uuid, span),
        topic=span.topic,
        topic_id=topic_id,
        offsets=span.end,
        positions={},
        source_snapshot=None,
        contract=None,
        counts={},
    )


def marker_of(table: LakeTable) -> Marker:
    """The table's marker; a table without one is not touched: nobody can say what it holds.

    Raises:
        LakeUnavailable: neither its snapshots nor our tag has one; says how to go on.
    """
    if table.marker is None:
        what = f"Table {table.name} is there, and no snapshot of it says how far it was filled. Nothing was written."
        raise LakeUnavailable(what, recovery(table.name))
    return table.marker


def whole_log(mirror: LakeTable | None, read: Collection[int]) -> Recorded:
    """What is known where a log is folded as a whole: no positions, and every epoch of its mirror.

    Args:
        mirror: the mirror as it is; None where there is none.
        read: the partitions of the log.
    """
    known = marker_of(mirror) if mirror is not None else None
    return Recorded(
        partitions=len(read),
        topics=len({topic_of(partition) for partition in read}),
        alone=known.alone if known is not None else 0,
        epochs=known.epochs if known is not None else (),
        is_final=True,
        routed=mirror is not None and mirror.routed,
    )


def raw_columns(line: Line, raw: LakeTable) -> LakeTable:
    """A raw table with all columns that messages are kept in; a version before may have made it with fewer."""
    if RAW_SCHEMA.types.keys() <= raw.schema.types.keys():
        return raw
    return line.lake.evolve(raw, plan_schema(raw.schema, [RAW_SCHEMA]))


def reload(line: Line, name: TableName) -> LakeTable:
    """A table that has just been written, as it is now.

    Raises:
        CommitConflict: another process has dropped it, as two do that make it at the same moment.
    """
    table = line.load_mirror() if name == line.mirror else line.lake.load(name)
    if table is None:
        what = f"Table {name} was there a moment ago and is gone: another writer dropped it."
        raise CommitConflict(what, "Nothing was lost from the source. Run again; one process should write a table.")
    return table
