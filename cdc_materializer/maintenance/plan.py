"""What maintenance of a table would do, and what it would cost. Pure: facts of a table's metadata in, steps out.

Which files are worth being written anew is decided in `maintenance.files`; here, what nobody needs any more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Self

from cdc_materializer.catalog.local_table import SnapshotLine, main_line
from cdc_materializer.config import MaintenanceConfig
from cdc_materializer.maintenance.files import (
    COMMIT_BYTES,
    FILES_MIN,
    OPEN_BYTES,
    TARGET_BYTES,
    TARGET_PROPERTY,
    VECTOR_BYTES,
    Compaction,
    DataFile,
    debt_limit,
    plan_compaction,
    plan_manifests,
)
from cdc_materializer.marker.marker import Marker
from cdc_materializer.marker.swapped import BEFORE_REPLAY

#: Snapshots that were the newest less long ago stay, whatever their number and age: somebody may be reading them.
READING = timedelta(hours=1)
#: How often a table's folder is looked through for orphans.
ORPHANS_EVERY = timedelta(days=1)
#: Branches that are staged on begin so (`lake.outcome.BRANCH_PREFIX`, of a layer that knows Spark), those of
#: maintenance so.
STAGING_PREFIX = "cdcm_"
UPKEEP_PREFIX = "cdcm_upkeep_"
#: The table property that says when orphans were last looked for, in milliseconds since 1970.
LOOKED_AT = "cdcm.orphans-looked-for"
#: Properties with which a table's files are not in its own folder alone.
_ELSEWHERE = ("write.data.path", "write.metadata.path", "write.folder-storage.path", "write.object-storage.path")
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Rule:
    """When maintenance pays, and what it keeps.

    Attributes:
        ratio: the most bytes that may be rewritten for each byte that readers are spared.
        keep_snapshots: how long snapshots are kept.
        keep_snapshots_max: how many at most, as far as they are older than `READING`.
        orphans_after: how old a file has to be that belongs to no snapshot.
    """

    ratio: float = 5.0
    keep_snapshots: timedelta = timedelta(days=5)
    keep_snapshots_max: int = 500
    orphans_after: timedelta = timedelta(days=3)

    @classmethod
    def of(cls, told: MaintenanceConfig) -> Self:
        """The rule as pipeline.yaml says it."""
        return cls(told.ratio, told.keep_snapshots, told.keep_snapshots_max, told.orphans_after)


@dataclass(frozen=True)
class TableFacts:
    """What a table's metadata says of it.

    Attributes:
        files: the data files of the current snapshot.
        manifests: sizes of its manifests of data files, in bytes.
        snapshots: every snapshot that is kept, of all branches.
        refs: snapshot by name of branch or tag, and whether it is a branch.
        head: main's snapshot.
        log: the snapshots that main has stood on, in this order, and since when, in milliseconds since 1970; expiry
            shortens it.
        properties: the table's.
        is_sorted: whether it has an order to be rewritten in.
    """

    files: tuple[DataFile, ...] = ()
    manifests: tuple[int, ...] = ()
    snapshots: tuple[SnapshotLine, ...] = ()
    refs: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    head: int | None = None
    log: tuple[tuple[int, int], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    is_sorted: bool = False

    @property
    def target(self) -> int:
        """Size that rewritten files are to have, in bytes."""
        told = self.properties.get(TARGET_PROPERTY, "")
        return int(told) if told.isdigit() and int(told) > 0 else TARGET_BYTES

    @property
    def may_delete(self) -> bool:
        """Whether the table's files are its own: with `gc.enabled=false` others may share them."""
        return self.properties.get("gc.enabled", "true").lower() == "true"


@dataclass(frozen=True)
class Steps:
    """What is to be done with one table, in this order.

    Attributes:
        left_over: whether an earlier maintenance was killed, and has left its branch.
        compaction: None where none pays.
        manifests: manifests that would be rewritten; 0 for none.
        mark: whether the head has no marker, and gets one: what other tools compact leaves it without.
        expired: ids of the snapshots that nothing needs any more.
        orphans: whether its folder is to be looked through.
    """

    left_over: bool = False
    compaction: Compaction | None = None
    manifests: int = 0
    mark: bool = False
    expired: tuple[int, ...] = ()
    orphans: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.left_over or self.compaction or self.manifests or self.mark or self.expired or self.orphans)


def plan(facts: TableFacts, rule: Rule, now_ms: int, *, orphans: bool = True) -> Steps:
    """What is to be done with a table.

    Args:
        facts: as its metadata says.
        rule: when it pays.
        now_ms: the time, in milliseconds since 1970.
        orphans: whether folders are looked through at all.
    """
    if facts.head is None:
        return Steps()
    left_over = any(name.startswith(UPKEEP_PREFIX) for name in facts.refs)
    # What is dropped first keeps nothing.
    refs = {name: ref for name, ref in facts.refs.items() if not name.startswith(UPKEEP_PREFIX)}
    facts = replace(facts, refs=refs)
    return Steps(
        left_over=left_over,
        compaction=plan_compaction(facts.files, rule.ratio, facts.target, is_sorted=facts.is_sorted),
        manifests=plan_manifests(facts.manifests),
        mark=not _is_marked(facts),
        expired=tuple(sorted(expirable(facts, rule, now_ms))) if facts.may_delete else (),
        orphans=orphans and are_orphans_due(facts, now_ms),
    )


# --- snapshots
# --------------------------------------------------------------------------------------------------------


def _is_marked(facts: TableFacts) -> bool:
    head = next((found for found in facts.snapshots if found.snapshot_id == facts.head), None)
    return head is not None and Marker.from_summary(head.summary) is not None


def expirable(facts: TableFacts, rule: Rule, now_ms: int) -> set[int]:
    """The snapshots that nobody needs: too old or too many, and kept by nothing of `_pinned`."""
    old = now_ms - rule.keep_snapshots // _MS
    reading = now_ms - READING // _MS
    line = main_line(facts.snapshots, facts.head)
    newest_until = _newest_until(facts, line, now_ms)
    unread = [one for one in facts.snapshots if newest_until.get(one.snapshot_id, one.timestamp_ms) < reading]
    crowded = {found.snapshot_id for found in line[rule.keep_snapshots_max :]} & {one.snapshot_id for one in unread}
    aged = {found.snapshot_id for found in unread if found.timestamp_ms < old}
    return (aged | crowded) - _pinned(facts, line)


def _newest_until(facts: TableFacts, line: Sequence[SnapshotLine], now_ms: int) -> dict[int, int]:
    """How long snapshots were what readers of main see, which each began to read meanwhile, long after it was made.

    What stands above a snapshot does not tell it of one that was taken back, and may be older than its own publishing.
    """
    found = {older.snapshot_id: newer.timestamp_ms for newer, older in pairwise(line)}
    ends = (*(since for _, since in facts.log[1:]), now_ms)
    for (snapshot, _), until in zip(facts.log, ends, strict=False):
        found[snapshot] = max(found.get(snapshot, 0), until)
    return found


def _pinned(facts: TableFacts, line: Sequence[SnapshotLine]) -> set[int]:
    """Snapshots that stay: every branch and tag, newest markers, the beginning, and what branches stand on."""
    pinned = {snapshot for snapshot, _ in facts.refs.values()}
    # A rollback needs to know how far that state goes, and the tag of the newest marker moves on.
    kept, _ = facts.refs.get(BEFORE_REPLAY, (None, False))
    for state in (line, main_line(facts.snapshots, kept)):
        for found in state:
            # Down to the newest marker, so that the line itself leads to it.
            pinned.add(found.snapshot_id)
            if Marker.from_summary(found.summary) is not None:
                break
    on_main = {found.snapshot_id for found in line}
    for snapshot, is_branch in facts.refs.values():
        if not is_branch or snapshot == facts.head:
            continue
        # Down to main: a branch whose line is cut off cannot be swapped in any more.
        for found in main_line(facts.snapshots, snapshot):
            pinned.add(found.snapshot_id)
            if found.snapshot_id in on_main:
                pinned |= _since(line, found.snapshot_id)
                break
    # The beginning has a marker and no file: it costs nothing, and says what the table was made for.
    empty = (found for found in facts.snapshots if found.parent_id is None and _files_of(found) == 0)
    return pinned | {found.snapshot_id for found in empty if Marker.from_summary(found.summary) is not None}


def _since(line: Sequence[SnapshotLine], snapshot: int) -> set[int]:
    """What main has made since a branch left it."""
    found = [one.snapshot_id for one in line]
    return set(found[: found.index(snapshot) + 1])


def _files_of(found: SnapshotLine) -> int:
    return int(found.summary.get("total-data-files", "0"))


# --- orphans
# --------------------------------------------------------------------------------------------------------


def are_orphans_due(facts: TableFacts, now_ms: int) -> bool:
    """Whether the table's folder is looked through: seldom, and never where a file in it may be somebody's."""
    told = facts.properties.get(LOOKED_AT, "0")
    is_due = now_ms - (int(told) if told.isdigit() else 0) >= ORPHANS_EVERY // _MS
    return is_due and facts.may_delete and why_no_orphans(facts) is None


def is_of_batch(ref: str) -> bool:
    """Whether a branch is one that a batch is staged on, by its name."""
    return ref.startswith(STAGING_PREFIX) and not ref.startswith(UPKEEP_PREFIX)


def why_no_orphans(facts: TableFacts) -> str | None:
    """Why no file of the table's folder may be taken for an orphan; None where that can be told."""
    # What maintenance itself has left is dropped before anything else is done.
    if any(map(is_of_batch, facts.refs)):
        return "a batch is being staged, or its outcome is not known; the next run settles it"
    elsewhere = next((name for name in _ELSEWHERE if name in facts.properties), None)
    return f"its files are not in its own folder alone ({elsewhere})" if elsewhere is not None else None


# --- a look from far
# --------------------------------------------------------------------------------------------------------


def hint(summary: Mapping[str, str], snapshots: int, rule: Rule, *, is_partitioned: bool = False) -> str | None:
    """Why maintenance may pay, from Iceberg's summary of the current snapshot alone; None where it hardly does.

    Args:
        summary: with its totals.
        snapshots: how many the table keeps.
        rule: when it pays.
        is_partitioned: whether the number of files says nothing, because each partition has its own.
    """
    totals = {name: int(summary.get(f"total-{name}", "0")) for name in _TOTALS}
    files, rows = totals["data-files"], totals["records"]
    wanted = math.ceil(totals["files-size"] / TARGET_BYTES)
    vectors, dead = totals["delete-files"], totals["position-deletes"]
    share = dead / rows if rows else 0.0
    spared = (files - wanted) * OPEN_BYTES + vectors * VECTOR_BYTES + share * totals["files-size"]
    if files >= FILES_MIN and not is_partitioned and spared * rule.ratio >= totals["files-size"] + COMMIT_BYTES:
        return f"{files} data files and {vectors} delete files, where {max(wanted, 1)} would do"
    if share >= debt_limit(rule.ratio) and totals["files-size"] >= COMMIT_BYTES:
        return f"{share:.0%} of the stored rows are deleted"
    if snapshots > 2 * rule.keep_snapshots_max:
        return f"{snapshots} snapshots are kept"
    return None


_TOTALS = ("data-files", "delete-files", "files-size", "records", "position-deletes")
