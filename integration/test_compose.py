"""docker/ runs what integration/ runs: the same settings, and ports, passwords and topics that fit together.

No container engine is needed; what the images themselves do is not tested here.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc_materializer.config import load_config
from integration.chain import connect, connectors, kafka, mariadb, postgres
from integration.chain.registry import CONFLUENT_PATH, NATIVE_PATH
from integration.chain.rest_catalog import s3_properties
from integration.chain.s3 import S3

DOCKER = Path(__file__).parents[1] / "docker"
IVY = (Path(__file__).parent / "chain" / "ivy.xml").read_text(encoding="utf-8")
#: Settings of Connect that the start script of Debezium's image writes over, with a default of its own, unless they
#: come without the prefix of the others.
OVERWRITTEN = ("KEY_CONVERTER", "VALUE_CONVERTER", "OFFSET_FLUSH_INTERVAL_MS")
LOCK = (Path(__file__).parent / "chain" / "s3.lock").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Inside:
    """A database server as containers see it."""

    host: str
    port: int
    user: str
    password: str


def environment() -> dict[str, str]:
    """What stands in .env."""
    lines = (DOCKER / ".env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def compose() -> dict[str, Any]:
    """The compose file, with the variables of .env filled in."""
    text = (DOCKER / "compose.yaml").read_text(encoding="utf-8")
    known = environment()
    filled = re.sub(r"(?<!\$)\$\{(\w+)}", lambda found: known[found[1]], text)
    read: dict[str, Any] = yaml.safe_load(filled)
    return read


def service(name: str) -> dict[str, Any]:
    """One service of the compose file."""
    found: dict[str, Any] = compose()["services"][name]
    return found


def as_environment(settings: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Properties as an image takes them: `num.partitions` as `KAFKA_NUM_PARTITIONS`."""
    return {prefix + name.upper().replace(".", "_"): value for name, value in settings.items()}


def test_images_are_pinned_by_the_versions_that_integration_runs() -> None:
    """No tag says `latest`, and what comes from Maven or PyPI is of the same version here and there."""
    images = {name: found["image"] for name, found in compose()["services"].items()}
    revisions = dict(re.findall(r'name="([\w.-]+)" rev="([\w.]+)"', IVY))

    assert all(re.fullmatch(r"[\w./-]+:\d[\w.]+", image) for image in images.values())
    assert images["kafka"] == f"apache/kafka:{revisions['kafka_2.13']}"
    assert images["registry"] == f"apicurio/apicurio-registry-mem:{revisions['apicurio-registry-app']}"
    for name in ("postgres", "mariadb"):
        assert images[f"connect-{name}"] == f"quay.io/debezium/connect:{revisions[f'debezium-connector-{name}']}"
    assert images["connectors"] == images["connect-postgres"]
    assert f"moto=={images['s3'].partition(':')[2]} " in LOCK
    assert images["bucket"] == images["s3"]


def _compose_program() -> list[str] | None:
    """Docker Compose, as a plugin of `docker` or a program of its own; None where there is none."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is None:
            continue
        asked = subprocess.run(
            [*command, "version", "--short"], capture_output=True, text=True, check=False, timeout=60
        )
        if asked.returncode == 0 and int(asked.stdout.strip().removeprefix("v").split(".")[0]) >= 2:
            return command
    return None


def test_docker_compose_accepts_the_file() -> None:
    """`config` reads it, fills the variables in and finds every service; it needs no engine."""
    program = _compose_program()
    if program is None:
        pytest.skip(
            "Docker Compose 2 or newer is not installed here; docs/integration.md says which one checked the file."
        )
    command = [*program, "--project-directory", str(DOCKER), "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=_without_compose())

    assert (done.returncode, done.stderr) == (0, "")
    read = json.loads(done.stdout)["services"]
    assert {name: found["image"] for name, found in read.items()} == {
        name: found["image"] for name, found in compose()["services"].items()
    }
    assert read["connect-mariadb"]["environment"] == service("connect-mariadb")["environment"]


def _without_compose() -> dict[str, str]:
    """The environment, without what would come before .env."""
    return {name: text for name, text in os.environ.items() if name not in environment() and name != "COMPOSE_FILE"}


def test_every_service_has_a_health_check_and_the_one_network() -> None:
    """`up --wait` returns when all of it works."""
    for name, found in compose()["services"].items():
        assert "healthcheck" in found, name
        assert found["networks"] == ["chain"], name


def test_ports_are_open_to_this_machine_only() -> None:
    """And no two services have the same."""
    ports = [port for found in compose()["services"].values() for port in found.get("ports", [])]

    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_kafka_has_the_settings_of_integration() -> None:
    """Property by property."""
    found = service("kafka")["environment"]

    assert {name: found.get(name) for name in as_environment(kafka.SETTINGS, "KAFKA_")} == as_environment(
        kafka.SETTINGS, "KAFKA_"
    )
    assert found["KAFKA_ADVERTISED_LISTENERS"] == f"INSIDE://kafka:9092,OUTSIDE://{_pipeline()['kafka']}"


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_connect_has_the_settings_of_integration(name: str) -> None:
    """But for how plugins are found: in the image, the converter has no manifest."""
    found = service(f"connect-{name}")["environment"]
    settings = {**connect.SETTINGS, "offset.flush.interval.ms": str(connect.FLUSH_MS)}
    expected = as_environment(settings, "CONNECT_") | {"CONNECT_PLUGIN_DISCOVERY": "hybrid_warn"}
    expected |= {plain: expected.pop(f"CONNECT_{plain}") for plain in OVERWRITTEN}

    assert {setting: found.get(setting) for setting in expected} == expected
    assert not {f"CONNECT_{plain}" for plain in OVERWRITTEN} & found.keys()


def test_databases_have_the_settings_of_integration() -> None:
    """Option by option."""
    options = service("postgres")["command"]
    assert dict(option.split("=", 1) for option in options if "=" in option) == postgres.SETTINGS
    flags = service("mariadb")["command"]
    assert dict(flag.removeprefix("--").split("=", 1) for flag in flags) == mariadb.SETTINGS


@pytest.mark.parametrize("name", ["postgres", "mariadb"])
def test_connectors_are_those_of_integration(name: str) -> None:
    """The configuration that the harness would write, with the containers' names for hosts."""
    known = environment()
    user, password = known[f"{name.upper()}_USER"], known[f"{name.upper()}_PASSWORD"]
    if name == "postgres":
        config = connectors.postgres_connector(
            Inside("postgres", 5432, user, password), known["POSTGRES_DB"], "postgres", r"shop\..*"
        )
    else:
        server = Inside("mariadb", 3306, user, password)
        config = connectors.mariadb_connector(
            server, known["MARIADB_DATABASE"], "mariadb", r"shop\..*", 5001, "kafka:9092"
        )
    expected = {**config, **connectors.avro_converters(f"http://registry:8080{NATIVE_PATH}")}

    assert json.loads((DOCKER / "connectors" / f"{name}.json").read_text(encoding="utf-8")) == expected


def test_passwords_are_those_of_integration() -> None:
    """One set of throw-away passwords, here and there."""
    known = environment()
    expected = {
        "POSTGRES": (postgres.Postgres.user, postgres.Postgres.password),
        "MARIADB": (mariadb.MariaDB.user, mariadb.MariaDB.password),
        "S3": (S3.user, S3.password),
    }

    assert {name: (known[f"{name}_USER"], known[f"{name}_PASSWORD"]) for name in expected} == expected
    assert f"'{known['MARIADB_USER']}'@'%' IDENTIFIED BY '{known['MARIADB_PASSWORD']}'" in (
        DOCKER / "mariadb.sql"
    ).read_text(encoding="utf-8")


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that pipeline.yaml takes the path of a library from."""
    monkeypatch.setenv("ICEBERG_AWS_BUNDLE", "iceberg-aws-bundle.jar")


def _pipeline() -> dict[str, str]:
    """Where pipeline.yaml goes: the addresses that it should have by .env."""
    known = environment()
    return {
        "kafka": f"127.0.0.1:{known['KAFKA_PORT']}",
        "registry": f"http://127.0.0.1:{known['REGISTRY_PORT']}{CONFLUENT_PATH}",
        "catalog": f"http://127.0.0.1:{known['CATALOG_PORT']}",
        "s3": f"http://127.0.0.1:{known['S3_PORT']}",
    }


@pytest.mark.usefixtures("bundle")
def test_the_pipeline_goes_where_the_ports_are() -> None:
    """Broker, registry, catalog and store; with the properties that integration/ gives to the product."""
    config = load_config(DOCKER / "pipeline.yaml")
    read = yaml.safe_load((DOCKER / "pipeline.yaml").read_text(encoding="utf-8"))
    places = _pipeline()

    assert read["source"]["kafka"] == {"bootstrap.servers": places["kafka"]}
    assert read["registry"] == {"url": places["registry"]}
    assert read["catalog"] == {"type": "rest", "uri": places["catalog"], **s3_properties(places["s3"])}
    assert config.catalog.name == "lake"
    assert re.search(r'name="iceberg-aws-bundle" rev="1\.12\.0" conf="spark', IVY)


@pytest.mark.usefixtures("bundle")
def test_the_topics_are_those_that_the_connectors_write() -> None:
    """The connector's prefix, then schema or database, then a table that is made at the first start."""
    made = {
        name: re.findall(r"CREATE TABLE (shop\.\w+)", (DOCKER / f"{name}.sql").read_text(encoding="utf-8"))
        for name in ("postgres", "mariadb")
    }
    config = load_config(DOCKER / "pipeline.yaml")

    assert [table.topic for table in config.tables] == [
        f"{prefix}.{table}" for prefix, tables in made.items() for table in tables
    ]
