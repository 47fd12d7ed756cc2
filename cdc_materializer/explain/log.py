"""The messages of one row, found in raw: by a pass that decodes keys and no rows, as a batch does it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.batch.earlier import keys_of, lying_at, names_rows_by_kafka_key
from cdc_materializer.batch.past import Past, changes_of
from cdc_materializer.changes import model as m
from cdc_materializer.decoders.decoders import Decoders, Lookup, find_decoders
from cdc_materializer.errors import SchemaRefused, UsageError
from cdc_materializer.explain.key import key_values, typed_key
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.line.checks import check_deletes, check_masks
from cdc_materializer.line.line import Line, marker_of, whole_log
from cdc_materializer.line.quarantine_retries import as_waiting
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.progress import landed
from cdc_materializer.query.fresh import together
from cdc_materializer.run.run import RunOptions, open_work, session_for
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.session.session import beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config

#: Stands for the key of truncates, which have none; no key is such a text, for keys are JSON.
_TRUNCATES = "truncates"
_TAG = "__cdc_tag"


@contextmanager
def log_of(config: Config, table: str, spark: SparkSession | None = None) -> Iterator[Log]:
    """The messages of a mirror, to be explained.

    Args:
        config: from `load_config`.
        table: the mirror.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        UsageError: there is no such mirror.
        CdcError: the tables, the registry or the contract cannot be used.
    """
    work = open_work(config, RunOptions(tables=(table,)))
    (found,) = work.tables
    size = landed(config, work.tables)
    if size == 0:
        raise _no_mirror(table)
    with session_for(work, spark, size) as session:
        lake = Lake(beside(session, config), config.catalog.name, read_only=True)
        line = Line(config.name, found, work.source, work.registry, work.contracts.get(table), lake)
        with translated(found.mirror):
            line, tables = together(line)
            raw, mirror = tables.raw, tables.mirror
            if raw is None or mirror is None:
                raise _no_mirror(table)
            check_deletes(line, mirror)
            check_masks(line, mirror)
            yield open_log(line, raw, mirror, tables.quarantine)


def _no_mirror(table: str) -> UsageError:
    return UsageError(f"There is no mirror {table} yet.", "`cdcm run` makes it.")


def open_log(line: Line, raw: LakeTable, mirror: LakeTable, held: LakeTable | None) -> Log:
    """All messages that raw has, of which the mirror may have read fewer; what waits for its schema is unread.

    Those that it has read alone, where a table cannot be made of the others with it: it has stopped, or a run will.
    """
    read, landed = marker_of(mirror).offsets, marker_of(raw).offsets
    topic = line.table.topic

    def up_to(ends: Offsets) -> DataFrame:
        span = batch.whole(Offsets(), ends, topic)
        return as_waiting(line, batch.messages(line.lake.rows(raw), span, line.id_bytes), mirror, held)

    log = Log(line, raw, mirror, up_to(landed), held)
    if not landed.is_ahead_of(read):
        return log
    try:
        return replace(log, later=find_decoders(log.unread, log.lookup, may_be_blind=True))
    except SchemaRefused as error:
        return replace(log, messages=up_to(read), stop=error)


@dataclass(frozen=True)
class Log:
    """Raw's messages, and how far the mirror has got in them.

    Attributes:
        line: the table's way.
        raw: raw as it was loaded.
        mirror: the mirror as it was loaded.
        messages: all that raw has, from `batch.messages`, or those that the mirror has read.
        held: the mirror's quarantine as it was then; None where there is none, or where nobody asks for it.
        later: decodes those that no batch has read yet; None where there are none.
        stop: why there are no others among them than the mirror has read; None where all are.
        told: those that alone are to be told, see `at`; None where all are.
    """

    line: Line
    raw: LakeTable
    mirror: LakeTable
    messages: DataFrame
    held: LakeTable | None = None
    later: Decoders | None = None
    stop: SchemaRefused | None = None
    told: DataFrame | None = None

    def at(self, places: DataFrame) -> Log:
        """The same log, of which the messages at some places alone are decoded whole, where they say enough.

        The writers of all others are then not looked for, which is a pass over what every message begins with.
        """
        if self.line.table.snapshot_sweep or not self.is_keyed:
            return self
        return replace(self, told=lying_at(self.messages, places))

    @property
    def known(self) -> TableSchema:
        """The mirror's columns, and those that messages which were not read yet would add."""
        return self.mirror.schema if self.later is None else self.later.plan.target

    @cached_property
    def lookup(self) -> Lookup:
        """Where writers are found."""
        return self.line.lookup(self.known)

    @cached_property
    def decoders(self) -> Decoders:
        """For all messages, or for those that alone are to be told."""
        if self.told is None:
            return find_decoders(self.messages, self.lookup)
        # What alone is told may be held for want of a registry.
        return find_decoders(self.told, self.lookup, may_be_blind=True)

    @property
    def unread(self) -> DataFrame:
        """Those that no batch has read yet."""
        return self.messages.where(~batch.within(self.read, "partition", "offset"))

    @cached_property
    def is_keyed(self) -> bool:
        """Whether keys alone say where a row's messages are; truncates, which end all rows, only values tell."""
        return marker_of(self.mirror).truncates == 0 and names_rows_by_kafka_key(self.lookup)

    @property
    def target(self) -> TableSchema:
        """The columns of what is told: the mirror's, and those that its messages would add."""
        return self.decoders.plan.target

    @property
    def read(self) -> Span:
        """What the mirror was folded from."""
        return batch.whole(Offsets(), marker_of(self.mirror).offsets, self.line.table.topic)

    @property
    def past(self) -> Past:
        """What `verify` folds with: no base rows, no positions, every epoch; and each state of a row matters."""
        recorded = whole_log(self.mirror, self.read.end)
        known, truncate = marker_of(self.mirror), self.line.table.truncate
        watch = self.line.watch(None, marker_of(self.raw), self.read.end, of=known)
        return Past(self.lookup, recorded=recorded, truncate=truncate, marker=known, lives=True, watch=watch)

    def changes(self, messages: DataFrame) -> DataFrame:
        """Messages as changes."""
        return changes_of(messages, self.decoders, self.target, self.past)

    def key(self, text: str) -> str:
        """A key as it was asked for, in the form that keys have.

        Raises:
            UsageError: it is no key of this table.
        """
        values = key_values(text, self.known.key)
        columns = typed_key(values, self.known)
        one = self.line.lake.spark.range(1).select(m.key_json(F.struct(*columns), self.known).alias(m.KEY), *columns)
        found = one.collect()[0]
        for name, value in values.items():
            if value is not None and found[name] is None:
                kind = self.known.types[name]
                raise UsageError(
                    f"What --key says of {name} is no value of the type {kind}.", "Write it as rows show it."
                )
        key: str = found[m.KEY]
        return key

    def key_of(self, place: tuple[int, int]) -> str | None:
        """The key of a message; of one that moves a row, the key that the row has after it.

        Raises:
            UsageError: there is no such message, or it is about several rows.
            SchemaRefused: the mirror has read none such, and cannot read on.
        """
        here = self.place(place).localCheckpoint()
        found = self.at(here).changes(lying_at(self.messages, here)).select(m.PART, m.KEY).collect()
        if not found:
            if self.stop is not None:
                raise self.stop
            what = f"{self.line.mirror.raw} has no message {place[0]}/{place[1]}."
            raise UsageError(what, "Write partition/offset as reports do, such as 0/9.")
        # Of two parts of one entry the first ends the row that it moves.
        entries = {row[m.PART] // 2: row[m.KEY] for row in sorted(found, key=lambda row: int(row[m.PART]))}
        keys = {key for key in entries.values() if key is not None}
        if len(keys) > 1:
            what = f"Message {place[0]}/{place[1]} is about {len(keys):,} rows."
            raise UsageError(
                what, "Name one of them with --key: `cdcm quarantine list` shows the keys of what is held."
            )
        return next(iter(keys), None)

    def place(self, place: tuple[int, int] | None) -> DataFrame:
        """One place as a frame (partition, offset)."""
        partition, offset = place or (0, 0)
        one = {"partition": F.lit(partition), "offset": F.lit(offset).cast("bigint")}
        return self.line.lake.spark.range(1).select(*[value.alias(name) for name, value in one.items()])

    def places(self, key: str) -> DataFrame:
        """Where the messages of a key lie, and the truncates that were applied or have not been read yet."""
        if not self.is_keyed:
            return self._places_told_by_values(key)
        found = _lying(keys_of(self.messages, self.known, self.past), m.KEY, {key})
        if self.later is not None:
            unread = changes_of(self.unread, self.later, self.known, self.past)
            found = found.unionByName(_lying(unread, m.OP, {m.TRUNCATE}))
        return found.distinct().localCheckpoint()

    def _places_told_by_values(self, key: str) -> DataFrame:
        """The same, where messages say in their values which row they are about.

        With configured keys a message may move a row from one key to another: then the messages of both are needed.
        """
        is_truncate = F.col(m.OP).eqNullSafe(m.TRUNCATE)
        tag = F.when(is_truncate, F.lit(_TRUNCATES)).otherwise(F.col(m.KEY)).alias(_TAG)
        every = self.changes(self.messages).select(m.PARTITION, m.OFFSET, tag)
        wanted = {key, _TRUNCATES}
        while True:
            places = _lying(every, _TAG, wanted).distinct().localCheckpoint()
            if not self.line.options.key:
                return places
            met = self.changes(lying_at(self.messages, places)).select(m.KEY).distinct().collect()
            further = {row[m.KEY] for row in met if row[m.KEY] is not None} - wanted
            if not further:
                return places
            wanted |= further

    def waiting(self, places: DataFrame, key: str | None) -> DataFrame | None:
        """The changes of the key that have landed and that no batch has read yet; None where all has been read."""
        if self.later is None:
            return None
        known = (m.TOPIC, m.PARTITION, m.OFFSET, m.TIME, m.OP, m.KEY, m.SOURCE_TIME, m.POSITION, m.EPOCH)
        # Cut off from its plan: Spark would push the filter through the decoding, and take half a minute to plan it.
        changes = self.changes(lying_at(self.unread, places)).select(*known).localCheckpoint()
        is_row = F.col(m.KEY).eqNullSafe(F.lit(key)) | F.col(m.OP).eqNullSafe(m.TRUNCATE)
        return changes if key is None else changes.where(is_row)


def _lying(changes: DataFrame, name: str, wanted: set[str]) -> DataFrame:
    """Where the changes lie (partition, offset) that have one of some values in a column."""
    values = changes.sparkSession.range(1).select(F.explode(F.array(*map(F.lit, sorted(wanted)))).alias("wanted"))
    # Null-safe, so that Spark does not push a filter through the decoding, as in `batch`.
    found = changes.join(F.broadcast(values), F.col(name).eqNullSafe(F.col("wanted")), "left_semi")
    return found.select(F.col(m.PARTITION).alias("partition"), F.col(m.OFFSET).alias("offset"))
