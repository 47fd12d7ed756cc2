"""JSON Schemas that refer to others: by name, by `$id`, by anchor, inside themselves; and those that go nowhere."""

import contextlib
import json
import time
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


def doubling(depth: int) -> dict[str, Any]:
    """So many parts that each refer twice to the next."""
    pairs = {
        f"p{n}": {"type": "object", "properties": {side: {"$ref": f"#/definitions/p{n + 1}"} for side in "ab"}}
        for n in range(depth)
    }
    return {**pairs, f"p{depth}": LONG}


def often(beside: dict[str, Any], **definitions: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A thousand columns that are one part."""
    use = {"$ref": "#/definitions/d"}
    columns = {f"c{n}": use for n in range(1000)}
    return {"p0": {"type": "object", "properties": columns}, "d": {**MONEY, **beside}, **definitions}


@pytest.mark.parametrize(
    "definitions",
    [
        pytest.param(doubling(40), id="2^40 parts"),
        pytest.param(often({"description": "x" * 10_000}), id="a long text"),
        pytest.param(often({"x" * 10_000: 1}), id="a long name"),
        pytest.param(often({"default": 10**4000}), id="a long number"),
        pytest.param(often({"$ref": "#/definitions/e", "description": "x" * 10_000}, e=MONEY), id="beside a reference"),
    ],
)
def test_few_lines_cannot_ask_for_all_memory(definitions: dict[str, Any]) -> None:
    """What is referred to is written out as often as it is used."""
    with pytest.raises(SchemaTooLargeError, match="too large"):
        kind_of_v({"$ref": "#/definitions/p0"}, {}, definitions=definitions)


@pytest.mark.parametrize(
    ("around", "target"),
    [
        pytest.param({"$anchor": "a"}, "#a", id="anchors"),
        pytest.param({"description": "x" * 2_000_000}, "#/$defs/m", id="a large part"),
    ],
)
def test_many_references_take_no_longer_than_their_number(around: dict[str, Any], target: str) -> None:
    """A document is not looked through again at each; the time is for a slow machine, and would be minutes."""
    columns = {f"c{n}": {"$ref": target} for n in range(2_000)}
    part = {"type": "string", **around}
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": columns}
    start = time.process_time()
    with contextlib.suppress(SchemaTooLargeError):
        inlined(json.dumps({**draft, "$defs": {"m": part}}), {})

    assert time.process_time() - start < 10


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


@pytest.mark.parametrize(
    "around",
    [
        pytest.param({}, id="a part that is not there"),
        pytest.param({"$id": 5}, id="an address that is a number"),
        pytest.param({"$schema": 5}, id="a draft that is a number"),
        pytest.param({"definitions": []}, id="definitions that are a list"),
    ],
)
def test_references_that_make_no_sense_leave_the_schema_as_it_is(tmp_path: Path, around: dict[str, Any]) -> None:
    """Its messages are held one by one; an error would end the table."""
    schema = {"type": "object", "properties": {"v": {"$ref": "#absent"}, "w": {"$ref": "#/absent"}}, **around}
    put(tmp_path, 1, schema, schemaType="JSON")

    found = RecordedRegistry(tmp_path).schema(1)

    assert found is not None
    with pytest.raises(WireSchemaInvalid):
        parse_json_schema(found.text)
