"""What changes of columns mean for rows that are there: for their hashes, and for what another program took away."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_materializer.errors import EXIT_LAKE, LakeUnavailable
from cdc_materializer.lake.columns import REBUILT_PREFIX, Stored, as_seen, dropped_columns, hashes_otherwise
from cdc_materializer.lake.commit import marker_at
from cdc_materializer.line.checks import check_columns
from cdc_materializer.schema.schema import Change, Column, SchemaPlan, TableSchema
from tests.model.lake_contract import create, marker
from tests.unit.memory import MemoryBench


class _Type:
    """Stands for a type of Iceberg's: a word, or its fields."""

    def __init__(self, word: str, *fields: "_Field") -> None:
        self._word, self._fields = word, fields

    def isNestedType(self) -> bool:  # noqa: N802 - Java's name
        return bool(self._fields)

    def fields(self) -> tuple["_Field", ...]:
        return self._fields

    def __str__(self) -> str:
        return self._word


class _Field:
    """Likewise for a field."""

    def __init__(self, number: int, name: str, kind: _Type) -> None:
        self.fieldId, self.name, self.type = (lambda: number), (lambda: name), (lambda: kind)


_INT, _LONG = _Type("int"), _Type("long")


def _struct(**fields: int) -> _Type:
    """A struct of whole numbers: the number of each field by its name."""
    return _Type("struct", *[_Field(number, name, _INT) for name, number in fields.items()])


def _table(then: dict[str, _Type], now: dict[str, _Type]) -> Any:  # noqa: ANN401 - stands for a Java object
    numbers = {name: number for number, name in enumerate(dict.fromkeys(map(str.lower, [*then, *now])))}

    def schema(number: int, columns: dict[str, _Type]) -> Any:  # noqa: ANN401 - stands for a Java object
        found = [_Field(numbers[name.lower()], name, kind) for name, kind in columns.items()]
        return SimpleNamespace(schemaId=lambda: number, columns=lambda: found)

    schemas = {1: schema(1, then), 2: schema(2, now)}
    return SimpleNamespace(schema=lambda: schemas[2], schemas=lambda: schemas, properties=dict)


def _snapshot(schema: int, **told: str) -> Any:  # noqa: ANN401 - stands for a Java object
    summary = {**replace(marker("one", 5), ledger="sums").to_summary(), **told}
    return SimpleNamespace(schemaId=lambda: schema, summary=lambda: summary)


def _list(kind: _Type) -> _Type:
    return _Type("list", _Field(51, "element", kind))


def _map(kind: _Type) -> _Type:
    return _Type("map", _Field(61, "key", _INT), _Field(62, "value", kind))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(_struct(a=91), _struct(a=91, b=92), id="a field that has come"),
        pytest.param(_list(_INT), _list(_LONG), id="a list that was widened"),
        pytest.param(_map(_struct(a=91)), _map(_struct(a=91, b=92)), id="a field in a map"),
    ],
)
def test_a_ledger_is_of_no_rows_whose_parts_have_changed(before: _Type, after: _Type) -> None:
    """Whoever goes on from it, a batch behind one that was killed, maintenance or a rollback, carries it no further."""
    table = _table({"id": _INT, "v": before}, {"id": _INT, "v": after})

    assert hashes_otherwise(table, _snapshot(1))
    assert [found and found.ledger for found in (marker_at(table, _snapshot(at)) for at in (1, 2))] == [None, "sums"]
    assert dropped_columns(table, _snapshot(1)) == {}


def test_a_ledger_is_of_no_rows_whose_columns_have_other_letters() -> None:
    """A batch may rename a column in case only and stop before it is published: its hashes are of the former name."""
    table = _table({"id": _INT, "Name": _INT}, {"id": _INT, "name": _INT})

    assert hashes_otherwise(table, _snapshot(1))
    assert not hashes_otherwise(table, _snapshot(2))
    assert dropped_columns(table, _snapshot(1)) == {}


def test_added_and_widened_columns_change_no_hash() -> None:
    """Nor does one that goes, or our own, which is in no hash; of a part that goes the ledger has to tell."""
    then = {"id": _INT, "gone": _struct(a=91), "price": _INT, "parts": _struct(a=93), "cut": _struct(a=94, b=95)}
    now = {"id": _LONG, "price": _LONG, "parts": _struct(a=93), "more": _struct(a=98), "cut": _struct(a=94)}
    ours, ours_now = {"__cdc": _struct(op=96)}, {"__cdc": _struct(op=96, source=97)}

    assert not hashes_otherwise(_table(then | ours, now | ours_now), _snapshot(1))


@pytest.mark.parametrize(
    ("now", "gone"),
    [
        pytest.param(_struct(a=91, b=92, c=93), {}, id="one has come"),
        pytest.param(_struct(a=91), {"v.b": None}, id="dropped"),
        pytest.param(_struct(a=91, b=93), {"v.b": None}, id="dropped, and made anew"),
        pytest.param(_struct(a=91, c=92), {"v.b": "v.c"}, id="renamed"),
        pytest.param(_struct(a=91, B=92), {}, id="in other letters"),
    ],
)
@pytest.mark.parametrize("wrapped", [(lambda kind: kind, ""), (_list, ".element"), (_map, ".value")])
def test_a_field_that_is_gone_from_a_column_is_not_begun_anew(
    now: _Type, gone: dict[str, str | None], wrapped: tuple[Callable[[_Type], _Type], str]
) -> None:
    """It would be NULL in all rows from before, as a column would."""
    wrap, place = wrapped
    found = dropped_columns(_table({"v": wrap(_struct(a=91, b=92))}, {"v": wrap(now)}), _snapshot(1))
    types = {"": "{}", ".element": "array<{}>", ".value": "map<int,{}>"}[place]

    def wanted(*fields: str) -> TableSchema:
        parts = ",".join(f"`{name}`:int" for name in fields)
        return TableSchema((Column("v", types.format(f"struct<{parts}>")),))

    assert found == {f"v{place}{old[1:]}": None if new is None else f"v{place}{new[1:]}" for old, new in gone.items()}
    mirror = replace(create(MemoryBench()), dropped=found)
    check_columns(mirror, wanted("a"))
    if gone:
        with pytest.raises(LakeUnavailable, match=rf"dropped or renamed v{place}\.b of shop"):
            check_columns(mirror, wanted("a", "b"))


@pytest.mark.parametrize("column", [Column("price", "int"), Column("cost", "int", former=("price",))])
def test_a_column_that_is_gone_is_begun_anew_under_none_of_its_names(column: Column) -> None:
    """`renames` that are written behind it would give it another name, and NULL in all rows from before."""
    mirror = replace(create(MemoryBench()), dropped={"price": None})

    with pytest.raises(LakeUnavailable, match="dropped or renamed price of shop") as caught:
        check_columns(mirror, TableSchema((Column("id", "int"), column), ("id",)))
    assert caught.value.exit_code == EXIT_LAKE
    check_columns(mirror, TableSchema((Column("id", "int"), Column("cost", "int")), ("id",)))


def test_what_is_to_be_renamed_is_read_and_written_under_the_names_that_readers_see() -> None:
    """Until then; a column that is rebuilt with another type too has a name of ours beside the old one."""
    beside = REBUILT_PREFIX + "code"
    known = Stored(then={"code": beside, "qty": "amount"}, now={"code": beside}, unused={"code": "int"})

    found = known.renaming([("code", "number"), ("name", "label")])

    assert found.now == {"number": beside, "label": "name"}
    assert found.then == {"number": beside, "label": "name", "qty": "amount"}
    assert (found.rebuilt, found.unused) == (("number",), {"code": "int"})
    assert found.later == (("code", "number"), ("name", "label"))
    assert (known.later, known.rebuilt) == ((), ("code",))


def test_a_plan_changes_columns_by_the_names_that_readers_see() -> None:
    """New ones have none yet, and come behind what the table calls the one before them."""
    label, note = Column("label", "bigint", "A label"), Column("note", "string")
    changes = (Change(("label",), "bigint", "int"), Change(("place", "x"), "int"))
    target = TableSchema((Column("id", "bigint"), label, note), ("id",))
    plan = SchemaPlan(target, added=(note,), documented=(label,), changes=changes)

    found = as_seen(plan, [("name", "label")])

    assert [column.name for column in found.target.columns] == ["id", "name", "note"]
    assert ([one.path for one in found.changes], found.added) == ([("name",), ("place", "x")], (note,))
    assert found.documented == (replace(label, name="name"),)
    assert as_seen(plan, []) == plan
