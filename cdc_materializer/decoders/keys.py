"""Signs of integers in keys, which only the rows beside them tell, or a contract.

MySQL's BIGINT UNSIGNED comes as a signed integer in keys too (changelog-semantics §0.1), and Debezium tells a column's
type in its source (`column.propagate.source.type`) in the schemas of rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.decode.columns import UNSIGNED_DDL, UNTOLD_SIGN, as_unsigned, is_unsigned
from cdc_materializer.decode.writers import Writer
from cdc_materializer.decoders.contract import called_unsigned

if TYPE_CHECKING:
    from pyspark.sql import Row

    from cdc_materializer.decode.wire import WireType
    from cdc_materializer.decoders.decoders import Found, Lookup


def with_signs(
    keys: Mapping[str, Found], values: Mapping[str, Found], pairs: Sequence[Row], lookup: Lookup
) -> dict[str, Found]:
    """The writers of keys, each integer in them unsigned that is so in the rows beside them.

    Where no row stands beside one, as in a batch of tombstones, the contract tells it. Without one the mirror's column
    tells that it may be unsigned: one that is negative is then held, and neither of two rows is ended by it.

    Args:
        keys: what is known of the selectors of keys.
        values: of those of values.
        pairs: the selectors that messages have together, as `key_writer` and `value_writer`.
        lookup: where the contract and the mirror's columns are.
    """
    beside: dict[str, list[WireType]] = {}
    for pair in pairs:
        value = values.get(pair["value_writer"])
        row = lookup.options.row(value) if isinstance(value, Writer) else None
        beside.setdefault(pair["key_writer"], []).extend([row] if row is not None else [])
    return {
        name: _with_signs(found, beside[name], lookup) if isinstance(found, Writer) else found
        for name, found in keys.items()
    }


def _with_signs(key: Writer, rows: Sequence[WireType], lookup: Lookup) -> Writer:
    fields = tuple((name, _signed(name, kind, rows, lookup)) for name, kind in key.wire.fields)
    return replace(key, wire=replace(key.wire, fields=fields))


def _signed(name: str, kind: WireType, rows: Sequence[WireType], lookup: Lookup) -> WireType:
    unsigned = as_unsigned(kind)
    if is_unsigned(kind) or not is_unsigned(unsigned):
        return kind
    told = [found for row in rows if (found := row.get(name)) is not None]
    if told:
        return unsigned if all(is_unsigned(found) for found in told) else kind
    if called_unsigned(name, lookup):
        return unsigned
    known = lookup.current.types if lookup.current is not None else {}
    is_open = known.get(lookup.options.evolution.renames.get(name, name)) == UNSIGNED_DDL
    return replace(unsigned, parameters={**unsigned.parameters, UNTOLD_SIGN: ""}) if is_open else kind
