"""Messages of AWS Database Migration Service: `data`, and in `metadata` what happened to it.

Columns that are NULL are left out, unless the endpoint has `IncludeNullAndEmpty`: so one that is not there is NULL.
A key that an update changed stands in `before-image`, or in what `FieldName` of the task's `BeforeImageSettings`
calls it, which the table's `before_image` repeats. Another object beside `data` may be one, and its message is held.

`stream-position`, where the endpoint tells it, can be compared for PostgreSQL, of which it begins with an LSN, and
MySQL, of which it begins with file and place, and `transaction-record-id` counts the rows; rows of other sources are
in the order of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Format, Part, Said
from cdc_materializer.changes.untyped_rows import UntypedRows, before_of, in_words, micros_of
from cdc_materializer.decode.refusals import BEFORE_IMAGE
from cdc_materializer.decode.wire import HEX
from cdc_materializer.names import quote, same_name

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.config import TableConfig
    from cdc_materializer.decode.wire import WireType

_WORDS = {"load": "r", "insert": "c", "update": "u", "delete": "d"}
#: A control record says nothing about rows but this.
_TRUNCATE = "truncate-table"
_LSN = "^([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})\\."
_PLACE = "^([^:]+\\.\\d+):(\\d+):"
_HALF_DIGITS = 8


_BEFORE = ("before-image", "before")
_METADATA = (
    "`metadata` struct<`record-type` string, `operation` string, `timestamp` string, `commit-timestamp` string, "
    "`schema-name` string, `table-name` string, `stream-position` string, `transaction-record-id` string>"
)


class Dms(UntypedRows):
    """A message of AWS DMS."""

    bytes = HEX
    keeps_absent = False

    def __init__(self, before_image: str | None = None) -> None:
        """Take what the task's `BeforeImageSettings` call a before image, where it is told."""
        others = [name for name in _BEFORE if before_image is None or not same_name(name, before_image)]
        self._before = (*([before_image] if before_image is not None else []), *others)
        images = ", ".join(f"{quote(name)} struct<{{row}}>" for name in ("data", *self._before))
        self.fields = f"{images}, {_METADATA}"

    def for_table(self, table: TableConfig) -> Format:
        """With the name that the table's settings give."""
        return Dms(table.before_image) if table.before_image is not None else self

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By the metadata."""
        metadata = (value or {}).get("metadata")
        known = isinstance(metadata, Mapping) and {"record-type", "operation"} <= metadata.keys()
        return "`metadata` with `record-type` and `operation`" if wire is None and known else None

    def plain_type(self, value: Column) -> Column | None:
        """None that is read, where an object may be a before image by a name that nobody told."""
        from pyspark.sql import functions as F

        known = F.array(*[F.lit(name) for name in ("data", "metadata", "control", *self._before)])
        is_new = F.size(F.array_except(F.json_object_keys(value), known)) > 0
        others = F.map_filter(
            F.from_json(value, "map<string,string>"),
            lambda name, text: ~F.array_contains(known, name) & F.coalesce(text.startswith("{"), F.lit(False)),
        )
        return F.when(is_new & (F.size(others) > 0), BEFORE_IMAGE)

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
        old = F.coalesce(*[body[name] for name in self._before])
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
