"""MariaDB with a row binlog and GTIDs, from Debian's packages."""

import subprocess
from pathlib import Path

from integration.chain.packages import find_programs, service_user
from integration.chain.process import START_SECONDS_MAX, ChainError, Process, Service, free_port
from integration.chain.sql import Session

#: What change data capture needs; docker/compose.yaml has the same.
SETTINGS = {
    "server-id": "4242",
    "log-bin": "binlog",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "gtid_strict_mode": "ON",
    "default_time_zone": "+00:00",
    "character-set-server": "utf8mb4",
}
_FAST = {"innodb_buffer_pool_size": "64M", "innodb_flush_log_at_trx_commit": "0", "performance_schema": "OFF"}
_PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb")
_PACKAGES = ("mariadb-server", "mariadb-client")


class MariaDB(Service):
    """One server on a free port, with data that outlives a stop or a kill; the user ``chain`` may do everything."""

    host = "127.0.0.1"
    user = "chain"
    password = "throw-away"  # noqa: S105 - loopback, and gone after the tests

    def __init__(self, folder: Path) -> None:
        """Lay out a server in a folder; nothing is started."""
        self.port = free_port()
        self._programs = find_programs(_PROGRAMS, _PACKAGES)
        self._system_user = service_user("mysql")
        self._folder, self._data = folder, folder / "data"
        self._settings = folder / "my.cnf"
        users = folder / "users.sql"
        users.write_text(
            f"SET sql_log_bin = 0;\n"
            f"CREATE USER IF NOT EXISTS '{self.user}'@'127.0.0.1' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON *.* TO '{self.user}'@'127.0.0.1' WITH GRANT OPTION;\n",
            encoding="utf-8",
        )
        own = {
            "init-file": str(users),
            "datadir": str(self._data),
            "bind-address": "127.0.0.1",
            "port": str(self.port),
            "socket": str(self._data / "server.sock"),
            "pid-file": str(self._data / "server.pid"),
        }
        lines = [f"{name}={text}\n" for name, text in {**SETTINGS, **_FAST, **own}.items()]
        self._settings.write_text("".join(["[mysqld]\n", *lines]), encoding="utf-8")
        command = [str(self._programs["mariadbd"]), f"--defaults-file={self._settings}"]
        super().__init__(Process("mariadb", command, folder, self._system_user))

    def start(self) -> None:
        """Make the data folder at the first time, and start."""
        if not self._data.exists():
            self._data.mkdir()
            if self._system_user is not None:
                subprocess.run(["chown", self._system_user, self._data], check=True)
            self._make()
        self.process.start()

    def ready(self, seconds: float = START_SECONDS_MAX) -> None:
        """Wait until it takes statements."""
        self.process.wait_until("MariaDB answers", self._answers, seconds)

    def session(self, database: str = "mysql") -> Session:
        """Open a session of the user ``chain``."""
        options = ["--no-defaults", "--protocol=tcp", "-h", "127.0.0.1", "-P", str(self.port), "-u", self.user]
        shape = ["--batch", "--raw", "--skip-column-names", "--unbuffered", "--default-character-set=utf8mb4"]
        environment = {"MYSQL_PWD": self.password, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
        return Session([str(self._programs["mariadb"]), *options, *shape, database], "SELECT '{}';", environment)

    def run(self, database: str, *statements: str) -> list[str]:
        """Run statements in a session of their own and return the lines that they print."""
        with self.session(database) as session:
            return session.run(*statements)

    def _answers(self) -> bool:
        try:
            return self.run("mysql", "SELECT 1") == ["1"]
        except ChainError:
            return False

    def _make(self) -> None:
        command = [str(self._programs["mariadb-install-db"]), f"--defaults-file={self._settings}"]
        user = [f"--user={self._system_user}"] if self._system_user else []
        done = subprocess.run(
            [*command, *user, "--skip-test-db", "--auth-root-authentication-method=normal"],
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
        )
        if done.returncode:
            message = f"mariadb-install-db failed: {(done.stdout + done.stderr).strip()[-800:]}"
            raise ChainError(message)
