"""`cdcm replay`: rebuild a mirror from raw's first message beside the live one, compare the two, and swap if asked to.

The same line as a run's (`pipeline.fold_next`), in the same bounded batches, on a branch of the mirror and of its
quarantine that begin empty: decoded anew from the bytes, with today's rules and contract. Readers see nothing of it
until the swap, which is one commit. A replay that was killed goes on where its branch ends.

The branch ends at the offsets of the live mirror, so that the two can be compared. What is published meanwhile is
caught up with; the swap fails rather than undo it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer import quarantine
from cdc_materializer.branches import drop_branch, follows, go_back, swap
from cdc_materializer.errors import CdcError, CommitConflict, UsageError
from cdc_materializer.lake import Lake, LakeTable, Stage
from cdc_materializer.lake_errors import translated
from cdc_materializer.line import Batch, Line, Tables, check_deletes, marker_of
from cdc_materializer.marker import Marker
from cdc_materializer.merge import delete_all
from cdc_materializer.pipeline import fold_next
from cdc_materializer.report.models import ErrorInfo, ReplayReport, TableReplay
from cdc_materializer.run import RunOptions, Work, open_work, session_for
from cdc_materializer.session import beside
from cdc_materializer.verify import compare_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.config import Config, TableConfig

#: The branch of mirror and quarantine that a replay is made on, and the tag of what a swap has replaced.
REPLAY_BRANCH = "cdcm-replay"
BEFORE_REPLAY = "cdcm-before-replay"
#: How often a replay catches up with a mirror that is published to meanwhile, before it gives up the swap.
_CATCH_UPS = 5


@dataclass(frozen=True)
class ReplayOptions:
    """What is wanted of a replay.

    Attributes:
        publish: whether the rebuilt mirror takes the live one's place.
        restart: whether what an earlier replay has left is thrown away, and not gone on with.
        on_batch: called after each batch.
    """

    publish: bool = False
    restart: bool = False
    on_batch: Callable[[TableConfig, Batch], None] = field(default=lambda _table, _batch: None)


def replay_tables(
    config: Config, names: tuple[str, ...], options: ReplayOptions, spark: SparkSession | None = None
) -> ReplayReport:
    """Rebuild mirrors from their raw tables and say how they differ from the live ones.

    Args:
        config: from `load_config`.
        names: the mirrors.
        options: whether to swap.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        CdcError: a table cannot be rebuilt; its live mirror is as it was.
    """
    work = open_work(config, RunOptions(tables=names))
    with session_for(work, spark) as session:
        found = [_told_or_failed(_Sides.of(work, session, table), options) for table in work.tables]
    return ReplayReport(pipeline=config.name, tables=found)


def roll_back(config: Config, names: tuple[str, ...], spark: SparkSession | None = None) -> ReplayReport:
    """Give readers of mirrors back what a replay has replaced; the next run folds what came since.

    Raises:
        UsageError: there is nothing to go back to.
    """
    work = open_work(config, RunOptions(tables=names))
    found = []
    with session_for(work, spark, messages=0) as session:
        for table in work.tables:
            sides = _Sides.of(work, session, table)
            live = sides.load_live()
            if live.mirror is None or not go_back(sides.live.lake, live.mirror, BEFORE_REPLAY):
                what = f"{table.mirror} keeps no state from before a replay."
                raise UsageError(
                    what, "Nothing was written; only what `cdcm replay --publish` replaced can be taken back."
                )
            if live.quarantine is not None:
                go_back(sides.live.lake, live.quarantine, BEFORE_REPLAY)
            found.append(TableReplay(table=str(table.mirror), topic=table.topic, rolled_back=True))
    return ReplayReport(pipeline=config.name, tables=found)


@dataclass(frozen=True)
class _Pair:
    """A mirror and its quarantine, both there."""

    mirror: LakeTable
    quarantine: LakeTable

    @classmethod
    def of(cls, tables: Tables) -> _Pair | None:
        if tables.mirror is None or tables.quarantine is None:
            return None
        return cls(tables.mirror, tables.quarantine)


@dataclass(frozen=True)
class _Sides:
    """One table's way, live and beside."""

    live: Line
    beside: Line

    @classmethod
    def of(cls, work: Work, spark: SparkSession, table: TableConfig) -> _Sides:
        lake = Lake(beside(spark, work.config), work.config.catalog.name)
        contract = work.contracts.get(str(table.mirror))
        live = Line(work.config.name, table, work.source, work.registry, contract, lake)
        # The history table stays as it is: it tells what was published.
        alone = table.model_copy(update={"history": False})
        return cls(live, replace(live, table=alone, lake=replace(lake, branch=REPLAY_BRANCH)))

    def load_live(self) -> Tables:
        """Raw, mirror and quarantine as readers see them."""
        return self._load(self.live.lake)

    def load_beside(self) -> Tables:
        """Raw as it is, mirror and quarantine as the replay has made them so far."""
        tables = self._load(self.beside.lake)
        return replace(tables, raw=self.live.lake.load(self.live.mirror.raw))

    def _load(self, lake: Lake) -> Tables:
        name = self.live.mirror
        return Tables(lake.load(name.raw), lake.load(name), lake.load(name.quarantine))


def _told_or_failed(sides: _Sides, options: ReplayOptions) -> TableReplay:
    try:
        return _replay(sides, options)
    except CdcError as failure:
        error = ErrorInfo(code=failure.code or type(failure).__name__, message=str(failure))
        return TableReplay(table=str(sides.live.mirror), topic=sides.live.table.topic, error=error)


def _replay(sides: _Sides, options: ReplayOptions) -> TableReplay:
    name = sides.live.mirror
    for _ in range(_CATCH_UPS):
        live = sides.load_live()
        if live.raw is None or live.mirror is None:
            raise UsageError(f"There is no mirror {name} to rebuild.", "`cdcm run` makes it.")
        check_deletes(sides.live, live.mirror)
        with translated(name):
            _begin(sides, live.mirror, live.quarantine, options)
            batches = _catch_up(sides, live.mirror, options)
            rebuilt = sides.load_beside()
            told = _told(sides, live, rebuilt, batches)
            if not options.publish or _swap(sides, live, rebuilt):
                return told.model_copy(update={"published": options.publish})
        options = replace(options, restart=False)
    what = f"{name} was published to again and again while it was being rebuilt; nothing was swapped."
    raise CommitConflict(what, "What was rebuilt is kept; run the replay again when less comes in.")


def _begin(sides: _Sides, mirror: LakeTable, held: LakeTable | None, options: ReplayOptions) -> None:
    """Empty branches of mirror and quarantine, unless those of a replay under this contract are there already.

    What is to be swapped in has to follow on what readers see; where that has moved, it is put on top of it anew.
    """
    lake, contract = sides.beside.lake, sides.live.contract
    begun = _Pair.of(sides.load_beside())
    bases = _Pair(mirror, held or quarantine.create(sides.live, None))
    judged = marker_of(begun.mirror).contract if begun is not None else None
    if begun is None or options.restart or judged not in (None, contract.fingerprint if contract else None):
        start = Marker.begin(marker_of(mirror))
        for base in (bases.quarantine, bases.mirror):
            _put(lake, base, start)
    elif options.publish:
        for base, state in ((bases.quarantine, begun.quarantine), (bases.mirror, begun.mirror)):
            if not follows(lake, state, base):
                _put(lake, base, marker_of(state), lake.rows(state))


def _put(lake: Lake, base: LakeTable, marker: Marker, rows: DataFrame | None = None) -> None:
    """Make the branch anew on top of what readers see, with these rows and no other."""

    def stage_rows(stage: Stage) -> None:
        stage.execute(delete_all(lake.catalog, base.name, stage.branch))
        if rows is not None:
            stage.append(rows)

    drop_branch(lake, base.name, REPLAY_BRANCH)
    lake.publish(base, marker, stage_rows)


def _catch_up(sides: _Sides, mirror: LakeTable, options: ReplayOptions) -> int:
    """Fold raw up to where the live mirror is; how many batches that took."""
    count = 0
    while True:
        tables = sides.load_beside()
        if tables.raw is None:
            return count
        end = replace(marker_of(tables.raw), offsets=marker_of(mirror).offsets)
        batch = fold_next(sides.beside, replace(tables.raw, marker=end), tables)
        if batch is None:
            return count
        count += 1
        options.on_batch(sides.live.table, batch)


def _told(sides: _Sides, live: Tables, rebuilt: Tables, batches: int) -> TableReplay:
    if live.mirror is None or rebuilt.mirror is None:
        what = f"The branch on which {sides.live.mirror} was rebuilt is gone."
        raise CommitConflict(what, "Another replay of the table has run; run this one again.")
    expected, found = sides.beside.lake.rows(rebuilt.mirror), sides.live.lake.rows(live.mirror)
    difference = compare_rows(expected, found, rebuilt.mirror.schema)
    return TableReplay(
        table=str(sides.live.mirror),
        topic=sides.live.table.topic,
        batches=batches,
        equal=difference.is_none,
        rebuilt=difference.expected,
        live=difference.found,
        only_rebuilt=difference.missing,
        only_live=difference.unexpected,
        different=difference.different,
        columns=difference.columns,
        places=difference.places,
        held_live=_open_codes(sides.live.lake, live.quarantine),
        held_rebuilt=_open_codes(sides.beside.lake, rebuilt.quarantine),
        live_snapshot=live.mirror.head,
        rebuilt_snapshot=rebuilt.mirror.head,
    )


def _open_codes(lake: Lake, table: LakeTable | None) -> dict[str, int]:
    if table is None:
        return {}
    waiting = lake.rows(table).where(F.col("status") == quarantine.OPEN)
    named = waiting.select(F.concat_ws(" ", "code", "rule").alias("name")).groupBy("name").count()
    return {row["name"]: row["count"] for row in named.orderBy("name").collect()}


def _swap(sides: _Sides, live: Tables, rebuilt: Tables) -> bool:
    """Quarantine first, then the mirror; False where the live mirror has moved, so that the replay must catch up."""
    lake = sides.live.lake
    now = sides.load_live()
    if live.mirror is None or now.mirror is None or now.mirror.head != live.mirror.head:
        return False
    if now.quarantine is not None and rebuilt.quarantine is not None:
        swap(lake, now.quarantine, REPLAY_BRANCH, BEFORE_REPLAY)
    return swap(lake, live.mirror, REPLAY_BRANCH, BEFORE_REPLAY)
