"""Named points of a commit at which a test can end the process, as a power cut would.

They are in the released code, so that what is killed is what users run: `CDCM_CRASH_AT=mirror.staged cdcm run`. Unset,
a point costs a comparison. SIGKILL leaves no time for anything: no branch is dropped, no session is closed.
"""

from __future__ import annotations

import os
import signal
from itertools import product

from cdc_materializer.environment import crash_at
from cdc_materializer.errors import UsageError
from cdc_materializer.names import RESERVED_SUFFIXES, TableName, nearest, shown

#: A table was made and has no snapshot yet; its branch was made; everything is on the branch; readers see it.
STEPS = ("made", "branched", "staged", "published")
#: Of maintenance, of whichever table: files are rewritten on the branch; snapshots are gone; orphans are found, and
#: not deleted yet.
UPKEEP = ("compacted", "expired", "found")
#: Of a replay: its branches begin; a batch is folded; both mirrors are compared; the rebuilt one says what quarantine
#: goes with it; the mirror is swapped; quarantine is the new state's, and what kept that is there still.
REBUILD = ("begun", "folded", "compared", "marked", "swapped", "settled")
#: Of a replay too, where raw is shorter than its topic: a part of what it lacks is on a branch of it.
REFILL = ("refilled",)
#: Of a change of columns, of whichever table: one of its statements is done, each of which readers see at once.
COLUMNS = ("altered",)
_KINDS = {suffix: suffix.strip("_") for suffix in RESERVED_SUFFIXES}
#: Every point by its name.
POINTS = (
    *(f"{kind}.{step}" for kind, step in product(("mirror", *_KINDS.values()), STEPS)),
    *(f"maintain.{step}" for step in UPKEEP),
    *(f"replay.{step}" for step in (*REFILL, *REBUILD)),
    *(f"columns.{step}" for step in COLUMNS),
)


def check() -> None:
    """Refuse a point that there is not: what was to be killed would end well, and seem to have been through it.

    Raises:
        UsageError: `CDCM_CRASH_AT` names none of POINTS.
    """
    named = crash_at()
    if named is not None and named not in POINTS:
        near = nearest(named, POINTS)
        do = f"Did you mean {near}?" if near is not None else f"The points are {', '.join(POINTS)}."
        raise UsageError(f"CDCM_CRASH_AT names {shown(named)}, which is no point at which a run can be killed.", do)


def reach(step: str, table: TableName) -> None:
    """End the process here and now, if this is the point that `CDCM_CRASH_AT` names; see POINTS.

    Args:
        step: one of STEPS, UPKEEP, REFILL, REBUILD or COLUMNS.
        table: what is being written.
    """
    if crash_at() == point_of(step, table):
        os.kill(os.getpid(), signal.SIGKILL)


def point_of(step: str, table: TableName) -> str:
    """The name of a point."""
    if step in UPKEEP:
        return f"maintain.{step}"
    if step in (*REFILL, *REBUILD):
        return f"replay.{step}"
    if step in COLUMNS:
        return f"columns.{step}"
    kind = next((kind for suffix, kind in _KINDS.items() if table.name.endswith(suffix)), "mirror")
    return f"{kind}.{step}"
