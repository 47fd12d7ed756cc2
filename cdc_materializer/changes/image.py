"""A row image as a writer sent it, in the columns of the table: each value present, NULL, absent or unavailable.

What the contract masks leaves here masked, in the one place where values come from messages.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes.masking import masked
from cdc_materializer.decode.fit import fit
from cdc_materializer.decode.reading import Reading
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from cdc_materializer.errors import Code
from cdc_materializer.masks import Masks, source_name
from cdc_materializer.names import quote
from cdc_materializer.schema import TableSchema

PROBLEMS_TYPE = "array<struct<column:string,code:string>>"


@dataclass(frozen=True)
class Image:
    """The record that holds a row, its type, and its names where the message itself says which it has."""

    record: Column
    wire: WireType
    names: Column | None = None


def image_type(target: TableSchema) -> str:
    """The DDL type of the struct that `image` gives."""
    row = ",".join(f"{quote(column.name)}:{column.type}" for column in target.columns)
    names = "absent:array<string>,unavailable:array<string>"
    return f"struct<present:boolean,row:struct<{row}>,{names},problems:{PROBLEMS_TYPE}>"


def image(source: Image, reader: Reader, target: TableSchema, masks: Masks) -> Column:
    """Whether there is an image, its row, and which columns are absent, unavailable or do not fit, as a struct."""
    present = source.record.isNotNull()
    values, missing, unavailable, problems = [], [], [], []
    for column in target.columns:
        name, mask = source_name(column.name), masks.of(column.name)
        kind = source.wire.get(name)
        if mask is not None and mask.hides_all:
            values.append(F.lit(None).cast(column.type).alias(column.name))
            continue
        if kind is None:
            values.append(F.lit(None).cast(column.type).alias(column.name))
            missing.append(F.lit(column.name))
            continue
        reading = reader.read(kind)
        on_wire = source.record[name]
        unknown = F.coalesce(reading.unavailable(on_wire), F.lit(False)) if reading.unavailable else None
        value = reading.apply(on_wire)
        if mask is None:
            fitted, misfit = fit(value, reading.ddl, column.type)
        else:
            fitted, misfit = masked(value, reading.ddl, mask, masks.key), None
        values.append((F.when(~unknown, fitted) if unknown is not None else fitted).alias(column.name))
        if unknown is not None:
            unavailable.append(F.when(unknown, F.lit(column.name)))
        if source.names is not None:
            missing.append(F.when(~F.array_contains(source.names, name), F.lit(column.name)))
        # Of a twin that does not fit, its column is told: by that name the problem is carried and reported.
        for told in dict.fromkeys((name, column.name)):
            problems += _problems(told, reading, on_wire, misfit, unknown, reader)
    return F.struct(
        present.alias("present"),
        F.struct(*values).alias("row"),
        F.when(present, _named(missing)).alias("absent"),
        F.when(present, _named(unavailable)).alias("unavailable"),
        F.when(present, _listed(problems)).alias("problems"),
    )


def _problems(
    name: str, reading: Reading, on_wire: Column, misfit: Column | None, unknown: Column | None, reader: Reader
) -> list[Column]:
    tests = [
        (misfit, Code.SCHEMA_INCOMPATIBLE),
        (reading.invalid(on_wire) if reading.invalid else None, Code.OUT_OF_RANGE),
    ]
    if reader.special_values == "stop" and reading.special is not None:
        tests.append((reading.special(on_wire), Code.OUT_OF_RANGE))
    known = ~unknown if unknown is not None else F.lit(True)
    return [
        F.when(test & known, F.struct(F.lit(name).alias("column"), F.lit(str(code)).alias("code")))
        for test, code in tests
        if test is not None
    ]


def _named(names: list[Column]) -> Column:
    return F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")


def _listed(problems: list[Column]) -> Column:
    return F.array_compact(F.array(*problems)) if problems else F.array().cast(PROBLEMS_TYPE)
