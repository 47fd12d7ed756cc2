"""The Iceberg tables: load, stage on a branch, publish by fast-forward.

A commit is made in two steps. Data is written to a branch that starts at the head which the batch was planned on; then
`main` is moved to the branch's head. Iceberg refuses the second step when `main` has moved meanwhile, so of two writers
one wins and the other knows that it lost, and readers see a batch whole or not at all. What was measured of this on our
versions is in `docs/adr/0003-publish-by-fast-forward.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from cdc_materializer import merge
from cdc_materializer.errors import CommitConflict, CommitUnknown, LakeUnavailable
from cdc_materializer.marker import Marker
from cdc_materializer.names import TableName, quote
from cdc_materializer.schema import Column, SchemaPlan, TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Branches that we stage on begin so; one that is left over from a killed run is dropped when its table is loaded.
BRANCH_PREFIX = "cdcm_"
_MAIN = "main"
#: Table property of the tables that we make. One that has it and no snapshot is left over from a run that was killed.
_MADE_BY = "cdcm.pipeline"
_SESSION_PROPERTY = "spark.sql.iceberg.snapshot-property."

_CONFLICT_CLASSES = ("CommitFailedException", "ValidationException", "AlreadyExistsException")
_UNKNOWN_CLASSES = ("CommitStateUnknownException",)


@dataclass(frozen=True)
class LakeTable:
    """A table as it was when it was loaded.

    Attributes:
        name: its name.
        uuid: Iceberg's own identity of the table.
        head: snapshot id of `main`; None before the first commit.
        marker: the newest marker on `main`'s ancestry; None where no snapshot has one.
        schema: its columns, without ours.
        is_empty: whether `main` holds no row.
    """

    name: TableName
    uuid: str
    head: int | None
    marker: Marker | None
    schema: TableSchema
    is_empty: bool


@dataclass(frozen=True)
class Lake:
    """The catalog, through one Spark session."""

    spark: SparkSession
    catalog: str
    #: Whether nothing is written through it; then another process's branch is left alone.
    read_only: bool = False

    def prepare(self, names: Iterable[TableName]) -> None:
        """Make the namespaces of tables, and with them what the catalog itself makes at its first use.

        Once, before several sessions use the catalog: two that make the same namespace at one time collide.

        Raises:
            LakeUnavailable: the catalog cannot be reached.
        """
        for name in names:
            for statement in merge.create_namespace(self.catalog, name):
                with translated(f"The catalog {self.catalog}"):
                    try:
                        self.spark.sql(statement)
                    except (Py4JJavaError, PySparkException):
                        # Another process may have made it in this very moment; then it is there now.
                        self.spark.sql(statement)

    # --- reading
    # --------------------------------------------------------------------------------------------------------

    def load(self, name: TableName) -> LakeTable | None:
        """The table as it is now; None where the catalog has none of that name, or one whose making was cut short.

        Raises:
            LakeUnavailable: the catalog or the table's metadata cannot be read.
        """
        with translated(name):
            if not self.spark.catalog.tableExists(merge.table_path(self.catalog, name)):
                return None
            table = self._table(name)
            if not self.read_only:
                self._drop_left_over_branches(table)
            snapshot = table.currentSnapshot()
            if snapshot is None and table.properties().containsKey(_MADE_BY):
                return None
            summary = dict(snapshot.summary()) if snapshot is not None else {}
            return LakeTable(
                name=name,
                uuid=table.uuid().toString(),
                head=snapshot.snapshotId() if snapshot is not None else None,
                marker=_newest_marker(table),
                schema=self._schema(name, table),
                is_empty=int(summary.get("total-records", "0")) == 0,
            )

    def rows(self, table: LakeTable) -> DataFrame:
        """The rows of a table as it was when it was loaded."""
        if table.head is None:
            return self.spark.table(merge.table_path(self.catalog, table.name))
        return self.spark.table(merge.snapshot_path(self.catalog, table.name, table.head))

    def _table(self, name: TableName) -> Any:  # noqa: ANN401 - a Java object
        jvm: Any = self.spark._jvm  # noqa: SLF001 - PySpark has no public way to Iceberg's Java API
        session: Any = self.spark._jsparkSession  # noqa: SLF001
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session, merge.table_path(self.catalog, name))

    def _schema(self, name: TableName, table: Any) -> TableSchema:  # noqa: ANN401 - a Java object
        frame = self.spark.table(merge.table_path(self.catalog, name))
        fields = [field for field in frame.schema.fields if field.name != merge.CDC]
        keys = set(table.schema().identifierFieldNames())
        columns = tuple(Column(field.name, _ddl(field.dataType)) for field in fields)
        return TableSchema(columns, tuple(column.name for column in columns if column.name in keys))

    # --- making and changing
    # --------------------------------------------------------------------------------------------

    def create(
        self,
        name: TableName,
        schema: TableSchema,
        marker: Marker,
        properties: Mapping[str, str],
        layout: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
    ) -> LakeTable:
        """Make a table with an empty marked commit, so that it has a head to branch from.

        Args:
            name: its name, in a namespace that exists (see `prepare`); `load` found no table of that name.
            schema: its columns; one with a key becomes a mirror, with our own column and its order.
            marker: what the first commit says: where reading begins.
            properties: Iceberg table properties.
            layout: partition and sort fields.
        """
        partitioned_by, sorted_by = layout
        full = merge.mirror_schema(schema) if schema.key else schema
        statements = [
            merge.create_table(self.catalog, name, full, {**properties, _MADE_BY: marker.pipeline}, partitioned_by),
            *(merge.finish_mirror(self.catalog, name, schema, sorted_by) if schema.key else []),
        ]
        with translated(name):
            self._drop_unfinished(name)
            for statement in statements:
                self.spark.sql(statement)
            self._mark(self._table(name), marker, None)
        loaded = self.load(name)
        if loaded is None:
            what = f"Table {name} was made and is not there."
            raise LakeUnavailable(what, "Check that the catalog is one that all its users see alike.")
        return loaded

    def _drop_unfinished(self, name: TableName) -> None:
        """Drop what a killed run left of a table: made by us, and without a commit. Looked at again just before."""
        if not self.spark.catalog.tableExists(merge.table_path(self.catalog, name)):
            return
        table = self._table(name)
        if table.currentSnapshot() is not None or not table.properties().containsKey(_MADE_BY):
            what = f"Table {name} was made by another writer while this batch was being planned."
            raise CommitConflict(what, "Run again; only one process should write a table.")
        self.spark.sql(merge.drop_table(self.catalog, name))

    def evolve(self, table: LakeTable, plan: SchemaPlan) -> LakeTable:
        """Add and widen columns; before the rows, because a schema is the table's and not a branch's."""
        with translated(table.name):
            for statement in merge.evolve_table(self.catalog, table.name, plan):
                self.spark.sql(statement)
        loaded = self.load(table.name)
        if loaded is None or loaded.head != table.head:
            what = f"Table {table.name} was changed by another writer while its columns were being added."
            raise CommitConflict(what, "Run again; only one process should write a table.")
        return loaded

    def publish(self, base: LakeTable, marker: Marker, stage: Callable[[Stage], None]) -> int:
        """Stage on a branch of the base's head, mark it, and move `main` there.

        Args:
            base: the table as the batch was planned on it.
            marker: goes into the summary of the last snapshot.
            stage: writes to the branch; may write nothing.

        Returns:
            The snapshot that `main` now stands at.

        Raises:
            CommitConflict: `main` moved after the base was loaded.
            CommitUnknown: the outcome of the last step cannot be told.
        """
        # A name of its own: two processes that plan the same span must not write to one branch.
        branch = f"{BRANCH_PREFIX}{marker.batch}_{self.spark.sparkContext.applicationId}"
        table = self._table(base.name)
        with translated(base.name):
            table.manageSnapshots().createBranch(branch, base.head).commit()
            staging = Stage(self, base, branch, marker)
            stage(staging)
            if not staging.is_marked:
                self._mark(self._table(base.name), marker, branch)
            self._assert_descends(self._table(base.name), branch, (base.head, *staging.steps), base)
            head = int(self._table(base.name).snapshot(branch).snapshotId())
        self._fast_forward(base, branch, head)
        return head

    def _mark(self, table: Any, marker: Marker, branch: str | None) -> None:  # noqa: ANN401 - a Java object
        commit = table.newFastAppend()
        if branch is not None:
            commit = commit.toBranch(branch)
        for name, value in marker.to_summary().items():
            commit.set(name, value)
        commit.commit()

    def branch_head(self, name: TableName, branch: str) -> int:
        """The snapshot at the head of a branch."""
        return int(self._table(name).snapshot(branch).snapshotId())

    def _assert_descends(self, table: Any, branch: str, steps: Sequence[int | None], base: LakeTable) -> None:  # noqa: ANN401 - a Java object
        """A branch that another process dropped comes back with the next write, without what was staged before."""
        chain: set[int] = set()
        snapshot = table.snapshot(branch)
        while snapshot is not None and base.head not in chain:
            chain.add(int(snapshot.snapshotId()))
            parent = snapshot.parentId()
            snapshot = table.snapshot(parent) if parent is not None else None
        if not chain.issuperset(steps):
            what = f"What was staged for {base.name} was disturbed by another process; nothing was published."
            raise CommitConflict(what, "Run again; one process should write a table.")

    def _fast_forward(self, base: LakeTable, branch: str, head: int) -> None:
        try:
            self._table(base.name).manageSnapshots().fastForwardBranch(_MAIN, branch).removeBranch(branch).commit()
        except (Py4JJavaError, PySparkException) as error:
            if self._is_published(base.name, head):
                return
            raise _publish_error(base.name, error) from error
        if not self._is_published(base.name, head):
            what = f"The commit to {base.name} was accepted, and its snapshot is not there."
            raise CommitUnknown(what, f"Nothing was deleted. Look at the snapshots of {base.name} before the next run.")

    def _is_published(self, name: TableName, head: int) -> bool:
        """Whether a snapshot is on `main`'s ancestry.

        Raises:
            CommitUnknown: the catalog cannot be asked.
        """
        try:
            table = self._table(name)
        except (Py4JJavaError, PySparkException) as error:
            what = f"Whether the commit to {name} happened cannot be told: the catalog does not answer any more."
            raise CommitUnknown(
                what, "Nothing was deleted. Run again when it answers: the tables say so then."
            ) from error
        snapshot = table.currentSnapshot()
        while snapshot is not None and snapshot.snapshotId() != head:
            parent = snapshot.parentId()
            snapshot = table.snapshot(parent) if parent is not None else None
        return snapshot is not None

    def _drop_left_over_branches(self, table: Any) -> None:  # noqa: ANN401 - a Java object
        left_over = [name for name in table.refs() if name.startswith(BRANCH_PREFIX)]
        if left_over:
            update = table.manageSnapshots()
            for name in left_over:
                update = update.removeBranch(name)
            update.commit()
            table.refresh()


@dataclass
class Stage:
    """The branch that a batch is written to, before anyone reads it."""

    lake: Lake
    base: LakeTable
    branch: str
    marker: Marker
    is_marked: bool = False
    #: Snapshots of the branch after each statement; all of them have to be below what is published.
    steps: list[int] = field(default_factory=list)

    def append(self, rows: DataFrame) -> None:
        """Append rows; the marker goes with them, so this is the last write of a batch."""
        path = merge.branch_path(self.lake.catalog, self.base.name, self.branch)
        writer = rows.writeTo(path).option("check-nullability", "false").option("fanout-enabled", "true")
        for name, value in self.marker.to_summary().items():
            writer = writer.option(f"snapshot-property.{name}", value)
        writer.append()
        self.is_marked = True

    def execute(self, statement: str) -> None:
        """Run one statement of `merge`; its snapshot carries the batch id, so that it is known for ours."""
        name = f"{_SESSION_PROPERTY}cdcm.batch"
        self.lake.spark.conf.set(name, self.marker.batch)
        try:
            self.lake.spark.sql(statement)
        finally:
            self.lake.spark.conf.unset(name)
        self.steps.append(self.lake.branch_head(self.base.name, self.branch))


def _ddl(data_type: DataType) -> str:
    """A type's DDL as `decode.types` spells it, the names of struct fields quoted; Spark's own leaves them bare."""
    match data_type:
        case StructType():
            return "struct<" + ",".join(f"{quote(field.name)}:{_ddl(field.dataType)}" for field in data_type) + ">"
        case ArrayType():
            return f"array<{_ddl(data_type.elementType)}>"
        case MapType():
            return f"map<{_ddl(data_type.keyType)},{_ddl(data_type.valueType)}>"
        case _:
            return data_type.simpleString()


def _newest_marker(table: Any) -> Marker | None:  # noqa: ANN401 - a Java object
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        marker = Marker.from_summary(dict(snapshot.summary()))
        if marker is not None:
            return marker
        parent = snapshot.parentId()
        snapshot = table.snapshot(parent) if parent is not None else None
    return None


def _java_classes(error: Py4JJavaError | PySparkException) -> Iterator[str]:
    # PySpark gives some Java exceptions, IllegalArgumentException among them, as its own, and keeps Java's behind them.
    cause = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    while cause is not None:
        yield cause.getClass().getSimpleName()
        cause = cause.getCause()


def _publish_error(name: TableName, error: Py4JJavaError | PySparkException) -> Exception:
    classes = list(_java_classes(error)) or [type(error).__name__]
    if any(found in _UNKNOWN_CLASSES for found in classes):
        what = f"Whether the commit to {name} happened cannot be told: the catalog's answer was lost."
        return CommitUnknown(what, f"Nothing was deleted. Look at the snapshots of {name}, then run again.")
    if any(found in _CONFLICT_CLASSES for found in classes) or "IllegalArgumentException" in classes:
        what = f"Another writer committed to {name} first; this batch was not published."
        return CommitConflict(what, "Run again: it will be planned on the new head. One process should write a table.")
    return LakeUnavailable(f"The commit to {name} failed ({classes[0]}).", "Check the catalog, then run again.")


@contextmanager
def translated(name: TableName | str) -> Iterator[None]:
    """Turn what Java and Spark throw while a table is read or staged into our errors, without their texts.

    Raises:
        CommitConflict: another writer changed the table.
        LakeUnavailable: anything else that the catalog, the warehouse or a job on them answers.
    """
    try:
        yield
    except Py4JJavaError as error:
        classes = list(_java_classes(error))
        if any(found in _CONFLICT_CLASSES for found in classes):
            what = f"Another writer changed {name} while this batch was being staged."
            raise CommitConflict(what, "Nothing was published; run again. One process should write a table.") from error
        what = f"{_subject(name)} cannot be read or written ({classes[-1]})."
        raise LakeUnavailable(what, "Check that the catalog and the warehouse can be reached and have room.") from error
    except PySparkException as error:
        what = f"{_subject(name)} cannot be read or written ({error.getCondition() or type(error).__name__})."
        raise LakeUnavailable(what, "See --debug for Spark's own words.") from error


def _subject(name: TableName | str) -> str:
    return name if isinstance(name, str) else f"Table {name}"
