"""The harness itself: what it starts ends with it. That a run which ends by itself leaves nothing, each run checks."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from integration.chain.leftovers import processes_of
from integration.chain.process import STOP_SECONDS_MAX, wait_until

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[1]
_UP_SECONDS_MAX = 300.0


def test_a_run_that_is_killed_leaves_no_process(folder: Callable[[str], Path]) -> None:
    """SIGKILL at a moment when every part of the chain, a session in each database and a driver of Spark are up."""
    place = folder("killed")
    told, log = place / "told", place / "pytest.log"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "integration/workloads/held_open.py"]
    environment = {**os.environ, "HELD_OPEN": str(told), "PYTHONPATH": str(_ROOT)}
    with log.open("wb") as output:
        run = subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output, env=environment)
    try:
        wait_until("everything is up", lambda: told.exists() or run.poll() is not None, _UP_SECONDS_MAX)
        assert run.poll() is None, log.read_text(encoding="utf-8")
        mark, its_folder = told.read_text(encoding="utf-8").splitlines()
        programs = sorted(processes_of(mark).values())
    finally:
        run.kill()
        run.wait()

    assert programs.count("java") == len(("kafka", "registry", "connect", "catalog", "Spark's driver"))
    assert {"postgres", "mariadbd", "moto_server"} <= set(programs)
    wait_until("none of them is left", lambda: not processes_of(mark), STOP_SECONDS_MAX)
    shutil.rmtree(its_folder)
