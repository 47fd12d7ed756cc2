"""Decimals in Avro of more digits than Spark has: their column is out of range, and the rest of the message is read.

Spark's Avro reader gives up the whole message for one. So a message that it finds to be corrupt is read once more, its
decimals as the bytes that they are, and brought into the form that the first reading would have had. Whoever has no
such messages pays a look at what is NULL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, DecimalType, MapType, StructType

from cdc_materializer.decode.decimals import shortest, unscaled_decimal
from cdc_materializer.decode.writers import Writer
from cdc_materializer.schema.types import DECIMAL_DIGITS_MAX

_AGAIN = "bytes_of_"
#: Under which names `octets` gives which of a message's two.
OCTETS = {"value": "octets_of_value", "key": "octets_of_key"}
#: The digits in the place of a number of more: a decimal that is read so has fewer (`decimals.avro_decimal_is_exact`).
_TOO_MANY = (9,) * DECIMAL_DIGITS_MAX


def octets() -> list[Column]:
    """The binary keys and values, by the names under which they can be read once more."""
    return [F.col(side).alias(name) for side, name in OCTETS.items()]


def with_long_decimals(datums: DataFrame, writers: Mapping[str, Writer]) -> DataFrame:
    """The datums, those read once more that a decimal may have spoilt.

    Args:
        datums: with one column a writer, as `Writer.datum` gives it, the selectors, and `octets`.
        writers: the writers by the names of their columns.
    """
    plain = {name: one for name, writer in writers.items() if (one := _of_bytes(writer)) is not None}
    if not plain:
        return datums
    second = {_AGAIN + name: F.when(one.is_corrupt(F.col(name)), datum_of(name, one)) for name, one in plain.items()}
    again = datums.withColumns(second)
    kinds = {name: (datums.schema[name].dataType, again.schema[_AGAIN + name].dataType) for name in plain}
    better = {
        name: F.when(~one.is_corrupt(F.col(_AGAIN + name)), _as_decimals(F.col(_AGAIN + name), *kinds[name])).otherwise(
            F.col(name)
        )
        for name, one in plain.items()
    }
    return again.withColumns(better).drop(*second)


def datum_of(name: str, writer: Writer, ddl: str = "") -> Column:
    """A second reading, by a writer, for the column of a name; Avro is read whole, whichever fields are wanted."""
    side = "key" if name.startswith("key") else "value"
    return writer.datum(F.col(OCTETS[side]), F.col(f"{side}_writer"), ddl)


def _of_bytes(writer: Writer) -> Writer | None:
    """A writer whose decimals are bytes; None for one that has no decimals which Spark's reader makes."""
    if writer.avro is None or '"decimal"' not in writer.avro:
        return None
    members = tuple(replace(one, avro=_without_decimals(one.avro)) for one in writer.members)
    return replace(writer, avro=_without_decimals(writer.avro), members=members)


def _without_decimals(avro: str | None) -> str | None:
    return json.dumps(json.loads(avro, object_hook=_plain)) if avro is not None else None


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    if part.get("logicalType") != "decimal":
        return part
    return {name: said for name, said in part.items() if name not in {"logicalType", "precision", "scale"}}


def _as_decimals(value: Column, first: DataType, second: DataType) -> Column:
    """A value of the second reading in the type of the first."""
    match first, second:
        case DecimalType(), BinaryType():
            number = unscaled_decimal(shortest(value), first.precision, first.scale)
            too_large = F.lit(Decimal((0, _TOO_MANY, -first.scale))).cast(first)
            return F.when(value.isNotNull(), F.coalesce(number, too_large))
        case (StructType(), StructType()) if first != second:
            pairs = zip(first, second, strict=True)
            parts = [_as_decimals(value[b.name], a.dataType, b.dataType).alias(a.name) for a, b in pairs]
            return F.when(value.isNotNull(), F.struct(*parts))
        case (ArrayType(), ArrayType()) if first != second:
            return F.transform(value, lambda one: _as_decimals(one, first.elementType, second.elementType))
        case (MapType(), MapType()) if first != second:
            return F.transform_values(value, lambda _, one: _as_decimals(one, first.valueType, second.valueType))
        case _:
            return value
