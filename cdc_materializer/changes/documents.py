"""Documents: the envelope of Debezium's MongoDB connector, whose images are JSON texts (changelog-semantics §5).

A document is one column, `document`, in the Extended JSON that the connector was told to write; its key is the column
`id`. An update without an image tells what it changed, in `updateDescription`. Where it shows the document before it
(`capture.mode` with pre-images), that is what it is applied on, here. Elsewhere its document is unavailable like any
value that a message leaves out (§1.7), and what it changed goes along as the change's patch: once it is known what the
row was, `updates` applies it.

Where a contract declares columns of documents, those are the row (`document_columns`). The one before is then not kept,
and an update that shows neither document is about no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.document_columns import DOCUMENT, declared_columns, parsed
from cdc_materializer.changes.source_fields import SOURCE_FIELDS
from cdc_materializer.decode import java_class
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.formats import Part
    from cdc_materializer.changes.options import Options
    from cdc_materializer.masks import Masks

_JSON = "io.debezium.data.Json"
_SOURCE = Path(__file__).with_name("DocumentUpdate.java")
_UPDATE = "updateDescription"
_CONNECTOR = "mongodb"
_SOURCE_OF_DOCUMENTS = (
    "connector",
    "snapshot",
    "ts_ms",
    "ts_us",
    "ts_ns",
    "ord",
    "wallTime",
    "txnNumber",
    "version",
    "db",
    "collection",
)
#: What an update tells, as it is read.
_UPDATE_DDL = (
    f"{_UPDATE} struct<removedFields array<string>, updatedFields string, "
    "truncatedArrays array<struct<field string, size int>>>"
)


def document_row(wire: WireType) -> WireType | None:
    """The columns of a document by the type of an envelope; None where its images are no documents."""
    image = wire.get("after")
    if wire.get("op") is None or image is None or (image.literal, image.name) != ("string", _JSON):
        return None
    return WireType("record", optional=True, fields=image.fields or ((DOCUMENT, image),))


def plain_documents() -> WireType:
    """The type of an envelope of documents in JSON without a schema: it is the same whatever the documents are."""
    text, number = WireType("string", optional=True), WireType("long", optional=True)
    json = replace(text, name=_JSON)
    cut = WireType("record", fields=(("field", text), ("size", WireType("int"))))
    lists = {name: WireType("array", optional=True, items=items) for name, items in (("removed", text), ("cut", cut))}
    update = (("removedFields", lists["removed"]), ("updatedFields", json), ("truncatedArrays", lists["cut"]))
    numbers = dict.fromkeys(("ts_ms", "ts_us", "ts_ns", "wallTime", "txnNumber"), number)
    source = tuple((name, numbers.get(name, text)) for name in _SOURCE_OF_DOCUMENTS)
    fields = (
        ("op", text),
        ("before", json),
        ("after", json),
        (_UPDATE, WireType("record", optional=True, fields=update)),
        ("source", WireType("record", fields=source)),
        ("transaction", transaction_type()),
    )
    return WireType("record", fields=fields)


def transaction_type() -> WireType:
    """The type of an envelope's transaction in JSON without a schema: each part as the text that it is written as."""
    from cdc_materializer.changes.model import TRANSACTION_FIELDS

    text = WireType("string", optional=True)
    return WireType("record", fields=tuple((name, text) for name in TRANSACTION_FIELDS))


def is_of_documents(value: Column) -> Column:
    """Whether an envelope in JSON without a schema, as text, is that of documents: its images are texts."""
    from pyspark.sql import functions as F

    connector = F.get_json_object(value, "$.source.connector")
    return F.contains(value, F.lit(_CONNECTOR)) & F.coalesce(connector == _CONNECTOR, F.lit(False))


def with_columns(wire: WireType, types: Mapping[str, str], masks: Masks) -> WireType:
    """The type of an envelope of documents of which a contract declares columns; others as they are.

    Raises:
        ContractInvalid: one of the columns is hidden, and the whole document beside it is not.
    """
    image = wire.get("after")
    if document_row(wire) is None or image is None or not types:
        return wire
    masks.check_whole(DOCUMENT, types)
    known = declared_columns(image, types)
    return replace(wire, fields=tuple((name, known if name == "after" else kind) for name, kind in wire.fields))


def entries(body: Column, wire: WireType) -> Column | None:
    """The document that an envelope shows, parsed, as the only entry; None where it stays a text."""
    from pyspark.sql import functions as F

    image = wire.get("after")
    if image is None or not image.fields:
        return None
    document = body["after"]
    if tells_updates(wire) and _has_before(wire):
        document = F.coalesce(document, updated(body["before"], F.when(_is_update(body), _update(body))))
    return parsed(document, image)


def document_ddl(wire: WireType) -> str:
    """What is read of such an envelope."""
    source = wire.get("source")
    names = [name for name in (*SOURCE_FIELDS, "collection") if source is not None and source.get(name) is not None]
    known = ", ".join(f"{name} {SOURCE_FIELDS.get(name, 'string')}" for name in names)
    parts = ["op string", "after string", *([f"source struct<{known}>"] if known else [])]
    if tells_updates(wire):
        parts += [_UPDATE_DDL, *(["before string"] if _has_before(wire) else [])]
    return ", ".join(parts)


def tells_updates(wire: WireType) -> bool:
    """Whether updates without an image tell what they changed, in the form that is known."""
    told = wire.get(_UPDATE)
    if told is None:
        return False
    set_, unset, cut = (told.get(name) for name in ("updatedFields", "removedFields", "truncatedArrays"))
    lists = [None if one is None or one.literal != "array" else one.items for one in (unset, cut)]
    names, arrays = lists
    if set_ is None or names is None or arrays is None:
        return False
    kinds = [set_, names, arrays.get("field"), arrays.get("size")]
    return [kind.literal if kind is not None else None for kind in kinds] == ["string", "string", "string", "int"]


def document_of(part: Part) -> tuple[Column, Column | None]:
    """The row of an envelope, NULL where it tells none; and its patch, where its document is still to be found."""
    from pyspark.sql import functions as F

    body = part.body
    document, patch = body["after"], None
    # What is known of a masked document is its mask: nothing can be applied on that.
    if tells_updates(part.writer.wire) and not _is_masked(part.options):
        update = F.when(_is_update(body), _update(body))
        before = body["before"] if _has_before(part.writer.wire) else F.lit(None).cast("string")
        unknown = F.when(update.isNotNull(), F.lit(part.reader.texts()[0]))
        document = F.coalesce(document, F.when(before.isNotNull(), updated(before, update)).otherwise(unknown))
        patch = F.when(before.isNull(), update)
    return F.when(document.isNotNull(), F.struct(document.alias(DOCUMENT))), patch


def _is_update(body: Column) -> Column:
    """Whether an envelope says what an update changed, and does not show the document."""
    from pyspark.sql import functions as F

    return (F.lower(body["op"]) == "u") & body[_UPDATE].isNotNull() & body["after"].isNull()


def _update(body: Column) -> Column:
    """What an update changed, as `updated` takes it."""
    from pyspark.sql import functions as F

    told = body[_UPDATE]
    fields = {"cut": "truncatedArrays", "unset": "removedFields", "set": "updatedFields"}
    return F.to_json(F.struct(*[told[name].alias(step) for step, name in fields.items()]))


def tells_clock(wire: WireType) -> bool:
    """Whether changes of a type tell the clock of their server, and not only the oplog's."""
    source = wire.get("source") if document_row(wire) is not None else None
    return source is not None and None not in (source.get("wallTime"), source.get("ord"))


def event_of(part: Part) -> Column | None:
    """What tells a change from all others of its document, where the source tells a wall clock: that, and what changed.

    Not the document that an update shows beside what it changed: that is looked up when the update is sent, so that
    what is sent again may show a later one, or none. Of two changes of one document with one count in their seconds of
    the oplog, and in one millisecond of a clock that was set back between them, one has to have changed something else.
    """
    from pyspark.sql import functions as F

    if not tells_clock(part.writer.wire):
        return None
    body, told = part.body, [part.body["after"]]
    if tells_updates(part.writer.wire):
        update = body[_UPDATE]
        cut = update["truncatedArrays"]
        told = [F.when(update.isNull(), body["after"]), update["updatedFields"], update["removedFields"]]
        told += [cut["field"], cut["size"]]
    when = [part.field("source", name).cast("string") for name in ("ts_ms", "wallTime", "ord")]
    return F.concat_ws("/", *when, F.xxhash64(*told).cast("string"))


def has_no_text(part: Part) -> Column | None:
    """Whether a text is none of which a document is made, besides the document itself; None where that cannot be."""
    from cdc_materializer.decode import texts

    wire, body = part.writer.wire, part.body
    if not part.writer.leaves_texts:
        return None
    # Columns are taken from it when it is too late.
    tests = [texts.has_no_text(body["after"], "string") if part.entry is not None else None]
    if not tells_updates(wire):
        return texts.any_of(tests)
    told = body[_UPDATE]
    tests += [
        texts.has_no_text(told["updatedFields"], "string"),
        texts.has_no_text(told["removedFields"], "array<string>"),
        texts.has_no_text(told["truncatedArrays"]["field"], "array<string>"),
        texts.has_no_text(body["before"], "string") if _has_before(wire) else None,
    ]
    return texts.any_of(tests)


def in_order(document: Column, patch: Column) -> Column:
    """An aggregate for windows over the changes of a row: its document after all patches so far.

    Args:
        document: the one before the first of them; of the others it is not asked for.
        patch: from `document_of`; NULL for changes without one.

    Returns:
        NULL without patches, and from the first one on that does not fit the document that it meets.
    """
    return _called(java_class.new(_SOURCE).inOrder, document, patch)


def updated(document: Column, update: Column) -> Column:
    """A document after one update; NULL where the update does not fit it, or one of them is NULL."""
    return _called(java_class.new(_SOURCE).of, document, update)


def _called(function: Any, *columns: Any) -> Column:  # noqa: ANN401 - PySpark's and Py4J's
    from pyspark.sql.classic.column import Column as ClassicColumn

    return ClassicColumn(function(*[column._jc for column in columns]))  # noqa: SLF001


def _has_before(wire: WireType) -> bool:
    before = wire.get("before")
    return before is not None and before.literal == "string"


def _is_masked(options: Options) -> bool:
    return options.masks.of(options.evolution.renames.get(DOCUMENT, DOCUMENT)) is not None
