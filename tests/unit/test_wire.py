"""Writer schemas as the wire has them, read into the one form that the package knows."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cdc_materializer.decode.json_schema import parse_json_schema
from cdc_materializer.decode.units import NUMBER
from cdc_materializer.decode.wire import PAIR, UNTYPED, WireSchemaInvalid, WireType, parse_avro, parse_connect
from cdc_materializer.decode.writers import avro_writer
from cdc_materializer.testing import avro_envelope_schema, avro_key_schema, connect_envelope_schema

DATE = {"type": "int", "connect.name": "io.debezium.time.Date", "connect.version": 1}
AMOUNT = {
    "type": "bytes",
    "scale": 2,
    "precision": 64,
    "connect.version": 1,
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "logicalType": "decimal",
}


def record(**fields: Any) -> str:  # noqa: ANN401 - Avro types
    """An Avro record with the given fields."""
    parts = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "Value", "namespace": "s.t", "fields": parts})


def test_the_name_of_a_connect_type_is_found_inside_a_union() -> None:
    """Debezium writes the meaning of an optional column into the branch, not onto the field."""
    day = parse_avro(record(day=["null", DATE])).get("day")

    assert day == WireType("int", name="io.debezium.time.Date", optional=True)


def test_a_default_first_union_is_optional_all_the_same() -> None:
    """With a default that is not null the type stands first in the union."""
    note = parse_avro(record(note=[{"type": "string", "connect.default": "n/a"}, "null"])).get("note")

    assert note == WireType("string", optional=True, default="n/a")


def test_a_columns_default_is_known_in_both_spellings() -> None:
    """A connector writes it in place of a NOT NULL value that it was not told; it is never taken for a row's value."""
    block = {"type": "struct", "fields": [{"field": "qty", "type": "int32", "optional": False, "default": 3}]}

    assert parse_connect(block).get("qty") == WireType("int", default=3)
    assert parse_avro(record(qty={"type": "int", "connect.default": 3})).get("qty") == WireType("int", default=3)


def test_a_decimals_parameters_are_those_of_connect() -> None:
    """The column's own precision wins over the 64 that the converter writes for Avro's sake."""
    amount = parse_avro(record(amount=AMOUNT)).get("amount")

    assert amount is not None
    assert (amount.literal, amount.name) == ("bytes", "org.apache.kafka.connect.data.Decimal")
    assert amount.parameters == {"scale": "2", "precision": "64", "connect.decimal.precision": "10"}


def test_the_row_after_is_the_record_named_inside_before() -> None:
    """The registry stores `after` as a reference to the record that `before` defines."""
    envelope = parse_avro(json.dumps(avro_envelope_schema("shop.public.orders", {"id": "long", "day": DATE})))
    after, before = envelope.get("after"), envelope.get("before")

    assert before is not None
    assert after is not None
    assert after.fields == before.fields
    assert [name for name, _ in after.fields] == ["id", "day"]


def test_both_encodings_of_an_envelope_name_the_same_fields() -> None:
    """What is read from Avro and from Connect's JSON differs in nothing that the fold looks at."""
    avro = parse_avro(json.dumps(avro_envelope_schema("s.t", {"id": "long", "note": ["null", "string"]})))
    columns = {"id": {"type": "int64", "optional": False}, "note": {"type": "string", "optional": True}}
    connect = parse_connect(connect_envelope_schema("s.t", columns))

    for side in ("after", "source"):
        mine, other = avro.get(side), connect.get(side)
        assert mine is not None
        assert other is not None
        assert [(name, kind.literal, kind.optional) for name, kind in mine.fields] == [
            (name, kind.literal, kind.optional) for name, kind in other.fields
        ]


def test_a_key_schema_is_a_plain_record() -> None:
    """A key has its columns at the top."""
    key = parse_avro(json.dumps(avro_key_schema("s.t", {"order_id": "long", "line_no": "int"})))

    assert [(name, kind.literal) for name, kind in key.fields] == [("order_id", "long"), ("line_no", "int")]


@pytest.mark.parametrize(
    ("kind", "literal"),
    [("int8", "int"), ("int16", "int"), ("int32", "int"), ("int64", "long"), ("float", "float"), ("double", "double")],
)
def test_connects_words_for_numbers_are_known(kind: str, literal: str) -> None:
    """Connect prints float32 as `float`; both words are read."""
    schema = {"type": "struct", "fields": [{"field": "n", "type": kind, "optional": True}]}

    assert parse_connect(schema).get("n") == WireType(literal, optional=True)


def test_a_connect_map_without_string_keys_is_an_array_of_pairs() -> None:
    """JsonConverter writes such a map as an array of [key, value]."""
    kind = {"type": "map", "keys": {"type": "int16"}, "values": {"type": "double"}, "field": "v"}
    found = parse_connect({"type": "struct", "fields": [kind]}).get("v")

    assert found is not None
    assert found.literal == "array"
    assert found.items == WireType("record", PAIR, fields=(("key", WireType("int")), ("value", WireType("double"))))


@pytest.mark.parametrize(
    "text",
    [
        "no schema",
        '{"type": "record", "name": "A"}',
        '{"type": "record", "name": "A", "fields": [{"name": "next", "type": ["null", "A"]}]}',
        "7",
    ],
)
def test_what_is_no_avro_schema_is_refused(text: str) -> None:
    """Broken texts and records that contain themselves are one error, which says nothing of any row."""
    with pytest.raises(WireSchemaInvalid):
        parse_avro(text)


@pytest.mark.parametrize("schema", [{}, {"type": "struct"}, {"type": "struct", "fields": [{"type": "int64"}]}])
def test_what_is_no_connect_schema_is_refused(schema: dict[str, Any]) -> None:
    """A block without type, fields or field names is one error."""
    with pytest.raises(WireSchemaInvalid):
        parse_connect(schema)


def test_a_union_of_several_types_has_sparks_members() -> None:
    """Spark's Avro reader gives it as a struct member0, member1, so it is read as one."""
    found = parse_avro(record(v=["null", "string", "long"])).get("v")

    assert found is not None
    assert found.literal == "union"
    assert found.optional
    assert [(name, kind.literal) for name, kind in found.fields] == [("member0", "string"), ("member1", "long")]


MONEY = {"type": "record", "name": "Money", "namespace": "", "fields": [{"name": "amount", "type": "long"}]}
INNER = {
    "type": "record",
    "name": "x.Inner",
    "fields": [{"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}}],
}


@pytest.mark.parametrize(
    ("first", "again"),
    [(MONEY, "Money"), (MONEY, {"type": "Money"}), ({**MONEY, "namespace": "s.t"}, "Money"), (INNER, "x.Inner")],
)
def test_a_name_is_looked_up_without_a_namespace_too(first: dict[str, Any], again: Any) -> None:  # noqa: ANN401 - JSON
    """Java's own schemas are printed so, and a schema that a reference brought along stands so in another one."""
    writer = avro_writer("id:1", record(a=first, b=again))
    (datum, _) = json.loads(writer.avro or "")["fields"]
    a, b = [field["type"] for field in datum["type"]["fields"]]

    assert writer.wire.get("a") == writer.wire.get("b")
    assert json.dumps(a).replace("_1_a", "_1_b") == json.dumps(b)


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        ({"type": "enum", "name": "E", "symbols": ["GRÜN", "ROT"]}, WireType("enum")),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, WireType("enum")),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10, "scale": 2},
            WireType("fixed", parameters={"scale": "2", "precision": "10"}),
        ),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
            WireType("fixed", "decimal", logical="decimal", parameters={"scale": "2", "precision": "9"}),
        ),
        ({"type": {"type": "int", "logicalType": "date"}}, WireType("int", "date", logical="date")),
    ],
)
def test_what_javas_parser_takes_is_read(kind: Any, wire: WireType) -> None:  # noqa: ANN401 - Avro types
    """Symbols in other scripts; a decimal with more digits than its bytes have room for is none, as Avro says."""
    assert avro_writer("id:1", record(v=kind)).wire.get("v") == wire


def test_a_default_that_is_none_of_its_type_is_nothing_to_us() -> None:
    """It is never data, and Spark's reader does not get it."""
    fields = [{"name": "n", "type": "int", "default": "3"}]
    writer = avro_writer("id:1", json.dumps({"type": "record", "name": "V", "fields": fields}))

    assert writer.wire.get("n") == WireType("int")
    assert "default" not in (writer.avro or "")


def test_a_columns_comment_is_kept() -> None:
    """The source's comment comes as the field's doc."""
    text = '{"type":"record","name":"V","fields":[{"name":"id","type":"long","doc":"The number."}]}'

    assert parse_avro(text).get("id") == WireType("long", doc="The number.")


INT64 = {"type": "integer", "connect.type": "int64"}


@pytest.mark.parametrize(
    ("schema", "wire"),
    [
        (INT64, WireType("long")),
        ({"type": "integer", "connect.type": "int16"}, WireType("int")),
        ({"type": "integer"}, WireType("long")),
        ({"type": ["null", "number"]}, WireType("double", optional=True, parameters={NUMBER: ""})),
        ({"type": "number", "connect.type": "float64"}, WireType("double")),
        ({"type": "number", "connect.type": "float32"}, WireType("float")),
        ({"type": "string", "connect.type": "bytes"}, WireType("bytes")),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, WireType("boolean", optional=True)),
        ({"type": "array", "items": INT64}, WireType("array", items=WireType("long"))),
        (
            {"type": "object", "connect.type": "map", "additionalProperties": INT64},
            WireType("map", items=WireType("long")),
        ),
        (
            {"type": "string", "title": "io.debezium.time.ZonedTimestamp", "description": "when", "default": "x"},
            WireType("string", name="io.debezium.time.ZonedTimestamp", doc="when", default="x"),
        ),
        (
            {"type": "number", "title": "org.apache.kafka.connect.data.Decimal", "connect.parameters": {"scale": "2"}},
            WireType("declared", parameters={"scale": "2", "ddl": "decimal(38,2)", "connects": ""}),
        ),
    ],
)
def test_json_schema_says_what_connect_says(schema: dict[str, Any], wire: WireType) -> None:
    """Keywords that begin `connect.` are those of Confluent's JsonSchemaConverter; its titles are Connect's names."""
    assert parse_json_schema(json.dumps({"type": "object", "properties": {"v": schema}})).get("v") == wire


@pytest.mark.parametrize(
    ("schema", "wire"),
    [
        ({"enum": ["a", "b"]}, WireType("string")),
        ({"enum": [1, None]}, WireType("long", optional=True)),
        ({"const": True}, WireType("boolean")),
        ({"enum": [1, "a"]}, WireType(UNTYPED, optional=True, parameters={"ddl": "string"})),
        ({"enum": [1.5]}, WireType(UNTYPED, optional=True, parameters={"ddl": "string"})),
        ({}, WireType(UNTYPED, optional=True, parameters={"ddl": "string"})),
        (
            {"description": "x", "default": 5},
            WireType(UNTYPED, optional=True, parameters={"ddl": "string"}, doc="x"),
        ),
    ],
)
def test_a_json_schema_without_a_type_is_that_of_its_values(schema: dict[str, Any], wire: WireType) -> None:
    """Of several types, or of none that it names, they are texts; an exact number is no double."""
    assert parse_json_schema(json.dumps({"type": "object", "properties": {"v": schema}})).get("v") == wire


@pytest.mark.parametrize(
    "schema", [{"type": "null"}, {"type": ["null"]}, {"oneOf": [{"type": "null"}]}, {"enum": [None]}, {"const": None}]
)
def test_what_a_json_schema_says_is_null_is_no_column(schema: dict[str, Any]) -> None:
    """The others are read all the same."""
    found = parse_json_schema(json.dumps({"type": "object", "properties": {"id": INT64, "v": schema}}))

    assert (found.fields, found.nulls) == ((("id", WireType("long")),), ("v",))


@pytest.mark.parametrize("kind", ["null", {"type": "null"}, ["null"]])
def test_what_avro_says_is_null_is_no_column(kind: Any) -> None:  # noqa: ANN401 - Avro types
    """Nor is it one of a struct."""
    inner = {"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": kind}]}
    found = parse_avro(record(id="long", v=kind, s=inner))

    assert ([name for name, _ in found.fields], found.nulls) == (["id", "s"], ("v",))
    assert found.fields[1][1].fields == (("a", WireType("int")),)


ANY = WireType(UNTYPED, optional=True, parameters={"ddl": "string"})
A, B = {"properties": {"a": INT64}}, {"properties": {"b": INT64}}
IS_A = WireType("record", fields=(("a", WireType("long")),))


@pytest.mark.parametrize(
    ("schema", "wire"),
    [
        (True, ANY),
        ({"type": "object"}, ANY),
        ({"type": "object", "properties": {}}, ANY),
        ({"type": "object", "additionalProperties": True}, ANY),
        ({"type": "object", "additionalProperties": False}, ANY),
        ({"type": "object", "patternProperties": {"^x": INT64}}, ANY),
        ({"type": "object", **A, "patternProperties": {"^x": INT64}}, ANY),
        ({"type": "object", **A, "oneOf": [B, {"required": ["a"]}]}, ANY),
        ({"type": "object", "oneOf": [A, B]}, ANY),
        ({"type": ["string", "integer"]}, ANY),
        ({"type": ["string", "integer", "null"], "description": "x"}, replace(ANY, doc="x")),
        ({"oneOf": [{"type": "null"}, {"type": "string"}, {"type": "integer"}]}, ANY),
        ({"anyOf": [True, {"type": "null"}]}, ANY),
        ({"allOf": [{"type": "string"}, {"maxLength": 5}]}, ANY),
        ({"allOf": [{"enum": ["a"]}], "enum": ["a", "b"]}, ANY),
        ({"minimum": 5}, ANY),
        ({"type": "array"}, WireType("array", items=ANY)),
        ({"type": "array", "items": True}, WireType("array", items=ANY)),
        ({"type": "array", "items": {"type": ["string", "integer"]}}, WireType("array", items=ANY)),
        ({"type": "array", "items": [INT64, {"type": "string"}]}, ANY),
        ({"type": "array", "prefixItems": [INT64], "items": False}, ANY),
        ({"type": "object", "additionalProperties": {"type": "object"}}, WireType("map", items=ANY)),
    ],
)
def test_what_a_json_schema_leaves_open_is_the_text_of_its_json(schema: Any, wire: WireType) -> None:  # noqa: ANN401
    """It has a place for everything, and the other columns are read all the same; of a row it would be no columns."""
    found = parse_json_schema(json.dumps({"type": "object", "properties": {"id": INT64, "v": schema}}))

    assert found.fields == (("id", WireType("long")), ("v", wire))


@pytest.mark.parametrize(
    ("schema", "wire"),
    [
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, WireType("string")),
        ({"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}, WireType("long")),
        ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}, {"const": None}]}, WireType("string", optional=True)),
        (
            {"anyOf": [{"type": "string", "maxLength": 1}, {"type": ["string", "null"]}]},
            WireType("string", optional=True),
        ),
        ({"type": "object", **A, "anyOf": [{"required": ["a"]}, {"required": []}]}, IS_A),
        (A, IS_A),
        ({"title": "Meta", "allOf": [{"title": "meta", "type": "object", **A}]}, replace(IS_A, name="Meta")),
        ({"connect.index": 1, "allOf": [{"allOf": [{"enum": ["a", "b"]}]}]}, WireType("string")),
        ({"allOf": [{"type": "object", **A}, {"required": ["a"]}]}, IS_A),
    ],
)
def test_what_only_narrows_a_type_leaves_it_as_it_is(schema: dict[str, Any], wire: WireType) -> None:
    """Constants with titles, conditions of which properties there have to be, a reference in an `allOf` of one part."""
    assert parse_json_schema(json.dumps({"type": "object", "properties": {"v": schema}})).get("v") == wire


def test_the_parts_of_a_row_are_its_columns() -> None:
    """Without a type beside them too; a column that is `false` has no value."""
    assert parse_json_schema(json.dumps({"allOf": [A, B]})).fields == (("a", WireType("long")), ("b", WireType("long")))
    assert parse_json_schema(json.dumps({"properties": {"a": INT64, "b": False}})) == replace(IS_A, nulls=("b",))


EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    "kind", [EMPTY, ["null", EMPTY], {**EMPTY, "name": "Outer", "fields": [{"name": "n", "type": EMPTY}]}]
)
def test_a_record_without_fields_is_no_column(kind: Any) -> None:  # noqa: ANN401 - Avro types
    """It says no more than null does; Spark's reader does not get one that takes no bytes."""
    text = record(id="long", v=kind, s={"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}]})

    found, (datum, _) = parse_avro(text), json.loads(avro_writer("id:1", text).avro or "")["fields"]

    assert ([name for name, _ in found.fields], found.nulls) == (["id", "s"], ("v",))
    assert [field["name"] for field in datum["type"]["fields"]] == (
        ["id", "v", "s"] if isinstance(kind, list) else ["id", "s"]
    )


def test_a_connect_struct_without_fields_is_no_column() -> None:
    """MongoDB's connector, behind its transform, writes an empty document so, in the schema of each message."""
    empty = {"type": "struct", "fields": [], "optional": True}
    parts = [{"field": "id", "type": "int64"}, {**empty, "field": "v"}]
    row = {"type": "struct", "fields": [*parts, {"type": "struct", "fields": [{**empty, "field": "n"}], "field": "w"}]}

    found = parse_connect(row)

    assert (found.fields, found.nulls) == ((("id", WireType("long")),), ("v", "w"))


def test_json_schemas_fields_are_in_connects_order() -> None:
    """JSON Schema has none: the converter writes it down."""
    parts = {"b": {**INT64, "connect.index": 1}, "a": {**INT64, "connect.index": 0}}
    found = parse_json_schema(json.dumps({"type": "object", "properties": parts}))

    assert [name for name, _ in found.fields] == ["a", "b"]


def test_json_schemas_parts_of_one_object_are_one_record() -> None:
    """As generators write what one class has of another; of both, the same property is one."""
    parent = {"type": "object", "properties": {"id": INT64, "at": {"type": "string"}}, "required": ["id"]}
    text = json.dumps(
        {"type": "object", "allOf": [parent, {"required": ["a"]}], "properties": {"a": INT64, "id": INT64}}
    )

    assert [name for name, _ in parse_json_schema(text).fields] == ["a", "id", "at"]


ONE = {"properties": {"b": INT64}}


@pytest.mark.parametrize(
    "more",
    [
        {"patternProperties": {"^x": INT64}},
        {"if": {"required": ["a"]}, "then": ONE},
        {"else": ONE},
        {"dependentSchemas": {"a": ONE}},
        {"dependencies": {"a": ONE}},
        {"allOf": [{"if": {"required": ["a"]}, "then": ONE}]},
        {"allOf": [{"oneOf": [ONE, {"required": ["a"]}]}]},
        {"allOf": [{"type": "string"}]},
        {"allOf": [{"properties": {"a": {"type": "string"}}}]},
        {"allOf": ["b"]},
    ],
)
def test_json_schemas_properties_are_all_of_them_or_none(more: dict[str, Any]) -> None:
    """A column that is there under a condition alone would be lost without a word."""
    with pytest.raises(WireSchemaInvalid):
        parse_json_schema(json.dumps({"type": "object", "properties": {"a": INT64}, **more}))


@pytest.mark.parametrize(
    "text",
    [
        "no schema",
        "7",
        "{}",
        '{"$ref": "other.json"}',
        '{"type": "object"}',
        '{"type": "object", "properties": {}, "patternProperties": {"^x": {"type": "string"}}}',
        '{"type": "object", "oneOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}',
        '{"type": ["string", "integer"]}',
        '{"oneOf": [{"type": "string"}, {"type": "integer"}]}',
        '{"type": "object", "properties": {"v": {"$ref": "other.json"}}}',
        '{"type": "object", "properties": {"v": {"anyOf": [{"$ref": "other.json"}, {"type": "null"}]}}}',
        '{"type": "object", "properties": {"v": {"allOf": [{"$ref": "a.json"}, {"$ref": "b.json"}]}}}',
        '{"type": "object", "properties": {"v": {"type": "object", "patternProperties": {"": {"$ref": "a.json"}}}}}',
        '{"type": "decimal"}',
    ],
)
def test_what_is_no_json_schema_of_a_value_is_refused(text: str) -> None:
    """Rubbish, a schema that is somewhere else, and a value that may be one of several things."""
    with pytest.raises(WireSchemaInvalid):
        parse_json_schema(text)
