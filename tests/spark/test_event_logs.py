"""Secrets and values planted where errors, plans and properties come from: none is in what a run with `--debug` leaves.

A process of its own with Spark's event log on, which keeps every plan, every setting and every task's failure.
"""

import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from cdc_materializer.catalog import open_tables
from cdc_materializer.config import load_config
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
from tests.spark.processes import command, environment

pytestmark = [pytest.mark.spark, TURNS]

MAIL, CARD = "canary.bob@example.test", "4222-2222-2222-2222"
#: Of the registry, which refuses it; of the catalog; of a file system.
PASSWORDS = ("canary-registry", "canary-catalog", "canary-store")
#: What has to be there: plans, and the failure of the contract's own query. Of that, Spark keeps the text in its event
#: log, whatever it says (docs/security.md); nothing else may name a value.
_PLAN, _FAILURE = "SparkListenerSQLExecutionStart", "CAST_INVALID_INPUT"
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


def test_what_a_run_with_debug_and_event_logs_leaves_tells_no_secret_and_no_value(tmp_path: Path) -> None:
    """A bad password, an address in a failed cast, a card in a row that breaks a rule: found nowhere."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    registry, catalog, store = PASSWORDS
    (tmp_path / "events").mkdir()
    _topics(tmp_path / "recorded")
    _contract(tmp_path / "people.yaml")
    content = {
        "name": "canaries",
        "source": {"files": "recorded"},
        "registry": {
            "url": f"http://127.0.0.1:{server.server_port}",
            "basic_auth": {"user": "me", "password": registry},
        },
        "catalog": {
            "name": "lake",
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
            "warehouse": f"file://{tmp_path}/warehouse",
            "jdbc.password": catalog,
        },
        "spark": {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": (tmp_path / "events").as_uri(),
            "spark.hadoop.fs.s3a.secret.key": store,
        },
        "tables": [
            {"topic": "shop.public.people", "mirror": "shop.people", "contract": "people.yaml"},
            {"topic": "shop.public.framed", "mirror": "shop.framed"},
        ],
    }
    path = tmp_path / "pipeline.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    config = load_config(path)
    try:
        done = subprocess.run(
            command(config, "--debug"), check=False, capture_output=True, text=True, timeout=300, env=environment()
        )
    finally:
        server.shutdown()
        server.server_close()

    assert done.returncode == EXIT_SOURCE, done.stderr[-2000:]
    people, framed = json.loads(done.stdout)["tables"]
    assert (people["violations"], people["upserted"]) == ({"CONTRACT": 3, "UNDECODABLE": 1}, 1)
    assert framed["error"]["code"] == "RegistryUnavailable"
    files = [file for file in (tmp_path / "events").rglob("*") if file.is_file()]
    lines = [line for file in files for line in file.read_text("utf-8", "replace").splitlines()]
    assert any(_PLAN in line for line in lines)
    assert any(_FAILURE in line for line in lines)
    events = "\n".join(line for line in lines if _FAILURE not in line)
    lake = open_tables(config.catalog)
    people_name, framed_name = TableName.parse("shop.people"), TableName.parse("shop.framed")
    names = [people_name, people_name.raw, people_name.quarantine, framed_name.raw]
    summaries = {str(name): str([dict(line.summary) for line in lake.lines_of(name)]) for name in names}
    told = {"output": done.stdout, "errors": done.stderr, "events": events, **summaries}
    assert [
        (canary, where)
        for canary in (MAIL, "canary.bob", CARD, CARD[-6:], *PASSWORDS)
        for where in told
        if canary in told[where]
    ] == []
