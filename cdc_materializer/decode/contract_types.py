"""Which types of a contract are lossless readings of the type that a source sends: text to decimal, and the like. Pure.

A source often has a type only because its wire or its connector has no better one (`decimal.handling.mode=string`, a
service that counts milliseconds). A contract that says what such values are is followed where each value either is one
of the declared type, exactly, or can be told to be none (`contract_readings`). Where the source's type says what it
means by itself (`columns.meaning`), it has the last word.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from cdc_materializer.decode.columns import DEBEZIUM, column_type, is_unsigned, meaning
from cdc_materializer.decode.reading import Form
from cdc_materializer.decode.units import NUMBER, DeclaredType, TimeUnit
from cdc_materializer.decode.wire import WireType
from cdc_materializer.schema.types import decimal_of, entry_of, fields_of, item_of


class Kind(Enum):
    """Types whose values say the same kind of thing, so that one may stand for the other."""

    NUMBER = auto()
    FLOAT = auto()
    TEXT = auto()
    BOOLEAN = auto()
    DATE = auto()
    MOMENT = auto()
    BINARY = auto()
    NESTED = auto()


_KINDS = {
    **dict.fromkeys(("int", "bigint"), Kind.NUMBER),
    **dict.fromkeys(("float", "double"), Kind.FLOAT),
    "string": Kind.TEXT,
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), Kind.MOMENT),
    "binary": Kind.BINARY,
}
#: What a contract may call a column that its source sends as something else, without a reading: the database's own name
#: of it. Texts stand for anything; Oracle's `date` is a moment, and a decimal a double where its connector is told so.
_CALLED: dict[Kind, frozenset[Kind]] = {
    Kind.NUMBER: frozenset({Kind.FLOAT, Kind.TEXT, Kind.BOOLEAN}),
    Kind.FLOAT: frozenset({Kind.NUMBER, Kind.TEXT}),
    Kind.TEXT: frozenset(Kind),
    Kind.BOOLEAN: frozenset({Kind.TEXT}),
    Kind.DATE: frozenset({Kind.MOMENT, Kind.TEXT}),
    Kind.MOMENT: frozenset({Kind.DATE, Kind.TEXT}),
    Kind.BINARY: frozenset({Kind.TEXT}),
    Kind.NESTED: frozenset({Kind.TEXT}),
}


def kind_of(ddl: str) -> Kind:
    """The kind of a type."""
    if decimal_of(ddl) is not None:
        return Kind.NUMBER
    is_nested = item_of(ddl) is not None or entry_of(ddl) is not None or fields_of(ddl) is not None
    return Kind.NESTED if is_nested else _KINDS.get(ddl, Kind.TEXT)


def as_declared(wire: WireType, declared: DeclaredType, form: Form) -> WireType | None:
    """A source's type, to be read as a contract declares it; None where there is no such reading.

    Args:
        wire: the type of a column.
        declared: the contract's.
        form: how the column's writer writes it.
    """
    if not _is_open(wire):
        return None
    if wire.literal == "double" and form == "json" and decimal_of(declared.ddl) is not None:
        # Read as a double it would be another number; read as what stands there it is the one that was sent.
        return replace(wire, literal="declared", name="", logical="", parameters={"ddl": declared.ddl})
    if NUMBER in wire.parameters and declared.ddl == "double":
        # The nearest one is what the contract asks for.
        return replace(wire, parameters={name: told for name, told in wire.parameters.items() if name != NUMBER})
    return replace(wire, contract=declared) if _is_read(wire, declared) else None


def is_refused(wire: WireType, declared: DeclaredType) -> bool:
    """Whether a contract declares what values of a source's type can neither be nor be called."""
    sent, wanted = kind_of(column_type(wire)), kind_of(declared.ddl)
    if counts_clock(declared) and sent is Kind.NUMBER and _is_open(wire):
        return True
    if sent is wanted or sent in _CALLED[wanted] or _is_read(wire, declared):
        return False
    # One that says what it means may be called by its database's name, which its connector has made something else of.
    return _is_open(wire) or Kind.NESTED in {sent, wanted}


def counts_clock(declared: DeclaredType) -> bool:
    """Whether a contract says of a time of day that it is counted otherwise than its column has it.

    No number is read as one: a mirror that has the column already would have two units in it.
    """
    return declared.is_clock and declared.unit not in {None, TimeUnit.MICROSECONDS}


def _is_read(wire: WireType, declared: DeclaredType) -> bool:
    kind = kind_of(declared.ddl)
    match wire.literal:
        case "string":
            return kind in {Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.MOMENT}
        case "int":
            return kind is Kind.BOOLEAN
        case "long":
            return kind is Kind.BOOLEAN or (kind is Kind.MOMENT and declared.unit is not None)
        case _:
            return False


def _is_open(wire: WireType) -> bool:
    """Whether a type leaves open what its values mean: it is plain, or named by somebody who is no connector."""
    return not meaning(wire) and not wire.name.startswith(DEBEZIUM) and not is_unsigned(wire)
