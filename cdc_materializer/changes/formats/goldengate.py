"""GoldenGate's JSON formatter (`format=json`, of operations and not of rows): images before and after.

Updates may be compressed: a column that is not in `after` did not change, nor did one whose `<column>_isMissing` says
so. A key that changed is told by the two images. `pos` is the operation's place in the trail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Part, Said
from cdc_materializer.changes.untyped_rows import UntypedRows, before_of, in_words, key_names, micros_of
from cdc_materializer.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.options import Options
    from cdc_materializer.decode.wire import WireType
    from cdc_materializer.decode.writers import Writer

_WORDS = {"I": "c", "U": "u", "D": "d", "T": "t"}
_MISSING = "_isMissing"
_DIGITS = 20


class GoldenGate(UntypedRows):
    """An operation of GoldenGate's."""

    fields = (
        "`table` string, `op_type` string, `op_ts` string, `pos` string, `before` struct<{row}>, `after` struct<{row}>"
    )

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By what it says beside the images, or beside columns; the formatter may be told to leave out most of it."""
        if wire is not None or value is None:
            return None
        if {"table", "op_type", "op_ts"} <= value.keys():
            return "`table`, `op_type` and `op_ts`"
        has_image = any(isinstance(value.get(side), Mapping) for side in ("before", "after"))
        is_known = value.get("op_type") in _WORDS and (has_image or "table" in value)
        return "an `op_type` of GoldenGate's" if is_known else None

    def ddl(self, writer: Writer, row_ddl: str, options: Options) -> str:
        """Beside each column whether it is missing."""
        row = options.row(writer)
        names = [name for name, _ in row.fields] if row is not None else []
        flags = ", ".join(f"{quote(name + _MISSING)} string" for name in names if name + _MISSING not in names)
        return super().ddl(writer, f"{row_ddl}, {flags}" if flags else row_ddl, options)

    def said(self, part: Part) -> Said:
        """What the operation says."""
        from pyspark.sql import functions as F

        body = part.body
        op = in_words(F.upper(body["op_type"]), _WORDS)
        before, after = (_told(part, body[side]) for side in ("before", "after"))
        row = F.when(op == "d", before).otherwise(after)
        image = after
        if key_names(part):
            # A compressed update need not repeat the key that it leaves as it was.
            known = {name: F.coalesce(after[name], before[name]) for name in key_names(part)}
            columns = [known.get(name, after[name]).alias(name) for name, _ in part.row.fields]
            image = F.when(after.isNotNull(), F.struct(*columns))
        return Said(
            op=op,
            after=F.when(op.isin("c", "u"), image),
            before=before_of(part, before, after),
            source={
                "position": F.when(body["pos"].rlike(f"^\\d{{1,{_DIGITS}}}$"), F.lpad(body["pos"], _DIGITS, "0")),
                "ts_us": micros_of(body["op_ts"]),
                "table": body["table"],
            },
            corrupt=op.isin("c", "u", "d") & row.isNull(),
        )


def _told(part: Part, image: Column) -> Column:
    """An image with those columns alone that it really tells."""
    from pyspark.sql import functions as F

    names = [name for name, _ in part.row.fields]
    columns = []
    for name in names:
        flag = (
            F.coalesce(F.lower(image[name + _MISSING]) == "true", F.lit(False))
            if name + _MISSING not in names
            else F.lit(False)
        )
        columns.append(F.when(~flag, image[name]).alias(name))
    return F.when(image.isNotNull(), F.struct(*columns))


FORMAT = GoldenGate()
