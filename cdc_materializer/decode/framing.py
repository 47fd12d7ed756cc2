"""How a message's bytes say which schema they were written with (changelog-semantics §4).

Column functions over the binary `key` or `value` of a message. The selector is a short text that is equal for two
messages exactly when one decoder serves both.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

#: Selector of JSON without a schema block; its types are declared by a contract.
PLAIN_JSON = "json"
#: Selector of bytes that begin like nothing we know.
UNKNOWN = "unknown"

_CONFLUENT_HEADER_BYTES = 5


def schema_id(octets: Column) -> Column:
    """The id in Confluent framing (byte 0, then four bytes big-endian); NULL where the bytes are not so framed."""
    framed = (F.length(octets) >= _CONFLUENT_HEADER_BYTES) & (F.substring(octets, 1, 1) == F.lit(b"\x00"))
    return F.when(framed, F.conv(F.hex(F.substring(octets, 2, 4)), 16, 10).cast("bigint").try_cast("int"))


def payload(octets: Column) -> Column:
    """The Avro datum behind the Confluent header."""
    return F.substring(octets, F.lit(_CONFLUENT_HEADER_BYTES + 1), F.length(octets))


def schema_block(octets: Column) -> Column:
    """The text of the `schema` block of Connect's JSON; NULL where the message has none.

    JsonConverter writes the block first. Cutting it out there costs a search; a full parse of a message that is nine
    tenths schema is paid only for producers that write the payload first.
    """
    text = octets.cast("string")
    first = F.substring_index(F.substring(text, F.lit(len('{"schema":') + 1), F.length(text)), ',"payload":', 1)
    has_block = text.rlike("^\\s*\\{") & F.contains(text, F.lit('"schema"')) & F.contains(text, F.lit('"payload"'))
    return F.when(text.startswith('{"schema":{'), first).when(has_block, F.get_json_object(text, "$.schema"))


def selector(octets: Column, framed_id: Column) -> Column:
    """The text that names the writer of a key or value; NULL for NULL bytes.

    Args:
        octets: the key or value.
        framed_id: its schema id, as `schema_id` finds it (stored in raw, so that it need not be computed again).
    """
    block = schema_block(octets)
    return (
        F.when(octets.isNull(), F.lit(None).cast("string"))
        .when(framed_id.isNotNull(), framed_id.cast("string"))
        .when(block.isNotNull(), F.concat(F.lit("block:"), F.hex(F.xxhash64(block)), F.lit(":"), F.length(block)))
        .when(octets.cast("string").rlike("^\\s*\\{"), PLAIN_JSON)
        .otherwise(UNKNOWN)
    )
