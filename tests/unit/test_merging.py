"""Many writers read as one: which are put together, and what their reader's schema is."""

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from cdc_materializer.changes.envelope import row_of
from cdc_materializer.decode.merging import APART_MAX, ENVELOPE_DEPTH, KEY_DEPTH, merged
from cdc_materializer.decode.writers import Writer, avro_writer, block_writer
from cdc_materializer.testing import (
    avro_datum,
    avro_envelope_schema,
    avro_key_schema,
    connect_envelope_schema,
    debezium_envelope,
)

TEXT = ["null", "string"]
DATE = {"type": "int", "connect.name": "io.debezium.time.Date", "connect.version": 1}
END = "e3a1f0c55a0f1e7d"


def envelope(at: int, doc: str = "", /, **columns: Any) -> Writer:  # noqa: ANN401 - Avro types
    """The writer of an envelope whose row has an id and some columns."""
    schema = avro_envelope_schema("s.t", {"id": "long", **columns})
    return avro_writer(f"id:{at:08X}", json.dumps({**schema, "doc": doc}))


def columns_of(writer: Writer) -> list[str]:
    """The columns of the rows that a writer reads."""
    row = row_of(writer.wire)
    assert row is not None
    return [name for name, _ in row.fields]


def added(count: int) -> list[Writer]:
    """Writers of which each has one column more than the one before."""
    return [envelope(at, **{f"x{column}": TEXT for column in range(at)}) for at in range(count)]


def test_a_few_writers_are_left_apart() -> None:
    """The usual batch pays nothing for what it has not got."""
    writers = added(APART_MAX)

    assert merged(writers, ENVELOPE_DEPTH) == tuple(writers)


def test_writers_with_other_columns_are_one() -> None:
    """The union of their columns, in the order of their first appearance; each keeps its own schema."""
    writers = added(60)

    (one,) = merged([writers[7], *writers], ENVELOPE_DEPTH)

    assert one.selectors == ("id:00000007", *[writer.selector for writer in writers])
    assert columns_of(one) == ["id", *[f"x{at}" for at in range(59)]]
    assert [member.avro for member in one.members[1:]] == [writer.avro for writer in writers]


def test_writers_that_differ_in_words_only_share_one_schema() -> None:
    """Documentation, and the values that an enum allows, change nothing that is read."""
    kinds = [
        {"type": "string", "connect.name": "io.debezium.data.Enum", "connect.parameters": {"allowed": "a,b"[:at]}}
        for at in range(6)
    ]
    writers = [envelope(at, f"version {at}", kind=kind) for at, kind in enumerate(kinds)]

    (one,) = merged(writers, ENVELOPE_DEPTH)

    assert len({member.avro for member in one.members}) == 1


@pytest.mark.parametrize(
    "other",
    [
        "string",
        DATE,
        {"type": "array", "items": "int"},
        {"type": "enum", "name": "Size", "symbols": ["S"]},
        {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]},
    ],
)
def test_a_column_that_means_something_else_parts_writers(other: Any) -> None:  # noqa: ANN401 - an Avro type
    """What has another type, or the same one by another name, is decoded by itself."""
    writers = [envelope(at, str(at), day="int") for at in range(5)]
    changed = envelope(9, day=other)

    found = merged([*writers[:3], changed, *writers[3:]], ENVELOPE_DEPTH)

    assert [one.selectors for one in found] == [tuple(w.selector for w in writers), (changed.selector,)]


def without_nulls(value: Any) -> Any:  # noqa: ANN401 - a datum
    """A datum as a table has it, where a field that is not there is NULL."""
    if isinstance(value, dict):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return [without_nulls(part) for part in value] if isinstance(value, list) else value


def growing(at: int) -> dict[str, Any]:
    """Columns whose parts have grown a number of times."""
    fields = [{"name": f"x{number}", "type": "int"} for number in range(at + 1)]
    point = {"type": "record", "name": "Point", "fields": fields}
    return {
        "at": ["null", point],
        "size": {"type": "enum", "name": "Size", "symbols": [f"S{number}" for number in range(at + 1)]},
        "path": {"type": "array", "items": {**point, "name": "Step"}},
        "places": {"type": "map", "values": ["null", {**point, "name": "Place"}]},
    }


def test_parts_that_grow_are_read_as_one() -> None:
    """Structs by their fields, enums by their symbols: 50 schemas of a column are one decoder."""
    writers = [envelope(at, **growing(at)) for at in range(50)]

    (one,) = merged(writers, ENVELOPE_DEPTH)

    row = row_of(one.wire)
    assert row is not None
    for name in ("at", "path", "places"):
        found = row.get(name)
        assert found is not None
        assert [field for field, _ in (found.items or found).fields] == [f"x{number}" for number in range(50)]


def test_a_struct_that_grows_parts_writers_whose_values_name_columns() -> None:
    """A column beside another is named by the type of what its writer sent, with the fields that it had."""
    writers = [envelope(at, str(at), at=growing(at % 2)["at"]) for at in range(6)]

    assert [len(one.members) for one in merged(writers, ENVELOPE_DEPTH, parts=False)] == [3, 3]


@pytest.mark.parametrize(
    "kinds",
    [
        ({"type": "record", "name": "P", "fields": [{"name": "x", "type": kind}]} for kind in ("int", "string")),
        ({"type": "record", "name": "P", "fields": [{"name": name, "type": "int"}]} for name in ("x", "X")),
        ({"type": "array", "items": kind} for kind in ("int", "string")),
        ({"type": "fixed", "name": "F", "size": size} for size in (2, 3)),
        ({"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": 2} for digits in (9, 12)),
        (
            {"type": "record", "name": "P", "connect.name": name, "fields": [{"name": "x", "type": "int"}]}
            for name in ("a.P", "b.P")
        ),
    ],
)
def test_parts_that_mean_something_else_part_writers(kinds: Iterator[Any]) -> None:
    """A number that is longer than its writer's precision must not be read because another writer has more digits.

    And to Spark two fields that differ in case are one.
    """
    one, other = kinds
    writers = [envelope(at, str(at), v=(one, other)[at % 2]) for at in range(6)]

    assert [len(found.members) for found in merged(writers, ENVELOPE_DEPTH)] == [3, 3]


LONG, DECIMAL = {"type": "long"}, {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}


@pytest.mark.parametrize(
    ("kind", "sources", "sizes"),
    [
        (LONG, ("BIGINT UNSIGNED", "BIGINT"), [3, 3]),
        (LONG, ("BIGINT UNSIGNED", "BIGINT UNSIGNED ZEROFILL"), [6]),
        (LONG, ("INT UNSIGNED", "BIGINT"), [6]),
        (DECIMAL, ("MONEY", "NUMERIC"), [3, 3]),
        ({"type": "string"}, ("VARCHAR", "TEXT"), [6]),
    ],
)
def test_what_the_source_calls_a_type_parts_writers_where_it_says_what_a_value_is(
    kind: dict[str, Any], sources: tuple[str, str], sizes: list[int]
) -> None:
    """-5 of a signed column would be 18446744073709551611, read as an unsigned one."""
    told = [{**kind, "connect.parameters": {"__debezium.source.column.type": source}} for source in sources]
    writers = [envelope(at, str(at), n=told[at % 2], more={"type": "array", "items": told[at % 2]}) for at in range(6)]

    assert [len(found.members) for found in merged(writers, ENVELOPE_DEPTH)] == sizes


def test_a_column_that_is_always_null_for_one_writer_is_known_to_be() -> None:
    """It has it, and its value is NULL; the writers that lack it say nothing of it."""
    kinds: list[dict[str, Any]] = [{"v": TEXT}, {"v": "null"}, {}, {"w": "null"}, {"w": TEXT}]

    (one,) = merged([envelope(at, **kind) for at, kind in enumerate(kinds)], ENVELOPE_DEPTH)

    row = row_of(one.wire)
    assert row is not None
    assert ([name for name, _ in row.fields], row.nulls) == (["id", "v", "w"], ("v", "w"))


def test_a_column_that_became_nullable_does_not_part_writers() -> None:
    """A union with null reads both; so does one whose null comes last."""
    kinds = ["long", ["null", "long"], ["long", "null"], "long", ["null", "long"]]
    writers = [envelope(at, str(at), amount=kind) for at, kind in enumerate(kinds)]

    (one,) = merged(writers, ENVELOPE_DEPTH)

    assert columns_of(one) == ["id", "amount"]


def test_keys_are_merged_by_their_columns() -> None:
    """A key's columns stand at its top."""
    schemas = [avro_key_schema("s.t", {"id": "long"}) | {"doc": str(at)} for at in range(6)]

    (one,) = merged([avro_writer(f"id:{at:08X}", json.dumps(s)) for at, s in enumerate(schemas)], KEY_DEPTH)

    assert len(one.members) == 6


def test_json_with_schemas_is_merged_by_its_types() -> None:
    """Spark's JSON reader needs no schema of the writer's: one decoder reads all of them."""
    columns = [
        {"id": {"type": "int64", "optional": False}, f"x{at}": {"type": "string", "optional": True}} for at in range(6)
    ]
    writers = [
        block_writer(f"block:{at}", json.dumps(connect_envelope_schema("s.t", one))) for at, one in enumerate(columns)
    ]

    (one,) = merged(writers, ENVELOPE_DEPTH)

    assert (one.avro, columns_of(one)) == (None, ["id", *[f"x{at}" for at in range(6)]])


def test_what_a_writer_wrote_is_read_in_the_merged_form() -> None:
    """fastavro, by the Avro specification, reads each writer's bytes into the reader's schema, value by value."""
    kinds: list[dict[str, Any]] = [
        {"name": "string", "day": DATE},
        {"name": TEXT},
        {"point": {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}, "name": TEXT},
        {"size": ["null", {"type": "enum", "name": "Size", "symbols": ["S", "L"]}]},
        {"tags": {"type": "array", "items": "string"}, "either": ["null", "int", "string"]},
        {"hash": {"type": "fixed", "name": "Hash", "size": 2}},
        growing(0),
        growing(2),
    ]
    rows: list[dict[str, Any]] = [
        {"name": "a", "day": 7},
        {"name": None},
        {"name": "b", "point": {"x": 1}},
        {"size": "L"},
        {"tags": ["p"], "either": "q"},
        {"hash": b"hi"},
        {"at": {"x0": 1}, "size": "S0", "path": [{"x0": 1}], "places": {"a": None}},
        {"at": None, "size": "S2", "path": [{"x0": 1, "x1": 2, "x2": 3}], "places": {"a": {"x0": 1, "x1": 2, "x2": 3}}},
    ]
    schemas = [avro_envelope_schema("s.t", {"id": "long", **one}) for one in kinds]
    (one,) = merged([avro_writer(f"id:{at:08X}", json.dumps(s)) for at, s in enumerate(schemas)], ENVELOPE_DEPTH)
    reader = fastavro.parse_schema(json.loads(one.avro or ""))

    for at, row in enumerate(rows):
        written = avro_datum(schemas[at], debezium_envelope("u", {"id": at, **row}, {"id": at, **row}))
        writer = fastavro.parse_schema(json.loads(one.members[at].avro or ""))
        read: Any = fastavro.schemaless_reader(io.BytesIO(written + bytes.fromhex(END)), writer, reader)
        told = {name: value for name, value in read["datum"]["after"].items() if name in row or name == "id"}
        assert without_nulls(told) == without_nulls({"id": at, **row})
        assert all(value is None for name, value in read["datum"]["after"].items() if name not in told)
        assert read["datum"]["before"] == read["datum"]["after"]
        assert read["end"] == bytes.fromhex(END)
