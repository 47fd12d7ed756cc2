"""Registries: recorded files, and the real client against a small HTTP server on this machine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.config.connections import RegistryConfig
from cdc_materializer.decode.wire import WireSchemaInvalid
from cdc_materializer.decode.writers import avro_writer
from cdc_materializer.errors import ConfigError, RegistryUnavailable
from cdc_materializer.registry import (
    ConfluentRegistry,
    RecordedRegistry,
    RegisteredSchema,
    RegistryAccess,
    open_registry,
)
from tests.unit.registries import Answers, put, put_version, record, reference, round_trip, serving

KEY = '{"type":"record","name":"Key","namespace":"shop.orders","fields":[{"name":"id","type":"long"}]}'


def test_a_recorded_schema_is_found_as_it_was_registered(tmp_path: Path) -> None:
    """Text and kind are those of the recorded answer; a kind that is left out is Avro."""
    put(tmp_path, 7, KEY, references=[])
    put(tmp_path, 8, "{}", schemaType="JSON")

    registry = RecordedRegistry(tmp_path)

    assert registry.schema(7) == RegisteredSchema(7, "AVRO", KEY)
    assert registry.schema(8) == RegisteredSchema(8, "JSON", "{}")


def test_an_unknown_id_is_none_until_it_is_registered(tmp_path: Path) -> None:
    """That an id is unknown is asked again every time; that it is known, never."""
    put(tmp_path, 1, KEY)
    registry = RecordedRegistry(tmp_path)
    assert registry.schema(7) is None

    path = put(tmp_path, 7, KEY)
    assert registry.schema(7) is not None
    path.unlink()

    assert registry.schema(7) is not None


@pytest.mark.parametrize("content", ["", "secret", "[]", "{}", '{"schema": 7}', '{"schema": "{}", "references": [{}]}'])
def test_rubbish_in_a_recorded_schema_is_named_by_its_file(tmp_path: Path, content: str) -> None:
    """The error names the file and shows nothing of it."""
    put(tmp_path, 7, KEY).write_text(content)

    with pytest.raises(RegistryUnavailable, match=r"ids/7\.json") as caught:
        RecordedRegistry(tmp_path).schema(7)

    assert "secret" not in str(caught.value)


def test_a_missing_folder_is_not_an_unknown_schema(tmp_path: Path) -> None:
    """Without its folder the registry cannot be asked."""
    with pytest.raises(RegistryUnavailable, match=r"registry\.files"):
        RecordedRegistry(tmp_path / "absent").schema(1)


def test_references_are_written_out_where_they_are_first_used(tmp_path: Path) -> None:
    """Two levels deep, a type that two others refer to is defined once, and the text decodes by itself."""
    money = {**record("Money", amount="long"), "namespace": "common"}
    price = {**record("Price", net="common.Money", gross="common.Money"), "namespace": "shop"}
    discount = {**record("Discount", off=["null", "common.Money"]), "namespace": "shop"}
    order = {
        **record(
            "Order",
            discounts={"type": "array", "items": "Discount"},
            price="Price",
            by={"type": "map", "values": "Price"},
        ),
        "namespace": "shop",
    }
    put(tmp_path, 9, order, references=[reference("shop.Price"), reference("shop.Discount", 2)])
    put_version(tmp_path, "shop.Price", 1, price, references=[reference("common.Money")])
    put_version(tmp_path, "shop.Discount", 2, discount, references=[reference("common.Money")])
    put_version(tmp_path, "common.Money", 1, money)

    found = RecordedRegistry(tmp_path).schema(9)

    assert found is not None
    assert found.text.count('"name": "Money"') == found.text.count('"name": "Price"') == 1
    value = {"discounts": [{"off": {"amount": 1}}], "price": {"net": {"amount": 2}, "gross": {"amount": 3}}, "by": {}}
    assert round_trip(found.text, value) == value


@pytest.mark.parametrize("order", [("home", "born"), ("born", "home")])
def test_a_referenced_type_keeps_its_namespace(tmp_path: Path, order: tuple[str, str]) -> None:
    """Types inside a referenced one go by their own names, and are defined once, whichever is used first."""
    types = {"home": "geo.Address", "born": ["null", "geo.City"]}
    customer = {**record("Customer", **{name: types[name] for name in order}), "namespace": "shop"}
    put(tmp_path, 1, customer, references=[reference("geo.Address")])
    address = record("Address", city=record("City", name="string"), twin=["null", "City"])
    put_version(tmp_path, "geo.Address", 1, {**address, "namespace": "geo"})

    found = RecordedRegistry(tmp_path).schema(1)

    assert found is not None
    assert found.text.count('"name": "City"') == 1
    value = {"home": {"city": {"name": "a"}, "twin": None}, "born": {"name": "b"}}
    assert round_trip(found.text, value) == value


def test_a_type_without_a_namespace_can_be_referred_to(tmp_path: Path) -> None:
    """As in the Java parser, a name that the namespace does not have is looked up without one."""
    put(tmp_path, 1, {**record("Customer", size="Size"), "namespace": "shop"}, references=[reference("Size")])
    put_version(tmp_path, "Size", 1, {"type": "enum", "name": "Size", "symbols": ["S", "L"]})

    found = RecordedRegistry(tmp_path).schema(1)

    assert found is not None
    assert round_trip(found.text, {"size": "L"}) == {"size": "L"}


def test_a_schema_that_refers_to_an_unknown_one_is_unknown(tmp_path: Path) -> None:
    """It could not be decoded with, and may be registered later; a subject never leads out of the folder."""
    put(tmp_path, 1, record("A", b="B"), references=[reference("B")])
    put(tmp_path, 2, record("A", b="B"), references=[reference("../outside")])
    outside = tmp_path / "outside" / "versions" / "1.json"
    outside.parent.mkdir(parents=True)
    outside.write_text(json.dumps({"schema": json.dumps(record("B", x="int"))}))
    (tmp_path / "subjects").mkdir()
    registry = RecordedRegistry(tmp_path)
    assert registry.schema(1) is None
    assert registry.schema(2) is None

    put_version(tmp_path, "B", 1, record("B", x="int"))

    assert registry.schema(1) is not None


def test_references_in_a_circle_come_to_an_end(tmp_path: Path) -> None:
    """A registry would not take them, a recorded folder can hold them."""
    put(tmp_path, 1, record("A", b="B"), references=[reference("B")])
    put_version(tmp_path, "B", 1, record("B", c=["null", "C"]), references=[reference("C")])
    put_version(tmp_path, "C", 1, record("C", b=["null", "B"]), references=[reference("B")])

    found = RecordedRegistry(tmp_path).schema(1)

    assert found is not None
    assert round_trip(found.text, {"b": {"c": {"b": None}}}) == {"b": {"c": {"b": None}}}


@pytest.mark.parametrize(
    "text", ["message B {}", '{"type": "record", "fields": 5}', "[" * 100_000, '{"type": ["record"], "name": []}']
)
def test_a_reference_that_is_no_avro_leaves_the_schema_as_it_is(tmp_path: Path, text: str) -> None:
    """Its messages are held one by one, as those of any schema that is none; an error would end the table."""
    put(tmp_path, 1, record("A", b="B"), references=[reference("B")])
    put_version(tmp_path, "B", 1, None)
    (tmp_path / "subjects/B/versions/1.json").write_text(json.dumps({"schema": text}))

    found = RecordedRegistry(tmp_path).schema(1)

    assert found is not None
    with pytest.raises(WireSchemaInvalid):
        avro_writer("id:00000001", found.text)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the client not wait between two tries, nor read the certificates of the world: nothing here speaks TLS."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Serve `Answers.table` and give the address."""
    with serving(monkeypatch, tmp_path) as address:
        yield address


def ask(url: str, schema_id: int = 1, **access: Any) -> RegisteredSchema | None:  # noqa: ANN401
    """Ask a registry at an address for one schema."""
    return ConfluentRegistry(RegistryAccess(url, **access)).schema(schema_id)


def test_each_id_is_asked_for_once(server: str) -> None:
    """A second question for the same id makes no request."""
    Answers.table = {"/schemas/ids/1": (200, {"schema": KEY}), "/schemas/ids/2": (200, {"schema": KEY})}
    registry = ConfluentRegistry(RegistryAccess(server))

    found = [registry.schema(schema_id) for schema_id in (1, 2, 1, 2, 1)]

    assert found[0] == RegisteredSchema(1, "AVRO", KEY)
    assert found[0] is found[2]
    assert Answers.seen == ["/schemas/ids/1", "/schemas/ids/2"]


def test_an_id_that_the_registry_does_not_know_is_none_and_asked_again(server: str) -> None:
    """It may be registered between two runs of one process."""
    registry = ConfluentRegistry(RegistryAccess(server))
    assert registry.schema(1) is None

    Answers.table = {"/schemas/ids/1": (200, {"schema": KEY})}

    assert registry.schema(1) is not None


def test_a_wrong_address_is_not_an_unknown_id(server: str) -> None:
    """404 from something that is no registry must not make every message's schema unknown."""
    Answers.table = {
        "/schemas/ids/1": (404, b"<html>secret</html>"),
        "/subjects": (404, b"<html>secret</html>"),
        "/right/schemas/ids/1": (404, {"error_code": 404, "message": "HTTP 404 Not Found"}),
        "/right/subjects": (200, []),
    }
    with pytest.raises(RegistryUnavailable, match="No schema registry answers at"):
        ask(server)

    assert ask(f"{server}/right/") is None


def test_references_are_asked_for_once_each(server: str) -> None:
    """The two levels and the diamond are resolved over HTTP too; subjects are escaped in the address."""
    Answers.table = {
        "/schemas/ids/1": (
            200,
            {"schema": json.dumps(record("A", b="B", c="C")), "references": [reference("B"), reference("C")]},
        ),
        "/subjects/B/versions/1": (
            200,
            {
                "subject": "B",
                "id": 2,
                "version": 1,
                "schema": json.dumps(record("B", d="D")),
                "references": [{"name": "D", "subject": "d d", "version": 1}],
            },
        ),
        "/subjects/C/versions/1": (
            200,
            {
                "subject": "C",
                "id": 3,
                "version": 1,
                "schema": json.dumps(record("C", d="D")),
                "references": [{"name": "D", "subject": "d d", "version": 1}],
            },
        ),
        "/subjects/d%20d/versions/1": (
            200,
            {"subject": "d d", "id": 4, "version": 1, "schema": json.dumps(record("D", x="int"))},
        ),
    }

    found = ask(server)

    assert found is not None
    value = {"b": {"d": {"x": 1}}, "c": {"d": {"x": 2}}}
    assert round_trip(found.text, value) == value
    assert len(Answers.seen) == len(set(Answers.seen)) == 4


def test_credentials_and_headers_are_sent_and_never_shown(server: str) -> None:
    """Basic authentication and the configured headers go with each request; no text of ours has them."""
    access = RegistryAccess(server, basic_auth=("alice", "hush"), headers={"X-Gateway": "hush"})

    assert ConfluentRegistry(access).schema(1) is None

    sent = Answers.headers_seen[0]
    assert sent["Authorization"] == "Basic YWxpY2U6aHVzaA=="
    assert sent["X-Gateway"] == "hush"
    assert "hush" not in repr(access)


@pytest.mark.parametrize(
    ("status", "said"), [(401, "refused access"), (403, "refused access"), (418, "failed"), (500, "failed")]
)
def test_a_refusal_names_the_status_and_no_credentials(server: str, status: int, said: str) -> None:
    """The sentence has the address without user and password, and nothing of what the registry said."""
    Answers.table = {"/schemas/ids/1": (status, {"error_code": status, "message": "hush"})}

    with pytest.raises(RegistryUnavailable, match=rf"{said} \(status {status}\)") as caught:
        ask(server.replace("http://", "http://alice:hush@"))

    assert server in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("body", [b"<html>login</html>", {"id": 1}, [], b"", b"[" * 100_000])
def test_an_answer_that_makes_no_sense_is_an_error(server: str, body: object) -> None:
    """A login page or another service behind the address is said as such."""
    Answers.table = {"/schemas/ids/1": (200, body)}

    with pytest.raises(RegistryUnavailable, match="not a schema registry"):
        ask(server)


def test_a_registry_that_is_down_is_an_error() -> None:
    """Nothing listens there; the address is named."""
    with pytest.raises(RegistryUnavailable, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        ask("http://127.0.0.1:9")


def test_a_registry_that_does_not_answer_is_an_error() -> None:
    """A server that takes the connection and says nothing is given up after the time-out."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(RegistryUnavailable, match=r"did not answer within 0\.02 s"):
            ask(address, timeout_seconds=0.02)


def test_a_certificate_file_that_is_missing_is_a_mistake_in_the_configuration(tmp_path: Path) -> None:
    """TLS files are read when the registry is first asked."""
    with pytest.raises(ConfigError, match="tls"):
        ask("https://127.0.0.1:9", ca=str(tmp_path / "absent"))


def test_the_configuration_opens_the_registry(tmp_path: Path, server: str) -> None:
    """None, a folder or an address, with its secrets in plain text for the client."""
    config = RegistryConfig.model_validate(
        {"url": server, "basic_auth": {"user": "a", "password": "b"}, "headers": {"X-Gateway": "hush"}}
    )
    Answers.table = {"/schemas/ids/1": (200, {"schema": KEY})}

    assert open_registry(None) is None
    assert isinstance(open_registry(RegistryConfig(files=tmp_path)), RecordedRegistry)
    registry = open_registry(config)
    assert registry is not None
    assert registry.schema(1) == RegisteredSchema(1, "AVRO", KEY)
    assert Answers.headers_seen[0]["Authorization"] == "Basic YTpi"
    assert Answers.headers_seen[0]["X-Gateway"] == "hush"
