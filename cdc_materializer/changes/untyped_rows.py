"""What formats have in common whose JSON says nothing of types: a contract does.

A value of such a format is whatever JSON object its own file asks for. The rows in it have the columns that the
contract declares, each a variant until it is read in its type (`decode.untyped`), and are known by themselves: by the
columns of `key:`, or else by the contract's primary key. What the contract does not declare is not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cdc_materializer.changes.formats import Format, Part
from cdc_materializer.decode.wire import ABSENT, BASE64, BYTES, UNTYPED, WireType
from cdc_materializer.names import quote

if TYPE_CHECKING:
    from pyspark.sql import Column

    from cdc_materializer.changes.options import Options
    from cdc_materializer.decode.writers import Writer


class UntypedRows(Format):
    """A format whose types a contract declares.

    Attributes:
        fields: the fields of a value, as Spark's DDL, in which `{row}` stands for the columns of a row.
        bytes: how binary values are spelled (`decode.untyped`), where the contract does not say it.
        keeps_absent: whether a column that a message leaves out keeps its value, and is not NULL.
    """

    rows_name_themselves = True
    needs_contract = True
    makes_rows = True
    fields: str
    bytes = BASE64
    keeps_absent = True

    def row(self, wire: WireType) -> WireType | None:
        """The value's type itself, made by `value_type`; messages with schemas of their own are none of the format."""
        return wire if wire.fields and all(kind.literal == UNTYPED for _, kind in wire.fields) else None

    def value_type(self, row: WireType) -> WireType:
        """The columns that the contract declares, each to be read as it comes."""
        fields = tuple((name, self._kind(kind)) for name, kind in row.fields)
        return WireType("record", optional=True, fields=fields)

    def ddl(self, writer: Writer, row_ddl: str, options: Options) -> str:
        """The fields of the format, with the columns of its rows in their places."""
        del writer, options
        return self.fields.replace("{row}", row_ddl)

    def _kind(self, declared: WireType) -> WireType:
        known: dict[str, str] = {BYTES: self.bytes, **declared.parameters}
        known |= {ABSENT: "kept"} if self.keeps_absent else {}
        return WireType(UNTYPED, optional=True, parameters=known)


def as_row(part: Part, variant: Column) -> Column:
    """A variant as a row; NULL where it is no object."""
    from pyspark.sql import functions as F

    columns = ",".join(f"{quote(name)}:variant" for name, _ in part.row.fields)
    return F.try_variant_get(variant, "$", f"struct<{columns}>")


def is_no_row(variant: Column, row: Column) -> Column:
    """Whether something stands where a row should, and is none; `row` is what `as_row` made of it."""
    from pyspark.sql import functions as F

    return variant.isNotNull() & ~F.is_variant_null(variant) & row.isNull()


def before_of(part: Part, old: Column, row: Column) -> Column:
    """The key columns as they were: those that `old` tells, and of the others what the row has.

    Args:
        part: what is read.
        old: a struct of the row's columns, which may tell only those that changed; or NULL.
        row: the row behind the change.
    """
    from pyspark.sql import functions as F

    names = key_names(part)
    return F.struct(*[F.coalesce(old[name], row[name]).alias(name) for name in names])


def names_of(part: Part, column: str) -> list[str]:
    """The names under which messages may have a column, whichever of them it is given by: also those before renames."""
    renames: Mapping[str, str] = part.options.evolution.renames
    own = renames.get(column, column)
    return [name for name, _ in part.row.fields if renames.get(name, name) == own]


def key_names(part: Part) -> list[str]:
    """The names of the key's columns in messages, also those that they had before they were renamed."""
    renames: Mapping[str, str] = part.options.evolution.renames
    key = set(part.options.key)
    return [name for name, _ in part.row.fields if name in key or renames.get(name) in key]


def in_words(told: Column, words: Mapping[str, str], nothing: tuple[str, ...] = ()) -> Column:
    """An operation by a format's own word for it; other words are told as they are, and so not understood.

    Args:
        told: the word.
        words: what each is.
        nothing: patterns of words that say nothing about rows.
    """
    from pyspark.sql import functions as F

    # A word that is one of ours means something else in the format, if anything.
    found = F.concat(F.lit("?"), told)
    for pattern in nothing:
        found = F.when(told.rlike(pattern), "m").otherwise(found)
    for word, op in words.items():
        found = F.when(told == word, op).otherwise(found)
    return found


def micros_of(text: Column) -> Column:
    """A moment in words as microseconds since 1970; one without a zone is UTC's."""
    from pyspark.sql import functions as F

    from cdc_materializer.decode.untyped import moment_text

    return F.unix_micros(moment_text(text).try_cast("timestamp"))
