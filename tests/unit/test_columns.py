"""The types that are told without Spark are those of the columns that Spark makes."""

import json
from typing import Any

import pytest

from cdc_materializer.decode import types
from cdc_materializer.decode.columns import (
    CONNECT,
    DECIMALS,
    FIELDS,
    LITERALS,
    NAMED,
    column_type,
    with_moments,
    with_open,
)
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType, parse_avro

_TEXT = WireType("string", optional=True)
_DAY = WireType("int", "io.debezium.time.Date")


def _parts(name: str) -> tuple[tuple[str, WireType], ...]:
    """The fields that a named record has to have."""
    return tuple((part, WireType(literal)) for part, literal in FIELDS.get(name, {}).items())


WIRES = [
    *[WireType(literal) for literal in LITERALS],
    *[WireType(literal, name, fields=_parts(name)) for name, literal in NAMED],
    *[WireType("bytes", name, parameters={"scale": "2", "connect.decimal.precision": "12"}) for name in DECIMALS],
    WireType("bytes", "com.acme.Money", logical="decimal", parameters={"scale": "2", "precision": "12"}),
    WireType("long", "com.acme.Moment", logical="timestamp-micros"),
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


@pytest.mark.parametrize(
    ("schema", "ddl"),
    [
        ({"type": "bytes", "connect.name": "com.acme.Money", "precision": 12, "scale": 2}, "binary"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}, "decimal(12,2)"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp_ntz"),
        ({"type": "int", "logicalType": "time-millis", "connect.name": "io.debezium.time.Date"}, "date"),
        ({"type": "string", "logicalType": "uuid", "connect.name": "io.debezium.time.Date"}, "string"),
        ({"type": "long", "logicalType": "something-new"}, "bigint"),
    ],
)
def test_a_name_of_somebodys_own_leaves_avros_logical_type(schema: dict[str, Any], ddl: str) -> None:
    """A name that means something goes first; one that means nothing takes nothing away."""
    own = {"connect.name": "com.acme.Own", **schema}

    wire = parse_avro(json.dumps({"type": "record", "name": "V", "fields": [{"name": "a", "type": own}]}))

    assert column_type(wire.fields[0][1]) == ddl


@pytest.mark.parametrize(
    ("branches", "ddl"),
    [
        (["null", "int", "long"], "bigint"),
        (["long", "int"], "bigint"),
        (["float", "null", "double"], "double"),
        (["null", "int", "double"], "struct<`member0`:int,`member1`:double>"),
        (["int", "long", "string"], "struct<`member0`:int,`member1`:bigint,`member2`:string>"),
    ],
)
def test_a_union_is_what_sparks_reader_makes_of_it(branches: list[str], ddl: str) -> None:
    """One number of two, and a struct of everything else."""
    (found,) = parse_avro(
        json.dumps({"type": "record", "name": "V", "fields": [{"name": "a", "type": branches}]})
    ).fields

    assert column_type(found[1]) == Reader("avro").read(found[1]).ddl == ddl


def test_a_union_of_numbers_that_are_no_longer_told_apart_is_refused() -> None:
    """Spark's reader gives one number, whether it was sent as the date or as the other."""
    branches = ["null", {"type": "int", "logicalType": "date"}, "long"]
    (found,) = parse_avro(
        json.dumps({"type": "record", "name": "V", "fields": [{"name": "a", "type": branches}]})
    ).fields

    for read in (column_type, Reader("avro").read):
        with pytest.raises(WireSchemaInvalid, match="two numbers"):
            read(found[1])


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_named_record_that_lacks_a_field_is_the_record_it_is(name: str) -> None:
    """Whatever wrote it, it is no time in parts and no number with a scale of its own."""
    for at in range(len(FIELDS[name])):
        parts = [*_parts(name)[:at], ("other", WireType("int")), *_parts(name)[at + 1 :]]
        wire = WireType("record", name, fields=tuple(parts))

        assert Reader("json").read(wire).ddl == column_type(wire)
        assert column_type(wire).startswith("struct<")


_MOMENT = WireType("long", "timestamp-micros")
_MOMENT_OF_CONNECT = WireType("long", CONNECT + "Timestamp", logical="timestamp-millis")
_LOCAL = WireType("long", "local-timestamp-micros")
_IN_OTHERS = WireType(
    "record", fields=(("at", WireType("array", items=_MOMENT)), ("by", WireType("map", items=_MOMENT)))
)


@pytest.mark.parametrize("ddl", ["timestamp", "timestamp_ntz"])
def test_moments_have_a_zone_or_none_by_who_wrote_them(ddl: str) -> None:
    """Those whose names say it have it as they say, in whatever they stand."""
    record = WireType("record", fields=(("a", _MOMENT), ("b", _MOMENT_OF_CONNECT), ("c", _LOCAL), ("d", _IN_OTHERS)))
    found = with_moments(record, ddl)

    assert column_type(found) == Reader("avro").read(found).ddl
    assert [column_type(kind) for _, kind in found.fields] == [
        ddl,
        ddl,
        "timestamp_ntz",
        f"struct<`at`:array<{ddl}>,`by`:map<string,{ddl}>>",
    ]


@pytest.mark.parametrize(
    ("wire", "declared", "ddl"),
    [
        (_MOMENT, "timestamp", "timestamp"),
        (_MOMENT, "string", "timestamp_ntz"),
        (_MOMENT, "", "timestamp_ntz"),
        (_LOCAL, "timestamp", "timestamp_ntz"),
        (WireType("long", "io.debezium.time.MicroTimestamp"), "timestamp", "timestamp_ntz"),
        (WireType("array", items=_MOMENT), "array<timestamp>", "array<timestamp>"),
        (WireType("array", items=_MOMENT), "timestamp", "array<timestamp_ntz>"),
        (
            _IN_OTHERS,
            "struct<`at`:array<timestamp>,`by`:map<string,string>>",
            "struct<`at`:array<timestamp>,`by`:map<string,timestamp_ntz>>",
        ),
    ],
)
def test_a_contract_or_a_table_has_the_last_word_on_moments(wire: WireType, declared: str, ddl: str) -> None:
    """Where the name leaves it open; nowhere else is a zone made or lost."""
    found = with_open(with_moments(WireType("record", fields=(("a", wire),)), "timestamp_ntz"), {"a": declared})

    assert column_type(found.fields[0][1]) == ddl
