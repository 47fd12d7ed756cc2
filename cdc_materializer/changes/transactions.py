"""Which transaction of the source a change belongs to, where the connector tells (changelog-semantics §1.4).

The block is there with `provide.transaction.metadata` alone, and NULL for the rows of snapshots. Vitess orders its
changes by it.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.source_fields import RANK_FIELDS
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer


def transaction_ddl(writer: Writer, reader: Reader, *, kept: bool) -> list[str]:
    """The block as a field of the envelope's DDL; empty where nothing of it is wanted, or the writer has none."""
    wanted = (_fields(writer) if kept else {}) | {
        name: reader.read(kind).wire for name, kind in _ranked(writer).items()
    }
    fields = ", ".join(f"{name} {ddl}" for name, ddl in wanted.items())
    return [f"transaction struct<{fields}>"] if fields else []


def ranks(body: Column, writer: Writer, reader: Reader) -> dict[str, Column]:
    """The fields of the block by which positions are made (RANK_FIELDS), as text: those that the writer has."""
    known = _ranked(writer)
    values = {name: reader.read(kind).apply(body["transaction"][name]) for name, kind in known.items()}
    return {name: value.cast(RANK_FIELDS[name]) for name, value in values.items()}


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


def _ranked(writer: Writer) -> dict[str, WireType]:
    block = writer.wire.get("transaction")
    if block is None or block.get("transaction_rank") is None:
        return {}
    return {name: kind for name in RANK_FIELDS if (kind := block.get(name)) is not None}
