"""The key of a row as a person writes it: JSON text, or the plain value of a key of one column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.errors import UsageError
from cdc_materializer.schema import TableSchema


def key_values(text: str, names: Sequence[str]) -> dict[str, str | None]:
    """The columns of a key as text, out of JSON text or of the plain value of a key of one column.

    Raises:
        UsageError: it does not name the key's columns.
    """
    try:
        found = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        found = text
    if not isinstance(found, dict):
        found = {names[0]: found if isinstance(found, str) else text} if len(names) == 1 else {}
    is_plain = all(isinstance(value, str | bool | None) for value in found.values())
    if set(found) != set(names) or not is_plain:
        asked = ", ".join(f'"{name}": …' for name in names)
        raise UsageError(f"--key does not name the key's columns: {', '.join(names)}.", f"Write --key '{{{asked}}}'.")
    return {name: _text(found[name]) for name in names}


def _text(value: str | bool | None) -> str | None:  # noqa: FBT001 - a value of JSON
    return json.dumps(value) if isinstance(value, bool) else value


def typed_key(values: Mapping[str, str | None], target: TableSchema) -> list[Column]:
    """Texts as the table's key columns; NULL for one that is no value of its type."""
    typed = []
    for name in target.key:
        text = F.lit(values[name])
        kind = target.types[name]
        typed.append((F.unhex(text) if kind == "binary" else text.try_cast(kind)).alias(name))
    return typed
