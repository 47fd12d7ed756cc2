"""Deletes that do not say which row they end: PostgreSQL's REPLICA IDENTITY USING INDEX (changelog-semantics §0.1).

With another index than the primary key's, the database logs of a deleted row no more than the index's columns. What is
missing of the key can't be NULL, so the connector fills it with defaults: the key is 0, whatever the row's was, and
only ``before`` still tells, by columns that are not the key's. Which row that is nobody can know from a key; and a row
whose key really is 0 must not go in its place.

An index that can be a replica identity has none but NOT NULL columns. So a ``before`` in which a column that may be
NULL has a value is a whole row, as REPLICA IDENTITY FULL gives it, and its key is meant as it stands.

JSON without a schema does not say which columns may be NULL. There a ``before`` that has a value in each of them is a
whole row.

A text of zero is what the connector writes for a number that it sends as text, and may be what the index has: there it
tells nothing, and the row that has the key goes.

An index that has a part of the key tells that part. Of such deletes none is held: with REPLICA IDENTITY FULL a row in
which one part of the key is 0, and nothing that may be NULL has a value, looks the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.image import told_names
from cdc_materializer.decode.columns import VARIABLE_SCALE
from cdc_materializer.decode.fit import fit
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from cdc_materializer.schema.schema import TableSchema

#: A number that is sent as text (`decimal.handling.mode=string`) is zero, with as many digits behind the point as its
#: column has, as Java's BigDecimal writes it. Of a key of several parts the first two are known of each: all of them
#: would be 8,000 keys of three parts.
_ZEROS = ("", "0", *(f"0.{'0' * scale}" for scale in range(1, 7)), *(f"0E-{scale}" for scale in range(7, 19)))
_ZERO = r"^(0(\.0+)?|0E-\d+)?$"
#: What stands for a NOT NULL value that the database did not tell, by the wire's literal type.
_FILLERS: dict[str, tuple[object, ...]] = {
    "boolean": (False,),
    **dict.fromkeys(("int", "long", "float", "double"), (0,)),
    "string": _ZEROS,
}
#: Likewise for texts that mean something else; hstore may be sent as JSON. For all others it is an empty one.
_FILLER_TEXTS: dict[str, tuple[object, ...]] = {
    "io.debezium.time.ZonedTimestamp": ("1970-01-01T00:00:00Z",),
    "io.debezium.time.ZonedTime": ("00:00:00Z",),
    "io.debezium.time.IsoDate": ("1970-01-01Z",),
    "io.debezium.time.IsoTime": ("00:00:00Z",),
    "io.debezium.time.IsoTimestamp": ("1970-01-01T00:00:00Z",),
    "io.debezium.time.Interval": ("P0Y0M0DT0H0M0S",),
    "io.debezium.data.Json": ("", "{}"),
}
#: And as columns of rows in JSON without a schema have it, by their types.
_DECLARED_FILLERS = {
    "boolean": ("false",),
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double"), ("0",)),
    "string": _ZEROS,
    "binary": ("",),
    "date": ("1970-01-01",),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), ("1970-01-01T00:00:00Z",)),
}


def is_from_postgresql(envelope: WireType) -> bool:
    """Whether an envelope's changes come from PostgreSQL, the one database whose log can leave the key out."""
    source = envelope.get("source")
    return source is not None and source.get("lsn") is not None


def filled_keys(
    record: WireType, target: TableSchema, reader: Reader, known: Mapping[str, Column] | None = None
) -> list[Column]:
    """The keys (m.KEY) of which every part, a field of the record, is a filler; none where there can be no such key.

    Args:
        record: the type of keys.
        target: the mirror's columns.
        reader: how its fields are read.
        known: the parts of the key that are no field of the record.
    """
    parts: list[list[Column]] = []
    is_alone = len([name for name in target.key if name not in (known or {})]) == 1
    for name in target.key:
        if known is not None and name in known:
            parts.append([known[name].alias(name)])
            continue
        told = told_names(record, target.column(name))
        kind = record.get(told[0]) if told else None
        if kind is None:
            return []
        ddl = reader.read(kind).ddl
        fillers = _fillers(kind, reader)[: None if is_alone else 2]
        parts.append([fit(filler, ddl, target.types[name])[0].alias(name) for filler in fillers])
    return [m.key_json(F.struct(*key), target) for key in product(*parts)] if parts else []


def names_other_columns(
    before: Column, row: WireType, key: Sequence[str], reader: Reader, *, knows_nulls: bool
) -> Column:
    """Whether ``before`` tells of a row nothing but NOT NULL columns beside the key: those of an index.

    Args:
        before: the image.
        row: its type.
        key: its columns that are the key's.
        reader: how its fields are read.
        knows_nulls: whether the type says which columns may be NULL.
    """
    whole, told, unknown = F.lit(False), F.lit(False), list[Column]()
    for name, sent in row.fields:
        if sent.optional and knows_nulls:
            whole = whole | before[name].isNotNull()
            continue
        if name in key:
            continue
        # A filler is of the source's type.
        kind = replace(sent, contract=None)
        # Read first: what is NULL in JSON without a schema may be a value that says so.
        reading = reader.read(kind)
        value = reading.apply(before[name])
        fillers = [value.eqNullSafe(filler) for filler in _fillers(kind, reader)]
        if reading.ddl == "string" and kind.default is None and not kind.name:
            fillers.append(value.rlike(_ZERO))
        if not knows_nulls:
            unknown.append(value.isNotNull())
        if fillers:
            told = told | (value.isNotNull() & ~reduce(or_, fillers))
    if unknown:
        whole = whole | reduce(and_, unknown)
    return F.coalesce(before.isNotNull() & told & ~whole, F.lit(False))


def _fillers(kind: WireType, reader: Reader) -> list[Column]:
    """What the connector may write in place of a NOT NULL value it was not told; none for types that we do not know."""
    reading = reader.read(kind)
    if kind.literal == "declared":
        texts = ("0",) if reading.ddl.startswith("decimal") else _DECLARED_FILLERS.get(reading.ddl, ())
        return [F.lit(text).cast(reading.ddl) for text in texts]
    is_number = reading.ddl.startswith("decimal") or kind.name == VARIABLE_SCALE
    if is_number or reading.ddl == "binary":
        # A default of the source's stands in the schema in one of several forms.
        zero = F.lit("0").cast(reading.ddl) if is_number else F.lit(b"")
        return [zero] if kind.default is None else []
    fillers = _FILLERS.get(kind.literal, ())
    if kind.literal == "string" and kind.name:
        fillers = _FILLER_TEXTS.get(kind.name, ("",))
    plain = (kind.default,) if kind.default is not None else fillers
    if not all(isinstance(one, (bool, int, float, str)) for one in plain):
        return []
    return [reading.apply(F.lit(one).cast(reading.wire)) for one in plain]
