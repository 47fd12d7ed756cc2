"""A Kafka broker to which nobody has the right password, and that says too much about it."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import Any

_SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE = 17, 18, 36
#: What it knows of the protocol, with the newest version: enough for clients to send their password.
_KNOWN = {3: 1, _SASL_HANDSHAKE: 1, _API_VERSIONS: 2, _SASL_AUTHENTICATE: 0}
_UNSUPPORTED_VERSION, _REFUSED = 35, 58


class _Broker(StreamRequestHandler):
    def __init__(self, passwords: list[str], says: str, *of_server: Any) -> None:  # noqa: ANN401 - as the server gives it
        self._passwords, self._says = passwords, says
        super().__init__(*of_server)

    def handle(self) -> None:
        while len(head := self.rfile.read(4)) == 4:
            request = self.rfile.read(*struct.unpack("!i", head))
            key, version, number, length = struct.unpack("!hhih", request[:10])
            answer = struct.pack("!i", number) + self._answer(key, version, request[10 + max(length, 0) :])
            self.wfile.write(struct.pack("!i", len(answer)) + answer)

    def _answer(self, key: int, version: int, body: bytes) -> bytes:
        if key == _API_VERSIONS:
            is_known = version <= _KNOWN[key]
            known = b"".join(struct.pack("!hhh", api, 0, newest) for api, newest in _KNOWN.items())
            head = struct.pack("!hi", 0 if is_known else _UNSUPPORTED_VERSION, len(_KNOWN))
            return head + known + (struct.pack("!i", 0) if is_known and version else b"")
        if key == _SASL_HANDSHAKE:
            return struct.pack("!hi", 0, 1) + _text("PLAIN")
        password = body[4:].split(b"\0")[2].decode()
        self._passwords.append(password)
        return struct.pack("!h", _REFUSED) + _text(f"no {password}: {self._says}") + struct.pack("!i", 0)


def _text(text: str) -> bytes:
    return struct.pack("!h", len(text.encode())) + text.encode()


@contextmanager
def refusing_broker(passwords: list[str], says: str) -> Iterator[str]:
    """Give the address of a broker that refuses all logins by SASL's `PLAIN`.

    Args:
        passwords: those that it is sent are added.
        says: what its refusals say besides the password.
    """
    server = ThreadingTCPServer(("127.0.0.1", 0), partial(_Broker, passwords, says))
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
