"""Secrets and values planted where errors, plans and properties come from: none is in what a run with `--debug` leaves.

Processes of their own with Spark's event log on, which keeps every plan and every setting.
"""

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

import pytest
import yaml

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, load_config
from cdc_materializer.errors import EXIT_SOURCE
from cdc_materializer.names import TableName
from cdc_materializer.testing import (
    TopicBuilder,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.spark.marks import TURNS
from tests.spark.processes import environment

pytestmark = [pytest.mark.spark, TURNS]

MAIL, CARD = "canary.bob@example.test", "4222-2222-2222-2222"
#: Of the registry, which refuses it; of the catalog; of a file system; of a source database, which refuses it too.
PASSWORDS = ("canary-registry", "canary-catalog", "canary-store", "canary-database")
#: Of the JVM, in its environment.
OPTION = "canary-option"
#: What has to be in Spark's event log: the plan of the contract's own query, which fails.
_PLAN = "max(cast(mail"
_COLUMNS = {
    "id": {"type": "int64", "optional": False},
    "mail": {"type": "string", "optional": True},
    "card": {"type": "string", "optional": True},
}


class _Refusing(BaseHTTPRequestHandler):
    """A registry to which nobody has the right password."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Database(StreamRequestHandler):
    """A PostgreSQL to which nobody has the right password, and that says too much about it."""

    def __init__(self, passwords: list[str], *of_server: Any) -> None:  # noqa: ANN401 - as the server gives it
        self._passwords = passwords
        super().__init__(*of_server)

    def handle(self) -> None:
        self._part()  # whether it speaks TLS
        self.wfile.write(b"N")
        self._part()
        self.wfile.write(b"R" + struct.pack("!ii", 8, 3))  # it wants the password as it is
        self.rfile.read(1)
        given = self._part().rstrip(b"\0")
        said = b"SFATAL\0C28P01\0Mno " + given + b" in the row of " + MAIL.encode() + b"\0\0"
        self.wfile.write(b"E" + struct.pack("!i", 4 + len(said)) + said)
        self._passwords.append(given.decode())

    def _part(self) -> bytes:
        (size,) = struct.unpack("!i", self.rfile.read(4))
        return self.rfile.read(size - 4)


def _topics(folder: Path) -> None:
    plain, framed = TopicBuilder("shop.public.people"), TopicBuilder("shop.public.framed")
    key, schema = connect_key_schema("t", {"id": _COLUMNS["id"]}), connect_envelope_schema("t", _COLUMNS)
    rows: list[dict[str, Any]] = [
        {"id": 1, "mail": MAIL, "card": CARD},
        {"id": 2, "mail": MAIL, "card": None},
        {"id": 3, "mail": None, "card": CARD},
    ]
    for at, row in enumerate(rows):
        envelope = debezium_envelope("c", None, row, lsn=100 + at)
        plain.add(debezium_json({"id": row["id"]}, key), debezium_json(envelope, schema))
    plain.add(debezium_json({"id": 4}, key), f"no JSON, but {MAIL} and {CARD}".encode())
    framed.add(b"\0\0\0\0\1" + MAIL.encode(), b"\0\0\0\0\1" + CARD.encode())
    for topic in (plain, framed):
        topic.write(folder)


def _contract(path: Path) -> None:
    """A rule that a card breaks, and a query that fails at an address, whose error names it."""
    no_card = {
        "name": "no-card",
        "type": "custom",
        "engine": "greatExpectations",
        "implementation": {"type": "expect_column_values_to_be_null"},
    }
    crash: dict[str, Any] = {
        "name": "crash",
        "type": "sql",
        "query": "SELECT max(cast(mail AS INT)) FROM {object}",
        "mustBe": 0,
        "customProperties": [{"property": "shadow", "value": True}],
    }
    columns: list[dict[str, Any]] = [
        {"name": "id", "logicalType": "integer", "physicalType": "bigint", "primaryKey": True},
        {"name": "mail", "logicalType": "string", "physicalType": "text"},
        {"name": "card", "logicalType": "string", "physicalType": "text", "quality": [no_card]},
    ]
    head = {"apiVersion": "v3.0.2", "kind": "DataContract", "id": "people", "version": "1.0.0", "status": "active"}
    schema = [{"name": "people", "physicalType": "table", "properties": columns, "quality": [crash]}]
    path.write_text(yaml.safe_dump({**head, "schema": schema}), encoding="utf-8")


@contextmanager
def _refusing(passwords: list[str]) -> Iterator[tuple[int, int]]:
    """A registry and a database that refuse: their ports; the passwords that the database was given are added."""
    registry = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    database = ThreadingTCPServer(("127.0.0.1", 0), partial(_Database, passwords))
    for server in (registry, database):
        Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield registry.server_port, database.server_address[1]
    finally:
        for server in (registry, database):
            server.shutdown()
            server.server_close()


def _pipeline(folder: Path, registry_port: int, database_port: int) -> Config:
    registry, catalog, store, database = PASSWORDS
    (folder / "events").mkdir()
    _topics(folder / "recorded")
    _contract(folder / "people.yaml")
    address = f"jdbc:postgresql://127.0.0.1:{database_port}/shop"
    people = {"topic": "shop.public.people", "mirror": "shop.people", "contract": "people.yaml"}
    content = {
        "name": "canaries",
        "source": {"files": "recorded"},
        "registry": {
            "url": f"http://127.0.0.1:{registry_port}",
            "basic_auth": {"user": "me", "password": registry},
        },
        "catalog": {
            "name": "lake",
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
            "jdbc.password": catalog,
        },
        "databases": {"db": {"url": address, "user": "me", "password": database}},
        "spark": {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": (folder / "events").as_uri(),
            "spark.hadoop.fs.s3a.secret.key": store,
        },
        "tables": [{**people, "source_database": "db"}, {"topic": "shop.public.framed", "mirror": "shop.framed"}],
    }
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_config(path)


def _ended(config: Config, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which is that a source refused it."""
    program = [sys.executable, "-m", "cdc_materializer", *options, "--json", "--debug", "-c", str(config.path)]
    given = environment(JDK_JAVA_OPTIONS=f"-Dproxy.password={OPTION} -Dcanary=there")
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=900, env=given)
    assert done.returncode == EXIT_SOURCE, done.stderr[-2000:]
    return done


def test_what_a_run_with_debug_and_event_logs_leaves_tells_no_secret_and_no_value(tmp_path: Path) -> None:
    """A bad password, an address in a failed cast, a card in a row that breaks a rule: found nowhere."""
    passwords: list[str] = []
    with _refusing(passwords) as ports:
        config = _pipeline(tmp_path, *ports)
        run, verify = _ended(config, "run"), _ended(config, "verify", "--source", "--table", "shop.people")

    people, framed = json.loads(run.stdout)["tables"]
    assert (people["violations"], people["upserted"]) == ({"CONTRACT": 2, "UNDECODABLE": 1}, 1)
    assert framed["error"]["code"] == "RegistryUnavailable"
    (refused,) = json.loads(verify.stdout)["tables"]
    assert refused["error"]["code"] == "DatabaseUnavailable"
    assert "does not let this user in (SQLSTATE 28P01)" in refused["error"]["message"]
    assert set(passwords) == {PASSWORDS[-1]}
    files = [file for file in (tmp_path / "events").rglob("*") if file.is_file()]
    events = "\n".join(file.read_text("utf-8", "replace") for file in files)
    assert _PLAN in events
    assert '"canary":"there"' in events, "the JVM did not take the options of its environment"
    lake = open_tables(config.catalog)
    people_name, framed_name = TableName.parse("shop.people"), TableName.parse("shop.framed")
    names = [people_name, people_name.raw, people_name.quarantine, framed_name.raw]
    summaries = {str(name): str([dict(line.summary) for line in lake.lines_of(name)]) for name in names}
    outputs = {"run": run.stdout, "run, errors": run.stderr, "verify": verify.stdout, "verify, errors": verify.stderr}
    told = {**outputs, "events": events, **summaries}
    assert [
        (canary, where)
        for canary in (MAIL, "canary.bob", CARD, CARD[-9:], OPTION, *PASSWORDS)
        for where in told
        if canary in told[where]
    ] == []
