"""Canal's flat messages, of MySQL's binlog: many rows in `data`, every value of them a text.

`old` has, row by row, what an update changed; a null there is an old NULL, and what is not there did not change. The
rows' order is that of the array. A message tells no position: rows are in the order of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Part, Said
from cdc_materializer.changes.untyped_rows import UntypedRows, as_row, before_of, in_words, is_no_row
from cdc_materializer.decode.wire import LATIN_1

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.decode.wire import WireType
    from cdc_materializer.decode.writers import Writer

_WORDS = {"INSERT": "c", "UPDATE": "u", "DELETE": "d", "TRUNCATE": "t"}
_NOTHING = ("^(CREATE|ALTER|ERASE|QUERY|RENAME|CINDEX|DINDEX|GTID|XACOMMIT|XAROLLBACK|MHEARTBEAT|TIDB_WATERMARK)$",)


class Canal(UntypedRows):
    """A flat message of Canal's."""

    fields = (
        "`type` string, `isDdl` boolean, `database` string, `table` string, `es` bigint, "
        "`data` array<variant>, `old` array<variant>"
    )
    bytes = LATIN_1

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By `isDdl` beside the type."""
        known = {"isDdl", "type", "es"} <= (value or {}).keys()
        return "`isDdl`, `type` and `es`" if wire is None and known else None

    def entries(self, body: Column, writer: Writer) -> Column | None:
        """Each row with what it was before."""
        from pyspark.sql import functions as F

        del writer
        return F.transform(
            body["data"], lambda row, at: F.struct(row.alias("row"), F.get(body["old"], at).alias("old"))
        )

    def said(self, part: Part) -> Said:
        """What the message says of one of its rows."""
        from pyspark.sql import functions as F

        body, entry = part.body, part.entry
        if entry is None:
            message = "a message of Canal's has a list of rows"
            raise AssertionError(message)
        row, old = as_row(part, entry["row"]), as_row(part, entry["old"])
        told = in_words(F.upper(body["type"]), _WORDS, _NOTHING)
        is_row = told.isin("c", "u", "d")
        # Some producers leave out the `old` of a row that has none: then nobody knows whose the others are.
        is_unpaired = body["old"].isNotNull() & (F.array_size(body["old"]) != F.array_size(body["data"]))
        # A statement in `sql` has no rows, whatever it is called; nor has an empty list.
        no_rows = F.coalesce(body["isDdl"], F.lit(False)) | (F.array_size(body["data"]) == 0)
        op = F.when(is_row & no_rows, "m").otherwise(told)
        return Said(
            op=op,
            after=F.when(op.isin("c", "u"), row),
            before=before_of(part, F.when(op == "u", old), row),
            source={"ts_ms": body["es"], "db": body["database"], "table": body["table"]},
            # What was there before may have had another key.
            corrupt=op.isin("c", "u", "d")
            & (row.isNull() | ((op == "u") & (is_unpaired | is_no_row(entry["old"], old)))),
        )


FORMAT = Canal()
