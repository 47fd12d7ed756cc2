"""How messages of golden cases name their schemas, in their first bytes or in a header. `README.md` lists the ways."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import fastavro.schema

from cdc_materializer.decode.naming import LEGACY_ID_BYTES, MAGIC_GUID, MAGIC_ID, MAGIC_SINGLE_OBJECT
from cdc_materializer.testing import avro_datum, confluent_avro
from tests.cases.schemas import guid_of

#: The bytes of a key or value, and the headers that go with them.
Framed: TypeAlias = tuple[bytes, list[tuple[str, bytes | None]]]


def framed_protobuf(framing: str, side: str, number: int, octets: bytes, name: str) -> Framed:
    """A Protobuf message that names its schema, and that it is the first message of it, which has a name."""
    named, index = MAGIC_ID + number.to_bytes(4), b"\0"
    match framing:
        case "id":
            return named + index + octets, []
        case "apicurio":
            ref = b"\x0a" + bytes([len(name)]) + name.encode()
            return named + bytes([len(ref)]) + ref + octets, []
        case "bare":
            return named + octets, []
        case "guid":
            return MAGIC_GUID + guid_of(number).bytes + index + octets, []
        case "guid-header":
            named = MAGIC_GUID + guid_of(number).bytes
        case _:
            assert framing == "id-header", f"cases know no framing {framing}"
    return octets, [(f"__{side}_schema_id", named + index)]


def framed_avro(framing: str, side: str, number: int, schema: Mapping[str, Any], datum: Any) -> Framed:  # noqa: ANN401 - JSON
    """An Avro datum that names its schema."""
    octets = avro_datum(schema, datum)
    if framing == "legacy":
        return confluent_avro(number, schema, datum, id_bytes=LEGACY_ID_BYTES), []
    if framing == "guid":
        return MAGIC_GUID + guid_of(number).bytes + octets, []
    if framing == "single-object":
        form = fastavro.schema.to_parsing_canonical_form(dict(schema))
        named = bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO"))
        return MAGIC_SINGLE_OBJECT + named + octets, []
    headers = {
        "guid-header": (f"__{side}_schema_id", MAGIC_GUID + guid_of(number).bytes),
        "id-header": (f"__{side}_schema_id", MAGIC_ID + number.to_bytes(4)),
        "content-header": (f"apicurio.{side}.contentId", number.to_bytes(8)),
        "global-header": (f"apicurio.{side}.globalId", number.to_bytes(8)),
        "json-header": (f"apicurio.{side}.encoding", b"JSON"),
    }
    if framing in headers:
        return octets, [headers[framing]]
    assert framing == "id", f"cases know no framing {framing}"
    return confluent_avro(number, schema, datum), []
