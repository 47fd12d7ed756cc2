"""The keys and values of a map whose keys are no texts: in JSON an array of arrays of two (changelog-semantics §3).

An array has one type for all that is in it, and these two may be of any. So they are read as variants, which alone tell
a text from a number (`1234` is Base64 as well), and made what Spark's JSON reader would deliver for their types.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode.columns import DECIMALS, meaning
from cdc_materializer.decode.decimals import octets_of_number
from cdc_materializer.decode.untyped import text_of
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import CORRUPT, read_json

_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\\z"


def wire_value(given: Column, kind: WireType, wire: str) -> Column:
    """A variant in the type in which a reading takes it; NULL for what is none.

    Args:
        given: the variant.
        kind: its type on the wire.
        wire: `Reading.wire` of that type.
    """
    text = text_of(given)
    if wire == "variant":
        return given
    if "<" in wire:
        read = read_json(F.concat(F.lit('{"it":'), text, F.lit("}")), f"it {wire}, {CORRUPT} string")
        return F.when(read[CORRUPT].isNull(), read["it"])
    if wire != "binary":
        return text.try_cast(wire)
    is_text = F.schema_of_variant(given) == "STRING"
    octets = F.unbase64(F.when(is_text & text.rlike(_BASE64), text))
    # As everywhere in JSON, the converter's `decimal.format` may have made it a number (`json_numbers`).
    return F.when(is_text, octets).otherwise(octets_of_number(given, kind)) if meaning(kind) in DECIMALS else octets
