"""The columns of a history's rows, `before` and `after`: how they follow those of the mirror, and what fits them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from cdc_materializer.decode.fit import conformed, ddl_of
from cdc_materializer.errors import InvariantBroken
from cdc_materializer.lake.metadata import fields_by_id
from cdc_materializer.names import shown
from cdc_materializer.schema.schema import Evolution, SchemaPlan, TableSchema, plan_schema, renamed
from cdc_materializer.schema.types import fields_of, holds, merge_types, type_word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

#: The columns that hold a row each.
ROWS = ("before", "after")
_BUG = "Nothing was published. This is a bug; please report it with the output of `--debug`."


def plan_fields(
    fields: TableSchema, target: TableSchema, evolution: Evolution
) -> tuple[tuple[tuple[str, str], ...], SchemaPlan]:
    """What has to change of a row's fields before it takes those of the mirror.

    A field whose column was rebuilt with another type keeps what it has under another name. That goes by the names that
    fields have once they are renamed: a column may be renamed and rebuilt before the history is next written.

    Args:
        fields: those that the history has.
        target: the mirror's columns.
        evolution: the table's settings.

    Returns:
        The fields that are to be renamed, old and new name, in their order; and the plan for what is then there.

    Raises:
        SchemaRefused: the history has a renamed column under both names.
    """
    own = evolution.pending(fields)
    named = renamed(fields, own)
    aside = _outgrown(named, target)
    return (*own, *aside), plan_schema(renamed(named, aside), [target])


def _outgrown(fields: TableSchema, target: TableSchema) -> tuple[tuple[str, str], ...]:
    """The fields whose columns were rebuilt with another type, and the names under which they keep what they have."""
    types, found = fields.types, []
    for column in target.columns:
        old = types.get(column.name)
        # Integers take booleans as they are sent; a column that is one of booleans by now was rebuilt all the same.
        is_same = old is not None and (old == "boolean") == (column.type == "boolean")
        if old is None or (is_same and merge_types(old, column.type)[1]):
            continue
        name = f"{column.name}__{type_word(old)}"
        while name in types:
            name += "_"
        found.append((column.name, name))
    return tuple(found)


def in_its_columns(found: DataFrame, stored: Mapping[str, str], history: str) -> DataFrame:
    """Changes as a history stores them: it keeps fields under former types, which nothing fills any more.

    Args:
        found: the changes.
        stored: the types of the history's columns, by name.
        history: the history's name.

    Raises:
        InvariantBroken: a field does not hold what the changes have in it; a cast would round it.
    """
    types = {field.name: ddl_of(field.dataType) for field in found.schema}
    check_held({name: (types[name], stored[name]) for name in ROWS}, history)
    return found.withColumns({name: conformed(F.col(name), types[name], stored[name]) for name in ROWS})


def check_held(rows: Mapping[str, tuple[str, str]], history: str) -> None:
    """Refuse to store rows in fields of types that do not hold all of their values.

    Args:
        rows: the type of a row, and that in which the history stores it, by the column's name.
        history: the history's name.

    Raises:
        InvariantBroken: there is such a field.
    """
    for name, (sent, kept) in rows.items():
        there = fields_of(kept) or {}
        wrong = [field for field, ddl in (fields_of(sent) or {}).items() if not holds(there.get(field, ""), ddl)]
        if wrong:
            what = f"{history} cannot store {', '.join(f'`{shown(name)}.{shown(field)}`' for field in wrong)} exactly."
            raise InvariantBroken(what, _BUG)


def fields_then(table: Any, head: int, row: str) -> dict[str, str]:  # noqa: ANN401 - a Java object
    """The names that fields of a row have in a snapshot of a history, by those that they have by now.

    Args:
        table: the history in Iceberg's own API.
        head: the snapshot.
        row: one of ROWS.
    """
    then = fields_by_id(table.schemas().get(table.snapshot(head).schemaId()), row)
    return {name: then[at] for at, name in fields_by_id(table.schema(), row).items() if at in then}


def are_of_other_columns(there: DataFrame, stored: Mapping[str, str]) -> bool:
    """Whether rows of a snapshot of a history have other fields, or fields of other types, than the table by now."""
    types = {field.name: ddl_of(field.dataType) for field in there.schema}
    return any(types[row] != stored[row] for row in ROWS)


def as_they_are(there: DataFrame, names: Mapping[str, Mapping[str, str]], stored: Mapping[str, str]) -> DataFrame:
    """The rows of a snapshot of a history as the table shows them by now.

    A snapshot is read in its own columns. Rows that are held against others have to have theirs: the same names, and
    the digits of the type that a field was widened to.

    Args:
        there: the rows of the snapshot.
        names: of each of ROWS the names that fields had then, by those that they have.
        stored: the types of the history's columns by now, by name.
    """
    types = {field.name: ddl_of(field.dataType) for field in there.schema}
    found = {}
    for row in ROWS:
        before, value = fields_of(types[row]) or {}, F.col(row)
        parts = []
        for name, ddl in (fields_of(stored[row]) or {}).items():
            then = names[row].get(name, "")
            part = conformed(value[then], before[then], ddl) if then in before else F.lit(None).cast(ddl)
            parts.append(part.alias(name))
        found[row] = F.when(value.isNotNull(), F.struct(*parts))
    return there.withColumns(found)
