"""Whether a message's key can stand in no other partition than this one.

Kafka's own partitioner chooses by the key's bytes. So a row whose key is always written in the same bytes has all of
its messages in one partition, as long as there are as many of them (changelog-semantics §2.2 says what breaks it). Both
are told of each message: that it lies where that partitioner puts it, and that its key could not have been written
otherwise. That is so with one schema, in Avro, which has one form for each whole number, text and boolean, or as the
JSON text that Kafka Connect's converter writes. Of anything else nothing is said, and a key may have been anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.decode.columns import meaning
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer

#: Of a message of `batch.messages`, how its key names its schema, if it lies where Kafka's own partitioner puts it, and
#: NULL if not; and the key as text.
PLACED, _TEXT = "placed", "key_text"
#: What the projections of a message carry for `home`.
ASKED = (PLACED, _TEXT)
_PAYLOAD = '"payload":'
#: Columns of a key, and what they are on the wire, of which each value is written in one way. A number with a scale of
#: its own is a text in the table, and 1.0 is the key that 1.00 is; a time loses what is below microseconds.
_TYPES = frozenset({"int", "bigint", "boolean", "string"})
_LITERALS = frozenset({"int", "long", "boolean", "string", "enum"})


def is_exact(wire: WireType, own: str, column: str) -> bool:
    """Whether each value of a key's field is written in one way.

    Args:
        wire: its type in the writer's schema.
        own: the column's type that this makes.
        column: the column's type in the table.
    """
    is_kept = own == column or (own, column) == ("int", "bigint")
    return is_kept and column in _TYPES and wire.literal in _LITERALS and not meaning(wire)


def asked(messages: DataFrame) -> list[Column]:
    """The columns of ASKED, from messages of `batch.messages`; NULL where nobody asks."""
    if PLACED not in messages.columns:
        return [F.lit(None).cast("string").alias(name) for name in ASKED]
    return [F.col(PLACED), F.col("key").cast("string").alias(_TEXT)]


def home(key: Column, exact: Sequence[Writer]) -> Column:
    """How a message's key is written, a short text; empty where the key may be in other partitions too.

    Args:
        key: the key as JSON text (`model.KEY`), from `asked`'s projections.
        exact: the writers of keys whose fields are the key's, each of them exact (`is_exact`).
    """
    chosen, text = F.col("key_writer"), F.col(_TEXT)
    in_avro = [one.selector for one in exact if one.avro is not None and one.protobuf is None]
    plain = [one.selector for one in exact if one.avro is None and not one.wrapped]
    wrapped = [one.selector for one in exact if one.avro is None and one.wrapped]
    payload = F.concat(F.lit(_PAYLOAD), key, F.lit("}"))
    # What stands ahead of the payload is the schema: written otherwise, it moves the key.
    schema = F.substring(text, F.lit(1), F.length(text) - F.length(payload))
    told = (
        F.when(chosen.isin(*in_avro), chosen)
        .when(chosen.isin(*plain) & (text == key), chosen)
        .when(chosen.isin(*wrapped) & text.endswith(payload), F.hex(F.xxhash64(schema)))
    )
    return F.coalesce(F.concat(F.col(PLACED), told), F.lit(""))
