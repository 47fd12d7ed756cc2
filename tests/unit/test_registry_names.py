"""Schemas by all the names that messages have for them, in recorded folders and over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import fastavro.schema
import pytest

from cdc_materializer.config.connections import RegistryConfig
from cdc_materializer.decode.naming import SchemaName, named_in_bytes
from cdc_materializer.errors import RegistryUnavailable
from cdc_materializer.registry import (
    ApicurioRegistry,
    ConfluentRegistry,
    RecordedRegistry,
    RegisteredSchema,
    RegistryAccess,
    open_registry,
)
from tests.unit.registries import Answers, put, put_version, record, reference, round_trip, serving

KEY = json.dumps({**record("Key", id="long"), "namespace": "shop.orders"})
GUID = "00000000-0000-0000-0000-00000000000a"
NOT_FOUND = (404, {"error_code": 404, "name": "ContentNotFoundException", "title": "No content"})
Ids = Literal["confluent", "apicurio-content", "apicurio-global", "apicurio-legacy"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Serve `Answers.table` and give the address."""
    with serving(monkeypatch, tmp_path) as address:
        yield address


def named(kind: str, text: str | int | bytes) -> SchemaName:
    """A name as a header or the bytes give it."""
    octets = text if isinstance(text, bytes) else text.to_bytes(8) if isinstance(text, int) else text.encode()
    found = SchemaName.parse(f"{kind}:{octets.hex().upper()}")
    assert found is not None
    return found


def artifact(*parts: str) -> SchemaName:
    """Group, artifact and version as Apicurio's headers give them."""
    return SchemaName("artifact", "/".join(part.encode().hex().upper() for part in parts))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (SchemaName.of_id(17), "id:17"),
        (named("content", 17), "content:17"),
        (named("global", 17), "global:17"),
        (named("guid", bytes(15) + b"\n"), f"guid:{GUID}"),
        (named("fingerprint", bytes(7) + b"\xaf"), "fingerprint:00000000000000AF"),
        (named("hash", "a1"), "hash:a1"),
        (artifact("shop", "orders-value", "3"), "artifact:shop/orders-value/3"),
        (SchemaName("id", "00000011", told="00"), "id:17"),
    ],
)
def test_a_name_is_shown_as_a_registry_is_asked_by_it(name: SchemaName, shown: str) -> None:
    """Whoever reads it can look the schema up."""
    assert name.shown == shown


@pytest.mark.parametrize(
    ("octets", "id_bytes", "selector", "datum"),
    [
        ("00000000110203", 4, "id:00000011", "0203"),
        ("0000000011", 4, "id:00000011", ""),
        ("007FFFFFFF02", 4, "id:7FFFFFFF", "02"),
        ("00000000000000001102", 8, "id:0000000000000011", "02"),
        ("01" + "00" * 15 + "0A02", 4, f"guid:{'00' * 15}0A", "02"),
        ("C3018F5C393F1AD5757206", 4, "fingerprint:8F5C393F1AD57572", "06"),
    ],
)
def test_bytes_name_their_schema(octets: str, id_bytes: int, selector: str, datum: str) -> None:
    """The three forms that begin with a byte of their own, and where their datum begins."""
    found, begin = named_in_bytes(bytes.fromhex(octets), id_bytes)

    assert (str(found), octets[2 * begin :]) == (selector, datum)
    assert SchemaName.parse(selector) == found


@pytest.mark.parametrize(
    ("octets", "id_bytes"),
    [("", 4), ("00FFFFFFFF02", 4), ("00000000", 4), ("0000000011", 8), ("01" + "00" * 15, 4), ("C301", 4), ("7B", 4)],
)
def test_other_bytes_name_no_schema(octets: str, id_bytes: int) -> None:
    """Too few, or none of the forms: the datum begins at once."""
    assert named_in_bytes(bytes.fromhex(octets), id_bytes) == (None, 0)


@pytest.mark.parametrize("selector", ["json", "unknown", "block:00AB:17", "cloudevent", ""])
def test_other_selectors_name_no_schema(selector: str) -> None:
    """JSON's selectors are never asked for in a registry."""
    assert SchemaName.parse(selector) is None


def test_a_guid_is_found_in_a_folder_of_its_own(tmp_path: Path) -> None:
    """`guids/<guid>.json`, the GUID as registries write it."""
    put(tmp_path, 1, KEY)
    (tmp_path / "guids").mkdir()
    (tmp_path / "ids" / "1.json").rename(tmp_path / "guids" / f"{GUID}.json")

    found = RecordedRegistry(tmp_path).schema(named("guid", bytes.fromhex(GUID.replace("-", ""))))

    assert found is not None
    assert found.text == KEY


@pytest.mark.parametrize(
    ("ids", "kind", "known"),
    [
        ("confluent", "content", True),
        ("confluent", "global", False),
        ("apicurio-content", "content", True),
        ("apicurio-content", "global", False),
        ("apicurio-global", "content", False),
        ("apicurio-global", "global", True),
        ("apicurio-legacy", "global", True),
    ],
)
def test_recorded_ids_are_of_the_configured_kind(tmp_path: Path, ids: Ids, kind: str, known: bool) -> None:  # noqa: FBT001
    """Content id 7 and global id 7 are two schemas; a header that says which one it is gets no other."""
    put(tmp_path, 7, KEY)

    registry = RecordedRegistry(tmp_path, ids)

    assert (registry.schema(named(kind, 7)) is not None) is known
    assert registry.schema(7) is not None


def test_headers_names_have_folders_of_their_own(tmp_path: Path) -> None:
    """Where a topic has ids of another kind too, they can be recorded beside."""
    for folder, name in (("contentIds", "7"), ("globalIds", "8"), ("contentHashes", "ab12")):
        put(tmp_path, 1, record("R", **{folder: "int"}))
        (tmp_path / folder).mkdir()
        (tmp_path / "ids" / "1.json").rename(tmp_path / folder / f"{name}.json")
    registry = RecordedRegistry(tmp_path, "apicurio-global")

    for wanted, folder in (
        (named("content", 7), "contentIds"),
        (named("global", 8), "globalIds"),
        (named("hash", "ab12"), "contentHashes"),
    ):
        found = registry.schema(wanted)
        assert found is not None
        assert folder in found.text
    assert registry.schema(named("hash", "../ids/1")) is None


def test_an_artifact_is_a_subject_of_the_default_group(tmp_path: Path) -> None:
    """As in Apicurio's own Confluent-compatible interface; names from a message never lead out of the folder."""
    put_version(tmp_path, "orders-value", 3, record("Value", id="long"))
    put_version(tmp_path, "outside", 3, record("Value", id="long"))
    registry = RecordedRegistry(tmp_path)

    assert registry.schema(artifact("", "orders-value", "3")) is not None
    assert registry.schema(artifact("default", "orders-value", "3")) is not None
    assert registry.schema(artifact("other", "orders-value", "3")) is None
    assert registry.schema(artifact("", "orders-value", "")) is None
    assert registry.schema(artifact("", "../subjects/outside", "3")) is None


def fingerprint(schema: object) -> SchemaName:
    """The name of a schema in Avro's single-object encoding."""
    form = fastavro.schema.to_parsing_canonical_form(schema)
    return named("fingerprint", bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO")))


def test_a_fingerprint_is_that_of_the_specification() -> None:
    """The Avro specification's own example, little-endian as on the wire."""
    assert str(fingerprint("int")) == "fingerprint:8F5C393F1AD57572"


def test_a_fingerprint_is_found_among_the_recorded_schemas(tmp_path: Path) -> None:
    """Documentation is no part of it, referenced schemas are; what is no Avro is passed over."""
    value = {**record("Value", price="Money"), "doc": "what is sold"}
    put(tmp_path, 1, "message M {}", schemaType="PROTOBUF")
    put(tmp_path, 2, record("Other", x="int"))
    put(tmp_path, 3, value, references=[reference("Money")])
    put_version(tmp_path, "Money", 1, record("Money", amount="long"))
    whole = record("Value", price=record("Money", amount="long"))
    registry = RecordedRegistry(tmp_path)

    found = registry.schema(fingerprint(whole))

    assert found is not None
    assert round_trip(found.text, {"price": {"amount": 1}}) == {"price": {"amount": 1}}
    assert registry.schema(fingerprint(record("Value", id="string"))) is None


def version(subject: str, number: int, schema: object) -> tuple[int, dict[str, Any]]:
    """What a registry answers for a version of a subject."""
    return 200, {"subject": subject, "id": number, "version": number, "schema": json.dumps(schema)}


def test_a_fingerprint_is_found_among_the_versions_of_the_topics_subject(server: str) -> None:
    """Each version is asked for once, the newest first; without a subject nothing is asked."""
    old, new = record("Value", id="long"), record("Value", id="long", name="string")
    Answers.table = {
        "/subjects/orders-value/versions": (200, [1, 2]),
        "/subjects/orders-value/versions/1": version("orders-value", 1, old),
        "/subjects/orders-value/versions/2": version("orders-value", 2, new),
    }
    registry = ConfluentRegistry(RegistryAccess(server))
    wanted = SchemaName("fingerprint", fingerprint(old).text, "orders-value")

    assert registry.schema(fingerprint(old)) is None
    assert Answers.seen == []
    found = registry.schema(wanted)

    assert found is not None
    assert json.loads(found.text) == old
    assert registry.schema(wanted) is found
    assert Answers.seen[1:] == [f"/subjects/orders-value/versions/{number}" for number in (2, 1)]


def test_a_guid_is_asked_for_by_its_own_address(server: str) -> None:
    """`GET /schemas/guids/<guid>`; one that is not known is None."""
    Answers.table = {f"/schemas/guids/{GUID}": (200, {"schema": KEY, "schemaType": "AVRO"})}
    registry = ConfluentRegistry(RegistryAccess(server))

    found = registry.schema(named("guid", bytes.fromhex(GUID.replace("-", ""))))

    assert found is not None
    assert found.text == KEY
    assert registry.schema(named("guid", b"\0" * 16)) is None


@pytest.mark.parametrize(
    ("ids", "wanted", "path"),
    [
        ("apicurio-content", 7, "ids/contentIds/7"),
        ("apicurio-global", 7, "ids/globalIds/7"),
        ("apicurio-legacy", 7, "ids/globalIds/7"),
        ("apicurio-content", named("global", 7), "ids/globalIds/7"),
        ("apicurio-global", named("content", 7), "ids/contentIds/7"),
        ("apicurio-global", named("hash", "ab12"), "ids/contentHashes/ab12"),
        ("apicurio-content", artifact("", "a b", "2"), "groups/default/artifacts/a%20b/versions/2/content"),
    ],
)
@pytest.mark.parametrize("address", ["", "/", "/apis/ccompat/v7", "/apis/registry/v2", "/apis/registry/v3/"])
def test_apicurio_is_asked_by_the_kind_of_the_name(
    server: str, ids: Ids, wanted: int | SchemaName, path: str, address: str
) -> None:
    """Whichever of its interfaces the configuration names, only its own tells the two kinds of ids apart."""
    Answers.table = {f"/apis/registry/v3/{path}": (200, KEY.encode())}

    found = ApicurioRegistry(RegistryAccess(server + address), ids).schema(wanted)

    assert found == RegisteredSchema(wanted, "AVRO", KEY)


def test_apicurio_2_is_asked_by_its_own_version(server: str) -> None:
    """Its answers have the text of a version at another address; references are resolved there too."""
    order = record("Order", price="Money")
    referred = [{"name": "Money", "groupId": "common", "artifactId": "money", "version": "1"}]
    Answers.table = {
        "/apis/registry/v3/ids/contentIds/7": (404, b"<html>nothing here</html>"),
        "/apis/registry/v2/ids/contentIds/7": (200, order),
        "/apis/registry/v2/ids/contentIds/7/references": (200, referred),
        "/apis/registry/v2/groups/common/artifacts/money/versions/1": (200, record("Money", amount="long")),
    }

    found = ApicurioRegistry(RegistryAccess(server), "apicurio-content").schema(7)

    assert found is not None
    assert round_trip(found.text, {"price": {"amount": 1}}) == {"price": {"amount": 1}}


def test_references_are_resolved_in_apicurio_3(server: str) -> None:
    """A referenced version's text is below `content`; two levels deep, and a group that is not told is `default`."""
    base = "/apis/registry/v3"
    money, price = record("Money", amount="long"), record("Price", net="Money", gross="Money")
    Answers.table = {
        f"{base}/ids/globalIds/7": (200, record("Order", price="Price")),
        f"{base}/ids/globalIds/7/references": (200, [{"name": "Price", "artifactId": "price", "version": "4"}]),
        f"{base}/groups/default/artifacts/price/versions/4/content": (200, price),
        f"{base}/groups/default/artifacts/price/versions/4/references": (
            200,
            [{"name": "Money", "groupId": None, "artifactId": "money", "version": "1"}],
        ),
        f"{base}/groups/default/artifacts/money/versions/1/content": (200, money),
    }

    found = ApicurioRegistry(RegistryAccess(server), "apicurio-global").schema(7)

    assert found is not None
    value = {"price": {"net": {"amount": 1}, "gross": {"amount": 2}}}
    assert round_trip(found.text, value) == value


@pytest.mark.parametrize(
    ("kind", "text", "name", "referenced", "told"),
    [
        (
            "JSON",
            '{"type": "object", "properties": {"price": {"$ref": "money.json"}}}',
            "money.json",
            '{"type": "integer"}',
            '"price": {"type": "integer"}',
        ),
        (
            "PROTOBUF",
            'syntax = "proto3"; import "money.proto"; message Order { Money price = 1; }',
            "money.proto",
            'syntax = "proto3"; message Money { int64 amount = 1; }',
            "int64 amount",
        ),
    ],
)
def test_references_of_every_kind_are_resolved_in_apicurio(
    server: str, kind: str, text: str, name: str, referenced: str, told: str
) -> None:
    """A schema that refers to another can be read with it alone."""
    base = "/apis/registry/v3"
    Answers.table = {
        f"{base}/ids/contentIds/7": (200, text.encode()),
        f"{base}/ids/contentIds/7/references": (200, [{"name": name, "artifactId": "money", "version": "1"}]),
        f"{base}/groups/default/artifacts/money/versions/1/content": (200, referenced.encode()),
    }

    found = ApicurioRegistry(RegistryAccess(server), "apicurio-content").schema(7)

    assert found is not None
    assert (found.kind, told in found.text) == (kind, True)


def test_an_id_that_apicurio_does_not_know_is_not_asked_for_as_one_of_another_kind(server: str) -> None:
    """Its Confluent-compatible interface knows a content id of that number, which is another schema."""
    Answers.table = {
        "/apis/registry/v3/ids/globalIds/7": NOT_FOUND,
        "/apis/ccompat/v7/schemas/ids/7": (200, {"schema": KEY}),
    }
    registry = ApicurioRegistry(RegistryAccess(f"{server}/apis/ccompat/v7"), "apicurio-global")

    assert registry.schema(7) is None

    Answers.table["/apis/registry/v3/ids/globalIds/7"] = (200, KEY.encode())
    assert registry.schema(7) is not None


def test_a_registry_without_apicurios_interface_is_asked_in_confluents_form(server: str) -> None:
    """A copy of the schemas in another registry, under the ids that the messages have."""
    Answers.table = {"/schemas/ids/7": (200, {"schema": KEY})}
    registry = ApicurioRegistry(RegistryAccess(server), "apicurio-legacy")

    assert registry.schema(7) == RegisteredSchema(SchemaName.of_id(7), "AVRO", KEY)
    assert registry.schema(named("content", 7)) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}', "JSON"),
        ('{"type": "object", "properties": {"id": {"type": "integer"}}}', "JSON"),
        ('{"oneOf": [{"type": "null"}, {"type": "object", "properties": {"id": {"type": "integer"}}}]}', "JSON"),
        ('{"type": "object", "allOf": [{"properties": {"id": {"type": "integer"}}}]}', "JSON"),
        ('{"$ref": "order.json"}', "JSON"),
        ('{"type": "integer"}', "JSON"),
        ('{"type": "string"}', "AVRO"),
        ('{"type": ["null", "string"]}', "AVRO"),
        ('syntax = "proto3"; message Order { int64 id = 1; }', "PROTOBUF"),
        ('["null", "string"]', "AVRO"),
    ],
)
def test_the_kind_of_a_schema_of_apicurio_is_told_by_its_text(server: str, text: str, kind: str) -> None:
    """Its answer by id does not name it."""
    Answers.table = {"/apis/registry/v3/ids/contentIds/7": (200, text.encode())}

    found = ApicurioRegistry(RegistryAccess(server), "apicurio-content").schema(7)

    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(("status", "said"), [(401, "refused access"), (500, "failed")])
def test_a_refusal_of_apicurio_names_the_status(server: str, status: int, said: str) -> None:
    """It is no 'not found': the run stops and goes on from there later."""
    Answers.table = {"/apis/registry/v3/ids/contentIds/7": (status, {"message": "hush"})}

    with pytest.raises(RegistryUnavailable, match=rf"{said} \(status {status}\)") as caught:
        ApicurioRegistry(RegistryAccess(server, basic_auth=("a", "hush")), "apicurio-content").schema(7)

    assert "hush" not in str(caught.value)
    assert Answers.headers_seen[0]["Authorization"].startswith("Basic ")


def test_an_apicurio_that_is_down_is_an_error() -> None:
    """Nothing listens there."""
    with pytest.raises(RegistryUnavailable, match="cannot be reached"):
        ApicurioRegistry(RegistryAccess("http://127.0.0.1:9"), "apicurio-content").schema(7)


def test_the_configured_ids_decide_how_a_registry_is_asked(tmp_path: Path) -> None:
    """`registry.id` says which client is opened, and how wide ids are in front of a datum."""
    widths = {"confluent": 4, "apicurio-content": 4, "apicurio-global": 4, "apicurio-legacy": 8}
    for ids, width in widths.items():
        asked = open_registry(RegistryConfig.model_validate({"url": "http://localhost:8081", "id": ids}))
        recorded = open_registry(RegistryConfig.model_validate({"files": tmp_path, "id": ids}))
        assert isinstance(asked, ConfluentRegistry if ids == "confluent" else ApicurioRegistry)
        assert recorded is not None
        assert asked.id_bytes == recorded.id_bytes == width
