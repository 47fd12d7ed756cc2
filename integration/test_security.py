"""A broker behind TLS and SASL/SCRAM, a registry behind TLS and basic authentication: let in, or told why not."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc_materializer.testing import avro_envelope_schema, avro_key_schema, confluent_avro, debezium_envelope
from integration.chain.downloads import Parts
from integration.chain.events import Event, create_topic, producer, send
from integration.chain.guard import Guard
from integration.chain.kafka import Kafka
from integration.chain.pipeline import Pipeline
from integration.chain.process import free_port
from integration.chain.registry import CONFLUENT_PATH, Registry
from integration.chain.running import running
from integration.chain.tls import Certificates
from integration.chain.web import request

pytestmark = pytest.mark.long

TOPIC = "shop.public.things"
USER, PASSWORD, WRONG = "reader", "throw-away-secret", "throw-away-guess"
COLUMNS = {"id": "long", "text": ["null", "string"]}


@dataclass(frozen=True)
class Guarded:
    """A broker and a registry that ask who is there, with one topic of five rows."""

    bootstrap: str
    registry_url: str
    certificates: Certificates
    strangers: Certificates

    def kafka(self, **more: str) -> dict[str, str]:
        """What stands under `source.kafka`; ``more`` has underscores in place of dots."""
        right = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.certificates.authority),
        }
        return {**right, **{name.replace("_", "."): value for name, value in more.items()}}

    def registry(self, password: str = PASSWORD, ca: Path | None = None) -> dict[str, Any]:
        """What stands under `registry`."""
        trusted = {"ca": str(ca or self.certificates.authority)}
        return {"url": self.registry_url, "basic_auth": {"user": USER, "password": password}, "tls": trusted}


@pytest.fixture(scope="module")
def guarded(parts: Parts, registry: Registry, folder: Callable[[str], Path]) -> Iterator[Guarded]:
    """Start both, and write the topic."""
    certificates = Certificates.make(folder("certificates"))
    strangers = Certificates.make(folder("strangers"))
    plain = free_port()
    broker = Kafka(parts, folder("kafka-secure"), _listeners(certificates, plain), scram=(USER, PASSWORD))
    guard = Guard(registry.port, certificates, USER, PASSWORD)
    with running("kafka (TLS, SCRAM)", lambda: broker), running("registry (TLS)", lambda: guard):
        _write(broker.bootstrap, registry)
        yield Guarded(f"127.0.0.1:{plain}", f"https://127.0.0.1:{guard.port}{CONFLUENT_PATH}", certificates, strangers)


def _listeners(certificates: Certificates, port: int) -> Callable[[Kafka], dict[str, str]]:
    """A second listener with TLS and SCRAM; the harness itself goes in by the plain one."""
    chain = certificates.certificate.read_text(encoding="ascii").replace("\n", "\\n")
    key = certificates.key.read_text(encoding="ascii").replace("\n", "\\n")

    def settings(kafka: Kafka) -> dict[str, str]:
        return {
            "listeners": f"{kafka.listeners},SECURE://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{kafka.port},SECURE://127.0.0.1:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.secure.scram-sha-256.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": chain,
            "ssl.keystore.key": key,
        }

    return settings


def _write(bootstrap: str, registry: Registry) -> None:
    schemas = (avro_key_schema(TOPIC, {"id": "long"}), avro_envelope_schema(TOPIC, COLUMNS))
    ids = [
        request(
            "POST",
            registry.port,
            f"{CONFLUENT_PATH}/subjects/{TOPIC}-{part}/versions",
            {"schema": json.dumps(schema), "schemaType": "AVRO"},
        ).json()["id"]
        for part, schema in zip(("key", "value"), schemas, strict=True)
    ]
    rows = [{"id": number, "text": f"row {number}"} for number in range(5)]
    events = [
        Event(
            confluent_avro(ids[0], schemas[0], {"id": row["id"]}),
            confluent_avro(ids[1], schemas[1], debezium_envelope("c", None, row, lsn=100 + number)),
        )
        for number, row in enumerate(rows)
    ]
    create_topic(bootstrap, TOPIC)
    send(producer(bootstrap), TOPIC, events)


def _run(folder: Path, kafka: dict[str, str], registry: dict[str, Any]) -> tuple[Pipeline, dict[str, Any], str]:
    table = {"topic": TOPIC, "mirror": "secure.things"}
    pipeline = Pipeline.write(folder, {"kafka": kafka}, [table], {"registry": registry})
    done: subprocess.CompletedProcess[str] = pipeline.run("run")
    said = done.stdout + done.stderr
    assert PASSWORD not in said
    document = json.loads(done.stdout) if done.stdout.strip() else {"tables": []}
    return pipeline, {**document, "exit_code": done.returncode}, said


def test_the_right_passwords_open_both(guarded: Guarded, folder: Callable[[str], Path]) -> None:
    """The rows come through: the driver's client and Spark's use the same properties, each in its own way."""
    pipeline, document, said = _run(folder("secure"), guarded.kafka(), guarded.registry())

    assert document["exit_code"] == 0, said
    assert sorted(row["id"] for row in pipeline.rows("secure.things")) == list(range(5))


def test_a_wrong_password_for_the_broker(guarded: Guarded, folder: Callable[[str], Path]) -> None:
    """The run ends with 3 and says that the credentials were refused."""
    _, document, said = _run(folder("wrong-sasl"), guarded.kafka(sasl_password=WRONG), guarded.registry())

    assert document["exit_code"] == 3, said
    assert "refused the credentials" in said


def test_a_broker_that_a_stranger_vouches_for(guarded: Guarded, folder: Callable[[str], Path]) -> None:
    """The run ends with 3 and says that it is about TLS."""
    kafka = guarded.kafka(ssl_ca_location=str(guarded.strangers.authority))
    _, document, said = _run(folder("wrong-ca"), kafka, guarded.registry())

    assert document["exit_code"] == 3, said
    assert "TLS" in said


def test_a_wrong_password_for_the_registry(guarded: Guarded, folder: Callable[[str], Path]) -> None:
    """The run ends with 3; the messages are in raw already, and the next run with the right one publishes them."""
    place = folder("wrong-registry")
    pipeline, document, said = _run(place, guarded.kafka(), guarded.registry(password=WRONG))
    assert document["exit_code"] == 3, said
    assert len(pipeline.raw("secure.things")) == 5

    pipeline, document, said = _run(place, guarded.kafka(), guarded.registry())
    assert document["exit_code"] == 0, said
    assert (len(pipeline.rows("secure.things")), pipeline.quarantine("secure.things")) == (5, [])


def test_a_registry_that_a_stranger_vouches_for(guarded: Guarded, folder: Callable[[str], Path]) -> None:
    """The run ends with 3."""
    registry = guarded.registry(ca=guarded.strangers.authority)
    _, document, said = _run(folder("wrong-registry-ca"), guarded.kafka(), registry)

    assert document["exit_code"] == 3, said
