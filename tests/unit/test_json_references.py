"""JSON Schemas that refer to others: by name, by `$id`, by anchor, inside themselves; and those that go nowhere."""

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.decode.json_schema import parse_json_schema
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType
from cdc_materializer.registry.json_references import SchemaTooLargeError, inlined
from cdc_materializer.registry.recorded import RecordedRegistry
from tests.unit.registries import put, put_version, reference

LONG = {"type": "integer", "connect.type": "int64"}
MONEY = {"title": "Money", "type": "object", "properties": {"amount": LONG}}


def kind_of_v(part: dict[str, Any], others: dict[str, Any], **around: Any) -> WireType | None:  # noqa: ANN401 - JSON
    """What field `v` of a schema is, once it stands alone."""
    text = json.dumps({"type": "object", "properties": {"v": part}, **around})
    return parse_json_schema(inlined(text, {name: json.dumps(one) for name, one in others.items()})).get("v")


@pytest.mark.parametrize(
    ("part", "others", "around"),
    [
        pytest.param({"$ref": "money.json"}, {"money.json": MONEY}, {}, id="a document by its name"),
        pytest.param(
            {"$ref": "parts.json#/definitions/Money"},
            {"parts.json": {"definitions": {"Money": MONEY}}},
            {},
            id="a part",
        ),
        pytest.param({"$ref": "#/definitions/Money"}, {}, {"definitions": {"Money": MONEY}}, id="a part of itself"),
        pytest.param(
            {"$ref": "money.json"},
            {"https://shop.example/money.json": MONEY},
            {"$id": "https://shop.example/order.json"},
            id="beside its own address",
        ),
        pytest.param(
            {"$ref": "#money"},
            {},
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"m": {"$anchor": "money", **MONEY}}},
            id="an anchor of draft 2020-12",
        ),
        pytest.param(
            {"$ref": "price.json"},
            {"price.json": {"$ref": "parts.json#/definitions/Money"}, "parts.json": {"definitions": {"Money": MONEY}}},
            {},
            id="two levels deep",
        ),
        pytest.param(
            {"$ref": "parts.json#/definitions/Price"},
            {"parts.json": {"definitions": {"Price": {"$ref": "#/definitions/Money"}, "Money": MONEY}}},
            {"definitions": {"Money": {"type": "string"}}},
            id="a part of that document, not of the first",
        ),
    ],
)
def test_a_reference_means_what_json_schema_says(
    part: dict[str, Any], others: dict[str, Any], around: dict[str, Any]
) -> None:
    """What a field refers to is read as if it stood there."""
    assert kind_of_v(part, others, **around) == WireType("record", name="Money", fields=(("amount", WireType("long")),))


def test_what_stands_beside_a_reference_counts() -> None:
    """Connect's order of the fields, or a description of this use; the rest is that of what is referred to."""
    parts = {"b": {"$ref": "money.json", "connect.index": 1}, "a": {"$ref": "money.json", "connect.index": 0}}
    text = inlined(json.dumps({"type": "object", "properties": parts}), {"money.json": json.dumps(MONEY)})

    assert [name for name, _ in parse_json_schema(text).fields] == ["a", "b"]


def test_a_column_may_be_called_ref() -> None:
    """The name of a column is no keyword."""
    text = json.dumps({"type": "object", "properties": {"$ref": LONG, "v": {"$ref": "#/properties/w"}, "w": LONG}})

    assert [name for name, _ in parse_json_schema(inlined(text, {})).fields] == ["$ref", "v", "w"]


@pytest.mark.parametrize(
    "part", [{"$ref": "absent.json"}, {"$ref": "#/definitions/Absent"}, {"$ref": "http://localhost:9/x.json"}]
)
def test_a_reference_to_nothing_is_refused(part: dict[str, Any]) -> None:
    """Nothing is fetched that the registry does not name."""
    with pytest.raises(LookupError):
        kind_of_v(part, {})


@pytest.mark.parametrize(
    "part",
    [
        pytest.param({"type": "array", "items": {"$ref": "#/properties/v"}}, id="itself"),
        pytest.param({"$ref": "#/properties/v"}, id="nothing but itself"),
    ],
)
def test_a_schema_that_refers_to_itself_is_refused(part: dict[str, Any]) -> None:
    """No table has such a column."""
    with pytest.raises(SchemaTooLargeError, match="itself"):
        kind_of_v(part, {})


def test_few_lines_cannot_ask_for_all_memory() -> None:
    """Forty parts that each refer twice to the next would be 2^40 parts."""
    pairs = {
        f"p{n}": {"type": "object", "properties": {side: {"$ref": f"#/definitions/p{n + 1}"} for side in "ab"}}
        for n in range(40)
    }
    with pytest.raises(SchemaTooLargeError, match="too many"):
        kind_of_v({"$ref": "#/definitions/p0"}, {}, definitions={**pairs, "p40": LONG})


def test_the_registrys_names_are_those_in_the_text(tmp_path: Path) -> None:
    """A schema's references name other schemas, and those theirs."""
    order = {"type": "object", "properties": {"price": {"$ref": "price.json"}}}
    put(tmp_path, 1, order, schemaType="JSON", references=[{**reference("shop.price"), "name": "price.json"}])
    money = [{**reference("shop.money"), "name": "money.json"}]
    put_version(tmp_path, "shop.price", 1, {"$ref": "money.json"}, schemaType="JSON", references=money)
    put_version(tmp_path, "shop.money", 1, MONEY, schemaType="JSON")

    found = RecordedRegistry(tmp_path).schema(1)

    assert found is not None
    assert parse_json_schema(found.text).get("price") == WireType(
        "record", "Money", fields=(("amount", WireType("long")),)
    )


def test_a_reference_to_nothing_leaves_the_schema_as_it_is(tmp_path: Path) -> None:
    """Its messages are held one by one; an error would end the table."""
    put(tmp_path, 1, {"type": "object", "properties": {"v": {"$ref": "#/absent"}}}, schemaType="JSON")

    found = RecordedRegistry(tmp_path).schema(1)

    assert found is not None
    with pytest.raises(WireSchemaInvalid):
        parse_json_schema(found.text)
