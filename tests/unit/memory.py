"""The lake in memory, as the contract of lakes handles one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.merge import table_path
from cdc_materializer.names import TableName
from cdc_materializer.testing import MemoryCatalog, MemoryRows, memory_lake

NAME = TableName.parse("shop.t")
PATH = table_path("lake", NAME)
#: Which commit of a batch moves `main`; those before it make its branch and append to that.
PUBLISHES = 3


class MemoryBench:
    """A catalog in memory with one table, and what other programs do to it."""

    def __init__(self) -> None:
        self.catalog = MemoryCatalog()
        self.lake: Lake = memory_lake(self.catalog)

    def process(self) -> Lake:
        """A lake as another process has it that had loaded the table before."""
        return replace(memory_lake(self.catalog, "app-2"), read_only=True)

    def name(self) -> TableName:
        """The name of the table."""
        return NAME

    def frame(self, rows: Sequence[tuple[str, str]]) -> Any:  # noqa: ANN401 - stands for a DataFrame
        """What a stage appends."""
        return MemoryRows(self.lake, tuple(rows))

    def rows(self, table: LakeTable) -> list[str]:
        """The keys that a table has."""
        found: Any = self.lake.rows(table)
        return sorted(row[0] for row in found)

    def refs(self) -> set[str]:
        """The branches and tags of the table."""
        return set(self.catalog.tables[PATH].refs)

    def insert(self, key: str) -> None:
        """Another program adds a row."""
        self.catalog.rewrite(PATH, [*next(self.catalog.tables[PATH].line()).rows, (key, "other")])

    def branch(self, name: str) -> None:
        """Someone makes a branch."""
        now = self.catalog.tables[PATH]
        self.catalog.tables[PATH] = replace(now, refs={**now.refs, name: now.refs["main"]}, version=now.version + 1)

    def expire(self) -> None:
        """Another program removes every snapshot that nothing points to."""
        self.catalog.expire(PATH)

    def alter(self) -> None:
        """Another program changes the columns."""
        self.catalog.alter(PATH)

    def partition(self) -> None:
        """Another program changes the partitions."""
        self.catalog.partition(PATH)

    def drop(self) -> None:
        """Another program drops the table."""
        del self.catalog.tables[PATH]

    def replace(self, rows: bool) -> None:  # noqa: FBT001
        """Another program makes the table anew under its name."""
        self.catalog.replace(PATH, [("other", "")] if rows else None)

    def make(self) -> None:
        """Another tool makes the table, with a row."""
        self.lake.spark.sql(f"CREATE TABLE {PATH} (key string) USING iceberg TBLPROPERTIES ()")
        self.catalog.rewrite(PATH, [("other", "")])


def publishing(bench: MemoryBench, then: Callable[[], str | None]) -> None:
    """Let something happen at the commit that moves `main`."""
    left = [PUBLISHES]

    def fault(_path: str) -> Any:  # noqa: ANN401 - a Fault
        left[0] -= 1
        return then() if left[0] == 0 else None

    bench.catalog.fault = fault
