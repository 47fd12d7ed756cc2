"""Messages to changes, whatever their format (`changes.formats`): the columns that `changes.model` describes.

Built as projections, one on the other. Each decoder appears once, in the first, because Spark would otherwise run it
again for each field that is read from its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes import home, old_rows, source_rows
from cdc_materializer.changes import model as m
from cdc_materializer.changes.bare_keys import BARE, bare_key, bare_text
from cdc_materializer.changes.codes import code_of, reason_of
from cdc_materializer.changes.fillers import filled_keys, is_from_postgresql
from cdc_materializer.changes.formats import HEADERS_TYPE, Said
from cdc_materializer.changes.identity import ENTRY, identified
from cdc_materializer.changes.image import PROBLEMS_TYPE, Image, image, image_type, is_beyond, names_by_message, typed
from cdc_materializer.changes.options import Options, Writers
from cdc_materializer.changes.parts import entries_of, is_named_later, made, parts_of, row_of, with_names
from cdc_materializer.changes.positions import (
    SAID_FIELDS,
    Source,
    log,
    position,
    snapshot_place,
    source_table,
    with_parts,
)
from cdc_materializer.changes.readable import as_told
from cdc_materializer.changes.signatures import signature, stamp
from cdc_materializer.changes.surplus_keys import SURPLUS, has_surplus
from cdc_materializer.decode.json_floats import without_overflows
from cdc_materializer.decode.json_numbers import with_numbers
from cdc_materializer.decode.json_texts import TEXTS, with_texts
from cdc_materializer.decode.long_decimals import OCTETS, octets, with_long_decimals
from cdc_materializer.decode.reading import SPARE
from cdc_materializer.decode.texts import any_of, has_no_text
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer
from cdc_materializer.names import quote
from cdc_materializer.schema.schema import Column as TableColumn
from cdc_materializer.schema.schema import TableSchema


def check_readable(writer: Writer, options: Options) -> None:
    """Raise WireSchemaInvalid for a writer, of keys or of values, with a column that has no table form."""
    columns = options.row(writer)
    if columns is not None:
        _columns(columns, writer, options)


def table_schema(writer: Writer, options: Options) -> TableSchema:
    """The table that a writer of values describes, columns in source order; its key only where one is configured."""
    row = options.row(writer)
    return TableSchema(_columns(row, writer, options) if row is not None else (), options.key)


def key_schema(writer: Writer, options: Options) -> TableSchema:
    """What a writer of keys adds to the table: its fields, all of them key; of a configured key what values lack."""
    if not options.key:
        columns = _columns(writer.wire, writer, options)
        return TableSchema(columns, tuple(column.name for column in columns))
    if not options.format.tombstones_delete:
        return TableSchema(())
    named = tuple(one for one in writer.wire.fields if options.evolution.renames.get(one[0], one[0]) in options.key)
    return TableSchema(_columns(replace(writer.wire, fields=named), writer, options), options.key)


def doubtful_keys(writers: Writers, target: TableSchema, options: Options) -> list[Column]:
    """The keys (m.KEY) that PostgreSQL's connector gives to a delete whose row it was not told (`changes.fillers`)."""
    if not options.format.fills_keys:
        return []
    envelopes = [writer for writer in writers.changes if is_from_postgresql(writer.wire)]
    # A batch of nothing but tombstones does not say what they come from.
    if writers.changes and not envelopes:
        return []
    keyed = (
        [(options.row(writer), writer) for writer in envelopes] if options.key else [(k.wire, k) for k in writers.keys]
    )
    known = options.shard.key_parts() if options.shard is not None else {}
    found = [filled_keys(wire, target, options.reader(writer), known) for wire, writer in keyed if wire is not None]
    return [key for keys in found for key in keys]


def _columns(record: WireType, writer: Writer, options: Options) -> tuple[TableColumn, ...]:
    reader = options.reader(writer)
    read = [(name, reader.read(kind), kind.doc) for name, kind in record.fields]
    columns = [TableColumn(name, one.ddl, doc, spare=SPARE if one.spare else None) for name, one, doc in read]
    # A writer that stands for messages without a schema has a renamed column under all of its names.
    renames = options.evolution.renames if writer.is_plain else {}
    return options.evolution.of_writer([column for column in columns if column.name not in renames])


def to_changes(messages: DataFrame, writers: Writers, mirror: TableSchema, options: Options) -> DataFrame:
    """The changes of messages, in the columns of `changes.model`: one a message, or several (ADR 11).

    Args:
        messages: topic, partition, offset, timestamp, key, value (binary), and the selectors key_writer, value_writer;
            headers, where there are any.
        writers: the decoders of all selectors that occur.
        mirror: the columns that the result has; each writer's value is fitted into them exactly or marked as a problem.
        options: how messages are read.
    """
    read, shard = writers.merged(options), options.shard
    target = shard.without(mirror) if shard is not None else mirror
    named = with_texts(as_told(messages, options), {"value": _of_objects(read.changes), "key": _of_objects(read.keys)})
    datums = named.select(
        *_coordinates(named),
        "value_writer",
        "key_writer",
        *home.asked(named),
        bare_text(options),
        has_surplus(read, options),
        *_datums(read, options),
        *octets(),
        *(["value"] if any(is_named_later(at, one, options) for at, one in enumerate(read.changes)) else []),
    )
    for look in (with_long_decimals, with_numbers, without_overflows):
        datums = look(datums, _by_column(read))
    datums = datums.drop(*OCTETS.values())
    parts = with_names(parts_of(datums, read, options), read, options)
    kept = (m.TOPIC, m.PARTITION, m.OFFSET, m.TIME, ENTRY, "value_writer", "key_writer", *home.ASKED, BARE, SURPLUS)
    columns, source = _images(read, target, options)
    images = parts.select(*kept, *columns)
    format_ = options.format
    keyed = identified(
        images,
        old_rows.configured(target, options),
        with_wire_key=format_.tombstones_delete,
        may_be_partial=format_.needs_contract,
    )
    changes = with_parts(keyed, source).select(*_change(writers, target, options, source))
    return shard.told(changes, mirror) if shard is not None else changes


# --- first projection: run each decoder on the messages that chose it ---


def _coordinates(messages: DataFrame) -> list[Column]:
    names = {"topic": m.TOPIC, "partition": m.PARTITION, "offset": m.OFFSET, "timestamp": m.TIME}
    headers = F.col("headers") if "headers" in messages.columns else F.lit(None).cast(HEADERS_TYPE)
    return [*[F.col(plain).alias(ours) for plain, ours in names.items()], headers.alias("headers")]


def _datums(writers: Writers, options: Options) -> list[Column]:
    values, keys, names = [], [], []
    for at, writer in enumerate(writers.changes):
        ddl = options.format.ddl(writer, _fields_ddl(row_of(writer, options), writer, options), options)
        values.append(_datum("value", writer, ddl).alias(f"value{at}"))
        told = names_by_message(writer, options)
        names += [told.alias(f"names{at}")] if told is not None and not is_named_later(at, writer, options) else []
    for at, writer in enumerate(writers.keys):
        ddl = _fields_ddl(writer.wire, writer, options)
        keys.append(_datum("key", writer, ddl).alias(f"key{at}"))
    return [*values, *keys, *names]


def _datum(side: str, writer: Writer, ddl: str) -> Column:
    text = F.col(TEXTS[side]) if writer.reads_objects else None
    return writer.datum(F.col(side), F.col(f"{side}_writer"), ddl, text)


def _of_objects(writers: Sequence[Writer]) -> list[str]:
    return [selector for writer in writers if writer.reads_objects for selector in writer.selectors]


def _by_column(writers: Writers) -> dict[str, Writer]:
    """The writers by the columns of their datums."""
    values = {f"value{at}": writer for at, writer in enumerate(writers.changes)}
    return values | {f"key{at}": writer for at, writer in enumerate(writers.keys)}


def _fields_ddl(record: WireType, writer: Writer, options: Options) -> str:
    reader = options.reader(writer)
    return ", ".join(f"{quote(name)} {reader.read(kind).wire}" for name, kind in record.fields)


# --- second projection: one form for all writers ---


def _images(writers: Writers, target: TableSchema, options: Options) -> tuple[list[Column], Source]:
    """The columns `value` and `wire_key`, and what the first says of where changes come from."""
    said = [made(at, writer, options) for at, writer in enumerate(writers.changes)]
    source = Source.told_by(F.col("value")["source"], [one.source for one in said])
    values = [
        (writer.selectors, _value_struct(at, writer, told, source, target, options))
        for at, (writer, told) in enumerate(zip(writers.changes, said, strict=True))
    ]
    keys = [(writer.selectors, _key_struct(at, writer, target, options)) for at, writer in enumerate(writers.keys)]
    wire_key, bare = _by_selector("key_writer", keys, _key_type(target)), bare_key(target, options)
    if bare is not None:
        told = F.struct(F.lit(False), F.lit(False), bare).cast(_key_type(target))
        wire_key = F.coalesce(wire_key, F.when(bare.isNotNull(), told))
    value = _by_selector("value_writer", values, _value_type(target, options, source))
    return [value.alias("value"), wire_key.alias("wire_key")], source


def _by_selector(name: str, choices: list[tuple[tuple[str, ...], Column]], ddl: str) -> Column:
    """The choice whose selectors have the one of the message; NULL for none."""
    if len(choices) == 1:
        # What an expression has twice, Spark evaluates once a row, but not in the branches of a CASE. There the reading
        # of a text is made anew for its value and for each of its tests: of JSON that took two thirds more.
        selectors, column = choices[0]
        return F.get(F.array(column), F.when(F.col(name).isin(*selectors), F.lit(0)))
    chosen = F.lit(None).cast(ddl)
    for selectors, column in reversed(choices):
        # Not cast: Spark would make each struct anew, because no field of theirs is NULL that never is.
        chosen = F.when(F.col(name).isin(*selectors), column).otherwise(chosen)
    return chosen


def _value_type(target: TableSchema, options: Options, source: Source) -> str:
    flags = "corrupt:boolean,empty:boolean,elsewhere:boolean"
    block = f"old_key:{old_rows.old_key_type(target, options)},source:{source.ddl},transaction:{m.TRANSACTION_TYPE}"
    return f"struct<{flags},op:string,image:{image_type(target)},{block},patch:string,was:bigint>"


def _key_type(target: TableSchema) -> str:
    fields = {name: target.types[name] for name in target.key} or {"none": "string"}
    return f"struct<corrupt:boolean,beyond:boolean,key:{old_rows.struct_ddl(fields)}>"


def _value_struct(at: int, writer: Writer, said: Said, source: Source, target: TableSchema, options: Options) -> Column:
    datum = F.col(f"value{at}")
    body, row, reader = writer.body(datum), row_of(writer, options), options.reader(writer)
    has_entries = entries_of(at, writer, options) is not None
    names = F.col(f"names{at}") if names_by_message(writer, options) is not None else None
    if names is not None and has_entries and writer.is_plain:
        names = F.get(names, F.col(ENTRY))
    after = said.after if said.after is not None else F.lit(None)
    is_corrupt = writer.is_corrupt(datum) | (said.op.isNull() & body.isNotNull())
    for test in (said.corrupt, _no_texts(said, writer, row, options)):
        if test is not None:
            is_corrupt = is_corrupt | (body.isNotNull() & F.coalesce(test, F.lit(False)))
    before = said.before if options.format.leaves_out(writer) else None
    shown = Image(after, row, names, said.op == "u", before, said.unchanged)
    return F.struct(
        is_corrupt.alias("corrupt"),
        (body.isNull() & ~writer.is_corrupt(datum)).alias("empty"),
        old_rows.elsewhere(said, writer, target, options).alias("elsewhere"),
        said.op.alias("op"),
        image(shown, reader, target, options).alias("image"),
        old_rows.old_key(said, writer, target, options).alias("old_key"),
        # What is read from a damaged message may be anything, and a position must not put others out of order.
        F.when(~is_corrupt, source.of(said.source)).alias("source"),
        (F.lit(None) if said.transaction is None else said.transaction).cast(m.TRANSACTION_TYPE).alias("transaction"),
        (F.lit(None) if said.patch is None else said.patch).cast("string").alias("patch"),
        old_rows.was(said, writer, names, target, options).alias("was"),
    )


def _no_texts(said: Said, writer: Writer, row: WireType, options: Options) -> Column | None:
    """Whether a text of the row, of the key that it had, or of its place is none; None where that cannot be."""
    if not writer.leaves_texts:
        return None
    types = {name: options.reader(writer).read(kind).wire for name, kind in row.fields}
    tests = [has_no_text(said.after[name], ddl) for name, ddl in types.items()] if said.after is not None else []
    if said.before is not None:
        keys = [name for name in types if options.evolution.renames.get(name, name) in options.key]
        tests += [has_no_text(said.before[name], types[name]) for name in keys]
    # What tells a change from others is made of what is read besides.
    places = [place for name, place in said.source.items() if SAID_FIELDS[name] == "string" and name != "event"]
    return any_of([*tests, *[has_no_text(place.cast("string"), "string") for place in places]])


def _key_struct(at: int, writer: Writer, target: TableSchema, options: Options) -> Column:
    datum, reader = F.col(f"key{at}"), options.reader(writer)
    body, corrupt = writer.body(datum), writer.is_corrupt(datum)
    key = typed(body, writer.wire, target.key, reader, target, options)
    beyond = is_beyond(body, writer.wire, target.key, reader, target)
    if writer.is_plain:
        corrupt = corrupt | F.col(SURPLUS)
    if writer.leaves_texts:
        no_text = any_of([has_no_text(body[name], reader.read(kind).wire) for name, kind in writer.wire.fields])
        corrupt = corrupt if no_text is None else corrupt | no_text
    return F.struct(corrupt.alias("corrupt"), beyond.alias("beyond"), F.when(~corrupt, key).alias("key"))


# --- third projection, in `identity`: which rows; then the fourth: what becomes of each ---


def _change(writers: Writers, target: TableSchema, options: Options, source: Source) -> list[Column]:
    value, key, shown = F.col("value"), F.col("key"), F.col("image")
    no_value = F.col("value_writer").isNull() | F.coalesce(value["empty"], F.lit(False))
    op = F.when(no_value, m.TOMBSTONE).otherwise(F.col("op"))
    has_key = _all([key[name].isNotNull() for name in target.key])
    # A tombstone of a table whose key is in its rows, or of no key at all, repeats what the delete before it says. If
    # nothing else tells of deletes, it does not say of which row.
    format_ = options.format
    repeats = F.lit(bool(options.key) and not format_.tombstones_delete)
    repeats = repeats | (F.col("key_writer").isNull() & F.lit(format_.repeats_deletes(writers.changes)))
    says_nothing = (op == m.TOMBSTONE) & repeats
    ignored = F.col("value_writer").isin(*writers.others) | (op == m.NOTHING) | says_nothing
    nameless = (value["op"] == "d") & value["elsewhere"] & _is_doubtful(key, writers, target, options)
    code = F.when(~F.coalesce(ignored, F.lit(False)), code_of(writers, target, op, has_key, nameless, options))
    is_logged = F.coalesce(source["snapshot"], F.lit("false")).isin("false", "") & (op != "r")
    streaming = F.coalesce(is_logged, F.lit(False))
    source_time = _source_time(source)
    stamped = stamp(source, source_time, streaming)
    row = {column.name: shown["row"][column.name] for column in target.columns}
    row |= {name: key[name] for name in target.key}
    nothing = F.array().cast("array<string>")
    log_name, log_number = log(source)
    text = m.key_json(key, target) if target.key else F.lit(None).cast("string")
    return [
        *[column.alias(name) for name, column in row.items()],
        *[F.col(name) for name in (m.TOPIC, m.PARTITION, m.OFFSET, m.PART, m.TIME)],
        F.when(~F.coalesce(ignored, F.lit(False)) & code.isNull(), op).alias(m.OP),
        F.when(has_key, text).alias(m.KEY),
        position(source).alias(m.POSITION),
        F.lit(m.FIRST_EPOCH).alias(m.EPOCH),
        log_name.alias(m.LOG),
        log_number.alias(m.LOG_NUMBER),
        streaming.alias(m.STREAMING),
        (snapshot_place(source) if options.snapshots else F.lit(None).cast("string")).alias(m.SNAPSHOT),
        source_time.alias(m.SOURCE_TIME),
        source_table(source).alias(m.SOURCE_TABLE),
        F.coalesce(shown["absent"], nothing).alias(m.ABSENT),
        F.coalesce(shown["unavailable"], nothing).alias(m.UNAVAILABLE),
        F.coalesce(shown["problems"], F.array().cast(PROBLEMS_TYPE)).alias(m.PROBLEMS),
        code.alias(m.CODE),
        reason_of(writers, code).alias(m.REASON),
        F.coalesce(nameless, F.lit(False)).alias(m.NAMELESS),
        signature(op, target, source, stamped, options).alias(m.SIGNATURE),
        stamped.alias(m.STAMP),
        source_rows.source_row(source).alias(m.SOURCE_ROW),
        (value["transaction"] if options.transactions else F.lit(None).cast(m.TRANSACTION_TYPE)).alias(m.TRANSACTION),
        value["patch"].alias(m.PATCH),
        home.home(text, [one for one in writers.keys if _tells_all(one, target, options)]).alias(m.HOME),
    ]


def _tells_all(writer: Writer, target: TableSchema, options: Options) -> bool:
    """Whether a writer's keys are the table's, each of which it writes in one way."""
    own = TableSchema(_columns(writer.wire, writer, options)).types
    kinds = [kind for _, kind in writer.wire.fields]
    if tuple(own) != target.key:
        return False
    columns = zip(kinds, own.values(), target.key, strict=True)
    return all(home.is_exact(kind, ddl, target.types[name]) for kind, ddl, name in columns)


def _source_time(source: Source) -> Column:
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
