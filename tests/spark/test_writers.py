"""Several programs on one table: two runs at once, one that slept, a foreign one, and one whose clock is wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer import adopt
from cdc_materializer import pipeline as line_steps
from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config
from cdc_materializer.errors import EXIT_DONE, EXIT_LAKE, UsageError
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.line import Line
from cdc_materializer.proof.proof import verify_tables
from cdc_materializer.query.fresh import fresh_rows
from cdc_materializer.run.run import RunOptions, open_work, run_once
from cdc_materializer.session.session import adopt_session, beside
from cdc_materializer.status import read_status
from cdc_materializer.testing import EPOCH
from tests.spark.marks import TURNS
from tests.spark.passages import ALL
from tests.spark.processes import (
    CHANGES,
    MIRROR,
    TABLES,
    TOPIC,
    command,
    content,
    environment,
    pipeline,
    refs,
    what_is_broken,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, TURNS]

_SECONDS_MAX = 900.0
_DAY_MS = 86_400_000
#: `cdcm run`, put to sleep at a point of a commit as a suspended machine is: all at once, and for any time.
_SLEEPER = """
import os, signal, sys
from cdc_materializer import crash_points
from cdc_materializer.cli import main

asleep = []

def reach(step, table):
    if not asleep and crash_points.point_of(step, table) == POINT:
        asleep.append(step)
        os.kill(os.getpid(), signal.SIGSTOP)

POINT = sys.argv.pop(1)
crash_points.reach = reach
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def undisturbed(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What two rounds of changes make when nothing disturbs their run."""
    config = pipeline(tmp_path_factory.mktemp("undisturbed"), 2, records_max=6, history=False)
    assert run_once(config, spark).exit_code == 0
    return content(config)


def _goes_on(config: Config, spark: "SparkSession", undisturbed: dict[str, list[dict[str, Any]]]) -> None:
    report = run_once(config, spark)

    assert (report.exit_code, report.tables[0].error) == (EXIT_DONE, None)
    assert what_is_broken(config) == []
    assert content(config) == undisturbed
    assert not [ref for names in refs(config).values() for ref in names if ref.startswith("cdcm_")]


def test_two_runs_at_once_do_what_one_does(
    spark: "SparkSession", tmp_path: Path, undisturbed: dict[str, list[dict[str, Any]]]
) -> None:
    """From the first commit of the first table on; who loses too often stops with 4, and nothing is twice."""
    config = pipeline(tmp_path, 2, records_max=6, history=False)
    both = [
        subprocess.Popen(command(config), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
        for _ in range(2)
    ]
    ends = [(*process.communicate(timeout=_SECONDS_MAX), process.returncode) for process in both]

    assert {code for *_, code in ends} <= {EXIT_DONE, EXIT_LAKE}, ends
    assert what_is_broken(config) == []
    _goes_on(config, spark, undisturbed)


#: Right before the commit that readers would see, and before anything is on the branch.
_POINTS = ("mirror.staged", *(("raw.staged", "mirror.branched", "quarantine.staged") if ALL else ()))


@pytest.mark.parametrize("point", _POINTS)
def test_a_run_that_slept_and_wakes_late_publishes_nothing_old(
    point: str, spark: "SparkSession", tmp_path: Path, undisturbed: dict[str, list[dict[str, Any]]]
) -> None:
    """Python and Java sleep while another run does everything; then the sleeper finds that it lost."""
    config = pipeline(tmp_path, 2, records_max=6, history=False)
    arguments = command(config)[3:]
    sleeper = subprocess.Popen(
        [sys.executable, "-c", _SLEEPER, point, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(),
    )
    try:
        _wait_for_sleep(sleeper)
        os.killpg(sleeper.pid, signal.SIGSTOP)
        assert run_once(config, spark).exit_code == EXIT_DONE
        between = content(config)
        os.killpg(sleeper.pid, signal.SIGCONT)
        said, errors = sleeper.communicate(timeout=_SECONDS_MAX)
    finally:
        if sleeper.poll() is None:
            os.killpg(sleeper.pid, signal.SIGKILL)

    assert sleeper.returncode == EXIT_DONE, errors
    assert json.loads(said)["tables"][0]["batches"] == 0
    assert between == undisturbed
    _goes_on(config, spark, undisturbed)


def _wait_for_sleep(process: "subprocess.Popen[str]") -> None:
    end = time.monotonic() + _SECONDS_MAX
    while Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "T":
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "it never came to its point"
        time.sleep(0.1)


def test_a_topic_that_another_run_read_on_meanwhile_is_not_taken_for_one_that_lost_its_end(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Who asks for its ends, and starts Spark then, finds more in raw than there was: a run, a reader, `adopt`."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    assert run_once(config, spark).exit_code == EXIT_DONE
    work = open_work(config, RunOptions())
    asked = work.source.state(TOPIC)
    pipeline(tmp_path, 2, records_max=100, history=False)
    assert run_once(config, spark).exit_code == EXIT_DONE
    lake = Lake(beside(spark, config), config.catalog.name)
    line = Line(config.name, work.tables[0], work.source, work.registry, None, lake)
    raw = lake.load(MIRROR.raw)

    assert line_steps.advance(line, asked) is None
    assert fresh_rows(line, asked).messages == 0
    with pytest.raises(UsageError, match="nothing to accept"):
        adopt._adopt(line, line_steps.load(line), asked, adopt.Decision("tests", EPOCH))

    assert lake.load(MIRROR.raw) == raw
    assert not [row for row in content(config)[str(MIRROR.quarantine)] if row["code"] == "OFFSET_REGRESSION"]


def test_a_foreign_commit_is_told_by_run_and_status_and_judged_by_verify(spark: "SparkSession", tmp_path: Path) -> None:
    """The run goes on, as nothing of its own is wrong; what the other program did to rows is `verify`'s to say."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    first = run_once(config, spark)
    adopt_session(spark, config).sql("DELETE FROM lake.shop.things WHERE id = 4")
    pipeline(tmp_path, 2, records_max=100, history=False)
    second = run_once(config, spark)
    status = read_status(config, datetime.now(UTC)).tables[0]
    verified = verify_tables(config, spark).tables[0]

    assert [report.tables[0].foreign_commits for report in (first, second)] == [0, 1]
    assert (second.exit_code, second.tables[0].read) == (EXIT_DONE, len(CHANGES))
    assert status.foreign_commits == 1
    assert (verified.equal, verified.missing, verified.unexpected) == (False, 1, 0)


Shift = Callable[[int], None]


@pytest.fixture
def dated(spark: "SparkSession", tmp_path: Path) -> tuple[Config, Shift]:
    """A pipeline with one round of changes done and another one waiting, and what moves the dates of its commits."""
    config = pipeline(tmp_path, 1, records_max=100, history=False)
    assert run_once(config, spark).exit_code == EXIT_DONE
    pipeline(tmp_path, 2, records_max=100, history=False)

    def shift(milliseconds: int) -> None:
        """Date all commits otherwise, as a machine with another clock would have."""
        for name in TABLES:
            table = open_tables(config.catalog).load(name)
            if table is None:
                continue
            path = Path(table.metadata_location.removeprefix("file:"))
            found = json.loads(path.read_text(encoding="utf-8"))
            found["last-updated-ms"] += milliseconds
            for entry in (*found["snapshots"], *found["snapshot-log"], *found["metadata-log"]):
                entry["timestamp-ms"] += milliseconds
            path.write_text(json.dumps(found), encoding="utf-8")
            # A checksum that Hadoop keeps beside the file is that of the former one.
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)

    return config, shift


def test_a_clock_that_went_forward_by_a_day_changes_nothing(
    spark: "SparkSession", dated: tuple[Config, Shift], undisturbed: dict[str, list[dict[str, Any]]]
) -> None:
    """Nothing is decided by when a commit was made."""
    config, shift = dated
    shift(-_DAY_MS)

    _goes_on(config, spark, undisturbed)


def test_a_clock_that_went_back_by_a_day_is_told_of_and_nothing_is_written(
    spark: "SparkSession", dated: tuple[Config, Shift], undisturbed: dict[str, list[dict[str, Any]]]
) -> None:
    """Iceberg takes no such commit; when the clock is right again, the next run goes on."""
    config, shift = dated
    before = content(config)
    shift(_DAY_MS)

    report = run_once(config, spark)

    error = report.tables[0].error
    assert report.exit_code == EXIT_LAKE
    assert error is not None
    assert "ahead of this machine's clock" in error.message
    assert content(config) == before
    assert str(MIRROR) in content(config)
    shift(-_DAY_MS)
    _goes_on(config, spark, undisturbed)
