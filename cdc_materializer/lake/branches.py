"""A state of a table beside the one that readers see: swapped in, taken back, dropped."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from cdc_materializer import crash_points
from cdc_materializer.errors import CommitConflict
from cdc_materializer.lake.columns import REBUILT_PREFIX, RETYPED, retyped_ids
from cdc_materializer.lake.commit import head_of, keep_marker, mark, newest_marker, written_by
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import MAIN, Lake, LakeTable
from cdc_materializer.lake.line import snapshot_line
from cdc_materializer.lake.metadata import columns_by_id
from cdc_materializer.lake.outcome import BRANCH_PREFIX, see_through
from cdc_materializer.lake.stage import Stage
from cdc_materializer.marker.marker import Marker
from cdc_materializer.marker.swapped import BEFORE_REPLAY
from cdc_materializer.merge import delete_all
from cdc_materializer.names import TableName
from cdc_materializer.retry import COMMIT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Branches of mirror and quarantine that replays are made on begin so; the rules that are in force follow, as a hash.
REPLAY_BRANCH = "cdcm-replay-"


def swap(lake: Lake, base: LakeTable, beside: LakeTable, branch: str, marker: Marker, kept: str | None) -> bool:
    """Make a branch the one that readers see, and keep what they saw under a tag; all in one commit.

    Columns that were rebuilt with another type take the places of those that readers saw in that commit too, and those
    that are to be renamed get their names.

    Args:
        lake: the lake, on `main`.
        base: the table as it was when the decision was made.
        beside: the branch as it was then.
        branch: its name; it is gone afterwards.
        marker: what the new head says.
        kept: the tag's name; None where nothing more is kept.

    Returns:
        Whether it was done; it cannot be where the branch has moved or does not follow on the table's head.

    Raises:
        CommitConflict: `main` moved after the base was loaded.
        CommitUnknown: the outcome cannot be told.
    """
    table = lake.iceberg(base.name)
    there = table.snapshot(branch)
    if there is None or there.snapshotId() != beside.head or not follows(lake, beside, base):
        return False
    if table.schema().schemaId() != beside.schema_id:
        # What takes which place was told by the columns that it had.
        return False
    # Its name begins as the branch's: those who publish to `main` must not take it for left over.
    marked = f"{branch}_{lake.spark.sparkContext.applicationId}"

    def move(update: Any, head: int) -> Any:  # noqa: ANN401 - Java objects
        update = _tagged(table, update, kept, base.head) if kept is not None else update
        update = keep_marker(update.fastForwardBranch(MAIN, marked), table, head)
        return update.removeBranch(branch).removeBranch(marked)

    with translated(base.name):
        table.manageSnapshots().createBranch(marked, there.snapshotId()).commit()
        if beside.stored.now:
            table.refresh()
            head, commit = _in_their_places(table, base, beside, marker, marked, move)
        else:
            lake.mark(base.name, marker, marked)
            table.refresh()
            head = head_of(table, marked, base.name)
            if table.snapshot(head).parentId() != there.snapshotId():
                raise _taken_away(base)
            commit = partial(_commit, table, move, head)
    crash_points.reach("marked", base.name)
    see_through(partial(lake.iceberg, base.name), base.name, MAIN, head, commit)
    return True


def keep(lake: Lake, name: TableName, snapshot: int, tag: str) -> None:
    """Keep a state of a table under a tag, in place of what the tag kept before."""
    with translated(name):
        table = lake.iceberg(name)
        _tagged(table, table.manageSnapshots(), tag, snapshot).commit()


def keeps(lake: Lake, name: TableName, tag: str) -> bool:
    """Whether a table keeps a state under a tag."""
    with translated(name):
        return bool(lake.iceberg(name).refs().containsKey(tag))


def has_snapshot(lake: Lake, name: TableName, snapshot: int) -> bool:
    """Whether a snapshot of a table is there still."""
    with translated(name):
        return lake.iceberg(name).snapshot(snapshot) is not None


def replace_rows(stage: Stage, rows: DataFrame | None) -> None:
    """Stage these rows in place of all others; None for no row."""
    stage.execute(delete_all(stage.lake.catalog, stage.base.name, stage.branch))
    if rows is not None:
        stage.append(rows)


def replace_rows_from(stage: Stage, beginning: DataFrame | None, marker: Marker, rows: DataFrame) -> None:
    """Stage rows in place of all others, on top of those that what they were made from began with.

    So the line of snapshots tells where that began, as if it had been made on this base.

    Args:
        stage: its marker is that of the beginning.
        beginning: the rows of the beginning; None for no row.
        marker: that of the rows.
        rows: the rows.
    """
    replace_rows(stage, beginning)
    stage.begin(marker)
    replace_rows(stage, rows)


def _commit(table: Any, move: Callable[[Any, int], Any], head: int) -> None:  # noqa: ANN401 - a Java object
    move(table.manageSnapshots(), head).commit()


def _taken_away(base: LakeTable) -> CommitConflict:
    what = f"What was to be swapped in for {base.name} was removed or moved by another process; nothing was published."
    return CommitConflict(what, "Run again; one process should write a table.")


def _in_their_places(
    table: Any,  # noqa: ANN401 - a Java object
    base: LakeTable,
    beside: LakeTable,
    marker: Marker,
    branch: str,
    move: Callable[[Any, int], Any],
) -> tuple[int, Callable[[], object]]:
    """The snapshot that readers are to see, marked with the columns that it has, and the commit that gives them both.

    Columns get the names that they are to have, and those of another type the places of what readers saw.

    Raises:
        CommitConflict: the table is another one by now than the swap was decided on.
    """
    columns = beside.stored
    # As it is made here, or not at all: by itself a transaction removes the files of a commit that it takes for failed.
    # It begins with the table as it is now, and so does the commit.
    change = table.newTransaction()
    known, now = table.operations().current(), change.table()
    if head_of(now, MAIN, base.name) != base.head or now.schema().schemaId() != beside.schema_id:
        what = f"{base.name} was published to or got other columns while a rebuilt mirror was being swapped in."
        raise CommitConflict(what, "Run again; it will be compared with what is there now.")
    if head_of(now, branch, base.name) != beside.head:
        raise _taken_away(base)
    update = change.updateSchema()
    for name, stored in columns.now.items():
        if name in columns.rebuilt:
            update = update.deleteColumn(stored.removeprefix(REBUILT_PREFIX))
        update = update.renameColumn(stored, name)
    update.commit()
    if columns.rebuilt:
        ids = retyped_ids(table, [columns.now[name] for name in columns.rebuilt])
        change.updateProperties().set(RETYPED, ids).commit()
    # Behind them: what the newest marked snapshot has other names for, another program has renamed since.
    mark(change, marker.to_summary(), branch)
    head = int(change.table().snapshot(branch).snapshotId())
    move(change.manageSnapshots(), head).commit()
    return head, partial(table.operations().commit, known, change.table().operations().current())


def _tagged(table: Any, update: Any, tag: str, head: int | None) -> Any:  # noqa: ANN401 - Java objects
    if table.refs().containsKey(tag):
        return update.replaceTag(tag, head)
    return update.createTag(tag, head)


def go_back(lake: Lake, base: LakeTable, tag: str, carried: Callable[[Marker], Marker]) -> bool:
    """Make readers see again what a tag keeps, with the columns that it had; False where there is no such tag.

    What they see is a new snapshot on top of the kept one, so that whoever has planned on the state that is given up
    loses the race; rows, columns, marker and tags go in one commit. The tag is gone afterwards.

    Args:
        lake: the lake, on `main`.
        base: the table as it is.
        tag: the tag's name.
        carried: what the kept state's marker has to become.

    Raises:
        CommitConflict: another writer was faster.
        CommitUnknown: the outcome cannot be told.
    """
    load = partial(lake.iceberg, base.name)
    with translated(base.name):
        table = load()
        if not table.refs().containsKey(tag):
            return False
        kept = table.snapshot(table.refs().get(tag).snapshotId())
        marker = newest_marker(table, kept)
        if marker is None:
            return False
        prepare = _with_columns if _has_other_columns(table, kept) else _on_a_branch
        head, commit = prepare(lake, base, tag, carried(marker))
    see_through(load, base.name, MAIN, head, commit)
    return True


def _has_other_columns(table: Any, kept: Any) -> bool:  # noqa: ANN401 - Java objects
    """Whether a state has columns that the table has no more, or under another name: they were rebuilt, or renamed."""
    then, now = columns_by_id(table.schemas().get(kept.schemaId())), columns_by_id(table.schema())
    return any(now.get(number) != name for number, name in then.items())


def _on_a_branch(lake: Lake, base: LakeTable, tag: str, marker: Marker) -> tuple[int, Callable[[], object]]:
    """The snapshot that readers are to see, on a branch, and the commit that gives them it."""
    branch, table = f"{BRANCH_PREFIX}back_{lake.spark.sparkContext.applicationId}", lake.iceberg(base.name)
    table.manageSnapshots().createBranch(branch, table.refs().get(tag).snapshotId()).commit()
    lake.mark(base.name, marker, branch)
    table.refresh()
    _check_seen(table, base)
    head = head_of(table, branch, base.name)
    update = table.manageSnapshots().replaceBranch(MAIN, branch).removeBranch(branch).removeTag(tag)
    return head, keep_marker(update, table, head).commit


def _with_columns(lake: Lake, base: LakeTable, tag: str, marker: Marker) -> tuple[int, Callable[[], object]]:
    """The snapshot that readers are to see, of the columns that it had, and the commit that gives them both."""
    jvm: Any = lake.spark._jvm  # noqa: SLF001 - PySpark has no public way to Iceberg's Java API
    core: Any = jvm.org.apache.iceberg
    table = lake.iceberg(base.name)
    # Only what a transaction has made is taken: committed by itself, it would put its parts on whatever is there then.
    change = table.newTransaction()
    _check_seen(table, base)
    kept = table.refs().get(tag).snapshotId()
    made, known = change.table().operations(), table.operations().current()
    changed = core.TableMetadata.buildFrom(known).setCurrentSchema(table.snapshot(kept).schemaId())
    made.commit(made.current(), changed.setRef(MAIN, core.SnapshotRef.branchBuilder(kept).build()).build())
    left = [name for name in columns_by_id(change.table().schema()).values() if name.startswith(REBUILT_PREFIX)]
    for name in left:
        change.updateSchema().deleteColumn(name).commit()
    mark(change, marker.to_summary(), MAIN)
    head = int(change.table().currentSnapshot().snapshotId())
    keep_marker(change.manageSnapshots().removeTag(tag), table, head).commit()
    return head, partial(table.operations().commit, known, made.current())


def _check_seen(table: Any, base: LakeTable) -> None:  # noqa: ANN401 - a Java object
    """Refuse to take back more than what was decided on."""
    now = table.snapshot(MAIN)
    if now is None or now.snapshotId() != base.head:
        what = (
            f"Table {base.name}: another writer was first ({written_by(lambda: table, MAIN)}); nothing was taken back."
        )
        raise CommitConflict(what, "Run it again. One process should write a table.")


def follows(lake: Lake, beside: LakeTable, base: LakeTable) -> bool:
    """Whether one state of a table was made on top of another."""
    return base.head in snapshot_line(lake.iceberg(base.name), beside.head, base.head)


def let_go(lake: Lake, name: TableName, snapshot: int) -> None:
    """Remove what a replay and a rollback keep a state by that the table has taken over."""
    with translated(name):
        table = lake.iceberg(name)
        refs, update = table.refs(), table.manageSnapshots()
        found = [ref for ref in refs if refs.get(ref).snapshotId() == snapshot]
        ours = [ref for ref in found if ref == BEFORE_REPLAY or ref.startswith(REPLAY_BRANCH)]
        for ref in ours:
            update = update.removeTag(ref) if ref == BEFORE_REPLAY else update.removeBranch(ref)
        if ours:
            update.commit()


def drop_tag(lake: Lake, name: TableName, tag: str) -> bool:
    """Keep a state of a table no longer under a tag; False where there is none."""
    with translated(name):
        table = lake.iceberg(name)
        is_there = bool(table.refs().containsKey(tag))
        if is_there:
            table.manageSnapshots().removeTag(tag).commit()
        return is_there


def drop_branches(lake: Lake, name: TableName, prefix: str) -> None:
    """Remove the branches whose names begin so; where another writer of the table was faster, once more."""

    def drop() -> None:
        with translated(name):
            table = lake.iceberg(name)
            found = [ref for ref in table.refs() if ref.startswith(prefix)]
            update = table.manageSnapshots()
            for ref in found:
                update = update.removeBranch(ref)
            if found:
                update.commit()

    COMMIT.call(drop)
