"""One batch of raw messages to decided states: which writers, which schema, which history, which verdicts.

The cheap way is tried first: fold the span alone. Its facts say what it could not know, and only then is more read: the
mirror's rows for values that were left out, and raw from its first message for keys whose past matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer import fold
from cdc_materializer.changes import model as m
from cdc_materializer.changes.debezium import Options, Writers, check_readable, table_schema, to_changes
from cdc_materializer.changes.positions import SOURCE_FIELDS
from cdc_materializer.contract.model import Contract
from cdc_materializer.decode.framing import PLAIN_JSON, schema_block, selector
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType
from cdc_materializer.decode.writers import Writer, avro_writer, block_writer, declared
from cdc_materializer.errors import ConfigError, SchemaRefused
from cdc_materializer.fold import CURRENT, HELD, OPEN_COLUMNS, REBUILT, Partial, Truncate
from cdc_materializer.merge import CDC
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.registry import Registry
from cdc_materializer.schema import SchemaPlan, TableSchema, plan_schema


@dataclass(frozen=True)
class Decoders:
    """The writers of a batch and the table that they describe together."""

    writers: Writers
    plan: SchemaPlan
    partial: Partial


def messages(raw: DataFrame, span: Span | None) -> DataFrame:
    """The messages of a span, with the selectors of their writers; all of raw for None."""
    rows = raw if span is None else raw.where(within(span, "partition", "offset"))
    return rows.select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        selector(F.col("key"), F.col("key_schema_id")).alias("key_writer"),
        selector(F.col("value"), F.col("value_schema_id")).alias("value_writer"),
    )


def within(span: Span, partition: str, offset: str) -> Column:
    """Whether a row lies in a span."""
    found = F.lit(False)
    for number, start, end in span.ranges():
        here = (F.col(partition) == number) & (F.col(offset) >= start) & (F.col(offset) < end)
        found = found | here
    return found


@dataclass(frozen=True)
class Lookup:
    """Where writers are found, by id in a registry or by column in a contract; and the table's columns now."""

    registry: Registry | None
    contract: Contract | None
    options: Options
    current: TableSchema | None


def find_decoders(read: DataFrame, lookup: Lookup) -> Decoders:
    """Look up the writers that the messages name, and plan the table for them.

    Reads one small row a distinct writer to the driver. Writers come in the order of their first messages, so that a
    table's types do not depend on how the log is cut.

    Raises:
        RegistryUnavailable: a schema is needed and the registry cannot be asked.
        SchemaRefused: no table can be made from what the messages say.
    """
    first = F.min(F.struct("offset", "partition")).alias("first")
    found = [
        read.where(F.col(f"{side}_writer").isNotNull())
        .groupBy(F.lit(side).alias("side"), F.col(f"{side}_writer").alias("selector"))
        .agg(
            first,
            F.first(F.when(F.col(f"{side}_writer").startswith("block:"), schema_block(F.col(side)))).alias("block"),
        )
        for side in ("value", "key")
    ]
    rows = sorted(found[0].unionByName(found[1]).collect(), key=lambda row: tuple(row["first"]))
    values: list[Writer] = []
    keys: list[Writer] = []
    unknown: list[str] = []
    for row in rows:
        writer = _writer(row["side"], row["selector"], row["block"], lookup)
        if writer is None:
            continue
        if isinstance(writer, str):
            unknown.append(writer)
        else:
            (values if row["side"] == "value" else keys).append(writer)
    writers = Writers(tuple(values), tuple(keys), tuple(unknown))
    plan = _plan(writers, lookup)
    return Decoders(writers, plan, _partial(writers, plan.target, lookup.options))


def _writer(side: str, name: str, block: str | None, lookup: Lookup) -> Writer | str | None:
    """The decoder for a selector; the selector where the registry does not know it; None where nothing reads it."""
    try:
        found: Writer | str | None = None
        if name.isdigit():
            found = _registered(name, lookup.registry)
        elif block is not None:
            found = block_writer(name, block)
        elif name == PLAIN_JSON:
            found = _declared_writer(side, lookup)
        if isinstance(found, Writer):
            check_readable(found, lookup.options)
    except WireSchemaInvalid:
        # The messages are held as UNDECODABLE one by one, and what is wrong with the schema is the producer's to mend.
        return None
    return found


def _registered(name: str, registry: Registry | None) -> Writer | str | None:
    if registry is None:
        what = "The topic's messages name schemas by id, and no registry is configured."
        raise ConfigError(what, "Add `registry:` with its `url` (or `files` for recorded schemas) to pipeline.yaml.")
    found = registry.schema(int(name))
    if found is None:
        return name
    return avro_writer(name, found.text) if found.kind == "AVRO" else None


def _declared_writer(side: str, lookup: Lookup) -> Writer:
    contract, current = lookup.contract, lookup.current
    types = {column.name: column.type for column in contract.columns if column.type} if contract else {}
    keys = [column.name for column in contract.columns if column.primary_key] if contract else []
    types = (current.types if current else {}) | types
    key = lookup.options.key or tuple(keys) or (current.key if current else ())
    if not types or (side == "key" and not key):
        what = "The topic's messages are JSON without a schema, so their column types are not known."
        raise SchemaRefused(what, "Give the table a contract that declares its columns and its primary key.")
    if side == "key":
        return Writer(PLAIN_JSON, "json", declared({name: types[name] for name in key}))
    text = WireType("string", optional=True)
    source = tuple((name, WireType("long" if ddl == "bigint" else "string")) for name, ddl in SOURCE_FIELDS.items())
    fields = (
        ("op", text),
        ("before", declared(types)),
        ("after", declared(types)),
        ("source", WireType("record", fields=source)),
    )
    return Writer(PLAIN_JSON, "json", WireType("record", fields=fields))


def _plan(writers: Writers, lookup: Lookup) -> SchemaPlan:
    described = [table_schema(writer, writers.keys, lookup.options) for writer in writers.envelopes]
    plan = plan_schema(lookup.current, [schema for schema in described if schema is not None])
    if not plan.target.columns:
        what = (
            "Not one message of the batch can be read as a change of a row, so there is no schema to make a table from."
        )
        raise SchemaRefused(
            what, "Check the topic, its `format` and `encoding`, and the registry; raw has the messages."
        )
    return plan


def _partial(writers: Writers, target: TableSchema, options: Options) -> Partial:
    """The columns that some writer lacks, or whose values a writer may mark as unknown."""
    absent: dict[str, None] = {}
    unavailable: dict[str, None] = {}
    for writer in writers.envelopes:
        row = writer.wire.get("after") or writer.wire.get("before")
        reader = options.reader(writer)
        for column in target.columns:
            kind = row.get(column.name) if row is not None else None
            if kind is None or (writer.form == "json" and not writer.wrapped):
                absent[column.name] = None
            if kind is not None and reader.read(kind).unavailable is not None:
                unavailable[column.name] = None
    return Partial(tuple(absent), tuple(unavailable))


# --- the fold, with as much of the past as it needs
# ---------------------------------------------------------------------


@dataclass(frozen=True)
class Past:
    """What a batch may have to look up.

    Attributes:
        lookup: where the writers of raw's messages are found.
        raw: all messages of raw before the batch, as `messages` gives them; None where there are none.
        mirror: the mirror's rows; None where it is empty.
        held: the keys (m.KEY) with open held messages; None where there are none.
        positions: the highest streaming position by partition that earlier batches saw.
        retried: the span behind which the batch has messages again that could not be read before; None where it has
            none.
        truncate: the table's setting; only under `apply` do truncates wipe rows.
    """

    lookup: Lookup
    raw: DataFrame | None = None
    mirror: DataFrame | None = None
    held: DataFrame | None = None
    positions: Mapping[int, str] | None = None
    retried: Span | None = None
    truncate: str = "apply"


@dataclass(frozen=True)
class Facts:
    """What one pass over the folded batch found out."""

    positions: Mapping[int, str]
    truncates: tuple[Truncate, ...]
    wants_history: int
    wants_base: int
    moved: int
    held: int


def fold_batch(current: DataFrame, decoders: Decoders, past: Past) -> tuple[DataFrame, Facts]:
    """The states of a batch, complete, cached; and its facts.

    Args:
        current: the batch's messages, from `messages`.
        decoders: from `find_decoders`, over the batch and, where it may be needed, raw.
        past: what may have to be looked up.
    """
    target, partial, options = decoders.plan.target, decoders.partial, past.lookup.options
    own = _with_flags(to_changes(current, decoders.writers, target, options), past)
    states = fold.states(own, target, partial).persist()
    facts = _facts(states, past)
    truncates = facts.truncates if past.truncate == "apply" else ()
    if truncates or facts.wants_history:
        changes = own
        if facts.wants_history and past.raw is not None:
            # Materialised before the cache that it comes from is given back.
            wanted = states.where(_wants_history(past)).select(m.KEY).distinct().localCheckpoint()
            history, lacking = _history(past.raw, past.lookup, target, wanted)
            changes = _with_history(own, history, wanted)
            partial = partial.union(lacking)
        states.unpersist()
        states = fold.states(changes, target, partial, truncates).persist()
        facts = replace(_facts(states, Past(past.lookup)), positions=facts.positions, held=facts.held)
    if past.mirror is not None and (facts.wants_base or facts.moved):
        states = fold.attach_base(states, _base(past.mirror, target, truncates), target, partial)
    if facts.moved:
        states = fold.graft(states, target, partial)
    return states, facts


def _with_flags(changes: DataFrame, past: Past) -> DataFrame:
    flagged = changes.withColumns({CURRENT: F.lit(True), REBUILT: F.lit(False)})
    again = within(past.retried, m.PARTITION, m.OFFSET) if past.retried is not None else F.lit(False)
    if past.held is None:
        return flagged.withColumn(HELD, again)
    held = F.broadcast(past.held.select(F.col(m.KEY).alias("__cdc_held_key")).distinct())
    joined = flagged.join(held, F.col(m.KEY) == F.col("__cdc_held_key"), "left")
    return joined.withColumn(HELD, F.col("__cdc_held_key").isNotNull() | again).drop("__cdc_held_key")


def _history(raw: DataFrame, lookup: Lookup, target: TableSchema, wanted: DataFrame) -> tuple[DataFrame, Partial]:
    """The changes of raw whose keys are wanted, found by a first pass that decodes no more than keys."""
    earlier = find_decoders(raw, lookup)
    keys = to_changes(raw, earlier.writers, target, lookup.options).select(m.PARTITION, m.OFFSET, m.KEY)
    # Null-safe, though no wanted key is NULL: for a plain equality Spark would infer a NOT NULL filter on the key, push
    # it through the projections and so write out the whole decoding of a message once more for each field it reads.
    found = keys.join(F.broadcast(_named(wanted)), F.col(m.KEY).eqNullSafe(F.col("__cdc_wanted")))
    places = found.select(F.col(m.PARTITION).alias("partition"), F.col(m.OFFSET).alias("offset"))
    messages_of_keys = raw.join(places, ["partition", "offset"], "left_semi")
    return to_changes(messages_of_keys, earlier.writers, target, lookup.options), earlier.partial


def _named(wanted: DataFrame) -> DataFrame:
    return wanted.select(F.col(m.KEY).alias("__cdc_wanted"))


def _with_history(own: DataFrame, history: DataFrame, wanted: DataFrame) -> DataFrame:
    rebuilt = F.col("__cdc_wanted").isNotNull()
    joined = own.drop(REBUILT).join(F.broadcast(_named(wanted)), F.col(m.KEY).eqNullSafe(F.col("__cdc_wanted")), "left")
    flagged = joined.withColumn(REBUILT, rebuilt).drop("__cdc_wanted")
    flags = {CURRENT: F.lit(False), HELD: F.lit(False), REBUILT: F.lit(True)}
    return flagged.unionByName(history.withColumns(flags))


def _base(mirror: DataFrame, target: TableSchema, truncates: Sequence[Truncate]) -> DataFrame:
    # The batch may have brought columns, or wider types, that the mirror's snapshot does not have yet.
    row = {
        name: (m.column(name) if name in mirror.columns else F.lit(None)).cast(ddl)
        for name, ddl in target.types.items()
    }
    key = F.struct(*[row[name].alias(name) for name in target.key])
    placed = mirror.select(*[value.alias(name) for name, value in row.items()], CDC).withColumns(
        {
            m.KEY: m.key_json(key, target),
            m.POSITION: F.col("__cdc.position"),
            m.PARTITION: F.col("__cdc.partition"),
            m.OFFSET: F.col("__cdc.offset"),
        }
    )
    return placed.where(~fold.is_wiped(truncates))


def _wants_history(past: Past) -> Column:
    late = F.lit(False)
    for partition, position in (past.positions or {}).items():
        late = late | ((F.col(m.PARTITION) == partition) & (F.col(m.POSITION) <= position))
    past_matters = (late & F.col(m.STREAMING)) | F.col(fold.ORPHAN) | F.col(HELD)
    return F.coalesce(past_matters & F.col(m.KEY).isNotNull() & ~F.col(REBUILT), F.lit(False))


def _facts(states: DataFrame, past: Past) -> Facts:
    is_truncate = (F.col(m.OP) == m.TRUNCATE) & F.col(CURRENT)
    moved = (F.col(m.OP) == "c") & fold.effective() & (F.size(OPEN_COLUMNS) > 0)
    rows = (
        states.groupBy(m.PARTITION)
        .agg(
            F.max(F.when(F.col(m.STREAMING) & F.col(CURRENT), F.col(m.POSITION))).alias("position"),
            F.collect_list(F.when(is_truncate, F.struct(F.col(m.POSITION), F.col(m.OFFSET)))).alias("truncates"),
            F.count_if(_wants_history(past)).alias("wants_history"),
            F.count_if(fold.wants_base() & ~fold.is_delete()).alias("wants_base"),
            F.count_if(moved).alias("moved"),
            F.count_if(F.col(HELD)).alias("held"),
        )
        .collect()
    )
    return Facts(
        positions={row[m.PARTITION]: row["position"] for row in rows if row["position"] is not None},
        truncates=tuple(
            Truncate(found[m.POSITION], row[m.PARTITION], found[m.OFFSET]) for row in rows for found in row["truncates"]
        ),
        wants_history=sum(row["wants_history"] for row in rows),
        wants_base=sum(row["wants_base"] for row in rows),
        moved=sum(row["moved"] for row in rows),
        held=sum(row["held"] for row in rows),
    )


def highest(one: Mapping[int, str], other: Mapping[int, str]) -> dict[int, str]:
    """The higher position of each partition."""
    return {partition: max(one.get(partition, ""), other.get(partition, "")) for partition in sorted({*one, *other})}


def whole(start: Offsets, end: Offsets, topic: str) -> Span:
    """The span between two sets of offsets, partitions that only the end has from their first message."""
    return Span(topic, Offsets({partition: start.get(partition, 0) for partition in end}), end)
