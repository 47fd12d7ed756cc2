"""A process of the chain: started, waited for, stopped, or killed; its log is a file of its own."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: How long a component may take to be ready or to stop, in seconds: ten times what the slowest takes when idle.
START_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0
POLL_SECONDS = 0.1
_LOG_LINES_SHOWN = 25


class ChainError(Exception):
    """A part of the chain did not do what a test needs; the message says which, and ends with its last log lines."""


def free_port() -> int:
    """A TCP port of the loopback interface that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    """Whether something accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(what: str, condition: Callable[[], bool], seconds: float, poll: float = POLL_SECONDS) -> None:
    """Return as soon as ``condition`` holds.

    Raises:
        ChainError: it did not within ``seconds``; ``what`` says what was waited for.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            message = f"waited {seconds:g} s in vain until {what}"
            raise ChainError(message)
        time.sleep(poll)


@dataclass
class Process:
    """One process, at most one at a time; it can be started again after it was stopped or killed.

    It ends with the process that started it, however that one ends, where the system can arrange that (Linux can).

    Attributes:
        name: for messages and for the log's name.
        command: the program and its arguments.
        folder: where its log is, and where it runs.
        user: the user to run as; None for the own.
        environment: all of its environment; None for the own.
        stop_signal: what asks it to end.
    """

    name: str
    command: Sequence[str]
    folder: Path
    user: str | None = None
    environment: Mapping[str, str] | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    _running: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        """Where everything that it prints goes."""
        return self.folder / f"{self.name}.log"

    @property
    def pid(self) -> int:
        """Its process id while it runs."""
        if self._running is None:
            message = f"{self.name} was not started"
            raise ChainError(message)
        return self._running.pid

    def start(self) -> None:
        """Start it; that it works is another matter."""
        if self.runs():
            message = f"{self.name} runs already"
            raise ChainError(message)
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                [*ends_with_us(), *self.command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
                env=self.environment,
            )

    def runs(self) -> bool:
        """Whether it is alive."""
        return self._running is not None and self._running.poll() is None

    def wait_until(
        self, what: str, condition: Callable[[], bool], seconds: float = START_SECONDS_MAX, poll: float = POLL_SECONDS
    ) -> None:
        """Wait for ``condition``, but no longer than the process lives; raises ChainError with the end of its log."""

        def ended_or_true() -> bool:
            return not self.runs() or condition()

        try:
            wait_until(what, ended_or_true, seconds, poll)
        except ChainError as error:
            raise self.failure(str(error)) from None
        if not self.runs():
            raise self.failure(f"ended before {what}")

    def failure(self, what: str) -> ChainError:
        """Describe a failure of this process, with the end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines() if self.log.exists() else []
        return ChainError("\n".join([f"{self.name}: {what}", *lines[-_LOG_LINES_SHOWN:]]))

    def stop(self) -> None:
        """Ask it to end, and wait; one that does not is killed. Nothing happens where none runs."""
        if self._running is None:
            return
        if self.runs():
            self._running.send_signal(self.stop_signal)
        try:
            self._running.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
        self._running = None

    def kill(self) -> None:
        """End it with SIGKILL, by its process id."""
        if self._running is None:
            return
        self._running.kill()
        self._running.wait()
        self._running = None


class Service:
    """A part of the chain that is one process, which can be started again after it was stopped or killed."""

    def __init__(self, process: Process) -> None:
        """Take the process; nothing is started."""
        self.process = process

    def start(self) -> None:
        """Start it; what it knew before is still there."""
        self.process.start()

    def stop(self) -> None:
        """Shut it down cleanly."""
        self.process.stop()

    def kill(self) -> None:
        """End it as a crash does."""
        self.process.kill()


def ends_with_us() -> list[str]:
    """The prefix of a command that makes the kernel end it together with the process that started it."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
