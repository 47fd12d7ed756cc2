"""What values of pipeline.yaml are taken from, besides the file: files, and which secrets stand in it all the same."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from cdc_materializer import logs
from cdc_materializer.config import reveal
from cdc_materializer.config.references import SECRET_FILE_BYTES_MAX
from tests.unit.pipelines import SMALL, load, refusal

_KAFKA = "name: shop\nsource: {kafka: {bootstrap.servers: b, sasl.password: '%s'}}\ntables: [{topic: a.b.c}]\n"


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"hunter2", "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n\n", "hunter2"),
        (b" hunter2 ", " hunter2 "),
        (b"\xef\xbb\xbfhunter2\n", "hunter2"),
        ("h\u00fcnter: ${HOME} $${\nsecond\n".encode(), "h\u00fcnter: ${HOME} $${\nsecond"),
        (b"x" * SECRET_FILE_BYTES_MAX, "x" * SECRET_FILE_BYTES_MAX),
    ],
    ids=range(7),
)
def test_a_value_is_taken_from_a_file(folder: Path, content: bytes, value: str) -> None:
    """As it is, less the line ends behind it; it cannot become structure, and nothing in it is looked up again."""
    (folder / "secrets").mkdir(exist_ok=True)
    (folder / "secrets" / "password").write_bytes(content)

    for path in ("secrets/password", f"{folder}/secrets/password", "secrets/../secrets/password"):
        kafka = load(folder, _KAFKA % f"${{file:{path}}}").source.kafka
        assert kafka is not None
        assert reveal(kafka)["sasl.password"] == value


def test_a_file_can_stand_in_any_text_and_beside_others(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told from a variable by what it begins with."""
    monkeypatch.setenv("file", "variable")
    (folder / "a b").write_text("text\n")

    config = load(folder, f"{SMALL}spark: {{spark.a: '${{file:a b}}-${{file}}-$${{file:a b}}'}}")

    assert config.spark == {"spark.a": "text-variable-${file:a b}"}


def test_what_is_taken_from_a_file_is_as_secret_as_what_is_taken_from_a_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed by its setting, shown by nothing, and known to the redactor."""
    monkeypatch.setenv("TAKEN", "hunter2")
    (folder / "taken").write_text("hunter2\n")
    by_file, by_variable = (load(folder, _KAFKA % taken) for taken in ("${file:taken}", "${TAKEN}"))

    assert by_file == by_variable
    assert isinstance((by_file.source.kafka or {})["sasl.password"], SecretStr)
    assert "hunter2" not in f"{by_file!r} {by_file.model_dump_json()}"
    assert set(logs.secrets_of(by_file)) == {"hunter2"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("gone", None, "cannot be read: No such file or directory."),
        (".", None, "cannot be read: Is a directory."),
        ("secret", b"", "is empty."),
        ("secret", b" \n", "is empty."),
        ("secret", b"hunter2" * SECRET_FILE_BYTES_MAX, f"is larger than {SECRET_FILE_BYTES_MAX} bytes."),
        ("secret", b"hunter2\xff", "is not UTF-8 text."),
        ("secret", b"hunter2\0more", "is not UTF-8 text."),
        ("n" * 300, None, "cannot be read: File name too long."),
        ("~nobody.of.that.name/secret", None, "cannot be read: no file has such a name."),
        ("/dev/zero", None, f"is larger than {SECRET_FILE_BYTES_MAX} bytes."),
    ],
)
def test_a_file_that_holds_no_value_is_named_and_its_content_is_not(
    folder: Path, name: str, content: bytes | None, said: str
) -> None:
    """With the setting that takes it."""
    if content is not None:
        (folder / name).write_bytes(content)

    message = refusal(folder, _KAFKA % f"${{file:{name}}}")

    assert message.startswith("pipeline.yaml, source.kafka.sasl.password takes the file ")
    assert f", which {said} " in message
    assert "hunter2" not in message


def test_a_name_that_no_file_can_have_is_refused(folder: Path) -> None:
    """YAML can write a zero, which ends a name."""
    message = refusal(folder, SMALL.replace("name: shop", 'name: "${file:a\\0b}"'))

    assert "which cannot be read: no file has such a name." in message


def test_a_file_that_this_user_may_not_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that is not there."""
    opened = Path.open

    def refused(path: Path, *how: Any, **more: Any) -> Any:  # noqa: ANN401 - as the one that it stands for
        if path.name == "secret":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return opened(path, *how, **more)

    monkeypatch.setattr(Path, "open", refused)

    assert "which cannot be read: Permission denied. " in refusal(folder, _KAFKA % "${file:secret}")


@pytest.mark.parametrize("value", ["${file:}", "${file:gone", "${File:a}", "${files:a}"])
def test_what_names_no_file_is_told_what_does(folder: Path, value: str) -> None:
    """A `${` is never passed on by mistake."""
    assert "Write `${NAME}`, `${file:PATH}`, or `$${` where" in refusal(folder, _KAFKA % value)


_PLAIN = """
name: shop
source:
  kafka:
    {bootstrap.servers: b, sasl.username: u, sasl.password: "%(a)s", ssl.key.location: k.pem, ssl.key.password: "%(b)s",
     ssl.key.pem: "%(a)s", sasl.kerberos.keytab: me.keytab, sasl.oauthbearer.token.endpoint.url: "https://t"}
registry: {url: "http://r", basic_auth: {user: u, password: "%(a)s"}, headers: {Authorization: "%(b)s"},
  tls: {key: k.pem}}
catalog: {type: rest, uri: "http://c", credential: "%(a)s", token-refresh-enabled: true, s3.access-key-id: id}
masks: {key: "%(a)s"}
databases: {db: {url: "jdbc:mysql://h/", user: u, password: "%(a)s", properties: {trustStorePassword: "%(b)s"}}}
spark:
  spark.hadoop.fs.s3a.secret.key: "%(a)s"
  spark.hadoop.fs.s3a.aws.credentials.provider: com.example.Provider
  spark.kubernetes.driver.secrets.store: /etc/store
  spark.mine: "-Dpassword=%(a)s"
tables: [{topic: a.b.c, key: [id]}]
"""


def test_secrets_that_stand_in_the_file_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their settings; what is named as secrets are and is none is not, nor what is taken from elsewhere."""
    monkeypatch.setenv("TAKEN", "taken from elsewhere")
    (folder / "taken").write_text("taken from a file")
    a = [
        *("source.kafka.sasl.password", "source.kafka.ssl.key.pem", "registry.basic_auth.password"),
        *("catalog.credential", "spark.spark.hadoop.fs.s3a.secret.key", "spark.spark.mine", "masks.key"),
        "databases.db.password",
    ]
    b = [
        *("source.kafka.ssl.key.password", "registry.headers.Authorization"),
        "databases.db.properties.trustStorePassword",
    ]
    plain, variable, file = "0123456789abcdef", "${TAKEN}", "${file:taken}"

    def told(**values: str) -> set[str]:
        return set(load(folder, _PLAIN % values).plain_secrets)

    assert told(a=plain, b=plain) == {*a, *b}
    assert told(a=variable, b=plain) == {*b}
    assert told(a=plain, b=file) == {*a}
    assert told(a="$${x}-0123456789abcdef", b=variable) == {*a}
    assert told(a=file, b=variable) == set()
    assert load(folder, SMALL).plain_secrets == ()
