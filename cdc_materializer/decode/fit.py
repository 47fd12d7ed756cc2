"""Fitting a value of the writer's type into the table's column: exactly, or not at all (design §4.5)."""

from __future__ import annotations

import operator
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from cdc_materializer.decode.reading import LONG_END, Convert
from cdc_materializer.schema.types import (
    INTEGERS,
    entry_of,
    fields_ddl,
    fields_of,
    has_other_form,
    item_of,
    judged_as,
    merge_types,
    same_kind,
)


def fit(value: Column, writer_type: str, table_type: str, *, retyped: bool = False) -> tuple[Column, Column | None]:
    """The value in the table's type, and a test that is true where it does not fit.

    10.2500 fits a scale of 2 and is stored; 10.1234 does not, nor does a text in a column of numbers. Nothing is
    rounded and nothing of another kind is converted. The test is None where every value fits.

    Args:
        value: what the writer sent.
        writer_type: its type.
        table_type: the column's.
        retyped: whether the column once had another type: then 5 fits a column of texts, and the text 5 one of numbers.
    """
    merged, fits = merge_types(table_type, writer_type)
    if fits and merged == table_type:
        return conformed(value, writer_type, table_type), None
    parts = _of_parts(value, writer_type, table_type, retyped=retyped)
    if parts is not None:
        return parts
    if not same_kind(writer_type, table_type) and not (retyped and has_other_form(writer_type, table_type)):
        return F.lit(None).cast(table_type), value.isNotNull()
    narrowed = value.try_cast(table_type)
    # A cast to a smaller scale rounds, and Spark reads ' 5 ' as 5: only what survives the way there and back fits.
    # Spark compares a whole number with a double as doubles, which are the same for 2^53 and for one more.
    is_whole = writer_type in INTEGERS
    back = narrowed.try_cast(writer_type if table_type != "float" or is_whole else "double")
    exact = plain_number(back).eqNullSafe(plain_number(value)) if writer_type == "string" else back.eqNullSafe(value)
    floats = [one for one, ddl in ((value, writer_type), (narrowed, table_type)) if ddl in {"float", "double"}]
    if floats and "bigint" in {writer_type, table_type}:
        # Of 2^63 it makes the largest long, which as a double is 2^63.
        exact = exact & F.coalesce(floats[0] < F.lit(LONG_END), F.lit(False))
    return F.when(exact, narrowed), value.isNotNull() & ~exact


def fit_judged(value: Column, writer_type: str, judged_type: str) -> tuple[Column, Column | None]:
    """The same, for a value that rules see in some type and that is stored in none (`schema.types.judged_as`)."""
    if judged_as(judged_type, writer_type) == (judged_type, True):
        return conformed(value, writer_type, judged_type), None
    return fit(value, writer_type, judged_type)


def _of_parts(
    value: Column, writer_type: str, table_type: str, *, retyped: bool
) -> tuple[Column, Column | None] | None:
    """The same of two structs, arrays or maps: their parts fit, all of them, or else nothing of it does."""

    def inside(old: str, new: str) -> tuple[Convert, Convert]:
        def is_none(part: Column) -> Column:
            _, test = fit(part, old, new, retyped=retyped)
            return F.lit(False) if test is None else F.coalesce(test, F.lit(False))

        return lambda part: fit(part, old, new, retyped=retyped)[0], is_none

    before, after = fields_of(writer_type), fields_of(table_type)
    items, entries = (item_of(writer_type), item_of(table_type)), (entry_of(writer_type), entry_of(table_type))
    if before is not None and after is not None:
        known = {name: inside(before[name], ddl) for name, ddl in after.items() if name in before}
        parts = [
            (known[name][0](value[name]) if name in known else F.lit(None).cast(ddl)).alias(name)
            for name, ddl in after.items()
        ]
        tests = [is_none(value[name]) for name, (_, is_none) in known.items()]
        tests += [value[name].isNotNull() for name in before if name not in after]
        found, misfit = F.struct(*parts), reduce(operator.or_, tests)
    elif items[0] is not None and items[1] is not None:
        convert, is_none = inside(items[0], items[1])
        found, misfit = F.transform(value, convert), F.exists(value, is_none)
    elif entries[0] is not None and entries[1] is not None and entries[0][0] == entries[1][0]:
        convert, is_none = inside(entries[0][1], entries[1][1])
        found = F.transform_values(value, lambda _, part: convert(part))
        misfit = F.exists(F.map_values(value), is_none)
    else:
        return None
    misfit = value.isNotNull() & F.coalesce(misfit, F.lit(False))
    return F.when(value.isNotNull() & ~misfit, found), misfit


def plain_number(text: Column) -> Column:
    """A text; where it is a number, without those digits behind the point that say nothing."""
    return F.regexp_replace(text, r"^(-?\d+)(?:\.0*|(\.\d*[1-9])0*)$", "$1$2")


def conformed(value: Column, old: str, new: str) -> Column:
    """A value of one type as one that holds all of its values; fields that a struct does not have are NULL in it.

    Field by field and by name, because a cast of structs goes by place.
    """
    if old == new:
        return value
    before, after = fields_of(old), fields_of(new)
    if before is not None and after is not None:
        parts = [
            (conformed(value[name], before[name], ddl) if name in before else F.lit(None).cast(ddl)).alias(name)
            for name, ddl in after.items()
        ]
        return F.when(value.isNotNull(), F.struct(*parts))
    items, entries = (item_of(old), item_of(new)), (entry_of(old), entry_of(new))
    if items[0] is not None and items[1] is not None:
        one, other = items[0], items[1]
        return F.transform(value, lambda item: conformed(item, one, other))
    if entries[0] is not None and entries[1] is not None:
        left, right = entries[0][1], entries[1][1]
        return F.transform_values(value, lambda _, item: conformed(item, left, right))
    return value.cast(new)


def ddl_of(data_type: DataType) -> str:
    """A type's DDL as `decode.types` spells it, the names of struct fields quoted; Spark's own leaves them bare."""
    match data_type:
        case StructType():
            return fields_ddl((field.name, ddl_of(field.dataType)) for field in data_type)
        case ArrayType():
            return f"array<{ddl_of(data_type.elementType)}>"
        case MapType():
            return f"map<{ddl_of(data_type.keyType)},{ddl_of(data_type.valueType)}>"
        case _:
            return data_type.simpleString()
