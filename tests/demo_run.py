"""One run of the demo for all tests that look at it: `cdcm demo` in a process and a folder of its own."""

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_SECONDS_MAX = 600


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Its standard output as one JSON document."""
        found: dict[str, Any] = json.loads(self.out)
        return found


def cdcm(*arguments: str, folder: Path) -> Ended:
    """Run `cdcm` as a user does, from a folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [sys.executable, "-m", "cdc_materializer", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS_MAX,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


@functools.cache
def first_demo() -> tuple[Path, Ended]:
    """Run the demo once for the whole test run; the folder that it was started from, and how it ended."""
    folder = Path(tempfile.mkdtemp(prefix="cdcm-demo-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder, cdcm("demo", "--json", folder=folder)
