"""An Iceberg catalog in memory: tables with snapshots, branches and tags, and what goes wrong with commits to them.

Public, as `testing`, which has it under its own name; `testing.lake` puts the real lake on top of it. A commit swaps a
table's metadata if nobody else did; a plan of faults says which one is refused, lost, late, or the last of its process.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from py4j.protocol import Py4JJavaError

from cdc_materializer.testing.clock import FixedClock
from cdc_materializer.testing.faults import NO_ANSWER, Fault, FaultPlan, Killed

#: The branch that readers see.
MAIN = "main"
#: A row; its first item is what it is deleted by.
Row: TypeAlias = tuple[Any, ...]


class JavaError(Py4JJavaError):  # type: ignore[misc]  # py4j has no types
    """What Java throws: a chain of classes, outermost first, with their packages where these matter."""

    def __init__(self, *classes: str) -> None:
        """Make the chain of throwables."""
        Exception.__init__(self, " < ".join(classes))
        self.java_exception: Any = None
        for name in reversed(classes):
            self.java_exception = _Throwable(name, self.java_exception)

    def __str__(self) -> str:
        """Say the classes; there is no Java to ask for more."""
        return str(self.args[0])


@dataclass(frozen=True)
class _Throwable:
    name: str
    cause: _Throwable | None

    def getClass(self) -> _Throwable:  # noqa: N802 - Java's name
        return self

    def getName(self) -> str:  # noqa: N802
        return self.name

    def getSimpleName(self) -> str:  # noqa: N802
        return self.name.rpartition(".")[2]

    def getCause(self) -> _Throwable | None:  # noqa: N802
        return self.cause


class JavaMap(dict[str, Any]):
    """A map of Java's, as Py4J shows it."""

    def containsKey(self, key: str) -> bool:  # noqa: N802 - Java's name
        """Whether it has a key."""
        return key in self


class _Manifest:
    def hasAddedFiles(self) -> bool:  # noqa: N802 - Java's name
        return True

    hasExistingFiles = hasAddedFiles  # noqa: N815


@dataclass(frozen=True)
class MemorySnapshot:
    """A state of a table."""

    number: int
    parent: int | None
    told: Mapping[str, str]
    rows: tuple[Row, ...]
    #: When it was made, in milliseconds.
    at: int

    def snapshotId(self) -> int:  # noqa: N802
        """Its number."""
        return self.number

    def parentId(self) -> int | None:  # noqa: N802
        """The number of the state that it was made from."""
        return self.parent

    def sequenceNumber(self) -> int:  # noqa: N802
        """Its number: those that are made later have higher ones."""
        return self.number

    def timestampMillis(self) -> int:  # noqa: N802
        """When it was made."""
        return self.at

    def dataManifests(self, _io: object) -> list[_Manifest]:  # noqa: N802
        """One for each row."""
        return [_Manifest()] * len(self.rows)

    def schemaId(self) -> None:  # noqa: N802
        """The number of the columns that it was written with: not kept."""

    def operation(self) -> str | None:
        """Iceberg's word for what was done."""
        return self.told.get("operation")

    def summary(self) -> JavaMap:
        """What its commit says of itself."""
        return JavaMap(self.told)


@dataclass(frozen=True)
class Metadata:
    """What the catalog keeps of a table.

    Attributes:
        uuid: its identity.
        properties: its properties.
        snapshots: by number.
        refs: the numbers that branches and tags point to.
        version: goes up with each commit.
        schema_id: the number of its columns.
        spec_id: the number of its partitions.
    """

    uuid: str
    properties: Mapping[str, str]
    snapshots: Mapping[int, MemorySnapshot] = field(default_factory=dict)
    refs: Mapping[str, int] = field(default_factory=dict)
    version: int = 0
    schema_id: int = 0
    spec_id: int = 0

    def line(self, ref: str = MAIN) -> Iterator[MemorySnapshot]:
        """The state that a branch or tag points to and those before it, newest first, as far as they are kept."""
        number = self.refs.get(ref)
        while number is not None and number in self.snapshots:
            yield self.snapshots[number]
            number = self.snapshots[number].parent

    def with_snapshot(
        self, told: Mapping[str, str], rows: tuple[Row, ...], ref: str, number: int, at: int | None = None
    ) -> Metadata:
        """Put a state on a branch; one that is not there begins at `main`, and its totals at zero, as Iceberg's.

        Without a date its number is its date.
        """
        parent = self.refs.get(ref, self.refs.get(MAIN))
        before = self.snapshots.get(parent) if parent is not None else None
        change = len(rows) - (len(before.rows) if before is not None else 0)
        counted = {"added-records" if change > 0 else "deleted-records": str(abs(change))}
        counted |= {"deleted-data-files": "1"} if change < 0 else {}
        total = (int(before.told.get("total-records", "0")) if before is not None and ref in self.refs else 0) + change
        counted |= {"total-records": str(total)} if total >= 0 else {}
        made = MemorySnapshot(number, parent, {**counted, **told}, rows, number if at is None else at)
        return replace(
            self, snapshots={**self.snapshots, number: made}, refs={**self.refs, ref: number}, version=self.version + 1
        )


class MemoryCatalog:
    """Tables by their quoted names, and what goes wrong with commits to them."""

    def __init__(self, clock: FixedClock | None = None) -> None:
        """Begin without tables and faults; commits are dated by the clock, or else by their own numbers."""
        self._clock = clock
        self.tables: dict[str, Metadata] = {}
        #: Asked before each commit for what is to become of it; may do anything else meanwhile, such as let another
        #: writer work. `follow` sets it by a plan.
        self.fault: Callable[[str], Fault | None] = lambda _path: None
        #: Told after each commit that happened.
        self.happened: Callable[[str], None] = lambda _path: None
        #: Whether nobody answers a question either.
        self.is_silent = False
        #: What the client throws when nobody answers a commit: classes, outermost first.
        self.no_answer: tuple[str, ...] = NO_ANSWER
        self._late: list[tuple[str, Metadata, Metadata]] = []
        self._numbers = itertools.count(1)

    def follow(self, plan: FaultPlan) -> None:
        """Let the commits to come go as a plan says, the next one being its first.

        What was planned before is over, and whoever was silent answers: an empty plan lets all go well.
        """
        numbers, self.is_silent, self.no_answer = itertools.count(1), False, plan.no_answer

        def fault(path: str) -> Fault | None:
            if plan.table not in (None, path):
                return None
            found = plan.faults.get(next(numbers))
            self.is_silent |= plan.falls_silent and found is not None
            return found

        self.fault = fault

    def clock_ms(self) -> int:
        """The time by which commits are dated: the clock's, or how many there were."""
        if self._clock is not None:
            return self._clock.ms()
        return max((number for table in self.tables.values() for number in table.snapshots), default=0)

    def number(self) -> int:
        """A number that was not used yet."""
        return next(self._numbers)

    def grown(self, base: Metadata, told: Mapping[str, str], rows: tuple[Row, ...], ref: str = MAIN) -> Metadata:
        """A table with one more snapshot, dated now; nothing is committed."""
        number = self.number()
        return base.with_snapshot(told, rows, ref, number, None if self._clock is None else self._clock.ms())

    def load(self, path: str) -> Metadata:
        """A table's metadata as it is now."""
        if self.is_silent:
            raise JavaError("ServiceFailureException", "ConnectException")
        if path not in self.tables:
            raise JavaError("NoSuchTableException")
        return self.tables[path]

    def commit(self, path: str, base: Metadata, updated: Metadata) -> None:
        """Put new metadata in the place of the old, if that is still what it was made from; or what a fault says.

        Raises:
            JavaError: as Iceberg's client throws it.
            Killed: the process is to end here.
        """
        fault = self.fault(path)
        if fault == "killed":
            raise Killed
        if fault == "refused":
            raise JavaError("ServiceUnavailableException")
        if fault == "late":
            self._late.append((path, base, updated))
        if fault in {"late", "lost"}:
            raise JavaError(*self.no_answer)
        found = self.tables.get(path)
        if found is None or (found.uuid, found.version) != (base.uuid, base.version):
            raise JavaError("CommitFailedException")
        self.tables[path] = updated
        self.happened(path)
        if fault == "killed after":
            raise Killed
        if fault == "unanswered":
            raise JavaError(*self.no_answer)
        if fault == "contradicted":
            raise JavaError("CommitFailedException")

    def deliver(self) -> None:
        """Let late commits arrive, as at a REST catalog: if the references that they set stand where they stood."""
        late, self._late = self._late, []
        for path, base, updated in late:
            now = self.tables.get(path)
            changed = {ref: at for ref, at in updated.refs.items() if base.refs.get(ref) != at}
            if now is None or now.uuid != base.uuid or any(now.refs.get(ref) != base.refs.get(ref) for ref in changed):
                continue
            made = {number: one for number, one in updated.snapshots.items() if number not in base.snapshots}
            snapshots = {**now.snapshots, **made}
            refs = {ref: at for ref, at in now.refs.items() if ref in updated.refs or ref not in base.refs}
            if all(at in snapshots for at in changed.values()):
                self.tables[path] = replace(now, snapshots=snapshots, refs=refs | changed, version=now.version + 1)
                self.happened(path)

    # --- other programs
    # -----------------------------------------------------------------------------------------------

    def compact(self, path: str) -> None:
        """Write the same rows again, in a snapshot that says nothing of ours."""
        now = self.tables[path]
        rows = next(now.line()).rows
        self.tables[path] = self.grown(now, {"operation": "replace"}, rows)

    def expire(self, path: str, *, tidy: bool = False) -> None:
        """Remove every snapshot that no branch and no tag points to.

        With `tidy` those that are left do not name them as their parents any more, as PyIceberg does it.
        """
        now = self.tables[path]
        kept = {number: one for number, one in now.snapshots.items() if number in now.refs.values()}
        if tidy:
            kept = {n: one if one.parent in kept else replace(one, parent=None) for n, one in kept.items()}
        self.tables[path] = replace(now, snapshots=kept, version=now.version + 1)

    def rewrite(self, path: str, rows: Iterable[Row]) -> None:
        """Replace all rows."""
        told = {"operation": "overwrite", "engine-name": "other", "added-records": "1"}
        self.tables[path] = self.grown(self.tables[path], told, tuple(rows))

    def replace(self, path: str, rows: Iterable[Row] | None) -> None:
        """Make the table anew, as CREATE OR REPLACE does: readers see these rows, and nothing stands before them.

        Without rows there is no state at all. Tags stay.
        """
        now = self.tables[path]
        emptied = replace(now, refs={ref: at for ref, at in now.refs.items() if ref != MAIN}, version=now.version + 1)
        told = {"operation": "append", "engine-name": "other"}
        self.tables[path] = emptied if rows is None else emptied.with_snapshot(told, tuple(rows), MAIN, self.number())

    def alter(self, path: str) -> None:
        """Change the columns."""
        now = self.tables[path]
        self.tables[path] = replace(now, schema_id=now.schema_id + 1, version=now.version + 1)

    def partition(self, path: str) -> None:
        """Change the partitions."""
        now = self.tables[path]
        self.tables[path] = replace(now, spec_id=now.spec_id + 1, version=now.version + 1)
