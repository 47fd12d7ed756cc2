"""Upsert topics: the value is the row, and a message without one deletes the row of its key.

So write Kafka Connect's source connectors, ksqlDB, Flink's `upsert-kafka`, Kafka Streams and many services, mostly into
compacted topics. Nothing tells of the source but the messages' own order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Format, Part, Said
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import Column


class Upsert(Format):
    """Rows by key."""

    tombstones_delete = True
    is_last_resort = True

    def row(self, wire: WireType) -> WireType | None:
        """The value itself."""
        return wire if wire.literal == "record" and wire.fields else None

    def is_other(self, wire: WireType) -> bool:
        """None: here any name may be that of a row."""
        del wire
        return False

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """Any record; by nothing of its own."""
        del value
        return "rows without anything around them" if wire is None or self.row(wire) is not None else None

    def names(self, value: Column) -> Column | None:
        """The object's own."""
        from pyspark.sql import functions as F

        return F.json_object_keys(value)

    def said(self, part: Part) -> Said:
        """The row as it is now; nobody says whether it was there before."""
        from pyspark.sql import functions as F

        return Said(op=F.when(part.body.isNotNull(), F.lit("u")), after=part.body)


FORMAT = Upsert()
