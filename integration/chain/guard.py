"""An HTTPS door with basic authentication before a server that has neither, as an ingress is in production."""

import base64
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from integration.chain.tls import Certificates
from integration.chain.web import request


class Guard:
    """Lets a user who knows the password read from a server on a loopback port."""

    def __init__(self, target: int, certificates: Certificates, user: str, password: str) -> None:
        """Take the server's port; nothing listens yet."""
        expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

        class Door(BaseHTTPRequestHandler):
            """Answers one request."""

            def do_GET(self) -> None:
                """Pass it on, or refuse."""
                if self.headers.get("Authorization") != expected:
                    self._answer(401, "{}")
                    return
                answer = request("GET", target, self.path)
                self._answer(answer.status, answer.text)

            def log_message(self, *_: object) -> None:
                """Keep quiet."""

            def _answer(self, status: int, text: str) -> None:
                content = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.certificate, certificates.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]

    def start(self) -> None:
        """Begin to answer."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def ready(self) -> None:
        """It is, once it was started."""

    def stop(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
