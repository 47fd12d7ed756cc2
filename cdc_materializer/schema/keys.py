"""What identifies a table's rows, and whether a table can have its columns. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cdc_materializer.errors import SchemaRefused
from cdc_materializer.names import check_columns, ignoring_case, same_name, shown
from cdc_materializer.schema.types import entry_of, field_list, item_of

if TYPE_CHECKING:
    from cdc_materializer.schema.schema import TableSchema


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
            do = (
                "Rows cannot change their identity in place. If the former key identifies a row all the same, name it"
                " in the table's `key`; else mirror under another `mirror` name, with the later key's columns in `key`."
            )
            twins = {name: known for name in key for known in keys[0] if name != known and same_name(name, known)}
            raise SchemaRefused(what, f"{_told(twins)} {do}" if twins else do)
    return tuple(name for name in names if keys and name in keys[0])


def check_table(schema: TableSchema, current: TableSchema | None, writers: Sequence[TableSchema]) -> None:
    """Refuse columns that no table can have, and a key by which rows could not be told apart.

    Args:
        schema: the columns that it is to have.
        current: the table; None where it is yet to be made.
        writers: what its writers say of it.

    Raises:
        SchemaRefused: says which.
    """
    names = [column.name for column in schema.columns]
    inside = paths_inside(schema)
    same = _same(names)
    if same and not any(_same(writer.types) for writer in writers) and not _are_same_inside(inside):
        check_columns(names, inside, _rename(same, current.key if current is not None else ()))
    check_columns(names, inside)
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


def _same(names: Iterable[str]) -> list[list[str]]:
    """Those of some names that differ in case alone, by what they have in common."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(ignoring_case(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def _are_same_inside(paths: Sequence[tuple[str, ...]]) -> bool:
    """Whether fields that stand beside one another differ in case alone."""
    beside: dict[tuple[str, ...], list[str]] = {}
    for *above, name in paths:
        beside.setdefault(tuple(above), []).append(name)
    return any(map(_same, beside.values()))


def _rename(same: Sequence[Sequence[str]], key: Sequence[str]) -> str:
    """What to do about names of which no message has two: as a rule they are one column's.

    A column of the table's key cannot be renamed, so that the newer name is given up there.
    """
    last = {group: next((name for name in group if name in key), group[-1]) for group in map(tuple, same)}
    renames = {name: new for group, new in last.items() for name in group if name != new}
    return f"{_told(renames)} If they are two, give one of them a name of its own there."


def _told(renames: Mapping[str, str]) -> str:
    # As JSON, which is YAML too, whatever the names are.
    told = json.dumps(renames, ensure_ascii=False)
    return f"If one column was renamed, say so under its table in pipeline.yaml: `renames: {told}`."


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
