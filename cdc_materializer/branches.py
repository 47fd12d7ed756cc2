"""A state of a table beside the one that readers see: swapped in, taken back, dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer.lake import BRANCH_PREFIX, MAIN, Lake, LakeTable
from cdc_materializer.lake_columns import RETYPED, drop_left_over, retyped_ids
from cdc_materializer.lake_commit import keep_marker
from cdc_materializer.lake_errors import lake_error, translated
from cdc_materializer.lake_line import snapshot_line
from cdc_materializer.marker import Marker
from cdc_materializer.merge import table_path
from cdc_materializer.names import TableName


def swap(lake: Lake, base: LakeTable, beside: LakeTable, branch: str, kept: str) -> bool:
    """Make a branch the one that readers see, and keep what they saw under a tag; all in one commit.

    Columns that were rebuilt with another type take the places of those that readers saw, in that commit too.

    Args:
        lake: the lake, on `main`.
        base: the table as it was when the decision was made.
        beside: the branch as it was then.
        branch: its name; it is gone afterwards.
        kept: the tag's name.

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
    try:
        change = table.newTransaction()
        if beside.stored.now:
            _put_in_place(table, change, beside.stored.now)
        update = _tagged(table, change.manageSnapshots(), kept, base.head).fastForwardBranch(MAIN, branch)
        keep_marker(update, table, there.snapshotId()).removeBranch(branch).commit()
        change.commitTransaction()
    except (Py4JJavaError, PySparkException) as error:
        if beside.head is None or not lake.is_published(base.name, beside.head):
            raise lake_error(base.name, error, "another process") from error
    return True


def keep(lake: Lake, base: LakeTable, tag: str) -> None:
    """Keep a state of a table under a tag, in place of what the tag kept before."""
    with translated(base.name):
        table = lake.iceberg(base.name)
        _tagged(table, table.manageSnapshots(), tag, base.head).commit()


def _put_in_place(table: Any, change: Any, columns: Mapping[str, str]) -> None:  # noqa: ANN401 - Java objects
    """Give columns, by the names that they are to have, the places of those that have them."""
    ids = retyped_ids(table, list(columns.values()))
    update = change.updateSchema()
    for name, stored in columns.items():
        update = update.deleteColumn(name).renameColumn(stored, name)
    update.commit()
    change.updateProperties().set(RETYPED, ids).commit()


def _tagged(table: Any, update: Any, tag: str, head: int | None) -> Any:  # noqa: ANN401 - Java objects
    if table.refs().containsKey(tag):
        return update.replaceTag(tag, head)
    return update.createTag(tag, head)


def go_back(lake: Lake, base: LakeTable, tag: str, carried: Callable[[Marker], Marker]) -> bool:
    """Make readers see again what a tag keeps; False where there is no such tag.

    What they see is a new snapshot on top of the kept one, so that whoever has planned on the state that is given up
    loses the race. The tag is gone afterwards.

    Args:
        lake: the lake, on `main`.
        base: the table as it is.
        tag: the tag's name.
        carried: what the kept state's marker has to become.

    Raises:
        CommitConflict: another writer was faster.
        CommitUnknown: the outcome cannot be told.
    """
    table = lake.iceberg(base.name)
    if not table.refs().containsKey(tag):
        return False
    branch = f"{BRANCH_PREFIX}back_{lake.spark.sparkContext.applicationId}"
    with translated(base.name):
        if _has_other_columns(table, tag):
            return _go_back_with_columns(lake, base, tag, carried)
        table.manageSnapshots().createBranch(branch, table.refs().get(tag).snapshotId()).commit()
        kept = replace(lake, branch=branch).load(base.name)
        if kept is None or kept.marker is None:
            return False
        lake.mark(base.name, carried(kept.marker), branch)
        table.refresh()
        head = table.snapshot(branch).snapshotId()
        update = table.manageSnapshots().replaceBranch(MAIN, branch).removeBranch(branch).removeTag(tag)
    try:
        keep_marker(update, table, head).commit()
    except (Py4JJavaError, PySparkException) as error:
        if not lake.is_published(base.name, head):
            raise lake_error(base.name, error, "another process") from error
    return True


def _has_other_columns(table: Any, tag: str) -> bool:  # noqa: ANN401 - a Java object
    """Whether what a tag keeps has columns that the table has no more: some were rebuilt with another type."""
    then = table.schemas().get(table.snapshot(table.refs().get(tag).snapshotId()).schemaId())
    there = {column.fieldId() for column in table.schema().columns()}
    return any(column.fieldId() not in there for column in then.columns())


def _go_back_with_columns(lake: Lake, base: LakeTable, tag: str, carried: Callable[[Marker], Marker]) -> bool:
    """The same with the columns that the table had; these and the rows in one commit, the marker in the next.

    Killed between the two, it can be done again: the tag is there until the end.
    """
    jvm: Any = lake.spark._jvm  # noqa: SLF001 - PySpark has no public way to Iceberg's Java API
    core: Any = jvm.org.apache.iceberg
    table = lake.iceberg(base.name)
    operations, head = table.operations(), table.refs().get(tag).snapshotId()
    known = operations.current()
    changed = core.TableMetadata.buildFrom(known).setCurrentSchema(table.snapshot(head).schemaId())
    operations.commit(known, changed.setRef(MAIN, core.SnapshotRef.branchBuilder(head).build()).build())
    kept = lake.load(base.name)
    if kept is None or kept.marker is None:
        return False
    lake.mark(base.name, carried(kept.marker), MAIN)
    table = lake.iceberg(base.name)
    drop_left_over(table, {}, lake.spark.table(table_path(lake.catalog, base.name)))
    keep_marker(table.manageSnapshots().removeTag(tag), table, table.currentSnapshot().snapshotId()).commit()
    return True


def follows(lake: Lake, beside: LakeTable, base: LakeTable) -> bool:
    """Whether one state of a table was made on top of another."""
    return base.head in snapshot_line(lake.iceberg(base.name), beside.head, base.head)


def drop_branches(lake: Lake, name: TableName, prefix: str) -> None:
    """Remove the branches whose names begin so."""
    with translated(name):
        table = lake.iceberg(name)
        found = [ref for ref in table.refs() if ref.startswith(prefix)]
        update = table.manageSnapshots()
        for ref in found:
            update = update.removeBranch(ref)
        if found:
            update.commit()
