"""Apicurio Registry itself, asked by each of the names that it gives a schema."""

import hashlib
import json
import urllib.request
from typing import Any

from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.registry import ApicurioRegistry, ConfluentRegistry, RegistryAccess
from integration.chain.registry import Registry

MONEY = {"type": "record", "name": "Money", "namespace": "ids", "fields": [{"name": "amount", "type": "long"}]}
PRICE = {"type": "record", "name": "Price", "namespace": "ids", "fields": [{"name": "net", "type": "ids.Money"}]}


def _register(url: str, artifact: str, schema: object, references: list[dict[str, str]]) -> dict[str, Any]:
    """Register a schema by Apicurio's own interface and return what it says of it."""
    body = json.dumps({"content": json.dumps(schema), "references": references}).encode()
    request = urllib.request.Request(  # noqa: S310 - an address of this machine
        f"{url}/groups/ids/artifacts",
        data=body,
        headers={
            "Content-Type": "application/create.extended+json",
            "X-Registry-ArtifactType": "AVRO",
            "X-Registry-ArtifactId": artifact,
        },
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found


def test_apicurio_knows_a_schema_by_each_of_its_names(registry: Registry) -> None:
    """Content id, global id, hash of the content, and artifact; references are put into the text in each case."""
    _register(registry.native_url, "money", MONEY, [])
    reference = {"groupId": "ids", "artifactId": "money", "version": "1", "name": "ids.Money"}
    _register(registry.native_url, "price-before", PRICE, [reference])
    # The same content once more: its content id is the earlier one, its global id is not.
    told = _register(registry.native_url, "price", PRICE, [reference])
    content, number = told["contentId"], told["globalId"]
    assert content != number
    names = {
        "content": f"{content:016X}",
        "global": f"{number:016X}",
        "artifact": "/".join(part.encode().hex().upper() for part in ("ids", "price", "1")),
    }

    for address in (registry.url, registry.native_url):
        access = RegistryAccess(address)
        by_content, by_global = (ApicurioRegistry(access, f"apicurio-{kind}") for kind in ("content", "global"))  # type: ignore[arg-type]
        found = [
            by_content.schema(content),
            by_global.schema(number),
            *[by_content.schema(SchemaName(kind, text)) for kind, text in names.items()],  # type: ignore[arg-type]
        ]
        for schema in found:
            assert schema is not None
            assert schema.kind == "AVRO"
            assert json.loads(schema.text)["fields"][0]["type"] == MONEY
        assert by_global.schema(10**6) is None
        assert by_content.schema(SchemaName("hash", hashlib.sha256(b"none").hexdigest().encode().hex().upper())) is None


def test_apicurio_speaks_confluents_form_of_its_content_ids(registry: Registry) -> None:
    """The default of `registry.id`: its Confluent-compatible interface, references resolved by their subjects."""
    told = _register(registry.native_url, "plain", {**MONEY, "name": "Plain"}, [])

    found = ConfluentRegistry(RegistryAccess(registry.url)).schema(told["contentId"])

    assert found is not None
    assert json.loads(found.text)["name"] == "Plain"
