"""Deletes that do not say which row they end: PostgreSQL's REPLICA IDENTITY USING INDEX (changelog-semantics §0.1).

With another index than the primary key's, the database logs of a deleted row no more than the index's columns. What is
missing of the key can't be NULL, so the connector fills it with defaults: the key is 0, whatever the row's was, and
only ``before`` still tells, by columns that are not the key's. Which row that is nobody can know from a key; and a row
whose key really is 0 must not go in its place.

An index that can be a replica identity has none but NOT NULL columns. So a ``before`` in which a column that may be
NULL has a value is a whole row, as REPLICA IDENTITY FULL gives it, and its key is meant as it stands.

An index that has a part of the key tells that part. Of such deletes none is held: with REPLICA IDENTITY FULL a row in
which one part of the key is 0, and nothing that may be NULL has a value, looks the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.image import told_names
from cdc_materializer.decode.columns import VARIABLE_SCALE
from cdc_materializer.decode.fit import fit
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from cdc_materializer.schema.schema import TableSchema

#: What stands for a NOT NULL value that the database did not tell, by the wire's literal type.
_FILLERS = {"boolean": False, "int": 0, "long": 0, "float": 0, "double": 0, "string": ""}
#: Likewise for texts that mean something else.
_FILLER_TEXTS = {
    "io.debezium.time.ZonedTimestamp": "1970-01-01T00:00:00Z",
    "io.debezium.time.ZonedTime": "00:00:00Z",
}


def is_from_postgresql(envelope: WireType) -> bool:
    """Whether an envelope's changes come from PostgreSQL, the one database whose log can leave the key out."""
    source = envelope.get("source")
    return source is not None and source.get("lsn") is not None


def filled_key(
    record: WireType, target: TableSchema, reader: Reader, known: Mapping[str, Column] | None = None
) -> Column | None:
    """The key (m.KEY) of which every part, a field of the record, is a filler; None where there can be no such key.

    Args:
        record: the type of keys.
        target: the mirror's columns.
        reader: how its fields are read.
        known: the parts of the key that are no field of the record.
    """
    parts: list[Column] = []
    for name in target.key:
        if known is not None and name in known:
            parts.append(known[name].alias(name))
            continue
        told = told_names(record, target.column(name))
        kind = record.get(told[0]) if told else None
        filler = _filler(kind, reader) if kind is not None else None
        if kind is None or filler is None:
            return None
        parts.append(fit(filler, reader.read(kind).ddl, target.types[name])[0].alias(name))
    return m.key_json(F.struct(*parts), target) if parts else None


def names_other_columns(before: Column, row: WireType, key: Sequence[str], reader: Reader) -> Column:
    """Whether ``before`` tells of a row nothing but NOT NULL columns beside the key: those of an index."""
    whole, told = F.lit(False), F.lit(False)
    for name, sent in row.fields:
        if sent.optional:
            whole = whole | before[name].isNotNull()
            continue
        # A filler is of the source's type.
        kind = replace(sent, contract=None)
        filler = _filler(kind, reader) if name not in key else None
        if filler is not None:
            told = told | ~reader.read(kind).apply(before[name]).eqNullSafe(filler)
    return F.coalesce(before.isNotNull() & told & ~whole, F.lit(False))


def _filler(kind: WireType, reader: Reader) -> Column | None:
    """What the connector writes in place of a NOT NULL value it was not told; None for types that we do not know."""
    reading = reader.read(kind)
    is_number = reading.ddl.startswith("decimal") or kind.name == VARIABLE_SCALE
    if is_number or reading.ddl == "binary":
        # A default of the source's stands in the schema in one of several forms.
        zero = F.lit("0").cast(reading.ddl) if is_number else F.lit(b"")
        return zero if kind.default is None else None
    plain = kind.default if kind.default is not None else _FILLER_TEXTS.get(kind.name, _FILLERS.get(kind.literal))
    if not isinstance(plain, (bool, int, float, str)):
        return None
    return reading.apply(F.lit(plain).cast(reading.wire))
