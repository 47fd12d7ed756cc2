"""Which writers a batch has, and which table they describe together.

One small job over the messages finds the distinct writers; each is then looked up on the driver: in the registry by
id, in the message's own schema block, or in a contract where the messages are JSON without a schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc_materializer.changes.bare_keys import bare_column
from cdc_materializer.changes.image import told_names
from cdc_materializer.changes.messages import check_readable, key_schema, table_schema
from cdc_materializer.changes.options import Options, Writers
from cdc_materializer.changes.readable import as_told
from cdc_materializer.contract.model import Contract
from cdc_materializer.decode.contract_types import kind_of
from cdc_materializer.decode.framing import ENCODING, OWN_JSON, PLAIN_JSON, UNASKED, UNREAD
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.decode.refusals import (
    AVRO_JSON,
    CELLS,
    CLOUD_EVENTS,
    REFUSALS,
    WITH_SCHEMA,
    has_cells,
    is_cloud_event,
)
from cdc_materializer.decode.wire import WireSchemaInvalid
from cdc_materializer.decode.writers import Writer, avro_writer, block_writer, json_writer, protobuf_writer
from cdc_materializer.decoders.contract import Declared, with_unsigned
from cdc_materializer.decoders.declared import check_declared, declared_writer, made_anew
from cdc_materializer.decoders.keys import with_signs
from cdc_materializer.decoders.selectors import selectors_of
from cdc_materializer.decoders.types import Opened, of_format, preferred, read_in_order
from cdc_materializer.errors import ConfigError, SchemaRefused
from cdc_materializer.fold.fold import Partial
from cdc_materializer.names import shown
from cdc_materializer.registry import ADD_REGISTRY, RegisteredSchema, Registry
from cdc_materializer.schema.schema import SchemaPlan, TableSchema, plan_schema
from cdc_materializer.schema.types import outgrown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row


@dataclass(frozen=True)
class Unknown:
    """The selector of a schema that the registry does not know."""

    selector: str


@dataclass(frozen=True)
class Refused:
    """The selector of messages that are recognised and not read, and what they are (`decode.refusals`)."""

    selector: str
    reason: str


#: What is known of a selector; None where nothing reads it, nobody knows why.
Found = Writer | Unknown | Refused | None


@dataclass(frozen=True)
class Decoders:
    """The writers of a batch and the table that they describe together.

    Attributes:
        writers: the decoders.
        plan: the mirror's columns, masked ones as they are stored.
        partial: the columns that messages may leave out.
        folded: the columns that are folded: the mirror's, and unmasked twins of those that rules see so.
        lookup: where the writers were found.
        outgrown: the types that columns of the mirror would have, were it made anew for these writers, by their names.
        kept: the types that the contract declares, of columns that the mirror has in a type of another kind.
        described: the columns of each writer, unmasked, in the order of their first messages.
    """

    writers: Writers
    plan: SchemaPlan
    partial: Partial
    folded: TableSchema
    lookup: Lookup
    outgrown: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    described: tuple[TableSchema, ...] = ()

    def folded_with(self, past: Decoders) -> TableSchema:
        """The columns that are folded where messages of the past are, whose writers may have sent other types.

        The mirror's own types have these behind them, but of an unmasked twin no table tells what it has been.
        """
        return self.lookup.options.masks.with_plain(self.plan.target, (*past.described, *self.described))

    @property
    def make_a_table(self) -> bool:
        """Whether the writers tell what a mirror needs: columns, and a key among them."""
        return bool(self.plan.target.columns and self.plan.target.key)


@dataclass(frozen=True)
class Lookup:
    """Where writers are found, by name in a registry or by column in a contract; the table now; its topics.

    Of a table that is not there yet, `told` is what the messages ahead of the first without a schema make of it. What
    the registry does not know is not asked for again: a lookup, and what is made of it, is one batch's.
    """

    registry: Registry | None
    contract: Contract | None
    options: Options
    current: TableSchema | None
    topics: tuple[str, ...] = ()
    told: TableSchema | None = None
    _missed: set[SchemaName] = field(default_factory=set, compare=False, repr=False)

    def registered(self, side: str, name: SchemaName) -> RegisteredSchema | None:
        """The schema of a key or value by its name; None where no registry knows it.

        Raises:
            RegistryUnavailable: the registry cannot be asked.
        """
        if name.kind == "fingerprint":
            # It is no address; the subject is the one that Confluent's serializers choose by default.
            named = [replace(name, subject=f"{topic}-{side}") for topic in self.topics]
            return next((found for one in named if (found := self._schema(one)) is not None), None)
        return self._schema(name)

    def _schema(self, name: SchemaName) -> RegisteredSchema | None:
        found = self.registry.schema(name) if self.registry is not None and name not in self._missed else None
        if found is None:
            self._missed.add(name)
        return found

    @property
    def found(self) -> list[str]:
        """The selectors of schemas that the process has, so that nobody is asked for them."""
        # Taken at once: other tables look up theirs meanwhile.
        return [str(name) for name in tuple(self.registry.found)] if self.registry is not None else []

    def is_unknown(self, side: str, selector: str) -> bool:
        """Whether a selector names a schema that the registry does not know."""
        name = SchemaName.parse(selector)
        return name is not None and name.is_lookup and self.registered(side, name) is None


def find_decoders(read: DataFrame, lookup: Lookup, turn: int | None = None, *, may_be_blind: bool = False) -> Decoders:
    """Look up the writers that the messages name, and plan the table for them.

    Reads one small row a distinct writer to the driver. Writers come in the order of their first messages, so that a
    table's types do not depend on how the log is cut. Of messages with MAY_WAIT not all are looked up:
    with a `turn` those that it draws (`selectors_of`). With `may_be_blind` all of them may need a registry that is not
    there.

    Raises:
        ConfigError: all messages need a registry, and there is none.
        RegistryUnavailable: a schema is needed and the registry cannot be asked.
        SchemaRefused: no table can hold what the messages say.
        ContractInvalid: it masks a column of the key, the former name of one, or probably not the one that it means.
    """
    rows = selectors_of(as_told(read, lookup.options), lookup, turn)
    return decoders_of(rows, lookup, may_be_blind=may_be_blind)


def decoders_of(rows: Sequence[Row], lookup: Lookup, *, may_be_blind: bool = False) -> Decoders:
    """The same, from the distinct pairs of `value_writer` and `key_writer` with `value_block` and `key_block`.

    They come in the order of their first messages; `last` is the time, offset and partition of their last one. With
    `may_be_blind` all of them may need a registry that is not there.
    """
    check_declared(lookup.options, lookup.contract, ", ".join(lookup.topics))
    lookup = _with_told(rows, lookup)
    values = with_unsigned(_writers("value", rows, lookup), lookup)
    keys = with_signs(_writers("key", rows, lookup), values, rows, lookup)
    as_sent, sent = (values, keys), [(values.get(row["value_writer"]), keys.get(row["key_writer"])) for row in rows]
    readings = Declared.of(lookup, sent)
    readings.check([found for found in values.values() if isinstance(found, Writer)], ", ".join(lookup.topics))
    opened = Opened.of(lookup, readings.key)
    values, keys = read_in_order(rows, *as_sent, opened, readings)
    both = (*values.values(), *keys.values())
    writers = Writers(
        values=tuple(found for found in values.values() if isinstance(found, Writer)),
        keys=tuple(found for found in keys.values() if isinstance(found, Writer)),
        unknown=tuple(found.selector for found in both if isinstance(found, Unknown)),
        refused=tuple((found.selector, found.reason) for found in both if isinstance(found, Refused)),
        known_values=_known(values),
        known_keys=_known(keys),
        format=lookup.options.format,
    )
    pairs = [(values.get(row["value_writer"]), keys.get(row["key_writer"])) for row in rows]
    is_blind = lookup.registry is None and writers.unknown and not may_be_blind
    if is_blind and not any(_is_read(row, *pair, lookup.options) for row, pair in zip(rows, pairs, strict=True)):
        what = "The topic's messages name schemas by id, and no registry is configured."
        raise ConfigError(what, ADD_REGISTRY)
    described, masks = _described(pairs, lookup), lookup.options.masks
    asked, asked_open = Declared.of(lookup, sent, anew=True), Opened.of(lookup, readings.key, anew=True)
    anew, _ = read_in_order(rows, made_anew(as_sent[0], lookup), as_sent[1], asked_open, asked)
    last = _described(_by_last_message(rows, anew, keys), lookup)
    current = masks.stored(lookup.current) if lookup.current is not None else None
    evolution = lookup.options.evolution
    plan = plan_schema(current, [masks.written(writer) for writer in described], evolution, _comments(last))
    _check_key(plan.target, lookup)
    names = {column.name: None for schema in (*described, plan.target) for column in schema.columns}
    masks.check_renamed(evolution.renames)
    masks.check(", ".join(lookup.topics), names, [name for schema in (*described, plan.target) for name in schema.key])
    folded = masks.with_plain(plan.target, described)
    partial = _partial(writers, folded, lookup.options)
    kept = readings.kept | opened.kept
    grown = _outgrown(lookup, [masks.written(writer) for writer in last], kept)
    return Decoders(writers, plan, partial, folded, lookup, grown, kept, tuple(described))


def _known(found: Mapping[str, Found]) -> tuple[str, ...]:
    return tuple(name for name, one in found.items() if not isinstance(one, Unknown))


def _check_key(target: TableSchema, lookup: Lookup) -> None:
    """Raise SchemaRefused where a configured key has a column that the messages do not."""
    unknown = [name for name in lookup.options.key if name not in target.types]
    if target.columns and unknown:
        names, topics = shown(", ".join(unknown)), ", ".join(lookup.topics)
        what = f"`key:` names what no message of {topics} has, in its value or in a key that can be read: {names}."
        raise SchemaRefused(what, "Name columns that the messages have, or mend what keeps their keys from being read.")


def _is_read(row: Row, value: Found, key: Found, options: Options) -> bool:
    """Whether a message of these writers is read: its value, its key, or both, as far as they are needed."""
    if options.key and isinstance(value, Writer):
        return True
    sides = ((row["value_writer"], value), (row["key_writer"], key))
    told = [found for selector, found in sides if selector is not None]
    return bool(told) and all(isinstance(found, Writer) for found in told)


def _by_last_message(
    rows: Sequence[Row], values: Mapping[str, Found], keys: Mapping[str, Found]
) -> list[tuple[Found, Found]]:
    """The pairs of writers in the order of their last messages, so that comments do not depend on the log's cut."""
    newest = sorted(rows, key=lambda row: tuple(row["last"]))
    return [(values.get(row["value_writer"]), keys.get(row["key_writer"])) for row in newest]


def _outgrown(lookup: Lookup, last: Sequence[TableSchema], kept: Mapping[str, str]) -> dict[str, str]:
    """What the columns of the mirror would become, were it made for writers that come in the order of last messages.

    Those that the contract declares as another kind get that one, also where their own type would hold such values: an
    integer does MySQL's booleans.
    """
    if lookup.current is None or lookup.options.evolution.new_columns:
        return {}
    sent: dict[str, list[str]] = {}
    for column in (column for writer in last for column in writer.columns):
        sent.setdefault(column.name, []).append(column.type)
    columns = [column for column in lookup.current.columns if column.name in sent.keys() - {*lookup.current.key}]
    wanted = {one.name: outgrown(one.type, sent[one.name], retyped=one.retyped) or one.type for one in columns}
    wanted |= {name: ddl for name, ddl in kept.items() if name in wanted and kind_of(wanted[name]) is not kind_of(ddl)}
    return {one.name: wanted[one.name] for one in columns if wanted[one.name] != one.type}


def _comments(described: Sequence[TableSchema]) -> dict[str, str]:
    """The last comment of each column that has one."""
    return {column.name: column.doc for schema in described for column in schema.columns if column.doc}


def _with_told(rows: Sequence[Row], lookup: Lookup) -> Lookup:
    """With what reads JSON without a schema where the batch makes the table: what is ahead, as in a batch behind it."""
    first = next((at for at, row in enumerate(rows) if PLAIN_JSON in {row["value_writer"], row["key_writer"]}), 0)
    if not first or lookup.current is not None or lookup.contract is not None:
        return lookup
    ahead = decoders_of(rows[:first], lookup, may_be_blind=True)
    return replace(lookup, told=ahead.plan.target) if ahead.make_a_table else lookup


def _writers(side: str, rows: Sequence[Row], lookup: Lookup) -> dict[str, Found]:
    """What is known of each selector of one side; only some have a schema block."""
    blocks = {row[f"{side}_writer"]: row[f"{side}_block"] for row in rows}
    told = {name: block for name, block in blocks.items() if name is not None}
    return {name: Unknown(name) if name == UNASKED else _writer(side, name, told[name], lookup) for name in told}


def _described(pairs: Sequence[tuple[Found, Found]], lookup: Lookup) -> list[TableSchema]:
    """What the writers of changes say of the table, columns that only the key has last (design §4.4).

    Heartbeats and the like have keys of their own, which identify no row.
    """
    described, options = [], lookup.options
    for value, key in pairs:
        if isinstance(value, Writer) and options.row(value) is not None:
            row = table_schema(value, options)
            described.append(row)
            # A key that is one value may be written in another type than the column that the row has.
            is_told = isinstance(key, Writer) and key.bare and set(options.key) <= row.types.keys()
            described += [key_schema(key, options)] if isinstance(key, Writer) and not is_told else []
    described = [preferred(schema, lookup) for schema in described]
    if options.shard is not None:
        return [options.shard.within(schema) for schema in described]
    return described


def _writer(side: str, name: str, block: str | None, lookup: Lookup) -> Found:
    try:
        found: Found = None
        named = SchemaName.parse(name)
        if named is not None:
            found = _registered(side, named, lookup)
        elif block is not None:
            found = block_writer(name, block, _bare(side, lookup))
        elif name == PLAIN_JSON:
            found = declared_writer(side, lookup)
        elif name.startswith(OWN_JSON):
            found = _own_writer(name, lookup.options)
        elif name in UNREAD:
            found = Refused(name, UNREAD[name])
        if isinstance(found, Writer):
            if side == "value" and lookup.options.encoding not in (None, found.form):
                return None
            found = of_format(found, lookup)
            refused = _refused(found, lookup.options) if side == "value" else None
            if refused is not None:
                return Refused(name, refused)
            _check(side, found, lookup.options)
    except WireSchemaInvalid:
        # The messages are held as UNDECODABLE one by one, and what is wrong with the schema is the producer's to mend.
        return None
    return found


def _own_writer(name: str, options: Options) -> Writer | Refused:
    """The decoder of JSON without a schema that the format itself has told from the rest."""
    own = name.removeprefix(OWN_JSON)
    return Refused(name, own) if own in REFUSALS else Writer(name, "json", options.format.other_types()[own])


def _refused(writer: Writer, options: Options) -> str | None:
    """What values of a schema are that are not read though it can be; None for others."""
    format_ = options.format
    if is_cloud_event(frozenset(dict(writer.wire.fields))):
        return CLOUD_EVENTS
    row = options.row(writer)
    if row is not None and has_cells(row):
        return CELLS
    is_read = not format_.needs_contract or row is not None or format_.is_other(writer.wire)
    return None if is_read else WITH_SCHEMA


def _check(side: str, writer: Writer, options: Options) -> None:
    if side == "value":
        check_readable(writer, options)
    else:
        # A column of the key may be called `op`, and makes no envelope of it.
        key_schema(writer, replace(options, key=()))


def _registered(side: str, name: SchemaName, lookup: Lookup) -> Found:
    if not name.is_lookup:
        return Refused(ENCODING, AVRO_JSON)
    found = lookup.registered(side, name)
    if found is None:
        return Unknown(str(name))
    if found.kind == "PROTOBUF":
        exact = None if side == "key" else lookup.options.key_names
        return protobuf_writer(str(name), found.text, name.index, exact)
    return (json_writer if found.kind == "JSON" else avro_writer)(str(name), found.text, _bare(side, lookup))


def _bare(side: str, lookup: Lookup) -> str | None:
    """What a schema's one value is called that is no record: of a key, the column that it is."""
    return bare_column(lookup.options) if side == "key" else None


def _partial(writers: Writers, target: TableSchema, options: Options) -> Partial:
    """The columns that some writer lacks, or whose values a writer may mark as unknown or leave out of updates."""
    absent: dict[str, None] = {}
    unavailable: dict[str, None] = {}
    for writer in writers.changes:
        row = options.row(writer)
        reader = options.reader(writer)
        for column in (options.shard.without(target) if options.shard is not None else target).columns:
            mask = options.masks.of(column.beside or column.name)
            if mask is not None and (mask.hides_all or column.beside is not None):
                continue
            told = told_names(row, column) if row is not None else ()
            kind = row.get(told[0]) if row is not None and told else None
            reading = reader.read(kind) if kind is not None else None
            if reading is None or (writer.is_plain and not options.format.needs_contract):
                absent[column.name] = None
            may_lack = reading is not None and (reading.unavailable is not None or reading.absent is not None)
            if may_lack or (reading is not None and options.format.leaves_out(writer)):
                # A change of key does not know the values that it leaves out: they are in the old key's row.
                unavailable[column.name] = None
    return Partial(tuple(absent), tuple(unavailable), any(map(options.format.tells_events, writers.changes)))
