"""The branch that a batch is staged on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdc_materializer import merge
from cdc_materializer.lake import commit as lake_commit
from cdc_materializer.marker.marker import PLANNED_ON, Marker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.lake.lake import Lake, LakeTable

_SESSION_PROPERTY = "spark.sql.iceberg.snapshot-property."


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
    #: The snapshot that the append has made, where it is not the newest one.
    appended: int | None = None
    #: How many rows the append has to write; None where that is not known.
    rows_expected: int | None = None
    #: How many rows the snapshots of some of the steps may take away.
    rows_max: dict[int, int] = field(default_factory=dict)
    #: The snapshot with which it began (`begin`), where that is not the base's head.
    beginning: int | None = None

    @property
    def summary(self) -> dict[str, str]:
        """What the batch's last snapshot is to say: its marker, and what the batch was planned on."""
        below = self.base.head if self.beginning is None else self.beginning
        planned = {} if below is None else {PLANNED_ON: str(below)}
        return {**self.marker.to_summary(), **planned}

    def append(self, rows: DataFrame, expected: int | None = None) -> None:
        """Append rows; the marker goes with them, so this is the last write of a batch, but for `tell`.

        Args:
            rows: what to append.
            expected: how many they are, where that is known: nothing is published if Iceberg counts others.
        """
        self.rows_expected = expected
        path = merge.branch_path(self.lake.catalog, self.base.name, self.branch)
        writer = (
            self.base.stored.written(rows)
            .writeTo(path)
            .option("check-nullability", "false")
            .option("fanout-enabled", "true")
        )
        for name, value in self.summary.items():
            writer = writer.option(f"snapshot-property.{name}", value)
        writer.append()
        self.is_marked = True

    def take(self, files: Sequence[Any]) -> None:
        """Append data files that another branch of the table has; the marker goes with them, as with rows.

        Args:
            files: Iceberg's; their rows are all that comes.
        """
        self.rows_expected = sum(int(file.recordCount()) for file in files)
        commit = self.lake.iceberg(self.base.name).newFastAppend().toBranch(self.branch)
        for file in files:
            commit = commit.appendFile(file)
        for name, value in self.summary.items():
            commit = commit.set(name, value)
        commit.commit()
        self.is_marked = True

    def tell(self, marker: Marker) -> None:
        """Give the batch another marker: what it says was found in the very rows that are staged."""
        if self.is_marked:
            self.appended = self.lake.branch_head(self.base.name, self.branch)
            self.steps.append(self.appended)
        self.marker, self.is_marked = marker, False

    def begin(self, marker: Marker) -> None:
        """Let what is staged so far be a beginning that is marked as it is, and what is staged next go on from there.

        Both become visible together. No sum of rows is checked across the two.

        Args:
            marker: of what is staged next.
        """
        if not self.is_marked:
            lake_commit.mark(self.lake.iceberg(self.base.name), self.summary, self.branch)
        self.beginning = self.lake.branch_head(self.base.name, self.branch)
        self.steps.append(self.beginning)
        self.marker, self.is_marked = marker, False

    def rows(self) -> DataFrame:
        """What is staged: the rows that readers will see."""
        path = merge.branch_path(self.lake.catalog, self.base.name, self.branch)
        return self.base.stored.staged(self.lake.spark.table(path))

    def appended_rows(self) -> DataFrame:
        """The rows of the newest snapshot alone, read from the files that it has appended."""
        before = self.steps[-1] if self.steps else self.base.head
        ends = {"start-snapshot-id": before, "end-snapshot-id": self.lake.branch_head(self.base.name, self.branch)}
        reader = self.lake.spark.read.format("iceberg").options(**{name: str(end) for name, end in ends.items()})
        return self.base.stored.staged(reader.load(merge.table_path(self.lake.catalog, self.base.name)))

    def name(self, view: str, rows: DataFrame) -> None:
        """Give rows the name by which a MERGE of `merge` reads them.

        They are materialised for a table whose files it writes anew. Spark reads them twice there, first to find the
        files, and 4.1 cannot plan that from a view that goes back to tables of a catalog (SPARK-54873, mended in 4.2).
        """
        (rows.localCheckpoint() if self.base.rewritten else rows).createOrReplaceTempView(view)

    def execute(
        self, statement: str, arguments: Mapping[str, Any] | None = None, *, rows_max: int | None = None
    ) -> None:
        """Run one statement of `merge`; its snapshot carries the batch id, so that it is known for ours.

        Args:
            statement: the statement.
            arguments: the values of its parameters, by name.
            rows_max: how many rows it may take away, where that is known: nothing is published if it takes more.
        """
        name = f"{_SESSION_PROPERTY}cdcm.batch"
        self.lake.spark.conf.set(name, self.marker.batch)
        try:
            self.lake.spark.sql(statement, args=dict(arguments or {}))
        finally:
            self.lake.spark.conf.unset(name)
        head = self.lake.branch_head(self.base.name, self.branch)
        if rows_max is not None and head not in {self.base.head, *self.steps}:
            self.rows_max[head] = rows_max
        self.steps.append(head)
