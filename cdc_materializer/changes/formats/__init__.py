"""Changelog formats: one file a format, found by its name.

`format: some-name` of a table is the file `some_name.py` here, and its `FORMAT` an instance of a class that derives
from `Format`. Nothing else knows which formats there are: adding one is adding its file. A format says how a decoded
message is read as changes; columns, order, fold, contracts and everything after work on the result and are the same
for all. What happens to a message, and where a format is asked:

1. The writers of keys and values are looked up: in the registry, in a schema block, or in the contract for JSON without
   a schema (`Format.value_type`). `Format.row` says where values of a writer have the columns of a row, if they do.
2. Each value is decoded by its writer's schema; from JSON, no more is read than `Format.ddl` asks for.
3. A message that speaks of several rows is taken apart: `Format.entries`.
4. `Format.said` tells what each part says: the operation, the row after and before, where in the source it happened.
5. `Format.names` tells which columns a row really has, where JSON without a schema leaves some out. Columns that are
   not there keep the row's value, those with null are NULL; a format that leaves out nulls returns None there.

A change may then turn out to be two: where rows are known by their columns (`Format.rows_name_themselves`, or `key:`),
an update whose `before` has another key is a delete and an insert. A value that is a placeholder for one that the
connector did not know is unavailable, whatever the format.

Commands without Spark read this folder too: format files import pyspark inside of the methods that need it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.envelope import is_other
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.options import Options
    from cdc_materializer.config import TableConfig
    from cdc_materializer.decode.types import Reader
    from cdc_materializer.decode.writers import Writer

#: A message's headers, as Spark's Kafka source gives them.
HEADERS_TYPE = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class Part:
    """What `Format.said` is asked about: a message, or one of the several rows that a message speaks of.

    Attributes:
        body: the struct of the value's own fields, as `Format.ddl` asked for them.
        writer: who wrote the value.
        row: the type of its rows (`Format.row`).
        options: the table's settings.
        entry: this one of `Format.entries`; None for a format whose messages are one change each. NULL where the
            message has no entries at all: it is then one part.
    """

    body: Column
    writer: Writer
    row: WireType
    options: Options
    entry: Column | None = None

    @property
    def reader(self) -> Reader:
        """How values of the writer's encoding are read."""
        return self.options.reader(self.writer)

    def has(self, *path: str) -> bool:
        """Whether the writer's values have a field."""
        wire: WireType | None = self.writer.wire
        for name in path:
            wire = wire.get(name) if wire is not None else None
        return wire is not None

    def header(self, name: str) -> Column:
        """The last header of a name, as text; NULL for none."""
        from pyspark.sql import functions as F

        named = F.filter(F.col("headers"), lambda header: header["key"] == name)
        return F.try_element_at(named, F.lit(-1))["value"].cast("string")

    def field(self, *path: str) -> Column:
        """A field of the value; NULL where the writer has none of that name."""
        from pyspark.sql import functions as F

        if not self.has(*path):
            return F.lit(None)
        found = self.body
        for name in path:
            found = found[name]
        return found


@dataclass(frozen=True)
class Said:
    """What one part of a message says.

    Attributes:
        op: `c` (created), `r` (read by a snapshot), `u` (updated), `d` (deleted), `t` (the whole table emptied), `m`
            (nothing about rows: a control record, DDL; it is counted as ignored). Anything else is held as UNKNOWN_OP,
            and NULL as UNDECODABLE.
        after: the row that the change leaves behind, a struct with the fields of `Format.row`; NULL or None without.
        before: the row as it was, likewise. Only key columns are taken from it, and only where rows name themselves or
            `key:` is set, so it needs no others: it says which row a delete ends, and which key an update changed. A
            format whose updates never show it gives the row itself; an update with None of a key is about no row.
        source: where in the source it happened, by names of `positions.SOURCE_FIELDS`; what is left out is NULL.
            `position` is sortable text of the format's own, and wins over what `connector` and the others give;
            `event` tells a change that has none from all others of its key;
            `ts_ms` or `ts_us` the time of the change; `db`, `schema`, `table` its table; `snapshot` as Debezium has it.
        was: the row as it was with all of the fields, where the format tells it: what has one place in a binlog is also
            told apart by it.
        unchanged: whether columns that are NULL both here and before are as they were (`Format.leaves_out`).
        transaction: a struct of `model.TRANSACTION_TYPE`.
        patch: how the row's document is made of the one before, as text, where the change shows none and `after` has
            the placeholder of a value that is not known in its place (`documents`).
        corrupt: whether the value, though it could be decoded, is no message of the format: held as UNDECODABLE.
    """

    op: Column
    after: Column | None = None
    before: Column | None = None
    source: Mapping[str, Column] = field(default_factory=dict)
    was: Column | None = None
    unchanged: Column | None = None
    transaction: Column | None = None
    patch: Column | None = None
    corrupt: Column | None = None


class Format:
    """A changelog format: what is asked of each, with the answers that most give.

    Attributes:
        depth: how many records deep a row's columns stand in a value: 1 where the value is the row.
        rows_name_themselves: whether the Kafka key does not say which row a message is about. Rows are then known by
            the columns of `key:`, or else by the contract's primary key, and Kafka keys are not read at all.
        needs_contract: whether its messages say nothing of types, so that a contract has to. Its rows may then leave
            columns out, also those that a change of the key did not touch.
        makes_rows: whether `said` makes rows of several fields of a value, rather than picking the one that is a row.
        tombstones_delete: whether a message without a value is a delete of its own also where `key:` is set. Otherwise
            it then repeats the delete before it, and is ignored.
        fills_keys: whether a delete's key may be made of defaults (`changes.fillers`).
        moments: what moments become that may have a time zone or not (`columns.MOMENTS`): `timestamp`, or
            `timestamp_ntz` where a connector writes columns without a zone so.
        is_last_resort: whether any message looks like one of this format, so that it is told by no other fitting.
        whole_rows: the table's setting; None where it is not set.
    """

    depth: int = 1
    rows_name_themselves: bool = False
    needs_contract: bool = False
    makes_rows: bool = False
    tombstones_delete: bool = False
    fills_keys: bool = False
    moments: str = "timestamp"
    is_last_resort: bool = False
    whole_rows: bool | None = None

    def for_table(self, table: TableConfig) -> Format:
        """The format with what a table's settings say of it."""
        if table.whole_rows is None:
            return self
        found = copy(self)
        found.whole_rows = table.whole_rows
        return found

    # --- from schemas; without Spark ---------------------------------------------------------------------------------

    def row(self, wire: WireType) -> WireType | None:
        """The columns of a row, as a record, by the type of a value; None where values of the type carry no rows."""
        raise NotImplementedError

    def is_other(self, wire: WireType) -> bool:
        """Whether values of a type are known to change no row: heartbeats, transaction marks and the like."""
        return wire.name.startswith("io.debezium.") and is_other(wire)

    def tells_events(self, writer: Writer) -> bool:
        """Whether changes may tell no position, and all the same what tells them from others (`Said.source`)."""
        del writer
        return False

    def repeats_deletes(self, writers: Sequence[Writer]) -> bool:
        """Whether a message without key and value repeats a delete, beside changes by these writers."""
        del writers
        return not self.tombstones_delete

    def leaves_out(self, writer: Writer) -> bool:
        """Whether updates by a writer may tell only what they changed: all else is NULL in them and before."""
        del writer
        return False

    def has_whole_rows(self, row: WireType, key: Sequence[str]) -> bool:
        """Whether a column that a row does not have is NULL in it, rather than as it was (§0 rule 12).

        Args:
            row: its type, from `row`.
            key: the columns of the table's key.
        """
        del row, key
        return bool(self.whole_rows)

    def value_type(self, row: WireType) -> WireType:
        """The type of a value in JSON without a schema, whose rows have the columns that a contract declares."""
        return row

    def other_types(self) -> Mapping[str, WireType]:
        """Other types that values may have in JSON without a schema, by a short name each; `plain_type` chooses."""
        return {}

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """What gives a message of this format away, in words; None where it is no message of it.

        Args:
            wire: the schema of the value; None for JSON without one.
            value: the value, where it is JSON without a schema: its fields as JSON has them.
        """
        del wire, value
        return None

    # --- in Spark ----------------------------------------------------------------------------------------------------

    def ddl(self, writer: Writer, row_ddl: str, options: Options) -> str:
        """What is read of a value, as the fields of Spark's DDL (`op string, after struct<…>`).

        Args:
            writer: who wrote the value; Avro is always read whole.
            row_ddl: the fields of its rows, each in the type in which its reading wants it.
            options: the table's settings.
        """
        del writer, options
        return row_ddl

    def plain_type(self, value: Column) -> Column | None:
        """Which of `other_types` a value in JSON without a schema has, or of the refusals (`decode.refusals`) it meets.

        NULL for that of `value_type`.

        None for a format that has no others.

        Args:
            value: the message's value as text.
        """
        del value
        return None

    def names(self, value: Column) -> Column | None:
        """The columns that a row really has: array<string>, or an array of such where `entries` has several rows.

        Asked for JSON without a schema only. None, or NULL for one message: all that the contract declares; those left
        out are NULL.

        Args:
            value: the message's value as text.
        """
        del value
        return None

    def entries(self, body: Column, writer: Writer) -> Column | None:
        """The rows that a message speaks of, as an array of any structs; None where each message is one change."""
        del body, writer
        return None

    def said(self, part: Part) -> Said:
        """What one part of a message says."""
        raise NotImplementedError


def row_of(format_: Format, wire: WireType) -> WireType | None:
    """The columns of a row by the type of a value; None where values of the type carry no rows."""
    return None if format_.is_other(wire) else format_.row(wire)


def known() -> tuple[str, ...]:
    """The names of all formats, in order; none of their files is imported for this."""
    return tuple(sorted(found.name.replace("_", "-") for found in pkgutil.iter_modules(__path__)))


@cache
def find(name: str) -> Format:
    """The format of a name of `known`."""
    found: Format = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").FORMAT
    return found


def all_formats() -> Sequence[tuple[str, Format]]:
    """Each format with its name."""
    return [(name, find(name)) for name in known()]
