"""Maxwell's daemon, of MySQL's binlog: the whole row in `data`, of an update what it was before in `old`.

`position` is `file:place` in the binlog (`output_binlog_position`), one for all rows of an event; `xoffset`, which
counts the rows of a transaction, tells these apart (`output_commit_info` and `output_xoffset`). The last row of a
transaction says `commit` in its place. Bootstrapped rows are a snapshot's, whose position is that of the bootstrap and
not the row's.

With `output_nulls=false` columns that are NULL are left out: a row that is inserted or bootstrapped has all others. Of
an update, what `old` has and `data` has not became NULL: Maxwell tells nothing in `old` of columns that are not in the
row. What neither has is as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Part, Said
from cdc_materializer.changes.untyped_rows import UntypedRows, before_of, in_words, names_of

if TYPE_CHECKING:
    from cdc_materializer.decode.wire import WireType

_WORDS = {"insert": "c", "update": "u", "delete": "d", "bootstrap-insert": "r"}
#: Above all row numbers of a transaction.
_LAST_ROW = 9_999_999_999
_NOTHING = ("^bootstrap-(start|complete)$", "^(table|database)-")


class Maxwell(UntypedRows):
    """A message of Maxwell's."""

    fields = (
        "`type` string, `database` string, `table` string, `ts` bigint, `position` string, `xoffset` bigint, "
        "`commit` boolean, `data` struct<{row}>, `old` struct<{row}>"
    )

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By a type of its own beside `database` and `ts`."""
        if wire is not None or value is None or not {"database", "type", "ts"} <= value.keys() or "es" in value:
            return None
        kind = str(value["type"])
        is_known = kind in _WORDS or any(re.match(pattern, kind) for pattern in _NOTHING)
        return "`database`, `ts` and a `type` of Maxwell's" if is_known else None

    def said(self, part: Part) -> Said:
        """What the message says."""
        from pyspark.sql import functions as F

        body = part.body
        op = in_words(body["type"], _WORDS, _NOTHING)
        data, old = body["data"], F.when(op == "u", body["old"])
        null = F.parse_json(F.lit("null"))
        columns = []
        for name, _ in part.row.fields:
            is_left_out = F.coalesce(*[data[one] for one in names_of(part, name)]).isNull()
            is_null = old[name].isNotNull() | (op.isin("c", "r") & is_left_out)
            columns.append(F.coalesce(data[name], F.when(is_null, null)).alias(name))
        row = F.when(data.isNotNull(), F.struct(*columns))
        is_read = op == "r"
        file, place = (F.regexp_extract(body["position"], "^(.+):(\\d+)$", at) for at in (1, 2))
        return Said(
            op=op,
            after=F.when(op.isin("c", "u", "r"), row),
            before=before_of(part, old, row),
            source={
                "connector": F.lit("mysql"),
                "file": F.when(~is_read, F.nullif(file, F.lit(""))),
                "pos": F.when(~is_read, place),
                "row": F.coalesce(body["xoffset"], F.when(body["commit"], F.lit(_LAST_ROW))),
                # Seconds; of DDL, which changes no row, milliseconds.
                "ts_ms": F.try_multiply(body["ts"], F.lit(1000)),
                "db": body["database"],
                "table": body["table"],
            },
            corrupt=op.isin("c", "u", "r", "d") & row.isNull(),
        )


FORMAT = Maxwell()
