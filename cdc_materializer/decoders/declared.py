"""What a contract declares where the wire says nothing of types: what it has to, and the writer that is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from cdc_materializer.decode.framing import PLAIN_JSON
from cdc_materializer.decode.units import CONNECTS, FLAG, UNIT, UNSIGNED, VARIABLE, WrittenAs
from cdc_materializer.decode.wire import BASE64, BASE64_URL, BYTES, DIGITS_OF_HEX, SET
from cdc_materializer.decode.writers import Writer, declared
from cdc_materializer.errors import ConfigError
from cdc_materializer.names import shown
from cdc_materializer.schema.types import decimal_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cdc_materializer.changes.options import Options
    from cdc_materializer.contract.model import Contract, ContractColumn
    from cdc_materializer.decoders.decoders import Lookup

_Found = TypeVar("_Found")
_OCTETS = {WrittenAs.BASE64: BASE64, WrittenAs.BASE64_URL: BASE64_URL, WrittenAs.HEX: DIGITS_OF_HEX}


def declared_writer(side: str, lookup: Lookup) -> Writer | None:
    """The writer of JSON without a schema; None where nothing tells its columns, or for keys which are key.

    Args:
        side: `key` or `value`.
        lookup: where the types are found.
    """
    contract, current, shard = lookup.contract, lookup.current or lookup.told, lookup.options.shard
    if shard is not None and current is not None:
        current = shard.without(current)
    declared_columns = contract.columns if contract is not None else ()
    columns = [column for column in declared_columns if shard is None or column.name != shard.column]
    types = {column.name: column.type for column in columns if column.type}
    keys = [column.name for column in columns if column.primary_key]
    evolution = lookup.options.evolution
    known = evolution.of_table(current) if current else None
    own = {column.name: column.type for column in known.columns if column.beside is None} if known else {}
    types = own | types
    key = lookup.options.key or tuple(keys) or (current.key if current else ())
    if not types or (side == "key" and not key):
        return None
    # Nothing but the messages tells under which of its names they have a column that was renamed.
    former = {old: new for old, new in evolution.renames.items() if new in types}
    more = {column.name: _more(column) for column in columns}
    more |= {old: more.get(new, {}) for old, new in former.items()}
    if side == "key":
        names = {name: name for name in key} | {old: new for old, new in former.items() if new in key}
        return Writer(PLAIN_JSON, "json", declared({name: types[new] for name, new in names.items()}, more))
    types |= {old: types[new] for old, new in former.items()}
    return Writer(PLAIN_JSON, "json", lookup.options.format.value_type(declared(types, more)))


def made_anew(writers: Mapping[str, _Found], lookup: Lookup) -> dict[str, _Found | Writer | None]:
    """Writers of values as they are where a mirror is made anew: its own types are none that messages ask for."""
    anew = replace(lookup, current=None)
    return {
        name: declared_writer("value", anew) if isinstance(found, Writer) and found.is_plain else found
        for name, found in writers.items()
    }


def _more(column: ContractColumn) -> dict[str, str]:
    """What a contract says of a column's values, beside their type."""
    told = {SET: SET} if column.is_set else {}
    told |= {VARIABLE: VARIABLE} if column.is_numeric else {}
    told |= {UNSIGNED: UNSIGNED} if column.is_unsigned else {}
    told |= {FLAG: FLAG} if column.is_flag else {}
    told |= _written(column)
    return told | ({UNIT: str(column.time_unit)} if column.time_unit is not None else {})


def _written(column: ContractColumn) -> dict[str, str]:
    if column.written_as is WrittenAs.BYTES:
        precision, scale = decimal_of(column.type or "") or (0, 0)
        return {CONNECTS: "", "precision": str(precision), "scale": str(scale)}
    return {BYTES: _OCTETS[column.written_as]} if column.written_as in _OCTETS else {}


def check_declared(options: Options, contract: Contract | None, topics: str) -> None:
    """Raise ConfigError where a format that says nothing of types has no contract that does."""
    if not options.format.needs_contract:
        return
    if contract is None:
        what = f"The format of {topics} says nothing of types, and the table has no contract."
        raise ConfigError(what, "Write one that declares its columns and their types, and name it as `contract:`.")
    untyped = [column.name for column in contract.columns if column.type is None]
    if untyped or not contract.columns:
        names = shown(", ".join(untyped)) or "any column"
        what = f"The format of {topics} says nothing of types, nor does {contract.path.name} of {names}."
        raise ConfigError(what, "Give each column a physicalType, or else a logicalType.")
    rounded = [column.name for column in contract.columns if column.is_rounded]
    if rounded:
        names = shown(", ".join(rounded))
        what = f"The physicalType of {names} in {contract.path.name} is not known, and as `number` values are rounded."
        raise ConfigError(what, "Give it a type that is (`decimal(12,2)`, or `text` for any digits), or leave it out.")
    in_bytes = [column.name for column in contract.columns if column.written_as is WrittenAs.BYTES]
    if in_bytes:
        names = shown(", ".join(in_bytes))
        what = f"{contract.path.name} says that {names} is written in bytes; the format of {topics} writes digits."
        raise ConfigError(what, "Remove `written_as`.")
    if not options.key:
        what = f"What identifies a row of {topics} is said nowhere: its messages are known by their columns."
        raise ConfigError(what, f"Mark the key with `primaryKey: true` in {contract.path.name}, or set `key:`.")
    unknown = [name for name in options.key if name not in {column.name for column in contract.columns}]
    if unknown:
        what = f"{contract.path.name} does not declare {', '.join(unknown)} of the key of {topics}."
        raise ConfigError(what, "Declare it with its type.")
