"""Which columns of a source are read as the contract declares them, though the source sends them in another type.

Which reading a column has may not depend on which writers a batch happens to have: it goes by the type of the column
that the mirror has, or else by that of the first writer in the log that tells it. Of a masked column nothing is stored
but what its mask makes of it: there each writer's is read by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from cdc_materializer.decode.columns import as_unsigned, column_type, is_unsigned, tells_source
from cdc_materializer.decode.contract_types import Kind, as_declared, counts_clock, is_refused, kind_of
from cdc_materializer.decode.writers import Writer
from cdc_materializer.errors import ContractInvalid
from cdc_materializer.names import shown

if TYPE_CHECKING:
    from cdc_materializer.changes.options import Options
    from cdc_materializer.decode.units import DeclaredType
    from cdc_materializer.decode.wire import WireType
    from cdc_materializer.decoders.decoders import Found, Lookup


@dataclass
class Declared:
    """The readings of one table, writer by writer in the order of their first messages.

    Attributes:
        options: how messages are read.
        file: the name of the contract's file.
        declared: the contract's types by the names of columns, those that take part.
        types: the columns' types as far as they are known.
        there: the columns that the mirror has.
        key: those of its key, which keep the source's types.
        kept: the declared types of columns that the mirror has in a type of another kind, by name.
    """

    options: Options
    file: str
    declared: Mapping[str, DeclaredType]
    types: dict[str, str]
    there: frozenset[str] = frozenset()
    key: frozenset[str] = frozenset()
    kept: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, lookup: Lookup, pairs: Sequence[tuple[object, object]], *, anew: bool = False) -> Declared:
        """Those of a table. Columns of its key keep the source's types, for rows are told apart by them.

        Args:
            lookup: where the contract and the mirror's columns are.
            pairs: what is known of the writers of values and keys, as messages have them together.
            anew: whether the mirror's columns do not count, as where it is rebuilt.
        """
        contract, current, options = lookup.contract, lookup.current, lookup.options
        key = {*options.key, *(current.key if current is not None else ())}
        if not key:
            of_rows = [one for value, one in pairs if isinstance(value, Writer) and options.row(value) is not None]
            key = {name for one in of_rows if isinstance(one, Writer) for name, _ in one.wire.fields}
        declared = {
            column.name: column.declared
            for column in (contract.columns if contract is not None else ())
            if column.declared is not None and column.name not in key and options.masks.shows(column.name)
        }
        there = current.types if current is not None and not anew else {}
        file = contract.path.name if contract is not None else ""
        return cls(options, file, declared, dict(there), frozenset(there), frozenset(key))

    def read(self, writer: Writer) -> Writer:
        """A writer of values with the types that its row is read in."""
        row = self.options.row(writer)
        if row is None or writer.is_plain or not self.declared:
            return writer
        changed = {name: kind for name, sent in row.fields if (kind := self._column(name, sent, writer)) is not sent}
        return replace(writer, wire=_with(writer.wire, row, changed)) if changed else writer

    def _column(self, name: str, sent: WireType, writer: Writer) -> WireType:
        name = self.options.evolution.renames.get(name, name)
        declared = self.declared.get(name)
        if declared is None:
            return sent
        read = as_declared(sent, declared, writer.form)
        # What a mask has made of a column says nothing of the values that it hides.
        known = self.types.get(name) if self.options.masks.of(name) is None else None
        if read is not None and known is not None and kind_of(known) is not kind_of(declared.ddl):
            # With columns beside others nothing is rebuilt.
            self.kept |= {name: declared.ddl} if not self.options.evolution.new_columns else {}
            read = None
        found = read or sent
        self.types.setdefault(name, column_type(found))
        return found

    def check(self, writers: Sequence[Writer], topics: str) -> None:
        """Refuse a contract that declares of a new column what its values can neither be nor be called.

        Args:
            writers: of values, in the order of their first messages.
            topics: where the messages come from.

        Raises:
            ContractInvalid: it does.
        """
        met = {*self.types, *self.there}
        rows = [row for writer in writers if not writer.is_plain and (row := self.options.row(writer)) is not None]
        for sent, kind in (column for row in rows for column in row.fields):
            name = self.options.evolution.renames.get(sent, sent)
            declared = self.declared.get(name)
            if declared is not None and name not in met and is_refused(kind, declared):
                self._refuse(name, declared, column_type(kind), topics)
            met.add(name)

    def _refuse(self, name: str, declared: DeclaredType, sent: str, topics: str) -> NoReturn:
        at = self.file if declared.line is None else f"{self.file}:{declared.line}"
        wanted = f"a time of day in {declared.unit}" if counts_clock(declared) else declared.ddl
        what = f"Contract {at}: `{shown(name)}` is declared as {wanted}, and {topics} has it as {shown(sent)}."
        do = "Declare the type that the source has, or none."
        if kind_of(declared.ddl) is Kind.MOMENT and sent == "bigint":
            do = "If it counts time, say in which unit, by the custom property `time_unit`; else declare bigint."
        raise ContractInvalid(what, do)


def with_unsigned(values: Mapping[str, Found], lookup: Lookup) -> dict[str, Found]:
    """The writers of values, each integer of eight bytes without a sign that the contract says has none.

    A schema that tells the column's type in the source has the last word.
    """
    found = dict(values)
    for selector, writer in values.items():
        row = lookup.options.row(writer) if isinstance(writer, Writer) and not writer.is_plain else None
        if isinstance(writer, Writer) and row is not None:
            fields = [(name, kind) for name, kind in row.fields if called_unsigned(name, lookup)]
            changed = {name: as_unsigned(kind) for name, kind in fields if not tells_source(kind)}
            changed = {name: kind for name, kind in changed.items() if is_unsigned(kind)}
            found[selector] = replace(writer, wire=_with(writer.wire, row, changed)) if changed else writer
    return found


def called_unsigned(name: str, lookup: Lookup) -> bool:
    """Whether the contract says that a column of messages is an unsigned integer of eight bytes."""
    own = lookup.options.evolution.renames.get(name, name)
    columns = lookup.contract.columns if lookup.contract is not None else ()
    return any(column.name == own and column.is_unsigned for column in columns)


def _with(wire: WireType, row: WireType, changed: Mapping[str, WireType]) -> WireType:
    """The type of a value whose row has other types: the row itself, or the images of an envelope."""

    def own(record: WireType) -> WireType:
        return replace(record, fields=tuple((name, changed.get(name, kind)) for name, kind in record.fields))

    if all(wire.get(name) is kind for name, kind in row.fields):
        return own(wire)
    images = tuple((name, own(kind) if name in {"before", "after"} else kind) for name, kind in wire.fields)
    return replace(wire, fields=images)
