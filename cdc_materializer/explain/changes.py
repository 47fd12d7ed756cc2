"""Which columns of a row a change made others, and what they were and became."""

import json
from collections.abc import Iterator

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from cdc_materializer.batch import life
from cdc_materializer.changes import model as m
from cdc_materializer.digests import comparable
from cdc_materializer.fold import fold
from cdc_materializer.masks import Masks
from cdc_materializer.query.values import VALUE, json_text
from cdc_materializer.report.row_models import ColumnChange
from cdc_materializer.schema.schema import TableSchema

_COLUMN, _WAS, _IS = "column", "before", "after"


def changed_columns(target: TableSchema) -> Column:
    """The names of the columns in which the row after a change differs from the row that was there before.

    NULL for a delete, after which there is no row. The rows are what `life.remember` gave.
    """
    names = [F.when(differs, F.lit(name)) for name, _, differs in _compared(target)]
    return F.when(_is_row(), F.array_compact(F.array(*names)))


def changed_values(target: TableSchema, masks: Masks) -> Column:
    """The same columns with what they were and what they are, as `told_changes` reads them.

    What the fold has is masked already (decision 18). A column of which a mask leaves nothing is left out all the same,
    so that no value of it could be shown whatever the mirror has.
    """
    told = [
        F.when(
            differs,
            F.struct(
                F.lit(name).alias(_COLUMN),
                json_text(_before()[name], ddl).alias(_WAS),
                json_text(m.column(name), ddl).alias(_IS),
            ),
        )
        for name, ddl, differs in _compared(target)
        if (mask := masks.of(name)) is None or not mask.hides_all
    ]
    return F.when(_is_row(), F.array_compact(F.array(*told)))


def told_changes(found: list[Row] | None) -> list[ColumnChange]:
    """What `changed_values` gave of one message."""
    return [
        ColumnChange(column=row[_COLUMN], before=json.loads(row[_WAS])[VALUE], after=json.loads(row[_IS])[VALUE])
        for row in found or ()
    ]


def _compared(target: TableSchema) -> Iterator[tuple[str, str, Column]]:
    """Each column: its name, its type, and whether it differs from what was there before."""
    was = _before()
    for name, ddl in target.types.items():
        yield name, ddl, ~comparable(m.column(name), ddl).eqNullSafe(comparable(was[name], ddl))


def _before() -> Column:
    before = F.col(life.BEFORE)
    return F.when(before["live"], before["row"])


def _is_row() -> Column:
    return fold.effective() & ~fold.is_delete()
