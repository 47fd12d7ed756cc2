"""JSON over HTTP on the loopback interface, for the REST interfaces of the chain."""

import json
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Any

_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """What a server answered: the status, and the body as text."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        """Whether the status is one of success."""
        return 200 <= self.status < 300

    def json(self) -> Any:  # noqa: ANN401 - whatever the server sent
        """The body, read as JSON."""
        return json.loads(self.text)


def request(method: str, port: int, path: str, body: object = None) -> Answer:
    """Ask the server on a loopback port; ``body`` is sent as JSON unless it is None.

    Raises:
        OSError, HTTPException: there is none, or it went away.
    """
    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_SECONDS)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, response.read().decode())
    finally:
        connection.close()


def answers(port: int, path: str) -> bool:
    """Whether the server on a loopback port answers a GET with success."""
    try:
        return request("GET", port, path).ok
    except (OSError, HTTPException):
        return False
