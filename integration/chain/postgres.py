"""PostgreSQL with logical decoding, from Debian's packages."""

import signal
import subprocess
from pathlib import Path

from integration.chain.packages import find_programs, service_user
from integration.chain.process import (
    START_SECONDS_MAX,
    STOP_SECONDS_MAX,
    ChainError,
    Process,
    Service,
    free_port,
    wait_until,
)
from integration.chain.sql import Session

#: What logical decoding needs, and what makes a test fast; docker/compose.yaml has the same where it matters.
SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
    "timezone": "UTC",
}
_FAST = {"fsync": "off", "shared_buffers": "32MB", "wal_sender_timeout": "10s"}
#: How every session writes values, so that text can be compared.
_CLIENT = "-c intervalstyle=iso_8601 -c bytea_output=hex -c extra_float_digits=3 -c datestyle=ISO -c timezone=UTC"
_PROGRAMS = ("initdb", "postgres", "psql")
_PACKAGES = ("postgresql", "postgresql-client", "postgresql-contrib")


class Postgres(Service):
    """One server on a free port, with data that outlives a stop or a kill; its superuser ``postgres`` is let in."""

    host = "127.0.0.1"
    user = "postgres"
    password = "throw-away"  # noqa: S105 - nobody is asked for it: loopback, and gone after the tests

    def __init__(self, folder: Path) -> None:
        """Lay out a server in a folder; nothing is started."""
        self.port = free_port()
        self._programs = find_programs(_PROGRAMS, _PACKAGES)
        self._system_user = service_user("postgres")
        self._data = folder / "data"
        settings = {**SETTINGS, **_FAST, "unix_socket_directories": "", "listen_addresses": "127.0.0.1"}
        options = [part for name, text in settings.items() for part in ("-c", f"{name}={text}")]
        command = [str(self._programs["postgres"]), "-D", str(self._data), "-p", str(self.port), *options]
        super().__init__(Process("postgres", command, folder, self._system_user, stop_signal=signal.SIGINT))

    def start(self) -> None:
        """Make the data folder at the first time, and start."""
        if not self._data.exists():
            self._data.mkdir(mode=0o700)
            if self._system_user is not None:
                subprocess.run(["chown", self._system_user, self._data], check=True)
            self._make()
        self.process.start()

    def ready(self, seconds: float = START_SECONDS_MAX) -> None:
        """Wait until it takes statements."""
        self.process.wait_until("PostgreSQL answers", self._answers, seconds)

    def kill(self) -> None:
        """End it as a crash does; the next start recovers."""
        children = [Path(f"/proc/{child}") for child in _children(self.process.pid)]
        self.process.kill()
        # They notice by themselves that their parent is gone; until the last one did, the data is locked.
        wait_until("PostgreSQL's processes are gone", lambda: not any(map(Path.exists, children)), STOP_SECONDS_MAX)

    def session(self, database: str = "postgres") -> Session:
        """Open a session of the superuser."""
        options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.port)]
        environment = {"PGOPTIONS": _CLIENT, "PGCLIENTENCODING": "UTF8", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
        command = [str(self._programs["psql"]), *options, "-U", self.user, database]
        return Session(command, "\\echo {}", environment)

    def run(self, database: str, *statements: str) -> list[str]:
        """Run statements in a session of their own and return the lines that they print."""
        with self.session(database) as session:
            return session.run(*statements)

    def _answers(self) -> bool:
        try:
            return self.run("postgres", "SELECT 1") == ["1"]
        except ChainError:
            return False

    def _make(self) -> None:
        command = [str(self._programs["initdb"]), "-U", self.user, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
        done = subprocess.run(
            [*command, "--no-sync", "-D", str(self._data)],
            capture_output=True,
            text=True,
            check=False,
            user=self._system_user,
            group=self._system_user,
            extra_groups=None if self._system_user is None else [],
            cwd=self._data,
        )
        if done.returncode:
            message = f"initdb failed: {done.stderr.strip()[-500:]}"
            raise ChainError(message)


def _children(pid: int) -> list[str]:
    """The processes that a process started; none where the system does not tell."""
    told = Path(f"/proc/{pid}/task/{pid}/children")
    return told.read_text(encoding="ascii").split() if told.exists() else []
