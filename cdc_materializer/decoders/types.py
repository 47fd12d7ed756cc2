"""The types that a contract declares, or the table has, of columns whose type the source leaves open.

Numbers that have a scale each, and moments of which nothing tells whether they have a zone. As with `Declared`, how
they are read may not depend on which writers a batch happens to have: where the table has no such column yet, the
writers before them in the log tell its type, as they would in a batch of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc_materializer.changes.document_columns import DOCUMENT, ID
from cdc_materializer.changes.documents import with_columns
from cdc_materializer.decode.columns import column_type, is_variable_scale, with_moments, with_open
from cdc_materializer.decode.writers import Writer
from cdc_materializer.schema.types import DECIMAL_DIGITS_MAX, becomes, decimal_of, holds, merge_types

if TYPE_CHECKING:
    from pyspark.sql import Row

    from cdc_materializer.changes.options import Options
    from cdc_materializer.decode.wire import WireType
    from cdc_materializer.decoders.contract import Declared
    from cdc_materializer.decoders.decoders import Found, Lookup
    from cdc_materializer.schema.schema import TableSchema


def of_format(writer: Writer, lookup: Lookup) -> Writer:
    """The writer with the columns that its documents have, and its moments as its format means them."""
    if writer.is_plain:
        return writer
    wire = with_columns(writer.wire, _of_documents(lookup), lookup.options.masks)
    return replace(writer, wire=with_moments(wire, lookup.options.format.moments))


@dataclass
class Opened:
    """What a table's columns are whose type their writers leave open, writer by writer in the order of the log.

    Attributes:
        options: how messages are read.
        declared: the contract's types, by name.
        known: the columns' types as far as they are told: by the table, or else by the writers before. What a mask has
            made of a column says nothing of the values that it hides.
        fixed: the columns of the key, which have one form only.
        there: the columns that the table has.
        anew: whether the table's columns do not count for numbers, as where it is rebuilt.
        kept: the declared types of columns that the table has in a type of another kind or scale, by name.
    """

    options: Options
    declared: Mapping[str, str]
    known: dict[str, str]
    fixed: frozenset[str]
    there: frozenset[str] = frozenset()
    anew: bool = False
    kept: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lookup: Lookup, key: frozenset[str], *, anew: bool = False) -> Opened:
        """Those of a table whose key has some columns."""
        types = lookup.current.types if lookup.current is not None else {}
        known = {name: ddl for name, ddl in types.items() if _keeps_type(name, lookup.options)}
        return cls(lookup.options, _declared_types(lookup), known, key, frozenset(known), anew)

    def read(self, writer: Writer, row: WireType) -> Writer:
        """A writer of keys or of values with the types that it is read in; its row says which columns it has."""
        if writer.is_plain:
            return writer
        evolution = self.options.evolution
        types, beside = dict[str, str](), set[str]()
        for name, kind in row.fields:
            own = evolution.renames.get(name, name)
            types[name] = self._number(own) if is_variable_scale(kind) else self._moments(own)
            if evolution.new_columns and own not in self.fixed and types[name] != self.declared.get(own):
                beside.add(name)
        images = tuple(
            (name, with_open(kind, types, beside) if name in {"before", "after"} else kind)
            for name, kind in writer.wire.fields
        )
        return replace(writer, wire=with_open(replace(writer.wire, fields=images), types, beside))

    def _number(self, name: str) -> str:
        """The type of a column of numbers each of which has a scale of its own; "" for texts of their digits.

        With the scale of a column of decimals, and as many digits as there are: how many the column has before its
        point by then depends on the cut of the log, and it gets what it needs, as for any decimal (`merge_types`).
        """
        declared, known = self.declared.get(name, ""), self.known.get(name)
        wanted, own = decimal_of(declared), decimal_of(known or "")
        if known is None or self.anew or (wanted is not None and own is not None and wanted[1] == own[1]):
            return declared
        if wanted is not None and name in self.there - self.fixed and not self.options.evolution.new_columns:
            self.kept[name] = declared
        return f"decimal({DECIMAL_DIGITS_MAX},{own[1]})" if own is not None else ""

    def _moments(self, name: str) -> str:
        """The type of a column with moments in it: what is known of it, and of what is not there yet the contract's."""
        declared, known = self.declared.get(name, ""), self.known.get(name)
        return declared if known is None else merge_types(known, declared)[0]

    def note(self, fields: Sequence[tuple[str, WireType]]) -> None:
        """Take down what a writer's columns make of the table, as its plan does (`plan_schema`)."""
        for sent, kind in fields:
            name = self.options.evolution.renames.get(sent, sent)
            if not _keeps_type(name, self.options):
                continue
            ddl, known, declared = column_type(kind), self.known.get(name), self.declared.get(name, "")
            if holds(declared, ddl) and (known is None or becomes(known, declared)):
                ddl = declared
            self.known[name] = merge_types(known, ddl)[0] if known is not None else ddl


def _keeps_type(name: str, options: Options) -> bool:
    """Whether a column has the type of its values: masked ones are texts, where a mask leaves anything of them."""
    mask = options.masks.of(name)
    return mask is None or mask.hides_all


def read_in_order(
    pairs: Sequence[Row], values: Mapping[str, Found], keys: Mapping[str, Found], opened: Opened, readings: Declared
) -> tuple[dict[str, Found], dict[str, Found]]:
    """The writers of values and keys with the types that they are read in.

    Args:
        pairs: the selectors that messages have together, in the order of their first ones.
        values: what is known of the selectors of values.
        keys: of those of keys.
        opened: what writers leave open.
        readings: what the contract has read in another type than the source's.
    """
    read_values: dict[str, Found] = {}
    read_keys: dict[str, Found] = {}
    for pair in pairs:
        name, value = pair["value_writer"], values.get(pair["value_writer"])
        row = opened.options.row(value) if isinstance(value, Writer) else None
        if not isinstance(value, Writer) or row is None:
            continue
        if name not in read_values:
            read_values[name] = read = readings.read(opened.read(value, row))
            told = opened.options.row(read)
            opened.note(told.fields if told is not None else ())
        name, key = pair["key_writer"], keys.get(pair["key_writer"])
        if isinstance(key, Writer) and name not in read_keys:
            read_keys[name] = read = opened.read(key, key.wire)
            opened.note([one for one in read.wire.fields if one[0] in opened.fixed])
    # Those beside which no row stands make no table, and are read as what is there by then.
    others = {name: key for name, key in keys.items() if isinstance(key, Writer) and name not in read_keys}
    left = {name: opened.read(key, key.wire) for name, key in others.items()}
    return {**values, **read_values}, {**keys, **read_keys, **left}


def preferred(schema: TableSchema, lookup: Lookup) -> TableSchema:
    """The columns in the types that a contract declares, where those hold every value of the source's (§3)."""
    types = _wanted_types(lookup)
    columns = [
        replace(column, type=types[column.name], sent=column.type)
        if holds(types.get(column.name, ""), column.type)
        else column
        for column in schema.columns
    ]
    return replace(schema, columns=tuple(columns))


def _wanted_types(lookup: Lookup) -> dict[str, str]:
    """The types that a contract declares, of columns that are not there yet or that can be widened to them."""
    known = lookup.current.types if lookup.current is not None else {}
    declared = _declared_types(lookup)
    return {name: ddl for name, ddl in declared.items() if name not in known or becomes(known[name], ddl)}


def _declared_types(lookup: Lookup) -> dict[str, str]:
    """The types that a contract declares. Of masked columns none: those are what their masks make of them."""
    columns = lookup.contract.columns if lookup.contract is not None else ()
    return {one.name: one.type for one in columns if one.type and lookup.options.masks.of(one.name) is None}


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
