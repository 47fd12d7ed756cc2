"""Debezium's envelope (changelog-semantics §1): what a change was, the row before and after, and where it happened."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.document_columns import IS_NONE, ROW
from cdc_materializer.changes.documents import (
    document_ddl,
    document_of,
    document_row,
    entries,
    event_of,
    has_no_text,
    is_of_documents,
    plain_documents,
    tells_clock,
    transaction_type,
)
from cdc_materializer.changes.envelope import OTHER_MESSAGES, is_other, row_of
from cdc_materializer.changes.formats import Format, Part, Said
from cdc_materializer.changes.source_fields import SOURCE_FIELDS
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.options import Options
    from cdc_materializer.decode.writers import Writer

_TEXT = WireType("string", optional=True)
_OPS = frozenset("crudtm")
_DOCUMENTS, _NO_ROWS = "documents", "events"
#: What a heartbeat has, and what other messages about no row have among their fields (§1.4).
_HEARTBEAT = ["ts_ms"]
_MARKS = (
    ("status", "id", "event_count", "data_collections"),
    ("databaseName", "ddl", "tableChanges"),
    ("id", "aggregate_type", "type", "additional_data"),
)
#: Where Spanner says how much its change stream tells of an update: the columns that it changed, as they were and are,
#: or only as they are. The others are NULL, as what it set to NULL is.
_CAPTURE, _BOTH_SIDES, _ONE_SIDE = "value_capture_type", "OLD_AND_NEW_VALUES", "NEW_VALUES"
#: What is read of `source`.
_READ = {**SOURCE_FIELDS, _CAPTURE: "string"}


class Debezium(Format):
    """The envelope as connectors send it, in Avro, JSON with a schema block, or JSON without."""

    depth = 2
    moments = "timestamp_ntz"
    fills_keys = True

    def row(self, wire: WireType) -> WireType | None:
        """The type of `after`, or else of `before`; of MongoDB's, which are texts, a document."""
        return row_of(wire) or document_row(wire)

    def is_other(self, wire: WireType) -> bool:
        """By the schema's name, whatever stands before it: it can be adjusted. A row's is anybody's."""
        return is_other(wire) and self.row(wire) is None

    def leaves_out(self, writer: Writer) -> bool:
        """Those of Spanner may. Of JSON without a schema `names` tells what a message leaves out."""
        source = writer.wire.get("source")
        return not writer.is_plain and source is not None and source.get(_CAPTURE) is not None

    def value_type(self, row: WireType) -> WireType:
        """An envelope of rows that a contract declares."""
        source = tuple((name, WireType("long" if ddl == "bigint" else "string")) for name, ddl in _READ.items())
        fields = (
            ("op", _TEXT),
            ("before", row),
            ("after", row),
            ("source", WireType("record", fields=source)),
            ("transaction", transaction_type()),
        )
        return WireType("record", fields=fields)

    def other_types(self) -> Mapping[str, WireType]:
        """The envelope of MongoDB's documents, and one for all messages about no row."""
        return {_DOCUMENTS: plain_documents(), _NO_ROWS: WireType("record", OTHER_MESSAGES[0])}

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By an operation beside an image."""
        images = {"after", "before"} & (value or {}).keys()
        is_plain = value is not None and _is_op(value.get("op")) and any(_is_image(value[name]) for name in images)
        return "`op` beside images" if is_plain or (wire is not None and self.row(wire) is not None) else None

    def ddl(self, writer: Writer, row_ddl: str, options: Options) -> str:
        """Of `source` what positions are made of, of `before` nothing but where it is needed."""
        from cdc_materializer.changes.transactions import transaction_ddl

        transaction = transaction_ddl(writer, options.reader(writer), kept=options.transactions or options.exact)
        if document_row(writer.wire) is not None:
            return ", ".join([document_ddl(writer.wire), *transaction])
        source = writer.wire.get("source")
        parts = ["op string", *[f"{side} struct<{row_ddl}>" for side in self._sides(writer, options)]]
        if source is not None:
            told = {name: ddl for name, ddl in _READ.items() if source.get(name)}
            known = [f"{name} {_source_ddl(source.get(name), ddl)}" for name, ddl in told.items()]
            parts += [f"source struct<{', '.join(known)}>"] if known else []
        return ", ".join([*parts, *transaction])

    def tells_events(self, writer: Writer) -> bool:
        """Those of documents, by a clock."""
        return tells_clock(writer.wire)

    def entries(self, body: Column, writer: Writer) -> Column | None:
        """Of documents of which a contract declares columns, the one that the message shows, parsed."""
        return entries(body, writer.wire) if document_row(writer.wire) is not None else None

    def plain_type(self, value: Column) -> Column | None:
        """Documents, by the connector; what is about no row, by its fields."""
        from pyspark.sql import functions as F

        # Nearly all have one, and are not parsed for this.
        has_op, names = F.contains(value, F.lit('"op"')), F.json_object_keys(value)
        marks = [F.size(F.array_intersect(names, _texts(fields))) == len(fields) for fields in _MARKS]
        is_about_none = reduce(operator.or_, marks, names == _texts(_HEARTBEAT))
        # What is said of a table's columns may name one so.
        may_be = ~has_op | (F.contains(value, F.lit('"tableChanges"')) & ~F.array_contains(names, "op"))
        return F.when(is_of_documents(value), _DOCUMENTS).when(may_be & is_about_none, _NO_ROWS)

    def names(self, value: Column) -> Column | None:
        """Those of `after`; of an update that tells what it changed alone, those with a value on either side."""
        from pyspark.sql import functions as F

        after, before = (F.get_json_object(value, f"$.{side}") for side in ("after", "before"))
        capture, op = F.get_json_object(value, f"$.source.{_CAPTURE}"), F.get_json_object(value, "$.op")
        is_sparse = F.contains(value, F.lit(_BOTH_SIDES)) & (capture == _BOTH_SIDES) & (F.lower(op) == "u")
        # Merged from both sides: what is NULL in one and not in the other was set, or was set to NULL.
        values = [F.from_json(F.coalesce(side, F.lit("{}")), "map<string,string>") for side in (after, before)]
        told = [F.map_keys(F.map_filter(side, lambda _, value: value.isNotNull())) for side in values]
        return F.when(is_sparse, F.array_union(*told)).otherwise(F.json_object_keys(after))

    def said(self, part: Part) -> Said:
        """What the envelope says."""
        from pyspark.sql import functions as F

        from cdc_materializer.changes.transactions import ranks, transaction
        from cdc_materializer.decode.texts import any_of

        body, writer, options = part.body, part.writer, part.options
        belongs_to = transaction(body, writer if options.transactions or options.exact else None)
        if document_row(writer.wire) is not None:
            known = _source_of(part) | {"table": part.field("source", "collection")}
            known |= {"event": event} if (event := event_of(part)) is not None else {}
            told = Said(F.lower(body["op"]), source=known, transaction=belongs_to, corrupt=has_no_text(part))
            if part.entry is not None:
                corrupt = any_of([told.corrupt, F.coalesce(part.entry[IS_NONE], F.lit(False))])
                return replace(told, after=part.entry[ROW], corrupt=corrupt)
            document, patch = document_of(part)
            return replace(told, after=document, patch=patch)
        sides = self._sides(writer, options)
        capture, is_update = part.field("source", _CAPTURE), F.lower(body["op"]) == "u"
        # Without the row as it was, nothing tells what an update left out.
        before, is_blind = body["before"] if "before" in sides else None, capture == _ONE_SIDE
        if self.leaves_out(writer):
            lacks = F.lit(True) if before is None else before.isNull()
            is_blind = is_blind | ((capture == _BOTH_SIDES) & lacks)
        return Said(
            op=F.lower(body["op"]),
            after=body["after"] if "after" in sides else None,
            before=before,
            was=before,
            unchanged=is_update & (capture == _BOTH_SIDES) if part.has("source", _CAPTURE) else None,
            source=_source_of(part) | ranks(body, writer, part.reader),
            transaction=belongs_to,
            corrupt=is_update & is_blind if part.has("source", _CAPTURE) else None,
        )

    def _sides(self, writer: Writer, options: Options) -> list[str]:
        """The images that are read."""
        is_asked = options.key or options.doubtful_keys or options.exact or self.leaves_out(writer)
        wanted = ["after", "before"] if is_asked else ["after"]
        return [side for side in wanted if writer.wire.get(side) is not None]


def _source_of(part: Part) -> dict[str, Column]:
    return {name: part.field("source", name) for name in SOURCE_FIELDS if part.has("source", name)}


def _texts(found: Sequence[str]) -> Column:
    from pyspark.sql import functions as F

    return F.array(*map(F.lit, found))


def _is_op(value: object) -> bool:
    return isinstance(value, str) and value.lower() in _OPS


def _is_image(value: object) -> bool:
    return value is None or isinstance(value, (Mapping, str))


def _source_ddl(wire: WireType | None, wanted: str) -> str:
    """The type in which a part of `source` is read: a text as a text, whatever is made of it."""
    return "string" if wire is not None and wire.literal == "string" else wanted


FORMAT = Debezium()
