"""What is written to standard error: nothing secret, nothing endless."""

import logging
import time
from collections.abc import Iterator

import pytest
from pydantic import SecretStr

from cdc_materializer import logs
from cdc_materializer.config import RegistryConfig, SourceConfig
from cdc_materializer.errors import UsageError

_SECRET = "hunter2-%s"  # noqa: S105 - made up


@pytest.fixture
def written() -> Iterator[list[str]]:
    """What the handler writes, with logging as it was before afterwards."""
    root = logging.getLogger()
    before = list(root.handlers)
    lines: list[str] = []
    yield lines
    for added in [found for found in root.handlers if found not in before]:
        root.removeHandler(added)
    logging.captureWarnings(capture=False)


def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    """Whatever the words around it."""
    redactor = logs.Redactor()
    redactor.hide(["abcd1234", "abcd1234-longer"])

    assert redactor.redact("got abcd1234-longer, then xabcd1234x") == "got ***, then x***x"


def test_a_secret_of_few_letters_does_not_blacken_every_text() -> None:
    """A password of one letter is none that could be found."""
    redactor = logs.Redactor()
    redactor.hide(["a", ""])

    assert redactor.redact("a table") == "a table"


@pytest.mark.parametrize(
    "text",
    [
        "password=" + _SECRET,
        "ssl.keystore.password = " + _SECRET + ", next",
        '{"sasl.password": "' + _SECRET + '"}',
        "s3.secret-access-key: " + _SECRET,
        "oauth token=" + _SECRET,
        "jdbc:postgresql://me:" + _SECRET + "@db:5432/shop",
        "https://me:p@" + _SECRET + "@registry/subjects",
        "Authorization: Bearer " + _SECRET,
        "{'Authorization': 'Basic " + _SECRET + "'}",
        "PlainLoginModule required username=me password='" + _SECRET + "';",
        'ScramLoginModule required username="me" password="' + _SECRET + '";',
        "kafka.ssl.keystore.key=" + _SECRET,
        "{'ssl.key.pem': '" + _SECRET + "'}",
        "privateKey: " + _SECRET,
        "-----BEGIN PRIVATE KEY-----\nMIIE\n" + _SECRET + "\n-----END PRIVATE KEY-----\n",
        "of -----BEGIN ENCRYPTED PRIVATE KEY-----\\n" + _SECRET + " which was cut",
    ],
)
def test_what_looks_like_a_credential_is_masked(text: str) -> None:
    """Also where nobody told the redactor of it."""
    shown = logs.Redactor().redact(text)

    assert _SECRET not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "shop.orders: read 5 messages of partition 0 from offset 17",
        "The registry at https://registry:8081/subjects does not answer.",
        "The key of the message is null.",
        "ssl.keystore.type=PEM, ssl.keystore.location: client.p12",
        "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
    ],
)
def test_plain_text_stays_as_it_is(text: str) -> None:
    """A message that is masked without need helps nobody."""
    assert logs.Redactor().redact(text) == text


@pytest.mark.parametrize(
    "part",
    [
        *("a", "password", "password=", "token: ", "LoginModule ", "://", "basic ", " "),
        *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A PRIVATE KEY-----x-----END A "),
    ],
)
def test_a_long_text_takes_no_longer_than_its_length(part: str) -> None:
    """What a library says may have a message's text in it, and a log is written by the thread that runs the table."""
    begun = time.process_time()
    logs.Redactor().redact(part * 20_000)

    assert time.process_time() - begun < 5


def test_every_secret_of_a_configuration_is_found() -> None:
    """However deep it is."""
    source = SourceConfig.model_validate(
        {"kafka": {"bootstrap.servers": "b:9092", "sasl.password": "first-secret", "client.id": "plain"}}
    )
    registry = RegistryConfig.model_validate(
        {"url": "http://r", "basic_auth": {"user": "me", "password": "second-secret"}, "headers": {"X": "third-secret"}}
    )
    found = set(logs.secrets_of((source, [registry], {"k": SecretStr("fourth-secret")})))

    assert found == {"first-secret", "second-secret", "third-secret", "fourth-secret"}


def test_a_stack_trace_is_redacted_too(written: list[str]) -> None:
    """It is shown under --debug alone, and holds the messages of all libraries."""
    logs.set_up(logs.Redactor(), debug=True, write=written.append)
    try:
        int("password=" + _SECRET)
    except ValueError:
        logging.getLogger("cdc_materializer.x").debug("failed", exc_info=True)

    assert "Traceback" in written[0]
    assert _SECRET not in written[0]


def test_a_long_message_is_cut(written: list[str]) -> None:
    """It says how much is left out."""
    logs.set_up(logs.Redactor(), write=written.append)
    logging.getLogger("cdc_materializer").warning("word " * 1_000)

    assert len(written[0]) < logs.MESSAGE_CHARS_MAX + 100
    assert "(3000 more characters)" in written[0]


def test_a_secret_is_not_shown_in_part_where_a_message_is_cut(written: list[str]) -> None:
    """What is left of it would be no secret that anything knows."""
    redactor = logs.Redactor()
    redactor.hide([_SECRET])
    logs.set_up(redactor, write=written.append)
    logging.getLogger("cdc_materializer").warning("%s %s", "x" * (logs.MESSAGE_CHARS_MAX - 5), _SECRET)

    assert _SECRET[:4] not in written[0]


def test_talkative_libraries_are_quiet_without_debug(written: list[str]) -> None:
    """Their information is for those who ask."""
    logs.set_up(logs.Redactor(), write=written.append)
    logging.getLogger("py4j.clientserver").info("command received")
    logging.getLogger("cdc_materializer.run.run").info("a detail")
    logging.getLogger("pyiceberg.io").warning("a warning")

    assert written == ["WARNING: a warning"]


def test_setting_up_twice_writes_once(written: list[str]) -> None:
    """A command inside a command, as in tests, doubles nothing."""
    for _ in range(2):
        logs.set_up(logs.Redactor(), write=written.append)
    logging.getLogger("cdc_materializer").warning("once")

    assert written == ["WARNING: once"]


def test_of_errors_that_are_not_ours_the_class_and_the_stack_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A failed cast names a row's value; whatever formats the record, it has none, and neither has what led to it."""
    value = "4111"

    def look() -> None:
        raise LookupError(value)

    def cast() -> None:
        try:
            look()
        except LookupError as error:
            raise ValueError(f"{value} cannot be cast") from error

    def judge() -> None:
        try:
            cast()
        except ValueError as error:
            raise UsageError("The rule fails.", "Mend it.") from error

    with caplog.at_level(logging.DEBUG):
        try:
            judge()
        except UsageError as error:
            logging.getLogger("cdc_materializer").debug("stopped", exc_info=logs.without_texts(error))

    assert value not in caplog.text
    told = [line for line in caplog.text.splitlines() if line and not line.startswith(" ")]
    assert [line for line in told if "Error" in line] == [
        "LookupError",
        "ValueError",
        "cdc_materializer.errors.UsageError: The rule fails. Mend it.",
    ]
    assert [caplog.text.count(f"in {name}\n") for name in ("look", "cast", "judge")] == [1, 2, 2]


@pytest.mark.parametrize("debug", [False, True])
def test_what_py4j_says_of_a_java_that_is_gone_is_for_those_who_ask(written: list[str], debug: bool) -> None:  # noqa: FBT001
    """It tells the root logger, with a stack; without --debug our error is enough."""
    logs.set_up(logs.Redactor(), debug=debug, write=written.append)
    root = logging.getLogger()
    path = "/somewhere/py4j/java_gateway.py"
    root.handle(root.makeRecord(root.name, logging.ERROR, path, 1, "Exception while sending command.", (), None))
    root.error("something else")

    assert [line.partition(": ")[2] for line in written] == ["Exception while sending command."] * debug + [
        "something else"
    ]
