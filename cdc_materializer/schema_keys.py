"""What identifies a table's rows, and whether a table can have its columns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cdc_materializer.errors import SchemaRefused
from cdc_materializer.names import check_columns, shown
from cdc_materializer.schema_types import entry_of, field_list, item_of

if TYPE_CHECKING:
    from cdc_materializer.schema import TableSchema


def key_of(current: TableSchema | None, writers: Sequence[TableSchema], names: Sequence[str]) -> tuple[str, ...]:
    """The key columns in the order of the columns, whatever order a writer has them in: a key has one text.

    Args:
        current: the table; None where it is yet to be made.
        writers: what its writers say of it.
        names: its columns.

    Raises:
        SchemaRefused: one of them says another key.
    """
    keys = [schema.key for schema in (*([current] if current else []), *writers) if schema.key]
    for key in keys:
        if set(key) != set(keys[0]):
            what = f"The rows' key was ({', '.join(keys[0])}) and is ({', '.join(key)}) in later messages."
            do = "Rows cannot change their identity in place: name the key with `key:`, or mirror under another name."
            raise SchemaRefused(what, do)
    return tuple(name for name in names if keys and name in keys[0])


def check_table(schema: TableSchema) -> None:
    """Refuse columns that no table can have, and a key by which rows could not be told apart.

    Raises:
        SchemaRefused: says which.
    """
    names = [column.name for column in schema.columns]
    check_columns(names, paths_inside(schema))
    for name in schema.key:
        ddl = schema.types.get(name, "")
        if ddl in {"float", "double"}:
            # 0.1 as float and as double are different keys, and NaN equals nothing: rows would double or get lost.
            what = f"Key column `{shown(name)}` is a floating-point number, which cannot identify a row exactly."
            raise SchemaRefused(what, "Name other key columns with `key:` in pipeline.yaml.")
        if "<" in ddl:
            kind = ddl.partition("<")[0]
            what = f"Key column `{shown(name)}` is of type {kind}, and Iceberg's identifier fields have no parts."
            raise SchemaRefused(what, "Name other key columns with `key:` in pipeline.yaml.")


def paths_inside(schema: TableSchema) -> list[tuple[str, ...]]:
    """The paths of all that stands inside of a table's columns."""
    return [path for column in schema.columns for path in _inside((column.name,), column.type)]


def _inside(path: tuple[str, ...], ddl: str) -> Iterator[tuple[str, ...]]:
    """The paths of all that stands inside of a column, as Iceberg spells them."""
    item, entry = item_of(ddl), entry_of(ddl)
    parts = field_list(ddl) or []
    parts += [("element", item)] if item is not None else []
    parts += [("key", entry[0]), ("value", entry[1])] if entry is not None else []
    for name, part in parts:
        yield (*path, name)
        yield from _inside((*path, name), part)
