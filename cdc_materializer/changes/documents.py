"""Documents: the envelope of Debezium's MongoDB connector, whose images are JSON texts (changelog-semantics §5).

A document is one column, `document`, in the Extended JSON that the connector was told to write; its key is the column
`id`. An update without an image tells what it changed, in `updateDescription`. Where it shows the document before it
(`capture.mode` with pre-images), that is what it is applied on, here. Elsewhere its document is unavailable like any
value that a message leaves out (§1.7), and what it changed goes along as the change's patch: once it is known what the
row was, `updates` applies it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.source_fields import SOURCE_FIELDS
from cdc_materializer.decode import java_class
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.formats import Part
    from cdc_materializer.changes.options import Options

DOCUMENT = "document"
_JSON = "io.debezium.data.Json"
_SOURCE = Path(__file__).with_name("DocumentUpdate.java")
_UPDATE = "updateDescription"
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
    return WireType("record", optional=True, fields=((DOCUMENT, image),))


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
        told = body[_UPDATE]
        fields = {"cut": "truncatedArrays", "unset": "removedFields", "set": "updatedFields"}
        update = F.to_json(F.struct(*[told[name].alias(step) for step, name in fields.items()]))
        update = F.when((F.lower(body["op"]) == "u") & told.isNotNull() & document.isNull(), update)
        before = body["before"] if _has_before(part.writer.wire) else F.lit(None).cast("string")
        unknown = F.when(update.isNotNull(), F.lit(part.reader.text()))
        document = F.coalesce(document, F.when(before.isNotNull(), updated(before, update)).otherwise(unknown))
        patch = F.when(before.isNull(), update)
    return F.when(document.isNotNull(), F.struct(document.alias(DOCUMENT))), patch


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
