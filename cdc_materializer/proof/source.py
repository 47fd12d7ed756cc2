"""`cdcm verify --source`: hold a mirror against the database itself, while both go on (docs/adr/0027).

The database is read, then asked how far its log has got, then the mirror is waited for until it has all of that. Now a
row that differs is wrong, or was changed since reading began; and of each change since then raw has a message behind
the offsets at which the mirror was when it began. Rows with such messages are unsettled, and are looked at again.
So no snapshot is held open in the database, it can be read over several connections, and none of its locks is taken.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, life
from cdc_materializer.changes import model as m
from cdc_materializer.dialects import Position, SourceColumn
from cdc_materializer.differences import KEYS_MAX, Difference
from cdc_materializer.digests import comparable, value_digest
from cdc_materializer.errors import ConfigError, LakeUnavailable, SourceBehind, TimeOver
from cdc_materializer.explain.log import Log
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.line.checks import check_deletes, check_masks
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.line.quarantine import held_messages
from cdc_materializer.marker.marker import Marker
from cdc_materializer.merge import CDC
from cdc_materializer.offsets import Offsets
from cdc_materializer.proof.columns import ComparedTable, choose
from cdc_materializer.proof.databases import Database
from cdc_materializer.proof.wait import Reached, behind
from cdc_materializer.report.models import MessagePlace, TableVerify
from cdc_materializer.retry import NEVER, Deadline

if TYPE_CHECKING:
    from cdc_materializer.config import Config, TableConfig

#: Seconds between two looks at how far a mirror has got.
_LOOK_SECONDS = 1.0
#: How often rows are read and compared, until none is unsettled.
_ROUNDS_MAX = 4
_KINDS = ("missing", "unexpected", "different")


def check_named(tables: Sequence[TableConfig]) -> None:
    """Refuse to compare where pipeline.yaml names the database of none of some tables.

    Raises:
        ConfigError: it does not.
    """
    if not any(table.source_database is not None for table in tables):
        raise _unnamed(tables)


def _unnamed(tables: Sequence[TableConfig]) -> ConfigError:
    names = ", ".join(str(table.mirror) for table in tables) or "any table"
    what = f"Nothing says which database {names} has its rows from."
    return ConfigError(what, "Add `databases:` to pipeline.yaml, and the table's `source_database`.")


def database_of(line: Line, config: Config) -> Database:
    """The database that a table lives in.

    Raises:
        ConfigError: pipeline.yaml does not name one, or several tables of a database go to one mirror.
    """
    table = line.table
    if table.source_database is None:
        raise _unnamed([table])
    if table.topics or table.is_glob or table.shard is not None:
        what = f"Several topics go to {line.mirror}, and `--source` compares with one table."
        raise ConfigError(what, "Leave it out with `--table`.")
    return Database(table.source_database, config.databases[table.source_database], line.lake.spark)


@dataclass(frozen=True)
class _Seen:
    """What a mirror was compared at: the place in its database's log that it was waited for, and its snapshot."""

    position: Position | None
    snapshot: int | None


@dataclass(frozen=True)
class _Round:
    """One look at both sides: what differs for certain, how many keys may have changed meanwhile, and where.

    Attributes:
        difference: what differs for certain.
        unsettled: how many keys differ and may have changed meanwhile.
        buckets: where either is.
        seen: what was looked at.
        wiped: whether a message of no row, such as a truncate, came meanwhile, so that nothing is certain.
    """

    difference: Difference
    unsettled: int
    buckets: tuple[int, ...]
    seen: _Seen
    wiped: bool = False


@dataclass
class SourceProof:
    """A mirror and its database, compared.

    Attributes:
        line: the table's way.
        database: where its rows come from.
        siblings: the tables of pipeline.yaml that the same connector may feed.
        raw: raw, as it was loaded.
        mirror: the mirror as it is by now.
        deadline: the mirror is waited for no longer, either.
    """

    line: Line
    database: Database
    siblings: Sequence[TableConfig]
    raw: LakeTable
    mirror: LakeTable
    deadline: Deadline = NEVER
    _position: Position | None = field(default=None, init=False)
    _held: DataFrame | None = field(default=None, init=False)
    _left: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the whole time that may be waited."""
        self._left = self.database.config.wait.total_seconds()

    def compare(self, *, plain_keys: bool) -> TableVerify:
        """Compare, by buckets of keys first, by rows where these differ.

        Raises:
            ConfigError: the database's table cannot be compared.
            DatabaseUnavailable: it cannot be asked.
            SourceBehind: the mirror did not come up to it in time, or nothing was certain whenever it was looked at.
        """
        check_deletes(self.line, self.mirror)
        check_masks(self.line, self.mirror)
        if self.mirror.routed:
            what = f"Several source tables feed {self.line.mirror}, and `--source` compares with one."
            raise ConfigError(what, "Leave it out with `--table`.")
        table = self._chosen()
        # What nothing would come of is said before a table is read.
        self.database.position()
        self.database.slots()
        place = self._place()
        wanted = table.wanted(place, self.database.dialect)
        self._held = held = self._held_now()
        theirs = _without(held, table, table.theirs(self.database.rows(wanted)))
        with self.database.told():
            expected = value_digest(theirs, table.schema, table.bucket())
        self._catch_up()
        # The same keys on both sides: what was held or released meanwhile shows as a bucket that is looked at.
        found = value_digest(_without(held, table, self._ours(table)), table.schema, table.bucket())
        buckets = expected.differing(found)
        first = _Round(Difference(expected.rows, found.rows, buckets=buckets), 0, buckets, self._seen)
        last = self._settled(table, first)
        difference = replace(last.difference, expected=expected.rows, found=found.rows)
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
            held=self._held.count() if self._held is not None else 0,
            columns=difference.columns,
            buckets=len(difference.buckets),
            places=difference.places,
            keys=difference.told_keys(plain=plain_keys),
            unsettled=last.unsettled,
            left_out=table.left_out,
            position=str(last.seen.position) if last.seen.position is not None else None,
            mirror_snapshot=last.seen.snapshot,
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
        return table.ours(life.without_deleted(self.line.lake.rows(self.mirror)), *more)

    def _held_now(self) -> DataFrame | None:
        """The keys that are held back as intended, and so differ; never older than `mirror`."""
        held = held_messages(self.line, self.line.lake.load(self.line.mirror.quarantine))
        # Read here, so that what keeps it from being read is not taken for the database's failure.
        return held.select(F.col("key").alias(m.KEY)).distinct().localCheckpoint() if held is not None else None

    def _settled(self, table: ComparedTable, first: _Round) -> _Round:
        """Look at the rows of buckets that differ until each is equal or wrong, four times or as long as `wait` lasts.

        Raises:
            SourceBehind: they could not be looked at once, or nothing was certain whenever they were.
        """
        last = first
        for _ in range(_ROUNDS_MAX):
            if not last.buckets:
                break
            try:
                last = self._look(table, last)
            except (SourceBehind, TimeOver):
                if last is first:
                    raise
                break
            if not last.unsettled:
                break
        if last.wiped and last.unsettled:
            what = (
                f"Each time {self.line.mirror} was looked at, messages came that name no row, such as a truncate's, so"
                f" nothing tells whether {last.unsettled} differing keys are wrong."
            )
            raise SourceBehind(what, "Run it again when none of these come; `cdcm quarantine list` shows unread ones.")
        return last

    @property
    def _seen(self) -> _Seen:
        return _Seen(self._position, self.mirror.head)

    def _look(self, table: ComparedTable, before: _Round) -> _Round:
        """Read the rows of some buckets, and tell what differs from what may have changed meanwhile."""
        start, held, buckets = marker_of(self.mirror).offsets, self._held, before.buckets
        wanted = table.wanted(self._place(), self.database.dialect)
        read = self.database.rows(wanted, buckets if table.has_buckets else None)
        is_here = table.bucket().isin(*buckets)
        with self.database.told():
            # Cut off from the database, which is another one when it is read again.
            theirs = table.theirs(read).where(is_here).localCheckpoint()
        self._catch_up()
        ours = self._ours(table, F.col(CDC)).where(is_here)
        # A key may have been released between both readings, or held: what either of them had then is neither's fault.
        theirs, ours = (_without(self._held, table, _without(held, table, rows)) for rows in (theirs, ours))
        wrong = _wrong(theirs, ours, table).localCheckpoint()
        touched, wiped = self._touched(start), False
        if touched is None:
            marked = wrong.withColumn("touched", F.lit(False))
        else:
            known = touched.where(F.col(m.KEY).isNotNull()).withColumn("touched", F.lit(True))
            wiped = not touched.where(F.col(m.KEY).isNull()).isEmpty()
            marked = wrong.join(known, F.col("key") == F.col(m.KEY), "left").drop(m.KEY)
            marked = marked.withColumn("touched", F.coalesce("touched", F.lit(False)) | F.lit(wiped))
        return _counted(marked.localCheckpoint(), table, self._seen, wiped=wiped)

    def _touched(self, start: Offsets) -> DataFrame | None:
        """The keys of the messages that came since; NULL for one that names no row, as a truncate; None: none came."""
        end = marker_of(self.raw).offsets
        span = batch.whole(start, end, self.line.table.topic)
        if span.is_empty:
            return None
        messages = batch.messages(self.line.lake.rows(self.raw), span, self.line.id_bytes)
        log = Log(self.line, self.raw, self.mirror, messages)
        # Cut off from its plan: Spark would push what is asked of the keys through the decoding.
        return log.changes(messages).select(m.KEY).distinct().localCheckpoint()

    # --- the wait ---------------------------------------------------------------------------------------------------

    def _catch_up(self) -> None:
        """Wait until the mirror has all that the database has committed by now; `mirror` and `raw` are then those.

        Raises:
            SourceBehind: it takes longer than what earlier waits for this table have left of `wait`.
            TimeOver: the caller's deadline comes before that.
        """
        self._position = self.database.position()
        reached, deadline = Reached(self._position), Deadline.after(min(self._left, self.deadline.left))
        ends: Offsets | None = None
        while True:
            slots = self.database.slots() if ends is None else {}
            if ends is None and self._is_sent(reached, slots):
                ends = self.line.source.state(self.line.table.topic).ends
            self._reload()
            if ends is not None and self._has(ends):
                break
            if self.deadline.is_over:
                what = f"The time was over before {self.line.mirror} had all that `{self.database.name}` has."
                raise TimeOver(what, "Verify it alone, or with more time.")
            if deadline.is_over:
                short, seconds = reached.short(slots), self.database.config.wait.total_seconds()
                raise behind(self.line, self.database.name, seconds, delivered=ends is not None, slots=short)
            deadline.sleep(_LOOK_SECONDS)
        self._left, self._held = deadline.left, self._held_now()

    def _is_sent(self, reached: Reached, slots: Mapping[str, int]) -> bool:
        """Whether Kafka has all that the database had; slots know it, and where there are none, mirrors show it."""
        if slots:
            return not reached.short(slots)
        ends = self.line.source.state(self.line.table.topic).ends
        return reached.by(self._markers(), ends, time.monotonic())

    def _has(self, ends: Offsets) -> bool:
        raw = marker_of(self.raw)
        mirror = marker_of(self.mirror).offsets
        return all(mirror.get(partition, 0) >= end for partition, end in raw.in_table(ends).items())

    def _markers(self) -> Iterator[Marker]:
        for table in self.siblings:
            found = self.line.lake.load(table.mirror)
            if found is not None and found.marker is not None:
                yield found.marker

    def _reload(self) -> None:
        mirror, raw = self.line.load_mirror(), self.line.lake.load(self.line.mirror.raw)
        if mirror is None or raw is None:
            what = f"{self.line.mirror} went away while it was compared."
            raise LakeUnavailable(what, "Run again when it is there.")
        self.mirror, self.raw = mirror, raw


# --- counting
# --------------------------------------------------------------------------------------------------------------------


def _without(held: DataFrame | None, table: ComparedTable, rows: DataFrame) -> DataFrame:
    """Rows but for those of held keys."""
    if held is None:
        return rows
    return rows.join(F.broadcast(held), table.key_text() == F.col(m.KEY), "left_anti")


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


def _counted(marked: DataFrame, table: ComparedTable, seen: _Seen, *, wiped: bool) -> _Round:
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
    return _Round(difference, counted["unsettled"], tuple(counted["buckets"]), seen, wiped)
