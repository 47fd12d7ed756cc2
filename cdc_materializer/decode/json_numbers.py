"""Decimals that stand as numbers in JSON beside its schema: JsonConverter's `decimal.format=NUMERIC`.

The schema says nothing of it, so such a message is first read as one whose decimals are texts of bytes, and found to be
corrupt. Only then is it read once more, its decimals as variants, which alone keep a number's digits, and brought into
the form that the first reading would have had. Whoever has no such messages pays a look at what is NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructField, StructType, VariantType

from cdc_materializer.decode.columns import DECIMALS, meaning
from cdc_materializer.decode.decimals import is_no_number, octets_of_number
from cdc_materializer.decode.texts import any_of
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import CORRUPT, Writer, read_json

_AGAIN = "again_"


def with_numbers(datums: DataFrame, writers: Mapping[str, Writer]) -> DataFrame:
    """The datums, those read once more that are corrupt only in that their decimals are numbers.

    Args:
        datums: with one column a writer, as `Writer.datum` gives it.
        writers: the writers by the names of their columns.
    """
    types = {name: datums.schema[name].dataType for name, writer in writers.items() if writer.wrapped}
    wires = {name: _message(writers[name]) for name in types}
    again = {name: kind for name in types if (kind := _as_numbers(types[name], wires[name])) != types[name]}
    if not again:
        return datums
    # Each reading in a projection of its own: Spark would run it for each field that is taken from it.
    second = {_AGAIN + name: read_json(F.col(name)[CORRUPT], kind.json()) for name, kind in again.items()}
    better = {name: _better(name, writers[name], types[name], wires[name]) for name in again}
    return datums.withColumns(second).withColumns(better).drop(*second)


def _message(writer: Writer) -> WireType:
    return WireType("record", fields=(("payload", writer.wire),))


def _as_numbers(kind: DataType, wire: WireType) -> DataType:
    """The type of the second reading: of the first one, with variants for decimals."""
    match kind:
        case StructType():
            parts = [(one.name, one.dataType, wire.get(one.name)) for one in kind]
            return StructType([StructField(name, _as_numbers(one, part) if part else one) for name, one, part in parts])
        case ArrayType() if wire.items is not None:
            return ArrayType(_as_numbers(kind.elementType, wire.items))
        case MapType() if wire.items is not None:
            return MapType(kind.keyType, _as_numbers(kind.valueType, wire.items))
        case BinaryType() if meaning(wire) in DECIMALS:
            return VariantType()
        case _:
            return kind


def _better(name: str, writer: Writer, kind: DataType, wire: WireType) -> Column:
    """The first reading, or the second where it is the first alone that is corrupt."""
    first, second = F.col(name), F.col(_AGAIN + name)
    is_read = first[CORRUPT].isNotNull() & second.isNotNull() & ~writer.is_corrupt(second)
    others = any_of(_others(second, kind, wire))
    is_read = is_read if others is None else is_read & ~others
    return F.when(is_read, _as_octets(second, kind, wire)).otherwise(first)


def _others(value: Column, kind: DataType, wire: WireType) -> Iterator[Column]:
    """Tests that are true where a decimal of the second reading is anything but a number or NULL."""
    match kind:
        case StructType():
            for field in kind:
                part = wire.get(field.name)
                yield from _others(value[field.name], field.dataType, part) if part else ()
        case ArrayType() | MapType() if wire.items is not None and _as_numbers(kind, wire) != kind:
            values, items = _values(value, kind), wire.items
            item = kind.elementType if isinstance(kind, ArrayType) else kind.valueType
            test = F.exists(values, lambda one: _known(any_of(_others(one, item, items))))
            yield F.coalesce(test, F.lit(False))
        case BinaryType() if meaning(wire) in DECIMALS:
            yield is_no_number(value)
        case _:
            return


def _known(test: Column | None) -> Column:
    return F.lit(False) if test is None else test


def _values(value: Column, kind: DataType) -> Column:
    return F.map_values(value) if isinstance(kind, MapType) else value


def _as_octets(value: Column, kind: DataType, wire: WireType) -> Column:
    """A value of the second reading in the type of the first."""
    if _as_numbers(kind, wire) == kind:
        return value
    match kind:
        case StructType():
            parts = [
                (
                    _as_octets(value[one.name], one.dataType, part) if (part := wire.get(one.name)) else value[one.name]
                ).alias(one.name)
                for one in kind
            ]
            return F.when(value.isNotNull(), F.struct(*parts))
        case ArrayType() if wire.items is not None:
            item, items = kind.elementType, wire.items
            return F.transform(value, lambda one: _as_octets(one, item, items))
        case MapType() if wire.items is not None:
            item, items = kind.valueType, wire.items
            return F.transform_values(value, lambda _, one: _as_octets(one, item, items))
        case _:
            return octets_of_number(value, wire)
