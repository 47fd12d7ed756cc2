"""A run whose Java process is killed, as it is where a machine has no memory left; and one that takes Java with it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_materializer.config import Config
from tests.spark.marks import TURNS
from tests.spark.processes import command, environment, pipeline, run_process, what_is_broken

pytestmark = [pytest.mark.spark, TURNS]

_SECONDS_MAX = 900


def _java_of(run: "subprocess.Popen[str]", config: Config) -> int:
    """Wait until raw has been filled and the mirror is being made, and find the run's Java process."""
    begun = time.monotonic()
    while not list(config.root.glob("lake/warehouse/shop/things/metadata/*.metadata.json")):
        assert run.poll() is None, "the run ended before it could be disturbed"
        assert time.monotonic() - begun < _SECONDS_MAX
        time.sleep(0.02)
    children = [int(pid) for task in Path(f"/proc/{run.pid}/task").iterdir() for pid in _words(task / "children")]
    (java,) = (pid for pid in children if _words(Path(f"/proc/{pid}/comm")) == ["java"])
    return java


def _words(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split()


def test_a_run_whose_java_is_killed_says_so_and_the_next_one_ends_its_work(tmp_path: Path) -> None:
    """With 4, or 7 where it was in the midst of the commit that readers see; with its report, and without a stack."""
    config = pipeline(tmp_path)
    run = subprocess.Popen(
        command(config), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    os.kill(_java_of(run, config), signal.SIGKILL)
    said, noted = run.communicate(timeout=_SECONDS_MAX)

    error = json.loads(said)["tables"][0]["error"]
    assert (run.returncode, error["code"]) in {(4, "SparkEnded"), (7, "CommitUnknown")}
    assert "Spark has ended" in error["message"]
    assert "Traceback" not in noted
    assert what_is_broken(config) == []

    assert run_process(config).returncode == 0
    assert what_is_broken(config) == []


@pytest.mark.parametrize(
    ("number", "send", "code"), [(signal.SIGTERM, os.killpg, 0), (signal.SIGKILL, os.kill, -signal.SIGKILL)]
)
def test_java_ends_with_its_run_and_not_before(
    tmp_path: Path, number: signal.Signals, send: Callable[[int, int], None], code: int
) -> None:
    """`timeout` and `systemctl stop` ask all of a run's processes to end; the running batch needs its Java for that.

    Where the run has no time to end it, nothing of it is left either.
    """
    config = pipeline(tmp_path, rounds=3)
    run = subprocess.Popen(
        command(config),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    java = _java_of(run, config)
    send(run.pid, number)
    said, _ = run.communicate(timeout=_SECONDS_MAX)
    begun = time.monotonic()
    while Path(f"/proc/{java}/exe").exists():  # of one that has ended, and that nobody has waited for, it is none
        assert time.monotonic() - begun < _SECONDS_MAX, "its Java process was left behind"
        time.sleep(0.1)

    assert run.returncode == code
    if said:
        (table,) = json.loads(said)["tables"]
        assert (table["error"], table["batches"]) == (None, 1)
    assert what_is_broken(config) == []
