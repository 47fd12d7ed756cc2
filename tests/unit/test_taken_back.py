"""What a rollback takes back where expiry has come between, on the lake in memory."""

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_materializer.errors import UsageError
from cdc_materializer.lake.branches import keep
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.marker.swapped import BEFORE_REPLAY
from cdc_materializer.merge import table_path
from cdc_materializer.rebuild import swap as rebuild_swap
from cdc_materializer.rebuild.swap import take_back
from cdc_materializer.testing.catalog import MemoryCatalog
from cdc_materializer.testing.lake import MemoryLake, memory_lake
from tests.model.lake_contract import SCHEMA, marker
from tests.unit.pipelines import SMALL, load


@pytest.fixture
def catalog() -> MemoryCatalog:
    """A catalog of the test's own."""
    return MemoryCatalog()


@pytest.fixture
def line(tmp_path: Path, catalog: MemoryCatalog, monkeypatch: pytest.MonkeyPatch) -> Line:
    """The way of a table whose mirror another engine has compacted before a swap kept it, and that has read on since.

    A part of it: that a replay has put something else in its place is not needed to lose it.
    """
    # Rows of quarantine need Spark.
    monkeypatch.setattr(rebuild_swap, "swap_ended", lambda _line, tables: tables)
    config = load(tmp_path, SMALL)
    lake = memory_lake(catalog)
    found = Line(config.name, config.tables[0], None, None, None, lake)  # type: ignore[arg-type]  # nothing is read
    for name in (found.mirror, found.mirror.quarantine):
        lake.create(name, SCHEMA, marker("start", 0), {"format-version": "2"})
        _read_to(found, lake, 100, name.name)
        catalog.compact(table_path("lake", name))
        head = lake.load(name)
        assert head is not None
        assert head.head is not None
        keep(lake, name, head.head, BEFORE_REPLAY)
        _read_to(found, lake, 500, name.name)
    return found


def _read_to(line: Line, lake: MemoryLake, offset: int, table: str) -> None:
    name = replace(line.mirror, name=table)
    base = lake.load(name)
    assert base is not None
    lake.publish(base, marker(f"to {offset}", offset), lambda _stage: None)


def test_rows_come_back_with_the_progress_that_they_had(line: Line) -> None:
    """Another engine's compaction has none of its own: what stands before it says how far the rows go."""
    take_back(line)

    found = line.load_mirror()
    assert found is not None
    assert marker_of(found).offsets == {0: 100}


def test_rows_of_which_nothing_tells_how_far_they_go_do_not_come_back(line: Line, catalog: MemoryCatalog) -> None:
    """Taken for what was read since, all that came between would be lost."""
    catalog.expire(table_path("lake", line.mirror))
    before = line.load_mirror()

    with pytest.raises(UsageError, match="nothing tells how far") as caught:
        take_back(line)

    assert "--publish" in str(caught.value)
    assert line.load_mirror() == before
