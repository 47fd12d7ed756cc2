"""Programs that come from the system: found, or installed with apt-get where we may, or named in one sentence."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from integration.chain.alone import alone
from integration.chain.process import ChainError

_APT_SECONDS_MAX = 600


def find_programs(names: Sequence[str], debian_packages: Sequence[str]) -> dict[str, Path]:
    """Return where programs are, by name; installs Debian's packages first where one is missing and we are root.

    Raises:
        ChainError: one is missing, and it cannot be installed here.
    """
    with alone("packages"):
        found = {name: _find(name) for name in names}
        if None in found.values() and os.geteuid() == 0 and shutil.which("apt-get"):
            _install(debian_packages)
            found = {name: _find(name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        message = (
            f"{', '.join(missing)} missing: install the Debian packages {' '.join(debian_packages)} or their like."
        )
        raise ChainError(message)
    return {name: path for name, path in found.items() if path is not None}


def service_user(name: str) -> str | None:
    """The user that a database server has to run as: None, ourselves, unless we are root, which servers refuse."""
    return name if os.geteuid() == 0 else None


def _find(name: str) -> Path | None:
    # Debian keeps servers off the PATH; of several versions of PostgreSQL the newest is taken.
    places = [str(folder) for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    path = shutil.which(name, path=os.pathsep.join([*places, "/usr/sbin", os.environ.get("PATH", os.defpath)]))
    return Path(path) if path else None


def _install(debian_packages: Sequence[str]) -> None:
    """Install without starting the servers: those of the chain run in folders of their own."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for arguments in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *debian_packages]):
        done = subprocess.run(
            ["apt-get", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=_APT_SECONDS_MAX,
            env=environment,
        )
    if done.returncode:
        message = f"apt-get could not install {' '.join(debian_packages)}: {done.stderr.strip()[-500:]}"
        raise ChainError(message)
