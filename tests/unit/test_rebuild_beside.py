"""Which branch a replay goes on with, on the lake in memory: none that was folded by what is not so any more."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cdc_materializer
from cdc_materializer.config import Config
from cdc_materializer.errors import CommitConflict
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.marker.marker import Marker
from cdc_materializer.merge import table_path
from cdc_materializer.names import TableName
from cdc_materializer.rebuild import rebuild
from cdc_materializer.rebuild import swap as rebuild_swap
from cdc_materializer.rebuild.rebuild import ReplayOptions, _begin, _beside, _catch_up, _Sides
from cdc_materializer.registry import open_registry
from cdc_materializer.retry import COMMIT, REPLAN
from cdc_materializer.testing.catalog import MemoryCatalog
from cdc_materializer.testing.lake import memory_lake
from tests.model.lake_contract import SCHEMA, marker
from tests.unit.pipelines import SMALL, load

#: How often a commit is tried.
COMMITS_MAX = COMMIT.attempts or 0


def _of(config: Config, catalog: MemoryCatalog | None = None) -> Line:
    lake: Any = memory_lake(catalog or MemoryCatalog())
    source: Any = None
    return Line(config.name, config.tables[0], source, open_registry(config.registry), None, lake)


def _branch(folder: Path, registry: str | None) -> str:
    line = _of(load(folder, SMALL if registry is None else f"{SMALL}registry: {registry}\n"))
    read = marker("read", 5)
    return _beside(line, read, read, {}, None).lake.branch


def test_another_registry_is_another_branch(tmp_path: Path) -> None:
    """A number names another schema there, and what it was read by cannot be told from a branch."""
    for folder in ("schemas", "other"):
        (tmp_path / folder).mkdir()
    registries = [
        None,
        "{files: schemas}",
        "{files: other}",
        "{files: schemas, id: apicurio-content}",
        "{files: schemas, id: apicurio-global}",
        "{url: 'http://one:8081'}",
        "{url: 'http://other:8081'}",
        "{url: 'http://one:8081', id: apicurio-content}",
        "{url: 'http://one:8081', id: apicurio-global}",
    ]

    assert len({_branch(tmp_path, registry) for registry in registries}) == len(registries)


def test_how_a_registry_is_entered_makes_no_other_branch(tmp_path: Path) -> None:
    """A password that is changed changes no schema, and nothing of it may be in a name that anybody sees."""
    logins = ["", ", basic_auth: {user: u, password: one}", ", headers: {X-Key: two}"]

    assert len({_branch(tmp_path, f"{{url: 'http://one:8081'{login}}}") for login in logins}) == 1


def test_another_version_is_another_branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may read or judge otherwise."""
    before = _branch(tmp_path, None)
    monkeypatch.setattr(cdc_materializer, "__version__", "99.0")

    assert _branch(tmp_path, None) != before


def _stays(_catalog: MemoryCatalog, _raw: str) -> None:
    """Nothing happens."""


def _compacts(catalog: MemoryCatalog, raw: str) -> None:
    catalog.compact(raw)


def _goes_back(catalog: MemoryCatalog, raw: str) -> None:
    now = catalog.tables[raw]
    parent = next(now.line()).parent
    assert parent is not None
    catalog.tables[raw] = replace(now, refs={**now.refs, "main": parent}, version=now.version + 1)


def _expires(catalog: MemoryCatalog, raw: str) -> None:
    catalog.compact(raw)
    now = catalog.tables[raw]
    refs = dict.fromkeys(now.refs, now.refs["main"])
    catalog.tables[raw] = replace(now, refs=refs, version=now.version + 1)
    catalog.expire(raw)


def _is_made_anew(catalog: MemoryCatalog, raw: str) -> None:
    catalog.tables[raw] = replace(catalog.tables[raw], uuid="another")


@pytest.mark.parametrize(
    ("happens", "goes_on"),
    [(_stays, True), (_compacts, True), (_expires, True), (_goes_back, False), (_is_made_anew, False)],
)
def test_a_branch_of_what_raw_is_no_more_is_begun_anew(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[MemoryCatalog, str], None],
    goes_on: bool,  # noqa: FBT001
) -> None:
    """Raw was taken back, and other messages may have landed at the same offsets since."""
    # The memory keeps no columns.
    monkeypatch.setattr(rebuild, "make_room", lambda *_: None)
    catalog = MemoryCatalog()
    line = _of(load(tmp_path, SMALL), catalog)
    name, lake = line.mirror, line.lake
    for one in (name, name.raw, name.quarantine):
        lake.create(one, SCHEMA, marker("start", 0), {"format-version": "2"})
    raw = _publish(line, name.raw, marker("landed", 5))
    live = lake.load(name)
    assert live is not None
    beside = _beside(line, raw, marker_of(live), {}, None)
    sides = _Sides(line, beside, None, 0)
    found = lake.load(name.raw)
    assert found is not None
    _begin(sides, live, lake.load(name.quarantine), ReplayOptions())
    for one in (name, name.quarantine):
        _publish(beside, one, replace(marker("folded", 3), source_snapshot=found.head, raw_table=found.uuid))

    happens(catalog, table_path("lake", name.raw))
    caught_up = _publish(line, name, marker("folded", 3))
    live = lake.load(name)
    assert live is not None
    assert marker_of(live) == caught_up
    _begin(sides, live, lake.load(name.quarantine), ReplayOptions())

    begun = beside.lake.load(name)
    assert begun is not None
    assert marker_of(begun).offsets == ({0: 3} if goes_on else {})


def _publish(line: Line, name: TableName, told: Marker) -> Marker:
    base = line.lake.load(name)
    assert base is not None
    line.lake.publish(base, told, lambda _stage: None)
    return told


def test_a_batch_that_a_runs_commit_was_in_the_way_of_is_folded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a run does: a live pipeline commits to the table all the time, and the replay is not to end for it."""
    line = _of(load(tmp_path, SMALL))
    for one in (line.mirror, line.mirror.raw, line.mirror.quarantine):
        line.lake.create(one, SCHEMA, marker("start", 0), {"format-version": "2"})
    live, lost = line.lake.load(line.mirror), CommitConflict("Another writer was first.", "Run again.")
    assert live is not None
    beside = _beside(line, marker_of(live), marker_of(live), {}, None)
    answers: list[Any] = [lost, "a batch", lost, lost, "another", None]

    def answer(*_: object) -> Any:  # noqa: ANN401 - a batch or none
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(rebuild, "fold_next", answer)
    assert _catch_up(_Sides(line, beside, None, 0), live, ReplayOptions()) == 2
    answers += [lost] * REPLAN.attempts if REPLAN.attempts else []
    with pytest.raises(CommitConflict):
        _catch_up(_Sides(line, beside, None, 0), live, ReplayOptions())
    assert answers == []


@pytest.mark.parametrize(
    ("losses", "is_done"), [(0, True), (COMMITS_MAX - 1, True), (COMMITS_MAX, False)], ids=["none", "some", "all"]
)
def test_a_swap_that_loses_to_a_commit_is_tried_again_or_caught_up_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    losses: int,
    is_done: bool,  # noqa: FBT001
) -> None:
    """None of it is an error: what was published meanwhile is folded, and the swap is tried once more."""
    line, left = _of(load(tmp_path, SMALL)), losses
    for one in (line.mirror, line.mirror.raw, line.mirror.quarantine):
        line.lake.create(one, SCHEMA, marker("start", 0), {"format-version": "2"})
    live = rebuild_swap.load_all(line)
    assert live.mirror is not None
    beside = _beside(line, marker_of(live.mirror), marker_of(live.mirror), {}, None)
    ended = []

    def lose(*_: object) -> bool:
        nonlocal left
        left -= 1
        if left >= 0:
            what = "Another writer was first."
            raise CommitConflict(what, "Run again.")
        return True

    monkeypatch.setattr(rebuild_swap, "swap", lose)
    monkeypatch.setattr(rebuild_swap, "swap_ended", lambda *_: ended.append(1))

    assert rebuild_swap.swap_in(line, beside, live, live, changes=True) is is_done
    assert ended == [1] * is_done
