"""Which columns of a mirror are held against its database, and in which form both sides have the same value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.masking import masked
from cdc_materializer.decode.fit import plain_number
from cdc_materializer.dialects import BUCKETS, SEPARATOR, Dialect, Form, Reading, SourceColumn, Wanted
from cdc_materializer.errors import ConfigError
from cdc_materializer.masks import Mask, Masks
from cdc_materializer.names import same_name
from cdc_materializer.schema.schema import Column as TableColumn
from cdc_materializer.schema.schema import TableSchema

#: How the connector writes numbers that no decimal holds; in its default mode they are NULL.
_NO_NUMBERS = ("NAN", "POSITIVE_INFINITY", "NEGATIVE_INFINITY")


@dataclass(frozen=True)
class Compared:
    """A column that is compared.

    Attributes:
        name: as the mirror spells it.
        source: as the database does.
        ddl: its type in the mirror.
        reading: how the database's column is read.
        mask: how the mirror hides it; None where it does not.
    """

    name: str
    source: str
    ddl: str
    reading: Reading
    mask: Mask | None = None

    @property
    def type(self) -> str:
        """The type in which both sides are compared."""
        if self.mask is not None or self.reading.form is Form.NUMBER:
            return "string"
        return "float" if self.reading.form is Form.SINGLE else self.ddl

    def theirs(self, text: Column, key: bytes | None) -> Column:
        """The database's value from its text, masked as the mirror's is."""
        if self.mask is not None:
            return masked(text, "string", self.mask, key)
        if self.reading.form is Form.NUMBER:
            text = plain_number(text)
        if self.reading.form is Form.BYTES:
            return F.unhex(text)
        return text.try_cast(self.type)

    def ours(self, value: Column) -> Column:
        """The mirror's value in the form that is compared."""
        if self.reading.form is Form.NUMBER:
            text = value.cast("string")
            return F.when(~text.isin(*_NO_NUMBERS), plain_number(text))
        return value.cast(self.type)


@dataclass(frozen=True)
class ComparedTable:
    """What is compared of a table.

    Attributes:
        columns: in the mirror's order, those of the key among them.
        key: the names of the key's columns, as the mirror spells them.
        left_out: why other columns of either side are not compared.
        mask_key: the secret of hashes.
    """

    columns: tuple[Compared, ...]
    key: tuple[str, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    mask_key: bytes | None = field(default=None, repr=False)

    @property
    def schema(self) -> TableSchema:
        """The columns in the types in which they are compared."""
        return TableSchema(tuple(TableColumn(one.name, one.type) for one in self.columns), self.key)

    def wanted(self, table: tuple[str, str], dialect: Dialect) -> Wanted:
        """What the database is asked for."""
        told = {one.name: one for one in self.columns}
        texts = {f"c{at}": one.reading.of(dialect.quoted(one.source)) for at, one in enumerate(self.columns)}
        key = tuple(told[name].reading.of(dialect.quoted(told[name].source)) for name in self.key)
        first = told[self.key[0]]
        cut = dialect.quoted(first.source) if first.ddl in {"int", "bigint"} else None
        return Wanted(table, texts, key, cut)

    @property
    def has_buckets(self) -> bool:
        """Whether the database can tell the bucket of a row: its key's text is the same there and here."""
        plain = {"int", "bigint", "string"}
        return all(one.ddl in plain and one.reading.form is Form.VALUE for one in self.columns if one.name in self.key)

    def theirs(self, rows: DataFrame) -> DataFrame:
        """The database's rows, from what `wanted` gives."""
        values = [one.theirs(F.col(f"c{at}"), self.mask_key).alias(one.name) for at, one in enumerate(self.columns)]
        return rows.select(*values)

    def ours(self, rows: DataFrame, *more: Column) -> DataFrame:
        """The mirror's rows, with more columns behind them."""
        return rows.select(*[one.ours(m.column(one.name)).alias(one.name) for one in self.columns], *more)

    def bucket(self) -> Column:
        """The bucket of a row of either side."""
        text = F.concat_ws(chr(SEPARATOR), *[m.column(name).cast("string") for name in self.key])
        digits = F.substring(F.md5(F.encode(text, "UTF-8")), 1, 2)
        return F.pmod(F.conv(digits, 16, 10).cast("int"), F.lit(BUCKETS))

    def key_text(self) -> Column:
        """The key as JSON text, as quarantine and reports have it."""
        return m.row_key(self.schema)


def choose(
    target: TableSchema, source: Sequence[SourceColumn], dialect: Dialect, masks: Masks, *, clamp: bool = False
) -> ComparedTable:
    """Choose what is compared.

    Args:
        target: the mirror's columns, with those that stand beside others marked.
        source: the database's.
        dialect: the database's SQL.
        masks: what the contract hides.
        clamp: see `Dialect.reading`.

    Raises:
        ConfigError: a column of the key is none of the database, or cannot be compared.
    """
    split = {column.beside for column in target.columns if column.beside is not None}
    chosen: list[Compared] = []
    left_out: dict[str, str] = {}
    met: set[str] = set()
    for column in target.columns:
        there = _counterpart(column, source)
        met |= {there.name} if there is not None else set()
        why = _reason(column, there, masks, split)
        if why is None and there is not None:
            found = _compared(
                column, there, dialect, masks.of(column.name), clamp=clamp, is_key=column.name in target.key
            )
            if isinstance(found, Compared):
                chosen.append(found)
                continue
            why = found
        left_out[column.name] = why or ""
    left_out |= {one.name: "not in the mirror" for one in source if one.name not in met}
    lost = [name for name in target.key if name in left_out]
    if lost or not target.key:
        what = (
            f"The key cannot be held against the database: {', '.join(f'{name} ({left_out[name]})' for name in lost)}."
        )
        raise ConfigError(what, "Check `source_table`, and that the mirror's key is the table's.")
    return ComparedTable(tuple(chosen), target.key, left_out, masks.key)


def _counterpart(column: TableColumn, source: Sequence[SourceColumn]) -> SourceColumn | None:
    """The database's column of the same name, or of the one that the connector made of it (`avro` adjustment)."""
    names = column.wire_names
    exact = next((one for name in names for one in source if one.name == name), None)
    if exact is not None:
        return exact
    adjusted = [
        one for one in source if any(same_name(name, one.name) or _adjusted(one.name) == name for name in names)
    ]
    return adjusted[0] if len(adjusted) == 1 else None


def _adjusted(name: str) -> str:
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"_{text}" if text[:1].isdigit() else text


def _reason(column: TableColumn, there: SourceColumn | None, masks: Masks, split: set[str]) -> str | None:
    if there is None:
        return "not in the database"
    if column.beside is not None or column.name in split:
        return "its values are in several columns"
    mask = masks.of(column.name)
    return f"masked ({mask})" if mask is not None and mask.hides_all else None


def _compared(
    column: TableColumn, there: SourceColumn, dialect: Dialect, mask: Mask | None, *, clamp: bool, is_key: bool
) -> Compared | str:
    if mask is None:
        reading = dialect.reading(there.kind, column.type, clamp=clamp)
        if isinstance(reading, str):
            return reading
        if is_key and reading.form is Form.NUMBER:
            reading = Reading(reading.expression)
        return Compared(column.name, there.name, column.type, reading)
    # The mirror has the mask of the text that the connector sent, which is the same in all of its modes for few types.
    plain = dialect.plain_text(there.kind)
    return Compared(column.name, there.name, column.type, plain, mask) if plain is not None else f"masked ({mask})"
