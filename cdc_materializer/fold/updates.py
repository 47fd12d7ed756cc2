"""Documents of which a change tells only what it changed: made of the one before (changelog-semantics §5, MongoDB).

The fold has put into such a state what its row was when last a change showed the whole document, in the batch or in the
mirror, as it does for every value that a message leaves out. What was changed since is applied here, in the order of
the changes. A document that nobody knows, or to which an update does not fit, holds the change and all that build on
it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_materializer.changes import documents
from cdc_materializer.changes import model as m
from cdc_materializer.changes.document_columns import DOCUMENT
from cdc_materializer.errors import Code
from cdc_materializer.fold.fold import (
    CARRIED,
    OPEN_COLUMNS,
    PROBLEM,
    SEGMENT,
    effective,
    is_delete,
    tells,
)
from cdc_materializer.order.key_order import GROUP, ORDER
from cdc_materializer.schema.schema import TableSchema

#: Counts the documents that a row has shown whole: what is between two of them builds on the first.
_SHOWN = "__cdc_shown"
_UPDATED = "__cdc_updated"
_PATCHES = "__cdc_patches"


def applied(states: DataFrame, target: TableSchema) -> DataFrame:
    """The states with their documents.

    Args:
        states: complete but for what patches change (m.PATCH).
        target: the mirror's columns.
    """
    names = [column.name for column in target.columns if DOCUMENT in column.wire_names]
    if not names:
        return states
    name = names[0]
    document = m.column(name)
    of_row = Window.partitionBy(GROUP).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    since = Window.partitionBy(GROUP, SEGMENT, _SHOWN).orderBy(ORDER)
    since = since.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    patch = F.when(effective() & ~is_delete(), F.col(m.PATCH))
    counted = states.withColumn(_SHOWN, F.coalesce(F.count_if(tells(name)).over(of_row), F.lit(0)))
    patched = counted.withColumns(
        {_UPDATED: documents.in_order(document.cast("string"), patch).over(since), _PATCHES: F.count(patch).over(since)}
    )
    is_built = F.col(_PATCHES) > 0
    is_lost = is_built & F.col(_UPDATED).isNull() & effective() & ~is_delete()
    has_code = F.exists(F.col(CARRIED), lambda problem: problem["column"] == name)
    unknown = F.array(F.struct(F.lit(name).alias("column"), F.lit(str(Code.UNDECODABLE)).alias("code")))
    columns = {
        name: F.when(is_built, F.col(_UPDATED)).otherwise(document),
        OPEN_COLUMNS: F.when(is_built, F.array_remove(OPEN_COLUMNS, name)).otherwise(F.col(OPEN_COLUMNS)),
        CARRIED: F.concat(CARRIED, F.when(is_lost & ~has_code, unknown).otherwise(F.array()).cast(f"array<{PROBLEM}>")),
    }
    return patched.select(*[columns.get(one, m.column(one)).alias(one) for one in states.columns])
