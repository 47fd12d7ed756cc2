"""The Iceberg tables: load, stage on a branch, publish by fast-forward.

A commit is made in two steps. Data is written to a branch that starts at the head which the batch was planned on; then
`main` is moved to the branch's head. Iceberg refuses the second step when `main` has moved meanwhile, so of two writers
one wins and the other knows that it lost, and readers see a batch whole or not at all (decision 3 has figures).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from cdc_materializer import crash_points, merge
from cdc_materializer.decode.fit import ddl_of
from cdc_materializer.errors import CommitConflict, ConfigError, LakeUnavailable
from cdc_materializer.lake import commit as lake_commit
from cdc_materializer.lake import outcome as lake_outcome
from cdc_materializer.lake.columns import Stored, as_seen, columns_of, dropped_columns, rename_column
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.line import records
from cdc_materializer.lake.metadata import iceberg_table
from cdc_materializer.lake.outcome import BRANCH_PREFIX
from cdc_materializer.lake.stage import Stage
from cdc_materializer.marker.marker import MARKER_TAG, Marker
from cdc_materializer.names import TableName
from cdc_materializer.retry import COMMIT
from cdc_materializer.schema.schema import Column, SchemaPlan, TableSchema, renamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What readers see.
MAIN = "main"
#: Likewise: what is said of its layout and properties, so that who takes it over can tell if that is still so.
_MADE_AS = "cdcm.made-as"


def _settings(properties: Mapping[str, str], layout: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    """A short text that is another one for other properties or another layout."""
    return hashlib.sha256(json.dumps([sorted(properties.items()), layout]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class LakeTable:
    """A table as it was when it was loaded.

    Attributes:
        name: its name.
        uuid: Iceberg's own identity of the table.
        head: snapshot id of the branch that was loaded, `main` as a rule; None before the first commit.
        marker: the newest marker on that branch's ancestry; None where no snapshot has one.
        schema: its columns, without ours.
        is_empty: whether the branch holds no row.
        records: how many rows it has by Iceberg's count, those included that delete files hide.
        keeps_deleted: whether it is a mirror that was made with `deletes: soft`.
        routed: whether it is a mirror that several source tables have fed.
        stored: how it stores its columns, where that is not by their names in `schema`.
        pending: the columns that are to be renamed before rows are written, from old to new; `schema` has the new.
        schema_id: Iceberg's number of its columns; another one later means that someone has changed them.
        spec_id: likewise of its partitions.
        dropped: the columns that were dropped or renamed since its newest marked snapshot, with their names of now.
        foreign: how many commits of other programs changed rows of it since its newest marked snapshot.
        rewritten: whether a MERGE writes its files anew (`write.merge.mode`) and tells nothing beside them.
    """

    name: TableName
    uuid: str
    head: int | None
    marker: Marker | None
    schema: TableSchema
    is_empty: bool
    records: int = 0
    keeps_deleted: bool = False
    routed: bool = False
    stored: Stored = field(default_factory=Stored)
    pending: tuple[tuple[str, str], ...] = ()
    schema_id: int | None = None
    spec_id: int | None = None
    dropped: Mapping[str, str | None] = field(default_factory=dict)
    foreign: int = 0
    rewritten: bool = False

    def renaming(self, pairs: Sequence[tuple[str, str]], *, later: bool = False) -> LakeTable:
        """The same as it will be when columns have been renamed, from old to new; `later`: when readers see it."""
        if not pairs:
            return self
        stored = self.stored.renaming(pairs)
        return replace(self, schema=renamed(self.schema, pairs), stored=stored, pending=() if later else tuple(pairs))


@dataclass(frozen=True)
class Lake:
    """The catalog, through one Spark session."""

    spark: SparkSession
    catalog: str
    #: Whether nothing is written through it; then another process's branch is left alone.
    read_only: bool = False
    #: The branch that is read and published to. Any but `main` is a table beside the one that readers see.
    branch: str = MAIN
    #: What the names of the branches begin with that are staged on for `main`.
    staging: str = BRANCH_PREFIX
    #: The types that columns of a table have on that branch, where they are others, by the names that readers see.
    retypes: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)

    def prepare(self, name: TableName) -> None:
        """Make a table's namespaces, and with them what the catalog itself makes at its first use.

        Once, before several sessions use the catalog: two that make the same namespace at one time collide.

        Raises:
            LakeUnavailable: the catalog cannot be reached, or does not let this user make them.
        """
        for statement in merge.create_namespace(self.catalog, name):
            with translated(f"The namespace {'.'.join(name.namespace)} of the catalog {self.catalog}"):
                try:
                    self.spark.sql(statement)
                except (Py4JJavaError, PySparkException):
                    # Another process may have made it in this very moment; then it is there now.
                    self.spark.sql(statement)

    # --- reading
    # --------------------------------------------------------------------------------------------------------

    def load(self, name: TableName) -> LakeTable | None:
        """The table as it is now; None where the catalog has none of that name, or one whose making was cut short.

        On another branch than `main` also None where the table has no such branch.

        Raises:
            LakeUnavailable: the catalog or the table's metadata cannot be read.
        """
        path = merge.table_path(self.catalog, name)
        with translated(name):
            if not self.spark.catalog.tableExists(path):
                return None
            table = self.iceberg(name)
            snapshot = table.snapshot(self.branch)
            if snapshot is None and (self.branch != MAIN or lake_commit.is_being_made(table)):
                # Its branch is left alone: whoever makes the table may be at it.
                return None
            if not self.read_only:
                self._drop_left_over_branches(table)
                snapshot = table.snapshot(self.branch)
            schema, stored = columns_of(table, snapshot, self.spark.table(path), self.retypes.get(name, {}))
            return LakeTable(
                name=name,
                uuid=table.uuid().toString(),
                head=snapshot.snapshotId() if snapshot is not None else None,
                marker=lake_commit.newest_marker(table, snapshot),
                schema=schema,
                is_empty=not lake_commit.has_rows(table, snapshot),
                records=records(snapshot),
                keeps_deleted=table.schema().findField(f"{merge.CDC}.{merge.DELETED}") is not None,
                routed=table.schema().findField(f"{merge.CDC}.{merge.SOURCE_TABLE}") is not None,
                stored=stored,
                schema_id=table.schema().schemaId(),
                spec_id=table.spec().specId(),
                # A branch beside `main` has rows of its own, and its own head tells what columns they have.
                dropped=dropped_columns(table, table.snapshot(MARKER_TAG) if self.branch == MAIN else snapshot),
                foreign=lake_commit.foreign_commits(table, snapshot),
                # Which is what Iceberg does where the property is not there.
                rewritten=str(table.properties().get("write.merge.mode")).lower() != "merge-on-read",
            )

    def fields(self, table: LakeTable, name: str) -> TableSchema:
        """The fields of a struct column as a schema of their own."""
        kind = self.spark.table(merge.table_path(self.catalog, table.name)).schema[name].dataType
        found = kind.fields if isinstance(kind, StructType) else ()
        return TableSchema(tuple(Column(field.name, ddl_of(field.dataType)) for field in found))

    def rows(self, table: LakeTable) -> DataFrame:
        """The rows of a table as it was when it was loaded."""
        if table.head is None:
            return self.spark.table(merge.table_path(self.catalog, table.name))
        return table.stored.told(self.spark.table(merge.snapshot_path(self.catalog, table.name, table.head)))

    def answer(self, query: str) -> DataFrame:
        """What a query of `merge` gives."""
        return self.spark.sql(query)

    def iceberg(self, name: TableName) -> Any:  # noqa: ANN401 - a Java object
        """The table in Iceberg's own API."""
        session: Any = self.spark._jsparkSession  # noqa: SLF001 - PySpark has no public way to Iceberg's Java API
        return iceberg_table(session, merge.table_path(self.catalog, name))

    def clock_ms(self) -> int:
        """Milliseconds since 1970 by the clock that Iceberg dates commits by, the JVM's."""
        return int(self.spark._jvm.java.lang.System.currentTimeMillis())  # type: ignore[union-attr]  # noqa: SLF001

    # --- making and changing
    # --------------------------------------------------------------------------------------------

    def create(
        self,
        name: TableName,
        schema: TableSchema,
        marker: Marker,
        properties: Mapping[str, str],
        layout: tuple[tuple[str, ...], tuple[str, ...]] = ((), ()),
        *,
        soft: bool = False,
        routed: bool = False,
    ) -> LakeTable:
        """Make a table with an empty marked commit, so that it has a head to branch from.

        Args:
            name: its name, in a namespace that exists (see `prepare`); `load` found no table of that name.
            schema: its columns; one with a key becomes a mirror, with our own column and its order.
            marker: what the first commit says: where reading begins.
            properties: Iceberg table properties.
            layout: partition and sort fields.
            soft: whether the mirror keeps the rows that are deleted.
            routed: whether its rows come from several source tables.

        Raises:
            CommitConflict: another process was at it too.
            CommitUnknown: whether readers see the table cannot be told.
            ConfigError: it was begun under other settings.
        """
        partitioned_by, sorted_by = layout
        full = merge.mirror_schema(schema, soft=soft, routed=routed) if schema.key else schema
        properties = {**lake_commit.COMMIT_PROPERTIES, **properties, _MADE_AS: _settings(properties, layout)}
        properties[lake_commit.MADE_BY] = marker.pipeline
        make = [merge.create_table(self.catalog, name, full, properties, partitioned_by)]
        finish = merge.finish_mirror(self.catalog, name, schema, sorted_by) if schema.key else []
        with translated(name):
            begun = self._begun(name, properties[_MADE_AS])
            is_finished = begun is not None and any(begun.schema().identifierFieldNames())
            for statement in ([] if begun is not None else make) + ([] if is_finished else finish):
                self.spark.sql(statement)
            crash_points.reach("made", name)
            # Not on `main` at once: the library removes the files of a commit that it takes for failed.
            branch = f"{BRANCH_PREFIX}made_{self.spark.sparkContext.applicationId}"
            self.mark(name, marker, branch)
            head, opened = lake_commit.opening(self.iceberg(name), branch, name)
            lake_outcome.see_through(partial(self.iceberg, name), name, MAIN, head, opened.commit)
        loaded = self.load(name)
        if loaded is None:
            what = f"Table {name} was made and is not there."
            raise LakeUnavailable(what, "Check that the catalog is one that all its users see alike.")
        lake_commit.check_made(loaded, marker)
        asked = soft, routed, schema.key, schema.types
        if begun is not None and (loaded.keeps_deleted, loaded.routed, loaded.schema.key, loaded.schema.types) != asked:
            what = f"Table {name} was begun by a run that saw other columns or settings. It is whole now, and empty."
            raise CommitConflict(what, "Run again: it will be planned on what is there.")
        return loaded

    def _begun(self, name: TableName, settings: str) -> Any | None:  # noqa: ANN401 - a Java object
        """The table that a run began to make and gave no commit; None where there is none of that name.

        The run was killed, or is at it at this very moment. So it is taken over and never dropped: between a look at it
        and the drop it may have been filled.

        Raises:
            CommitConflict: there is a table by now, and a whole one.
            ConfigError: it was begun under other settings, which a table that is there does not take on.
        """
        if not self.spark.catalog.tableExists(merge.table_path(self.catalog, name)):
            return None
        table = self.iceberg(name)
        if table.currentSnapshot() is not None or not lake_commit.is_being_made(table):
            writer = lake_commit.written_by(lambda: table, MAIN)
            what = f"Table {name} was made by another writer ({writer}) while this batch was being planned."
            raise CommitConflict(what, "Run again; only one process should write a table.")
        if table.properties().get(_MADE_AS) != settings:
            what = f"Table {name} was begun with other properties, partitions or order than its settings are by now."
            raise ConfigError(
                what, "If no other run is making it just now, it is empty: drop it in the catalog, and run again."
            )
        return table

    def evolve(
        self, table: LakeTable, plan: SchemaPlan, inside: str | None = None, *, routed: bool = False
    ) -> LakeTable:
        """Rename, widen and add columns; before the rows, because a schema is the table's and not a branch's.

        Each change is a commit of its own. Killed between two, the next run finds what is left to do.

        Args:
            table: the table as it was loaded; what is `pending` is renamed first.
            plan: the changes of its columns.
            inside: the struct column whose fields they are, where they are not the table's own columns.
            routed: whether the mirror's rows have room for their source tables from then on.

        Raises:
            CommitConflict: another process has changed the table.
        """
        later = () if table.pending else table.stored.later
        statements = [merge.name_source_tables(self.catalog, table.name)] if routed and not table.routed else []
        statements += merge.evolve_table(self.catalog, table.name, as_seen(plan, later), inside)
        with translated(table.name):
            # What another process has renamed since would be added again, under its old name.
            lake_commit.check_same(self.iceberg(table.name), table)
            for old, new in table.pending:
                rename_column(self.iceberg(table.name), old, new, inside)
                crash_points.reach("altered", table.name)
            for statement in statements:
                self.spark.sql(statement)
                crash_points.reach("altered", table.name)
        loaded = self.load(table.name)
        if loaded is None or loaded.head != table.head:
            writer = lake_commit.written_by(partial(self.iceberg, table.name), self.branch)
            what = f"Table {table.name} was changed by another writer ({writer}) while its columns were being added."
            raise CommitConflict(what, "Run again; only one process should write a table.")
        return loaded.renaming(later, later=True)

    def add_column(self, name: TableName, column: Column, behind: str) -> None:
        """Add an empty column to a table, behind another one."""
        with translated(name):
            self.spark.sql(merge.add_column(self.catalog, name, column, behind))

    def publish(
        self,
        base: LakeTable,
        marker: Marker,
        stage: Callable[[Stage], None],
        before_visible: Callable[[], None] | None = None,
    ) -> int:
        """Stage on a branch of the base's head, mark it, and move `main` (or the branch of this lake) there.

        Args:
            base: the table as the batch was planned on it.
            marker: goes into the summary of the last snapshot.
            stage: writes to the branch; may write nothing, and say more than the marker does (`Stage.tell`).
            before_visible: called when all that is staged was found right, and just before readers see it.

        Returns:
            The snapshot that `main` now stands at.

        Raises:
            CommitConflict: `main` moved after the base was loaded.
            CommitUnknown: the outcome of the last step cannot be told.
        """
        # A name of its own: two processes that plan the same span must not write to one branch.
        # On a branch beside `main` another prefix: those who publish to `main` must not take it for left over.
        prefix = self.staging if self.branch == MAIN else f"{self.branch}_"
        branch = f"{prefix}{marker.batch}_{self.spark.sparkContext.applicationId}"
        if self.branch == MAIN:
            lake_commit.check_progress(base, marker)
        load = partial(self.iceberg, base.name)
        with lake_outcome.naming(load, self.branch, base.head, branch), translated(base.name):
            table = load()
            lake_commit.check_same(table, base)
            lake_commit.check_clock(table, base.name, self.clock_ms())
            table.manageSnapshots().createBranch(branch, base.head).commit()
            crash_points.reach("branched", base.name)
            staging = Stage(self, base, branch, marker)
            stage(staging)
            if not staging.is_marked:
                lake_commit.mark(self.iceberg(base.name), staging.summary, branch)
            table = load()
            lake_commit.check_same(table, base)
            head = lake_commit.check_staged(table, base, staging)
        crash_points.reach("staged", base.name)
        if before_visible is not None:
            before_visible()
        self._fast_forward(base, branch, head)
        crash_points.reach("published", base.name)
        return head

    def mark(self, name: TableName, marker: Marker, branch: str) -> None:
        """Put a snapshot with a marker and nothing else on a branch."""
        lake_commit.mark(self.iceberg(name), marker.to_summary(), branch)

    def branch_head(self, name: TableName, branch: str) -> int:
        """The snapshot at the head of a branch."""
        return lake_commit.head_of(self.iceberg(name), branch, name)

    def _fast_forward(self, base: LakeTable, branch: str, head: int) -> None:
        load = partial(self.iceberg, base.name)

        def move() -> None:
            with translated(base.name):
                commit = partial(lake_commit.move, load(), self.branch, branch, head)
            lake_outcome.see_through(load, base.name, self.branch, head, commit)

        def may_pass(lost: Exception) -> bool:
            is_of_others = lake_commit.is_as_staged
            return isinstance(lost, CommitConflict) and is_of_others(load, self.branch, base, branch, head, lost)

        COMMIT.call(move, may_pass=may_pass)

    def _drop_left_over_branches(self, table: Any) -> None:  # noqa: ANN401 - a Java object
        prefix = BRANCH_PREFIX if self.branch == MAIN else f"{self.branch}_"
        left_over = [name for name in table.refs() if name.startswith(prefix)]
        if left_over:
            update = table.manageSnapshots()
            for name in left_over:
                update = update.removeBranch(name)
            update.commit()
            table.refresh()
