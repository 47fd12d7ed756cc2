"""What anyone can write into a topic: names that no schema has, which never take a table down."""

import gzip
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from cdc_materializer.config.connections import RegistryConfig
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.decode.wire import WireSchemaInvalid
from cdc_materializer.decode.writers import avro_writer
from cdc_materializer.errors import ConfigError, RegistryUnavailable
from cdc_materializer.registry import ApicurioRegistry, ConfluentRegistry, RecordedRegistry, RegistryAccess
from cdc_materializer.registry.references import Reference, Registered, standalone
from tests.unit.registries import Answers, record, serving

KEY = json.dumps(record("Key", id="long"))
CONTENT_1 = "/apis/registry/v3/ids/contentIds/1"
NOT_FOUND = (404, {"error_code": 404, "name": "ContentNotFoundException", "title": "No content"})
GUID = SchemaName("guid", "00" * 15 + "0A")
FINGERPRINT = SchemaName("fingerprint", "8F5C393F1AD57572", "orders-value")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Serve `Answers.table` and give the address."""
    with serving(monkeypatch, tmp_path) as address:
        yield address


def hashed(text: str) -> SchemaName:
    """A content hash as a header gives it."""
    return SchemaName("hash", text.encode().hex().upper())


def artifact(*parts: str) -> SchemaName:
    """Group, artifact and version as headers give them."""
    return SchemaName("artifact", "/".join(part.encode().hex().upper() for part in parts))


def nothing() -> dict[str, tuple[int, bytes]]:
    """The answers of a server that has no interface in Confluent's form."""
    questions = ("/subjects", "/subjects/orders-value/versions", f"/schemas/guids/{GUID.guid}")
    places = ("", "/apis/ccompat/v7", "/apis/registry/v3")
    return {place + question: (404, b"") for place in places for question in questions}


IMPOSSIBLE = {
    "negative content id": SchemaName("content", "F" * 16),
    "negative id": SchemaName("id", "80000000"),
    "no hash": hashed(""),
    "a hash that goes up": hashed(".."),
    "a huge hash": hashed("a" * 70_000),
    "a huge artifact": artifact("", "a" * 513, "1"),
    "a huge group": artifact("g" * 513, "a", "1"),
    "an artifact that goes up": artifact("..", "..", ".."),
    "an artifact that goes up where the way is unpacked": artifact("", "a/../../b", "1"),
    "an artifact without a version": artifact("", "a", ""),
    "an artifact of a branch": artifact("", "a", "branch=latest"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_a_name_that_no_schema_has_is_not_known_and_not_asked_for(
    server: str, tmp_path: Path, name: SchemaName
) -> None:
    """A header is the producer's: it neither chooses what a registry is asked nor breaks the question."""
    registries = (
        ApicurioRegistry(RegistryAccess(server), "apicurio-content"),
        ConfluentRegistry(RegistryAccess(server)),
        RecordedRegistry(tmp_path),
    )

    assert [registry.schema(name) for registry in registries] == [None, None, None]
    assert Answers.seen == []


@pytest.mark.parametrize("name", [hashed("a" * 400), artifact("", "a" * 400, "1"), artifact("", "a", "1" * 400)])
def test_a_name_that_no_file_can_have_is_not_recorded(tmp_path: Path, name: SchemaName) -> None:
    """File systems end at 255 bytes or so, names in registries do not."""
    (tmp_path / "contentHashes").mkdir()
    (tmp_path / "subjects" / "a" / "versions").mkdir(parents=True)

    assert RecordedRegistry(tmp_path).schema(name) is None


@pytest.mark.parametrize("status", [400, 405, 414, 422])
def test_a_name_that_the_registry_will_not_look_for_is_not_known(server: str, status: int) -> None:
    """Rules for names differ between registries and versions; what breaks one is one message's trouble."""
    places = [f"/apis/registry/{version}/groups/default/artifacts/a/versions/1" for version in ("v3", "v2")]
    Answers.table = {
        f"{places[0]}/content": (status, {"name": "InvalidArtifactIdException"}),
        places[1]: (status, {"name": "InvalidArtifactIdException"}),
        f"/schemas/guids/{GUID.guid}": (status, {"error_code": status}),
        "/subjects": (200, []),
    }

    assert ApicurioRegistry(RegistryAccess(server), "apicurio-content").schema(artifact("", "a", "1")) is None
    assert ConfluentRegistry(RegistryAccess(server)).schema(GUID) is None


@pytest.mark.parametrize("name", [GUID, FINGERPRINT], ids=["guid", "fingerprint"])
@pytest.mark.parametrize("address", ["", "/apis/registry/v3", "/apis/ccompat/v7"])
@pytest.mark.parametrize("is_first", [True, False])
def test_apicurio_does_not_know_confluents_names(
    server: str, address: str, name: SchemaName, *, is_first: bool
) -> None:
    """They are asked for in Confluent's form, which may be switched off: one such message never stops a table."""
    Answers.table = nothing() | {CONTENT_1: (200, KEY.encode()) if not is_first else NOT_FOUND}
    registry = ApicurioRegistry(RegistryAccess(server + address), "apicurio-content")
    if not is_first:
        assert registry.schema(1) is not None

    assert registry.schema(name) is None
    assert Answers.seen[-1].startswith("/apis/ccompat/v7/")


@pytest.mark.parametrize("address", ["", "/apis/registry/v3", "/apis/ccompat/v7"])
def test_a_guid_is_asked_for_in_confluents_form_of_apicurio(server: str, address: str) -> None:
    """Wherever the configuration points to, that form has an address of its own."""
    Answers.table = {
        CONTENT_1: NOT_FOUND,
        f"/apis/ccompat/v7/schemas/guids/{GUID.guid}": (200, {"schema": KEY}),
    }

    found = ApicurioRegistry(RegistryAccess(server + address), "apicurio-global").schema(GUID)

    assert found is not None
    assert found.text == KEY


def test_a_guid_at_a_wrong_address_is_no_unknown_schema(server: str) -> None:
    """Where neither Apicurio nor another registry answers, the run waits."""
    Answers.table = nothing()

    with pytest.raises(RegistryUnavailable, match="No schema registry answers at"):
        ApicurioRegistry(RegistryAccess(server), "apicurio-global").schema(GUID)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_apicurio_is_asked_again_where_it_may_answer_the_next_time(server: str, status: int) -> None:
    """Twice, as Confluent's client does, and no more."""
    Answers.table = {CONTENT_1: (200, KEY.encode())}
    Answers.failing = [status, status]

    assert ApicurioRegistry(RegistryAccess(server), "apicurio-content").schema(1) is not None
    assert Answers.seen[:3] == [CONTENT_1] * 3

    Answers.failing = [status] * 3
    with pytest.raises(RegistryUnavailable, match=rf"failed \(status {status}\)"):
        ApicurioRegistry(RegistryAccess(server), "apicurio-content").schema(1)


@pytest.mark.parametrize("kind", [ConfluentRegistry, ApicurioRegistry])
def test_an_address_that_is_none_is_a_mistake_in_the_configuration(
    server: str, kind: type[ConfluentRegistry | ApicurioRegistry]
) -> None:
    """Said without the password that stands in it."""
    registry = kind(RegistryAccess(server.replace("http://", "http://u:hush@") + "x"), "apicurio-content")

    with pytest.raises(ConfigError, match="cannot be asked with the settings") as caught:
        registry.schema(1)

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("kind", [ConfluentRegistry, ApicurioRegistry])
def test_an_answer_that_cannot_be_unpacked_is_an_error(
    server: str, monkeypatch: pytest.MonkeyPatch, kind: type[ConfluentRegistry | ApicurioRegistry]
) -> None:
    """It says that it is compressed, and is not."""
    send = Answers.end_headers
    monkeypatch.setattr(
        Answers, "end_headers", lambda self: (self.send_header("Content-Encoding", "gzip"), send(self))[1]
    )

    with pytest.raises(RegistryUnavailable, match="not a schema registry"):
        kind(RegistryAccess(server), "confluent").schema(1)


def test_of_versions_without_end_the_newest_are_looked_at(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a question to the registry."""
    monkeypatch.setattr("cdc_materializer.registry.confluent.VERSIONS_MAX", 3)
    versions = "/subjects/orders-value/versions"
    Answers.table = {versions: (200, list(range(1, 10)))}

    assert ConfluentRegistry(RegistryAccess(server)).schema(FINGERPRINT) is None
    assert Answers.seen == [versions, *[f"{versions}/{at}" for at in (9, 8, 7)]]


@pytest.mark.parametrize("listed", [5, {"a": 1}, ["a"], [None]])
def test_versions_that_are_none_are_an_answer_that_makes_no_sense(server: str, listed: object) -> None:
    """As any other is."""
    Answers.table = {"/subjects/orders-value/versions": (200, listed)}

    with pytest.raises(RegistryUnavailable, match="not a schema registry"):
        ConfluentRegistry(RegistryAccess(server)).schema(FINGERPRINT)


LONG = json.dumps(record("Key", **{f"c{at}": "long" for at in range(50)}))
CONFLUENTS_1 = "/schemas/ids/1"


def without_end() -> Iterator[bytes]:
    """An answer that goes on."""
    return itertools.repeat(b" " * 1000)


@pytest.mark.parametrize("form", ["long", "packed", "without end"])
@pytest.mark.parametrize("kind", [ConfluentRegistry, ApicurioRegistry])
def test_a_schema_that_is_longer_than_any_is_one_that_cannot_be_read(
    server: str, monkeypatch: pytest.MonkeyPatch, kind: type[ConfluentRegistry | ApicurioRegistry], form: str
) -> None:
    """What an answer takes of memory has an end, also where few bytes say much; its messages are held."""
    monkeypatch.setattr("cdc_materializer.registry.access.ANSWER_BYTES_MAX", 1000)
    text = LONG.encode() if kind is ApicurioRegistry else json.dumps({"schema": LONG}).encode()
    if form == "packed":
        send = Answers.end_headers
        monkeypatch.setattr(
            Answers, "end_headers", lambda self: (self.send_header("Content-Encoding", "gzip"), send(self))[1]
        )
    content = {"long": text, "packed": gzip.compress(text), "without end": without_end}[form]
    Answers.table = {CONFLUENTS_1: (200, content), CONTENT_1: (200, content), f"{CONTENT_1}/references": (200, b"[]")}

    found = kind(RegistryAccess(server), "apicurio-content").schema(1)

    assert found is not None
    with pytest.raises(WireSchemaInvalid):
        avro_writer("id:00000001", found.text)


@pytest.mark.parametrize("kind", [ConfluentRegistry, ApicurioRegistry])
def test_a_refusal_at_great_length_is_a_refusal(
    server: str, monkeypatch: pytest.MonkeyPatch, kind: type[ConfluentRegistry | ApicurioRegistry]
) -> None:
    """Its status says what to do."""
    monkeypatch.setattr("cdc_materializer.registry.access.ANSWER_BYTES_MAX", 1000)
    Answers.table = dict.fromkeys((CONFLUENTS_1, CONTENT_1), (403, b" " * 5000))

    with pytest.raises(RegistryUnavailable, match="refused access"):
        kind(RegistryAccess(server), "apicurio-content").schema(1)


def test_more_than_one_answer_may_be_too_long(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of all subjects, which tells an unknown schema from a wrong address, does so at any length."""
    monkeypatch.setattr("cdc_materializer.registry.access.ANSWER_BYTES_MAX", 1000)
    unknown = (404, {"error_code": 404})
    Answers.table = {CONFLUENTS_1: unknown, "/subjects": (200, without_end)}

    assert ConfluentRegistry(RegistryAccess(server)).schema(1) is None

    Answers.table = {"/subjects/orders-value/versions": (200, without_end)}
    assert ConfluentRegistry(RegistryAccess(server)).schema(FINGERPRINT) is None

    Answers.table = nothing() | {CONTENT_1: (200, without_end)}
    assert ApicurioRegistry(RegistryAccess(server), "apicurio-content").schema(GUID) is None


@pytest.mark.parametrize("kind", [ConfluentRegistry, ApicurioRegistry])
def test_an_answer_that_comes_drop_by_drop_is_given_up(
    server: str, kind: type[ConfluentRegistry | ApicurioRegistry]
) -> None:
    """The time is one for the whole answer, not for each of its parts."""

    def drops() -> Iterator[bytes]:
        for _ in range(100):
            threading.Event().wait(0.05)
            yield b" "

    Answers.table = {CONFLUENTS_1: (200, drops), CONTENT_1: (200, drops)}

    with pytest.raises(RegistryUnavailable, match=r"did not answer within 0\.2 s"):
        kind(RegistryAccess(server, timeout_seconds=0.2), "apicurio-content").schema(1)


@pytest.mark.parametrize(
    "url",
    ["http://h:99x9", "http://[::1", "http://:8081", "http://a:8081,http://b:9x", "http://a,http://u:p@b", "http://a,"],
)
def test_an_address_that_is_none_is_refused_with_the_configuration(url: str) -> None:
    """Also the second of several."""
    with pytest.raises(ValueError, match=r"address that begins|has a user or a password"):
        RegistryConfig.model_validate({"url": url})

    assert RegistryConfig(url="http://a:8081, https://b:8081/path").url is not None


def endless(version: int, rest: str = "") -> Registered:
    """A version that builds on the next one."""
    return Registered(KEY + rest, "AVRO", (Reference(f"v{version + 1}", "v", version + 1),))


@pytest.mark.parametrize(
    ("answer", "asked"),
    [
        pytest.param(lambda one: endless(int(one.version)), 1_001, id="each version has one more"),
        pytest.param(lambda one: endless(int(one.version), " " * 1_000_000), 4, id="long texts"),
        pytest.param(
            lambda _: Registered(KEY, "AVRO", tuple(Reference(f"n{at}", "v", 7) for at in range(2_000))),
            1,
            id="one schema by many names",
        ),
    ],
)
def test_references_have_an_end(answer: Callable[[Reference], Registered], asked: int) -> None:
    """What a registry says of its schemas is not trusted: one that refers to too much stays as it is."""
    fetch = Mock(side_effect=answer)
    schema = Registered(json.dumps(record("A", b="B")), "AVRO", (Reference("B", "v", 1),))

    assert standalone(schema, fetch) == schema.text
    assert fetch.call_count == asked


def test_a_text_by_many_names_is_written_once_for_each() -> None:
    """Which counts: of Protobuf each import is a file."""
    names = tuple(Reference(f"{at}.proto", "v", 1) for at in range(100))
    schema = Registered('import "0.proto";', "PROTOBUF", names)

    assert standalone(schema, lambda _: Registered("x" * 100_000, "PROTOBUF", ())) == schema.text
