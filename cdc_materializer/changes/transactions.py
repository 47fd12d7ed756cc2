"""Which transaction of the source a change belongs to, where the connector tells (changelog-semantics §1.4).

The block is there with `provide.transaction.metadata` alone, and NULL for the rows of snapshots.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.decode.writers import Writer


def transaction_ddl(writer: Writer) -> list[str]:
    """The block as a field of the envelope's DDL; empty where the writer has none."""
    fields = ", ".join(f"{name} {ddl}" for name, ddl in _fields(writer).items())
    return [f"transaction struct<{fields}>"] if fields else []


def transaction(body: Column, writer: Writer | None) -> Column:
    """The transaction in the form of the history; NULL for None, where nobody keeps it."""
    known = _fields(writer) if writer is not None else {}
    if not known:
        return F.lit(None).cast(m.TRANSACTION_TYPE)
    block = body["transaction"]
    parts = [
        (block[name] if name in known else F.lit(None)).cast(ddl).alias(name)
        for name, ddl in m.TRANSACTION_FIELDS.items()
    ]
    return F.when(block.isNotNull(), F.struct(*parts))


def _fields(writer: Writer) -> dict[str, str]:
    block = writer.wire.get("transaction")
    if block is None:
        return {}
    return {name: ddl for name, ddl in m.TRANSACTION_FIELDS.items() if block.get(name) is not None}
