"""Debezium's envelope to changes (changelog-semantics §1).

Built as projections, one on the other. Each decoder appears once, in the first, because Spark would otherwise run it
again for each field that is read from its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.changes.codes import code_of, reason_of
from cdc_materializer.changes.envelope import is_other, row_of
from cdc_materializer.changes.fillers import filled_key, is_from_postgresql, names_other_columns
from cdc_materializer.changes.identity import identified
from cdc_materializer.changes.image import PROBLEMS_TYPE, Image, image, image_type, names_by_message, typed
from cdc_materializer.changes.positions import RANK_FIELDS, SOURCE_FIELDS, log, position, snapshot_place, source_table
from cdc_materializer.changes.shards import Shard
from cdc_materializer.changes.transactions import ranks, transaction, transaction_ddl
from cdc_materializer.decode.merging import ENVELOPE_DEPTH, KEY_DEPTH, merged
from cdc_materializer.decode.reading import Special
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer
from cdc_materializer.errors import Code
from cdc_materializer.masks import Masks
from cdc_materializer.names import quote
from cdc_materializer.schema import Column as TableColumn
from cdc_materializer.schema import Evolution, TableSchema


@dataclass(frozen=True)
class Writers:
    """The decoders of a batch.

    Attributes:
        values: those of values.
        keys: those of keys.
        unknown: the selectors of schemas that the registry does not know.
        refused: the selectors of messages that are recognised and not read, each with what they are.
    """

    values: tuple[Writer, ...]
    keys: tuple[Writer, ...]
    unknown: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def envelopes(self) -> tuple[Writer, ...]:
        """The value writers whose messages are changes of rows."""
        return tuple(writer for writer in self.values if row_type(writer) is not None)

    def merged(self, options: Options) -> Writers:
        """The same, many writers of changes and keys merged: not where it matters which columns may be NULL."""
        values = self.envelopes if options.doubtful_keys else options.merged(self.envelopes, ENVELOPE_DEPTH)
        return replace(self, values=values, keys=options.merged(self.keys, KEY_DEPTH))

    @property
    def others(self) -> tuple[str, ...]:
        """The selectors of messages that are known and change no row: heartbeats, transaction marks and the like."""
        return tuple(writer.selector for writer in self.values if is_other(writer.wire))


@dataclass(frozen=True)
class Options:
    """How an envelope is read: by the table's settings, and by what the batch turned out to need.

    Attributes:
        special_values: the table's setting.
        placeholder: its `unavailable_value`.
        key: its `key`.
        doubtful_keys: whether deletes are held against their `before`, because a key among them may be made of fillers.
        transactions: whether the table keeps the source's transactions.
        snapshots: whether records of snapshots are followed: the table sweeps.
        shard: how rows of several servers are told apart, where the mirror has them.
        masks: what the contract hides.
        evolution: how its columns change.
    """

    special_values: Special = "null"
    placeholder: str = "__debezium_unavailable_value"
    key: tuple[str, ...] = ()
    doubtful_keys: bool = False
    transactions: bool = False
    snapshots: bool = False
    shard: Shard | None = None
    masks: Masks = field(default_factory=Masks)
    evolution: Evolution = field(default_factory=Evolution)

    def reader(self, writer: Writer) -> Reader:
        """The type readings for a writer's encoding."""
        return Reader(writer.form, self.special_values, self.placeholder)

    def merged(self, writers: Sequence[Writer], depth: int) -> tuple[Writer, ...]:
        """Writers put together that can be read as one; not those that have a renamed column under different names."""
        groups: dict[frozenset[str], list[Writer]] = {}
        for writer in writers:
            row = row_type(writer) or writer.wire
            names = frozenset(name for name, _ in row.fields if name in self.evolution.renames)
            groups.setdefault(names, []).append(writer)
        return tuple(one for group in groups.values() for one in merged(group, depth))


def row_type(writer: Writer) -> WireType | None:
    """The type of a row in the writer's envelope, None where the schema is no envelope."""
    return row_of(writer.wire)


def check_readable(writer: Writer, options: Options) -> None:
    """Raise WireSchemaInvalid for a writer, of keys or of values, with a column that has no table form."""
    is_envelope = writer.wire.get("op") is not None
    columns = row_type(writer) if is_envelope else writer.wire
    if columns is not None and not is_other(writer.wire):
        _columns(columns, writer, options)


def table_schema(writer: Writer, options: Options) -> TableSchema:
    """The table that an envelope's writer describes, columns in source order; its key only where one is configured."""
    row = row_type(writer)
    return TableSchema(_columns(row, writer, options) if row is not None else (), options.key)


def key_schema(writer: Writer, options: Options) -> TableSchema:
    """What a writer of keys adds to the table: its fields, all of them key; nothing where the key is configured."""
    columns = () if options.key else _columns(writer.wire, writer, options)
    return TableSchema(columns, tuple(column.name for column in columns))


def doubtful_keys(writers: Writers, target: TableSchema, options: Options) -> list[Column]:
    """The keys (m.KEY) that PostgreSQL's connector gives to a delete whose row it was not told (`changes.fillers`)."""
    envelopes = [writer for writer in writers.envelopes if is_from_postgresql(writer.wire)]
    # A batch of nothing but tombstones does not say what they come from.
    if writers.envelopes and not envelopes:
        return []
    keyed = [(row_type(writer), writer) for writer in envelopes] if options.key else [(k.wire, k) for k in writers.keys]
    known = options.shard.key_parts() if options.shard is not None else {}
    found = [filled_key(wire, target, options.reader(writer), known) for wire, writer in keyed if wire is not None]
    return [key for key in found if key is not None]


def _columns(record: WireType, writer: Writer, options: Options) -> tuple[TableColumn, ...]:
    reader = options.reader(writer)
    columns = tuple(TableColumn(name, reader.read(kind).ddl, kind.doc) for name, kind in record.fields)
    # A writer that stands for messages without a schema has a renamed column under all of its names.
    renames = options.evolution.renames if writer.is_plain else {}
    return options.evolution.of_writer([column for column in columns if column.name not in renames])


def to_changes(messages: DataFrame, writers: Writers, mirror: TableSchema, options: Options) -> DataFrame:
    """The changes of messages, in the columns of `changes.model`: one a message, two where it changes a configured key.

    Args:
        messages: topic, partition, offset, timestamp, key, value (binary), and the selectors key_writer, value_writer.
        writers: the decoders of all selectors that occur.
        mirror: the columns that the result has; each writer's value is fitted into them exactly or marked as a problem.
        options: how an envelope is read.
    """
    read, shard = writers.merged(options), options.shard
    target = shard.without(mirror) if shard is not None else mirror
    datums = messages.select(*_coordinates(), "value_writer", "key_writer", *_datums(read, options))
    kept = (m.TOPIC, m.PARTITION, m.OFFSET, m.TIME, "value_writer", "key_writer")
    images = datums.select(*kept, *_images(read, target, options))
    changes = identified(images, options.key).select(*_change(writers, target, options))
    return shard.told(changes, mirror) if shard is not None else changes


# --- first projection: run each decoder on the messages that chose it
# ---------------------------------------------------


def _coordinates() -> list[Column]:
    names = {"topic": m.TOPIC, "partition": m.PARTITION, "offset": m.OFFSET, "timestamp": m.TIME}
    return [F.col(plain).alias(ours) for plain, ours in names.items()]


def _datums(writers: Writers, options: Options) -> list[Column]:
    values = [
        writer.datum(F.col("value"), F.col("value_writer"), _envelope_ddl(writer, options))
        for writer in writers.envelopes
    ]
    keys = [
        writer.datum(F.col("key"), F.col("key_writer"), _fields_ddl(writer.wire, writer, options))
        for writer in writers.keys
    ]
    names = [
        column.alias(f"names{at}")
        for at, writer in enumerate(writers.envelopes)
        if (column := names_by_message(writer)) is not None
    ]
    return [
        *[datum.alias(f"value{at}") for at, datum in enumerate(values)],
        *[datum.alias(f"key{at}") for at, datum in enumerate(keys)],
        *names,
    ]


def _envelope_ddl(writer: Writer, options: Options) -> str:
    row = row_type(writer)
    source = writer.wire.get("source")
    parts = ["op string"]
    if row is not None:
        parts += [f"{side} struct<{_fields_ddl(row, writer, options)}>" for side in _sides(writer, options)]
    if source is not None:
        known = [
            f"{name} {_source_ddl(source.get(name), ddl)}" for name, ddl in SOURCE_FIELDS.items() if source.get(name)
        ]
        parts += [f"source struct<{', '.join(known)}>"] if known else []
    parts += transaction_ddl(writer, options.reader(writer), kept=options.transactions)
    return ", ".join(parts)


def _source_ddl(wire: WireType | None, wanted: str) -> str:
    """The type in which a part of `source` is read: a text as a text, whatever is made of it."""
    return "string" if wire is not None and wire.literal == "string" else wanted


def _sides(writer: Writer, options: Options) -> list[str]:
    wanted = ["after", "before"] if options.key or options.doubtful_keys else ["after"]
    return [side for side in wanted if writer.wire.get(side) is not None]


def _fields_ddl(record: WireType, writer: Writer, options: Options) -> str:
    reader = options.reader(writer)
    return ", ".join(f"{quote(name)} {reader.read(kind).wire}" for name, kind in record.fields)


# --- second projection: one form for all writers
# ------------------------------------------------------------------------


def _images(writers: Writers, target: TableSchema, options: Options) -> list[Column]:
    values = [(one.selectors, _value_struct(at, one, target, options)) for at, one in enumerate(writers.envelopes)]
    keys = [(writer.selectors, _key_struct(at, writer, target, options)) for at, writer in enumerate(writers.keys)]
    return [
        _by_selector("value_writer", values, _value_type(target, options)).alias("value"),
        _by_selector("key_writer", keys, _key_type(target)).alias("wire_key"),
    ]


def _by_selector(name: str, choices: list[tuple[tuple[str, ...], Column]], ddl: str) -> Column:
    chosen = F.lit(None).cast(ddl)
    for selectors, column in reversed(choices):
        chosen = F.when(F.col(name).isin(*selectors), column.cast(ddl)).otherwise(chosen)
    return chosen


def _value_type(target: TableSchema, options: Options) -> str:
    old_key = _struct_ddl({name: target.types[name] for name in options.key} or {"none": "string"})
    source = _struct_ddl(SOURCE_FIELDS | RANK_FIELDS)
    flags = "corrupt:boolean,empty:boolean,elsewhere:boolean"
    block = f"transaction:{m.TRANSACTION_TYPE}"
    return f"struct<{flags},op:string,image:{image_type(target)},old_key:{old_key},source:{source},{block}>"


def _key_type(target: TableSchema) -> str:
    fields = {name: target.types[name] for name in target.key} or {"none": "string"}
    return f"struct<corrupt:boolean,key:{_struct_ddl(fields)}>"


def _struct_ddl(fields: dict[str, str]) -> str:
    return "struct<" + ",".join(f"{quote(name)}:{ddl}" for name, ddl in fields.items()) + ">"


def _value_struct(at: int, writer: Writer, target: TableSchema, options: Options) -> Column:
    datum = F.col(f"value{at}")
    body = writer.body(datum)
    row = row_type(writer)
    if row is None:
        message = "only envelopes have images"
        raise AssertionError(message)
    sides = _sides(writer, options)
    after = body["after"] if "after" in sides else F.lit(None)
    names = F.col(f"names{at}") if names_by_message(writer) is not None else None
    is_corrupt = writer.is_corrupt(datum) | (body["op"].isNull() & body.isNotNull())
    return F.struct(
        is_corrupt.alias("corrupt"),
        (body.isNull() & ~writer.is_corrupt(datum)).alias("empty"),
        _elsewhere(body, row, writer, target, options).alias("elsewhere"),
        F.lower(body["op"]).alias("op"),
        image(Image(after, row, names), options.reader(writer), target, options.masks).alias("image"),
        _old_key(body, row, writer, target, options).alias("old_key"),
        # What is read from a damaged message may be anything, and a position must not put others out of order.
        F.when(~is_corrupt, _source(body, writer, options)).alias("source"),
        transaction(body, writer if options.transactions else None).alias("transaction"),
    )


def _old_key(body: Column, row: WireType, writer: Writer, target: TableSchema, options: Options) -> Column:
    if not options.key or writer.wire.get("before") is None:
        return F.lit(None)
    return typed(body["before"], row, options.key, options.reader(writer), target)


def _elsewhere(body: Column, row: WireType, writer: Writer, target: TableSchema, options: Options) -> Column:
    if not options.doubtful_keys or writer.wire.get("before") is None or not is_from_postgresql(writer.wire):
        return F.lit(False)
    keys = [name for key in target.key for name in target.column(key).wire_names]
    return names_other_columns(body["before"], row, keys, options.reader(writer))


def _source(body: Column, writer: Writer, options: Options) -> Column:
    source = writer.wire.get("source")
    parts = []
    for name, ddl in SOURCE_FIELDS.items():
        known = source is not None and source.get(name) is not None
        parts.append((body["source"][name].try_cast(ddl) if known else F.lit(None).cast(ddl)).alias(name))
    return F.struct(*parts, *ranks(body, writer, options.reader(writer)))


def _key_struct(at: int, writer: Writer, target: TableSchema, options: Options) -> Column:
    datum = F.col(f"key{at}")
    body = writer.body(datum)
    key = typed(body, writer.wire, target.key, options.reader(writer), target)
    corrupt = writer.is_corrupt(datum)
    return F.struct(corrupt.alias("corrupt"), F.when(~corrupt, key).alias("key"))


# --- third projection, in `identity`: which rows; then the fourth: what becomes of each
# --------------------------------


def _change(writers: Writers, target: TableSchema, options: Options) -> list[Column]:
    value, key, shown = F.col("value"), F.col("key"), F.col("image")
    source = value["source"]
    no_value = F.col("value_writer").isNull() | F.coalesce(value["empty"], F.lit(False))
    op = F.when(no_value, m.TOMBSTONE).otherwise(F.col("op"))
    has_key = _all([key[name].isNotNull() for name in target.key])
    # A tombstone of a table whose key is in its rows, or of no key at all, repeats what the delete before it says.
    says_nothing = (op == m.TOMBSTONE) & (F.lit(bool(options.key)) | F.col("key_writer").isNull())
    ignored = F.col("value_writer").isin(*writers.others) | (op == "m") | says_nothing
    nameless = (value["op"] == "d") & value["elsewhere"] & _is_doubtful(key, writers, target, options)
    code = F.when(~F.coalesce(ignored, F.lit(False)), code_of(writers, target, op, has_key, nameless))
    streaming = F.coalesce(source["snapshot"], F.lit("false")).isin("false", "") & (op != "r")
    row = {column.name: shown["row"][column.name] for column in target.columns}
    row |= {name: key[name] for name in target.key}
    nothing = F.array().cast("array<string>")
    log_name, log_number = log(source)
    return [
        *[column.alias(name) for name, column in row.items()],
        *[F.col(name) for name in (m.TOPIC, m.PARTITION, m.OFFSET, m.PART, m.TIME)],
        F.when(~F.coalesce(ignored, F.lit(False)) & code.isNull(), op).alias(m.OP),
        (F.when(has_key, m.key_json(key, target)) if target.key else F.lit(None).cast("string")).alias(m.KEY),
        position(source).alias(m.POSITION),
        F.lit(m.FIRST_EPOCH).alias(m.EPOCH),
        log_name.alias(m.LOG),
        log_number.alias(m.LOG_NUMBER),
        F.coalesce(streaming, F.lit(False)).alias(m.STREAMING),
        (snapshot_place(source) if options.snapshots else F.lit(None).cast("string")).alias(m.SNAPSHOT),
        _source_time(source).alias(m.SOURCE_TIME),
        source_table(source).alias(m.SOURCE_TABLE),
        F.coalesce(shown["absent"], nothing).alias(m.ABSENT),
        F.coalesce(shown["unavailable"], nothing).alias(m.UNAVAILABLE),
        F.coalesce(shown["problems"], F.array().cast(PROBLEMS_TYPE)).alias(m.PROBLEMS),
        code.alias(m.CODE),
        F.when(code == str(Code.UNDECODABLE), reason_of(writers)).otherwise(F.lit(None)).cast("string").alias(m.REASON),
        F.coalesce(nameless, F.lit(False)).alias(m.NAMELESS),
        F.xxhash64(op, F.to_json(shown)).alias(m.SIGNATURE),
        value["transaction"].alias(m.TRANSACTION),
    ]


def _source_time(source: Column) -> Column:
    return F.timestamp_micros(F.coalesce(source["ts_us"], F.try_multiply(source["ts_ms"], F.lit(1000))))


def _is_doubtful(key: Column, writers: Writers, target: TableSchema, options: Options) -> Column:
    known = doubtful_keys(writers, target, options) if options.doubtful_keys else []
    return m.key_json(key, target).isin(*known) if known else F.lit(False)


def _all(tests: Sequence[Column]) -> Column:
    """True where every test is; false for a table without a key."""
    if not tests:
        return F.lit(False)
    found = F.coalesce(tests[0], F.lit(False))
    for test in tests[1:]:
        found = found & F.coalesce(test, F.lit(False))
    return found
