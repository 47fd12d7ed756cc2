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

from cdc_materializer.changes.envelope import is_other, row_of
from cdc_materializer.decode.columns import column_type
from cdc_materializer.decode.json_schema import parse_json_schema
from cdc_materializer.decode.naming import ID_BYTES, SchemaName, named_in_bytes
from cdc_materializer.decode.refusals import is_cloud_event
from cdc_materializer.decode.wire import WireSchemaInvalid, WireType, parse_avro, parse_connect
from cdc_materializer.errors import SchemaRefused, UsageError
from cdc_materializer.registry import Registry
from cdc_materializer.schema import Column, Misfit, TableSchema, plan_schema
from cdc_materializer.source import Message

# Fields that give a format without schemas away; of those that this version does not read.
_OTHER_FORMATS: tuple[tuple[str, frozenset[str]], ...] = (
    ("Maxwell's format", frozenset({"database", "table", "type", "data"})),
    ("Canal's format", frozenset({"isDdl", "data"})),
    ("the format of AWS DMS", frozenset({"data", "metadata"})),
    ("GoldenGate's format", frozenset({"op_type", "op_ts"})),
    ("OpenCDC records", frozenset({"operation", "payload", "position"})),
)
_NO_TYPES = (
    "Debezium's envelope in JSON without a schema, so nothing tells the types: write a contract with them, "
    "or set `value.converter.schemas.enable`"
)


@dataclass(frozen=True)
class Recognised:
    """What a topic's messages tell.

    Attributes:
        topic: its name.
        why: what its format was told by, in words.
        encoding: `avro` or `json`; None where nothing could be read.
        rows: the rows of its envelopes, one a writer, in the order of their first messages; the newest is `newest`.
        newest: the row of the last message that has one.
        schema: the table that a run would make.
        misfits: columns whose type changed so that the table cannot follow.
        reason: why no table can be made of it; None where one can.
        remarks: what else was noticed.
    """

    topic: str
    why: str = ""
    encoding: str | None = None
    rows: tuple[WireType, ...] = ()
    newest: WireType | None = None
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
    changes = [(wire, message) for wire, message in read if isinstance(wire, WireType) and row_of(wire) is not None]
    if not changes:
        return replace(found, reason=_why_not([wire for wire, _ in read]))
    value = changes[0][1].value or b""
    name, begin = named_in_bytes(value, writers.id_bytes)
    avro = name is not None and value[begin : begin + 1] != b"{"
    rows = [row for wire, _ in changes if (row := row_of(wire)) is not None]
    found = replace(
        found,
        why="Debezium's envelope in " + ("Avro, by the registry's schema" if avro else "JSON with its schema"),
        encoding="avro" if avro else "json",
        rows=tuple(_distinct(rows)),
        newest=rows[-1],
        remarks=tuple(_remarks(read)),
    )
    return _with_table(found, [(wire, writers.of(message.key)) for wire, message in changes])


def _with_table(found: Recognised, changes: Sequence[tuple[WireType, WireType | str | None]]) -> Recognised:
    """Add the table that the writers of values and keys describe together, or why there is none."""
    keys = [key for _, key in changes if isinstance(key, WireType)]
    if not keys:
        refused = next((key for _, key in changes if isinstance(key, str)), None)
        reason = f"its keys cannot be read ({refused})" if refused else "its messages have no keys"
        return replace(found, reason=f"{reason}: name the columns that identify a row with `key:`")
    described: list[TableSchema] = []
    for value, key in changes:
        row = row_of(value)
        described += [TableSchema(_columns(row))] if row is not None else []
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

    def of(self, octets: bytes | None) -> WireType | str | None:
        """The schema of a key or value; None for none at all."""
        if octets is None:
            return None
        name, _ = named_in_bytes(octets, self.id_bytes)
        if name is not None:
            if name not in self._registered:
                self._registered[name] = self._look_up(name)
            return self._registered[name]
        return self._json(octets)

    def _look_up(self, name: SchemaName) -> WireType | str:
        if self._registry is None:
            return "its messages name schemas by id, and no registry was given"
        found = self._registry.schema(name)
        if found is None:
            return "the registry does not know the schema that its messages name"
        if found.kind == "PROTOBUF":
            return "its messages are written in Protobuf, which this version does not read"
        return _record(lambda: (parse_json_schema if found.kind == "JSON" else parse_avro)(found.text))

    def _json(self, octets: bytes) -> WireType | str:
        try:
            found = json.loads(octets)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            return "its messages begin like nothing that is known: neither Avro with a registry's id nor a JSON object"
        block = found.get("schema")
        if not isinstance(block, Mapping) or "payload" not in found:
            return _plain(found)
        text = json.dumps(block)
        if text not in self._blocks:
            self._blocks[text] = _record(lambda: parse_connect(block))
        return self._blocks[text]


def _record(parse: Any) -> WireType | str:  # noqa: ANN401 - a function without arguments
    """Parse a schema and see that a table can have its columns."""
    try:
        wire: WireType = parse()
        columns = row_of(wire) if wire.get("op") is not None else wire
        if wire.literal == "record" and columns is not None and not is_other(wire):
            _columns(columns)
    except WireSchemaInvalid as error:
        return f"a schema that no table can be made from: {error}"
    return wire if wire.literal == "record" else "a schema that is no record of columns"


def _plain(found: Mapping[str, Any]) -> str:
    """What a JSON object without a schema is, and that it cannot be read."""
    if is_cloud_event(frozenset(found)):
        return "they are CloudEvents, which this version does not read"
    if "op" in found and ("after" in found or "before" in found):
        return _NO_TYPES
    for name, fields in _OTHER_FORMATS:
        if fields <= found.keys():
            return f"it looks like {name}, which this version does not read"
    return "JSON objects without a schema, which look like rows without an envelope; this version does not read them"


def _why_not(read: Sequence[WireType | str | None]) -> str:
    """Why none of the values is a change, by what most of them are."""
    if not read:
        return "it has only tombstones so far, so nothing tells its columns"
    reasons = Counter(wire if isinstance(wire, str) else _shape(wire) for wire in read)
    return reasons.most_common(1)[0][0]


def _shape(wire: WireType | None) -> str:
    if wire is not None and is_other(wire):
        return "its messages change no row of a table (heartbeats, transaction marks, schema changes and the like)"
    if wire is not None and wire.get("op") is not None:
        return "its rows are documents without columns, as MongoDB's are; this version does not read them"
    return "rows without an envelope (flattened Debezium, or an upsert topic); this version does not read them"


def _remarks(read: Sequence[tuple[WireType | str | None, Message]]) -> list[str]:
    """Which of the values that were looked at a run would hold."""
    refused = [wire for wire, _ in read if isinstance(wire, str)]
    if not refused:
        return []
    reason = Counter(refused).most_common(1)[0][0]
    return [f"{len(refused)} of {len(read)} messages that were looked at will be held: {reason}"]
