"""Type-2 tables: the query, on histories written by hand, in an engine that is not Spark."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import duckdb
import pytest

from cdc_materializer import type_2_query
from cdc_materializer.errors import InvalidName

_ROW = 'STRUCT("id" BIGINT, "the ""name""" VARCHAR)'
_TABLE = (
    f'op VARCHAR, before {_ROW}, "after" {_ROW}, source_ts TIMESTAMP, position VARCHAR, epoch INT, topic VARCHAR, '
    '"partition" INT, "offset" BIGINT, "timestamp" TIMESTAMP, source_table VARCHAR, '
    'place STRUCT("sort" VARCHAR, "time" TIMESTAMP, "part" INT, "reach" VARCHAR)'
)
_COLUMNS = ["id", 'the "name"']


def _at(hour: int) -> datetime:
    return datetime(2026, 1, 1, hour)  # noqa: DTZ001 - DuckDB's plain timestamps


def _change(
    op: str,
    key: int,
    name: str | None,
    hour: int,
    offset: int,
    *,
    partition: int = 0,
    position: str | None = None,
    table: str | None = None,
    place: Mapping[str, Any] | None = None,
) -> tuple[Any, ...]:
    row = None if name is None else {"id": key, 'the "name"': name}
    before = {"id": key, 'the "name"': "?"} if op in "ud" else None
    position = f"{hour:04d}" if position is None else position
    return op, before, row, _at(hour), position or None, 0, "t", partition, offset, _at(hour), table, place


def _place(
    sort: str | None = None, hour: int | None = None, part: int = 0, reach: str | None = None
) -> Mapping[str, Any]:
    return {"sort": sort, "time": None if hour is None else _at(hour), "part": part, "reach": reach}


def _truncate(
    hour: int, table: str | None = None, place: Mapping[str, Any] | None = None, *, offset: int = 0
) -> tuple[Any, ...]:
    return "t", None, None, _at(hour), f"{hour:04d}", 0, "t", 1, offset, _at(hour), table, place


def _versions(changes: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE changes ({_TABLE})")
        for change in changes:
            engine.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", change)
        query = type_2_query('"changes"', ["id"], _COLUMNS, mark='"')
        return sorted(engine.sql(query).fetchall())


def test_each_version_lasts_until_the_next() -> None:
    """The row as it is now has no end."""
    versions = _versions([_change("c", 1, "a", 1, 0), _change("u", 1, "b", 2, 1), _change("r", 2, "x", 3, 2)])

    assert versions == [
        (1, "a", _at(1), _at(2), False),
        (1, "b", _at(2), None, True),
        (2, "x", _at(3), None, True),
    ]


def test_a_delete_ends_the_last_version() -> None:
    """Between a delete and the next insert there is none."""
    versions = _versions([_change("c", 1, "a", 1, 0), _change("d", 1, None, 2, 1), _change("c", 1, "b", 3, 2)])

    assert versions == [(1, "a", _at(1), _at(2), False), (1, "b", _at(3), None, True)]


def test_a_truncate_ends_the_versions_of_all_rows_before_it() -> None:
    """Its place among a row's changes is that of its position, wherever its partition stands."""
    changes = [_change("c", 1, "a", 1, 0), _change("c", 2, "x", 2, 1), _change("c", 2, "y", 4, 2), _truncate(3)]

    assert _versions(changes) == [
        (1, "a", _at(1), _at(3), False),
        (2, "x", _at(2), _at(3), False),
        (2, "y", _at(4), None, True),
    ]


@pytest.mark.parametrize(("table", "ends"), [("p1", [3, None, 3]), ("p2", [None, 3, 3]), (None, [3, 3, 3])])
def test_a_truncate_ends_the_rows_of_its_own_source_table(table: str | None, ends: list[int | None]) -> None:
    """Where both name theirs; a row that has moved between two tables is the second one's."""
    changes = [
        _change("c", 1, "a", 1, 0, table="p1"),
        _change("c", 2, "x", 1, 1, table="p1"),
        _change("d", 2, None, 2, 2, table="p1"),
        _change("c", 2, "y", 2, 3, table="p2"),
        _change("c", 3, "z", 2, 4),
        _truncate(3, table),
    ]

    found = {version[0]: version[3] for version in _versions(changes)}

    assert [found[key] for key in (1, 2, 3)] == [_at(end) if end is not None else None for end in ends]


@pytest.mark.parametrize(("partition", "end"), [(0, None), (1, 3)])
def test_a_truncate_leaves_a_row_without_a_position_of_another_partition(partition: int, end: int | None) -> None:
    """As of an incremental snapshot: nothing says that it was there. A later change of the row has a position again."""
    changes = [
        _change("r", 1, "a", 1, 0, partition=partition, position=""),
        _change("r", 2, "x", 1, 1, partition=partition, position=""),
        _change("u", 2, "y", 2, 2, partition=partition),
        _truncate(3, offset=9),
    ]

    found = {version[:2]: version[3] for version in _versions(changes)}

    assert found == {(1, "a"): _at(end) if end is not None else None, (2, "x"): _at(2), (2, "y"): _at(3)}


def test_a_change_that_came_late_stands_where_it_belongs() -> None:
    """Across partitions the source's positions say which change was first."""
    changes = [_change("c", 1, "a", 1, 0), _change("u", 1, "c", 3, 0, partition=1), _change("u", 1, "b", 2, 1)]

    assert [version[1:4] for version in _versions(changes)] == [
        ("a", _at(1), _at(2)),
        ("b", _at(2), _at(3)),
        ("c", _at(3), None),
    ]


def test_a_delete_without_a_position_stands_where_the_fold_has_put_it() -> None:
    """The first change of its row in a partition has none that a position could come from."""
    delete = _change("d", 1, None, 3, 0, partition=1, position="", place=_place("0002 5", 3))
    changes = [_change("c", 1, "a", 1, 0, place=_place("0001 3", 1)), _change("u", 1, "b", 2, 1), delete]

    assert _versions(changes) == [(1, "a", _at(1), _at(2), False), (1, "b", _at(2), _at(3), False)]


@pytest.mark.parametrize("hour", [1, 3])
def test_at_one_position_of_two_partitions_a_delete_comes_before_an_insert(hour: int) -> None:
    """Whatever the clocks of their records say."""
    delete = _change("d", 1, None, hour, 1, position="0002", place=_place("0002 1", hour))
    insert = _change("c", 1, "b", 2, 0, partition=1, place=_place("0002 3", 2))

    versions = _versions([_change("c", 1, "a", 0, 0), delete, insert])

    assert [version[1] for version in versions if version[4]] == ["b"]


def test_changes_of_one_message_come_in_its_order() -> None:
    """They share its offset."""
    changes = [_change("u", 1, name, 2, 1, place=_place(part=part)) for part, name in enumerate("abc")]

    versions = _versions([_change("c", 1, "", 1, 0), *reversed(changes)])

    assert versions == [(1, "", _at(1), _at(2), False), (1, "c", _at(2), None, True)]


@pytest.mark.parametrize("reach", ["0004", "0003", None])
def test_a_truncate_reaches_rows_of_snapshots_at_later_positions(reach: str | None) -> None:
    """Not those that were read behind it, and no changes of the log."""
    truncate = _truncate(2, place=_place("0002 1", 2, reach=reach))
    changes = [_change("r", 1, "a", 3, 0), _change("c", 2, "x", 3, 1), _change("r", 3, "y", 4, 2), truncate]

    current = [version[1] for version in _versions(changes) if version[4]]

    assert current == (["x", "y"] if reach == "0004" else ["a", "x", "y"])


@pytest.mark.parametrize("sort", ["0001 6", None])
def test_the_end_that_a_snapshot_makes_of_a_row_stands_behind_its_last_change(sort: str | None) -> None:
    """What comes back behind it can be at a lower position than the snapshot, which earlier versions went by."""
    end = _change("d", 1, None, 3, 0, partition=1, place=None if sort is None else _place(sort))
    changes = [_change("c", 1, "a", 1, 0), end, _change("c", 1, "b", 4, 1, position="0002")]

    current = [version[1] for version in _versions(changes) if version[4]]

    assert current == ([] if sort is None else ["b"])


def test_changes_of_earlier_versions_are_placed_by_their_positions_among_others() -> None:
    """They have nothing that the fold sorted by."""
    changes = [
        _change("c", 1, "a", 1, 7),
        _change("u", 1, "b", 2, 0, partition=1, place=_place("0002 4", 2)),
        _change("u", 1, "c", 3, 8),
        _change("u", 1, "d", 4, 1, partition=1, place=_place("0004 4", 4)),
    ]

    assert [version[1] for version in _versions(changes)] == ["a", "b", "c", "d"]


def test_times_only_rise_and_what_nobody_saw_is_left_out() -> None:
    """A row of an incremental snapshot has the connector's clock; a change behind it may have an earlier time."""
    snapshot = _change("r", 1, "b", 5, 1, position="0002")
    changes = [_change("c", 1, "a", 1, 0), snapshot, _change("u", 1, "c", 3, 2), _change("u", 1, "d", 6, 3)]

    assert _versions(changes) == [
        (1, "a", _at(1), _at(5), False),
        (1, "c", _at(5), _at(6), False),
        (1, "d", _at(6), None, True),
    ]


@pytest.mark.parametrize("name", ["valid_from", "VALID_TO", "is_current"])
def test_a_column_that_has_the_name_of_one_of_ours_is_refused(name: str) -> None:
    """The table would have it twice; it can be left out."""
    with pytest.raises(InvalidName, match=f"column `{name}`"):
        type_2_query("changes", ["id"], ["id", name])
