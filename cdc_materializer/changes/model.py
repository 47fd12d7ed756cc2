"""The columns of a change, the form in which every changelog format reaches the fold.

A frame of changes has the mirror's columns at top level under their own names, and what is ours in columns that begin
`__cdc_`, a prefix that no source column may have. One row a change; a message is one change, but for key changes of
configured keys.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.names import quote
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.schema.types import decimal_of

TOPIC = "__cdc_topic"
PARTITION = "__cdc_partition"
OFFSET = "__cdc_offset"
TIME = "__cdc_time"
#: Which of a message's changes this is, from 0: most messages are one, some speak of several rows (`changes.identity`).
PART = "__cdc_part"
#: One of c, r, u, d (changes), tombstone, t (truncate), or NULL where the message changes no row.
OP = "__cdc_op"
#: The key as JSON text, canonical after decoding; NULL where there is none or it could not be read.
KEY = "__cdc_key"
#: Sortable text, NULL where the source gives none that can be compared.
POSITION = "__cdc_position"
#: Which life of the source a position belongs to: positions of two epochs cannot be compared (changelog-semantics §0
#: rule 15). A position of a later epoch has it as a prefix, so that it sorts behind those of earlier ones.
EPOCH = "__cdc_epoch"
FIRST_EPOCH = 0
#: The log that the position is one of, where a source can go on with another one (see `positions.log`), and the number
#: of the transaction in it; both NULL where the source has but one, the number where none is known.
LOG = "__cdc_log"
LOG_NUMBER = "__cdc_log_number"
#: Whether the change comes from the source's log, not from a snapshot: only then its position can be held against
#: others.
STREAMING = "__cdc_streaming"
#: What a record of a snapshot that reads whole tables says of its place in it (`first`, `true`, `last`, ...); NULL for
#: all others, and where nobody asks (`Options.snapshots`).
SNAPSHOT = "__cdc_snapshot"
SOURCE_TIME = "__cdc_source_ts"
#: The source table as its `source` block names it; NULL where the message has none. A routed topic carries several.
SOURCE_TABLE = "__cdc_source_table"
#: Names of the columns that the writer's schema does not have: the row keeps its values (changelog-semantics §0 rule
#: 12).
ABSENT = "__cdc_absent"
#: Names of the columns whose value the connector did not know (§1.7).
UNAVAILABLE = "__cdc_unavailable"
#: Columns whose value the table cannot hold exactly, with the code: array<struct<column,code>>.
PROBLEMS = "__cdc_problems"
#: The code of a message that cannot be understood as a whole.
CODE = "__cdc_code"
#: What the message is, where it is recognised and not read (`decode.refusals`).
REASON = "__cdc_reason"
#: Whether the message is a delete that does not say which row it ends (see `changes.fillers`); its tombstone, which
#: repeats its key, says it no more than it does.
NAMELESS = "__cdc_nameless"
#: Hash of operation and image: equal for the same event sent twice.
SIGNATURE = "__cdc_signature"
#: Of a change of the log which tells no position, and is all the same known when it comes again: when it was made, as
#: text that sorts. SIGNATURE then has what tells it from all others of its key in it (`signatures`). NOT_LOGGED for
#: rows of a snapshot of such a source; NULL for all others.
STAMP = "__cdc_stamp"
#: Sorts ahead of all stamps.
NOT_LOGGED = "-"
#: How the source names the row that a change is of, and its record in the log, where changes of several rows may share
#: a position (`source_rows`): the two halves of a key change have the same. NULL for all others.
SOURCE_ROW = "__cdc_source_row"
#: The source's transaction, where the envelope tells and the table keeps it (§1.4); else NULL.
TRANSACTION = "__cdc_transaction"
TRANSACTION_FIELDS = {"id": "string", "total_order": "bigint", "data_collection_order": "bigint"}
TRANSACTION_TYPE = f"struct<{','.join(f'{name}:{ddl}' for name, ddl in TRANSACTION_FIELDS.items())}>"
#: What a change was ordered by among those of its row (`key_order.place`), as the history keeps it.
PLACE_TYPE = "struct<sort:string,time:timestamp,part:int,reach:string>"
#: How the row's document is made of the one before, as text, where the change shows none (`documents`); else NULL.
PATCH = "__cdc_patch"

#: How the message's key is written, where that is the one way to write it and Kafka's own partitioner puts it into the
#: message's partition (`changes.home`); empty where not, or where nobody asks.
HOME = "__cdc_home"

META = (
    TOPIC, PARTITION, OFFSET, PART, TIME, OP, KEY, POSITION, EPOCH, LOG, LOG_NUMBER, STREAMING, SNAPSHOT,
    SOURCE_TIME, SOURCE_TABLE, ABSENT, UNAVAILABLE, PROBLEMS, CODE, REASON, NAMELESS, SIGNATURE, STAMP,
    SOURCE_ROW, TRANSACTION, PATCH, HOME,
)  # fmt: skip

CHANGE_OPS = ("c", "r", "u", "d")
TRUNCATE = "t"
TOMBSTONE = "tombstone"
#: The operation of a message that says nothing about rows.
NOTHING = "m"
#: What a truncate does to one key: a delete that comes in no message of its own (`life.with_endings`).
WIPE = "wipe"
#: What a complete snapshot does to a key that it does not show: another such delete.
SWEEP = "sweep"


def column(name: str) -> Column:
    """A top-level column by its exact name, whatever characters it has."""
    return F.col(quote(name))


def listed(parts: Sequence[Column], ddl: str) -> Column:
    """Those of some values that are not NULL, as an array.

    Nearly always there are none, and to find that out is compiled code. `array_compact` is not, nor is then what it
    goes through: with 12 columns that was a tenth of what decoding cost.

    Args:
        parts: the values, each NULL or of the array's element type.
        ddl: the array's type.
    """
    empty = F.array().cast(ddl)
    if not parts:
        return empty
    return F.when(F.coalesce(*parts).isNotNull(), F.array_compact(F.array(*parts))).otherwise(empty)


#: How values are told apart as JSON: by default Spark rounds times to milliseconds.
EXACT_TIMES = {f"{kind}Format": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS" for kind in ("timestamp", "timestampNTZ")}


def key_json(key: Column, schema: TableSchema) -> Column:
    """The key as JSON text: the identity of a row wherever rows are compared, shuffled or reported by key.

    Timestamps and decimals go in as text, because JSON would round the first to milliseconds and print the second as it
    likes.
    """
    found = {name: _as_text(key[name], schema.types[name]) for name in schema.key if _PLAIN_NAME.fullmatch(name)}
    texts = {name: text for name, text in found.items() if text is not None}
    if texts.keys() == set(schema.key):
        # Of such a key the text is put together: Spark's writer of JSON takes several times as long.
        fields = [F.concat(F.lit(f'"{name}":'), F.coalesce(text, F.lit("null"))) for name, text in texts.items()]
        return F.concat(F.lit("{"), F.concat_ws(",", *fields), F.lit("}"))
    plain = {name for name in schema.key if schema.types[name] in {*_BARE, "string"}}
    values = {name: key[name] if name in plain else _unquoted(key[name], schema.types[name]) for name in schema.key}
    return F.to_json(F.struct(*[value.alias(name) for name, value in values.items()]), {"ignoreNullFields": "false"})


def row_key(schema: TableSchema) -> Column:
    """The key of a row that stands in the table's columns."""
    return key_json(F.struct(*[column(name).alias(name) for name in schema.key]), schema)


#: Names and types of which JSON escapes nothing; those of _BARE stand without quotes in it.
_PLAIN_NAME = re.compile("[A-Za-z0-9_]+")
_BARE = frozenset({"int", "bigint", "boolean"})
_UNESCAPED = frozenset({"tinyint", "smallint", "date", "timestamp", "timestamp_ntz", "binary"})


def _unquoted(value: Column, ddl: str) -> Column:
    return F.hex(value) if ddl == "binary" else value.cast("string")


def _as_text(value: Column, ddl: str) -> Column | None:
    """A value of a key as it stands in JSON, NULL for NULL; None for a type whose texts may have to be escaped."""
    if ddl in _BARE:
        return value.cast("string")
    if ddl in _UNESCAPED or decimal_of(ddl) is not None:
        return F.concat(F.lit('"'), _unquoted(value, ddl), F.lit('"'))
    return None
