"""A state of a table beside the one that readers see: swapped in, taken back, dropped."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer.lake import MAIN, Lake, LakeTable
from cdc_materializer.lake_errors import publish_error, translated
from cdc_materializer.lake_line import snapshot_line
from cdc_materializer.names import TableName


def swap(lake: Lake, base: LakeTable, branch: str, kept: str) -> bool:
    """Make a branch the one that readers see, and keep what they saw under a tag; all in one commit.

    Args:
        lake: the lake, on `main`.
        base: the table as it was when the decision was made.
        branch: where the other state stands; it is gone afterwards.
        kept: the tag's name.

    Returns:
        Whether it was done; it cannot be where the branch does not follow on the table's head.

    Raises:
        CommitConflict: `main` moved after the base was loaded.
        CommitUnknown: the outcome cannot be told.
    """
    table = lake.iceberg(base.name)
    head = int(table.snapshot(branch).snapshotId())
    if base.head not in snapshot_line(table, head, base.head):
        return False
    try:
        update = table.manageSnapshots()
        if table.refs().containsKey(kept):
            update.removeTag(kept)
        update.createTag(kept, base.head).fastForwardBranch(MAIN, branch).removeBranch(branch).commit()
    except (Py4JJavaError, PySparkException) as error:
        if not lake.is_published(base.name, head):
            raise publish_error(base.name, error) from error
    return True


def go_back(lake: Lake, base: LakeTable, kept: str) -> bool:
    """Make readers see again what a tag keeps; False where there is no such tag, or it is of another history."""
    table = lake.iceberg(base.name)
    if not table.refs().containsKey(kept):
        return False
    head = int(table.refs().get(kept).snapshotId())
    if head not in snapshot_line(table, base.head, head):
        return False
    with translated(base.name):
        table.manageSnapshots().rollbackTo(head).commit()
    return True


def follows(lake: Lake, beside: LakeTable, base: LakeTable) -> bool:
    """Whether one state of a table was made on top of another."""
    return base.head in snapshot_line(lake.iceberg(base.name), beside.head, base.head)


def drop_branch(lake: Lake, name: TableName, branch: str) -> None:
    """Remove a branch, where there is one of that name."""
    with translated(name):
        table = lake.iceberg(name)
        if table.refs().containsKey(branch):
            table.manageSnapshots().removeBranch(branch).commit()
