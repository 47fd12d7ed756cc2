"""The swap of a rebuilt mirror for the one that readers see, and the way back.

Mirror and quarantine are two tables, and no commit changes both. The mirror goes first, in one commit that also says
which snapshot of quarantine goes with it (`Marker.swapped`); then quarantine follows. Whoever writes the table next, or
rebuilds it again, ends that first (`settling`), so a kill between the two loses nothing.
"""

from __future__ import annotations

from dataclasses import replace

from cdc_materializer import crash_points
from cdc_materializer.errors import CommitConflict, UsageError
from cdc_materializer.lake.branches import drop_branches, drop_tag, go_back, keeps, swap
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import MAIN, LakeTable
from cdc_materializer.line.checks import check_dropped, masked_otherwise
from cdc_materializer.line.line import Line, Tables, marker_of
from cdc_materializer.line.schemas import remember
from cdc_materializer.line.settling import held_with, swap_ended
from cdc_materializer.marker.marker import Marker
from cdc_materializer.marker.swapped import BEFORE_REPLAY, Swapped
from cdc_materializer.rebuild.base import carried
from cdc_materializer.retry import COMMIT, REPLAN

_KEEPS_NONE = "{} keeps no state from before a replay. Nothing was written."
_DO_INSTEAD = "`cdcm replay {} --publish` rebuilds the mirror by today's contract; `--forget` lets go of those rows."


def load_all(line: Line) -> Tables:
    """Raw as it is, mirror and quarantine as they are on the branch of the line's lake.

    The mirror first: what columns are renamed by meanwhile, raw has had before. Raw is a run's to write, and what one
    is staging there stays.
    """
    name, lake, mirror = line.mirror, line.lake, line.load_mirror()
    return Tables(replace(lake, branch=MAIN, read_only=True).load(name.raw), mirror, lake.load(name.quarantine))


def begin_anew(line: Line) -> None:
    """End an earlier swap that was killed; where that cannot be done any more, both tables are about to be rebuilt."""
    # What a run is staging stays, unless there is something to end.
    tables = load_all(replace(line, lake=replace(line.lake, read_only=True)))
    if tables.is_half_swapped and held_with(line, tables) is not None:
        swap_ended(line, load_all(line))


def swap_in(line: Line, beside: Line, live: Tables, rebuilt: Tables, *, changes: bool) -> bool:
    """Make a rebuilt mirror the one that readers see, and its quarantine with it.

    Args:
        line: the table's live way.
        beside: the way to the branch that it was rebuilt on.
        live: the live tables as they were compared.
        rebuilt: the branch as it was then.
        changes: whether the two differ. Where they do not, what is kept from before an earlier replay stays kept.

    Returns:
        False where the live mirror has moved meanwhile, or raw was filled from its topic.
    """

    def once() -> bool:
        # What an attempt that lost has left: any commit of a run, to whatever branch, may be in the way of one.
        drop_branches(line.lake, line.mirror, f"{beside.lake.branch}_")
        return _swap(line, beside, live, rebuilt, changes=changes)

    try:
        is_swapped = COMMIT.call(once)
    except CommitConflict:
        return False
    if is_swapped:
        crash_points.reach("swapped", line.mirror)
        REPLAN.call(lambda: swap_ended(line, load_all(line)))
    return is_swapped


def _swap(line: Line, beside: Line, live: Tables, rebuilt: Tables, *, changes: bool) -> bool:
    now, lake, new = load_all(line), line.lake, rebuilt.quarantine
    if live.mirror is None or now.mirror is None or now.mirror.head != live.mirror.head:
        return False
    if live.raw is None or now.raw is None or marker_of(now.raw).refilled != marker_of(live.raw).refilled:
        return False
    if rebuilt.mirror is None or new is None or new.head is None or now.quarantine is None:
        return False
    kept = BEFORE_REPLAY if changes or not keeps(lake, line.mirror, BEFORE_REPLAY) else None
    swapped = Swapped(new.head, now.quarantine.head if kept is not None else None)
    remember(lake, line.mirror, beside.bound)
    marker = replace(marker_of(rebuilt.mirror), swapped=swapped)
    return swap(lake, live.mirror, rebuilt.mirror, beside.lake.branch, marker, kept)


def take_back(line: Line) -> None:
    """Give readers of a mirror back what the last published replay has replaced, and quarantine with it.

    Raises:
        UsageError: there is nothing to go back to, it shows what the contract hides, or nothing tells how far it goes.
        LakeUnavailable: another program has dropped or renamed columns of the mirror.
    """
    found, lake, name = load_all(line), line.lake, line.mirror
    with translated(name):
        live, kept = swap_ended(line, found), replace(lake, branch=BEFORE_REPLAY)
        held, before = kept.load(name.quarantine), kept.load(name)
    if found.is_half_swapped and before is None:
        # A swap keeps what it replaces: this was a rollback that was killed, and it is ended.
        return
    if live.mirror is None or held is None or held.head is None or before is None:
        do = f"Only what `cdcm replay {name} --publish` replaced can be taken back."
        raise UsageError(_KEEPS_NONE.format(name), do)
    if before.marker is None:
        what = (
            f"What a replay of {name} has replaced is there, and nothing tells how far it goes: expiry has removed it."
        )
        raise UsageError(f"{what} Nothing was changed.", _DO_INSTEAD.format(name))
    # What comes back is marked anew, in the columns of now: nothing would tell of those that are gone.
    check_dropped(live.mirror, live.mirror.dropped)
    _check_hidden(line, before)
    now, swapped = marker_of(live.mirror), Swapped(held.head)

    def back(old: Marker) -> Marker:
        return replace(carried(old, now), swapped=swapped)

    with translated(name):
        go_back(lake, live.mirror, BEFORE_REPLAY, back)
        crash_points.reach("swapped", name)
        swap_ended(line, load_all(line))


def _check_hidden(line: Line, kept: LakeTable) -> None:
    """Refuse a state from before a replay whose rows are not hidden as the contract says; runs check only their own."""
    line.masks.check_renamed(line.evolution.renames)
    state = kept.renaming(line.evolution.pending(kept.schema))
    shown = [name for name in masked_otherwise(line, state) if line.masks.of(name) is not None]
    if shown:
        name = line.mirror
        what = f"The rows that `{name}` had before that replay are not masked as the contract says: {', '.join(shown)}."
        raise UsageError(what, f"Nothing was changed. {_DO_INSTEAD.format(name)}")


def forget(line: Line) -> None:
    """Keep what the last published replay has replaced no longer: its files go when its snapshots expire.

    Raises:
        UsageError: nothing is kept.
    """
    with translated(line.mirror):
        tables = swap_ended(line, load_all(line))
        # The mirror's last: as long as that is there, this can be done again.
        there = [table.name for table in (tables.quarantine, tables.mirror) if table is not None]
        found = [drop_tag(line.lake, name, BEFORE_REPLAY) for name in there]
    if not any(found):
        raise UsageError(_KEEPS_NONE.format(line.mirror), "There is nothing to forget.")
