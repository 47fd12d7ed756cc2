"""From the schemas that a batch names to the decoders that read it.

On the driver, once a batch: the distinct writers of the batch (a handful; dozens after much DDL) are looked up, parsed
and turned into one `Writer` each. Always the writer's own schema, never a reader's: defaults are not data (§4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from cdc_materializer.decode.columns import DECIMAL_DIGITS_MAX
from cdc_materializer.decode.framing import payload
from cdc_materializer.decode.reading import Form
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType, parse_avro, parse_connect


@dataclass(frozen=True)
class Writer:
    """One decoder.

    Attributes:
        selector: the text by which messages choose it (see `framing.selector`).
        form: whether Spark's Avro or JSON reader delivers the values.
        wire: the type of the decoded datum.
        avro: the Avro schema for Spark's reader, for Avro only.
        wrapped: whether the datum stands under `payload`, beside its schema block.
    """

    selector: str
    form: Form
    wire: WireType
    avro: str | None = None
    wrapped: bool = False

    def datum(self, octets: Column, ddl: str) -> Column:
        """The decoded datum: a struct for `ddl`; all NULL where the bytes are not what the schema says.

        Args:
            octets: the binary key or value.
            ddl: the fields that are wanted, as Spark DDL (`op string, after struct<…>`); Avro is read whole.
        """
        if self.avro is not None:
            return from_avro(payload(octets), self.avro, {"mode": "PERMISSIVE"})
        text = octets.cast("string")
        if self.wrapped:
            return F.from_json(text, f"payload struct<{ddl}>, {CORRUPT} string", _JSON_OPTIONS)
        return F.from_json(text, f"{ddl}, {CORRUPT} string", _JSON_OPTIONS)

    def body(self, datum: Column) -> Column:
        """The struct of the datum's own fields."""
        return datum["payload"] if self.wrapped else datum

    def is_corrupt(self, datum: Column) -> Column:
        """Whether Spark's reader gave up on the bytes. Avro's shows it only by leaving required fields NULL."""
        return F.lit(False) if self.avro is not None else datum[CORRUPT].isNotNull()


#: Spark's JSON reader turns one bad field into NULL and goes on; with this column it tells us, so that we hold the
#: message.
CORRUPT = "__cdc_corrupt"
_JSON_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def avro_writer(selector: str, text: str) -> Writer:
    """The decoder for an Avro schema.

    Raises:
        WireSchemaInvalid: the text is no Avro schema that has a table form.
    """
    wire = parse_avro(text)
    if wire.literal != "record":
        message = "the schema is not a record"
        raise WireSchemaInvalid(message)
    return Writer(selector, "avro", wire, avro=json.dumps(_for_spark(json.loads(text))))


def block_writer(selector: str, text: str) -> Writer:
    """The decoder for Connect's JSON with its schema block.

    Raises:
        WireSchemaInvalid: the text is no Connect schema of a struct.
    """
    try:
        block = json.loads(text)
    except ValueError as error:
        message = "the schema block is not JSON"
        raise WireSchemaInvalid(message) from error
    wire = parse_connect(block)
    if wire.literal != "record":
        message = "the schema is not a struct"
        raise WireSchemaInvalid(message)
    return Writer(selector, "json", wire, wrapped=True)


def declared(types: Mapping[str, str]) -> WireType:
    """The wire type of a JSON row without a schema, from the column types that a contract declares."""
    fields = tuple((name, WireType("declared", optional=True, parameters={"ddl": ddl})) for name, ddl in types.items())
    return WireType("record", optional=True, fields=fields)


def _for_spark(schema: Any) -> Any:  # noqa: ANN401 - JSON
    """The schema without logical types, which Spark converts by its own rules; decimals that it reads exactly stay."""
    if isinstance(schema, list):
        return [_for_spark(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        name: _for_spark(part) if name in {"type", "items", "values", "fields"} else part
        for name, part in schema.items()
    }
    exact = (
        schema.get("logicalType") == "decimal"
        and 0 <= schema.get("scale", 0) <= schema.get("precision", 0) <= DECIMAL_DIGITS_MAX
    )
    if not exact:
        plain.pop("logicalType", None)
    # A default is never data to us, and one that its type does not allow stops Avro's parser.
    plain.pop("default", None)
    return plain
