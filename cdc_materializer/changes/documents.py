"""Documents: the envelope of Debezium's MongoDB connector, whose images are JSON texts (changelog-semantics §5).

A document is one column, `document`, in the Extended JSON that the connector was told to write; its key is the column
`id`. An update without an image tells only which fields it set and which it took away. What the document is then nobody
can say who has not got the one before, and a text that was put together from two would be a guess: it is held until an
image of the document comes. With `capture.mode` change_streams_update_full each update has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_materializer.changes.source_fields import SOURCE_FIELDS
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.formats import Part

DOCUMENT = "document"
_JSON = "io.debezium.data.Json"


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
    return ", ".join(["op string", "after string", *([f"source struct<{known}>"] if known else [])])


def document_of(part: Part) -> Column:
    """The row of an envelope; NULL where it has no image."""
    from pyspark.sql import functions as F

    text = part.body["after"]
    return F.when(text.isNotNull(), F.struct(text.alias(DOCUMENT)))
