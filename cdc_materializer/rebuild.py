"""`cdcm replay`: rebuild a mirror from raw beside the live one, compare the two, and swap if asked to.

The same line as a run's (`pipeline.fold_next`), in the same bounded batches, on a branch of the mirror and of its
quarantine that begin empty, or as both were once (`rebuild_base`): decoded anew from the bytes, with today's rules and
contract. Readers see nothing of it until the swap, which is one commit. A replay that was killed goes on where its
branch ends.

The branch ends at the offsets of the live mirror, so that the two can be compared. What is published meanwhile is
caught up with; the swap fails rather than undo it. Other settings, another contract or another adoption make another
branch, because what was folded under other rules is of no use.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer import batch, crash_points, life, quarantine, rows
from cdc_materializer.branches import drop_branches, follows, go_back, keep, swap
from cdc_materializer.differences import compare_rows
from cdc_materializer.errors import CdcError, CommitConflict, UsageError
from cdc_materializer.lake import MAIN, Lake, LakeTable
from cdc_materializer.lake_errors import translated
from cdc_materializer.lake_stage import Stage
from cdc_materializer.line import Batch, Line, Tables, check_deletes, check_whole, marker_of, reload
from cdc_materializer.marker import Marker
from cdc_materializer.merge import CDC, delete_all
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.pipeline import fold_next
from cdc_materializer.progress import landed
from cdc_materializer.rebuild_base import Base, carried, find_base
from cdc_materializer.rebuild_start import EARLIEST, Start
from cdc_materializer.rebuild_types import as_rebuilt, find_retypes, make_room
from cdc_materializer.report.models import ErrorInfo, RebuiltType, ReplayReport, TableReplay
from cdc_materializer.run import RunOptions, Work, open_work, session_for, where_from
from cdc_materializer.schema import SchemaPlan
from cdc_materializer.session import beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.config import Config, TableConfig

_LOG = logging.getLogger(__name__)

#: Branches of mirror and quarantine that replays are made on begin so; the rules that are in force follow, as a hash.
REPLAY_BRANCH = "cdcm-replay-"
#: The tag of what a swap has replaced.
BEFORE_REPLAY = "cdcm-before-replay"
#: How often a replay catches up with a mirror that is published to meanwhile, before it gives up the swap.
_CATCH_UPS = 5
#: Settings of a table that change how it is written or read, and none of its rows.
_NO_RULES = {
    *("records_max", "history", "ledger", "readers", "properties", "partitioned_by", "sorted_by", "contract", "raw")
}


@dataclass(frozen=True)
class ReplayOptions:
    """What is wanted of a replay.

    Attributes:
        publish: whether the rebuilt mirror takes the live one's place.
        restart: whether what an earlier replay has left is thrown away, and not gone on with.
        start: where it begins; see `parse_start`.
        on_batch: called after each batch.
        plain_keys: whether the report names the first differing keys as they are; else their hashes stand for them.
    """

    publish: bool = False
    restart: bool = False
    start: Start = EARLIEST
    on_batch: Callable[[TableConfig, Batch], None] = field(default=lambda _table, _batch: None)
    plain_keys: bool = False


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
        CdcError: nothing could be begun; what goes wrong with one table is told in its entry.
    """
    work = open_work(config, RunOptions(tables=names))
    # What the topic has, and raw has not, nobody counts beforehand.
    size = None if options.start.kind == "kafka" else landed(config, work.tables)
    with session_for(work, spark, size) as session:
        found = [_told_or_failed(_line(work, session, table), options) for table in work.tables]
    return ReplayReport(pipeline=config.name, tables=found)


def roll_back(config: Config, names: tuple[str, ...], spark: SparkSession | None = None) -> ReplayReport:
    """Give readers of mirrors back what the last published replay has replaced; the next run folds what came since.

    Raises:
        UsageError: there is nothing to go back to.
    """
    work = open_work(config, RunOptions(tables=names))
    with session_for(work, spark, messages=0) as session:
        for table in work.tables:
            _roll_back(_line(work, session, table))
    found = [TableReplay(table=str(table.mirror), topic=table.topic, rolled_back=True) for table in work.tables]
    return ReplayReport(pipeline=config.name, tables=found)


def _roll_back(line: Line) -> None:
    lake, name = line.lake, line.mirror
    live, kept = _load(line), Lake(lake.spark, lake.catalog, branch=BEFORE_REPLAY)
    held, before = kept.load(name.quarantine), kept.load(name)
    if live.mirror is None or held is None or before is None:
        what = f"{name} keeps no state from before a replay."
        raise UsageError(what, "Nothing was written; only what `cdcm replay --publish` replaced can be taken back.")
    mirror, now = live.mirror, marker_of(live.mirror)

    def go() -> bool:
        return go_back(lake, mirror, BEFORE_REPLAY, lambda old: carried(old, now))

    with translated(name):
        _with_quarantine(line, kept.rows(held), marker_of(before), go)


def _line(work: Work, spark: SparkSession, table: TableConfig) -> Line:
    lake = Lake(beside(spark, work.config), work.config.catalog.name)
    contract = work.contracts.get(str(table.mirror))
    return Line(work.config.name, table, work.source, work.registry, contract, lake)


def _load(line: Line) -> Tables:
    """Raw as it is, mirror and quarantine as they are on the branch of the line's lake."""
    name, lake = line.mirror, line.lake
    return Tables(replace(lake, branch=MAIN).load(name.raw), line.load_mirror(), lake.load(name.quarantine))


def _beside(line: Line, marker: Marker, retypes: Mapping[str, str], base: Base | None) -> Line:
    """The way to the branch on which a table is rebuilt under the rules that are in force, from a base.

    The history table stays as it is: it tells what was published.
    """
    alone = line.table.model_copy(update={"history": False})
    rules: list[object] = [
        line.contract.fingerprint if line.contract is not None else None,
        line.masks.told(),
        alone.model_dump(mode="json", exclude=_NO_RULES),
        [dict(epoch) for epoch in marker.epochs],
        [adoption.to_json() for adoption in marker.adopted],
    ]
    rules += [dict(retypes)] if retypes else []
    rules += [{"base": base.mirror.head}] if base is not None else []
    branch = REPLAY_BRANCH + hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:12]
    lake = replace(line.lake, branch=branch, retypes={line.mirror: retypes})
    return replace(line, table=alone, replays=True, lake=lake)


def _told_or_failed(line: Line, options: ReplayOptions) -> TableReplay:
    try:
        return _replay(line, options)
    except CdcError as failure:
        _LOG.debug("%s could not be rebuilt: %s", line.mirror, where_from(failure.__cause__ or failure))
        return TableReplay(table=str(line.mirror), topic=line.table.topic, error=ErrorInfo.of(failure))


def _replay(line: Line, options: ReplayOptions) -> TableReplay:
    name = line.mirror
    for _ in range(_CATCH_UPS):
        live = _load(line)
        if live.raw is None or live.mirror is None:
            raise UsageError(f"There is no mirror {name} to rebuild.", "`cdcm run` makes it.")
        check_deletes(line, live.mirror)
        with translated(name):
            check_whole(line, live.raw)
            retypes = find_retypes(line, live.raw, live.mirror)
            base = find_base(line, live, options.start, retypes)
            sides = _Sides(line, _beside(line, marker_of(live.mirror), retypes, base), base)
            _begin(sides, live.mirror, live.quarantine, options)
            crash_points.reach("begun", name)
            batches = _catch_up(sides, live.mirror, options)
            rebuilt = _load(sides.beside)
            told = _told(sides, live, rebuilt, batches, plain_keys=options.plain_keys)
            crash_points.reach("compared", name)
            if not options.publish or _swap(sides, live, rebuilt):
                return told.model_copy(update={"published": options.publish})
        options = replace(options, restart=False)
    what = f"{name} was published to again and again while it was being rebuilt; nothing was swapped."
    raise CommitConflict(what, "What was rebuilt is kept; run the replay again when less comes in.")


@dataclass(frozen=True)
class _Sides:
    """One table's way, live and beside, and what the rebuilding goes on from; None for nothing."""

    live: Line
    beside: Line
    base: Base | None


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


def _begin(sides: _Sides, mirror: LakeTable, held: LakeTable | None, options: ReplayOptions) -> None:
    """Branches of mirror and quarantine as they were at the base, unless those of this replay are there already.

    What is to be swapped in has to follow on what readers see; where that has moved, it is put on top of it anew.
    """
    lake = sides.beside.lake
    if mirror.pending:
        # Names are the table's, and what was rebuilt may have to be written to it before the first batch.
        mirror = sides.live.lake.evolve(mirror, SchemaPlan(mirror.schema))
    make_room(lake, mirror, lake.retypes[mirror.name])
    begun, mirror = _Pair.of(_load(sides.beside)), replace(lake, branch=MAIN).load(mirror.name) or mirror
    bases = _Pair(mirror, held or quarantine.create(sides.live, None))
    if begun is None or options.restart or _is_ahead(begun.mirror, mirror):
        now, base = marker_of(mirror), sides.base
        start = Marker.begin(now) if base is None else carried(marker_of(base.mirror), now)
        start = replace(start, batch="", counts={}, masks=sides.beside.masks.told())
        told = sides.live.lake.rows(base.quarantine) if base is not None and base.quarantine is not None else None
        there = base.rows(sides.live, mirror) if base is not None else None
        for name in (bases.quarantine.name, mirror.name):
            drop_branches(lake, name, REPLAY_BRANCH)
        _put(lake, bases.quarantine, replace(start, ledger=None), told)
        _put(lake, bases.mirror, start, there)
    elif options.publish and not follows(lake, begun.mirror, mirror):
        # Columns may have come since, and rows are written by name.
        found = lake.rows(begun.mirror)
        found = found.select(*life.in_columns(found, mirror.schema), CDC)
        _put(lake, mirror, marker_of(begun.mirror), found)


def _is_ahead(begun: LakeTable, live: LakeTable) -> bool:
    """Whether more was folded than the live mirror has, which was rolled back then."""
    reached = marker_of(live).offsets
    return any(offset > reached.get(partition, 0) for partition, offset in marker_of(begun).offsets.items())


def _put(lake: Lake, base: LakeTable, marker: Marker, rows: DataFrame | None = None) -> None:
    """Make the branch anew on top of what readers see, with these rows and no other."""
    drop_branches(lake, base.name, lake.branch)
    lake.publish(base, marker, lambda stage: _stage_only(stage, rows))


def _stage_only(stage: Stage, rows: DataFrame | None) -> None:
    stage.execute(delete_all(stage.lake.catalog, stage.base.name, stage.branch))
    if rows is not None:
        stage.append(rows)


def _catch_up(sides: _Sides, mirror: LakeTable, options: ReplayOptions) -> int:
    """Fold raw up to where the live mirror is; how many batches that took."""
    count = 0
    while True:
        tables = _load(sides.beside)
        if tables.raw is None:
            return count
        end = replace(marker_of(tables.raw), offsets=marker_of(mirror).offsets)
        done = fold_next(sides.beside, replace(tables.raw, marker=end), tables)
        if done is None:
            return count
        count += 1
        crash_points.reach("folded", sides.live.mirror)
        options.on_batch(sides.live.table, done)


def _told(sides: _Sides, live: Tables, rebuilt: Tables, batches: int, *, plain_keys: bool) -> TableReplay:
    if live.mirror is None or rebuilt.mirror is None:
        what = f"The branch on which {sides.live.mirror} was rebuilt is gone."
        raise CommitConflict(what, "Another replay of the table has run; run this one again.")
    target, retypes = rebuilt.mirror.schema, sides.beside.lake.retypes[sides.live.mirror]
    expected, found = sides.beside.lake.rows(rebuilt.mirror), sides.live.lake.rows(live.mirror)
    found = as_rebuilt(found, target) if retypes else found
    if rebuilt.mirror.routed:
        expected = rows.with_source_tables(expected, marker_of(rebuilt.mirror).source_table)
        found = rows.with_source_tables(found, marker_of(live.mirror).source_table)
    difference = compare_rows(expected, found, target)
    base = marker_of(sides.base.mirror).offsets if sides.base is not None else None
    return TableReplay(
        table=str(sides.live.mirror),
        topic=sides.live.table.topic,
        batches=batches,
        base_snapshot=sides.base.mirror.head if sides.base is not None else None,
        base_offsets=None if base is None else {str(partition): offset for partition, offset in base.items()},
        equal=difference.is_none,
        rebuilt=difference.expected,
        live=difference.found,
        only_rebuilt=difference.missing,
        only_live=difference.unexpected,
        different=difference.different,
        columns=difference.columns,
        added=[name for name in target.types if name not in live.mirror.schema.types],
        types=[RebuiltType(column=name, old=live.mirror.schema.types[name], new=ddl) for name, ddl in retypes.items()],
        places=difference.places,
        keys=difference.told_keys(plain=plain_keys),
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
    """Make the rebuilt mirror the one that readers see; False where the live one has moved meanwhile."""
    lake, pair = sides.live.lake, _Pair.of(rebuilt)
    now = _load(sides.live)
    if pair is None or live.mirror is None or now.mirror is None or now.mirror.head != live.mirror.head:
        return False
    mirror, branch = live.mirror, sides.beside.lake.branch
    if now.quarantine is not None:
        keep(lake, now.quarantine, BEFORE_REPLAY)

    def swap_mirror() -> bool:
        return swap(lake, mirror, pair.mirror, branch, BEFORE_REPLAY)

    wanted = sides.beside.lake.rows(pair.quarantine)
    if not _with_quarantine(sides.live, wanted, marker_of(pair.mirror), swap_mirror):
        return False
    drop_branches(lake, pair.quarantine.name, REPLAY_BRANCH)
    return True


def _with_quarantine(line: Line, wanted: DataFrame, marker: Marker, change: Callable[[], bool]) -> bool:
    """Change the mirror, and quarantine with it: what either state holds is held until both are done.

    Killed in between, the next run folds keys from raw that it need not have; nothing is lost.

    Args:
        line: the table's live way.
        wanted: the quarantine rows that go with the mirror's other state.
        marker: that state's mirror's: how far it was told what is held.
        change: changes the mirror; False where it cannot.
    """
    lake, name = line.lake, line.mirror.quarantine
    wanted = wanted.where(~quarantine.is_noted())
    before = reload(line, name)
    identity = ("partition", "offset", "key", "code", "rule")
    is_open = F.col("status") == quarantine.OPEN
    known = lake.rows(before).where(is_open).select(*[F.col(column).alias(f"known_{column}") for column in identity])
    same = [F.col(column).eqNullSafe(F.col(f"known_{column}")) for column in identity]
    missing = wanted.where(is_open).join(known, same, "left_anti")
    lake.publish(before, marker_of(before), lambda stage: stage.append(missing))
    crash_points.reach("held", line.mirror)
    if not change():
        return False
    crash_points.reach("swapped", line.mirror)
    now = reload(line, name)
    told = Span(marker.topic, Offsets(dict.fromkeys(marker.offsets, 0)), marker.offsets)
    # What came since is as true of the other state; so is a stop that nobody has accepted.
    others = lake.rows(now).where(~batch.within(told, "partition", "offset") | quarantine.is_noted())
    final = wanted.unionByName(others)
    lake.publish(now, quarantine.after(now, marker), lambda stage: _stage_only(stage, final))
    crash_points.reach("settled", line.mirror)
    return True
