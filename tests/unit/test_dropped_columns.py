"""Which columns of a mirror another program has taken away, by what Iceberg says of its columns then and now."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.errors import EXIT_LAKE, LakeUnavailable
from cdc_materializer.lake import lake
from cdc_materializer.lake.branches import keep
from cdc_materializer.lake.columns import RETYPED, dropped_columns
from cdc_materializer.line.line import Tables
from cdc_materializer.marker.marker import MARKER_TAG
from cdc_materializer.marker.swapped import BEFORE_REPLAY
from cdc_materializer.rebuild import swap as rebuild_swap
from tests.model.lake_contract import SCHEMA, again, append, create, marker
from tests.unit.memory import NAME, PATH, MemoryBench


def _schema(number: int, columns: dict[int, str]) -> Any:  # noqa: ANN401 - stands for a Java object
    plain = SimpleNamespace(isNestedType=lambda: False)
    fields = [
        SimpleNamespace(fieldId=lambda at=at: at, name=lambda name=name: name, type=lambda: plain)
        for at, name in columns.items()
    ]
    return SimpleNamespace(schemaId=lambda: number, columns=lambda: fields)


def _dropped(
    then: dict[int, str], now: dict[int, str], properties: dict[str, str] | None = None
) -> dict[str, str | None]:
    schemas = {1: _schema(1, then), 2: _schema(2, now)}
    table = SimpleNamespace(schema=lambda: schemas[2], schemas=lambda: schemas, properties=lambda: properties or {})
    return dropped_columns(table, SimpleNamespace(schemaId=lambda: 1))


@pytest.mark.parametrize(
    ("now", "gone"),
    [
        pytest.param({1: "id", 2: "price", 3: "note"}, {}, id="one has come"),
        pytest.param({1: "id"}, {"price": None}, id="dropped"),
        pytest.param({1: "id", 3: "price"}, {"price": None}, id="dropped, and made anew"),
        pytest.param({1: "id", 2: "cost"}, {"price": "cost"}, id="renamed"),
        pytest.param({1: "id", 2: "PRICE"}, {}, id="in other letters"),
        pytest.param({1: "price", 2: "id"}, {"id": "price", "price": "id"}, id="names were swapped"),
    ],
)
def test_a_column_is_gone_where_its_field_or_its_name_is(now: dict[int, str], gone: dict[str, str | None]) -> None:
    """It is by its field that files keep it, and by its name that it is filled."""
    assert _dropped({1: "id", 2: "price"}, now) == gone


def test_a_column_that_was_rebuilt_with_another_type_is_not_gone() -> None:
    """The one that stood beside it has taken its place, and its name."""
    then = {1: "id", 2: "price", 3: "__cdc_rebuilt_price"}

    assert _dropped(then, {1: "id", 3: "price"}, {RETYPED: "3"}) == {}


def test_a_branch_is_held_against_its_own_newest_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is folded on it is begun anew, too, where a column goes between two batches; main's tag tells of main."""
    bench, looked_at = MemoryBench(), list[int]()

    def look(_: object, marked: Any) -> dict[str, str | None]:  # noqa: ANN401 - stands for a Java object
        looked_at.append(marked.snapshotId())
        return {}

    monkeypatch.setattr(lake, "dropped_columns", look)
    append(bench, create(bench), "live", 1)
    bench.branch("beside")
    beside = replace(bench.lake, branch="beside")
    base = beside.load(NAME)
    assert base is not None
    append(bench, again(bench), "later", 2)
    looked_at.clear()

    for there in (bench.lake, beside):
        there.load(NAME)

    assert looked_at == [bench.catalog.tables[PATH].refs[MARKER_TAG], base.head]


def test_nothing_is_taken_back_while_a_column_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state that comes back would tell of it no more, and the next run would begin it anew."""
    bench, done = MemoryBench(), list[object]()
    whole = create(bench)
    held = bench.lake.create(NAME.quarantine, SCHEMA, marker("start", 0), {})
    for table in (whole, held):
        assert table.head is not None
        keep(bench.lake, table.name, table.head, BEFORE_REPLAY)
    monkeypatch.setattr(rebuild_swap, "swap_ended", lambda _, tables: tables)
    monkeypatch.setattr(rebuild_swap, "_check_hidden", lambda *_: None)
    monkeypatch.setattr(rebuild_swap, "go_back", lambda *given: done.append(given))
    line: Any = SimpleNamespace(mirror=NAME, lake=bench.lake)

    lost = Tables(None, replace(whole, dropped={"price": None}), whole)
    monkeypatch.setattr(rebuild_swap, "load_all", lambda _: lost)
    with pytest.raises(LakeUnavailable, match=r"has dropped or renamed price of shop\.t.*its name back") as caught:
        rebuild_swap.take_back(line)

    assert (caught.value.exit_code, done) == (EXIT_LAKE, [])
    monkeypatch.setattr(rebuild_swap, "load_all", lambda _: Tables(None, whole, whole))
    rebuild_swap.take_back(line)
    assert len(done) == 1
