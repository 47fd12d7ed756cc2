"""`cdcm verify --source`: hold a mirror against the database itself, while both go on (docs/adr/0027).

The database is read, then asked how far its log has got, then the mirror is waited for until it has all of that. Now a
row that differs is wrong, or was changed since reading began; and of each change since then raw has a message behind
the offsets at which the mirror was when it began. Rows with such messages are unsettled, and are looked at again.
So no snapshot is held open in the database, it can be read over several connections, and none of its locks is taken.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer import batch, life
from cdc_materializer.changes import model as m
from cdc_materializer.databases import Database
from cdc_materializer.decoders import find_decoders
from cdc_materializer.dialects import Position, SourceColumn
from cdc_materializer.differences import KEYS_MAX, Difference
from cdc_materializer.digests import comparable, value_digest
from cdc_materializer.epochs import within
from cdc_materializer.errors import ConfigError, LakeUnavailable, SourceBehind
from cdc_materializer.lake import LakeTable
from cdc_materializer.line import Line, check_deletes, check_masks, marker_of
from cdc_materializer.marker import Marker
from cdc_materializer.merge import CDC
from cdc_materializer.offsets import Offsets
from cdc_materializer.proof_columns import ComparedTable, choose
from cdc_materializer.quarantine import held_keys
from cdc_materializer.report.models import MessagePlace, TableVerify
from cdc_materializer.why_log import Log

if TYPE_CHECKING:
    from cdc_materializer.config import Config, TableConfig

#: Seconds between two looks at how far a mirror has got.
_LOOK_SECONDS = 1.0
#: How long the last transaction has to have been the last one, where only its number is known: its rows may be on
#: their way one by one.
_SETTLE_SECONDS = 5.0
#: How often rows are read and compared, until none is unsettled.
_ROUNDS_MAX = 4
_KINDS = ("missing", "unexpected", "different")


def database_of(line: Line, config: Config) -> Database:
    """The database that a table lives in.

    Raises:
        ConfigError: pipeline.yaml does not name one, or several tables of a database go to one mirror.
    """
    table = line.table
    if table.source_database is None:
        what = f"Nothing says which database {line.mirror} has its rows from."
        raise ConfigError(what, "Add `databases:` to pipeline.yaml, and the table's `source_database`.")
    if table.topics or table.is_glob or table.shard is not None:
        what = f"Several topics go to {line.mirror}, and `--source` compares with one table."
        raise ConfigError(what, "Leave it out with `--table`.")
    return Database(table.source_database, config.databases[table.source_database], line.lake.spark)


@dataclass(frozen=True)
class _Round:
    """One look at both sides: what differs for certain, how many keys may have changed meanwhile, and where."""

    difference: Difference
    unsettled: int
    buckets: tuple[int, ...]


@dataclass
class SourceProof:
    """A mirror and its database, compared.

    Attributes:
        line: the table's way.
        database: where its rows come from.
        siblings: the tables of pipeline.yaml that the same connector may feed.
        raw: raw, as it was loaded.
        mirror: the mirror as it is by now.
    """

    line: Line
    database: Database
    siblings: Sequence[TableConfig]
    raw: LakeTable
    mirror: LakeTable
    _position: Position | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def compare(self, *, plain_keys: bool) -> TableVerify:
        """Compare, by buckets of keys first, by rows where these differ.

        Raises:
            ConfigError: the database's table cannot be compared.
            DatabaseUnavailable: it cannot be asked.
            SourceBehind: the mirror did not come up to it in time.
        """
        check_deletes(self.line, self.mirror)
        check_masks(self.line, self.mirror)
        if self.mirror.routed:
            what = f"Several source tables feed {self.line.mirror}, and `--source` compares with one."
            raise ConfigError(what, "Leave it out with `--table`.")
        table = self._chosen()
        place = self._place()
        wanted = table.wanted(place, self.database.dialect)
        theirs = self._settled(table, table.theirs(self.database.rows(wanted)))
        with self.database.told():
            expected = value_digest(theirs, table.schema, table.bucket())
        self._catch_up()
        found = value_digest(self._ours(table), table.schema, table.bucket())
        buckets = expected.differing(found)
        last = _Round(Difference(expected.rows, found.rows, buckets=buckets), 0, buckets)
        for _ in range(_ROUNDS_MAX):
            if not last.buckets:
                break
            last = self._look(table, last)
            if not last.unsettled:
                break
        difference = replace(last.difference, expected=expected.rows, found=found.rows)
        held = self._held()
        return TableVerify(
            table=str(self.line.mirror),
            topic=self.line.table.topic,
            method="source",
            equal=difference.is_none,
            expected=difference.expected,
            found=difference.found,
            missing=difference.missing,
            unexpected=difference.unexpected,
            different=difference.different,
            held=held.distinct().count() if held is not None else 0,
            columns=difference.columns,
            buckets=len(difference.buckets),
            places=difference.places,
            keys=difference.told_keys(plain=plain_keys),
            unsettled=last.unsettled,
            left_out=table.left_out,
            position=str(self._position) if self._position is not None else None,
            mirror_snapshot=self.mirror.head,
        )

    # --- both sides -------------------------------------------------------------------------------------------------

    def _place(self) -> tuple[str, str]:
        named = self.line.table.source_table or ".".join(self.line.table.topic.split(".")[-2:])
        schema, _, name = named.partition(".")
        return schema, name

    def _chosen(self) -> ComparedTable:
        place = self._place()
        told = self.database.ask(self.database.dialect.columns(place))
        if not told:
            what = f"The database `{self.database.name}` has no table {'.'.join(place)}, or shows it to this user not."
            raise ConfigError(what, "Name it with `source_table`, or let the user read it.")
        columns = [SourceColumn(row["name"] or "", row["kind"] or "") for row in told]
        target = self.line.evolution.of_table(self.mirror.schema)
        clamp = self.line.table.special_values == "clamp"
        return choose(target, columns, self.database.dialect, self.line.masks, clamp=clamp)

    def _ours(self, table: ComparedTable, *more: Column) -> DataFrame:
        rows = life.without_deleted(self.line.lake.rows(self.mirror))
        return self._settled(table, table.ours(rows, *more))

    def _held(self) -> DataFrame | None:
        """The keys that are held back as intended, and so differ."""
        return held_keys(self.line, self.line.lake.load(self.line.mirror.quarantine))

    def _settled(self, table: ComparedTable, rows: DataFrame) -> DataFrame:
        """Rows without those of held keys."""
        held = self._held()
        if held is None or held.isEmpty():
            return rows
        return rows.join(F.broadcast(held), table.key_text() == F.col(m.KEY), "left_anti")

    def _look(self, table: ComparedTable, before: _Round) -> _Round:
        """Read the rows of some buckets, and tell what differs from what may have changed meanwhile."""
        start, buckets = marker_of(self.mirror).offsets, before.buckets
        wanted = table.wanted(self._place(), self.database.dialect)
        read = self.database.rows(wanted, buckets if table.has_buckets else None)
        is_here = table.bucket().isin(*buckets)
        with self.database.told():
            # Cut off from the database, which is another one when it is read again.
            theirs = self._settled(table, table.theirs(read).where(is_here)).localCheckpoint()
        self._catch_up()
        ours = self._ours(table, F.col(CDC)).where(is_here)
        wrong = _wrong(theirs, ours, table).localCheckpoint()
        touched = self._touched(start)
        if touched is None:
            marked = wrong.withColumn("touched", F.lit(False))
        else:
            known = touched.where(F.col(m.KEY).isNotNull()).withColumn("touched", F.lit(True))
            wiped = not touched.where(F.col(m.KEY).isNull()).isEmpty()
            marked = wrong.join(known, F.col("key") == F.col(m.KEY), "left").drop(m.KEY)
            marked = marked.withColumn("touched", F.coalesce("touched", F.lit(False)) | F.lit(wiped))
        return _counted(marked.localCheckpoint(), table)

    def _touched(self, start: Offsets) -> DataFrame | None:
        """The keys of the messages that came since; NULL for one that names no row, as a truncate; None: none came."""
        end = marker_of(self.raw).offsets
        span = batch.whole(start, end, self.line.table.topic)
        if span.is_empty:
            return None
        messages = batch.messages(self.line.lake.rows(self.raw), span, self.line.id_bytes)
        log = Log(
            self.line, self.raw, self.mirror, messages, find_decoders(messages, self.line.lookup(self.mirror.schema))
        )
        # Cut off from its plan: Spark would push what is asked of the keys through the decoding.
        return log.changes(messages).select(m.KEY).distinct().localCheckpoint()

    # --- the wait ---------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Wait until the mirror has all that the database has committed by now; `mirror` and `raw` are then those.

        Raises:
            SourceBehind: it takes longer than `wait`.
        """
        at = self._position = self.database.position()
        allowed = self.database.config.wait.total_seconds()
        until = time.monotonic() + allowed
        ends: Offsets | None = None
        reached = Reached(at)
        while True:
            if ends is None and (
                reached.by(self._markers(), time.monotonic()) or reached.slot(self.database.confirmed())
            ):
                ends = self.line.source.state(self.line.table.topic).ends
            self._reload()
            if ends is not None and self._has(ends):
                return
            if time.monotonic() >= until:
                raise _behind(self.line, self.database, allowed, delivered=ends is not None)
            self._stop.wait(_LOOK_SECONDS)

    def _has(self, ends: Offsets) -> bool:
        raw = marker_of(self.raw)
        mirror = marker_of(self.mirror).offsets
        return all(mirror.get(partition, 0) >= end for partition, end in raw.in_table(ends).items())

    def _markers(self) -> list[Marker]:
        names = [table.mirror for table in self.siblings]
        found = [self.line.lake.load(name) for name in names]
        return [one.marker for one in found if one is not None and one.marker is not None]

    def _reload(self) -> None:
        mirror, raw = self.line.load_mirror(), self.line.lake.load(self.line.mirror.raw)
        if mirror is None or raw is None:
            what = f"{self.line.mirror} went away while it was compared."
            raise LakeUnavailable(what, "Run again when it is there.")
        self.mirror, self.raw = mirror, raw


def siblings_of(table: TableConfig, tables: Sequence[TableConfig]) -> list[TableConfig]:
    """The tables whose topics the connector of a table writes too: those of the same prefix and database."""
    prefix = table.topic.rsplit(".", 2)[0]
    return [
        one
        for one in tables
        if not one.topics and one.source_database == table.source_database and one.topic.rsplit(".", 2)[0] == prefix
    ]


@dataclass
class Reached:
    """Whether a connector has sent everything up to a position, from what is known of what it sent.

    It sends transactions in the order of their commits. So what comes from behind the position says that all before it
    was sent. The last transaction says so only once nothing of it can be missing.

    Attributes:
        at: the position.
    """

    at: Position
    _equal_since: float | None = None

    def by(self, markers: Sequence[Marker], now: float) -> bool:
        """Whether mirrors that the connector feeds have something from behind it; ``now`` in seconds of any clock."""
        if self.at.log is None:
            # Positions from before a restore say nothing of the log as it is now.
            told = [within(position, len(one.epochs)) for one in markers for position in one.positions.values()]
            return any(_lsn(position) >= self.at.number for position in told if position is not None)
        last = max((marker.logs.get(self.at.log, -1) for marker in markers), default=-1)
        if last > self.at.number:
            return True
        if last < self.at.number:
            self._equal_since = None
            return False
        self._equal_since = now if self._equal_since is None else self._equal_since
        return now - self._equal_since >= _SETTLE_SECONDS

    def slot(self, confirmed: int | None) -> bool:
        """Whether the connector has confirmed PostgreSQL's log up to it, which it does when Kafka has its messages."""
        return confirmed is not None and confirmed >= self.at.number


def _lsn(position: str) -> int:
    """The higher of both places of a change in PostgreSQL's log: of the commit before it, and its own."""
    parts = [part for part in position.split("/") if part.isdigit()]
    return max(map(int, parts), default=-1)


def _behind(line: Line, database: Database, seconds: float, *, delivered: bool) -> SourceBehind:
    waited = f"{seconds:.0f} seconds (`wait` of `databases: {database.name}`)"
    if delivered:
        what = f"{line.mirror} has not got in {waited} what its topic has."
        return SourceBehind(what, "Let `cdcm run --follow` run beside it, or `cdcm run` first; nothing was compared.")
    what = f"Nothing came in {waited} that shows that {line.mirror} has all that the database had."
    do = "See that `cdcm run --follow` and the connector work; a quiet database needs its heartbeat queries."
    return SourceBehind(what, do)


# --- counting
# --------------------------------------------------------------------------------------------------------------------


def _wrong(theirs: DataFrame, ours: DataFrame, table: ComparedTable) -> DataFrame:
    """The rows that are not the same on both sides: key (JSON text), bucket, both sides as structs, `__cdc`."""
    values = F.struct(*[comparable(m.column(one.name), one.type).alias(one.name) for one in table.columns])
    bucket = table.bucket()
    left = theirs.select(table.key_text().alias("left_key"), bucket.alias("left_bucket"), values.alias("expected"))
    right = ours.select(table.key_text().alias("right_key"), bucket.alias("bucket"), values.alias("found"), CDC)
    one = Window.partitionBy("right_key").orderBy(F.col(CDC)["offset"])
    right = right.withColumn("copy", F.row_number().over(one))
    # A second copy of a key in the mirror has no partner: it is a row too many.
    is_same = (F.col("left_key") == F.col("right_key")) & (F.col("copy") == 1)
    wrong = left.join(right, is_same, "full_outer").where(~F.col("expected").eqNullSafe(F.col("found")))
    return wrong.select(
        F.coalesce("left_key", "right_key").alias("key"),
        F.coalesce("left_bucket", "bucket").alias("bucket"),
        *[F.col(name) for name in ("expected", "found", CDC)],
    )


def _counted(marked: DataFrame, table: ComparedTable) -> _Round:
    expected, found = F.col("expected"), F.col("found")
    kinds = {
        "missing": found.isNull(),
        "unexpected": expected.isNull(),
        "different": expected.isNotNull() & found.isNotNull(),
    }
    sure = ~F.col("touched")
    differs = [~expected[one.name].eqNullSafe(found[one.name]) & kinds["different"] for one in table.columns]
    counted = marked.agg(
        F.count_if(F.col("touched")).alias("unsettled"),
        F.sort_array(F.collect_set("bucket")).alias("buckets"),
        F.sort_array(F.collect_set(F.when(sure, F.col("bucket")))).alias("wrong"),
        *[F.count_if(sure & kinds[kind]).alias(kind) for kind in _KINDS],
        *[F.count_if(sure & differing).alias(f"column_{at}") for at, differing in enumerate(differs)],
    ).collect()[0]
    columns = {one.name: counted[f"column_{at}"] for at, one in enumerate(table.columns) if counted[f"column_{at}"]}
    first = marked.where(sure).orderBy("key").limit(KEYS_MAX)
    names = ("topic", "partition", "offset")
    rows = first.select("key", *[F.col(CDC)[name].alias(name) for name in names]).collect()
    difference = Difference(
        0,
        0,
        **{kind: counted[kind] for kind in _KINDS},
        columns=columns,
        places=[MessagePlace(**{name: row[name] for name in names}) for row in rows if row["offset"] is not None],
        keys=tuple(dict.fromkeys(row["key"] for row in rows)),
        buckets=tuple(counted["wrong"]),
    )
    return _Round(difference, counted["unsettled"], tuple(counted["buckets"]))
