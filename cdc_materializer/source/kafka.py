"""A Kafka cluster: confluent-kafka plans on the driver, Spark's own Kafka source carries the messages."""

# ruff: noqa: SLF001  (the names of the client's public error codes begin with an underscore)

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from cdc_materializer.errors import BrokerUnreachable, ConfigError, SourceUnavailable, TopicMissing
from cdc_materializer.names import nearest
from cdc_materializer.offsets import Offsets
from cdc_materializer.retry import NEVER, Deadline
from cdc_materializer.source.kafka_ends import read_ends
from cdc_materializer.source.kafka_properties import (
    brokers,
    check_kerberos,
    is_kerberos,
    librdkafka_properties,
    spark_options,
)
from cdc_materializer.source.messages import MESSAGE_COLUMNS, MESSAGE_SCHEMA, Message, TopicState

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient, OffsetSpec, TopicDescription
    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.offsets import Span

_T = TypeVar("_T")

#: How long the broker may take to answer one question, in seconds.
ANSWER_TIMEOUT_SECONDS = 10.0
#: How often the driver looks for the client's errors while it waits, in seconds.
_POLL_SECONDS = 0.1
#: How many offsets one Spark task reads, so that a topic with one partition keeps every core busy.
_OFFSETS_PER_TASK_MAX = 100_000
#: The longest time that a date can be told of; a broker takes longer ones.
_LONGEST_MS = 10**14
#: A topic id of brokers that give none (before Kafka 2.8).
_NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"

#: What librdkafka says of a mechanism that it was built without.
_NO_KERBEROS = "No provider for SASL mechanism GSSAPI"
_BUILD_KERBEROS = (
    "PyPI's wheels are. Build librdkafka with libsasl2, then `pip install --no-binary confluent-kafka confluent-kafka`."
)


class KafkaSource:
    """A Kafka cluster; see `Source` for what it promises. Only committed messages are read, with their headers."""

    def __init__(
        self,
        properties: Mapping[str, str],
        timeout_seconds: float = ANSWER_TIMEOUT_SECONDS,
        deadline: Deadline = NEVER,
    ) -> None:
        """Take the client's properties; nothing is asked yet.

        Args:
            properties: Kafka client properties by librdkafka's names, with their secrets; they are never shown.
            timeout_seconds: how long the broker may take to answer one question.
            deadline: when it may take no longer at all.

        Raises:
            ConfigError: there are no brokers, a property is one of Java's client only, or Kerberos lacks one.
        """
        self._brokers = brokers(properties)
        self._client_properties = librdkafka_properties(properties)
        check_kerberos(properties)
        self._properties = dict(properties)
        self._timeout, self._deadline = timeout_seconds, deadline
        self._client: AdminClient | None = None
        self._last_error: KafkaError | None = None

    @property
    def _timeout_seconds(self) -> float:
        return self._deadline.within(self._timeout)

    def topics(self) -> tuple[str, ...]:
        """List the cluster's topics; see `Source.topics`."""
        from confluent_kafka import KafkaException

        admin = self._admin()
        try:
            return tuple(sorted(admin.list_topics(timeout=self._timeout_seconds).topics))
        except KafkaException as error:
            admin.poll(0)  # the client says here why it cannot connect
            self._refuse(error.args[0], error)

    def state(self, topic: str) -> TopicState:
        """Ask for a topic's id, its partitions and their committed ends; see `Source.state`."""
        from confluent_kafka.admin import OffsetSpec

        described = self._describe(topic)
        partitions = [partition.id for partition in described.partitions]
        # Ends first: a beginning that moves between the two questions can then only pass the end that was planned.
        ends = self._offsets(topic, partitions, OffsetSpec.latest())
        beginnings = self._offsets(topic, partitions, OffsetSpec.earliest())
        topic_id = str(described.topic_id) if described.topic_id is not None else _NO_TOPIC_ID
        return TopicState(topic, None if topic_id == _NO_TOPIC_ID else topic_id, beginnings, ends)

    def sample(self, topic: str, count: int) -> tuple[Message, ...]:
        """Read both ends of each partition with a consumer that commits nothing; see `Source.sample`."""
        from confluent_kafka import KafkaException

        state = self.state(topic)
        settings: dict[str, Any] = {"log_level": "0", **self._client_properties, "error_cb": self._note}
        try:
            return read_ends(settings, state, count, self._timeout_seconds)
        except KafkaException as error:
            self._refuse(error.args[0], error, topic)

    def is_compacted(self, topic: str) -> bool:
        """Ask for the topic's `cleanup.policy`; see `Source.is_compacted`."""
        return "compact" in str(self._settings_of(topic)["cleanup.policy"].value).split(",")

    def deletes_kept(self, topic: str) -> timedelta | None:
        """Ask for that and for `delete.retention.ms`; see `Source.deletes_kept`."""
        told = self._settings_of(topic)
        if "compact" not in str(told["cleanup.policy"].value).split(","):
            return None
        kept = told.get("delete.retention.ms")
        if kept is None or not str(kept.value).isdecimal():
            # Not every program that speaks Kafka's protocol has the setting.
            raise SourceUnavailable(
                f"The broker does not say for how long {topic} keeps deletes (`delete.retention.ms`).",
                "Ask who runs it: a reader that stands still for longer may miss some.",
            )
        return timedelta(milliseconds=min(int(kept.value), _LONGEST_MS))

    def _settings_of(self, topic: str) -> Mapping[str, Any]:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        self._describe(topic)
        resource = ConfigResource(ResourceType.TOPIC, topic)
        asked = self._admin().describe_configs([resource], request_timeout=self._timeout_seconds)
        try:
            told: Mapping[str, Any] = self._answers(asked)[resource]
        except KafkaException as error:
            self._refuse(error.args[0], error, topic)
        return told

    def read(self, spark: "SparkSession", span: "Span") -> "DataFrame":
        """Let Spark read the span's offsets, and only those; see `Source.read`."""
        ranges = span.ranges()
        if not ranges:
            return spark.createDataFrame([], MESSAGE_SCHEMA)
        options = {
            **spark_options(self._properties),
            "assign": json.dumps({span.topic: [partition for partition, _, _ in ranges]}),
            "startingOffsets": json.dumps({span.topic: {str(partition): start for partition, start, _ in ranges}}),
            "endingOffsets": json.dumps({span.topic: {str(partition): end for partition, _, end in ranges}}),
            "includeHeaders": "true",
            "failOnDataLoss": "true",
            "maxRecordsPerPartition": str(_OFFSETS_PER_TASK_MAX),
        }
        return spark.read.format("kafka").options(**options).load().select(*MESSAGE_COLUMNS)

    def _admin(self) -> "AdminClient":
        # What an earlier question met says nothing about this one.
        self._last_error = None
        if self._client is None:
            from confluent_kafka import KafkaException
            from confluent_kafka.admin import AdminClient

            # The client's own log lines are not wanted on a terminal; its errors are kept and said in a sentence.
            settings: dict[str, Any] = {"log_level": "0", **self._client_properties, "error_cb": self._note}
            try:
                self._client = AdminClient(settings)
            except (KafkaException, ValueError, TypeError) as error:
                if is_kerberos(self._properties) and _NO_KERBEROS in str(error):
                    what = "This Kafka client (confluent-kafka) was built without Kerberos (the SASL mechanism GSSAPI)."
                    raise ConfigError(what, _BUILD_KERBEROS) from error
                # The client's text is not passed on: it may quote a value.
                named = ", ".join(name for name in self._client_properties if name in str(error))
                what = f"The Kafka client does not accept the properties under source.kafka{named and f' ({named})'}."
                raise ConfigError(what, "Write them as librdkafka's list of properties says.") from error
        return self._client

    def _note(self, error: "KafkaError") -> None:
        self._last_error = error

    def _describe(self, topic: str) -> "TopicDescription":
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        admin = self._admin()
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=self._timeout_seconds)
        try:
            described: TopicDescription = self._answers(asked)[topic]
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
                self._missing(topic, error)
            self._refuse(error.args[0], error, topic)
        return described

    def _missing(self, topic: str, cause: Exception) -> NoReturn:
        near = nearest(topic, self.topics())
        hint = f" Did you mean {near}?" if near else ""
        what = f"The broker {self._brokers} has no topic {topic}, or does not show it to this user.{hint}"
        raise TopicMissing(what, "Correct the topic under tables, or start the connector that writes it.") from cause

    def _offsets(self, topic: str, partitions: Iterable[int], spec: "OffsetSpec") -> Offsets:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

        asked = self._admin().list_offsets(
            {TopicPartition(topic, partition): spec for partition in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout_seconds,
        )
        try:
            return Offsets({place.partition: found.offset for place, found in self._answers(asked).items()})
        except KafkaException as error:
            self._refuse(error.args[0], error, topic)

    def _answers(self, asked: "Mapping[_T, Future[Any]]") -> "dict[_T, Any]":
        """Wait for the answers; raise KafkaException for the first that is an error.

        The client's errors only arrive while it is polled, and it goes on trying after refused credentials.
        """
        from confluent_kafka import KafkaError, KafkaException

        admin = self._admin()
        final = {KafkaError._AUTHENTICATION, KafkaError._SSL}
        while wait(asked.values(), timeout=0).not_done:
            admin.poll(_POLL_SECONDS)
            if self._last_error is not None and self._last_error.code() in final:
                raise KafkaException(self._last_error)
        return {place: future.result() for place, future in asked.items()}

    def _refuse(self, error: "KafkaError", cause: Exception, topic: str | None = None) -> NoReturn:
        """Say why the broker did not answer; what the client noted while it tried to connect tells more."""
        kind, what, do = _reason(error, self._last_error, self._timeout_seconds)
        about = "" if topic is None else f" about the topic {topic}"
        what = f"The broker {self._brokers} {what.format(about=about)}."
        raise kind(what, do) from cause


def _reason(
    error: "KafkaError", noted: "KafkaError | None", timeout_seconds: float
) -> tuple[type[SourceUnavailable], str, str]:
    """Say which error the client's codes are, what the broker did, with a place for the topic, and what to do."""
    occurred = {error.code()} | ({noted.code()} if noted is not None else set())
    for kind, codes, what, do in _reasons():
        if occurred & codes:
            return kind, what.format(seconds=timeout_seconds, about="{about}"), do
    return SourceUnavailable, f"answered {error.name()}{{about}}", "Look at the broker's log, then run again."


def _reasons() -> tuple[tuple[type[SourceUnavailable], set[int], str, str], ...]:
    """List what the client's error codes mean, the most telling first."""
    from confluent_kafka import KafkaError as Code

    return (
        (
            BrokerUnreachable,
            {Code._AUTHENTICATION, Code.SASL_AUTHENTICATION_FAILED},
            "refused the credentials",
            "Check the sasl properties under source.kafka.",
        ),
        (
            BrokerUnreachable,
            {Code._SSL},
            "and this client did not agree on TLS",
            "Check security.protocol and the ssl properties under source.kafka.",
        ),
        (
            SourceUnavailable,
            {Code.TOPIC_AUTHORIZATION_FAILED, Code.CLUSTER_AUTHORIZATION_FAILED},
            "does not let this user ask{about}",
            "Allow the user to describe and read the topics.",
        ),
        (
            BrokerUnreachable,
            {Code._RESOLVE},
            "has a host name that cannot be resolved",
            "Check bootstrap.servers under source.kafka.",
        ),
        (
            BrokerUnreachable,
            {Code._TRANSPORT, Code._ALL_BROKERS_DOWN},
            "cannot be reached",
            "Check that it runs, and bootstrap.servers, security.protocol and the ssl properties under source.kafka.",
        ),
        (
            BrokerUnreachable,
            {Code._TIMED_OUT, Code.REQUEST_TIMED_OUT},
            "did not answer within {seconds:g} s{about}",
            "Check that it runs, then run again.",
        ),
    )
