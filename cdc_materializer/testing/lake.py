"""The real lake over a catalog in memory, for tests of what happens when commits go wrong.

Public, as `testing`, which has it under its own name. `memory_lake` gives `lake.Lake` itself, which loads, stages,
publishes and recovers as it does in production; only what it asks of Spark and of Iceberg's Java is answered from
`testing.catalog`. Rows are tuples whose first item is their key.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_materializer.lake.lake import MAIN, Lake, LakeTable
from cdc_materializer.merge import branch_path, table_path
from cdc_materializer.names import TableName
from cdc_materializer.testing.catalog import JavaError, JavaMap, MemoryCatalog, MemorySnapshot, Metadata, Row
from cdc_materializer.testing.clock import FixedClock
from cdc_materializer.testing.faults import Killed

_path = functools.cache(table_path)


class MemoryLake(Lake):
    """The real lake over a catalog in memory."""

    def iceberg(self, name: TableName) -> Any:  # noqa: ANN401 - stands for a Java object
        """The table as the catalog has it now."""
        session: Any = self.spark
        return _Table(session.tables, _path(self.catalog, name))

    def clock_ms(self) -> int:
        """The time of the process's own clock; without one the catalog's."""
        session: Any = self.spark
        return session.clock.ms() if session.clock is not None else int(session.tables.clock_ms())

    def rows(self, table: LakeTable) -> Any:  # noqa: ANN401 - rows, not a DataFrame
        """The rows of a table as it was when it was loaded."""
        session: Any = self.spark
        found = session.tables.load(_path(self.catalog, table.name))
        return found.snapshots[table.head].rows if table.head is not None else ()


def memory_lake(
    catalog: MemoryCatalog, application: str = "app-1", branch: str = MAIN, clock: FixedClock | None = None
) -> MemoryLake:
    """A lake over a catalog in memory, for one process.

    Args:
        catalog: the catalog; several lakes on one are several processes.
        application: the process's name.
        branch: the branch that is read and published to.
        clock: the process's own, where it goes by another one than the catalog.
    """
    session: Any = _Session(catalog, application, clock)
    return MemoryLake(session, "lake", branch=branch)


@dataclass(frozen=True)
class MemoryRows:
    """What `Stage.append` takes in place of a DataFrame."""

    lake: Lake
    rows: tuple[Row, ...]

    def writeTo(self, path: str) -> _Writer:  # noqa: N802 - Spark's name
        """Begin to append to a branch."""
        session: Any = self.lake.spark
        return _Writer(session.tables, path, self.rows)


def delete_statement(lake: Lake, table: TableName, branch: str, keys: Iterable[Any]) -> str:
    """A statement that `Stage.execute` takes: remove the rows of some keys."""
    return f"REMOVE FROM {branch_path(lake.catalog, table, branch)} KEYS {json.dumps(list(keys))}"


# --- what Lake asks of Spark and of Iceberg's Java
# ---------------------------------------------------------------------


class _Text(str):
    __slots__ = ()

    def toString(self) -> str:  # noqa: N802
        return str(self)


class _Session:
    """As much of a Spark session as `Lake` uses."""

    def __init__(self, tables: MemoryCatalog, application: str, clock: FixedClock | None) -> None:
        self.tables, self.applicationId, self._conf = tables, application, dict[str, str]()
        self.clock = clock

    @property
    def catalog(self) -> _Session:
        return self

    @property
    def sparkContext(self) -> _Session:  # noqa: N802
        return self

    @property
    def conf(self) -> _Session:
        return self

    def set(self, name: str, value: str) -> None:
        self._conf[name] = value

    def unset(self, name: str) -> None:
        self._conf.pop(name)

    def table(self, _path: str) -> _Session:
        return self

    @property
    def schema(self) -> _Session:
        return self

    @property
    def fields(self) -> tuple[()]:
        return ()

    def tableExists(self, path: str) -> bool:  # noqa: N802
        if self.tables.is_silent:
            self.tables.load(path)
        return path in self.tables.tables

    def sql(self, text: str, args: Mapping[str, Any] | None = None) -> None:
        del args
        created = re.match(r"CREATE TABLE (\S+) .*TBLPROPERTIES \((.*)\)", text)
        deleted = re.match(r"REMOVE FROM (\S+) KEYS (.*)", text)
        if created:
            self._create(created[1], dict(re.findall(r"'([^']*)'='([^']*)'", created[2])))
        elif deleted:
            table, branch = _parts(deleted[1])
            keys = {_hashable(key) for key in json.loads(deleted[2])}
            prefix = "spark.sql.iceberg.snapshot-property."
            told = {name.removeprefix(prefix): value for name, value in self._conf.items() if name.startswith(prefix)}
            _write(self.tables, table, branch, told, lambda rows: tuple(r for r in rows if _hashable(r[0]) not in keys))

    def _create(self, path: str, properties: Mapping[str, str]) -> None:
        fault = self.tables.fault(path)
        if fault == "killed":
            raise Killed
        if path in self.tables.tables:
            raise JavaError("AlreadyExistsException")
        self.tables.tables[path] = Metadata(f"uuid-{self.tables.number()}", properties)
        if fault == "killed after":
            raise Killed


class _Writer:
    def __init__(self, tables: MemoryCatalog, path: str, rows: tuple[Row, ...]) -> None:
        self._tables, self._path, self._rows, self._told = tables, path, rows, dict[str, str]()

    def option(self, name: str, value: str) -> _Writer:
        if name.startswith("snapshot-property."):
            self._told[name.removeprefix("snapshot-property.")] = value
        return self

    def append(self) -> None:
        told = {**self._told, "operation": "append", "added-records": str(len(self._rows))}
        _write(self._tables, *_parts(self._path), told, lambda rows: (*rows, *self._rows))


def _parts(path: str) -> tuple[str, str]:
    table, _, branch = path.rpartition(".")
    return table, branch.strip("`").removeprefix("branch_")


def _hashable(key: object) -> object:
    return tuple(key) if isinstance(key, list) else key


def _write(
    tables: MemoryCatalog,
    path: str,
    branch: str,
    told: Mapping[str, str],
    change: Callable[[tuple[Row, ...]], tuple[Row, ...]],
) -> None:
    base = tables.load(path)
    before = next(base.line(branch if branch in base.refs else MAIN), None)
    rows = change(before.rows if before is not None else ())
    tables.commit(path, base, tables.grown(base, told, rows, branch))


@dataclass(frozen=True)
class _Ref:
    number: int

    def snapshotId(self) -> int:  # noqa: N802
        return self.number


class _Table:
    """As much of Iceberg's Table as `Lake` uses; it is as it was when it was loaded."""

    def __init__(self, tables: MemoryCatalog, path: str) -> None:
        self.tables, self.path = tables, path
        self.metadata = tables.load(path)

    def refresh(self) -> None:
        self.metadata = self.tables.load(self.path)

    def operations(self) -> _Table:
        return self

    def current(self) -> _Table:
        return self

    def lastUpdatedMillis(self) -> int:  # noqa: N802
        return max((one.at for one in self.metadata.snapshots.values()), default=0)

    def io(self) -> _Table:
        return self

    def uuid(self) -> _Text:
        return _Text(self.metadata.uuid)

    def properties(self) -> JavaMap:
        return JavaMap(self.metadata.properties)

    def refs(self) -> JavaMap:
        return JavaMap({name: _Ref(number) for name, number in self.metadata.refs.items()})

    def snapshot(self, which: str | int) -> MemorySnapshot | None:
        number = self.metadata.refs.get(which) if isinstance(which, str) else which
        return self.metadata.snapshots.get(number) if number is not None else None

    def currentSnapshot(self) -> MemorySnapshot | None:  # noqa: N802
        return self.snapshot(MAIN)

    def schema(self) -> _Table:
        return self

    def spec(self) -> _Table:
        return self

    def columns(self) -> tuple[()]:
        return ()

    def identifierFieldNames(self) -> tuple[()]:  # noqa: N802
        return ()

    def findField(self, _name: str) -> None:  # noqa: N802
        return None

    def schemaId(self) -> int:  # noqa: N802
        return self.metadata.schema_id

    def specId(self) -> int:  # noqa: N802
        return self.metadata.spec_id

    def manageSnapshots(self) -> _References:  # noqa: N802
        return _References(self)

    def updateProperties(self) -> _Properties:  # noqa: N802
        return _Properties(self)

    def newFastAppend(self) -> _Append:  # noqa: N802
        return _Append(self)

    def schemas(self) -> _EveryNumber:
        return _EveryNumber(self)


class _EveryNumber:
    """A map of Java's that has one thing under any number: columns are not kept."""

    def __init__(self, thing: _Table) -> None:
        self._thing = thing

    def get(self, _number: int | None) -> _Table:
        return self._thing


class _References:
    """Iceberg's ManageSnapshots: checked against the table as it was loaded, committed as one."""

    def __init__(self, table: _Table) -> None:
        self._table, self._base, self._refs = table, table.metadata, dict(table.metadata.refs)

    def createBranch(self, name: str, number: int) -> _References:  # noqa: N802
        _require(name not in self._refs and number in self._base.snapshots)
        self._refs[name] = number
        return self

    createTag = createBranch  # noqa: N815

    def replaceTag(self, name: str, number: int) -> _References:  # noqa: N802
        _require(name in self._refs and number in self._base.snapshots)
        self._refs[name] = number
        return self

    def replaceBranch(self, name: str, other: str) -> _References:  # noqa: N802
        _require(name in self._refs and other in self._refs)
        self._refs[name] = self._refs[other]
        return self

    def fastForwardBranch(self, name: str, other: str) -> _References:  # noqa: N802
        _require(name in self._refs and other in self._refs)
        _require(self._refs[name] in {one.number for one in self._base.line(other)})
        return self.replaceBranch(name, other)

    def removeBranch(self, name: str) -> _References:  # noqa: N802
        _require(name in self._refs)
        del self._refs[name]
        return self

    removeTag = removeBranch  # noqa: N815

    def setMaxRefAgeMs(self, name: str, _age: int) -> _References:  # noqa: N802
        _require(name in self._refs)
        return self

    def commit(self) -> None:
        updated = replace(self._base, refs=self._refs, version=self._base.version + 1)
        self._table.tables.commit(self._table.path, self._base, updated)


def _require(condition: bool) -> None:  # noqa: FBT001 - it is what is required
    if not condition:
        raise JavaError("IllegalArgumentException")


class _Properties:
    """Iceberg's UpdateProperties."""

    def __init__(self, table: _Table) -> None:
        self._table, self._told = table, dict[str, str]()

    def set(self, name: str, value: str) -> _Properties:
        self._told[name] = value
        return self

    def commit(self) -> None:
        base = self._table.metadata
        updated = replace(base, properties={**base.properties, **self._told}, version=base.version + 1)
        self._table.tables.commit(self._table.path, base, updated)


class _Append:
    """Iceberg's FastAppend without files: a marked snapshot."""

    def __init__(self, table: _Table) -> None:
        self._table, self._branch, self._told = table, MAIN, {"operation": "append"}

    def toBranch(self, branch: str) -> _Append:  # noqa: N802
        self._branch = branch
        return self

    def set(self, name: str, value: str) -> _Append:
        self._told[name] = value
        return self

    def commit(self) -> None:
        base = self._table.metadata
        before = next(base.line(self._branch if self._branch in base.refs else MAIN), None)
        rows = before.rows if before is not None else ()
        updated = self._table.tables.grown(base, self._told, rows, self._branch)
        self._table.tables.commit(self._table.path, base, updated)
