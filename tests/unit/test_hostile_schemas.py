"""Writer schemas that nobody means well with: their messages are held, and no other is kept waiting."""

import json
import time
from typing import Any

import pytest

from cdc_materializer.changes.messages import check_readable, table_schema
from cdc_materializer.changes.options import Options
from cdc_materializer.decode.columns import column_type
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType
from cdc_materializer.decode.writers import Writer, avro_writer, block_writer, json_writer

TEXT = {"type": "string"}


def avro(kind: Any, beside: Any = "string") -> Writer:  # noqa: ANN401 - JSON
    """The writer of an Avro envelope whose row has a column of a type, and that has another field beside the row."""
    row = {"type": "record", "name": "V", "fields": [{"name": "c", "type": kind}]}
    fields = [{"name": "op", "type": "string"}, {"name": "after", "type": ["null", row]}]
    fields.append({"name": "note", "type": beside})
    return avro_writer("id:00000001", json.dumps({"type": "record", "name": "E", "fields": fields}))


def connect(column: dict[str, Any]) -> Writer:
    """The writer of Connect's JSON with such a column."""
    row = {"type": "struct", "field": "after", "fields": [{"field": "c", **column}]}
    return block_writer("block:1", json.dumps({"type": "struct", "fields": [{"field": "op", **TEXT}, row]}))


def json_schema(column: dict[str, Any], title: object = "x.Envelope") -> Writer:
    """The writer of JSON with a JSON Schema that has such a column."""
    row = {"type": "object", "properties": {"c": column}}
    schema = {"type": "object", "title": title, "properties": {"op": TEXT, "after": row}}
    return json_writer("id:00000001", json.dumps(schema))


def nested(depth: int) -> dict[str, Any]:
    """An array of arrays of texts."""
    kind: dict[str, Any] = TEXT
    for _ in range(depth):
        kind = {"type": "array", "items": kind}
    return kind


def doubling(depth: int) -> dict[str, Any]:
    """A record each of whose levels has the one below it twice, and names it the second time."""
    kind: dict[str, Any] = {"type": "record", "name": "A0", "fields": [{"name": "x", "type": "int"}]}
    for at in range(1, depth):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"A{at - 1}"}]
        kind = {"type": "record", "name": f"A{at}", "fields": fields}
    return kind


def nothing(depth: int) -> dict[str, Any]:
    """A record of records, whose only value is null."""
    kind: Any = "null"
    for at in range(depth):
        kind = {"type": "record", "name": f"N{at}", "fields": [{"name": "n", "type": kind}]}
    return dict(kind)


DECIMAL = {"type": "bytes", "connect.type": "bytes", "title": "org.apache.kafka.connect.data.Decimal"}
HOSTILE = {
    "json: a title that is a number": lambda: json_schema({**TEXT, "title": 5}),
    "json: a title that is a list": lambda: json_schema({**TEXT, "title": ["a"]}),
    "json: the envelope's title": lambda: json_schema(TEXT, title=5),
    "json: parameters that are none": lambda: json_schema({**TEXT, "connect.parameters": [1]}),
    "json: a scale that is none": lambda: json_schema({**DECIMAL, "connect.parameters": {"scale": ["x"]}}),
    "json: too deep": lambda: json_schema(nested(60)),
    "json: a column without a name": lambda: json_writer(
        "id:1", '{"type":"object","properties":{"":{"type":"string"}}}'
    ),
    "avro: parameters that are none": lambda: avro({**TEXT, "connect.parameters": 5}),
    "avro: a name that is none": lambda: avro({**TEXT, "connect.name": 5}),
    "avro: a logical type that is none": lambda: avro({**TEXT, "logicalType": ["x"]}),
    "avro: too deep": lambda: avro(nested(60)),
    "avro: deeper than Python goes": lambda: avro(nested(900)),
    "avro: a column that is no name": lambda: avro(
        {"type": "record", "name": "R", "fields": [{"name": "a b", "type": "int"}]}
    ),
    "avro: a column that is a number": lambda: avro(
        {"type": "record", "name": "R", "fields": [{"name": 5, "type": "int"}]}
    ),
    "avro: a column twice": lambda: avro({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}] * 2}),
    "avro: a decimal of two scales": lambda: avro(
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3, "connect.parameters": {"scale": "2"}}
    ),
    "avro: a precision that is null": lambda: avro({"type": "bytes", "logicalType": "decimal", "precision": None}),
    "avro: a scale that is null": lambda: avro(
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": None}
    ),
    "avro: a union in a union": lambda: avro([["null", "int"], "string"]),
    "avro: a type twice in a union": lambda: avro(["int", "int"]),
    "avro: a size that is none": lambda: avro({"type": "fixed", "name": "F", "size": -1}),
    "avro: a fixed of no bytes": lambda: avro({"type": "fixed", "name": "F", "size": 0}),
    "avro: items of no bytes": lambda: avro("int", {"type": "array", "items": "null"}),
    "avro: items without fields": lambda: avro(
        "int", {"type": "array", "items": {"type": "record", "name": "R", "fields": []}}
    ),
    "avro: items that may be null, without fields": lambda: avro(
        {"type": "array", "items": ["null", {"type": "record", "name": "R", "fields": []}]}
    ),
    "avro: values without fields": lambda: avro(
        {"type": "map", "values": {"type": "record", "name": "R", "fields": []}}
    ),
    "connect: items without fields": lambda: connect({"type": "array", "items": {"type": "struct", "fields": []}}),
    "connect: values without fields": lambda: connect(
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "struct", "fields": []}}
    ),
    "avro: items of fields that are always null": lambda: avro("int", {"type": "array", "items": nothing(3)}),
    "avro: two types of one name": lambda: avro(
        ["null", {"type": "fixed", "name": "F", "size": 1}], {"type": "fixed", "name": "F", "size": 2}
    ),
    "avro: a name that no type has": lambda: avro("int", "Money"),
    "avro: no size": lambda: avro({"type": "fixed", "name": "F"}),
    "avro: no symbols": lambda: avro({"type": "enum", "name": "E"}),
    "avro: symbols that are a text": lambda: avro({"type": "enum", "name": "E", "symbols": "ab"}),
    "avro: a symbol that is a number": lambda: avro({"type": "enum", "name": "E", "symbols": [5]}),
    "avro: a symbol that is a list": lambda: avro({"type": "enum", "name": "E", "symbols": [["a"]]}),
    "avro: a symbol twice": lambda: avro({"type": "enum", "name": "E", "symbols": ["a", "a"]}),
    "avro: a symbol that is no name": lambda: avro({"type": "enum", "name": "E", "symbols": ["A-B"]}),
    "avro: a symbol of letters that Java takes for none": lambda: avro(
        {"type": "enum", "name": "E", "symbols": ["\U0001d49c"]}
    ),
    "avro: every level twice": lambda: avro(doubling(30)),
    "avro: many long names": lambda: avro(
        {"type": "record", "name": "R", "fields": [{"name": f"{'a' * 100_000}{at}", "type": "int"} for at in range(50)]}
    ),
    "connect: a name that is none": lambda: connect({**TEXT, "name": 5}),
    "connect: a column that is none": lambda: connect({"type": "struct", "fields": [{"field": 5, **TEXT}]}),
    "connect: a column twice": lambda: connect({"type": "struct", "fields": [{"field": "a", **TEXT}] * 2}),
    "connect: a name inside of a column that no table has": lambda: connect(
        {"type": "struct", "fields": [{"field": "a\nb", **TEXT}]}
    ),
    "json: a name inside of a column that no table has": lambda: json_schema(
        {"type": "object", "properties": {"\x00": TEXT}}
    ),
    "connect: too deep": lambda: connect(nested(60)),
    "connect: deeper than Python goes": lambda: block_writer("block:1", "[" * 100_000),
    "connect: a scale that is none": lambda: connect(
        {**DECIMAL, "name": DECIMAL["title"], "parameters": {"scale": [1]}}
    ),
}


@pytest.mark.parametrize("writer", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_schema_that_no_table_can_come_of_is_one_error(writer: Any) -> None:  # noqa: ANN401 - makes a writer
    """The messages that name it are held as UNDECODABLE; anything else would end the table."""
    start = time.process_time()
    with pytest.raises(WireSchemaInvalid):
        check_readable(writer(), Options())

    assert time.process_time() - start < 10


@pytest.mark.parametrize("items", [["null"], "string", {"type": "array", "items": "int"}])
def test_items_that_take_bytes_are_read(items: Any) -> None:  # noqa: ANN401 - JSON
    """Of which a message cannot say that there are more than it has bytes; beside the row they are in no column."""
    check_readable(avro("int", {"type": "array", "items": items}), Options())


@pytest.mark.parametrize("key", ["doc", "connect.doc"])
def test_documentation_that_is_no_text_documents_nothing(key: str) -> None:
    """It says nothing of what the values mean."""
    for writer in (avro({**TEXT, key: 5}), connect({**TEXT, "doc": 5}), json_schema({**TEXT, "description": 5})):
        (column,) = table_schema(writer, Options()).columns

        assert column.doc is None


def test_wide_tables_and_names_in_other_scripts_are_no_trouble() -> None:
    """As many columns as any database allows in a table, before and after a change."""
    row = {
        "type": "record",
        "name": "V",
        "fields": [{"name": f"größe_{at:026}", "type": ["null", "long"]} for at in range(4096)],
    }
    fields = [
        {"name": "op", "type": "string"},
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "V"]},
    ]

    writer = avro_writer("id:1", json.dumps({"type": "record", "name": "E", "fields": fields}))

    assert len(table_schema(writer, Options()).columns) == 4096


@pytest.mark.parametrize(
    ("parameters", "ddl"),
    [
        ({"scale": "5", "connect.decimal.precision": "2"}, "decimal(5,5)"),
        ({"scale": "38"}, "decimal(38,38)"),
        ({"scale": "-3", "connect.decimal.precision": "5"}, "decimal(8,0)"),
        ({"scale": "50", "connect.decimal.precision": "60"}, None),
        ({"scale": "-1000000000"}, None),
    ],
)
def test_a_decimals_column_holds_its_scale(parameters: dict[str, str], ddl: str | None) -> None:
    """Oracle has scales above the precision; a scale that no column has is no reason for a column of other values."""
    wire = WireType("bytes", "org.apache.kafka.connect.data.Decimal", parameters=parameters)
    if ddl is not None:
        assert column_type(wire) == ddl
        return
    with pytest.raises(WireSchemaInvalid, match="scale"):
        column_type(wire)


def test_what_is_said_of_a_schema_has_none_of_it() -> None:
    """Names can be anything; logs and reports show none."""
    with pytest.raises(WireSchemaInvalid) as caught:
        connect({"type": "hush"})

    assert "hush" not in str(caught.value)
