"""The history of a mirror's rows: one row a change that was applied (design §4.4), appended as it is published.

What a change did is told by our own fold, never by the wire's `before` (changelog-semantics §1.6). Each change's
`before` is the row that the change before it left, so the changes of a key are a chain without gaps.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, life, rows, verdict
from cdc_materializer.batch.history_columns import (
    ROWS,
    are_of_other_columns,
    as_they_are,
    fields_then,
    in_its_columns,
    plan_fields,
)
from cdc_materializer.batch.standing import with_waiting
from cdc_materializer.batch.steps import Decided
from cdc_materializer.changes import model as m
from cdc_materializer.fold.fold import CURRENT, REBUILT
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.line import batches_seen, markers
from cdc_materializer.lake.stage import Stage
from cdc_materializer.line import swept
from cdc_materializer.line.line import Line, Tables, marker_of, new_marker
from cdc_materializer.line.quarantine import after, goes_beyond, held_messages, is_ahead
from cdc_materializer.marker.marker import Marker
from cdc_materializer.marker.sweeps import Sweep
from cdc_materializer.merge import PLACE, SOURCE_TABLE, forget_changes, history_schema, table_path
from cdc_materializer.offsets import Offsets, Span, batch_id
from cdc_materializer.order import key_order, sweeping
from cdc_materializer.schema.schema import TableSchema, plan_schema
from cdc_materializer.schema.types import fields_of

_PROPERTIES = {"format-version": "2"}
#: Where a history row is from, and what it does; with its key, that tells it from all others.
_IDENTITY = ("topic", "partition", "offset", "op")
_TOLD = "told"
#: Whether a change is of an earlier message that was held, and that a changed contract lets pass.
_ADMITTED = "__cdc_admitted"
#: Whether a change of such a message has been followed by one that readers have seen.
_PASSED = "__cdc_passed"
_GONE_VIEW = "__cdc_not_applied"


def keep(
    line: Line, tables: Tables, reached: Offsets, marker: Marker, decided: Decided, unseen: DataFrame | None = None
) -> None:
    """Commit the batch's changes, just before readers see its rows; a batch that was tried before adds none twice.

    Killed between the two, the next run may decide its messages otherwise, under another contract: what it does not
    apply, or finds another row before, goes again. So does what was kept of messages from before the span that were
    read once more (`release`, `quarantine_retries`). Nothing that readers have seen in the mirror does.

    Args:
        line: the table's way.
        tables: as they were loaded; the mirror is what readers saw before the batch.
        reached: how far the mirror has got.
        marker: the batch's.
        decided: the batch.
        unseen: the rows that its snapshots did not show, from `swept.unseen_keys`.
    """
    sweeps = decided.snapshots.sweeps
    looks = _unpublished_looks(line, tables)
    was_tried = bool(looks) or is_ahead(tables.history, reached)
    is_asked = decided.applied or decided.facts.held or decided.truncates or sweeps or was_tried
    if not line.table.history or not is_asked:
        return
    target = decided.decoders.plan.target
    history = _prepare(line, tables.history, decided, marker)
    is_end = functools.reduce(operator.or_, map(sweeping.is_sweep_of, sweeps), F.lit(False))
    is_told = (F.col(CURRENT) | is_end | F.col(_ADMITTED)) & F.col(life.APPLIED) & ~F.col(_PASSED)
    changes = _with_admitted(line, tables, decided).where(is_told).drop(_ADMITTED, _PASSED)
    found = rows.change_rows(_with_known(line, tables.mirror, changes, target), target)
    if unseen is not None and tables.mirror is not None:
        live = life.live_rows(line.lake.rows(tables.mirror), target)
        found = found.unionByName(rows.change_rows(swept.changes(live, unseen, sweeps, target), target))
    there = _rows(line, history)
    known, tried, seen = there, None, None
    if was_tried:
        seen = _seen_last(line, tables, history, reached, looks)
        known, tried = _told_apart(line, history, there, decided.span, seen)
    if sweeps and len(decided.span.end) > 1:
        found = _behind_what_was_shown(found, known, sweeps, target)
    if decided.truncates:
        found = found.unionByName(_first_sent(rows.truncate_rows(decided.states, target), known))
    found = in_its_columns(found, history.schema.types, str(history.name))
    gone = _decided_otherwise(tried, found) if tried is not None else None
    if tried is not None and seen is not None and seen != history.head:
        lost = _taken_away(tried, there, _rows(line, replace(history, head=seen)))
        found = found.unionByName(_not_there(lost, found, target), allowMissingColumns=True)
    if sweeps and decided.again:
        gone = _with_ends_told_anew(gone, found, there, sweeps, target)
    if gone is not None:
        there = _with_told(there).join(gone, [*_IDENTITY, _TOLD], "left_anti")
    if was_tried or decided.again or decided.facts.held or sweeps:
        found = _not_there(found, there, target)
    line.lake.publish(history, _marker(line, tables.history, history, marker), lambda stage: _stage(stage, found, gone))


def _marker(line: Line, before: LakeTable | None, history: LakeTable, marker: Marker) -> Marker:
    """A batch's marker for the history: of its masks those under which all rows were written, and not only these.

    Args:
        line: the table's way.
        before: the history as it was loaded.
        history: the same, with the columns that the batch needs.
        marker: the batch's.
    """
    told = after(history, marker)
    if before is None or before.is_empty:
        return told
    now = {old.casefold(): new.casefold() for old, new in line.evolution.renames.items()}
    columns = [name.casefold() for name in fields_of(before.schema.types["after"]) or {}]
    there = {now.get(name, name) for name in columns}
    known = {now.get(name, name): how for name, how in marker_of(before).masks.items()}
    masks = {name: how for name, how in told.masks.items() if name not in there or known.get(name) == how}
    return replace(told, masks=masks)


def _with_admitted(line: Line, tables: Tables, decided: Decided) -> DataFrame:
    """A batch's states, with _ADMITTED and _PASSED: held messages of a row are judged again with its next change.

    But what was published behind one has passed it, though quarantine may not know that yet: its run was killed.
    """
    held = held_messages(line, tables.quarantine) if decided.facts.held else None
    states = with_waiting(decided.states, held, _ADMITTED, F.col(life.APPLIED))
    is_change = ~F.col(m.OP).isin(m.WIPE, m.SWEEP)
    published = F.col(life.APPLIED) & ~F.col(CURRENT) & ~F.col(_ADMITTED) & is_change
    last = F.max(F.when(published, F.col(key_order.ORDER))).over(Window.partitionBy(key_order.GROUP))
    is_passed = F.col(_ADMITTED) & F.coalesce(F.col(key_order.ORDER) < last, F.lit(False))
    is_asked = F.col(verdict.MAY_CHANGE) if verdict.MAY_CHANGE in states.columns else F.lit(True)
    told = {_PASSED: is_passed if held is not None else F.lit(False), _ADMITTED: F.col(_ADMITTED) & is_asked}
    return states.withColumns(told)


def _unpublished_looks(line: Line, tables: Tables) -> frozenset[str]:
    """The ids that batches which read once more have where the mirror stands, less those that readers see.

    None as a rule: only where the history's newest batch is one of them, for which its offsets are no sign. A repair,
    which has no history, may have followed on the mirror since, at the same offsets. What lies below a state that was
    swapped in is none of its past.
    """
    mirror, history = tables.mirror, tables.history
    newest = marker_of(history).batch if history is not None else None
    if mirror is None or history is None or newest == marker_of(mirror).batch:
        return frozenset()
    last = marker_of(mirror)
    line_of = (marker for _, marker in markers(line.lake.iceberg(mirror.name), mirror.head))
    here = list(itertools.takewhile(lambda one: (one.offsets, one.swapped) == (last.offsets, last.swapped), line_of))
    span = Span(line.table.topic, last.offsets, last.offsets)
    looks = frozenset(batch_id(line.pipeline, mirror.uuid, span, marker.state) for marker in here)
    looks -= {marker.batch for marker in here}
    return looks if newest in looks else frozenset()


def _told_apart(
    line: Line, history: LakeTable, there: DataFrame, span: Span, seen: int | None
) -> tuple[DataFrame, DataFrame]:
    """The changes that were published, and those that only were tried: of a span, and of messages from before it.

    The latter were read once more (`release`, `quarantine_retries`), held until a contract was changed, or end where a
    snapshot does. They are what was added behind the snapshot `seen`; where that is gone, they stay.
    """
    is_tried = batch.within(span, "partition", "offset")
    known, tried = there.where(~is_tried), there.where(is_tried)
    if seen is None or seen == history.head:
        return known, tried
    ends = {"start-snapshot-id": str(seen), "end-snapshot-id": str(history.head)}
    reader = line.lake.spark.read.format("iceberg").options(**ends)
    added = history.stored.staged(reader.load(table_path(line.lake.catalog, history.name)))
    # Few: those of one batch, or of some that were killed one after the other.
    added = _with_told(added).select(*_IDENTITY, _TOLD).distinct().localCheckpoint()
    places = F.broadcast(added.select(*_IDENTITY).distinct())
    near = known.join(places, list(_IDENTITY), "left_semi")
    again = _with_told(near).join(F.broadcast(added), [*_IDENTITY, _TOLD], "left_semi").drop(_TOLD)
    return known.join(places, list(_IDENTITY), "left_anti"), tried.unionByName(again)


def _taken_away(tried: DataFrame, there: DataFrame, seen: DataFrame) -> DataFrame:
    """Ends of rows that readers knew, and in place of which a batch that was never published has told others.

    Args:
        tried: what such batches have told.
        there: all that the history has.
        seen: what it had when readers last knew all of it.
    """
    columns, places = [*_IDENTITY, _TOLD], tried.select(*_IDENTITY).distinct()
    was, now = (_with_told(part.join(places, list(_IDENTITY), "left_semi")) for part in (seen, there))
    return was.where(F.col("op") == "d").join(now.select(*columns), columns, "left_anti").drop(_TOLD)


def _seen_last(line: Line, tables: Tables, history: LakeTable, reached: Offsets, looks: frozenset[str]) -> int | None:
    """The history's newest snapshot of a batch that readers of the mirror have seen; None where none is left.

    What is ahead of the mirror they have not, unless that was rolled back since.
    """
    line_of = markers(line.lake.iceberg(history.name), history.head)
    if looks:
        return next((number for number, marker in line_of if marker.batch not in looks), None)
    seen = batches_seen(line.lake.iceberg(tables.mirror.name)) if tables.mirror is not None else frozenset()
    for number, marker in line_of:
        if marker.batch in seen or not goes_beyond(marker.offsets, reached):
            return number
    return None


def _rows(line: Line, history: LakeTable) -> DataFrame:
    """What a history has, in its columns as they are by now."""
    found, stored = line.lake.rows(history), history.schema.types
    if history.head is None or not are_of_other_columns(found, stored):
        return found
    table = line.lake.iceberg(history.name)
    return as_they_are(found, {row: fields_then(table, history.head, row) for row in ROWS}, stored)


def _stage(stage: Stage, found: DataFrame, gone: DataFrame | None) -> None:
    if gone is not None:
        stage.name(_GONE_VIEW, gone)
        stage.execute(forget_changes(stage.lake.catalog, stage.base.name, stage.branch, _GONE_VIEW))
    stage.append(found)


def _with_told(changes: DataFrame) -> DataFrame:
    """Changes with both of their rows as one text, by which they are compared: not every type can be."""
    return changes.withColumn(_TOLD, F.to_json(F.struct("before", "after"), m.EXACT_TIMES))


def _decided_otherwise(tried: DataFrame, found: DataFrame) -> DataFrame | None:
    """What tells the changes of a batch that was not published which are no changes of it any more; None for none."""
    columns = [*_IDENTITY, _TOLD]
    gone = _with_told(tried).select(*columns).join(_with_told(found).select(*columns), columns, "left_anti")
    gone = gone.distinct().localCheckpoint()
    return None if gone.isEmpty() else gone


def _behind_what_was_shown(
    found: DataFrame, known: DataFrame, sweeps: Sequence[Sweep], target: TableSchema
) -> DataFrame:
    """The changes of a batch, the ends that snapshots make of rows behind all that the history has of these.

    A change stands where its partition had got with the row by then, which can be beyond its own position, the one that
    the mirror tells: so do the changes that come again behind a snapshot.
    """
    if PLACE not in known.columns:
        return found
    keys = {f"__cdc_key_{at}": name for at, name in enumerate(target.key)}
    of_change = [F.coalesce(F.col("after")[name], F.col("before")[name]).alias(key) for key, name in keys.items()]
    sort = F.substring_index(F.col(PLACE)["sort"], " ", 1)
    for sweep in sweeps:
        before = known.where(sweeping.is_before(sweep, "partition", "offset"))
        shown = before.groupBy(*of_change).agg(F.max(F.coalesce(sort, "position")).alias("__cdc_shown"))
        match = [F.col("before")[name] == F.col(key) for key, name in keys.items()]
        joined = found.join(shown, [_is_end_of(sweep), *match], "left")
        place = F.col(PLACE).withField("sort", key_order.behind_all(F.greatest(sort, "__cdc_shown")))
        behind = F.when(_is_end_of(sweep), place).otherwise(F.col(PLACE))
        found = joined.withColumn(PLACE, behind).drop("__cdc_shown", *keys)
    return found


def _is_end_of(sweep: Sweep) -> Column:
    """Whether a change is the end that a snapshot makes of a row."""
    partition, offset = sweep.last
    return (F.col("partition") == partition) & (F.col("offset") == offset) & (F.col("op") == "d")


def _with_ends_told_anew(
    gone: DataFrame | None, found: DataFrame, there: DataFrame, sweeps: Sequence[Sweep], target: TableSchema
) -> DataFrame | None:
    """What goes, with the ends that a snapshot made of rows, where a message that is read once more lies ahead of them.

    Each stands right behind the last change that its row had shown, and tells what that was: by now it is another one,
    even where it leaves the row as it was.
    """
    is_end = functools.reduce(operator.or_, map(_is_end_of, sweeps))
    keys = [F.col("before")[name] for name in target.key]
    named = {f"__cdc_key_{at}": key for at, key in enumerate(keys)}
    # As in `_first_sent`.
    told = F.to_json(F.struct("before", *([PLACE] if PLACE in there.columns else [])), m.EXACT_TIMES)
    anew = found.where(is_end).select(*_IDENTITY, told.alias("__cdc_anew"), *[key.alias(n) for n, key in named.items()])
    ends = _with_told(there.where(is_end)).withColumns(named)
    other = ends.join(F.broadcast(anew), [*_IDENTITY, *named]).where(told != F.col("__cdc_anew"))
    other = other.select(*_IDENTITY, _TOLD).distinct().localCheckpoint()
    if other.isEmpty():
        return gone
    return other if gone is None else gone.unionByName(other)


def _not_there(found: DataFrame, history: DataFrame, target: TableSchema) -> DataFrame:
    """The changes that the history has not got; a message can be of many rows, and many end where a snapshot does."""
    # Of a truncate, which is of all rows, the key is NULL.
    keys = [F.coalesce(F.col("after")[name], F.col("before")[name]) for name in target.key]
    # As in `_first_sent`.
    part = F.col(PLACE)["part"] if PLACE in history.columns else F.lit(None)
    there = history.select(
        *[F.col(name).alias(f"there_{name}") for name in _IDENTITY],
        *[key.alias(f"there_key_{at}") for at, key in enumerate(keys)],
        part.alias("there_part"),
    )
    match = [F.col(name) == F.col(f"there_{name}") for name in _IDENTITY]
    match += [key.eqNullSafe(F.col(f"there_key_{at}")) for at, key in enumerate(keys)]
    # One message can change a row several times; rows of earlier versions do not say which change they are, and neither
    # does the end of a row that only the mirror knows.
    match.append(F.coalesce(F.col(PLACE)["part"] == F.col("there_part"), F.lit(True)))
    return found.join(there, match, "left_anti")


def _with_known(line: Line, mirror: LakeTable | None, changes: DataFrame, target: TableSchema) -> DataFrame:
    """The batch's applied changes, each with what was there before it; the mirror tells it of the first of each key."""
    if mirror is None or mirror.is_empty:
        return changes
    keys = [m.column(name) for name in target.key]
    first = F.col(life.BEFORE).isNull() & ~F.col(REBUILT)
    wanted = F.broadcast(changes.where(first).select(*keys))
    live = life.live_rows(line.lake.rows(mirror), target)
    # Cut off from its plan: Spark would fold the batch once more for the second use of its states.
    known = (
        live.join(wanted, list(target.key), "left_semi")
        .select(
            *[m.column(name).alias(f"__cdc_known_{at}") for at, name in enumerate(target.key)],
            life.known_row(target).alias("__cdc_known"),
        )
        .localCheckpoint()
    )
    match = [key == F.col(f"__cdc_known_{at}") for at, key in enumerate(keys)]
    joined = changes.join(known, [first, *match], "left")
    return joined.withColumn(life.BEFORE, F.coalesce(life.BEFORE, "__cdc_known"))


def _first_sent(truncates: DataFrame, history: DataFrame) -> DataFrame:
    """The truncates without those that were sent before, in the batch or earlier: of the same table and position."""
    ordered = Window.partitionBy("position", SOURCE_TABLE).orderBy("partition", "offset")
    # A snapshot is read in its own columns, which had no room for the table in an earlier version.
    table = F.col(SOURCE_TABLE) if SOURCE_TABLE in history.columns else F.lit(None).cast("string")
    named = {"there_position": F.col("position"), f"there_{SOURCE_TABLE}": table}
    there = history.where(F.col("op") == m.TRUNCATE).select(*[column.alias(name) for name, column in named.items()])
    # One statement can empty several tables, at one position.
    is_same = F.coalesce(F.col(SOURCE_TABLE) == F.col(f"there_{SOURCE_TABLE}"), F.lit(True))
    fresh = truncates.join(there, (F.col("position") == F.col("there_position")) & is_same, "left_anti")
    is_first = F.col("position").isNull() | (F.row_number().over(ordered) == 1)
    return fresh.withColumn("first", is_first).where("first").drop("first")


def _prepare(line: Line, history: LakeTable | None, decided: Decided, marker: Marker) -> LakeTable:
    """The table with the columns that the mirror has, and room for the source tables and places of its changes."""
    target, span = decided.decoders.plan.target, decided.span
    if history is None:
        start = new_marker(line, Span(span.topic, span.start, span.start), "", marker.topic_id)
        return line.lake.create(line.mirror.history, history_schema(target), start, _PROPERTIES)
    added = tuple(column for column in history_schema(target).columns if column.name in {SOURCE_TABLE, PLACE})
    named = plan_schema(history.schema, [TableSchema(added)])
    history = history if named.is_empty else line.lake.evolve(history, named)
    for row in ROWS:
        # Each for itself: a run may have been killed between the two.
        pending, plan = plan_fields(line.lake.fields(history, row), target, line.evolution)
        if pending or not plan.is_empty:
            history = line.lake.evolve(replace(history, pending=pending), plan, row)
    return history
