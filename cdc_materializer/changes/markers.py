"""What a record says of the snapshot that it is part of (changelog-semantics §1.5)."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m


def snapshot_columns(source: Column, *, asked: bool) -> list[Column]:
    """The columns m.SNAPSHOT and m.TABLE: the record's place in its snapshot, and a number for its table.

    Args:
        source: the envelope's `source` block, a struct of `positions.SOURCE_FIELDS`.
        asked: whether snapshots are followed; both columns are NULL and cost nothing where they are not.
    """
    if not asked:
        return [F.lit(None).cast("string").alias(m.SNAPSHOT), F.lit(None).cast("int").alias(m.TABLE)]
    marker = F.lower(source["snapshot"])
    table = F.when(source["table"].isNotNull(), F.hash(source["db"], source["schema"], source["table"]))
    return [F.when(~marker.isin("false", "", "incremental"), marker).alias(m.SNAPSHOT), table.alias(m.TABLE)]
