"""Maxwell's daemon, of MySQL's binlog: the whole row in `data`, of an update what it was before in `old`.

`position` is `file:place` in the binlog (`output_binlog_position`), one for all rows of an event; `xoffset` tells these
apart (`output_xoffset`). Bootstrapped rows are a snapshot's, whose position is that of the bootstrap and not the row's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Part, Said
from cdc_materializer.changes.untyped_rows import UntypedRows, before_of, in_words

if TYPE_CHECKING:
    from cdc_materializer.decode.wire import WireType

_WORDS = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
_NOTHING = ("^bootstrap-(start|complete)$", "^(table|database)-")


class Maxwell(UntypedRows):
    """A message of Maxwell's."""

    fields = (
        "`type` string, `database` string, `table` string, `ts` bigint, `position` string, `xoffset` bigint, "
        "`data` struct<{row}>, `old` struct<{row}>"
    )

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By the table beside `type` and `ts`."""
        known = {"database", "table", "type", "ts"} <= (value or {}).keys() and "es" not in (value or {})
        return "`database`, `table`, `type` and `ts`" if wire is None and known else None

    def said(self, part: Part) -> Said:
        """What the message says."""
        from pyspark.sql import functions as F

        body = part.body
        op, row = in_words(body["type"], _WORDS, _NOTHING), body["data"]
        is_read = op == "r"
        file, place = (F.regexp_extract(body["position"], "^(.+):(\\d+)$", at) for at in (1, 2))
        return Said(
            op=op,
            after=F.when(op.isin("c", "u", "r"), row),
            before=before_of(part, F.when(op == "u", body["old"]), row),
            source={
                "connector": F.lit("mysql"),
                "file": F.when(~is_read, F.nullif(file, F.lit(""))),
                "pos": F.when(~is_read, place),
                "row": body["xoffset"],
                # Seconds; of DDL, which changes no row, milliseconds.
                "ts_ms": F.try_multiply(body["ts"], F.lit(1000)),
                "db": body["database"],
                "table": body["table"],
            },
            corrupt=op.isin("c", "u", "r", "d") & row.isNull(),
        )


FORMAT = Maxwell()
