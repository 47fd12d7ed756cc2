"""Fitting a value of the writer's type into the table's column: exactly, or not at all (design §4.5)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.schema import is_widening, same_kind


def fit(value: Column, writer_type: str, table_type: str) -> tuple[Column, Column | None]:
    """The value in the table's type, and a test that is true where it does not fit.

    10.2500 fits a scale of 2 and is stored; 10.1234 does not, nor does a text in a column of numbers. Nothing is
    rounded and nothing of another kind is converted. The test is None where every value fits.
    """
    if writer_type == table_type:
        return value, None
    if is_widening(writer_type, table_type):
        return value.cast(table_type), None
    if not same_kind(writer_type, table_type):
        return F.lit(None).cast(table_type), value.isNotNull()
    narrowed = value.try_cast(table_type)
    # A cast to a smaller scale rounds: only a value that survives the way there and back fits.
    exact = narrowed.try_cast(writer_type if table_type != "float" else "double").eqNullSafe(value)
    return F.when(exact, narrowed), value.isNotNull() & ~exact
