"""The steps of maintenance on a table, by Iceberg's own actions. Each is whole or not there, and can be done again.

What writes files is staged on a branch and published as a batch is (`Lake.publish`), with the marker that the table
has: readers see the rewritten files and the marker in one commit, and of maintenance and a batch at once one loses, and
nothing of it is seen. No branch is dropped here but the step's own: another one may be a batch that is being staged.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer import crash_points
from cdc_materializer.causes import java_classes
from cdc_materializer.errors import CdcError, CommitConflict
from cdc_materializer.lake.branches import drop_branches
from cdc_materializer.lake.commit import FORGETS_METADATA
from cdc_materializer.lake.errors import lake_error, translated
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.lake.stage import Stage
from cdc_materializer.line.line import marker_of
from cdc_materializer.logs import without_texts
from cdc_materializer.maintenance.facts import PLACE
from cdc_materializer.maintenance.files import FILES_MIN, Compaction, debt_limit, largest
from cdc_materializer.maintenance.plan import LOOKED_AT, UPKEEP_PREFIX, is_of_batch
from cdc_materializer.names import TableName

_LOG = logging.getLogger(__name__)

#: Orphans that are deleted at one time; the next time the folder is looked through for the rest.
ORPHANS_MAX = 100_000
_METADATA_FILE = ".metadata.json"
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"]+)"')
_UUID_WITHIN = 512
_ANOTHER = "another process"
#: A day from now is later than any file.
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Rewritten:
    """What a rewrite has done: data files read and written, delete files that went, bytes read."""

    files: int
    files_after: int
    bytes: int


class _Nothing(Exception):
    """Raised where there turned out to be nothing to rewrite."""


def load(lake: Lake, name: TableName) -> LakeTable:
    """The table as it is now; no branch is dropped, for one may be a batch's that is being staged.

    Raises:
        CommitConflict: there is none any more.
        LakeUnavailable: it has no marker, or cannot be read.
    """
    found = replace(lake, read_only=True).load(name)
    if found is None:
        raise CommitConflict(f"Table {name} is gone.", "Another process dropped it; run again.")
    marker_of(found)
    return found


def activate(lake: Lake) -> None:
    """Make the lake's session the thread's.

    What Iceberg plans takes its settings from that one, and so does a catalog that is met for the first time: beside a
    caller's Spark they would be the caller's, and a thread of Python's own has none.
    """
    session: Any = lake.spark._jsparkSession  # noqa: SLF001 - PySpark has no public way to it
    getattr(_jvm(lake), "org.apache.spark.sql.classic.SparkSession").setActiveSession(session)


def drop_left_over(lake: Lake, name: TableName) -> None:
    """Drop the branches of maintenance that was killed, or has failed; those of batches stay.

    Raises:
        CommitConflict: another process has come first.
    """
    drop_branches(lake, name, UPKEEP_PREFIX)


def compact(lake: Lake, base: LakeTable, wanted: Compaction, target: int, ratio: float) -> Rewritten | None:
    """Write files anew as planned; None where there turned out to be none.

    Args:
        lake: the lake.
        base: the table as it was when this was planned.
        wanted: which files.
        target: size that they are to have, in bytes.
        ratio: the rule's.

    Raises:
        CommitConflict: a batch was published meanwhile, or is being staged; nothing was changed.
    """
    done: list[Rewritten] = []

    def stage(staging: Stage) -> None:
        table = lake.iceberg(base.name)
        action = _actions(lake).rewriteDataFiles(table).toBranch(staging.branch)
        for name, value in _options(wanted, target, ratio).items():
            action = action.option(name, value)
        order = _order(lake, table)
        action = (action.sort(order) if order is not None else action.binPack()).execute()
        if not action.rewrittenDataFilesCount():
            raise _Nothing
        counts = (action.rewrittenDataFilesCount(), action.addedDataFilesCount(), action.rewrittenBytesCount())
        done.append(Rewritten(*(int(count) for count in counts)))
        staging.steps.append(lake.branch_head(base.name, staging.branch))
        crash_points.reach("compacted", base.name)

    return done[0] if _published(lake, base, stage) else None


def rewrite_manifests(lake: Lake, base: LakeTable) -> None:
    """Write the manifests of data files anew, fewer.

    Iceberg does that on `main` only, and removes what it wrote where it takes its commit for failed. So its result is
    committed to a branch by hand, which removes nothing.

    Raises:
        CommitConflict: as `compact`.
    """
    core: Any = _jvm(lake).org.apache.iceberg

    def stage(staging: Stage) -> None:
        table = lake.iceberg(base.name)
        # A function that is the same for each file, and so leaves them in one heap.
        same = _jvm(lake).scala.jdk.javaapi.FunctionConverters.asJavaFunction(_constant(lake))
        snapshot = table.rewriteManifests().clusterBy(same).apply()
        operations = table.operations()
        known = operations.current()
        changed = core.TableMetadata.buildFrom(known).setBranchSnapshot(snapshot, staging.branch)
        operations.commit(known, changed.build())
        staging.steps.append(lake.branch_head(base.name, staging.branch))

    _published(lake, base, stage)


def mark(lake: Lake, base: LakeTable) -> None:
    """Give the head its marker again, by a commit that has nothing else.

    Raises:
        CommitConflict: as `compact`.
    """
    _published(lake, base, lambda _: None)


def expire(lake: Lake, name: TableName, snapshots: Sequence[int]) -> None:
    """Remove snapshots, and the files that no other one has.

    Raises:
        CommitConflict: another process has come first, or needs one of them now.
        CommitUnknown: whether they are gone cannot be told; no file was deleted.
        LakeUnavailable: the table cannot be loaded; nothing was sent.
    """
    with translated(name):
        table = lake.iceberg(name)
    try:
        # From the beginning of time on: which ones go was decided, and no age decides it here.
        update = table.expireSnapshots().expireOlderThan(0)
        for snapshot in snapshots:
            update = update.expireSnapshotId(snapshot)
        update.commit()
    except (Py4JJavaError, PySparkException) as error:
        raise lake_error(name, error, _ANOTHER) from error
    crash_points.reach("expired", name)


def _published(lake: Lake, base: LakeTable, stage: Callable[[Stage], None]) -> bool:
    """Publish with the marker that the table has; False where there was nothing to stage.

    A batch that began to write meanwhile goes first: to plan it anew takes longer than to rewrite files once more. What
    was on a branch all the time may be left over from one that was killed: nothing waits for that, and a batch that is
    at work there all the same is planned anew.
    """
    marker, left_over = marker_of(base), _staged(lake, base.name)

    def give_way() -> None:
        if _staged(lake, base.name).items() - left_over.items():
            what = f"A batch of {base.name} is being published at this moment."
            raise CommitConflict(what, "Nothing was changed, because it goes first; run again.")

    try:
        replace(lake, staging=UPKEEP_PREFIX).publish(base, marker, stage, give_way)
    except (_Nothing, CdcError) as end:
        try:
            drop_left_over(lake, base.name)
        except CdcError as failure:  # the next run or maintenance drops it
            _LOG.debug("a branch of %s stays for now", base.name, exc_info=without_texts(failure))
        if isinstance(end, CdcError):
            raise
        return False
    return True


def _staged(lake: Lake, name: TableName) -> dict[str, int]:
    """The branches that batches are staged on, and where they stand."""
    with translated(name):
        found = lake.iceberg(name).refs().items()
        return {str(ref): int(at.snapshotId()) for ref, at in found if is_of_batch(str(ref))}


def _options(wanted: Compaction, target: int, ratio: float) -> dict[str, str]:
    return {
        "target-file-size-bytes": str(target),
        "min-file-size-bytes": str(min(wanted.small, target - 1)),
        "max-file-size-bytes": str(largest(target)),
        "min-input-files": str(FILES_MIN),
        "delete-ratio-threshold": str(debt_limit(ratio)),
        "rewrite-all": str(wanted.every).lower(),
    }


def _order(lake: Lake, table: Any) -> Any:  # noqa: ANN401 - Java objects
    """The order in which rows are written; None where the table has none."""
    if table.sortOrder().isSorted():
        return table.sortOrder()
    if any(table.schema().findField(name) is None for name in PLACE):
        return None
    order = _jvm(lake).org.apache.iceberg.SortOrder.builderFor(table.schema())
    # By offset first, as overlaps are measured, and as batches come: what is appended later lies behind all of it.
    for name in reversed(PLACE):
        order = order.asc(name)
    return order.build()


def _actions(lake: Lake) -> Any:  # noqa: ANN401 - a Java object
    session: Any = lake.spark._jsparkSession  # noqa: SLF001 - PySpark has no public way to Iceberg's Java API
    return _jvm(lake).org.apache.iceberg.spark.actions.SparkActions.get(session)


def _jvm(lake: Lake) -> Any:  # noqa: ANN401 - as above
    return lake.spark._jvm  # noqa: SLF001 - as above


def _constant(lake: Lake) -> Any:  # noqa: ANN401 - as above
    """A Scala function that says the same of everything and does nothing: whether the empty set has it."""
    companion = getattr(_jvm(lake).scala.collection.immutable, "Set$")
    return getattr(companion, "MODULE$").empty()


# --- orphans
# --------------------------------------------------------------------------------------------------------


def find_orphans(lake: Lake, name: TableName, before_ms: int) -> list[str]:
    """Files in a table's own folder that belong to none of its snapshots and are older than some time; none is deleted.

    Args:
        lake: the lake.
        name: the table.
        before_ms: in milliseconds since 1970.

    Raises:
        CommitConflict: another table has files in that folder, or may have.
        LakeUnavailable: the folder cannot be listed.
    """
    with translated(name):
        table = lake.iceberg(name)
        root = str(table.location()).rstrip("/")
        _check_alone(lake, table, name, f"{root}/metadata")
        found = [
            path
            for folder in ("data", "metadata")
            for path in _unreferenced(lake, table, f"{root}/{folder}", before_ms)
            if not path.endswith(("version-hint.text", ".crc"))
        ]
        folders = {folder for path in found for folder in _between(root, path)}
        others = tuple(f"{folder}/" for folder in sorted(folders) if _is_table(table, folder))
    return [path for path in found if not path.startswith(others)][:ORPHANS_MAX] if others else found[:ORPHANS_MAX]


def delete_orphans(lake: Lake, name: TableName, paths: Sequence[str], now_ms: int) -> None:
    """Delete files that `find_orphans` found, and note in the table when that was, unless there may be more of them.

    Raises:
        CommitConflict, LakeUnavailable: as any step.
    """
    crash_points.reach("found", name)
    with translated(name):
        table = lake.iceberg(name)
        if paths:
            files = _jvm(lake).java.util.ArrayList()
            for path in paths:
                files.add(path)
            _jvm(lake).org.apache.iceberg.CatalogUtil.deleteFiles(table.io(), files, "orphan", True)  # noqa: FBT003 - Java's
        told = {} if len(paths) == ORPHANS_MAX else {LOOKED_AT: str(now_ms)}
        if not table.properties().containsKey(FORGETS_METADATA):
            # A table of an earlier version would go on to leave a file a commit.
            told[FORGETS_METADATA] = "true"
        if told:
            update = table.updateProperties()
            for key, value in told.items():
                update.set(key, value)
            update.commit()


def _unreferenced(lake: Lake, table: Any, folder: str, before_ms: int) -> list[str]:  # noqa: ANN401 - a Java object
    """What lies in a folder, is older, and belongs to no snapshot of the table; Iceberg compares the two."""
    nothing = _jvm(lake).scala.jdk.javaapi.FunctionConverters.asJavaConsumer(_constant(lake))
    action = _actions(lake).deleteOrphanFiles(table).location(folder).olderThan(before_ms)
    try:
        found = action.usePrefixListing(True).deleteWith(nothing).execute()  # noqa: FBT003 - Java's
        return [str(path) for path in found.orphanFileLocations()]
    except (Py4JJavaError, PySparkException) as error:
        if "FileNotFoundException" in java_classes(error):
            return []
        raise


def _check_alone(lake: Lake, table: Any, name: TableName, folder: str) -> None:  # noqa: ANN401 - a Java object
    """Refuse a folder in which another table keeps its metadata, too: whose a data file is, its path does not tell."""
    later = _jvm(lake).java.lang.System.currentTimeMillis() + _DAY_MS
    own = table.uuid().toString()
    for path in _unreferenced(lake, table, folder, later):
        if path.endswith(_METADATA_FILE) and _uuid_of(lake, table, path) != own:
            what = f"Another table keeps its metadata in the folder of {name}, so no file of it is taken for an orphan."
            do = f"If that one is gone, remove its metadata, {path} and the like; else give each a folder of its own."
            raise CommitConflict(what, f"{do} Nothing was deleted.")


def _uuid_of(lake: Lake, table: Any, path: str) -> str:  # noqa: ANN401 - a Java object
    """The identity of the table that a metadata file is about; it stands near its beginning, unless it is packed."""
    stream = table.io().newInputFile(path).newStream()
    try:
        told = _UUID.search(bytes(stream.readNBytes(_UUID_WITHIN)))
    finally:
        stream.close()
    if told is not None:
        return told[1].decode()
    return str(_jvm(lake).org.apache.iceberg.TableMetadataParser.read(table.io(), path).uuid())


def _between(root: str, path: str) -> set[str]:
    """The folders in which a file lies, below a table's own."""
    folders, folder = set(), posixpath.dirname(path)
    while len(folder) > len(root):
        folders.add(folder)
        folder = posixpath.dirname(folder)
    return folders


def _is_table(table: Any, folder: str) -> bool:  # noqa: ANN401 - a Java object
    """Whether a folder is another table's: it has metadata of its own."""
    try:
        files = table.io().listPrefix(f"{folder}/metadata/").iterator()
        while files.hasNext():
            if str(files.next().location()).endswith(_METADATA_FILE):
                return True
    except (Py4JJavaError, PySparkException) as error:
        if "FileNotFoundException" not in java_classes(error):
            raise
    return False
