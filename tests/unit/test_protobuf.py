"""Schemas in Protobuf's language, from anyone: what they mean in Avro; nothing of the machine is read for them."""

import contextlib
import json
import time
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from google.protobuf import proto

from cdc_materializer.config.connections import RegistryConfig
from cdc_materializer.decode import proto_files
from cdc_materializer.decode.columns import column_type
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.decode.proto_files import bundle, compiled
from cdc_materializer.decode.protobuf import translation
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType, parse_avro
from cdc_materializer.registry import open_registry
from tests.protobufs import message_class

HEAD = 'syntax = "proto3"; '
EVERYTHING = (Path(__file__).parents[1] / "data" / "every_type.proto").read_text(encoding="utf-8")


def read(text: str, index: bytes | None = None) -> WireType:
    """The type of a schema's message."""
    return parse_avro(translation(text, index).avro)


def columns(text: str) -> dict[str, str]:
    """The columns that the fields of a schema's message become, those that can be NULL with a question mark."""
    return {name: column_type(kind) + "?" * kind.optional for name, kind in read(text).fields}


def begins(text: str, index: bytes | None = None) -> list[str]:
    """The bytes with which a message of a schema begins."""
    return translation(text, index).program.splitlines()[0].split()[1:]


@pytest.mark.parametrize(("exact", "kinds"), [(None, "EK"), (["at"], "EO"), (["clock"], "TK"), ([], "TO")])
def test_the_moments_of_a_key_are_not_cut(exact: list[str] | None, kinds: str) -> None:
    """Two nanoseconds of one microsecond would be one row: what the program calls such fields refuses them."""
    imports = 'import "google/protobuf/timestamp.proto"; import "google/type/timeofday.proto"; '
    text = HEAD + imports + "message Key { google.protobuf.Timestamp at = 1; google.type.TimeOfDay clock = 2; }"

    _, fields, *_ = translation(text, b"", exact).program.splitlines()

    assert [one.split(",")[1] for one in fields.split()[1:]] == list(kinds)


def test_each_type_becomes_its_column() -> None:
    """What stands for one value is that value; a message, a wrapper and what has presence can be NULL."""
    found = columns(EVERYTHING)

    assert found["i32"] == "int"
    assert found["u32"] == found["x32"] == "bigint"
    assert found["u64"] == found["x64"] == "decimal(20,0)"
    assert found["mood"] == "string"
    assert found["maybe_t"] == "string?"
    assert found["many_s"] == "array<int>"
    assert found["by_text"] == "map<string,bigint>"
    assert found["by_number"] == "array<struct<`key`:int,`value`:string>>"
    assert found["moments"] == "map<string,timestamp>"
    assert (found["text"], found["number"]) == ("string?", "bigint?")
    assert (found["moment"], found["day"], found["clock"]) == ("timestamp?", "date?", "bigint?")
    assert found["price"] == "decimal(10,2)?"
    assert (found["w_i32"], found["w_u64"]) == ("int?", "decimal(20,0)?")
    assert found["many_w"] == "array<string>"


def test_documentation_of_a_field_is_that_of_its_column() -> None:
    """Confluent's converter writes it beside the field."""
    assert read(EVERYTHING).get("price").doc == "what it costs"  # type: ignore[union-attr]  # it is there


def test_a_decimal_without_its_scale_has_one_of_its_own() -> None:
    """As Debezium's own have it, and more than one of them in a schema."""
    text = HEAD + 'import "confluent/type/decimal.proto"; message M { confluent.type.Decimal a = 1, b = 2; }'
    text = text.replace(" = 1, b", " = 1; confluent.type.Decimal b")

    assert columns(text) == {"a": "string?", "b": "string?"}


def test_every_field_of_the_former_language_tells_whether_it_is_there() -> None:
    """Its defaults are not data."""
    fields = "optional int32 a = 1 [default = 7]; required int32 b = 2; repeated int32 c = 3;"
    text = f'syntax = "proto2"; message M {{ {fields} }}'

    assert columns(text) == {"a": "int?", "b": "int", "c": "array<int>"}


def test_a_source_that_cannot_tell_null_has_it_where_a_zero_says_nothing() -> None:
    """A converter that was not told to keep NULL writes an LSN of 0, and an empty text for a sequence."""
    parts = "string sequence = 1; int64 lsn = 2; int64 pos = 3; string table = 4;"
    envelope = (
        HEAD + "message E { R after = 1; S source = 2; string op = 3; message R { string a = 1; } message S { %s } }"
    )

    lossy = read(envelope % parts)
    kept = read(envelope % parts.replace("string sequence", "optional string sequence"))

    def may_be_null(wire: WireType) -> list[str]:
        source = wire.get("source")
        return [name for name, kind in source.fields if kind.optional] if source is not None else []

    assert may_be_null(lossy) == ["sequence", "lsn", "table"]
    assert may_be_null(kept) == ["sequence"]
    assert lossy.get("after").get("a").optional is False  # type: ignore[union-attr]  # both are there


def ref(name: str) -> str:
    """Apicurio's `Ref` to a message, behind its length, as Google's library writes it."""
    written = BytesIO()
    proto.serialize_length_prefixed(message_class(HEAD + "message Ref { string name = 1; }", "Ref")(name=name), written)
    return written.getvalue().hex()


def test_the_first_message_is_meant_unless_another_is_an_envelope() -> None:
    """Of the first message's place there are two spellings; Apicurio's serializer writes its name (`Ref`)."""
    row = "message Row { int64 id = 1; }"
    envelope = "message Envelope { string op = 1; Row after = 2; }"

    assert begins(HEAD + row) == ["00", "0200", ref("Row")]
    assert begins(HEAD + row + envelope) == ["0202", ref("Envelope")]
    assert read(HEAD + row + envelope).get("op") is not None


def test_a_message_of_a_long_name() -> None:
    """The length of its `Ref` has two bytes then, as those of its name."""
    name = "M" * 300

    assert begins(f"{HEAD}message {name} {{ int64 id = 1; }}")[-1] == ref(name)


@pytest.mark.parametrize(
    ("index", "field"), [(b"\0", "a"), (b"", "a"), (b"\x02\x00", "a"), (b"\x02\x02", "b"), (b"\x04\x02\x00", "c")]
)
def test_a_header_says_which_message_it_is(index: bytes, field: str) -> None:
    """By its place in the file, from the outermost message inwards."""
    text = HEAD + "message A { int64 a = 1; } message B { int64 b = 1; message C { int64 c = 1; } }"

    assert [name for name, _ in read(text, index).fields] == [field]
    assert begins(text, index) == []


@pytest.mark.parametrize(
    "index", [b"\x02\x04", b"\x02\x01", b"\x02", b"\x04\x00", b"\x80", b"\x02\x00\x00", b"\x00\x00"]
)
def test_a_place_at_which_no_message_is(index: bytes) -> None:
    """Beyond the last, before the first, or bytes that are no place."""
    with pytest.raises(WireSchemaInvalid):
        translation(HEAD + "message A { int64 a = 1; } message B { int64 b = 1; }", index)


def test_a_name_in_a_header_keeps_the_message_beside_the_schema() -> None:
    """It is the same schema, but another decoder."""
    name = SchemaName.parse("id:0000002A/0202")

    assert name is not None
    assert (name.number, name.index, str(name)) == (42, b"\x02\x02", "id:0000002A/0202")
    assert name == SchemaName.of_id(42)
    assert SchemaName.of_id(42).index is None
    assert SchemaName("content", "000000000000002A").index == b""


def _deep(levels: int) -> str:
    """Messages in one another's fields."""
    return (
        HEAD
        + "".join(f"message M{at} {{ M{at + 1} a = 1; }} " for at in range(levels))
        + f"message M{levels} {{ int32 a = 1; }}"
    )


HOSTILE = {
    "none": "no schema",
    "empty": "",
    "no message": HEAD,
    "a message in itself": HEAD + "message M { M a = 1; }",
    "two in each other": HEAD + "message M { N a = 1; } message N { M a = 1; }",
    "nothing in it": HEAD + "message M {}",
    "a type that is nowhere": HEAD + "message M { N a = 1; }",
    "deep in one another": _deep(200),
    "very deep in one another": _deep(20_000),
    "blocks in one another": HEAD + "message M { int32 a = 1; " * 5000 + "}" * 5000,
    "a file of the machine": HEAD + 'import "/etc/passwd"; message M { int64 a = 1; }',
    "a file above": HEAD + 'import "../../../../etc/passwd"; message M { int64 a = 1; }',
    "a file beside": HEAD + 'import "secret.proto"; message M { Secret a = 1; }',
    "itself": HEAD + f'import "{proto_files._MAIN}"; message M {{ int64 a = 1; }}',
    "a group": 'syntax = "proto2"; message M { optional group G = 1 { optional int32 a = 1; } }',
    "an edition": 'edition = "2023"; message M { int32 a = 1; }',
    "options under Confluent's number": HEAD
    + 'import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions { bytes b = 1088; } '
    'message M { int64 a = 1 [(b) = "\\xff\\xff"]; }',
    "no text": HEAD + "message M { int64 a = 1; } \udcff",
    "too long": HEAD + "//" + "x" * proto_files.TEXT_MAX + "\nmessage M { int64 a = 1; }",
    "a bundle of nothing": '{"text": 5, "imports": {}}',
    "a bundle of anything": "{[",
    "a scale that is none": HEAD + 'import "confluent/meta.proto"; import "confluent/type/decimal.proto"; '
    'message M { confluent.type.Decimal a = 1 [(confluent.field_meta) = {params: [{key: "scale", value: "x"}]}]; }',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_that_nobody_means_well_with(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is none, soon, and whatever files are near."""
    (tmp_path / "secret.proto").write_text(HEAD + "message Secret { int64 a = 1; }", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = time.monotonic()

    with pytest.raises(WireSchemaInvalid):
        [column_type(kind) for _, kind in read(HOSTILE[name]).fields or [("", WireType("record"))]]

    assert time.monotonic() - before < 60


@pytest.mark.parametrize(
    "name", ["/etc/x.proto", "../x.proto", "a/../../x.proto", "a\\b.proto", "a\0b", "x" * 300, ".", ""]
)
def test_a_reference_under_a_name_that_no_import_has(name: str) -> None:
    """It is written nowhere."""
    with pytest.raises(WireSchemaInvalid):
        compiled(bundle(HEAD + "message M { int64 a = 1; }", {name: HEAD + "message N { int64 a = 1; }"}))


def test_references_that_are_in_each_others_way() -> None:
    """One's name is another one's folder."""
    with pytest.raises(WireSchemaInvalid):
        compiled(bundle(HEAD + "message M { int64 a = 1; }", {"a": HEAD, "a/b.proto": HEAD}))


def test_a_compiler_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is busy with."""
    monkeypatch.setattr(proto_files, "_COMPILE", "while True: pass")
    monkeypatch.setattr(proto_files, "SECONDS_MAX", 0.5)

    with pytest.raises(WireSchemaInvalid):
        compiled(HEAD + "message Endless { int64 a = 1; }")


M = HEAD + "message M { int64 a = 1; } // "
NOT_KNOWN = HEAD + "message M { N a = 1; } // "


@pytest.mark.parametrize("text", [M, NOT_KNOWN], ids=["a schema", "none"])
def test_a_schema_is_compiled_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch asks again, and so does each header that names another message of it."""
    protoc = Mock(wraps=proto_files._protoc)
    monkeypatch.setattr(proto_files, "_protoc", protoc)
    for _ in range(3):
        with contextlib.suppress(WireSchemaInvalid):
            compiled(text + "once")

    assert protoc.call_count == 1


def test_a_compiler_that_was_ended_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may have been busy."""
    monkeypatch.setattr(proto_files, "SECONDS_MAX", 0.001)
    with pytest.raises(WireSchemaInvalid):
        compiled(M + "ended")
    monkeypatch.undo()

    assert len(compiled(M + "ended")) == 1


@pytest.mark.parametrize(("limit", "value"), [("KEPT_MAX", 2), ("KEPT_LENGTH_MAX", 20)])
def test_what_is_kept_of_schemas_has_an_end(limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of a registry may be long, and many; those that were asked for last stay."""
    monkeypatch.setattr(proto_files, limit, value)
    kept = proto_files._Kept()
    for text in ("a" * 10, "b" * 10, "b" * 10):
        kept.add(text, "refused")
    assert kept.get("a" * 10) == "refused"
    kept.add("c" * 10, "refused")

    assert [kept.get(sign * 10) for sign in "abc"] == ["refused", None, "refused"]


def _register(folder: Path, subject: str, text: str, *references: dict[str, Any]) -> None:
    body = {"schema": text, "schemaType": "PROTOBUF", "references": list(references)}
    for path in (folder / "subjects" / subject / "versions" / "1.json", folder / "ids" / f"{subject}.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body), encoding="utf-8")


def test_a_schema_that_imports_others_of_the_registry(tmp_path: Path) -> None:
    """They come with it, and those that they import; Google's and Confluent's are there without being named."""
    _register(tmp_path, "base", HEAD + "package base; message Base { int64 x = 1; }")
    _register(
        tmp_path,
        "address",
        HEAD
        + 'package shop; import "base/base.proto"; message Address { base.Base base = 1; optional string street = 2; }',
        {"name": "base/base.proto", "subject": "base", "version": 1},
    )
    _register(
        tmp_path,
        "7",
        HEAD
        + 'import "shop/address.proto"; import "google/type/date.proto"; '
        + "message Order { int64 id = 1; shop.Address home = 2; google.type.Date day = 3; }",
        {"name": "shop/address.proto", "subject": "address", "version": 1},
    )
    registry = open_registry(RegistryConfig(files=tmp_path))
    assert registry is not None
    found = registry.schema(7)

    assert found is not None
    assert columns(found.text) == {
        "id": "bigint",
        "home": "struct<`base`:struct<`x`:bigint>,`street`:string>?",
        "day": "date?",
    }


def test_a_schema_whose_reference_is_missing_is_not_known_yet(tmp_path: Path) -> None:
    """It may be registered later."""
    reference = {"name": "base.proto", "subject": "base", "version": 1}
    _register(tmp_path, "7", HEAD + 'import "base.proto"; message M { Base a = 1; }', reference)
    registry = open_registry(RegistryConfig(files=tmp_path))

    assert registry is not None
    assert registry.schema(7) is None
