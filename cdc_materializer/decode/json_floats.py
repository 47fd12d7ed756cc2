"""Floating-point numbers in JSON that their type does not hold: the message is none of its schema, and never infinite.

Spark's JSON reader makes an infinite number of 1e300 in a `float`, and gives up the message for a whole number that is
too large for an `int32`; and it takes a bare `NaN` or `Infinity`, which JSON has not. The texts `"NaN"` and
`"Infinity"` are no fault. So a message with such a number is read once more, its floating-point numbers as variants,
which tell a number from a text. Whoever has no such messages pays a look at each floating-point number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructField, StructType, VariantType

from cdc_materializer.decode.fit import ddl_of
from cdc_materializer.decode.long_decimals import datum_of
from cdc_materializer.decode.texts import any_of
from cdc_materializer.decode.writers import CORRUPT, Writer
from cdc_materializer.names import quote

_AGAIN = "floats_of_"
#: What tells of one number whether something is so.
_Test = Callable[[Column, DataType], Column]


def without_overflows(datums: DataFrame, writers: Mapping[str, Writer]) -> DataFrame:
    """The datums, corrupt where a floating-point number is too large for its type, or a bare word.

    Args:
        datums: with one column a writer, as `Writer.datum` gives it, the selectors, and `long_decimals.octets`.
        writers: the writers by the names of their columns.
    """
    kinds = {name: _struct(datums, name) for name, writer in writers.items() if writer.avro is None}
    tests = {name: _any(F.col(name), kind, kind, _is_special) for name, kind in kinds.items()}
    special = {name: test for name, test in tests.items() if test is not None}
    second = {
        _AGAIN + name: F.when(test, datum_of(name, writers[name], _fields(kinds[name], writers[name])))
        for name, test in special.items()
    }
    again = datums.withColumns(second)
    better = {name: _better(again, name, kinds[name]) for name in special}
    return again.withColumns(better).drop(*second)


def _struct(datums: DataFrame, name: str) -> StructType:
    found: Any = datums.schema[name].dataType
    return StructType(found.fields)


def _better(again: DataFrame, name: str, kind: StructType) -> Column:
    """The first reading, or a corrupt one where the second has a number that its type does not hold."""
    test = _any(F.col(_AGAIN + name), _struct(again, _AGAIN + name), kind, _is_bare)
    nothing = {field.name: F.lit(None).cast(field.dataType) for field in kind} | {CORRUPT: F.lit("")}
    corrupt = F.struct(*[column.alias(part) for part, column in nothing.items()])
    return F.col(name) if test is None else F.when(test, corrupt).otherwise(F.col(name))


def _fields(kind: StructType, writer: Writer) -> str:
    """The wanted fields of a datum with variants for floating-point numbers, as `Writer.datum` takes them."""
    row: Any = kind["payload"].dataType if writer.wrapped else kind
    wanted = [field for field in row if field.name in dict(writer.wire.fields)]
    return ", ".join(f"{quote(field.name)} {ddl_of(_as_variants(field.dataType))}" for field in wanted)


def _as_variants(kind: DataType) -> DataType:
    match kind:
        case StructType():
            return StructType([StructField(one.name, _as_variants(one.dataType)) for one in kind])
        case ArrayType():
            return ArrayType(_as_variants(kind.elementType))
        case MapType():
            return MapType(kind.keyType, _as_variants(kind.valueType))
        case FloatType() | DoubleType():
            return VariantType()
        case _:
            return kind


def _any(value: Column, kind: DataType, first: DataType, test: _Test) -> Column | None:
    """Whether a floating-point number of a value, however deep it stands, is so; None for a type without any.

    Args:
        value: of either reading.
        kind: its type.
        first: the type of the first reading.
        test: takes a number and its type in the first reading.
    """
    match kind, first:
        case StructType(), StructType():
            types = {field.name: field.dataType for field in first}
            return any_of(
                _any(value[field.name], field.dataType, types[field.name], test)
                for field in kind
                if field.name in types
            )
        case ArrayType(), ArrayType():
            return _in_any(value, kind.elementType, first.elementType, test)
        case MapType(), MapType():
            return _in_any(F.map_values(value), kind.valueType, first.valueType, test)
        case _, FloatType() | DoubleType():
            return F.coalesce(test(value, first), F.lit(False))
        case _:
            return None


def _in_any(values: Column, kind: DataType, first: DataType, test: _Test) -> Column | None:
    if _any(F.lit(None), kind, first, test) is None:
        return None

    def is_so(value: Column) -> Column:
        found = _any(value, kind, first, test)
        return F.lit(False) if found is None else found

    return F.coalesce(F.exists(values, is_so), F.lit(False))


def _is_special(number: Column, kind: DataType) -> Column:
    """Whether a number is infinite, or none; to Spark that is beyond all numbers."""
    return F.abs(number) >= F.lit("Infinity").cast(kind)


def _is_bare(given: Column, kind: DataType) -> Column:
    """Whether a variant that would be such a number is no text: too large, or a word that JSON has not."""
    is_text = F.schema_of_variant(given) == "STRING"
    return ~is_text & _is_special(F.try_variant_get(given, "$", "double").cast(kind), kind)
