"""Why a message cannot be understood as a change (design §4.5), told from its decoded key and value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.identity import is_silent
from cdc_materializer.errors import Code
from cdc_materializer.schema import TableSchema

if TYPE_CHECKING:
    from cdc_materializer.changes.options import Options, Writers


def code_of(
    writers: Writers, target: TableSchema, op: Column, has_key: Column, nameless: Column, options: Options
) -> Column:
    """Why a message cannot be understood as a change, by the first reason that holds; NULL where it can."""
    value, wire_key, shown = F.col("value"), F.col("wire_key"), F.col("image")
    value_writer, key_writer = F.col("value_writer"), F.col("key_writer")
    readable = [writer.selector for writer in writers.changes]
    keys_readable = [writer.selector for writer in writers.keys]
    differs = F.lit(False)
    for name in target.key:
        named = shown["present"] & ~is_silent(shown, name)
        differs = differs | (named & ~F.col("key")[name].eqNullSafe(shown["row"][name]))
        if options.key and options.format.tombstones_delete:
            told = wire_key["key"][name]
            differs = differs | (told.isNotNull() & ~F.col("key")[name].eqNullSafe(told))
    # Where `key:` is set and the value, or a bare key, tells all of it, nothing is read of a key that cannot be.
    is_needed = F.lit(not options.key) | ~has_key
    misfits = (*([Code.SCHEMA_INCOMPATIBLE] if options.format.needs_contract else []), Code.OUT_OF_RANGE)
    reasons = [
        (value_writer.isin(*writers.unknown), Code.SCHEMA_UNKNOWN),
        (key_writer.isin(*writers.unknown) & is_needed, Code.SCHEMA_UNKNOWN),
        (value_writer.isNotNull() & ~value_writer.isin(*readable), Code.UNDECODABLE),
        (key_writer.isNotNull() & ~key_writer.isin(*keys_readable) & is_needed, Code.UNDECODABLE),
        (value["corrupt"] | (wire_key["corrupt"] & is_needed), Code.UNDECODABLE),
        (~op.isin(*m.CHANGE_OPS, m.TRUNCATE, m.TOMBSTONE), Code.UNKNOWN_OP),
        (op.isin("c", "r", "u") & ~shown["present"], Code.UNDECODABLE),
        *[(~has_key & _is_in_key(shown, code, target), code) for code in misfits],
        (~has_key & wire_key["beyond"], Code.OUT_OF_RANGE),
        ((op != m.TRUNCATE) & ~has_key, Code.KEY_NULL),
        (differs | nameless, Code.KEY_VALUE_MISMATCH),
    ]
    found = F.lit(None).cast("string")
    for test, code in reversed(reasons):
        found = F.when(test, F.lit(str(code))).otherwise(found)
    return found


def _is_in_key(image: Column, code: Code, target: TableSchema) -> Column:
    """Whether a column of the key has a value that does not fit."""

    def is_it(problem: Column) -> Column:
        return (problem["code"] == str(code)) & problem["column"].isin(*target.key)

    return F.coalesce(F.exists(image["problems"], is_it), F.lit(False))


def reason_of(writers: Writers) -> Column:
    """What a message is that is recognised and not read; NULL for others."""
    found = F.lit(None).cast("string")
    for name, reason in writers.refused:
        found = F.when((F.col("value_writer") == name) | (F.col("key_writer") == name), reason).otherwise(found)
    return found
