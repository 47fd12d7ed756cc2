"""A state of a table beside the one that readers see: swapped in, taken back, dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer.lake import BRANCH_PREFIX, MAIN, Lake, LakeTable
from cdc_materializer.lake_errors import publish_error, translated
from cdc_materializer.lake_line import snapshot_line
from cdc_materializer.marker import Marker
from cdc_materializer.names import TableName


def swap(lake: Lake, base: LakeTable, beside: LakeTable, branch: str, kept: str) -> bool:
    """Make a branch the one that readers see, and keep what they saw under a tag; all in one commit.

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
        update = _tagged(table, kept, base.head)
        update.fastForwardBranch(MAIN, branch).removeBranch(branch).commit()
    except (Py4JJavaError, PySparkException) as error:
        if beside.head is None or not lake.is_published(base.name, beside.head):
            raise publish_error(base.name, error) from error
    return True


def keep(lake: Lake, base: LakeTable, tag: str) -> None:
    """Keep a state of a table under a tag, in place of what the tag kept before."""
    with translated(base.name):
        _tagged(lake.iceberg(base.name), tag, base.head).commit()


def _tagged(table: Any, tag: str, head: int | None) -> Any:  # noqa: ANN401 - Java objects
    update = table.manageSnapshots()
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
    """
    table = lake.iceberg(base.name)
    if not table.refs().containsKey(tag):
        return False
    branch = f"{BRANCH_PREFIX}back_{lake.spark.sparkContext.applicationId}"
    with translated(base.name):
        table.manageSnapshots().createBranch(branch, table.refs().get(tag).snapshotId()).commit()
        kept = replace(lake, branch=branch).load(base.name)
        if kept is None or kept.marker is None:
            return False
        lake.mark(base.name, carried(kept.marker), branch)
        table.refresh()
        table.manageSnapshots().replaceBranch(MAIN, branch).removeBranch(branch).removeTag(tag).commit()
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
