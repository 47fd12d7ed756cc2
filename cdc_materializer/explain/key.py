"""The key of a row as a person writes it: JSON text, or the plain value of a key of one column."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.errors import UsageError
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.schema.types import decimal_of


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
        kind = target.types[name]
        text = F.lit(values[name] if keeps_digits(values[name], kind) else None)
        typed.append((F.unhex(text) if kind == "binary" else text.try_cast(kind)).alias(name))
    return typed


def keeps_digits(text: str | None, kind: str) -> bool:
    """Whether a column has room for all digits behind a text's point: a cast rounds to another row's number."""
    scale = decimal_of(kind)
    try:
        _, digits, exponent = Decimal(text or "0").as_tuple()
    except InvalidOperation:
        # Whether it is a number at all, the cast tells.
        return True
    if scale is None or not isinstance(exponent, int):
        return True
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return not any(digits) or exponent + zeros >= -scale[1]
