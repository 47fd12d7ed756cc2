"""Debezium behind ExtractNewRecordState: the row alone, with fields and headers that the transform may have added.

What is a delete depends on the transform's `delete.tombstone.handling.mode`: no value (`tombstone`, the default, and
`delete-to-tombstone`), a row with `__deleted: "true"` (`rewrite`), both of them (`rewrite-with-tombstone`), or nothing
at all (`drop`: then nobody can know of it). Truncates never come. The row of a delete comes from `before`, which the
connector fills with defaults, so nothing but the key is taken from it.

Added fields are no columns. Which fields those are the table's settings say in the words of the transform's own
`add.fields` and `add.fields.prefix`; left out, it is all names with its default prefix `__` that Debezium has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Format, Part, Said
from cdc_materializer.changes.source_fields import SOURCE_FIELDS
from cdc_materializer.decode.wire import WireType
from cdc_materializer.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.options import Options
    from cdc_materializer.config import TableConfig
    from cdc_materializer.decode.writers import Writer

PREFIX = "__"
#: Written by `rewrite`, under this name whatever the prefix.
_DELETED = "__deleted"
#: Fields of the envelope itself; all others that are not qualified are those of `source` or `transaction`.
_OWN = ("op", "ts_ms", "ts_us", "ts_ns")
_TRANSACTION = ("id", "total_order", "data_collection_order")
#: Fields of `source` that nothing is made of here.
_UNREAD = (
    *("name", "txId", "xmin", "origin", "origin_lsn", "server_id", "thread", "query"),
    *("user_name", "redo_sql", "start_scn", "start_ts_ms", "commit_ts_ms", "collection"),
    *("lsid", "txnNumber", "keyspace", "vgtid", "value_capture_type"),
)
#: What tells a connector where nobody added `source.connector`: a field that it alone has, or the form of one. Db2 has
#: `commit_lsn` too, in a form that is not told apart: without its name such changes have no position.
_CONNECTORS = {
    "postgresql": ("lsn", ""),
    "mysql": ("file", ""),
    "sqlserver": ("commit_lsn", r"^[0-9a-fA-F]{8}:[0-9a-fA-F]{8}:[0-9a-fA-F]{4}\z"),
    "informix": ("commit_lsn", r"^\d+\z"),
    "oracle": ("scn", ""),
    "mongodb": ("ord", ""),
}
#: Connectors that tell a transaction's place and a change's own apart.
_OF_COMMITS = ("sqlserver", "db2", "informix")
_TEXT = WireType("string", optional=True)
#: What ExtractNewDocumentState leaves of a document has its identity under another name than its key.
_DOCUMENT_ID, _DOCUMENT_KEY = "_id", "id"


class DebeziumFlat(Format):
    """Flattened rows."""

    tombstones_delete = True
    moments = "timestamp_ntz"

    def __init__(self, fields: Sequence[str] = (), prefix: str = PREFIX, *, has_whole_rows: bool | None = None) -> None:
        """Take the table's settings.

        Args:
            fields: the transform's `add.fields` (or `add.headers`); none: all that Debezium has.
            prefix: of their names.
            has_whole_rows: whether a column that a row does not have is NULL; None: in documents it is.
        """
        self._read, self._is_listed, self.whole_rows = tuple(SOURCE_FIELDS), bool(fields), has_whole_rows
        self._added = _named(fields, prefix) if fields else _all(self._read, prefix)

    def for_table(self, table: TableConfig) -> DebeziumFlat:
        """With the fields that the table's settings name."""
        return DebeziumFlat(table.added_fields, table.added_fields_prefix, has_whole_rows=table.whole_rows)

    def row(self, wire: WireType) -> WireType | None:
        """The value without what was added."""
        if wire.literal != "record":
            return None
        added = {*self._added, _DELETED}
        return replace(wire, fields=tuple(one for one in wire.fields if one[0] not in added))

    def has_whole_rows(self, row: WireType, key: Sequence[str]) -> bool:
        """As the table's settings say; else those of MongoDB's documents are whole, which each have their own fields.

        The connector sends whole ones by default (`capture.mode=change_streams_update_full`).
        """
        if self.whole_rows is not None:
            return self.whole_rows
        return tuple(key) == (_DOCUMENT_KEY,) and row.get(_DOCUMENT_ID) is not None and row.get(_DOCUMENT_KEY) is None

    def added_to(self, wire: WireType) -> frozenset[str]:
        """What the transform added of the envelope to a value, as `add.fields` calls it: `op`, `source.lsn`."""
        return frozenset(what for name, what in self._added.items() if wire.get(name) is not None)

    def value_type(self, row: WireType) -> WireType:
        """The row with everything that may have been added and is read."""
        known = dict(row.fields)
        wanted = {"op", *[f"source.{name}" for name in self._read]}
        read = [name for name, what in self._added.items() if what in wanted]
        added = [(name, _TEXT) for name in (_DELETED, *read) if name not in known]
        return replace(row, fields=(*row.fields, *added))

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By fields that the transform adds, or the name that the connector gives the schema of a row."""
        names = dict(wire.fields) if wire is not None else value or {}
        found = [name for name in names if name == _DELETED or name in self._added]
        if found:
            return f"fields that ExtractNewRecordState adds ({', '.join(f'`{name}`' for name in found[:3])})"
        is_row = wire is not None and wire.get("op") is None and not self.is_other(wire)
        if wire is not None and is_row and wire.name.count(".") > 1 and wire.name.endswith(".Value"):
            return "rows whose schema is the one of an envelope's `after`"
        return None

    def repeats_deletes(self, writers: Sequence[Writer]) -> bool:
        """Where rows have the field that marks deletes; alone it may be either.

        Of JSON without a schema only each message says whether it has that field.
        """
        return not writers or any(writer.wire.get(_DELETED) is not None for writer in writers)

    def ddl(self, writer: Writer, row_ddl: str, options: Options) -> str:
        """The row and, as text, what was added."""
        del options
        added = [name for name, _ in writer.wire.fields if name in self._added or name == _DELETED]
        return ", ".join([row_ddl, *[f"{quote(name)} string" for name in added]])

    def names(self, value: Column) -> Column | None:
        """The object's own."""
        from pyspark.sql import functions as F

        return F.json_object_keys(value)

    def said(self, part: Part) -> Said:
        """The row, or that it is deleted."""
        from pyspark.sql import functions as F

        is_deleted = F.coalesce(F.lower(part.field(_DELETED).cast("string")) == "true", F.lit(False))
        told = F.lower(self._told(part, "op"))
        op = F.when(is_deleted, F.lit("d")).otherwise(F.coalesce(told, F.lit("u")))
        is_delete = op == "d"
        source = {name: self._told(part, f"source.{name}") for name in self._read}
        return Said(
            op=F.when(part.body.isNotNull(), op),
            after=F.when(~is_delete, part.body),
            before=part.body,
            source=source
            | {"connector": self._connector(source, told, part), "wallTime": self._wall_time(source, part)},
        )

    def _wall_time(self, source: Mapping[str, Column], part: Part) -> Column:
        """The wall clock of MongoDB's server; -1 where a row may not tell it, for the source may have it (§2.1)."""
        from pyspark.sql import functions as F

        names = [name for name, what in self._added.items() if what == "source.wallTime" and part.has(name)]
        is_told = bool(names) and not part.writer.is_plain
        return source["wallTime"] if is_told else F.coalesce(source["wallTime"], F.lit("-1"))

    def _told(self, part: Part, what: str) -> Column:
        """What was added of the envelope, from the fields or else from the headers; NULL where it was not."""
        from pyspark.sql import functions as F

        names = [name for name, known in self._added.items() if known == what]
        found = [part.field(name).cast("string") for name in names if part.has(name)]
        # Of JSON without a schema every field that may be there is asked for, and the row may have none of them.
        if names and (not found or part.writer.is_plain):
            in_headers = [_text(part.header(name)) for name in names]
            found.append(F.when(F.size(F.col("headers")) > 0, F.coalesce(*in_headers)))
        return F.coalesce(*found) if found else F.lit(None).cast("string")

    def _connector(self, source: Mapping[str, Column], op: Column, part: Part) -> Column:
        """The connector, by which positions are made; NULL where what was added is not enough for one.

        A row of a snapshot is dropped by no position and raises none (§2.3). Where nothing tells it from a change of
        the log, one from before the snapshot's would be dropped (golden case 0666). And where a change tells only its
        transaction's place, all of that have one, and a row that goes to another value and back would keep the other
        (golden case 0665).
        """
        from pyspark.sql import functions as F

        found = [F.when(source[field].rlike(form), F.lit(name)) for name, (field, form) in _CONNECTORS.items()]
        connector = F.coalesce(source["connector"], *found)
        snapshot = F.lower(source["snapshot"])
        is_told = F.coalesce(op, snapshot).isNotNull() | F.lit(self._tells_snapshots(part))
        is_read = (F.coalesce(op, F.lit("u")) == "r") | ~F.coalesce(snapshot, F.lit("false")).isin("false", "")
        is_whole = F.when(connector.isin(*_OF_COMMITS), source["change_lsn"].isNotNull()).when(
            connector == "oracle", F.coalesce(source["scn"], source["lcr_position"]).isNotNull()
        )
        return F.when(is_told & (is_read | F.coalesce(is_whole, F.lit(True))), connector)

    def _tells_snapshots(self, part: Part) -> bool:
        """Whether a message that tells neither its operation nor a snapshot is known to be of the log.

        Debezium leaves `source.snapshot` out there, so a field of a schema is NULL; of JSON without a schema, and of
        headers, only the table's settings say that it would be there.
        """
        names = [name for name, what in self._added.items() if what in {"op", "source.snapshot"}]
        return bool(names) and (self._is_listed or (not part.writer.is_plain and any(map(part.has, names))))


def _text(header: Column) -> Column:
    """What a header says, as text: plain, as Kafka Connect writes it by default, or as its JsonConverter does."""
    from pyspark.sql import functions as F

    return (
        F.when(header.startswith('"'), F.get_json_object(header, "$"))
        .when(header.startswith('{"schema":'), F.get_json_object(header, "$.payload"))
        .otherwise(F.nullif(header, F.lit("null")))
    )


def _named(fields: Sequence[str], prefix: str) -> dict[str, str]:
    """The names of added fields, each with what it is of the envelope, as the transform makes them of `add.fields`."""
    found = {}
    for entry in fields:
        told, _, given = entry.partition(":")
        struct, dot, field = told.rpartition(".")
        home = struct if dot else "" if field in _OWN else "transaction" if field in _TRANSACTION else "source"
        name = given or (f"{struct}_{field}" if dot else field)
        found[f"{prefix}{name}"] = f"{home}.{field}".lstrip(".")
    return found


def _all(read: Sequence[str], prefix: str) -> dict[str, str]:
    """The names that fields of a prefix can have, each with what it is."""
    sources = (*read, *_UNREAD)
    qualified = [*[f"source.{name}" for name in sources], *[f"transaction.{name}" for name in _TRANSACTION]]
    plain = [name for name in sources if name not in _OWN]
    return _named([*_OWN, *_TRANSACTION[1:], *plain, *qualified], prefix)


FORMAT = DebeziumFlat()
