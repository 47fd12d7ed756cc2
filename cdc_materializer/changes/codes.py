"""Why a message cannot be understood as a change (design §4.5), told from its decoded key and value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.identity import is_silent
from cdc_materializer.changes.surplus_keys import SURPLUS
from cdc_materializer.decode.framing import BLOCK, UNASKED, names_schema, of_one_kind
from cdc_materializer.decode.refusals import KEY_COLUMNS, MANY_SCHEMAS
from cdc_materializer.errors import Code
from cdc_materializer.schema.schema import TableSchema

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
        (_is_unknown("value", writers), Code.SCHEMA_UNKNOWN),
        (_is_unknown("key", writers) & is_needed, Code.SCHEMA_UNKNOWN),
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


def _is_unknown(side: str, writers: Writers) -> Column:
    """Whether a key or value has a schema that nobody knows, or that was not looked up.

    By those that are known, for the others may be as many as there are messages. Without a schema nothing is unknown:
    `isin` of an empty list is false of NULL too.
    """
    if not writers.unknown:
        return F.lit(False)
    selector, known = F.col(f"{side}_writer"), writers.known_values if side == "value" else writers.known_keys
    return selector.isNotNull() & names_schema(selector) & ~selector.isin(*known)


def _is_in_key(image: Column, code: Code, target: TableSchema) -> Column:
    """Whether a column of the key has a value that does not fit."""

    def is_it(problem: Column) -> Column:
        return (problem["code"] == str(code)) & problem["column"].isin(*target.key)

    return F.coalesce(F.exists(image["problems"], is_it), F.lit(False))


def reason_of(writers: Writers, code: Column) -> Column:
    """What a message is that is recognised and not read, or that brings a schema too many; NULL for others."""
    value, key = F.col("value_writer"), F.col("key_writer")
    names: dict[str, list[str]] = {}
    for name, reason in writers.refused:
        names.setdefault(reason, []).append(name)
    found = F.lit(None).cast("string")
    # A condition inside of the other for each of a thousand names would be deeper than Spark's planner goes.
    for reason, refused in names.items():
        is_it = of_one_kind(value).isin(*refused) | of_one_kind(key).isin(*refused)
        found = F.when(is_it, reason).otherwise(found)
    is_surplus = F.col(SURPLUS) & ~F.coalesce(F.col("value")["corrupt"], F.lit(False))
    found = F.when(code == str(Code.UNDECODABLE), F.coalesce(found, F.when(is_surplus, KEY_COLUMNS)))
    if UNASKED not in writers.unknown:
        return found.otherwise(F.lit(None).cast("string"))
    is_left = [F.col(f"{side}_writer").startswith(BLOCK) & _is_unknown(side, writers) for side in ("value", "key")]
    is_too_many = (code == str(Code.SCHEMA_UNKNOWN)) & (is_left[0] | is_left[1])
    return found.when(is_too_many, MANY_SCHEMAS)
