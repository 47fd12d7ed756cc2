"""A disk that is full, and one that may only be read: real ones, small mounts that the tests make and remove.

The disk is filled at the points of a batch where something is about to be written. Whatever fails then, the run says so
with exit code 4, readers see whole batches, and with space given the next run ends where an undisturbed one does.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from cdc_materializer import crash_points
from cdc_materializer.config import Config
from cdc_materializer.errors import EXIT_LAKE
from cdc_materializer.names import TableName
from cdc_materializer.run.run import RunOptions, run_once
from tests.spark.marks import THIRD_TURN
from tests.spark.passages import ALL
from tests.spark.processes import CHANGES, MIRROR, content, pipeline, refs, what_is_broken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, THIRD_TURN]

_MEGABYTE = 1 << 20
_FULL = "filler"
Mount = Callable[[], Path]


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Makes small disks in memory; where this user may not mount, skipped, or failed if all tests are asked for."""
    made: list[Path] = []

    def make() -> Path:
        place = tmp_path / f"disk{len(made)}"
        place.mkdir()
        ended = _mounted("-t", "tmpfs", "-o", f"size={16 * _MEGABYTE}", "tmpfs", str(place))
        if ended.returncode:
            (pytest.fail if ALL else pytest.skip)(f"a file system cannot be mounted here: {ended.stderr.strip()}")
        made.append(place)
        return place

    yield make
    for place in made:
        # Lazily: Spark may still hold a file of it open.
        subprocess.run(["umount", "-l", str(place)], check=True)


def _mounted(*arguments: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(["mount", *arguments], check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        return subprocess.CompletedProcess(["mount"], 1, "", str(error))


def _fill(place: Path) -> None:
    with (place / _FULL).open("wb", buffering=0) as file, suppress(OSError):
        for size in (_MEGABYTE, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"\0" * size) == size:
                    pass


@pytest.fixture
def at_point(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[], None]], None]:
    """Do something once, when a run comes to a named point."""

    def arm(point: str, act: Callable[[], None]) -> None:
        left = iter([act])

        def reach(step: str, table: TableName) -> None:
            if crash_points.point_of(step, table) == point:
                next(left, lambda: None)()

        monkeypatch.setattr(crash_points, "reach", reach)

    return arm


@pytest.fixture(scope="module")
def undisturbed(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What a run makes that nothing disturbs."""
    config = _pipeline(tmp_path_factory.mktemp("undisturbed"))
    assert run_once(config, spark).exit_code == 0
    return content(config)


def _pipeline(root: Path, **catalog: str) -> Config:
    """Without a history, which is written as raw is."""
    properties = {"name": "lake", "type": "jdbc", "uri": f"jdbc:sqlite:{root}/lake/catalog.db", **catalog}
    (root / "lake").mkdir(exist_ok=True)
    properties.setdefault("warehouse", f"file://{root}/lake/warehouse")
    return pipeline(root, more={"catalog": properties}, history=False, records_max=_LANDED)


#: The messages of a batch.
_LANDED = 6
_OTHERS = {
    "": 0,
    "raw.branched": 0,
    "raw.published": _LANDED,
    "quarantine.branched": _LANDED,
    "mirror.branched": _LANDED,
}
#: Where the disk is full from, and how many messages raw has got by then: the first batch comes to these points one
#: after another. Some of them only with CDCM_TESTS=all.
POINTS = {
    "raw.staged": 0,
    "mirror.staged": _LANDED,
    **(_OTHERS if ALL else {}),
}


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point or "from the beginning")
def test_a_full_disk_ends_the_run_with_4_and_nothing_is_half_visible(
    point: str,
    spark: "SparkSession",
    tmp_path: Path,
    mount: Mount,
    at_point: Callable[[str, Callable[[], None]], None],
    undisturbed: dict[str, list[dict[str, Any]]],
) -> None:
    """The disk of the tables' files; with space given, the next run ends where an undisturbed one does."""
    disk = mount()
    config = _pipeline(tmp_path, warehouse=f"file://{disk}/warehouse")
    if point:
        at_point(point, lambda: _fill(disk))
    else:
        _fill(disk)

    report = run_once(config, spark)

    assert report.exit_code == EXIT_LAKE
    error = report.tables[0].error
    assert error is not None
    assert "have room" in error.message
    assert what_is_broken(config) == []
    assert len(content(config)[str(MIRROR.raw)]) == POINTS[point]
    assert content(config)[str(MIRROR)] == []
    (disk / _FULL).unlink()
    _goes_on(config, spark, undisturbed)


def test_a_catalog_on_a_full_disk_ends_the_run_with_4(
    spark: "SparkSession", tmp_path: Path, mount: Mount, undisturbed: dict[str, list[dict[str, Any]]]
) -> None:
    """Files can be written, and the catalog's own database cannot."""
    disk = mount()
    config = _pipeline(tmp_path, uri=f"jdbc:sqlite:{disk}/catalog.db")
    before = _one_batch(config, spark)
    _fill(disk)

    report = run_once(config, spark)

    assert report.exit_code == EXIT_LAKE
    error = report.tables[0].error
    assert error is not None
    assert "room" in error.message
    assert content(config) == before
    (disk / _FULL).unlink()
    _goes_on(config, spark, undisturbed)


def test_a_disk_that_became_read_only_ends_the_run_with_4(
    spark: "SparkSession", tmp_path: Path, mount: Mount, undisturbed: dict[str, list[dict[str, Any]]]
) -> None:
    """As a file system does by itself when its disk fails; readers go on reading."""
    disk = mount()
    config = _pipeline(tmp_path, warehouse=f"file://{disk}/warehouse")
    before = _one_batch(config, spark)
    assert _mounted("-o", "remount,ro", str(disk)).returncode == 0

    report = run_once(config, spark)

    assert report.exit_code == EXIT_LAKE
    assert content(config) == before
    assert _mounted("-o", "remount,rw", str(disk)).returncode == 0
    _goes_on(config, spark, undisturbed)


def _one_batch(config: Config, spark: "SparkSession") -> dict[str, list[dict[str, Any]]]:
    """Run a single batch, and return what readers see then."""
    ended = Event()
    done = run_once(config, spark, RunOptions(stop=ended, on_batch=lambda *_: ended.set()))
    assert (done.exit_code, done.tables[0].batches) == (0, 1)
    return content(config)


def _goes_on(config: Config, spark: "SparkSession", undisturbed: dict[str, list[dict[str, Any]]]) -> None:
    report = run_once(config, spark)

    assert (report.exit_code, report.tables[0].error) == (0, None)
    assert len(content(config)[str(MIRROR.raw)]) == len(CHANGES)
    assert content(config) == undisturbed
    assert not [ref for names in refs(config).values() for ref in names if ref.startswith("cdcm_")]
