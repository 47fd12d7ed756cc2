"""Registries for tests: folders of recorded answers, and a small HTTP server on this machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import fastavro
import pytest


def put(folder: Path, schema_id: int, schema: object, **rest: object) -> Path:
    """Write `ids/<id>.json`."""
    path = folder / "ids" / f"{schema_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = schema if isinstance(schema, str) else json.dumps(schema)
    path.write_text(json.dumps({"schema": text, **rest}))
    return path


def put_version(folder: Path, subject: str, version: int, schema: object, **rest: object) -> None:
    """Write `subjects/<subject>/versions/<n>.json`."""
    path = folder / "subjects" / subject / "versions" / f"{version}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schema": json.dumps(schema), **rest}))


def reference(name: str, version: int = 1) -> dict[str, object]:
    """Return a reference to a subject of the same name."""
    return {"name": name, "subject": name, "version": version}


def record(name: str, /, **fields: object) -> dict[str, object]:
    """Return an Avro record."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def round_trip(schema: str, value: object) -> object:
    """Write and read a value with a schema."""
    import io

    parsed = fastavro.parse_schema(json.loads(schema))
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, parsed, value)
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, parsed, None)


class Answers(BaseHTTPRequestHandler):
    """Answers GET requests from a table and notes them."""

    table: ClassVar[dict[str, tuple[int, Any]]] = {}
    seen: ClassVar[list[str]] = []
    headers_seen: ClassVar[list[dict[str, str]]] = []
    #: The statuses of the next answers, whatever the table says.
    failing: ClassVar[list[int]] = []

    def do_GET(self) -> None:
        """Answer one question."""
        self.seen.append(self.path.partition("?")[0])
        self.headers_seen.append(dict(self.headers.items()))
        unknown = (404, {"error_code": 40403, "message": "Schema not found"})
        status, body = self.table.get(self.seen[-1], unknown)
        if self.failing:
            status, body = self.failing.pop(0), {}
        if callable(body):
            self._go_on(body())
            return
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _go_on(self, parts: Iterator[bytes]) -> None:
        """Answer with parts until there is none, or nobody reads them any more."""
        self.send_response(200)
        self.end_headers()
        with suppress(ConnectionError):
            for part in parts:
                self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[str]:
    """Serve `Answers.table` and give the address.

    The client waits not between two tries, and reads no certificates of the world: nothing here speaks TLS.
    """
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    Answers.table, Answers.seen, Answers.headers_seen, Answers.failing = {}, [], [], []
    http = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()
    thread.join()
