"""The columns of a mirror, and how they may change.

Pure: a schema is a tuple of names and Spark DDL types (`bigint`, `decimal(12,2)`, `array<string>`), so that a plan can
    be computed, compared and shown without Spark. The rules are those of changelog-semantics §3 ("Widening only") and
    of the Iceberg specification, section "Schema Evolution": int to long, float to double and a larger decimal
    precision are the only type changes that a table can take in place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cdc_materializer.errors import SchemaRefused
from cdc_materializer.names import check_columns

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_WIDER = {("int", "bigint"), ("float", "double")}
_INTEGERS = ("int", "bigint")


@dataclass(frozen=True)
class Column:
    """One column: its name as the source spells it, its Spark DDL type, and the source's comment if there is one."""

    name: str
    type: str
    doc: str | None = None


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table in source order, and the names of those that identify a row."""

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def types(self) -> dict[str, str]:
        """DDL type by column name."""
        return {column.name: column.type for column in self.columns}


@dataclass(frozen=True)
class Misfit:
    """A column that some writers give a type which the table's column cannot take in place."""

    column: str
    table_type: str
    writer_type: str


@dataclass(frozen=True)
class SchemaPlan:
    """What has to change before rows of the given writers can be stored; nothing when `is_empty`."""

    target: TableSchema
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()
    misfits: tuple[Misfit, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the table already is as it has to be."""
        return not (self.added or self.widened)


def decimal_of(ddl: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal DDL type, None for every other type."""
    match = _DECIMAL.fullmatch(ddl)
    return (int(match[1]), int(match[2])) if match else None


def is_widening(old: str, new: str) -> bool:
    """Whether Iceberg can change a column of type `old` to `new` in place without touching a value."""
    if (old, new) in _WIDER:
        return True
    before, after = decimal_of(old), decimal_of(new)
    return before is not None and after is not None and before[1] == after[1] and before[0] < after[0]


def same_kind(one: str, other: str) -> bool:
    """Whether a value of one type may be a value of the other exactly (design §4.5).

    Integers and decimals may, and MySQL's booleans, which come as numbers in a snapshot and as truth values behind it.
    """
    if all(kind in _INTEGERS or decimal_of(kind) for kind in (one, other)):
        return True
    is_truth = "boolean" in (one, other) and (one in _INTEGERS or other in _INTEGERS)
    return is_truth or {one, other} == {"float", "double"}


def plan_schema(current: TableSchema | None, writers: Sequence[TableSchema]) -> SchemaPlan:
    """The schema that holds the current columns and those of every writer, in order of first appearance.

    Args:
        current: the table's columns now, None where the table is yet to be made.
        writers: one schema a writer, in the order in which their first messages stand in the log, so that any cut of
            the log into batches leads to the same types.

    Raises:
        SchemaRefused: two columns differ only in case, a name is reserved, a key column is a floating-point number, or
            the writers' rows have other key columns than each other or than the table.
    """
    columns = {column.name: column for column in (current.columns if current else ())}
    added: dict[str, Column] = {}
    widened: dict[str, Column] = {}
    misfits: dict[tuple[str, str], Misfit] = {}
    for writer in writers:
        for column in writer.columns:
            known = columns.get(column.name)
            if known is None:
                columns[column.name] = added[column.name] = column
            elif is_widening(known.type, column.type):
                wider = Column(known.name, column.type, known.doc)
                columns[column.name] = wider
                (added if column.name in added else widened)[column.name] = wider
            elif known.type != column.type and not is_widening(column.type, known.type):
                misfits[column.name, column.type] = Misfit(column.name, known.type, column.type)
    target = TableSchema(tuple(columns.values()), _key(current, writers, tuple(columns)))
    _check(target)
    return SchemaPlan(target, tuple(added.values()), tuple(widened.values()), tuple(misfits.values()))


def _key(current: TableSchema | None, writers: Sequence[TableSchema], names: Sequence[str]) -> tuple[str, ...]:
    """The key columns in the order of the columns, whatever order a writer has them in: a key has one text."""
    keys = [schema.key for schema in (*([current] if current else []), *writers) if schema.key]
    for key in keys:
        if set(key) != set(keys[0]):
            what = f"The rows' key was ({', '.join(keys[0])}) and is ({', '.join(key)}) in later messages."
            do = "Rows cannot change their identity in place: name the key with `key:`, or mirror under another name."
            raise SchemaRefused(what, do)
    return tuple(name for name in names if keys and name in keys[0])


def _check(schema: TableSchema) -> None:
    check_columns([column.name for column in schema.columns])
    for name in schema.key:
        if schema.types.get(name) in {"float", "double"}:
            # 0.1 as float and as double are different keys, and NaN equals nothing: rows would double or get lost.
            what = f"Key column `{name}` is a floating-point number, which cannot identify a row exactly."
            raise SchemaRefused(what, "Name other key columns with `key:` in pipeline.yaml.")
