"""An S3-compatible store: moto's server, in a Python environment of its own in the user's cache."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from cdc_materializer import environment
from integration.chain.alone import alone
from integration.chain.process import START_SECONDS_MAX, ChainError, Process, Service, free_port
from integration.chain.web import answers, request

_REQUIREMENTS = Path(__file__).with_name("s3.lock")
_INSTALL_SECONDS_MAX = 600


class S3(Service):
    """A store on a free port with one bucket; it keeps everything in memory, so a restart empties it."""

    user = "chain"
    password = "throw-away"  # noqa: S105 - loopback, and gone after the tests
    region = "us-east-1"
    bucket = "lake"

    def __init__(self, folder: Path) -> None:
        """Lay out a store; nothing is started."""
        self.port = free_port()
        command = [str(_program()), "-H", "127.0.0.1", "-p", str(self.port)]
        super().__init__(Process("s3", command, folder))

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def warehouse(self) -> str:
        """Where tables go."""
        return f"s3://{self.bucket}/warehouse"

    def ready(self, seconds: float = START_SECONDS_MAX) -> None:
        """Wait until it answers, and make the bucket."""
        self.process.wait_until("the S3 store answers", lambda: answers(self.port, "/moto-api/data.json"), seconds)
        answer = request("PUT", self.port, f"/{self.bucket}")
        if not answer.ok:
            message = f"the bucket cannot be made: {answer.text[:500]}"
            raise ChainError(message)


def _install(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    sys.stderr.write("Installing the S3 store of the integration chain (once) …\n")
    _run([sys.executable, "-m", "venv", str(home)])
    pip = [str(home / "bin" / "python"), "-m", "pip", "--quiet", "--no-input", "install", "--require-hashes"]
    _run([*pip, "--requirement", str(_REQUIREMENTS)])
    (home / "complete").touch()


def _program() -> Path:
    """The server's program; its environment is made at the first time."""
    key = hashlib.sha256(_REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    home = environment.cache_folder() / "cdc-materializer" / "integration" / f"s3-{key}"
    with alone("s3"):
        if not (home / "complete").exists():
            _install(home)
    return home / "bin" / "moto_server"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_INSTALL_SECONDS_MAX)
    if done.returncode:
        message = f"the S3 store cannot be installed: {done.stderr.strip()[-800:]}"
        raise ChainError(message)
