"""Which row of its source a change is of, where its position does not tell (changelog-semantics §2.1).

All that a transaction of Oracle's did at one SCN has one position before Debezium 3.2. But LogMiner tells where on disk
the row is, and where its record in the redo log. A key change alters neither: its delete and its insert are made of one
record (§1.2), and those of other rows are not.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.positions import Source

#: A ROWID: data object, file, block and row. No row is in the first block of a file: that ends with A for each digit
#: where a table has its rows in an index.
_ROWID = "[A-Za-z0-9+/]{18}"
_NOWHERE = "A{9}$"


def source_row(source: Source) -> Column:
    """m.SOURCE_ROW: ROWID and address in the redo log, as far as they are told."""
    if not source.fields & {"row_id", "rs_id"}:
        return F.lit(None).cast("string")
    row, record = source["row_id"], F.trim(source["rs_id"])
    is_row = row.rlike(f"^{_ROWID}$") & ~row.rlike(_NOWHERE)
    told = F.nullif(F.concat_ws(" ", F.when(is_row, row), record), F.lit(""))
    return F.when(source["connector"] == "oracle", told)


def is_told() -> Column:
    """Whether a change tells both: a row may change its key twice at one SCN, and a record be of several rows."""
    return F.coalesce(F.col(m.SOURCE_ROW).rlike(f"^{_ROWID} "), F.lit(False))
