"""A TCP proxy on the loopback interface that lets a test act at an exact moment of a conversation.

What clients send is watched; when a chunk of it matches, an action runs once: before the chunk is passed on, or when
the first byte of the answer comes back. Killing the server is such an action, and so the moment is an event and not a
pause.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

_CHUNK_BYTES = 1 << 16

#: Whether the action runs before the server has the request, or when it has done it and the client does not know yet.
Moment = Literal["before", "after"]


@dataclass
class Trigger:
    """What to wait for, and what to do then.

    Attributes:
        matches: asked of every chunk that a client sends.
        act: run once, in the connection's own thread; the connection ends with it.
        moment: see `Moment`.
        skip: how many matches to let pass first.
        answer: what the client is told then, instead of anything that the server says.
        times: how many matches it is for.
    """

    matches: Callable[[bytes], bool]
    act: Callable[[], None]
    moment: Moment = "before"
    skip: int = 0
    answer: bytes = b""
    times: int = 1


class Proxy:
    """Passes connections on to a server's port."""

    def __init__(self, target: int = 0) -> None:
        """Take the server's port, `target`, which may be told later; nothing listens yet."""
        self.target = target
        self.happened = threading.Event()
        self._trigger: Trigger | None = None
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def start(self) -> None:
        """Begin to listen."""
        threading.Thread(target=self._accept, daemon=True).start()

    def ready(self) -> None:
        """It is, once it was started."""

    def stop(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def arm(self, trigger: Trigger | None) -> None:
        """Wait for a trigger from now on, or for none; `happened` is set when it was met."""
        self.happened.clear()
        with self._lock:
            self._trigger = trigger

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        waiting: list[Trigger] = []
        back = threading.Thread(target=self._pass_back, args=(server, client, waiting), daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            while chunk := client.recv(_CHUNK_BYTES):
                trigger = self._met(chunk)
                if trigger is not None and trigger.moment == "before":
                    self._act(trigger, client)
                    break
                if trigger is not None:
                    waiting.append(trigger)
                server.sendall(chunk)
        _close(client, server)

    def _pass_back(self, server: socket.socket, client: socket.socket, waiting: list[Trigger]) -> None:
        with contextlib.suppress(OSError):
            while chunk := server.recv(_CHUNK_BYTES):
                if waiting:
                    self._act(waiting.pop(), client)
                    break
                client.sendall(chunk)
        _close(client, server)

    def _met(self, chunk: bytes) -> Trigger | None:
        with self._lock:
            trigger = self._trigger
            if trigger is None or not trigger.matches(chunk):
                return None
            if trigger.skip:
                trigger.skip -= 1
                return None
            trigger.times -= 1
            self._trigger = trigger if trigger.times else None
            return trigger

    def _act(self, trigger: Trigger, client: socket.socket) -> None:
        trigger.act()
        if trigger.answer:
            client.sendall(trigger.answer)
        self.happened.set()


def _close(*ends: socket.socket) -> None:
    """End both directions at once, so that whoever waits on the other end notices."""
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
