"""Columns of documents: what a contract declares of MongoDB's documents, taken out of their text (design §4.4).

Left alone, a document is one column of text (`documents`). Where a contract declares columns, each is the field of its
name at the document's top, in the contract's type, read as values of JSON without types are (`decode.untyped`);
Extended JSON's way to write a type (`{"$numberLong": "5"}`) is the value that it stands for. A field that a document
does not have is NULL: it shows all that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.decode.wire import UNTYPED, WireType
from cdc_materializer.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The two columns of all documents: the key's, and the text.
ID, DOCUMENT = "id", "document"
#: The fields of an entry: the row, and whether the document is none.
ROW, IS_NONE = "row", "is_none"
#: The ways of Extended JSON to write one value, of those whose value is a text.
_TEXTS = ("$oid", "$numberLong", "$numberInt", "$numberDouble", "$numberDecimal", "$symbol", "$uuid", "$date")


def declared_columns(image: WireType, types: Mapping[str, str]) -> WireType:
    """The type of a document with the columns that are declared of it.

    Args:
        image: a document's, a text.
        types: the columns' types; without one it is text.
    """
    fields = [
        (name, image if name == DOCUMENT else WireType(UNTYPED, optional=True, parameters={"ddl": ddl or "string"}))
        for name, ddl in types.items()
    ]
    return replace(image, fields=tuple(fields))


def parsed(document: Column, columns: WireType) -> Column:
    """A document as the only entry of an array: a struct of ROW and IS_NONE; NULL for NULL.

    The row has each field as a variant of the value that it stands for. All that is used more than once is bound to a
    name of its own first (the lambdas), because Spark would otherwise write it out, and run it, at each use.
    """
    from pyspark.sql import functions as F

    from cdc_materializer.decode.writers import CORRUPT, read_json

    names = [name for name, _ in columns.fields]
    own = ", ".join(f"{quote(name)} variant" for name in names if name != DOCUMENT)
    read = read_json(document, f"{own}, {CORRUPT} string")

    def entry(one: Column) -> Column:
        known = one["read"]
        fields = [(one["text"] if name == DOCUMENT else _value(known[name])).alias(name) for name in names]
        is_none = known.isNull() | known[CORRUPT].isNotNull()
        return F.struct(F.struct(*fields).alias(ROW), is_none.alias(IS_NONE))

    both = F.struct(document.alias("text"), read.alias("read"))
    return F.when(document.isNotNull(), F.transform(F.array(both), entry))


def _value(given: Column) -> Column:
    """What a value of Extended JSON stands for; itself for one that stands for itself."""
    from pyspark.sql import functions as F

    octets, moment = _part(given, "$['$binary']['base64']"), _moment(_part(given, "$['$date']['$numberLong']"))
    text = F.coalesce(*[_part(given, f"$['{name}']") for name in _TEXTS], octets, moment)
    is_object = F.schema_of_variant(given).startswith("OBJECT")
    return F.coalesce(F.when(is_object, text).cast("variant"), given)


def _moment(millis: Column) -> Column:
    """Milliseconds since 1970 as the relaxed mode writes them: in UTC, with a fraction only where it is not zero."""
    from pyspark.sql import functions as F

    moment = F.timestamp_micros(F.try_multiply(millis.try_cast("bigint"), F.lit(1000)))
    text = F.translate(moment.cast("timestamp_ntz").cast("string"), " ", "T")
    # Spark leaves out the zeros at its end.
    padded = F.regexp_replace(F.regexp_replace(text, r"\.(\d)$", ".$100"), r"\.(\d\d)$", ".$10")
    return F.concat(padded, F.lit("Z"))


def _part(given: Column, path: str) -> Column:
    """A text in an object; NULL where there is none, or anything else."""
    from pyspark.sql import functions as F

    part = F.try_variant_get(given, path, "variant")
    return F.when(F.schema_of_variant(part) == "STRING", F.try_variant_get(part, "$", "string"))
