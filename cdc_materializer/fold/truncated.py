"""Which rows of a mirror a truncate ends, as a column; `merge.is_truncated` says the same in statements.

Both are needed: a statement takes its values as parameters, which an expression of a frame has none of.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.marker.reach import reach_of
from cdc_materializer.merge import CDC, SOURCE_TABLE, Origin
from cdc_materializer.order.truncates import Truncate


def is_ended(truncate: Truncate, origin: Origin | None) -> Column:
    """Whether a row `t` is one that a truncate ends, of its table and from before it; never NULL.

    Args:
        truncate: the truncate.
        origin: of the mirror, where several source tables feed it.
    """
    found = _is_before(truncate)
    if origin is not None and truncate.table is not None:
        found = (F.coalesce(_of_row(SOURCE_TABLE), F.lit(origin.first)) == F.lit(truncate.table)) & found
    return F.coalesce(found, F.lit(False))


def _is_before(truncate: Truncate) -> Column:
    position = _of_row("position")
    behind = (_of_row("partition") == truncate.partition) & (_of_row("offset") < truncate.offset)
    if truncate.position is None:
        return behind
    earlier = position < F.lit(truncate.position)
    # A row that a snapshot showed is held against the truncate's own place in the log.
    earlier = earlier | ((_of_row("op") == "r") & (position < F.lit(reach_of(truncate.position))))
    return (position.isNotNull() & earlier) | (position.isNull() & behind)


def _of_row(name: str) -> Column:
    return F.col(f"t.{CDC}.{name}")
