"""The types that are told without Spark are those of the columns that Spark makes."""

import pytest

from cdc_materializer.decode import types
from cdc_materializer.decode.columns import CONNECT, DECIMALS, FIELDS, LITERALS, NAMED, column_type
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType

_TEXT = WireType("string", optional=True)
_DAY = WireType("int", "io.debezium.time.Date")


def _parts(name: str) -> tuple[tuple[str, WireType], ...]:
    """The fields that a named record has to have."""
    return tuple((part, WireType(literal)) for part, literal in FIELDS.get(name, {}).items())


WIRES = [
    *[WireType(literal) for literal in LITERALS],
    *[WireType(literal, name, fields=_parts(name)) for name, literal in NAMED],
    *[WireType("bytes", name, parameters={"scale": "2", "connect.decimal.precision": "12"}) for name in DECIMALS],
    WireType("bytes", CONNECT + "Decimal", parameters={"scale": "-2", "connect.decimal.precision": "5"}),
    WireType("bytes", CONNECT + "Decimal", parameters={"scale": "4", "precision": "64"}),
    WireType("declared", parameters={"ddl": "decimal(9,2)"}),
    WireType("array", items=_DAY),
    WireType("array", items=WireType("int")),
    WireType("map", items=_TEXT),
    WireType("record", fields=(("A b", _TEXT), ("day", _DAY))),
]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: f"{wire.literal} {wire.name}".strip())
def test_a_column_has_the_type_that_is_told_without_spark(wire: WireType) -> None:
    """What `cdcm init` drafts is what a run makes."""
    assert column_type(wire) == Reader("avro").read(wire).ddl


def test_every_named_type_is_told_without_spark() -> None:
    """A name that is added to one of the two tables is added to the other."""
    assert {name for name, _ in NAMED} | {*DECIMALS} == {*types._NAMED}


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("name", sorted({*types._NAMED}))
def test_a_name_means_nothing_on_a_type_that_cannot_carry_it(name: str, literal: str) -> None:
    """The value is read as what it is; a reading for another type would end the run in the middle of a job."""
    wire = WireType(literal, name)
    reading = Reader("avro").read(wire)

    assert column_type(wire) == reading.ddl
    if (name, literal) not in NAMED and not (name in DECIMALS and literal in {"bytes", "fixed"}):
        assert (reading.ddl, reading.wire, reading.value) == (LITERALS[literal], LITERALS[literal], None)


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_named_record_that_lacks_a_field_is_the_record_it_is(name: str) -> None:
    """Whatever wrote it, it is no time in parts and no number with a scale of its own."""
    for at in range(len(FIELDS[name])):
        parts = [*_parts(name)[:at], ("other", WireType("int")), *_parts(name)[at + 1 :]]
        wire = WireType("record", name, fields=tuple(parts))

        assert Reader("json").read(wire).ddl == column_type(wire)
        assert column_type(wire).startswith("struct<")
