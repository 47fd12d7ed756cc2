"""What has become of a commit that readers see, where its answer alone does not tell.

An answer can be lost, and a client that asks twice is told that it lost to itself. So the table is asked: what is to be
seen has a snapshot of its own, and either readers' line has it or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer.errors import CommitConflict, CommitUnknown
from cdc_materializer.lake.commit import written_by
from cdc_materializer.lake.errors import lake_error
from cdc_materializer.lake.line import snapshot_line
from cdc_materializer.names import TableName, shown

#: Branches that we stage on begin so; one that is left over from a killed run is dropped when its table is loaded.
BRANCH_PREFIX = "cdcm_"
#: What Java throws, as Python has it; anything else comes from the way there, and no Java may be there any more.
_TOLD_BY_JAVA = (Py4JJavaError, PySparkException)
#: The application is the last part of their names, behind what is done and the batch.
_STAGED = re.compile(rf"{BRANCH_PREFIX}(?:[a-z]+_)?[0-9a-f]{{16}}_(.+)")


def see_through(
    load: Callable[[], Any], name: TableName, visible: str, head: int, commit: Callable[[], object]
) -> None:
    """Make a commit that readers see, and stay with it until it is known what has become of it.

    Args:
        load: loads the table as it is now.
        name: the table.
        visible: the branch that readers see.
        head: the snapshot that is on its line once the commit has happened, and was not before.
        commit: makes the commit.

    Raises:
        CommitConflict: another writer was first.
        CommitUnknown: the outcome cannot be told.
        LakeUnavailable: it was refused, or never arrived.
    """
    try:
        commit()
    except (Py4JError, PySparkException, ConnectionError) as error:
        if is_visible(load, name, visible, head):
            return
        if not isinstance(error, _TOLD_BY_JAVA):
            raise
        raise lake_error(name, error, written_by(load, visible)) from error
    if not is_visible(load, name, visible, head):
        what = f"The commit to {name} was accepted, and its snapshot is not there."
        raise CommitUnknown(what, f"Nothing was deleted. Look at the snapshots of {name} before the next run.")


@contextmanager
def naming(load: Callable[[], Any], visible: str, base: int | None, own: str) -> Iterator[None]:
    """Say who it was where another writer comes while a batch is being staged.

    Args:
        load: loads the table as it is now.
        visible: the branch that readers see.
        base: its head when the batch was planned.
        own: the branch that is staged on.

    Raises:
        CommitConflict: as inside, with what is known of the other writer.
    """
    try:
        yield
    except CommitConflict as conflict:
        other = _other_writer(load, visible, base, own)
        if other is None:
            raise
        raise CommitConflict(f"{conflict.what} The other writer: {other}.", conflict.do) from conflict


def _other_writer(load: Callable[[], Any], visible: str, base: int | None, own: str) -> str | None:
    """Who has published, or begun a branch: of one without a snapshot yet, its name tells the application."""
    try:
        table = load()
        now, branches = table.snapshot(visible), [name for name in table.refs() if name.startswith(BRANCH_PREFIX)]
    except (Py4JJavaError, PySparkException):
        return None
    if now is not None and now.snapshotId() != base:
        return written_by(lambda: table, visible)
    mine, found = _STAGED.fullmatch(own), [_STAGED.fullmatch(name) for name in branches if name != own]
    others = [one[1] for one in found if one is not None and (mine is None or one[1] != mine[1])]
    return f"application {shown(others[0])}" if others else None


def is_visible(load: Callable[[], Any], name: TableName, visible: str, head: int) -> bool:
    """Whether a snapshot is on a branch's line.

    Raises:
        CommitUnknown: the catalog cannot be asked.
    """
    try:
        table = load()
        snapshot = table.snapshot(visible)
        return snapshot is not None and head in snapshot_line(table, snapshot.snapshotId(), head)
    except (Py4JError, PySparkException, ConnectionError) as error:
        silent = "the catalog does not answer any more" if isinstance(error, _TOLD_BY_JAVA) else "Spark has ended"
        what = f"Whether the commit to {name} happened cannot be told: {silent}."
        raise CommitUnknown(what, "Nothing was deleted. Run again when it answers: the tables say so then.") from error
