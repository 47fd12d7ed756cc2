"""Which types of a contract are lossless readings of a source's, and which say what its values cannot be."""

from pathlib import Path

import pytest

from cdc_materializer.contract import load_contract
from cdc_materializer.decode.columns import column_type
from cdc_materializer.decode.contract_types import as_declared, is_refused
from cdc_materializer.decode.units import NUMBER, DeclaredType, TimeUnit
from cdc_materializer.decode.wire import WireType
from tests.unit.contracts import write

_TEXT, _INT, _LONG, _DOUBLE = (WireType(literal) for literal in ("string", "int", "long", "double"))
_STRUCT = WireType("record", fields=(("x", _LONG),))
_ARRAY = WireType("array", items=_TEXT)
_DATE = WireType("int", name="io.debezium.time.Date")
_MOMENT = WireType("long", name="io.debezium.time.Timestamp")
_ZONED_TIME = WireType("string", name="io.debezium.time.ZonedTime")
_UNSIGNED = WireType("long", parameters={"__debezium.source.column.type": "BIGINT UNSIGNED"})
_AMOUNT = WireType("string", name="com.acme.Amount")
_MILLIS = TimeUnit.MILLISECONDS


@pytest.mark.parametrize("ddl", ["decimal(12,2)", "int", "bigint", "boolean", "date", "timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("wire", [_TEXT, _AMOUNT])
def test_a_text_is_read_as_what_the_contract_says(wire: WireType, ddl: str) -> None:
    """One with a name of somebody's own too: the name says nothing."""
    found = as_declared(wire, DeclaredType(ddl), "avro")

    assert found is not None
    assert column_type(found) == ddl


@pytest.mark.parametrize(
    ("wire", "declared"),
    [
        (_INT, DeclaredType("boolean")),
        (_LONG, DeclaredType("boolean")),
        (_LONG, DeclaredType("timestamp", _MILLIS)),
        (_LONG, DeclaredType("timestamp_ntz", _MILLIS)),
    ],
)
def test_an_integer_is_read_as_a_flag_or_with_a_unit_as_a_moment(wire: WireType, declared: DeclaredType) -> None:
    """Without a unit nobody knows which moment a count is."""
    found = as_declared(wire, declared, "avro")

    assert found is not None
    assert column_type(found) == declared.ddl


def test_a_number_of_a_json_schema_is_read_by_its_digits() -> None:
    """Avro has a double there, and not the digits that somebody wrote."""
    found = as_declared(_DOUBLE, DeclaredType("decimal(12,2)"), "json")

    assert found is not None
    assert column_type(found) == "decimal(12,2)"
    assert as_declared(_DOUBLE, DeclaredType("decimal(12,2)"), "avro") is None


def test_a_number_of_a_json_schema_is_the_nearest_double_where_the_contract_says_double() -> None:
    """Otherwise one that no double tells is held."""
    number = WireType("double", optional=True, parameters={NUMBER: ""})

    assert as_declared(number, DeclaredType("double"), "json") == WireType("double", optional=True)
    assert as_declared(number, DeclaredType("float"), "json") is None


@pytest.mark.parametrize(
    ("wire", "ddl"),
    [
        (_TEXT, "string"),
        (_TEXT, "double"),
        (_TEXT, "binary"),
        (_TEXT, "array<string>"),
        (_ZONED_TIME, "bigint"),
        (_LONG, "int"),
        (_LONG, "string"),
        (_LONG, "decimal(10,2)"),
        (_DOUBLE, "decimal(12,2)"),
        (_MOMENT, "date"),
        (_MOMENT, "timestamp"),
        (_MOMENT, "bigint"),
        (_UNSIGNED, "boolean"),
        (_STRUCT, "string"),
        (_STRUCT, "array<string>"),
        (_ARRAY, "string"),
    ],
)
def test_what_is_no_reading_stays_the_sources(wire: WireType, ddl: str) -> None:
    """A contract may call a column as its database does, whatever its connector makes of it."""
    declared = DeclaredType(ddl)

    assert as_declared(wire, declared, "avro") is None
    assert not is_refused(wire, declared)


@pytest.mark.parametrize(
    ("wire", "ddl"),
    [
        (_STRUCT, "date"),
        (_STRUCT, "bigint"),
        (_ARRAY, "decimal(12,2)"),
        (_INT, "array<int>"),
        (_INT, "date"),
        (_INT, "timestamp"),
        (_LONG, "timestamp"),
        (_LONG, "binary"),
        (_DOUBLE, "boolean"),
        (_DATE, "array<date>"),
    ],
)
def test_what_a_value_can_neither_be_nor_be_called_is_refused(wire: WireType, ddl: str) -> None:
    """Such a contract is a mistake, or of another table."""
    declared = DeclaredType(ddl)

    assert as_declared(wire, declared, "avro") is None
    assert is_refused(wire, declared)


@pytest.mark.parametrize(
    ("wire", "unit", "is_wrong"),
    [
        (_INT, TimeUnit.MILLISECONDS, True),
        (_LONG, TimeUnit.NANOSECONDS, True),
        (_LONG, TimeUnit.MICROSECONDS, False),
        (_LONG, None, False),
        (_MOMENT, TimeUnit.MILLISECONDS, False),
        (_UNSIGNED, TimeUnit.MILLISECONDS, False),
        (_TEXT, TimeUnit.MILLISECONDS, False),
    ],
)
def test_a_number_that_counts_a_time_of_day_in_another_unit_is_refused(
    wire: WireType, unit: TimeUnit | None, *, is_wrong: bool
) -> None:
    """Its column has microseconds; what the source's type says by itself needs no unit, nor does a text."""
    assert is_refused(wire, DeclaredType("bigint", unit, is_clock=True)) is is_wrong


def test_a_unit_is_what_the_contract_states(tmp_path: Path) -> None:
    """That which a database's type would give holds for its connector alone."""
    path = write(
        tmp_path,
        "- {name: stated, physicalType: datetime, customProperties: [{property: time_unit, value: microseconds}]}\n"
        "- {name: implied, physicalType: datetime}\n"
        "- {name: clock, physicalType: time}\n"
        "- {name: open}\n",
    )

    found = {column.name: column.declared for column in load_contract(path).columns}

    assert found["stated"] == DeclaredType("timestamp_ntz", TimeUnit.MICROSECONDS)
    assert found["implied"] == DeclaredType("timestamp_ntz")
    assert found["clock"] == DeclaredType("bigint", is_clock=True)
    assert found["open"] is None
