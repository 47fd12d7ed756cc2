"""The demo's proof: a mirror beside the database's own answer, value by value.

The recorded truth is what PostgreSQL itself writes for each value (`column::text`), so the mirror's values are written
the way PostgreSQL writes them, and then compared as text.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from importlib.resources.abc import Traversable
from typing import Any

_NUMERIC = "numeric("
_ARRAY = "[]"
#: PostgreSQL puts quotes around an element of an array that has one of these in it.
_QUOTED = frozenset('{},"\\ \t\n\r\v\f')


@dataclass(frozen=True)
class Truth:
    """What the database holds.

    Attributes:
        key: the primary key's columns.
        types: PostgreSQL's type by column name.
        rows: the rows, each value as PostgreSQL writes it; None is NULL.
    """

    key: tuple[str, ...]
    types: Mapping[str, str]
    rows: tuple[Mapping[str, str | None], ...]


@dataclass(frozen=True)
class Compared:
    """What a comparison found; keys are the rows' keys as PostgreSQL writes them.

    Attributes:
        equal: rows of which every value is the same.
        missing: keys that the database has and the mirror has not.
        unexpected: keys that the mirror has and the database has not.
        different: names of the columns that differ, by key.
        extra: columns that only the mirror has: dropped or renamed in the database since.
    """

    equal: int
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    different: Mapping[str, tuple[str, ...]]
    extra: tuple[str, ...]


def read_truth(folder: Traversable, table: str) -> Truth:
    """Read `<table>.jsonl` and `<table>.schema.json` as they were recorded from the database."""
    schema = json.loads((folder / f"{table}.schema.json").read_text(encoding="utf-8"))
    lines = (folder / f"{table}.jsonl").read_text(encoding="utf-8").splitlines()
    types = {column["name"]: column["type"] for column in schema["columns"]}
    return Truth(tuple(schema["primary_key"]), types, tuple(json.loads(line) for line in lines))


def compare(truth: Truth, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Compared:
    """Compare a mirror's rows with the truth, column by column as the database names them.

    Args:
        truth: what the database holds.
        columns: the mirror's columns, without ours.
        rows: the mirror's rows as Python values.
    """
    expected = {_key(row[name] for name in truth.key): row for row in truth.rows}
    mirrored = [{name: as_postgresql(row.get(name), kind) for name, kind in truth.types.items()} for row in rows]
    found = {_key(row[name] for name in truth.key): row for row in mirrored}
    both = [key for key in expected if key in found]
    different = {
        key: tuple(name for name in truth.types if expected[key][name] != found[key][name])
        for key in both
        if dict(expected[key]) != found[key]
    }
    return Compared(
        equal=len(both) - len(different),
        missing=tuple(key for key in expected if key not in found),
        unexpected=tuple(key for key in found if key not in expected),
        different=different,
        extra=tuple(name for name in columns if name not in truth.types),
    )


def _key(values: Iterable[str | None]) -> str:
    return ", ".join(str(value) for value in values)


def as_postgresql(value: Any, kind: str) -> str | None:  # noqa: ANN401 - any value that a column can have
    """Write a value as PostgreSQL writes one of the type ``kind`` (UTC, ISO dates)."""
    if value is None:
        return None
    if kind.endswith(_ARRAY):
        return _array([as_postgresql(element, kind.removesuffix(_ARRAY)) for element in value])
    if kind.startswith(_NUMERIC) and not isinstance(value, str):
        return _numeric(Decimal(value), int(kind.removesuffix(")").rpartition(",")[2]))
    write = next((write for cls, write in _WRITERS if isinstance(value, cls)), str)
    return write(value)


def _numeric(value: Decimal, scale: int) -> str:
    # A value that does not fit the scale is written in full, and so is told apart.
    fitted = value.quantize(Decimal(1).scaleb(-scale)) if -int(value.as_tuple().exponent) <= scale else value
    return f"{fitted:f}"


def _moment(value: datetime) -> str:
    text = value.strftime("%Y-%m-%d %H:%M:%S")
    fraction = f"{value.microsecond:06d}".rstrip("0")
    return f"{text}{'.' if fraction else ''}{fraction}{'+00' if value.tzinfo else ''}"


def _array(elements: Sequence[str | None]) -> str:
    return "{" + ",".join(_element(element) for element in elements) + "}"


def _element(text: str | None) -> str:
    if text is None:
        return "NULL"
    if text == "" or text.upper() == "NULL" or not _QUOTED.isdisjoint(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


_WRITERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (bool, lambda value: "true" if value else "false"),
    (datetime, _moment),
    (date, date.isoformat),
)
