"""What a batch ends in quarantine, where its run was killed right behind the commit that readers see.

Quarantine comes last there: a violation that was ended too early would take what its message carries from a later
change of the row. Ended too late it costs a read of raw, and is told as open though it is not. So the mirror's marker
says that something is to be ended, and quarantine's of which batch that was done last; where that is another one, the
batch is decided once more, on the mirror as it was before, and nothing but the end is written. Rules about the table
that only warn are judged when everything is staged, and noted behind the commit as well; their names are in the marker.

Likewise where a mirror was swapped in, or taken back: its marker says which snapshot of quarantine goes with it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from cdc_materializer import crash_points
from cdc_materializer.batch import batch
from cdc_materializer.batch.steps import Decided
from cdc_materializer.errors import CommitConflict, LakeUnavailable, RegistryUnavailable
from cdc_materializer.lake.branches import has_snapshot, keep, let_go, replace_rows
from cdc_materializer.lake.columns import is_of_other_columns
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.line import summaries
from cdc_materializer.line import judging, quarantine
from cdc_materializer.line.line import Line, Tables, marker_of, reload
from cdc_materializer.line.then import at_snapshot
from cdc_materializer.marker.marker import LEFT, Marker, is_half_swapped, is_unnoted, is_unsettled
from cdc_materializer.marker.swapped import BEFORE_REPLAY
from cdc_materializer.offsets import Offsets, Span

_LOG = logging.getLogger(__name__)


def tell_quarantine(line: Line, raw: LakeTable, held: LakeTable | None, marker: Marker, decided: Decided) -> None:
    """Note what a batch that readers see by now warns of, then end what it ends (`Marker.settles`).

    Where another process is first there, that is left to the next look (`settled`): the batch is published.

    Args:
        line: the table's way.
        raw: raw as it was folded.
        held: quarantine as the batch's violations were committed to it; None where there is none.
        marker: the batch's.
        decided: the batch.

    Raises:
        CommitConflict: another process was first, and the batch has read nothing new (`release`): do it again.
    """
    try:
        if marker.warned:
            held = quarantine.warn_of(line, marker.warned, marker, decided.span)
        if held is not None and marker.settles is not None:
            quarantine.settle(line, _gone_on(line, raw, held, decided.span, marker), marker, decided)
    except CommitConflict as lost:
        if decided.span.is_empty:  # No look ends what was read again, and reading it again does.
            raise
        what = "The newest batch of %s is published. What it warns of, or ends in quarantine, the next run writes: %s"
        _LOG.warning(what, line.mirror, lost.what)


def _gone_on(line: Line, raw: LakeTable, held: LakeTable, span: Span, marker: Marker) -> LakeTable:
    """Quarantine, once the stops are ended that the mirror's newest batch has overcome, which has read a span.

    One that reads nothing new (`release`) overcomes nothing that keeps messages waiting.
    """
    if span.is_empty and span.end != marker_of(raw).offsets:
        return held
    return quarantine.go_on(line, held, marker, has_read=not span.is_empty)


def settled(line: Line, raw: LakeTable, tables: Tables, again: Callable[[Tables, Span], Decided]) -> Tables:
    """The tables, once quarantine was told what the mirror's newest batch has ended; as a rule it was.

    Where the batch comes to anything else today, because of its rules, its schemas or snapshots that have expired, what
    it ended stays open until the next change of the row; so does what was released (`release`), until that is asked for
    again. It is looked at once. Stops that no message carries are ended in any case where it has read on.

    Args:
        line: the table's way.
        raw: raw as it is.
        tables: as they were loaded.
        again: decides the messages of a span on tables as they were.

    Raises:
        RegistryUnavailable: there are new messages. Without any a run needs no registry, and what is open stays so.
        LakeUnavailable: what goes with a mirror that was swapped in is gone.
    """
    # Swaps first: what was noted goes with the quarantine that is swapped in.
    tables = _noted(line, swap_ended(line, tables))
    mirror, held = tables.mirror, tables.quarantine
    if mirror is None or held is None or not is_unsettled(mirror.marker, held.marker):
        return tables
    marker, before = marker_of(mirror), _before(line, mirror)
    fingerprint = line.contract.fingerprint if line.contract is not None else None
    reached = marker_of(before).offsets if before is not None else marker.offsets
    span = batch.whole(reached, marker.offsets, line.table.topic)
    held = _gone_on(line, raw, held, span, marker)
    if before is None or span.is_empty or fingerprint != marker.contract:
        _leave(line, held, marker)
    else:
        try:
            decided = again(replace(tables, mirror=before), span)
        except RegistryUnavailable:
            if marker_of(raw).offsets != marker.offsets:
                raise
            return replace(tables, quarantine=held)
        try:
            if _is_same(decided, marker):
                quarantine.settle(line, held, marker, decided)
            else:
                _leave(line, held, marker)
        finally:
            judging.release(decided.states)
    return replace(tables, quarantine=reload(line, held.name))


def _noted(line: Line, tables: Tables) -> Tables:
    """The tables, once quarantine has the rules that the mirror's newest batch warns of: its marker has their names."""
    mirror, held = tables.mirror, tables.quarantine
    if mirror is None or not is_unnoted(mirror.marker, held.marker if held is not None else None):
        return tables
    marker = marker_of(mirror)
    return replace(tables, quarantine=quarantine.warn_of(line, marker.warned, marker))


def _before(line: Line, mirror: LakeTable) -> LakeTable | None:
    """The mirror as its newest batch found it; None where that snapshot is gone, or has columns of other types.

    Below a mirror that was swapped in stands the one before it, which may have read more.
    """
    table, marker = line.lake.iceberg(mirror.name), marker_of(mirror)
    for number, _, _, summary in summaries(table, mirror.head):
        found = Marker.from_summary(summary)
        if found is not None and found.batch != marker.batch:
            is_before = all(at <= marker.offsets.get(p, -1) for p, at in found.offsets.items())
            is_usable = is_before and not is_of_other_columns(table, number)
            return at_snapshot(line, mirror, number) if is_usable else None
    return None


def _leave(line: Line, held: LakeTable, marker: Marker) -> None:
    """Note that nothing more is ended in a batch's name; what it has read once more seems to wait until the next."""
    line.lake.publish(held, quarantine.after(held, replace(marker, settled=LEFT + marker.batch)), lambda _stage: None)


def is_given_up(mirror: Marker | None, quarantine: Marker | None) -> bool:
    """Whether nothing more is ended in the name of a mirror's newest batch, though it may have ended something."""
    return mirror is not None and quarantine is not None and quarantine.settled == LEFT + mirror.batch


def _is_same(decided: Decided, marker: Marker) -> bool:
    """Whether a batch comes to what it came to: its outcomes, and the violations that it has found.

    What quarantine holds proves neither: a failed run may have held more of the same messages.
    """
    is_counted = all(marker.counts.get(outcome, 0) == count for outcome, count in decided.counts.items())
    return is_counted and decided.wrongs == marker.settles


# --- swaps
# ----------------------------------------------------------------------------------------------------------------------


def swap_ended(line: Line, tables: Tables) -> Tables:
    """The tables, once quarantine has what goes with a mirror that was swapped in or taken back; as a rule it has.

    What was found of messages behind that state is as true of this one, and both may have it; so is a stop that
    nobody has accepted. What a table warns of is told by the state that it was found of.

    Raises:
        LakeUnavailable: the snapshot of quarantine that has it is gone.
    """
    mirror, held = tables.mirror, tables.quarantine
    if mirror is None or held is None or not tables.is_half_swapped:
        return tables
    lake, marker, right = line.lake, marker_of(mirror), held_with(line, tables)
    swapped = marker.swapped
    if swapped is None or right is None:
        what = f"{line.mirror} was swapped in, and the snapshot of {held.name} that goes with it is gone."
        raise LakeUnavailable(what, f"`cdcm replay {line.mirror} --publish` rebuilds both.")
    if swapped.before is not None and has_snapshot(lake, held.name, swapped.before):
        keep(lake, held.name, swapped.before, BEFORE_REPLAY)
    told = Span(marker.topic, Offsets(dict.fromkeys(marker.offsets, 0)), marker.offsets)
    is_of_it = batch.within(told, "partition", "offset") | quarantine.is_warning()
    others = lake.rows(held).where(~is_of_it | quarantine.is_noted())
    final = lake.rows(right).where(is_of_it & ~quarantine.is_noted()).unionByName(others)
    is_left = is_given_up(marker, marker_of(right))
    after = quarantine.after(held, replace(marker, settled=LEFT + marker.batch if is_left else marker.batch))
    try:
        lake.publish(held, after, lambda stage: replace_rows(stage, final))
    except CommitConflict:
        # A run beside a replay may have been faster, and does the same.
        if is_half_swapped(marker, reload(line, held.name).marker):
            raise
    crash_points.reach("settled", line.mirror)
    let_go(lake, held.name, swapped.held)
    return replace(tables, quarantine=reload(line, held.name))


def held_with(line: Line, tables: Tables) -> LakeTable | None:
    """The quarantine that goes with the mirror: as it is, or where a swap is to be ended, as it is going to be.

    None where there is none, or that snapshot is gone.
    """
    mirror, held = tables.mirror, tables.quarantine
    swapped = mirror.marker.swapped if mirror is not None and mirror.marker is not None else None
    if held is None or swapped is None or not tables.is_half_swapped:
        return held
    return at_snapshot(line, held, swapped.held) if has_snapshot(line.lake, held.name, swapped.held) else None
