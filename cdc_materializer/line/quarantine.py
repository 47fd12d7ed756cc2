"""The quarantine table of a mirror: what is held, what waits for a schema, what has been overtaken (design §4.5)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, doubts, rows, verdict
from cdc_materializer.batch.steps import Decided
from cdc_materializer.contract import Action
from cdc_materializer.errors import UNJUDGED, Code, ContractBlocked, DuplicateColumn, SourceRewound
from cdc_materializer.lake.lake import MAIN, LakeTable
from cdc_materializer.lake.stage import Stage
from cdc_materializer.lanes import topic_of
from cdc_materializer.line.line import Line, Tables, marker_of, new_marker, reload
from cdc_materializer.line.quarantine_ends import ENDED, ended_by
from cdc_materializer.line.quarantine_rows import end_of, remark, row_without_message, said_of
from cdc_materializer.marker.marker import STOPPED, Marker, beside_mirror
from cdc_materializer.merge_quarantine import (
    QUARANTINE_SCHEMA,
    VIOLATION_ID,
    forget_remarks,
    hold_again,
    resolve_quarantine,
    unpublished_remarks,
)
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span

_PROPERTIES = {
    "format-version": "2",
    # Small and read by people: no delete files, so that every engine reads it.
    "write.delete.mode": "copy-on-write",
    "write.update.mode": "copy-on-write",
    "write.merge.mode": "copy-on-write",
}
_CHANGES_VIEW = "__cdc_quarantined"
#: What a commit changes, and the statements that do it.
_Step = tuple[DataFrame, *tuple[Callable[..., str], ...]]
OPEN = verdict.OPEN
#: The action of a row of a stop that no message carries.
_STOP = "stop"
#: Codes of stops that are noted beside the messages, because no message of the batch carries them.
_NOTED = (Code.OFFSET_GAP, Code.OFFSET_REGRESSION, Code.DUPLICATE_COLUMN)


def held_messages(line: Line, quarantine: LakeTable | None, span: Span | None = None) -> DataFrame | None:
    """The open held messages of known keys, from before a span if one is given; None without a quarantine.

    What a failed run has held of the span itself, or of what comes behind it, says nothing of the keys' past.

    Returns:
        Of each violation: key (JSON text, as m.KEY), partition, offset.
    """
    if quarantine is None or quarantine.is_empty:
        return None
    still_open = (F.col("status") == verdict.OPEN) & F.col("key").isNotNull()
    still_open = still_open & ~_is_from(span) if span is not None else still_open
    return line.lake.rows(quarantine).where(still_open).select("key", "partition", "offset")


def blocking(line: Line, quarantine: LakeTable | None) -> tuple[str, ...]:
    """The rules about rows that block batches and that hold something: on a replay's branch, where nothing stops.

    What was held under another action, in the state that a replay goes on from, was not judged again.
    """
    rules = [rule.name for rule in (line.contract.row_rules if line.contract is not None else ()) if rule.blocks]
    if quarantine is None or quarantine.is_empty or not rules:
        return ()
    is_held = (F.col("status") == verdict.OPEN) & (F.col("action") == str(Action.BLOCK)) & F.col("rule").isin(rules)
    found = line.lake.rows(quarantine).where(is_held).select("rule").distinct().collect()
    return tuple(sorted(row["rule"] for row in found))


def _is_from(span: Span) -> Column:
    """Whether a row lies in a span, or behind it in a partition of it."""
    endless = Offsets(dict.fromkeys(span.start, 2**63 - 1))
    return batch.within(replace(span, end=endless), "partition", "offset")


def unread(line: Line, quarantine: LakeTable | None, span: Span) -> DataFrame | None:
    """Where messages are held of which not even the key is known (partition, offset); None without a quarantine.

    Those from before a span, as `held_messages` has them.
    """
    if quarantine is None or quarantine.is_empty:
        return None
    # A delete with a made-up key shows no row.
    is_told = F.col("code") == str(Code.KEY_VALUE_MISMATCH)
    of_no_key = F.col("key").isNull() & ~is_told & (F.col("action") == "hold") & ~_is_from(span)
    held = line.lake.rows(quarantine).where((F.col("status") == verdict.OPEN) & of_no_key)
    return held.select("partition", "offset")


def is_ahead(table: LakeTable | None, reached: Offsets) -> bool:
    """Whether quarantine or history were told of a batch that the mirror has not got: it was tried before."""
    return table is not None and goes_beyond(marker_of(table).offsets, reached)


def goes_beyond(offsets: Mapping[int, int], reached: Mapping[int, int]) -> bool:
    """Whether offsets are behind others in some partition."""
    return any(offset > reached.get(partition, 0) for partition, offset in offsets.items())


def has_of(line: Line, quarantine: LakeTable | None, span: Span) -> bool:
    """Whether quarantine holds something of a span already, which the batch may end: it was tried before."""
    if quarantine is None or not is_ahead(quarantine, span.start):
        return False
    is_held = (F.col("status") != verdict.RELEASED) & batch.within(span, "partition", "offset")
    return not line.lake.rows(quarantine).where(is_held).isEmpty()


@contextmanager
def noting_stops(line: Line, tables: Tables) -> Iterator[None]:
    """Put a stop that no message of the batch carries into quarantine too, once (design §4.5)."""
    try:
        yield
    except (SourceRewound, DuplicateColumn) as stop:
        if stop.code in _NOTED:
            _note(line, tables, Code(stop.code), getattr(stop, "place", None))
        raise
    except ContractBlocked as stop:
        for rule, action in {**dict.fromkeys(stop.rules, _STOP), **dict.fromkeys(stop.unjudged, UNJUDGED)}.items():
            # The batch itself may have written to quarantine since it was loaded.
            held = line.lake.load(line.mirror.quarantine)
            _note(line, replace(tables, quarantine=held), Code.CONTRACT, None, rule, action)
        raise


def _note(
    line: Line,
    tables: Tables,
    code: Code,
    place: tuple[int, int] | None,
    rule: str | None = None,
    action: str = _STOP,
) -> None:
    table = tables.quarantine or create(line, None)
    if place is None:
        place = end_of(marker_of(tables.mirror)) if tables.mirror is not None else (0, 0)
    open_rows = line.lake.rows(table).where((F.col("code") == str(code)) & is_noted())
    open_rows = open_rows.where(F.col("rule").eqNullSafe(F.lit(rule)))
    open_rows = open_rows.where((F.col("partition") == place[0]) & (F.col("offset") == place[1]))
    # A rule that was broken there may have been changed to one that cannot be judged, and back.
    if open_rows.agg(F.max_by("action", "detected_at")).collect()[0][0] == action:
        return
    said, known = (said_of(line, rule) if rule is not None else {}), marker_of(table)
    if rule is not None and line.contract is not None:
        # Otherwise nothing was judged, and the newest contract that has judged stays so.
        known = replace(known, contract=line.contract.fingerprint)
    row = row_without_message(line, code, place, {**said, "action": action, "status": verdict.OPEN})
    line.lake.publish(table, replace(known, counts={STOPPED: 1}), lambda stage: stage.append(row))


def warn_of(line: Line, rules: Sequence[str], marker: Marker, span: Span | None = None) -> LakeTable:
    """Note rules about the table that a batch broke and that only warn, or are only tried; quarantine as it is then.

    Of those that are only tried some could not be judged (`Marker.untried`).

    After the mirror's commit, as `settle`, and before that: what was settled was noted.

    Args:
        line: the table's way.
        rules: their names.
        marker: the batch's.
        span: what it has read, where that is known.
    """
    table = line.lake.load(line.mirror.quarantine) or create(line, None)
    place = end_of(marker, span)
    rows_of = [remark(line, rule, place, is_judged=rule not in marker.untried) for rule in rules]
    row = functools.reduce(DataFrame.unionByName, rows_of)
    line.lake.publish(table, after(table, replace(marker, noted=marker.batch)), lambda stage: stage.append(row))
    return reload(line, line.mirror.quarantine)


def has_stops(quarantine: LakeTable) -> bool:
    """Whether the newest that was written says that the table stopped for a reason that no message carries."""
    return bool(marker_of(quarantine).counts.get(STOPPED))


def has_losses(line: Line, quarantine: LakeTable | None) -> bool:
    """Whether the table has stopped because its topic lost something, and nobody has accepted that yet."""
    if quarantine is None or not has_stops(quarantine):
        return False
    is_loss = F.col("code").isin(str(Code.OFFSET_GAP), str(Code.OFFSET_REGRESSION))
    return not line.lake.rows(quarantine).where(is_noted() & is_loss).isEmpty()


def rewound_topics(line: Line, quarantine: LakeTable | None) -> frozenset[int]:
    """The numbers of the topics that ended before what was read, so that the table stopped and was not let go on."""
    if quarantine is None or not has_stops(quarantine):
        return frozenset()
    is_open = (F.col("status") == verdict.OPEN) & (F.col("code") == str(Code.OFFSET_REGRESSION))
    stops = line.lake.rows(quarantine).where(is_open).select("partition").distinct().collect()
    return frozenset(topic_of(row["partition"]) for row in stops)


def is_noted() -> Column:
    """Whether a quarantine row is a stop that no message carries, and still open."""
    is_stop = F.col("code").isin(*[str(code) for code in _NOTED]) | (
        (F.col("code") == str(Code.CONTRACT)) & F.col("action").isin(_STOP, UNJUDGED)
    )
    return is_stop & (F.col("status") == verdict.OPEN)


def is_warning() -> Column:
    """Whether a quarantine row tells of a batch what no message carries and nothing stops for.

    A rule about the table that only warns and was broken, or one that is only tried and could not be judged (`warn_of`,
    `hold`). It lies where its batch ended: no message is there, or one of a later batch.
    """
    is_stop = F.coalesce(F.col("action").isin(_STOP, UNJUDGED), F.lit(False))
    return (F.col("code") == str(Code.CONTRACT)) & F.col("batch_id").eqNullSafe(F.lit("")) & ~is_stop


def release_stops(line: Line, quarantine: LakeTable, judged: Marker | None = None) -> None:
    """End the stops that no message carries: the table goes on.

    Args:
        line: the table's way.
        quarantine: the table as it was loaded.
        judged: the marker of the batch that has overcome them: by its contract the end is told, also where it has none
            any more. None where a person ends them, who judges nothing.
    """
    if not has_stops(quarantine):
        return
    stops = line.lake.rows(quarantine).where(is_noted())
    ended = stops.select(*ENDED, F.lit(verdict.RELEASED).alias("to")).distinct()
    known = marker_of(quarantine)
    contract = judged.contract if judged is not None else known.contract
    _merge(line, quarantine, replace(known, counts={STOPPED: 0}, contract=contract), (ended, resolve_quarantine))


def create(line: Line, topic_id: str | None) -> LakeTable:
    """Make the quarantine table; there is none of that name."""
    nothing = Span(line.table.topic, Offsets(), Offsets())
    start = new_marker(line, nothing, "", topic_id)
    return line.lake.create(line.mirror.quarantine, QUARANTINE_SCHEMA, start, _PROPERTIES)


def hold(
    line: Line,
    quarantine: LakeTable | None,
    reached: Offsets,
    marker: Marker,
    decided: Decided,
    untold: Sequence[str] = (),
) -> LakeTable | None:
    """Commit the batch's violations; one that was tried before finds its own already there and adds none twice.

    So does one whose messages were all read before (`cdcm quarantine release`). What was remarked of messages that are
    not published is told anew: with another contract it may not be so, and another batch may come to publish them. Of
    messages that are read once more it is told behind the commit that readers see (`settle`): they lie where messages
    are that were published, so that nobody could tell it from what is remarked of those.

    Args:
        line: the table's way.
        quarantine: the table as it was loaded; it is made where there is none.
        reached: how far the mirror has got.
        marker: the batch's.
        decided: the batch.
        untold: the rules about rows that are only tried and that it could not judge, other than the one before.
    """
    is_behind = is_ahead(quarantine, reached)
    found, has_some = rows.violation_rows(decided.states, marker.batch, line.now()), bool(decided.violations)
    if has_some and decided.looks_back:
        found = _stopping_nobody(line, found.where(~_is_later(decided)), decided)
        has_some = not found.isEmpty()
    if not has_some and not untold and not (is_behind and _has_remarks(line, quarantine, reached)):
        return quarantine
    for rule in untold:
        # Nobody could tell otherwise that it was not kept: nothing breaks it, and nothing stops for it.
        found = found.unionByName(remark(line, rule, end_of(marker, decided.span), is_judged=False))
    if quarantine is None:
        quarantine = create(line, marker.topic_id)
    # Of messages that are read once more it may have some from a batch that failed long ago.
    if is_behind or marker_of(quarantine).batch == marker.batch or decided.looks_back:

        def forget(catalog: str, table: TableName, branch: str, _: str) -> str:
            return forget_remarks(catalog, table, branch, reached)

        _merge(line, quarantine, marker, (_each(found), forget, hold_again))
    else:
        line.lake.publish(quarantine, after(quarantine, marker), lambda stage: stage.append(found))
    return reload(line, line.mirror.quarantine)


def _has_remarks(line: Line, quarantine: LakeTable | None, reached: Offsets) -> bool:
    """Whether anything is remarked of messages that no batch has published."""
    if quarantine is None:
        return False
    return not line.lake.rows(quarantine).alias("t").where(unpublished_remarks(reached)).isEmpty()


def _is_later(decided: Decided) -> Column:
    """Whether a quarantine row of a batch is a remark of a message that it reads once more: `settle` tells it."""
    return (F.col("status") == verdict.RELEASED) & _is_read_again(decided)


def _stopping_nobody(line: Line, found: DataFrame, decided: Decided) -> DataFrame:
    """A batch's rows for quarantine, of which those about messages of batches that were published hold, and no more.

    A rule that blocks by now refuses to release such a message, and runs go on behind it: as one that has stopped the
    table nothing would read it again. On a replay's branch it keeps what is rebuilt from being published (`blocking`).
    """
    if line.lake.branch != MAIN:
        return found
    is_stop = (F.col("action") == str(Action.BLOCK)) & _is_read_again(decided)
    return found.withColumn("action", F.when(is_stop, str(Action.QUARANTINE)).otherwise(F.col("action")))


def _is_read_again(decided: Decided) -> Column:
    """Whether a quarantine row of a batch is of a message from before its span."""
    before = Span(decided.span.topic, Offsets(dict.fromkeys(decided.span.start, 0)), decided.span.start)
    return batch.within(before, "partition", "offset")


def _each(found: DataFrame) -> DataFrame:
    """Rows for `hold_again`, which says what `named` is.

    MERGE takes one row for each of its target, and two changes of a message without keys are found as one.
    """
    named = F.col("key").isNotNull() & (F.count(F.lit(1)).over(Window.partitionBy(*VIOLATION_ID)) == 1)
    return found.dropDuplicates([*VIOLATION_ID, "key"]).withColumn("named", named)


def after(table: LakeTable, marker: Marker) -> Marker:
    """A batch's marker for quarantine or history: offsets never go back, and that the table has stopped is kept."""
    return beside_mirror(marker_of(table), marker)


def as_held(line: Line, states: DataFrame) -> DataFrame:
    """States of a strict table with what its runs have held for its place, which depends on what they read first."""
    if not line.table.strict:
        return states
    held = line.lake.load(line.mirror.quarantine)
    return doubts.as_held(states, line.lake.rows(held).where(F.col("status") == OPEN) if held is not None else None)


def settle(line: Line, quarantine: LakeTable, marker: Marker, decided: Decided) -> None:
    """End the violations that hold no more since a batch that readers see.

    After the mirror's commit and not before: where a run is killed between, keys are folded from their first message
    once more that need not be, and the next run ends them (`settling`).
    """
    # What a batch behind this one has tried is not this one's to end.
    reached = Span(line.table.topic, Offsets(dict.fromkeys(marker.offsets, 0)), marker.offsets)
    held = line.lake.rows(quarantine).where(batch.within(reached, "partition", "offset"))
    steps: list[_Step] = [(ended_by(decided.states, held), resolve_quarantine)]
    if decided.looks_back and decided.violations:
        told = rows.violation_rows(decided.states, marker.batch, line.now()).where(_is_later(decided))
        steps.append((_each(told), hold_again))
    _merge(line, quarantine, replace(marker, settled=marker.batch), *steps)


def go_on(line: Line, quarantine: LakeTable, marker: Marker, *, has_read: bool) -> LakeTable:
    """End the stops that a batch which readers see has overcome, and return quarantine as it is then.

    That a topic has lost its end is never overcome: when it has grown again, the stop is all that still tells of it,
    and a person decides (`cdcm adopt`). Nor is any loss by a batch that has read nothing new.

    Args:
        line: the table's way.
        quarantine: the table as it was loaded.
        marker: the batch's.
        has_read: whether it has read something new.
    """
    is_kept = bool(rewound_topics(line, quarantine)) if has_read else has_losses(line, quarantine)
    if is_kept or not has_stops(quarantine):
        return quarantine
    release_stops(line, quarantine, marker)
    return reload(line, quarantine.name)


def _merge(line: Line, quarantine: LakeTable, marker: Marker, *steps: _Step) -> None:
    """Change rows of quarantine in one commit: each step by a view of its own, with one statement or several."""

    def end(stage: Stage) -> None:
        for changes, *statements in steps:
            stage.name(_CHANGES_VIEW, changes)
            for statement in statements:
                stage.execute(statement(line.lake.catalog, quarantine.name, stage.branch, _CHANGES_VIEW))

    line.lake.publish(quarantine, after(quarantine, marker), end)
