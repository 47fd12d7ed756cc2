"""The columns that a table stores, and those that it is read and written by.

They are the same but where columns were renamed since a snapshot, or are to be, and while a mirror is rebuilt with
other types (`replay`): a schema is the table's and not a branch's, so a column of another type stands beside the one
that readers see, under a name of ours, until it takes its place, and one that is renamed has its old name until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql import functions as F

from cdc_materializer.decode.fit import ddl_of
from cdc_materializer.lake.metadata import columns_by_id
from cdc_materializer.merge import CDC
from cdc_materializer.names import same_name
from cdc_materializer.schema.schema import Column, SchemaPlan, TableSchema, renamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Before the name of a column that is to take the place of the one of that name.
REBUILT_PREFIX = "__cdc_rebuilt_"
#: Table property: ids of the fields that were rebuilt with another type, separated by commas (`Column.retyped`).
RETYPED = "cdcm.retyped"


@dataclass(frozen=True)
class Stored:
    """How a table stores its columns, where that is not by their names in its schema.

    Attributes:
        then: the name that a column has in the snapshot that was loaded, by its name in the schema.
        gone: the columns of that snapshot that the table has no more.
        now: the name under which a column's values are written, by its name in the schema.
        unused: the columns that are written as NULL, with their types.
    """

    then: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    now: Mapping[str, str] = field(default_factory=dict)
    unused: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_renamed(self) -> bool:
        """Whether columns have other names by now than in the snapshot; rebuilt ones had a name of ours."""
        return any(old.removeprefix(REBUILT_PREFIX) != name for name, old in self.then.items())

    @property
    def rebuilt(self) -> tuple[str, ...]:
        """The columns that are written with another type than readers see."""
        return tuple(name for name, stored in self.now.items() if stored.startswith(REBUILT_PREFIX))

    @property
    def later(self) -> tuple[tuple[str, str], ...]:
        """The columns that readers see under other names, as long as they do: that name, and the schema's."""
        seen = {name: stored.removeprefix(REBUILT_PREFIX) for name, stored in self.now.items()}
        return tuple((old, name) for name, old in seen.items() if old != name)

    def renaming(self, pairs: Sequence[tuple[str, str]]) -> Stored:
        """The same with other names for columns in the schema, from old to new, which the table has yet to get."""
        names = dict(pairs)
        then, now = ({name: old for name, old in of.items() if name not in names} for of in (self.then, self.now))
        then |= {new: self.then.get(old, old) for old, new in pairs}
        return replace(self, then=then, now=now | {new: self.now.get(old, old) for old, new in pairs})

    def told(self, snapshot: DataFrame) -> DataFrame:
        """The rows of a snapshot under the schema's names."""
        others = (*self.gone, *self.unused)
        found = snapshot.drop(*others) if others else snapshot
        names = {old: name for name, old in self.then.items()}
        return found.withColumnsRenamed(names) if names else found

    def staged(self, branch: DataFrame) -> DataFrame:
        """The rows of a branch that was just written to, under the schema's names."""
        return replace(self, then=self.now, gone=()).told(branch)

    def written(self, rows: DataFrame) -> DataFrame:
        """Rows as they are written: each value in its column, NULL in those that are not used."""
        if not (self.now or self.unused):
            return rows
        named = rows.withColumnsRenamed(dict(self.now))
        return named.withColumns({name: F.lit(None).cast(ddl) for name, ddl in self.unused.items()})


def columns_of(
    table: Any,  # noqa: ANN401 - Java objects
    snapshot: Any,  # noqa: ANN401
    frame: DataFrame,
    retypes: Mapping[str, str],
) -> tuple[TableSchema, Stored]:
    """A table's columns without ours, and how they are stored.

    Args:
        table: the table in Iceberg's own API.
        snapshot: the one that is read; None where there is none.
        frame: the table as Spark has it.
        retypes: the types that columns get on the branch that is read, by the names that readers see.
    """
    keys = set(table.schema().identifierFieldNames())
    rebuilt = {table.schema().findColumnName(number) for number in _retyped_ids(table)}
    types = {field.name: ddl_of(field.dataType) for field in frame.schema.fields}
    docs = {field.name: field.metadata.get("comment") or None for field in frame.schema.fields}
    names = [name for name in types if name != CDC and not name.startswith(REBUILT_PREFIX)]
    columns = tuple(
        Column(name, retypes.get(name, types[name]), docs[name], retyped=name in rebuilt or name in retypes)
        for name in names
    )
    now = {name: REBUILT_PREFIX + name for name in names if name in retypes}
    left = {name for name in types if name.startswith(REBUILT_PREFIX)} - set(now.values())
    unused = {name: ddl for name, ddl in types.items() if name in now or name in left}
    then, gone = _names_then(table, snapshot, now)
    return TableSchema(columns, tuple(name for name in names if name in keys)), Stored(then, gone, now, unused)


def _names_then(
    table: Any,  # noqa: ANN401 - Java objects
    snapshot: Any,  # noqa: ANN401
    now: Mapping[str, str],
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The names that columns have in a snapshot, by those in the schema, where these are others; and what is gone."""
    ids = {name: number for number, name in columns_by_id(table.schema()).items()}
    number = snapshot.schemaId() if snapshot is not None else None
    is_same = number is None or number == table.schema().schemaId()
    then = table.schema() if is_same else table.schemas().get(number)
    names = columns_by_id(then)
    told = {name: names.get(ids[now.get(name, name)]) for name in ids if not name.startswith(REBUILT_PREFIX)}
    gone = tuple(name for number, name in names.items() if number not in ids.values())
    return {name: old for name, old in told.items() if old is not None and old != name}, gone


def as_seen(plan: SchemaPlan, later: Sequence[tuple[str, str]]) -> SchemaPlan:
    """A plan in the names that readers see, of columns that get others later (`Stored.later`)."""
    names = {new: old for old, new in later}
    changes = [replace(one, path=(names.get(one.path[0], one.path[0]), *one.path[1:])) for one in plan.changes]
    documented = [replace(column, name=names.get(column.name, column.name)) for column in plan.documented]
    target = renamed(plan.target, list(names.items()))
    return replace(plan, target=target, changes=tuple(changes), documented=tuple(documented))


def newer_columns(table: Any, head: int | None) -> set[str]:  # noqa: ANN401 - a Java object
    """The columns that a table has got since a snapshot, whose rows have none of them.

    Args:
        table: the table in Iceberg's own API.
        head: the snapshot's id; None where there is none.
    """
    snapshot = table.snapshot(head) if head is not None else None
    number = snapshot.schemaId() if snapshot is not None else None
    if number is None:
        return set()
    then = columns_by_id(table.schemas().get(number))
    return {name for column, name in columns_by_id(table.schema()).items() if column not in then}


def dropped_columns(table: Any, marked: Any) -> dict[str, str | None]:  # noqa: ANN401 - Java objects
    """The columns that a table's newest marked snapshot has and the table has not, or has under another name by now.

    Also where one of that name came. Fields within columns are told too, as `column.field`.

    Args:
        table: the table in Iceberg's own API.
        marked: the snapshot; None where there is none.

    Returns:
        The name that each has by now, by the one that it had then; None where it is gone.
    """
    if marked is None or marked.schemaId() in (None, table.schema().schemaId()):
        return {}
    known = columns_by_id(table.schema())
    rebuilt = {known[number] for number in _retyped_ids(table) if number in known}
    then = columns_by_id(table.schemas().get(marked.schemaId()))
    names = {name: known.get(number) for number, name in then.items()}
    names = {name: now for name, now in names.items() if name not in rebuilt and not name.startswith(REBUILT_PREFIX)}
    for name, before, after in _nested(table, marked):
        there = {number: place for number, (place, _) in after.items()}
        names |= {f"{name}{place}": _behind(name, there.get(number)) for number, (place, _) in before.items()}
    return {name: now for name, now in names.items() if now is None or not same_name(now, name)}


def _behind(name: str, place: str | None) -> str | None:
    return f"{name}{place}" if place is not None else None


def hashes_otherwise(table: Any, marked: Any) -> bool:  # noqa: ANN401 - Java objects
    """Whether rows of a snapshot are hashed otherwise by now (`digests`): a column has got other parts or letters.

    A value's hash is one of its column's name too, of which everywhere else case is nothing (`dropped_columns`). The
    hash of an array, a map or a struct is one of all its parts, of new ones as NULL. Where parts were taken away that
    is what a ledger has to tell.

    Args:
        table: the table in Iceberg's own API.
        marked: the snapshot.
    """
    if marked.schemaId() in (None, table.schema().schemaId()):
        return False
    then, now = columns_by_id(table.schemas().get(marked.schemaId())), columns_by_id(table.schema())
    if any(now.get(number, name) != name and same_name(now[number], name) for number, name in then.items()):
        return True
    both = [(dict(before.values()), dict(after.values())) for _, before, after in _nested(table, marked)]
    return any(before != after and before.keys() <= after.keys() for before, after in both)


#: The fields inside of a column by their numbers: the place of each, behind the column's name, and its type where it
#: has none inside itself.
_Parts: TypeAlias = dict[int, tuple[str, str]]


def _nested(table: Any, marked: Any) -> Iterator[tuple[str, _Parts, _Parts]]:  # noqa: ANN401 - Java objects
    """Name, parts then and parts now of columns with parts that a snapshot and its table have; not of ours."""
    now = {column.fieldId(): column for column in table.schema().columns() if column.name() != CDC}
    for column in table.schemas().get(marked.schemaId()).columns():
        if column.fieldId() in now and column.type().isNestedType():
            known = now[column.fieldId()]
            yield known.name(), _parts(column.type()), _parts(known.type())


def _parts(kind: Any, above: str = "") -> _Parts:  # noqa: ANN401 - a Java object
    found: _Parts = {}
    for part in kind.fields() if kind.isNestedType() else ():
        place, inside = f"{above}.{part.name()}", part.type()
        found[part.fieldId()] = place, "" if inside.isNestedType() else str(inside)
        found |= _parts(inside, place)
    return found


def _retyped_ids(table: Any) -> list[int]:  # noqa: ANN401 - a Java object
    text = table.properties().get(RETYPED) or ""
    return [int(number) for number in text.split(",") if number.isdecimal()]


def retyped_ids(table: Any, names: Sequence[str]) -> str:  # noqa: ANN401 - a Java object
    """What `RETYPED` says when columns, by the names that they are stored under, were rebuilt as well."""
    numbers = {table.schema().findField(name).fieldId() for name in names}
    return ",".join(str(number) for number in sorted(numbers | set(_retyped_ids(table))))


def is_of_other_columns(table: Any, snapshot: int | None) -> bool:  # noqa: ANN401 - a Java object
    """Whether a snapshot is from before some of the table's columns were rebuilt with another type."""
    schema = table.schemas().get(table.snapshot(snapshot).schemaId())
    then = columns_by_id(schema).keys()
    return not then >= set(_retyped_ids(table))


def drop_left_over(table: Any, wanted: Mapping[str, str], frame: DataFrame) -> list[str]:  # noqa: ANN401 - a Java object
    """Drop the columns of rebuilt values that are not wanted.

    Args:
        table: the table in Iceberg's own API.
        wanted: the names and types of those that are.
        frame: the table as Spark has it.

    Returns:
        The wanted ones that are not there.
    """
    there = {field.name: ddl_of(field.dataType) for field in frame.schema if field.name.startswith(REBUILT_PREFIX)}
    others = [name for name, ddl in there.items() if wanted.get(name) != ddl]
    update = table.updateSchema()
    for name in others:
        update = update.deleteColumn(name)
    if others:
        update.commit()
    return [name for name, ddl in wanted.items() if there.get(name) != ddl]


def rename_column(table: Any, old: str, new: str, inside: str | None = None) -> None:  # noqa: ANN401 - a Java object
    """Rename a column, or a field of the struct column `inside`; its field id stays.

    By Iceberg's own API: to Spark's `ALTER TABLE` a name that differs in case alone is there already.
    """
    table.updateSchema().renameColumn(f"{inside}.{old}" if inside else old, new).commit()
