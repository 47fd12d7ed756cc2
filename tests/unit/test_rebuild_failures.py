"""What a replay or a rollback of several tables tells, where something unexpected ends one of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from cdc_materializer.errors import EXIT_BUG, EXIT_LAKE
from cdc_materializer.line.line import Line
from cdc_materializer.names import TableName
from cdc_materializer.rebuild import rebuild
from cdc_materializer.rebuild.rebuild import ReplayOptions, let_go, replay_tables, roll_back
from cdc_materializer.report.replay_models import ReplayReport, TableReplay
from cdc_materializer.status import exit_code_of_replay

_NAMES = ("shop.one", "shop.two", "shop.three")
_ROW = "a row's value"
_CONFIG: Any = SimpleNamespace(name="shop")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, Exception]:
    """What ends each table, by its name; there is a session, and nothing is done with it."""
    failures: dict[str, Exception] = {}
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False)))
    )

    @contextmanager
    def session_for(*_: object, **__: object) -> Iterator[Any]:
        yield spark

    def line(_work: object, _spark: object, table: TableName) -> Any:  # noqa: ANN401 - as much of a Line as is asked
        return SimpleNamespace(mirror=table, table=SimpleNamespace(topic="t"), lake=SimpleNamespace(spark=spark))

    def do(line: Line) -> None:
        if str(line.mirror) in failures:
            raise failures[str(line.mirror)]

    def replay(line: Line, _options: ReplayOptions) -> TableReplay:
        do(line)
        return TableReplay(table=str(line.mirror), topic="t", equal=True, published=True)

    work = SimpleNamespace(tables=[TableName.parse(name) for name in _NAMES], contracts={})
    for name, stand_in in {
        "_opened": lambda *_: work,
        "session_for": session_for,
        "_line": line,
        "refuse_unreadable": lambda *_: None,
        "landed": lambda *_: 0,
        "_replay": replay,
        "take_back": do,
        "forget": do,
    }.items():
        monkeypatch.setattr(rebuild, name, stand_in)
    return failures


def _replayed() -> ReplayReport:
    return replay_tables(_CONFIG, _NAMES, ReplayOptions(publish=True))


def _rolled_back() -> ReplayReport:
    return roll_back(_CONFIG, _NAMES)


def _forgotten() -> ReplayReport:
    return let_go(_CONFIG, _NAMES)


@pytest.mark.parametrize("do", [_replayed, _rolled_back, _forgotten])
@pytest.mark.parametrize(
    ("failure", "code", "ends_with"),
    [(PySparkException(_ROW), "LakeUnavailable", EXIT_LAKE), (ValueError(_ROW), "BUG", EXIT_BUG)],
    ids=["Spark's", "a bug"],
)
def test_what_ends_one_table_is_told_beside_what_became_of_the_others(
    failing: dict[str, Exception],
    do: Any,  # noqa: ANN401 - a function
    failure: Exception,
    code: str,
    ends_with: int,
) -> None:
    """What was swapped already is swapped, and somebody has to know; what comes behind is done."""
    failing["shop.two"] = failure

    found = do()

    errors = {table.table: table.error.code if table.error is not None else None for table in found.tables}
    assert errors == {"shop.one": None, "shop.two": code, "shop.three": None}
    assert exit_code_of_replay(found) == ends_with
    assert _ROW not in found.model_dump_json()
