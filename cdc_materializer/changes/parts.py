"""What messages are made of: the rows that each speaks of, and what their format says of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes.formats import Part, Said
from cdc_materializer.changes.identity import ENTRY
from cdc_materializer.changes.image import names_by_message
from cdc_materializer.changes.options import Options, Writers
from cdc_materializer.decode.texts import any_of
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer

#: What of `Said` is asked for time and again.
_MADE = ("op", "after", "before", "corrupt")


def row_of(writer: Writer, options: Options) -> WireType:
    """The type of the rows in a writer's values."""
    row = options.row(writer)
    if row is None:
        message = "only messages about rows have images"
        raise AssertionError(message)
    return row


def entries_of(at: int, writer: Writer, options: Options) -> Column | None:
    """The rows that each message of a writer speaks of (`Format.entries`); None where each is one change."""
    return options.format.entries(writer.body(F.col(f"value{at}")), writer)


def parts_of(datums: DataFrame, writers: Writers, options: Options) -> DataFrame:
    """The datums with ENTRY, each once for every row that its message speaks of; at least once. `made` reads them."""
    return _with_rows(_split(datums, writers, options), writers, options)


def _split(datums: DataFrame, writers: Writers, options: Options) -> DataFrame:
    found = {at: entries_of(at, writer, options) for at, writer in enumerate(writers.changes)}
    listed = {at: entries for at, entries in found.items() if entries is not None}
    if not listed:
        return datums.withColumn(ENTRY, F.lit(0))
    opened = datums.withColumns({f"entries{at}": entries for at, entries in listed.items()})
    count = F.greatest(F.lit(1), *[F.array_size(F.col(f"entries{at}")) for at in listed])
    split = opened.select("*", F.explode(F.sequence(F.lit(0), count - 1)).alias(ENTRY))
    return split.withColumns({f"entry{at}": F.get(F.col(f"entries{at}"), F.col(ENTRY)) for at in listed})


def _said(at: int, writer: Writer, options: Options) -> Said:
    """What the format says of each message of a writer."""
    has_entries = entries_of(at, writer, options) is not None
    entry = F.col(f"entry{at}") if has_entries else None
    return options.format.said(Part(writer.body(F.col(f"value{at}")), writer, row_of(writer, options), options, entry))


def _with_rows(parts: DataFrame, writers: Writers, options: Options) -> DataFrame:
    """What a format says of messages, in columns of their own where it makes rows instead of picking them.

    Each column of a row is asked for its value and by several tests. With the making of all columns in each of these,
    a plan would grow by the square of their number: one of 12 columns of Maxwell's took minutes.
    """
    if not options.format.makes_rows:
        return parts
    columns: dict[str, Column] = {}
    for at, writer in enumerate(writers.changes):
        said = _said(at, writer, options)
        asked = {name: getattr(said, name) for name in _MADE}
        columns |= {f"{name}{at}": column for name, column in asked.items() if column is not None}
    return parts.withColumns(columns)


def made(at: int, writer: Writer, options: Options) -> Said:
    """What the format says of each message of a writer, from the columns of `parts_of`."""
    said = _said(at, writer, options)
    if not options.format.makes_rows:
        return said
    columns: dict[str, Any] = {name: F.col(f"{name}{at}") for name in _MADE if getattr(said, name) is not None}
    return replace(said, **columns)


def is_named_later(at: int, writer: Writer, options: Options) -> bool:
    """Whether a row is looked at before its message is for the names of its columns (`with_names`)."""
    return writer.is_plain and entries_of(at, writer, options) is None and names_by_message(writer, options) is not None


def with_names(parts: DataFrame, writers: Writers, options: Options) -> DataFrame:
    """Which columns a row has, where JSON without a schema alone tells it; NULL for a row with a value in each.

    A text's null is a value here: it is not read yet.

    To go through a message for them takes as long as to read it.

    Args:
        parts: from `parts_of`, with the messages' `value` where writers are named later.
        writers: of the values.
        options: how they are read.
    """
    names: dict[str, Column] = {}
    for at, writer in enumerate(writers.changes):
        # Asked in this order: most writers are none of JSON without a schema, and columns cost questions to the JVM.
        told = names_by_message(writer, options) if is_named_later(at, writer, options) else None
        if told is not None:
            said = made(at, writer, options)
            row, unchanged = said.after, F.lit(False) if said.unchanged is None else said.unchanged
            if row is not None:
                told = F.when(_lacks_values(row, row_of(writer, options)) | F.coalesce(unchanged, F.lit(False)), told)
            names[f"names{at}"] = told
    return parts.withColumns(names).drop("value") if names else parts


def _lacks_values(row: Column, wire: WireType) -> Column:
    """Whether a row has no value in some column: its message leaves that out, or has a null there."""
    return row.isNotNull() & _or_false(any_of(row[name].isNull() for name, _ in wire.fields))


def _or_false(test: Column | None) -> Column:
    return F.lit(False) if test is None else test
