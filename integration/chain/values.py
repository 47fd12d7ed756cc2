"""Values of a mirror as text in one form, to be compared with what a database says of the same column."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Row = Mapping[str, str | None]


def canonical(value: Any) -> str | None:  # noqa: ANN401, PLR0911 - any value of a column; one line a type
    """Write a value from PyArrow: numbers without needless zeros, times in full, bytes in hex; the rest as JSON."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return plain_number(str(value))
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        zone = "+00:00" if value.tzinfo else ""
        moment = value.astimezone(UTC) if value.tzinfo else value
        return moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds") + zone
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return json.dumps([canonical(item) for item in value])
    if isinstance(value, dict):
        return json.dumps({name: canonical(item) for name, item in value.items()}, sort_keys=True)
    return str(value)


def plain_number(text: str) -> str:
    """A number without an exponent and without needless zeros."""
    number = Decimal(text)
    return f"{number.normalize():f}" if number.is_finite() else text


def float_text(text: str) -> str:
    """A floating-point number, as Python writes it."""
    return str(float(text))


def json_text(text: str) -> str:
    """JSON with its spaces and the order of its names taken out."""
    return json.dumps(json.loads(text), sort_keys=True)


@dataclass(frozen=True)
class Reading:
    """How a column of one database type is compared.

    Attributes:
        sql: an expression that gives, as text, what the mirror must hold; ``{}`` is the column.
        said: brings the database's text into the form of `canonical`.
        held: brings the mirror's text there, where there is more to do.
    """

    sql: str
    said: Callable[[str], str] = str
    held: Callable[[str], str] = str


@dataclass(frozen=True)
class Column:
    """A column of the database, and how it is compared."""

    name: str
    kind: str
    reading: Reading


def differences(
    columns: Sequence[Column], key: Sequence[str], said: Sequence[Row], held: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, tuple[str | None, str | None]] | str]:
    """Compare a table with its mirror.

    Args:
        columns: the table's columns.
        key: the names of those that make the key.
        said: the database's rows, by the columns' readings.
        held: the mirror's rows, as PyArrow gave them.

    Returns:
        By key: what each differing column is in the database and in the mirror, or which side has no such row.
    """
    theirs = _keyed(key, [{column.name: _said(column, row) for column in columns} for row in said])
    ours = _keyed(key, [{column.name: _held(column, row) for column in columns} for row in held])
    found: dict[str, dict[str, tuple[str | None, str | None]] | str] = {}
    for place in sorted(theirs.keys() | ours.keys()):
        if place not in ours or place not in theirs:
            found[place] = "only in the database" if place in theirs else "only in the mirror"
            continue
        unequal = {name: (text, ours[place][name]) for name, text in theirs[place].items() if text != ours[place][name]}
        if unequal:
            found[place] = unequal
    return found


def _said(column: Column, row: Row) -> str | None:
    text = row[column.name]
    return None if text is None else column.reading.said(text)


def _held(column: Column, row: Mapping[str, Any]) -> str | None:
    # A column that the mirror has not got yet holds nothing.
    text = canonical(row.get(column.name))
    return None if text is None else column.reading.held(text)


def _keyed(key: Sequence[str], rows: Sequence[Row]) -> dict[str, Row]:
    keyed = {", ".join(str(row[name]) for name in key): row for row in rows}
    assert len(keyed) == len(rows), "two rows have one key"
    return keyed
