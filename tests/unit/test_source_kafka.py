"""Kafka: planning against librdkafka's own mock cluster, and the properties that each client is given.

The mock has no controller, so it cannot describe topics; that one answer is made from its metadata here.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartitionInfo, Uuid
from confluent_kafka.admin import TopicDescription

from cdc_materializer.config.connections import SourceConfig
from cdc_materializer.errors import BrokerUnreachable, ConfigError, SourceUnavailable
from cdc_materializer.source import KafkaSource, open_source, read_failure
from cdc_materializer.source.kafka import _reason
from cdc_materializer.source.kafka_properties import JAVA_ONLY, librdkafka_properties, spark_options
from cdc_materializer.testing.catalog import JavaError

TOPIC = "shop.public.orders"
#: Nothing listens on the discard port of this machine.
CLOSED = "127.0.0.1:9"


class DescribedSource(KafkaSource):
    """A source whose topics are described from the mock cluster's metadata."""

    topic_id = Uuid(1, 2)

    def _describe(self, topic: str) -> TopicDescription:
        found = self._admin().list_topics(timeout=5).topics[topic].partitions
        return TopicDescription(topic, self.topic_id, False, [TopicPartitionInfo(p, None, [], []) for p in found])  # noqa: FBT003


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Give the address of a mock cluster with one topic: three messages in partition 0, one in partition 1."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": "1", "log_level": 0})
    for partition in (0, 0, 0, 1):
        producer.produce(TOPIC, b"value", partition=partition)
    assert producer.flush(10) == 0
    broker = next(iter(producer.list_topics(timeout=5).brokers.values()))
    yield f"{broker.host}:{broker.port}"
    producer.flush(1)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an answer be looked for as soon as it can be there."""
    monkeypatch.setattr("cdc_materializer.source.kafka._POLL_SECONDS", 0.01)


def test_topics_are_listed(cluster: str) -> None:
    """The cluster's topics are listed by name."""
    assert KafkaSource({"bootstrap.servers": cluster}).topics() == (TOPIC,)


def test_a_state_has_every_partition_and_the_id(cluster: str) -> None:
    """Each partition that the topic has is there, from its first offset to after its last, and the broker's id."""
    state = DescribedSource({"bootstrap.servers": cluster}).state(TOPIC)

    assert state.topic_id == str(Uuid(1, 2))
    assert {0, 1} <= state.ends.keys() == state.beginnings.keys()
    assert (state.ends[0], state.ends[1]) == (3, 1)
    assert set(state.beginnings.values()) == {0}


def test_a_broker_without_topic_ids_gives_none(cluster: str) -> None:
    """Brokers that know no ids answer zero, which is no id."""
    source = DescribedSource({"bootstrap.servers": cluster})
    source.topic_id = Uuid(0, 0)

    assert source.state(TOPIC).topic_id is None


@pytest.mark.parametrize("ask", [lambda source: source.topics(), lambda source: source.state(TOPIC)])
def test_a_broker_that_is_down_is_named(ask: Any, capfd: pytest.CaptureFixture[str]) -> None:  # noqa: ANN401
    """The sentence names the broker and never another property, and the client prints nothing of its own."""
    source = KafkaSource({"bootstrap.servers": CLOSED, "sasl.password": "hush"}, timeout_seconds=1.0)

    with pytest.raises(BrokerUnreachable, match=rf"broker {CLOSED} cannot be reached") as caught:
        ask(source)

    assert "hush" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("policy", "kept_ms", "kept"),
    [
        ("delete", 86_400_000, None),
        ("compact", 86_400_000, timedelta(days=1)),
        ("delete,compact", 0, timedelta(0)),
        # Java's longest, by which some mean for ever.
        ("compact", 2**63 - 1, timedelta(milliseconds=10**14)),
    ],
)
def test_a_topic_says_for_how_long_it_keeps_deletes(
    monkeypatch: pytest.MonkeyPatch, policy: str, kept_ms: int, kept: timedelta | None
) -> None:
    """By two of its settings, which the broker tells as texts."""
    source = _telling(monkeypatch, {"cleanup.policy": policy, "delete.retention.ms": str(kept_ms)})

    assert source.deletes_kept(TOPIC) == kept
    assert source.is_compacted(TOPIC) == (kept is not None)


@pytest.mark.parametrize("settings", [{}, {"delete.retention.ms": None}])
def test_a_broker_need_not_say_for_how_long_deletes_are_kept(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str | None]
) -> None:
    """That a topic is compacted is known without it: a replay from Kafka asks for no more."""
    source = _telling(monkeypatch, {"cleanup.policy": "compact", **settings})

    assert source.is_compacted(TOPIC)
    with pytest.raises(SourceUnavailable, match="does not say for how long"):
        source.deletes_kept(TOPIC)


def _telling(monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]) -> KafkaSource:
    """A source whose broker tells these settings of each topic."""
    answer: Future[Any] = Future()
    answer.set_result({name: SimpleNamespace(value=value) for name, value in settings.items()})
    admin = SimpleNamespace(describe_configs=lambda asked, **_: {asked[0]: answer})
    source = KafkaSource({"bootstrap.servers": CLOSED})
    monkeypatch.setattr(source, "_admin", lambda: admin)
    monkeypatch.setattr(source, "_describe", lambda _: None)
    return source


def test_reasons_are_said_in_the_order_in_which_they_tell_most() -> None:
    """A time-out after refused credentials is about the credentials; an unknown code is named."""
    timed_out = KafkaError(KafkaError._TIMED_OUT)

    assert _reason(timed_out, None, 3)[1] == "did not answer within 3 s{about}"
    assert _reason(timed_out, KafkaError(KafkaError._AUTHENTICATION), 3)[1] == "refused the credentials"
    assert _reason(timed_out, KafkaError(KafkaError._SSL), 3)[1].endswith("did not agree on TLS")
    assert _reason(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), None, 3)[1].startswith("does not let")
    assert "NOT_CONTROLLER" in _reason(KafkaError(KafkaError.NOT_CONTROLLER), None, 3)[1]


@pytest.mark.parametrize("wrong", [{"no.such.property": "hush"}, {"security.protocol": "hush"}])
def test_a_property_that_the_client_refuses_is_named_without_its_value(wrong: dict[str, str]) -> None:
    """The client's own text quotes the value; ours does not."""
    with pytest.raises(ConfigError) as caught:
        KafkaSource({"bootstrap.servers": CLOSED, **wrong}).topics()

    assert next(iter(wrong)) in caught.value.what
    assert "hush" not in str(caught.value)


def test_brokers_are_needed() -> None:
    """Without an address nothing is tried."""
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        KafkaSource({"client.rack": "a"})


@pytest.mark.parametrize("name", sorted(JAVA_ONLY))
def test_a_property_of_java_only_is_refused_with_its_counterpart(name: str) -> None:
    """A user who comes from Java is told what to write."""
    with pytest.raises(ConfigError, match="Java client only") as caught:
        KafkaSource({"bootstrap.servers": CLOSED, name: "hush"})

    assert JAVA_ONLY[name] in caught.value.do
    assert "hush" not in str(caught.value)


def test_properties_that_both_clients_know_reach_both() -> None:
    """What is not in the table is passed on as it is, less what the product decides itself."""
    given = {"bootstrap.servers": "a:1", "request.timeout.ms": "5", "client.rack": "r", "group.id": "g"}

    assert librdkafka_properties(given) == {"bootstrap.servers": "a:1", "request.timeout.ms": "5", "client.rack": "r"}
    assert spark_options(given) == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.request.timeout.ms": "5",
        "kafka.client.rack": "r",
        "kafka.isolation.level": "read_committed",
    }


def test_only_committed_messages_are_read_whatever_is_configured() -> None:
    """`isolation.level` is not a user's choice: an aborted message would become a row."""
    options = spark_options({"bootstrap.servers": "a:1", "isolation.level": "read_uncommitted"})

    assert options["kafka.isolation.level"] == "read_committed"


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-256", "scram.ScramLoginModule")],
)
def test_user_and_password_become_a_jaas_configuration(mechanism: str, module: str) -> None:
    """Java's client takes both in one text, in which quotes and backslashes are escaped."""
    options = spark_options(
        {
            "bootstrap.servers": "a:1",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": mechanism,
            "sasl.username": "alice",
            "sasl.password": 'a"b\\c',
        }
    )

    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == mechanism
    assert options["kafka.sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="alice" password="a\\"b\\\\c";'
    )
    assert not {"kafka.sasl.username", "kafka.sasl.password", "kafka.sasl.mechanisms"} & options.keys()


def test_a_mechanism_without_counterpart_is_refused() -> None:
    """A user name that Java could not be given is an error before anything is read."""
    with pytest.raises(ConfigError, match="OAUTHBEARER"):
        spark_options({"bootstrap.servers": "a:1", "sasl.mechanism": "OAUTHBEARER", "sasl.username": "u"})


_KERBEROS = {
    "bootstrap.servers": CLOSED,
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.principal": "reader@SHOP.TEST",
    "sasl.kerberos.keytab": '/etc/my "own".keytab',
}


@pytest.mark.parametrize("mechanism", ["GSSAPI", None])
@pytest.mark.parametrize(("service", "expected"), [(None, "kafka"), ("broker", "broker")])
def test_a_keytab_is_given_to_java_too(mechanism: str | None, service: str | None, expected: str) -> None:
    """As an entry of JAAS, in which quotes are escaped; where no mechanism is named both clients take Kerberos."""
    more = {"sasl.mechanism": mechanism, "sasl.kerberos.service.name": service, "sasl.kerberos.kinit.cmd": "kinit"}
    given = {name: value for name, value in (_KERBEROS | more).items() if value is not None}

    assert spark_options(given) == {
        "kafka.bootstrap.servers": CLOSED,
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "GSSAPI",
        "kafka.sasl.jaas.config": 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true" '
        'storeKey="true" useTicketCache="false" doNotPrompt="true" keyTab="/etc/my \\"own\\".keytab" '
        'principal="reader@SHOP.TEST";',
        "kafka.sasl.kerberos.service.name": expected,
    }


@pytest.mark.parametrize("missing", ["sasl.kerberos.principal", "sasl.kerberos.keytab"])
@pytest.mark.parametrize("mechanism", ["GSSAPI", ""])
def test_kerberos_that_java_cannot_follow_is_refused_before_anything_is_asked(missing: str, mechanism: str) -> None:
    """A ticket that a command has got, or none; where no mechanism is named, what that means is said."""
    given = {**_KERBEROS, "sasl.mechanism": mechanism, missing: ""}

    with pytest.raises(ConfigError, match=rf"GSSAPI.* lacks `{missing}`\.") as caught:
        KafkaSource(given)

    assert "SCRAM-SHA-256" in caught.value.do
    assert ("the default where `sasl.mechanism` is not set" in str(caught.value)) == (not mechanism)
    KafkaSource({**given, "security.protocol": "SSL"})
    KafkaSource({**given, "sasl.mechanism": "PLAIN"})


def test_javas_own_login_file_goes_where_there_is_no_keytab(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's client finds it by itself; librdkafka has its ticket from elsewhere."""
    given = {**_KERBEROS, "sasl.kerberos.keytab": "", "sasl.kerberos.principal": ""}
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Djava.security.auth.login.config=/etc/kafka.jaas")

    KafkaSource(given)
    told = spark_options(given)

    assert told["kafka.sasl.mechanism"] == "GSSAPI"
    assert "kafka.sasl.jaas.config" not in told


def test_a_client_that_was_built_without_kerberos_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of PyPI is; no property is wrong then."""
    said = "Failed to create consumer: No provider for SASL mechanism GSSAPI: recompile librdkafka with libsasl2"

    def refuse(_: object) -> NoReturn:
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, said))

    monkeypatch.setattr("confluent_kafka.admin.AdminClient", refuse)
    with pytest.raises(ConfigError, match="was built without Kerberos") as caught:
        KafkaSource(_KERBEROS).topics()

    assert "libsasl2" in caught.value.do


_OIDC = {
    "bootstrap.servers": "a:1",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": 's"x',
    "sasl.oauthbearer.token.endpoint.url": "https://a/token",
}


def test_client_credentials_are_given_to_java_too() -> None:
    """Its own handler asks for tokens with them; nothing else of librdkafka's is handed on."""
    given = _OIDC | {"sasl.oauthbearer.scope": "read", "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,pool=p"}

    assert spark_options(given) == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.isolation.level": "read_committed",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="me" clientSecret="s\\"x" scope="read" extension_logicalCluster="lkc-1" extension_pool="p";',
        "kafka.sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://a/token",
    }


@pytest.mark.parametrize("changed", ["method", "client.secret", "token.endpoint.url", "grant.type"])
def test_tokens_that_java_cannot_get_are_refused(changed: str) -> None:
    """On the driver, with what to set, and never a secret."""
    name = f"sasl.oauthbearer.{changed}"
    given = {key: value for key, value in _OIDC.items() if key != name}
    given |= {name: "urn:ietf:params:oauth:grant-type:jwt-bearer"} if changed == "grant.type" else {}

    with pytest.raises(ConfigError, match=r"OAUTHBEARER .*`sasl\.oauthbearer\.method` to oidc") as caught:
        spark_options(given)

    assert 's"x' not in str(caught.value)


def test_what_stands_between_certificates_is_left_out(tmp_path: Path) -> None:
    """As names of authorities in UTF-8, which librdkafka reads over; a file without a block is no PEM file."""
    bundle, none = tmp_path / "ca", tmp_path / "none"
    certificate = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"
    bundle.write_text(f"# F\u0151tan\u00fas\n{certificate}\n# B\n{certificate}", encoding="utf-8")
    none.write_bytes(b"\x30\x82\xff")
    given = {"bootstrap.servers": "a:1", "ssl.ca.location": str(bundle)}

    assert spark_options(given)["kafka.ssl.truststore.certificates"] == certificate * 2
    with pytest.raises(ConfigError, match="not a PEM file"):
        spark_options(given | {"ssl.ca.location": str(none)})


def _pem(name: str) -> str:
    return f"-----BEGIN {name.upper()}-----\nAA==\n-----END {name.upper()}-----\n"


def test_certificates_and_keys_are_handed_over_as_text(tmp_path: Path) -> None:
    """Spark's workers get the contents, as they may not have the files; the names are Java's."""
    names = {"ca": "ssl.ca.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}
    for name in names:
        (tmp_path / name).write_text(_pem(name))
    locations = {property_: str(tmp_path / name) for name, property_ in names.items()}

    options = spark_options({"bootstrap.servers": "a:1", "ssl.endpoint.identification.algorithm": "none", **locations})

    assert options == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.isolation.level": "read_committed",
        "kafka.ssl.endpoint.identification.algorithm": "",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": _pem("ca"),
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": _pem("certificate"),
        "kafka.ssl.keystore.key": _pem("key"),
    }


def test_a_certificate_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """The error names the property and the file."""
    with pytest.raises(ConfigError, match=r"absent that `ssl\.ca\.location`"):
        spark_options({"bootstrap.servers": "a:1", "ssl.ca.location": str(tmp_path / "absent")})


_NOT_MADE = "org.apache.kafka.common.KafkaException: Failed to construct kafka consumer\n\tCaused by: "


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("java.lang.IllegalArgumentException: Could not find a 'KafkaClient' entry: hush", ConfigError),
        ("org.apache.kafka.common.config.ConfigException: Invalid value hush", ConfigError),
        ("org.apache.kafka.common.KafkaException: Failed to load PEM SSL keystore hush", ConfigError),
        ("org.apache.kafka.common.config.ConfigException: No resolvable bootstrap urls given", SourceUnavailable),
        ("javax.security.auth.login.LoginException: java.net.ConnectException: hush", SourceUnavailable),
    ],
)
def test_a_client_that_is_not_made_has_wrong_properties(cause: str, kind: type[Exception]) -> None:
    """Which no broker mends by and by; unless a name or the issuer of tokens did not answer."""
    failure = read_failure(RuntimeError(_NOT_MADE + cause), TOPIC)

    assert type(failure) is kind
    assert "hush" not in str(failure)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ExecutionException: org.apache.kafka.common.errors.SaslAuthenticationException: hush", "refused the cred"),
        ("org.apache.kafka.common.KafkaException: x\norg.apache.kafka.common.errors.TimeoutException", "in time"),
        ("org.apache.kafka.common.errors.DisconnectException: hush", "DisconnectException"),
        ("KafkaIllegalStateException ... set the source option failOnDataLoss to false", "left the broker"),
        ("[FAILED_READ_FILE.NO_HINT] hush", "went away"),
        (
            "[USER_RAISED_EXCEPTION] cdcm source: orders.jsonl changed while it was read. SQLSTATE",
            "orders.jsonl changed",
        ),
    ],
)
def test_what_spark_raises_while_it_reads_is_explained(text: str, said: str) -> None:
    """The sentence comes from the names of Java's classes; Spark's own text is not passed on."""
    failure = read_failure(RuntimeError(text), TOPIC)

    assert failure is not None
    assert said in str(failure)
    assert "hush" not in str(failure)


class _Silent(JavaError):
    """What PySpark makes of Java's exceptions: its text is Spark's first sentence, and the causes are behind it."""

    def __str__(self) -> str:
        return "Job aborted due to stage failure."


@pytest.mark.parametrize(
    ("causes", "kind", "said"),
    [
        (["KafkaException", "errors.SaslAuthenticationException"], SourceUnavailable, "refused the credentials"),
        (["errors.TimeoutException"], SourceUnavailable, "did not answer in time"),
        (["errors.DisconnectException"], SourceUnavailable, "(DisconnectException)"),
        (["KafkaException", "config.ConfigException"], ConfigError, "does not begin with these properties"),
    ],
)
def test_the_causes_are_asked_before_the_text(causes: list[str], kind: type[Exception], said: str) -> None:
    """The text has none of them where the driver has made the exception of a worker again."""
    chain = ["org.apache.spark.SparkException", *[f"org.apache.kafka.common.{name}" for name in causes]]
    failure = read_failure(_Silent(*chain), TOPIC)

    assert type(failure) is kind
    assert said in str(failure)


def test_classes_of_other_libraries_are_no_causes() -> None:
    """Java has a TimeoutException, too; what no name of a host was found for is no wrong property."""
    gone = "org.apache.kafka.clients.consumer.OffsetOutOfRangeException"
    unknown = ("org.apache.kafka.common.config.ConfigException", "java.net.UnknownHostException")

    assert read_failure(_Silent("java.util.concurrent.TimeoutException"), TOPIC) is None
    assert "left the broker" in str(read_failure(_Silent("java.util.concurrent.ExecutionException", gone), TOPIC))
    assert type(read_failure(_Silent(*unknown), TOPIC)) is SourceUnavailable


def test_what_has_nothing_to_do_with_the_source_is_left_alone() -> None:
    """Errors of the lake or of a bug are not blamed on the source."""
    assert read_failure(RuntimeError("java.lang.NullPointerException"), TOPIC) is None
    text = "java.io.FileNotFoundException: {} (Permission denied)"
    assert read_failure(RuntimeError(text.format("/lake/shop/orders__raw/data/0.parquet")), TOPIC) is None
    assert read_failure(RuntimeError(text.format(f"/recorded/{TOPIC}.jsonl")), TOPIC) is not None


def test_the_configuration_opens_kafka_with_its_secrets() -> None:
    """`source.kafka` is given to the client with secrets in plain text."""
    source = open_source(SourceConfig(kafka={"bootstrap.servers": CLOSED, "sasl.password": "hush"}))

    assert isinstance(source, KafkaSource)
    assert source._client_properties["sasl.password"] == "hush"
