"""Spark's Java process is killed in the midst of a run, as it is where a machine has no memory left."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cdc_materializer.config import Config
from tests.spark.marks import TURNS
from tests.spark.processes import command, environment, pipeline, run_process, what_is_broken

pytestmark = [pytest.mark.spark, TURNS]

_SECONDS_MAX = 300


def _kill_java(run: "subprocess.Popen[str]", config: Config) -> None:
    """Kill it when raw has been filled and the mirror is being made."""
    begun = time.monotonic()
    while not list(config.root.glob("lake/warehouse/shop/things/metadata/*.metadata.json")):
        assert run.poll() is None, "the run ended before it could be disturbed"
        assert time.monotonic() - begun < _SECONDS_MAX
        time.sleep(0.02)
    for task in Path(f"/proc/{run.pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                subprocess.run(["kill", f"-{signal.SIGKILL:d}", child], check=True)


def test_a_run_whose_java_is_killed_says_so_and_the_next_one_ends_its_work(tmp_path: Path) -> None:
    """With 4, or 7 where it was in the midst of the commit that readers see; with its report, and without a stack."""
    config = pipeline(tmp_path)
    run = subprocess.Popen(
        command(config), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    _kill_java(run, config)
    said, noted = run.communicate(timeout=_SECONDS_MAX)

    error = json.loads(said)["tables"][0]["error"]
    assert (run.returncode, error["code"]) in {(4, "SparkEnded"), (7, "CommitUnknown")}
    assert "Spark has ended" in error["message"]
    assert "Traceback" not in noted
    assert what_is_broken(config) == []

    assert run_process(config).returncode == 0
    assert what_is_broken(config) == []
