"""Kafka keys that are one bare value and no record: `17`, or `abc`.

So write serializers of texts, converters behind `ExtractField$Key`, and most services. They do not name the
column that they are, so they are nothing without `key:`. Where that names one column, and a message without a value is
a delete, the key is that column's value; a message whose value has another one is held, as with keys that are records.

Those that have a schema are read by it (`decode.writers`). Of others, what may be two values is read as none: a text in
quotes is JSON's or has quotes. Numbers in binary are no texts, but for those few of which each byte is a digit: nothing
tells them from one (docs/formats.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.decode.framing import UNKNOWN
from cdc_materializer.schema.types import decimal_of

if TYPE_CHECKING:
    from cdc_materializer.changes.options import Options
    from cdc_materializer.schema.schema import TableSchema

#: The key's text, of messages whose keys begin like nothing that is known.
BARE = "bare_key"
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_DIGITS = '^("?)(-?\\d+)\\1$'
#: No control characters, and nothing that begins as a text or a list in JSON does.
_WORD = '^(?!null$)[^\\x{0}-\\x{20}"\\[][^\\x{0}-\\x{1f}]*$'


def bare_column(options: Options) -> str | None:
    """The column that a key which is one value is; None where no key is read so."""
    return options.key[0] if len(options.key) == 1 and options.format.tombstones_delete else None


def bare_text(options: Options) -> Column:
    """The text of a bare key (BARE); NULL for other keys, and where they may be no column's value."""
    if bare_column(options) is None:
        return F.lit(None).cast("string").alias(BARE)
    text = F.col("key").cast("string")
    return F.when((F.col("key_writer") == UNKNOWN) & F.is_valid_utf8(text), text).alias(BARE)


def bare_key(target: TableSchema, options: Options) -> Column | None:
    """The key column as a bare key has it, a struct of it, NULL for none; None where no key is read so."""
    name = bare_column(options)
    if name is None or target.key != options.key:
        return None
    ddl, text = target.types[name], F.col(BARE)
    decimal = decimal_of(ddl)
    if ddl == "string":
        value = F.when(text.rlike(_WORD), text)
    elif ddl in _INTEGERS or (decimal is not None and decimal[1] == 0):
        value = F.nullif(F.regexp_extract(text, _DIGITS, 2), F.lit("")).try_cast(ddl)
    else:
        return None
    return F.when(value.isNotNull(), F.struct(value.alias(name)))
