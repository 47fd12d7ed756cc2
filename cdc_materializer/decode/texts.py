"""Texts that are none: bytes that are no UTF-8. Avro's reader gives them as they are."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.schema.types import entry_of, fields_of, item_of


def has_no_text(value: Column, ddl: str) -> Column | None:
    """Whether a text in a value is none, however deep it stands; None for a type without texts.

    Args:
        value: the value; NULL has no such text.
        ddl: its type.
    """
    if ddl == "string":
        return ~F.coalesce(F.is_valid_utf8(value), F.lit(True))
    fields, item, entry = fields_of(ddl), item_of(ddl), entry_of(ddl)
    if fields is not None:
        return any_of([has_no_text(value[name], part) for name, part in fields.items()])
    if item is not None:
        return _in_any(value, item)
    if entry is not None:
        return any_of([_in_any(F.map_keys(value), entry[0]), _in_any(F.map_values(value), entry[1])])
    return None


def any_of(tests: Iterable[Column | None]) -> Column | None:
    """Whether one of some tests, none of which is NULL, is true; None where there are none."""
    known = [test for test in tests if test is not None]
    # In an array, because thousands of them are nested too deep for Spark otherwise.
    return F.array_contains(F.array(*known), F.lit(True)) if known else None


def _in_any(values: Column, ddl: str) -> Column | None:
    if has_no_text(F.lit(None), ddl) is None:
        return None

    def is_none(value: Column) -> Column:
        found = has_no_text(value, ddl)
        return F.lit(False) if found is None else found

    return F.coalesce(F.exists(values, is_none), F.lit(False))
