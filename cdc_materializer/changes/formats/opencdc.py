"""Conduit's OpenCDC records in JSON: an operation, a key, and payloads before and after.

Key and payloads are objects, or raw: bytes, in Base64, which have to be JSON objects themselves; a raw key that is none
is the one key column's text. `position` is the connector's own, and in no order that others know: rows are in the order
of the topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cdc_materializer.changes.formats import Part, Said
from cdc_materializer.changes.untyped_rows import UntypedRows, as_row, in_words, is_no_row, key_names

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.decode.wire import WireType

_WORDS = {"create": "c", "snapshot": "r", "update": "u", "delete": "d"}
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\\z"


class OpenCdc(UntypedRows):
    """A record of OpenCDC's."""

    fields = (
        "`operation` string, `key` variant, `payload` struct<`before` variant, `after` variant>, "
        "`metadata` struct<`opencdc.createdAt` string, `opencdc.collection` string>"
    )

    def recognise(self, wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
        """By the operation beside payload and position."""
        known = {"operation", "payload", "position"} <= (value or {}).keys()
        return "`operation`, `payload` and `position`" if wire is None and known else None

    def said(self, part: Part) -> Said:
        """What the record says."""
        from pyspark.sql import functions as F

        body = part.body
        op = in_words(F.lower(body["operation"]), _WORDS)
        before, after = (as_row(part, _opened(body["payload"][side])) for side in ("before", "after"))
        names, created = key_names(part), body["metadata"]["opencdc.createdAt"]
        key = as_row(part, _opened(body["key"]))
        alone = _text(body["key"]) if len(part.options.key) == 1 else F.lit(None).cast("variant")
        told = {name: F.coalesce(key[name], F.when(key.isNull(), alone)) for name in names}
        columns = [
            (F.coalesce(after[name], told[name]) if name in told else after[name]).alias(name)
            for name, _ in part.row.fields
        ]
        old = [F.coalesce(before[name], told[name], after[name]).alias(name) for name in names]
        return Said(
            op=op,
            after=F.when(op.isin("c", "u", "r") & after.isNotNull(), F.struct(*columns)),
            before=F.struct(*old),
            source={
                "ts_us": F.floor(created.try_cast("bigint") / F.lit(1000).cast("decimal(4,0)")).cast("bigint"),
                "table": body["metadata"]["opencdc.collection"],
            },
            # What was there before may have had another key.
            corrupt=op.isin("c", "u", "r")
            & (after.isNull() | ((op == "u") & is_no_row(body["payload"]["before"], before))),
        )


def _raw(given: Column) -> Column:
    """The text of raw data; NULL for structured data."""
    from pyspark.sql import functions as F

    text = F.when(F.schema_of_variant(given) == "STRING", F.try_variant_get(given, "$", "string"))
    return F.try_validate_utf8(F.unbase64(F.when(text.rlike(_BASE64), text)).cast("string"))


def _opened(given: Column) -> Column:
    """Structured data, or the JSON that raw data is."""
    from pyspark.sql import functions as F

    return F.coalesce(F.try_parse_json(_raw(given)), given)


def _text(given: Column) -> Column:
    """The text of raw data, as a variant."""
    from pyspark.sql import functions as F

    quoted = F.to_json(F.struct(_raw(given).alias("text")))
    return F.try_variant_get(F.try_parse_json(quoted), "$.text", "variant")


FORMAT = OpenCdc()
