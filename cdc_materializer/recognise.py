"""What a few messages of a topic tell of it: its format, its writers, the table that they describe; without Spark.

The table is the one that a run would make of the same messages (see `decoders`): writers in the order of their first
messages, types as in `decode.columns`. Whoever asks looks at both ends of a topic only, so a run may find more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cdc_materializer.changes.envelope import is_other
from cdc_materializer.changes.formats import all_formats, find, row_of
from cdc_materializer.changes.strangers import stranger
from cdc_materializer.decode.columns import column_type, with_moments
from cdc_materializer.decode.json_schema import parse_json_schema
from cdc_materializer.decode.naming import ID_BYTES, SchemaName, named_in_bytes
from cdc_materializer.decode.protobuf import translation
from cdc_materializer.decode.refusals import is_cloud_event, is_ext_json
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType, parse_avro, parse_connect
from cdc_materializer.errors import SchemaRefused, UsageError
from cdc_materializer.registry import Registry
from cdc_materializer.schema.schema import Column, Misfit, TableSchema, plan_schema
from cdc_materializer.source import Message

_CLOUD_EVENTS = "they are CloudEvents, which this version does not read"
_EXT_JSON = "they name their schemas by `schemaId` beside them, which this version does not read"
_ENCODINGS = {
    "avro": "Avro, by the registry's schema",
    "json": "JSON with its schema",
    "protobuf": "Protobuf, by the registry's schema",
}
_OTHER = "its messages change no row of a table (heartbeats, transaction marks, schema changes and the like)"


@dataclass(frozen=True)
class Plain:
    """A value in JSON without a schema: its fields as JSON has them."""

    fields: Mapping[str, Any]


#: Why messages that name schemas cannot be read where there is no registry.
NO_REGISTRY = "its messages name schemas by id, and no registry was given"
#: Why they cannot be read where there is one.
UNKNOWN_SCHEMA = "the registry does not know the schema that its messages name"
#: What a key or value is: its schema, the object itself where it has none, or why it cannot be read.
Read = WireType | Plain | str | None


@dataclass(frozen=True)
class Told:
    """The format of some messages.

    Attributes:
        name: the format's; None where none or several fit.
        why: what it was told by, in words.
        reason: why there is none.
    """

    name: str | None = None
    why: str = ""
    reason: str = ""


@dataclass(frozen=True)
class Recognised:
    """What a topic's messages tell.

    Attributes:
        topic: its name.
        format: its format; None where it could not be told.
        why: what its format was told by, in words.
        encoding: `avro`, `json` or `protobuf`; None where nothing could be read.
        rows: the rows of its envelopes, one a writer, in the order of their first messages; the newest is `newest`.
        newest: the row of the last message that has one.
        value: the whole value of that message.
        schema: the table that a run would make.
        misfits: columns whose type changed so that the table cannot follow.
        reason: why no table can be made of it; None where one can.
        remarks: what else was noticed.
    """

    topic: str
    format: str | None = None
    why: str = ""
    encoding: str | None = None
    rows: tuple[WireType, ...] = ()
    newest: WireType | None = None
    value: WireType | None = None
    schema: TableSchema = TableSchema(())  # noqa: RUF009 - frozen
    misfits: tuple[Misfit, ...] = ()
    reason: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def required(self) -> frozenset[str]:
        """The columns that no writer lacks or lets be null: the only ones that no row can have NULL in."""
        sure = [{name for name, kind in row.fields if not kind.optional} for row in self.rows]
        return frozenset(set.intersection(*sure)) if sure else frozenset()


def recognise(topic: str, messages: Sequence[Message], registry: Registry | None) -> Recognised:
    """Tell what a topic is from a few of its messages, in their order.

    Raises:
        RegistryUnavailable: a schema is named, and the registry cannot be asked.
    """
    found = Recognised(topic)
    if not messages:
        return replace(found, reason="it has no messages yet, so nothing tells its columns")
    writers = _Writers(registry)
    read = [(writers.of(message.value), message) for message in messages if message.value is not None]
    told = _told([value for value, _ in read])
    if told.name is None:
        return replace(found, reason=told.reason)
    format_ = find(told.name)
    found = replace(found, format=told.name, remarks=tuple(_remarks(read)))
    changes = [(wire, message) for wire, message in read if isinstance(wire, WireType) and row_of(format_, wire)]
    if not changes:
        plain = f"{told.why} in JSON without a schema"
        reason = f"{plain}, so nothing tells the types: {_how_to_type(told.name)}"
        return replace(found, why=plain, encoding="json", reason=reason)
    encoding = writers.encoding_of(changes[0][1].value or b"")
    rows = [with_moments(row, format_.moments) for wire, _ in changes if (row := row_of(format_, wire)) is not None]
    try:
        found = replace(
            found,
            why=f"{told.why} in {_ENCODINGS[encoding]}",
            encoding=encoding,
            rows=tuple(_distinct(rows)),
            newest=rows[-1],
            value=changes[-1][0],
        )
        keys = [writers.of(message.key) for _, message in changes]
        told_keys = [with_moments(key, format_.moments) if isinstance(key, WireType) else key for key in keys]
        return _with_table(found, rows, told_keys)
    except WireSchemaInvalid as error:
        return replace(found, reason=f"a schema that no table can be made from: {error}")


def told_format(messages: Sequence[Message], registry: Registry | None) -> Told:
    """Tell the format of a topic from a few of its messages; none where two fit.

    Raises:
        RegistryUnavailable: a schema is named, and the registry cannot be asked.
    """
    writers = _Writers(registry)
    return _told([writers.of(message.value) for message in messages if message.value is not None])


def _told(read: Sequence[Read]) -> Told:
    """The one format that all messages fit which fit any; one that anything fits only where no other does."""
    formats = all_formats()
    signs: dict[str, str] = {}
    fitting: list[frozenset[str]] = []
    rows: str | None = None
    for one in _distinct(read):
        wire = one if isinstance(one, WireType) else None
        value = one.fields if isinstance(one, Plain) else None
        if (wire is None and value is None) or (wire is not None and _is_debeziums(wire)):
            continue
        found = {name: why for name, format_ in formats if (why := format_.recognise(wire, value)) is not None}
        rows = next((name for name, format_ in formats if format_.is_last_resort and name in found), rows)
        own = {name: why for name, why in found.items() if not find(name).is_last_resort}
        around = stranger(wire, value) if not own else None
        if around is not None:
            return Told(reason=f"its messages have {around}; where these are columns, say `format: {rows}`")
        signs = own | signs
        fitting += [frozenset(own)] if own else []
    if not fitting:
        return Told(rows, _words(rows, "rows without anything around them")) if rows else Told(reason=_why_not(read))
    common = sorted(frozenset.intersection(*fitting))
    if len(common) == 1:
        return Told(common[0], _words(common[0], signs[common[0]]))
    if common:
        both = " and ".join(f"`{name}` ({signs[name]})" for name in common)
        return Told(reason=f"its messages fit {both}, and a guess could make a wrong table: say which with `format:`")
    several = ", ".join(f"`{name}` ({why})" for name, why in sorted(signs.items()))
    return Told(reason=f"its messages are of several formats: {several}")


def _is_debeziums(wire: WireType) -> bool:
    """Whether the schema is Debezium's own of a message that changes no row; rows may be called so too."""
    return wire.name.startswith("io.debezium.") and is_other(wire)


def _words(name: str | None, why: str) -> str:
    return f"`{name}`, by {why}," if name != "debezium" else "Debezium's envelope"


def _how_to_type(name: str) -> str:
    if name == "debezium":
        return "write a contract with them, or set `value.converter.schemas.enable`"
    return f"write a contract with them, and set `format: {name}`"


def _with_table(found: Recognised, rows: Sequence[WireType], told: Sequence[Read]) -> Recognised:
    """Add the table that the writers of values and keys describe together, or why there is none."""
    keys = [key for key in told if isinstance(key, WireType)]
    if not keys:
        refused = next((key for key in told if isinstance(key, str)), None)
        reason = f"its keys cannot be read ({refused})" if refused else "its messages have no keys"
        if any(isinstance(key, Plain) for key in told):
            reason = "its keys are in JSON without a schema"
        return replace(found, reason=f"{reason}: name the columns that identify a row with `key:`")
    described: list[TableSchema] = []
    for row, key in zip(rows, told, strict=True):
        described.append(TableSchema(_columns(row)))
        described += [TableSchema(_columns(key), tuple(dict(key.fields)))] if isinstance(key, WireType) else []
    try:
        plan = plan_schema(None, _distinct(described))
    except (SchemaRefused, UsageError) as refusal:
        return replace(found, reason=refusal.what.rstrip("."))
    return replace(found, schema=plan.target, misfits=plan.misfits)


def _columns(record: WireType) -> tuple[Column, ...]:
    return tuple(Column(name, column_type(kind), kind.doc) for name, kind in record.fields)


def _distinct(found: Iterable[Any]) -> list[Any]:
    """Each once, in the order of first appearance; schemas hold maps, so they have no hash."""
    known: list[Any] = []
    for one in found:
        if one not in known:
            known.append(one)
    return known


class _Writers:
    """The schemas that messages name or carry; what cannot be read is the reason in words."""

    def __init__(self, registry: Registry | None) -> None:
        self._registry = registry
        self.id_bytes = registry.id_bytes if registry is not None else ID_BYTES
        self._registered: dict[SchemaName, WireType | str] = {}
        self._blocks: dict[str, WireType | str] = {}

    def of(self, octets: bytes | None) -> Read:
        """The schema of a key or value; None for none at all."""
        if octets is None:
            return None
        name, _ = named_in_bytes(octets, self.id_bytes)
        if name is not None:
            if name not in self._registered:
                self._registered[name] = self._look_up(name)
            return self._registered[name]
        return self._json(octets)

    def encoding_of(self, octets: bytes) -> str:
        """How a key or value is written that could be read."""
        name, _ = named_in_bytes(octets, self.id_bytes)
        found = self._registry.schema(name) if name is not None and self._registry is not None else None
        return found.kind.lower() if found is not None else "json"

    def _look_up(self, name: SchemaName) -> WireType | str:
        if self._registry is None:
            return NO_REGISTRY
        found = self._registry.schema(name)
        if found is None:
            return UNKNOWN_SCHEMA
        if found.kind == "PROTOBUF":
            return _record(lambda: parse_avro(translation(found.text, name.index).avro))
        return _record(lambda: (parse_json_schema if found.kind == "JSON" else parse_avro)(found.text))

    def _json(self, octets: bytes) -> Read:
        try:
            found = json.loads(octets)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            return "its messages begin like nothing that is known: neither Avro with a registry's id nor a JSON object"
        block, inner = found.get("schema"), found.get("payload")
        if not isinstance(block, Mapping) or "type" not in block or "payload" not in found:
            if is_ext_json(found):
                return _EXT_JSON
            if list(found) == ["schema", "payload"] and block is None and isinstance(inner, dict):
                # So JsonConverter writes what has no schema.
                found = inner
            return _CLOUD_EVENTS if is_cloud_event(frozenset(found)) else Plain(found)
        text = json.dumps(block)
        if text not in self._blocks:
            self._blocks[text] = _record(lambda: parse_connect(block))
        return self._blocks[text]


def _record(parse: Any) -> WireType | str:  # noqa: ANN401 - a function without arguments
    """Parse a schema."""
    try:
        wire: WireType = parse()
    except WireSchemaInvalid as error:
        return f"a schema that no table can be made from: {error}"
    return wire if wire.literal == "record" else "a schema that is no record of columns"


def _why_not(read: Sequence[Read]) -> str:
    """Why none of the values is a change, by what most of them are."""
    if not read:
        return "it has only tombstones so far, so nothing tells its columns"
    reasons = Counter(one if isinstance(one, str) else _OTHER for one in read)
    return reasons.most_common(1)[0][0]


def _remarks(read: Sequence[tuple[Read, Message]]) -> list[str]:
    """Which of the values that were looked at a run would hold."""
    refused = [wire for wire, _ in read if isinstance(wire, str)]
    if not refused:
        return []
    reason = Counter(refused).most_common(1)[0][0]
    return [f"{len(refused)} of {len(read)} messages that were looked at will be held: {reason}"]
