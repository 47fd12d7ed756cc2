"""The types that a contract declares, or the table has, of columns whose type the source leaves open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.changes.document_columns import DOCUMENT, ID
from cdc_materializer.changes.documents import with_columns
from cdc_materializer.decode.columns import with_declared, with_moments
from cdc_materializer.schema_types import becomes, holds

if TYPE_CHECKING:
    from cdc_materializer.decode.writers import Writer
    from cdc_materializer.decoders import Lookup
    from cdc_materializer.schema import TableSchema


def with_types(writer: Writer, lookup: Lookup) -> Writer:
    """The writer with the types of the contract, or else of the table, where the source leaves them open."""
    types = (lookup.current.types if lookup.current is not None else {}) | _wanted_types(lookup)
    if writer.is_plain:
        return writer
    types |= {old: types[new] for old, new in lookup.options.evolution.renames.items() if new in types}
    wire = with_columns(writer.wire, _of_documents(lookup), lookup.options.masks)
    writer = replace(writer, wire=with_moments(wire, lookup.options.format.moments))
    fields = tuple(
        (name, with_declared(kind, types) if name in {"before", "after"} else kind) for name, kind in writer.wire.fields
    )
    return replace(writer, wire=with_declared(replace(writer.wire, fields=fields), types))


def preferred(schema: TableSchema, lookup: Lookup) -> TableSchema:
    """The columns in the types that a contract declares, where those hold every value of the source's (§3)."""
    types = _wanted_types(lookup)
    columns = [
        replace(column, type=types[column.name]) if holds(types.get(column.name, ""), column.type) else column
        for column in schema.columns
    ]
    return replace(schema, columns=tuple(columns))


def _wanted_types(lookup: Lookup) -> dict[str, str]:
    """The types that a contract declares, of columns that are not there yet or that can be widened to them.

    Of masked columns none: those are what their masks make of them.
    """
    known = lookup.current.types if lookup.current is not None else {}
    columns = lookup.contract.columns if lookup.contract is not None else ()
    declared = {one.name: one.type for one in columns if one.type and lookup.options.masks.of(one.name) is None}
    return {
        name: ddl
        for name, ddl in declared.items()
        if name not in known or known[name] == ddl or becomes(known[name], ddl)
    }


def _of_documents(lookup: Lookup) -> dict[str, str]:
    """The columns that a contract declares of documents, with their types; none where it has only those of all.

    A table that has documents goes on having them.
    """
    declared_columns = lookup.contract.columns if lookup.contract is not None else ()
    known = lookup.current.types if lookup.current is not None else {}
    of_all = {ID, DOCUMENT}
    types = {one.name: one.type or "" for one in declared_columns if one.name != ID}
    if not types.keys() - of_all:
        return {}
    return types | ({DOCUMENT: "string"} if DOCUMENT in known else {})
