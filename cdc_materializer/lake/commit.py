"""What has to hold of a commit beyond what Iceberg itself checks, and the tag that keeps progress from being lost.

Facts that the driver has anyway: references, ids and the counters of snapshot summaries. No table is read, so all of it
stays on for every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer.causes import java_classes
from cdc_materializer.errors import CommitConflict, InvariantBroken, LakeUnavailable
from cdc_materializer.lake.columns import dropped_columns, hashes_otherwise
from cdc_materializer.lake.line import is_ours_alone, records, snapshot_line
from cdc_materializer.lake.metadata import summary_of
from cdc_materializer.marker.foreign import has_replaced, is_foreign
from cdc_materializer.marker.marker import GENESIS_TAG, MARKER_PREFIX, MARKER_TAG, Marker
from cdc_materializer.names import RAW_SUFFIX, TableName, shown

if TYPE_CHECKING:
    from cdc_materializer.lake.lake import LakeTable
    from cdc_materializer.lake.stage import Stage

#: Table property: whether Iceberg deletes a metadata file that has had a hundred successors.
FORGETS_METADATA = "write.metadata.delete-after-commit.enabled"
#: Properties of every table that we make. A commit that failed is planned anew (`retry`) or found to have happened; a
#: library that tries again beneath us would put it on top of a head that it was not planned on. Each commit writes all
#: that is known of the table anew: of these files the last hundred are kept, and Iceberg's default is all of them.
COMMIT_PROPERTIES = {"commit.retry.num-retries": "0", FORGETS_METADATA: "true"}
#: So far apart may the clocks of two machines that write a table be (Iceberg's own limit).
_CLOCK_SECONDS_MAX = 60
#: Table property of the tables that we make.
MADE_BY = "cdcm.pipeline"
_FOR_EVER_MS = 2**63 - 1
_BUG = "Nothing was published. This is a bug; please report it with the output of `--debug`."


def newest_marker(table: Any, snapshot: Any) -> Marker | None:  # noqa: ANN401 - Java objects
    """The newest marker on the line of a snapshot; where expiry has cut the line off, the one that the tag keeps.

    Only where the line has none: a table that was rolled back has the marker of the state that it was rolled back to.
    Whether it was cut off cannot be told for sure: PyIceberg makes what is left of a line look like a whole one. Where
    another program has replaced the table (`has_replaced`), the tag tells of what is gone. Where the tag is younger
    than the snapshot, it tells of what was read since: who believed it would leave that out.
    """
    first, asked = None, snapshot
    while snapshot is not None:
        marker = marker_at(table, snapshot)
        if marker is not None:
            return marker
        first, parent = snapshot, snapshot.parentId()
        snapshot = table.snapshot(parent) if parent is not None else None
    tagged = table.snapshot(MARKER_TAG) if first is not None else None
    if first is None or tagged is None or tagged.sequenceNumber() > asked.sequenceNumber():
        return None
    told = summary_of(tagged)
    if first.parentId() is None and has_replaced(first.operation(), summary_of(first), told):
        return None
    return marker_at(table, tagged)


def marker_at(table: Any, snapshot: Any) -> Marker | None:  # noqa: ANN401 - Java objects
    """What a snapshot says, as it is to be gone on with; without its ledger where rows are hashed otherwise by now.

    So it is where the parts of a column were changed for a batch that was killed before it published anything.
    """
    marker = Marker.from_summary(summary_of(snapshot))
    if marker is None or marker.ledger is None or not hashes_otherwise(table, snapshot):
        return marker
    return replace(marker, ledger=None)


def foreign_commits(table: Any, snapshot: Any) -> int:  # noqa: ANN401 - Java objects
    """How many snapshots of other programs changed rows on the line of a snapshot, above its newest marked one."""
    count = 0
    while snapshot is not None:
        summary = summary_of(snapshot)
        if f"{MARKER_PREFIX}version" in summary:
            return count
        count += is_foreign(snapshot.operation(), summary)
        parent = snapshot.parentId()
        snapshot = table.snapshot(parent) if parent is not None else None
    return count


def keep_marker(update: Any, table: Any, head: int) -> Any:  # noqa: ANN401 - Java objects
    """Add to an update of references that the tag moves to a marked snapshot: in one commit with `main`, or not at all.

    Args:
        update: from `manageSnapshots`.
        table: the table as it was loaded for that update.
        head: the snapshot.
    """
    if table.refs().containsKey(MARKER_TAG):
        return update.replaceTag(MARKER_TAG, head)
    # A table may say when references expire; this one must not.
    return update.createTag(MARKER_TAG, head).setMaxRefAgeMs(MARKER_TAG, _FOR_EVER_MS)


def move(table: Any, visible: str, branch: str, head: int) -> None:  # noqa: ANN401 - a Java object
    """Let readers see what was staged: in one commit the visible branch goes to its head, and the tag with `main`.

    Args:
        table: the table, loaded for this.
        visible: the branch that is published to; made where it is not there.
        branch: the one that was staged on; it is gone afterwards.
        head: its head.
    """
    update = table.manageSnapshots()
    if table.snapshot(visible) is None:
        update.createBranch(visible, head)
    else:
        update.fastForwardBranch(visible, branch)
    if visible == "main" and not _tells_of_dropped(table, head):
        keep_marker(update, table, head)
    update.removeBranch(branch).commit()


def _tells_of_dropped(table: Any, head: int) -> bool:  # noqa: ANN401 - a Java object
    """Whether the tag alone tells of columns that another program has dropped (`check_columns`), and nothing was read.

    Maintenance, an adoption, a release or a repair says nothing of whether the log still has them: the tag stays where
    it is, on a marker of the same offsets.
    """
    tagged = table.snapshot(MARKER_TAG)
    if not dropped_columns(table, tagged):
        return False
    then, now = (Marker.from_summary(summary_of(found)) for found in (tagged, table.snapshot(head)))
    return then is not None and now is not None and then.offsets == now.offsets


def is_as_staged(
    load: Callable[[], Any], visible: str, base: LakeTable, branch: str, head: int, lost: CommitConflict
) -> bool:
    """Whether a commit lost to one that is none of its business, such as one to another branch of the table.

    The visible branch then stands where the batch was planned on, and what was staged is there as it was.

    Args:
        load: loads the table as it is now.
        visible: the branch that is published to.
        base: the table as the batch was planned on it.
        branch: the one that was staged on.
        head: its head.
        lost: how the commit failed.
    """
    if "CommitFailedException" not in java_classes(lost.__cause__ or lost):
        return False
    try:
        table = load()
        check_same(table, base)
        found = [one and one.snapshotId() for one in (table.snapshot(visible), table.snapshot(branch))]
    except (Py4JJavaError, PySparkException, CommitConflict):
        return False
    return found == [base.head, head]


def mark(table: Any, summary: Mapping[str, str], branch: str) -> None:  # noqa: ANN401 - a Java object
    """Put a snapshot with a marker's summary and nothing else on a branch."""
    commit = table.newFastAppend().toBranch(branch)
    for name, value in summary.items():
        commit.set(name, value)
    commit.commit()


def is_being_made(table: Any) -> bool:  # noqa: ANN401 - a Java object
    """Whether a table without a snapshot is being made by us, or its maker was killed.

    One that was filled, and that another program has made anew under its name, still has its tag.
    """
    return bool(table.properties().containsKey(MADE_BY)) and not table.refs().containsKey(MARKER_TAG)


def opening(table: Any, branch: str, name: TableName) -> tuple[int, Any]:  # noqa: ANN401 - a Java object
    """What lets readers see a table that was just made and marked on a branch, and keeps its beginning.

    Returns:
        The snapshot that they will see, and the update that is to be committed.

    Raises:
        CommitConflict: another process has made it meanwhile, or taken it for left over.
    """
    made = table.snapshot(branch)
    if made is None or table.currentSnapshot() is not None:
        writer = written_by(lambda: table, "main")
        what = f"Table {name} was made by another process at the same time ({writer})."
        raise CommitConflict(what, "Nothing was written to it; run again. One process should write a table.")
    update = table.manageSnapshots().createBranch("main", made.snapshotId())
    update.createTag(GENESIS_TAG, made.snapshotId()).setMaxRefAgeMs(GENESIS_TAG, _FOR_EVER_MS)
    return int(made.snapshotId()), keep_marker(update, table, made.snapshotId()).removeBranch(branch)


def check_made(made: LakeTable, marker: Marker) -> None:
    """Refuse a table that was written to since it was made: what is to be written was planned on an empty one.

    Raises:
        CommitConflict: another process has been there.
    """
    if made.marker != marker:
        what = f"Another process has written to {made.name} since it was made."
        raise CommitConflict(what, "Run again; one process should write a table.")


def head_of(table: Any, branch: str, name: TableName) -> int:  # noqa: ANN401 - a Java object
    """The snapshot at the head of a staging branch.

    Raises:
        CommitConflict: the branch is gone.
    """
    head = table.snapshot(branch)
    if head is None:
        what = f"What was staged for {name} was removed by another process; nothing was published."
        raise CommitConflict(what, "Run again; one process should write a table.")
    return int(head.snapshotId())


def check_same(table: Any, base: LakeTable) -> None:  # noqa: ANN401 - a Java object
    """Refuse to write to a table that has been replaced, or whose columns or layout were changed, since it was loaded.

    Raises:
        CommitConflict: it is not the one that the batch was planned on.
    """
    found = {"table": table.uuid().toString(), "schema": table.schema().schemaId(), "layout": table.spec().specId()}
    known = {"table": base.uuid, "schema": base.schema_id, "layout": base.spec_id}
    changed = [name for name, now in found.items() if known[name] not in (now, None)]
    if changed:
        what = f"The {changed[0]} of {base.name} was changed by another program while this batch was being planned."
        raise CommitConflict(what, "Nothing was published; run again, and it is planned anew.")


def check_clock(table: Any, name: TableName, now_ms: int) -> None:  # noqa: ANN401 - a Java object
    """Refuse to write by a clock that is behind a table's newest commit; Iceberg does so too, and says less.

    Nothing else hangs on clocks: what is new, and who was first, is told by snapshots and offsets.

    Raises:
        LakeUnavailable: the clock was put back, or that of another machine is ahead.
    """
    behind = (int(table.operations().current().lastUpdatedMillis()) - now_ms) / 1000
    if behind > _CLOCK_SECONDS_MAX:
        what = f"The newest commit to {name} is {behind:,.0f} s ahead of this machine's clock. Nothing was written."
        do = (
            "Iceberg takes no commit that is dated before the last one: set the clock right, or wait until it is there."
        )
        raise LakeUnavailable(what, do)


def check_staged(table: Any, base: LakeTable, staged: Stage) -> int:  # noqa: ANN401 - a Java object
    """Assert that a branch holds what was staged on the planned head and nothing else, and that its marker says so.

    A branch that another process dropped comes back with the next write, without what was staged before.

    Args:
        table: the table, loaded after everything was staged.
        base: the table as the batch was planned on it.
        staged: the branch and what the batch has made of it.

    Returns:
        The branch's head.

    Raises:
        CommitConflict: another process has meddled with the branch.
        InvariantBroken: the marker does not read as it was written, or contradicts what is there; or the rows that came
            and went are not those of the batch.
    """
    head = table.snapshot(staged.branch)
    line = snapshot_line(table, head.snapshotId(), base.head) if head is not None else []
    is_whole = head is not None and set(line) == {base.head, *staged.steps, int(head.snapshotId())}
    if not is_whole or any(_begins_anew(table, number) for number in line[:-1]):
        what = f"What was staged for {base.name} was disturbed by another process; nothing was published."
        raise CommitConflict(what, "Run again; one process should write a table.")
    summary = summary_of(head)
    if not staged.summary.items() <= summary.items():
        raise InvariantBroken(f"The marker of {base.name} does not read as it was written.", _BUG)
    _check_landed(base, staged.marker, summary)
    written = summary_of(table.snapshot(staged.appended)) if staged.appended is not None else summary
    came = int(written.get("added-records", "0"))
    if staged.rows_expected not in (None, came):
        what = f"The batch has {staged.rows_expected} rows for {base.name}, and {came} were written."
        raise InvariantBroken(what, _BUG)
    for step, most in staged.rows_max.items():
        _check_gone(table, base, step, most)
    return int(head.snapshotId())


def _begins_anew(table: Any, number: int) -> bool:  # noqa: ANN401 - a Java object
    """Whether a snapshot was the first of a branch that was not there: Iceberg then counts its totals from zero.

    Its parent is that of the branch that was dropped, so nothing else tells; and by its totals a table that has rows
    would be taken for an empty one.
    """
    told = summary_of(table.snapshot(number))
    before = summary_of(table.snapshot(table.snapshot(number).parentId()))
    if "total-records" not in before:
        return "total-records" in told
    change = int(told.get("added-records", "0")) - int(told.get("deleted-records", "0"))
    total = int(before["total-records"]) + change
    # One below zero is left out.
    return told.get("total-records") != (str(total) if total >= 0 else None)


def has_rows(table: Any, snapshot: Any) -> bool:  # noqa: ANN401 - Java objects
    """Whether a snapshot has data files; its totals may be another's (`_begins_anew`), so zero is looked into."""
    if snapshot is None:
        return False
    if records(snapshot) != 0:
        return True
    return any(found.hasAddedFiles() or found.hasExistingFiles() for found in snapshot.dataManifests(table.io()))


def check_progress(base: LakeTable, marker: Marker) -> None:
    """Assert that a table's progress does not go back; what it has done it never does twice.

    Raises:
        InvariantBroken: an offset would go back, or a partition would be forgotten.
    """
    if base.marker is None:
        return
    back = [p for p, offset in base.marker.offsets.items() if marker.offsets.get(p, -1) < offset]
    if back:
        what = f"The offsets of {base.name} would go back in partition {back[0]}."
        raise InvariantBroken(what, _BUG)


def _check_landed(base: LakeTable, marker: Marker, summary: dict[str, str]) -> None:
    """Assert that raw took no more messages than offsets were read for it; offsets without a message are no fault."""
    if not base.name.name.endswith(RAW_SUFFIX) or base.marker is None:
        return
    moved = sum(marker.offsets.values()) - sum(base.marker.offsets.values())
    moved += marker.refilled - base.marker.refilled
    if int(summary.get("added-records", "0")) > moved:
        what = f"{base.name} would take {summary['added-records']} messages of a span of {moved}: some of them twice."
        raise InvariantBroken(what, _BUG)


def _check_gone(table: Any, base: LakeTable, step: int, most: int) -> None:  # noqa: ANN401 - a Java object
    """Assert that a statement took no more rows away than it had keys for, where all rows are known to be ours.

    Rows that another program doubled go with their keys, and that is right. What it did may have been expired.
    """
    snapshot = table.snapshot(step)
    before = table.snapshot(snapshot.parentId()) if snapshot.parentId() is not None else None
    gone = rows_gone(summary_of(before) if before is not None else {}, summary_of(snapshot))
    if gone is None or gone <= most or not is_ours_alone(table, base.head):
        return
    what = f"The batch has {most} keys for {base.name}, and {gone} rows would go: a key has two rows, or others went."
    do = f"Nothing was published. `cdcm verify --table {base.name} --repair` puts its rows right; please report it."
    raise InvariantBroken(what, do)


def rows_gone(before: Mapping[str, str], summary: Mapping[str, str]) -> int | None:
    """How many rows a snapshot took away that added none, by Iceberg's counters; None where they do not tell.

    They do as long as no data file goes, because then every row that goes is one position more, in a delete file or a
    deletion vector, less those of the files that the new ones replace. And where data files are written anew, as by
    copy-on-write, as long as no position in them was deleted before: how many of those there were is not counted.

    Args:
        before: the summary of the snapshot before.
        summary: of the snapshot.
    """

    def count(name: str, told: Mapping[str, str] = summary) -> int:
        return int(told.get(name, "0"))

    if count("deleted-data-files") == 0:
        return count("added-position-deletes") - count("removed-position-deletes") - count("added-records")
    if count("total-position-deletes", before) or count("total-equality-deletes", before):
        return None
    return count("deleted-records") - count("added-records") + count("added-position-deletes")


def written_by(load: Callable[[], Any], branch: str) -> str:
    """Who made the newest snapshot of a branch, as far as its summary says; for people.

    Args:
        load: loads the table as it is now; where it cannot, nothing is known.
        branch: the branch.
    """
    try:
        snapshot = load().snapshot(branch)
        told = summary_of(snapshot) if snapshot is not None else {}
    except (Py4JJavaError, PySparkException):
        told = {}
    engine = " ".join(told[name] for name in ("engine-name", "engine-version") if name in told)
    known = {
        "pipeline": told.get(f"{MARKER_PREFIX}pipeline"),
        "engine": engine or None,
        "application": told.get("spark.app.id") or told.get("app-id"),
    }
    return ", ".join(f"{name} {shown(value)}" for name, value in known.items() if value) or "it has left no name"
