"""Messages of AWS Database Migration Service: `data`, and in `metadata` what happened to it.

Columns that are NULL are left out, unless the endpoint has `IncludeNullAndEmpty`: so one that is not there is NULL.
A key that an update changed stands in `before-image` (`BeforeImageSettings`). `stream-position`, where the endpoint
tells it, can be compared for PostgreSQL, of which it begins with an LSN, and MySQL, of which it begins with file and
place, and `transaction-record-id` counts the rows; rows of other sources are in the order of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Part, Said
from cdc_materializer.changes.untyped_rows import UntypedRows, before_of, in_words, micros_of
from cdc_materializer.decode.wire import HEX

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.decode.wire import WireType

_WORDS = {"load": "r", "insert": "c", "update": "u", "delete": "d"}
#: A control record says nothing about rows but this.
_TRUNCATE = "truncate-table"
_LSN = "^([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})\\."
_PLACE = "^([^:]+\\.\\d+):(\\d+):"
_HALF_DIGITS = 8


class Dms(UntypedRows):
    """A message of AWS DMS."""

    fields = (
        "`data` struct<{row}>, `before-image` struct<{row}>, `before` struct<{row}>, `metadata` struct<"
        "`record-type` string, `operation` string, `timestamp` string, `commit-timestamp` string, "
        "`schema-name` string, `table-name` string, `stream-position` string, "
        "`transaction-record-id` string>"
    )
    bytes = HEX
    keeps_absent = False

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By the metadata."""
        metadata = (value or {}).get("metadata")
        known = isinstance(metadata, Mapping) and {"record-type", "operation"} <= metadata.keys()
        return "`metadata` with `record-type` and `operation`" if wire is None and known else None

    def said(self, part: Part) -> Said:
        """What the message says."""
        from pyspark.sql import functions as F

        body, told = part.body, part.body["metadata"]
        row, word = body["data"], told["operation"]
        of_data = in_words(word, _WORDS)
        of_control = F.when(word == _TRUNCATE, "t").otherwise(F.lit("m"))
        kind = told["record-type"]
        op = F.when(kind == "data", of_data).when(kind == "control", of_control).otherwise(F.concat(F.lit("?"), kind))
        op = F.when(word.isNotNull(), op)
        old = F.coalesce(body["before-image"], body["before"])
        return Said(
            op=op,
            after=F.when(op.isin("c", "u", "r"), row),
            before=before_of(part, F.when(op == "u", old), row),
            source={
                **{name: F.when(op != "r", column) for name, column in _place(told).items()},
                "ts_us": micros_of(F.coalesce(told["commit-timestamp"], told["timestamp"])),
                "schema": F.nullif(told["schema-name"], F.lit("")),
                "table": told["table-name"],
            },
            corrupt=op.isin("c", "u", "r", "d") & row.isNull(),
        )


def _place(told: Column) -> dict[str, Column]:
    """What is known of a `stream-position`, by Debezium's names; NULL where it is of another source."""
    from pyspark.sql import functions as F

    stream = told["stream-position"]
    high, low = (F.regexp_extract(stream, _LSN, at) for at in (1, 2))
    lsn = F.conv(F.concat(high, F.lpad(low, _HALF_DIGITS, "0")), 16, 10)
    file, place = (F.regexp_extract(stream, _PLACE, at) for at in (1, 2))
    connector = F.when(stream.rlike(_LSN), "postgresql").when(stream.rlike(_PLACE), "mysql")
    return {
        "connector": connector,
        "lsn": F.when(connector == "postgresql", lsn),
        "file": F.when(connector == "mysql", file),
        "pos": F.when(connector == "mysql", place),
        "row": F.when(connector == "mysql", told["transaction-record-id"]),
    }


FORMAT = Dms()
