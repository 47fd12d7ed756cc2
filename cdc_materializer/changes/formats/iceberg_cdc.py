"""Rows with a `_cdc` block, which the transforms of Iceberg's Kafka Connect sink make of Debezium's and DMS's changes.

The transform makes an insert of everything that is neither update nor delete, and drops the position: `_cdc.offset` is
a Kafka offset of the topic before it. So changes have the order of their messages.

Of DMS it keeps the row as it is, which leaves out columns that are NULL, and the time as a text, where Debezium's is a
number: so by that text a row is known to have no other columns than those that it shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Format, Part, Said
from cdc_materializer.changes.untyped_rows import micros_of
from cdc_materializer.decode.wire import WireType

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.options import Options
    from cdc_materializer.decode.writers import Writer

_BLOCK = "_cdc"
_OPS = {"I": "c", "U": "u", "D": "d"}
_NUMBER = "^-?\\d+\\z"
_READ = ("op", "ts", "source")


class IcebergCdc(Format):
    """The row with what changed it beside its columns; a delete's row is the one that it ends."""

    moments = "timestamp_ntz"

    def row(self, wire: WireType) -> WireType | None:
        """All columns but the block."""
        if wire.get(_BLOCK) is None:
            return None
        return replace(wire, fields=tuple(one for one in wire.fields if one[0] != _BLOCK))

    def value_type(self, row: WireType) -> WireType:
        """The row with the block."""
        block = tuple((name, WireType("string", optional=True)) for name in _READ)
        return replace(row, fields=(*row.fields, (_BLOCK, WireType("record", fields=block))))

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By the block."""
        block = value.get(_BLOCK) if value is not None else None
        has_op = (wire is not None and wire.get(_BLOCK) is not None) or (isinstance(block, Mapping) and "op" in block)
        return "a `_cdc` block in each row" if has_op else None

    def ddl(self, writer: Writer, row_ddl: str, options: Options) -> str:
        """The row, and of the block what is read."""
        del options
        block = writer.wire.get(_BLOCK)
        known = [f"{name} string" for name in _READ if block is not None and block.get(name) is not None]
        return f"{row_ddl}, {_BLOCK} struct<{', '.join(known)}>"

    def names(self, value: Column) -> Column | None:
        """The object's own; of DMS's rows all."""
        from pyspark.sql import functions as F

        time = F.get_json_object(value, f"$.{_BLOCK}.ts")
        return F.when(F.coalesce(time.rlike(_NUMBER), F.lit(True)), F.json_object_keys(value))

    def said(self, part: Part) -> Said:
        """What the block says of the row."""
        from pyspark.sql import functions as F

        told = part.field(_BLOCK, "op").cast("string")
        op = told
        for code, ours in _OPS.items():
            op = F.when(F.upper(told) == code, F.lit(ours)).otherwise(op)
        is_delete = F.coalesce(op == "d", F.lit(False))
        time = part.field(_BLOCK, "ts").cast("string")
        return Said(
            op=op,
            after=F.when(~is_delete, part.body),
            before=part.body,
            source={
                "ts_ms": F.when(time.rlike(_NUMBER), time),
                "ts_us": F.when(~time.rlike(_NUMBER), micros_of(time)),
                "table": part.field(_BLOCK, "source").cast("string"),
            },
        )


FORMAT = IcebergCdc()
