"""`cdcm replay`: rebuild a mirror from raw beside the live one, compare the two, and swap if asked to.

The same line as a run's (`pipeline.fold_next`), in the same bounded batches, on a branch of the mirror and of its
quarantine that begin empty, or as both were once (`rebuild.base`): decoded anew from the bytes, with today's rules and
contract. Readers see nothing of it until the swap, which is one commit. A replay that was killed goes on where its
branch ends.

The branch ends at the offsets of the live mirror, so that the two can be compared. What is published meanwhile is
caught up with; the swap fails rather than undo it. Other settings, another contract or another adoption make another
branch, because what was folded under other rules is of no use; so does a raw table that was filled from its topic
since (`rebuild.fill`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import cdc_materializer
from cdc_materializer import crash_points
from cdc_materializer.batch import life
from cdc_materializer.batch.steps import Batch
from cdc_materializer.errors import CommitConflict, TimeOver, UsageError
from cdc_materializer.lake.branches import REPLAY_BRANCH, drop_branches, follows, replace_rows, replace_rows_from
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import MAIN, Lake, LakeTable
from cdc_materializer.line import quarantine, stops
from cdc_materializer.line.audit import refusal
from cdc_materializer.line.checks import check_deletes, check_whole
from cdc_materializer.line.line import Line, Tables, marker_of
from cdc_materializer.marker.marker import Marker
from cdc_materializer.merge import CDC
from cdc_materializer.names import TableName
from cdc_materializer.pipeline import fold_next
from cdc_materializer.progress import landed
from cdc_materializer.query.fresh import together
from cdc_materializer.rebuild import told as rebuild_told
from cdc_materializer.rebuild.base import Base, beginning, find_base, is_of_other_raw
from cdc_materializer.rebuild.fill import refill
from cdc_materializer.rebuild.start import EARLIEST, Start
from cdc_materializer.rebuild.swap import begin_anew, forget, load_all, swap_in, take_back
from cdc_materializer.rebuild.types import find_retypes, make_room
from cdc_materializer.report.models import ErrorInfo
from cdc_materializer.report.replay_models import ReplayReport, TableReplay
from cdc_materializer.retry import NEVER, REPLAN, Deadline
from cdc_materializer.run.contracts import refuse_all_unreadable, refuse_unreadable
from cdc_materializer.run.run import RunOptions, Work, open_work, session_for
from cdc_materializer.session.session import beside
from cdc_materializer.table_errors import info_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.config import Config, TableConfig

#: How often a replay catches up with a mirror that is published to meanwhile, before it gives up the swap.
_CATCH_UPS = 5
_AGAIN = "Nothing was swapped; run the replay again."
#: Settings of a table that change how it is written or read, and none of its rows.
_NO_RULES = {
    *(
        "records_max",
        "batch_duration",
        "history",
        "ledger",
        "readers",
        "properties",
        "partitioned_by",
        "sorted_by",
        "contract",
        "raw",
    )
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
        deadline: no table and no batch is begun behind it; what was rebuilt by then is gone on with the next time.
    """

    publish: bool = False
    restart: bool = False
    start: Start = EARLIEST
    on_batch: Callable[[TableConfig, Batch], None] = field(default=lambda _table, _batch: None)
    plain_keys: bool = False
    deadline: Deadline = NEVER

    def check_time(self, mirror: TableName) -> None:
        """Begin nothing more with a mirror behind the deadline.

        Raises:
            TimeOver: it has come.
        """
        if self.deadline.is_over:
            what = f"The time was over before {mirror} was rebuilt; readers see what they saw."
            raise TimeOver(what, "What was rebuilt is kept; run the replay again, and it goes on.")


def replay_tables(
    config: Config, names: tuple[str, ...], options: ReplayOptions, spark: SparkSession | None = None
) -> ReplayReport:
    """Rebuild mirrors from their raw tables and say how they differ from the live ones.

    Args:
        config: from `load_config`.
        names: the mirrors, one at least.
        options: whether to swap.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        CdcError: nothing could be begun; what goes wrong with one table is told in its entry.
    """
    work = _opened(config, names, options.deadline)
    # What the topic has, and raw has not, nobody counts beforehand.
    size = None if options.start.kind == "kafka" else landed(config, work.tables, options.deadline)
    with session_for(work, spark, size) as session:
        found = [_told_or_failed(work, _line(work, session, table), options) for table in work.tables]
    return ReplayReport(pipeline=config.name, tables=found)


def roll_back(config: Config, names: tuple[str, ...], spark: SparkSession | None = None) -> ReplayReport:
    """Give readers of mirrors back what the last published replay has replaced; the next run folds what came since.

    Args:
        config: from `load_config`.
        names: the mirrors, one at least.
        spark: a session with Iceberg's extensions, where there is one.

    Returns:
        One entry a table; of one that keeps no state from before a replay it says so.

    Raises:
        CdcError: nothing could be begun.
    """
    return _each(config, names, spark, take_back, "rolled_back")


def let_go(config: Config, names: tuple[str, ...], spark: SparkSession | None = None) -> ReplayReport:
    """Keep what the last published replay has replaced no longer; `cdcm maintain` removes its files then.

    As `roll_back` otherwise.
    """
    return _each(config, names, spark, forget, "forgotten")


def _each(
    config: Config,
    names: tuple[str, ...],
    spark: SparkSession | None,
    do: Callable[[Line], None],
    done: Literal["rolled_back", "forgotten"],
) -> ReplayReport:
    """Do something with mirrors and what is kept of them; what goes wrong with one is told in its entry."""
    work = _opened(config, names)
    with session_for(work, spark, messages=0) as session:
        found = []
        for line in (_line(work, session, table) for table in work.tables):
            try:
                refuse_unreadable(work.contracts, (line.table,))
                with translated(line.mirror):
                    do(line)
                found.append(_entry(line).model_copy(update={done: True}))
            except Exception as failure:  # noqa: BLE001 - what becomes of the others is to be told, too
                found.append(_failed(line, failure))
    return ReplayReport(pipeline=config.name, tables=found)


def _opened(config: Config, names: tuple[str, ...], deadline: Deadline = NEVER) -> Work:
    if not names:
        # For a run no name means every table; what readers see of all of them is not replaced by a slip.
        raise UsageError("No mirror is named.", "Name those that are meant, one or several.")
    work = open_work(config, RunOptions(tables=names, deadline=deadline), refuse=False)
    refuse_all_unreadable(work.contracts, work.tables)
    return work


def _line(work: Work, spark: SparkSession, table: TableConfig) -> Line:
    lake = Lake(beside(spark, work.config), work.config.catalog.name)
    contract = work.contracts.get(str(table.mirror))
    return Line(work.config.name, table, work.source, work.registry, contract, lake)


def _beside(line: Line, raw: Marker, marker: Marker, retypes: Mapping[str, str], base: Base | None) -> Line:
    """The way to the branch on which a table is rebuilt under the rules that are in force, from a base.

    The history table stays as it is: it tells what was published.
    """
    alone = line.table.model_copy(update={"history": False})
    rules: list[object] = [
        # Its ids name other schemas than another's.
        line.registry.place if line.registry is not None else None,
        # Another may read or judge otherwise.
        cdc_materializer.__version__,
        line.contract.fingerprint if line.contract is not None else None,
        line.masks.told(),
        alone.model_dump(mode="json", exclude=_NO_RULES),
        [dict(epoch) for epoch in marker.epochs],
        [adoption.to_json() for adoption in marker.adopted],
    ]
    rules += [dict(retypes)] if retypes else []
    rules += [{"base": base.mirror.head}] if base is not None else []
    rules += [{"refilled": raw.refilled}] if raw.refilled else []
    rules += [{"aliases": sorted(line.aliases)}] if line.aliases else []
    branch = REPLAY_BRANCH + hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:12]
    lake = replace(line.lake, branch=branch, retypes={line.mirror: retypes})
    return replace(line, table=alone, replays=True, lake=lake)


def _told_or_failed(work: Work, line: Line, options: ReplayOptions) -> TableReplay:
    refilled = 0
    try:
        with translated(line.mirror):
            options.check_time(line.mirror)
            refuse_unreadable(work.contracts, (line.table,))
            if options.start.kind == "kafka":
                refilled = refill(line, restart=options.restart, deadline=options.deadline)
                # What raw has got may say of columns what it did not say before.
                line = replace(line)
            found = _replay(line, options)
    except Exception as failure:  # noqa: BLE001 - as in `_each`
        found = _failed(line, failure)
    return found.model_copy(update={"refilled": refilled})


def _failed(line: Line, failure: Exception) -> TableReplay:
    return _entry(line).model_copy(update={"error": info_of(line.lake.spark, line.mirror, failure)})


def _entry(line: Line) -> TableReplay:
    return TableReplay(table=str(line.mirror), topic=line.table.topic)


def _replay(line: Line, options: ReplayOptions) -> TableReplay:
    name = line.mirror
    for _ in range(_CATCH_UPS):
        begin_anew(line)
        # What a run is staging stays.
        line, live = together(line, replace(line.lake, read_only=True))
        if live.raw is None or live.mirror is None:
            raise UsageError(f"There is no mirror {name} to rebuild.", "`cdcm run` makes it.")
        check_deletes(line, live.mirror)
        with translated(name):
            check_whole(line, live.raw)
            retypes = find_retypes(line, live.raw, live.mirror, live.quarantine)
            base = find_base(line, live, options.start, retypes)
            raw = marker_of(live.raw)
            sides = _Sides(line, _beside(line, raw, marker_of(live.mirror), retypes, base), base, raw.refilled)
            REPLAN.call(partial(_begin, sides, live.mirror, live.quarantine, options), deadline=options.deadline)
            crash_points.reach("begun", name)
            batches = _catch_up(sides, live.mirror, options)
            rebuilt = load_all(sides.beside)
            if _has_new_names(sides, rebuilt.mirror):
                line, options = replace(line), replace(options, restart=False)
                continue
            own, beside = (line, live), (sides.beside, rebuilt)
            told, broken = rebuild_told.compared(own, beside, base, batches, plain_keys=options.plain_keys)
            crash_points.reach("compared", name)
            blocked = stops.blocked_at_end(sides.beside, rebuilt.quarantine) or refusal(sides.beside, broken)
            if blocked is not None:
                return told.model_copy(update={"error": ErrorInfo.of(blocked)})
            if not options.publish or swap_in(line, sides.beside, live, rebuilt, changes=told.changes):
                return told.model_copy(update={"published": options.publish})
        # What has landed meanwhile may say of columns what raw did not say before.
        line, options = replace(line), replace(options, restart=False)
    what = f"{name} was published to again and again while it was being rebuilt; nothing was swapped."
    raise CommitConflict(what, "What was rebuilt is kept; run the replay again when less comes in.")


@dataclass(frozen=True)
class _Sides:
    """One table's way, live and beside.

    Attributes:
        live: to what readers see.
        beside: to the branch.
        base: what the rebuilding goes on from; None for nothing.
        refilled: `Marker.refilled` of raw. Where it is another one later, messages have come before those folded.
    """

    live: Line
    beside: Line
    base: Base | None
    refilled: int


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
    with translated(mirror.name):
        make_room(lake, mirror, lake.retypes[mirror.name])
    begun, now = _Pair.of(load_all(sides.beside)), replace(lake, branch=MAIN, read_only=True).load(mirror.name)
    mirror = now.renaming(sides.live.evolution.pending(now.schema), later=True) if now is not None else mirror
    bases = _Pair(mirror, held or quarantine.create(sides.live, None))
    # What was folded before a column was dropped has lost it, as the live rows have: it is folded again.
    is_left = begun is not None and (begun.mirror.dropped or _is_ahead(begun.mirror, mirror))
    if begun is None or options.restart or is_left or is_of_other_raw(sides.live, begun.mirror):
        start, there = beginning(sides.live, mirror, sides.base)
        told = sides.base.held(sides.live) if sides.base is not None else None
        for name in (bases.quarantine.name, mirror.name):
            drop_branches(lake, name, REPLAY_BRANCH)
        _put(lake, bases.quarantine, replace(start, ledger=None), told)
        _put(lake, bases.mirror, start, there)
    elif options.publish and not follows(lake, begun.mirror, mirror):
        # Columns may have come since, and rows are written by name.
        found = lake.rows(begun.mirror)
        found = found.select(*life.in_columns(found, mirror.schema), CDC)
        # Where it began is told on top of it too: what came before is none of its batches.
        start, there = beginning(sides.live, mirror, sides.base)
        drop_branches(lake, mirror.name, lake.branch)
        goes_on = partial(replace_rows_from, beginning=there, marker=marker_of(begun.mirror), rows=found)
        lake.publish(mirror, start, goes_on)


def _is_ahead(begun: LakeTable, live: LakeTable) -> bool:
    """Whether more was folded than the live mirror has, which was rolled back then."""
    reached = marker_of(live).offsets
    return any(offset > reached.get(partition, 0) for partition, offset in marker_of(begun).offsets.items())


def _put(lake: Lake, base: LakeTable, marker: Marker, rows: DataFrame | None = None) -> None:
    """Make the branch anew on top of what readers see, with these rows and no other."""
    drop_branches(lake, base.name, lake.branch)
    lake.publish(base, marker, lambda stage: replace_rows(stage, rows))


def _catch_up(sides: _Sides, mirror: LakeTable, options: ReplayOptions) -> int:
    """Fold raw up to where the live mirror is; how many batches that took."""
    count, name = 0, sides.live.mirror
    while True:
        options.check_time(name)
        # Runs go on meanwhile, and a commit of theirs, to whatever branch, may be in the way of one.
        done = REPLAN.call(partial(_fold_next, sides, mirror), deadline=options.deadline)
        if done is None:
            return count
        count += 1
        crash_points.reach("folded", name)
        options.on_batch(sides.live.table, done)


def _fold_next(sides: _Sides, mirror: LakeTable) -> Batch | None:
    """Fold the next batch onto the branch; None where that is where the live mirror is."""
    name, tables = sides.live.mirror, load_all(sides.beside)
    if tables.raw is None:
        return None
    if marker_of(tables.raw).refilled != sides.refilled:
        raise CommitConflict(f"{tables.raw.name} was filled from the topic while {name} was being rebuilt.", _AGAIN)
    if sides.live.follows_aliases and sides.live.gathered(tables.raw).pairs != sides.live.aliases:
        # A run has renamed columns, or is about to: under their old names they would be added to what readers see.
        raise CommitConflict(f"Schemas that came while {name} was being rebuilt rename columns of it.", _AGAIN)
    if _has_new_names(sides, tables.mirror):
        raise CommitConflict(f"Columns of {name} were renamed by a run while it was being rebuilt.", _AGAIN)
    raw = replace(tables.raw, marker=replace(marker_of(tables.raw), offsets=marker_of(mirror).offsets))
    return fold_next(sides.beside, raw, _with_alone(tables, marker_of(mirror).alone))


def _has_new_names(sides: _Sides, rebuilt: LakeTable | None) -> bool:
    """Whether a run has renamed columns that get another type; what was rebuilt stands beside their former names."""
    wanted = sides.beside.lake.retypes[sides.live.mirror]
    return rebuilt is not None and len(rebuilt.stored.rebuilt) < len(wanted)


def _with_alone(tables: Tables, alone: int) -> Tables:
    """Tables whose mirror knows how long the topic had one partition: what was begun before may not."""
    if tables.mirror is None:
        return tables
    begun = marker_of(tables.mirror)
    return replace(tables, mirror=replace(tables.mirror, marker=replace(begun, alone=max(begun.alone, alone))))
