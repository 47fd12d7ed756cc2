"""A golden case's readable data to a recorded topic and its schemas. `README.md` here describes the files."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from cdc_materializer.decode.naming import MAGIC_ID
from cdc_materializer.testing import (
    EPOCH,
    Message,
    TopicBuilder,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.cases.case import Case
from tests.cases.columns import ColumnType, avro_types, connect_types, types_of
from tests.cases.framing import Framed, framed_avro, framed_protobuf
from tests.cases.protobuf import proto_bytes, proto_name, proto_text

Row = Mapping[str, Any]
#: Fields of `source` and `transaction` that only some connectors have and that are neither numbers nor text.
_OTHER_FIELDS = {"transaction_rank": "optional decimal(38,0)"}


def _with_aliases(schema: Any, aliases: Mapping[str, Sequence[str]]) -> Any:  # noqa: ANN401 - JSON
    """An Avro schema whose fields of some names say which names they had."""
    if isinstance(schema, list):
        return [_with_aliases(part, aliases) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _with_aliases(part, aliases) for name, part in schema.items()}
    is_field = "type" in schema and "fields" not in schema and schema.get("name") in aliases
    return {**found, "aliases": list(aliases[schema["name"]])} if is_field else found


class Recorder:
    """Encodes the messages of one case."""

    def __init__(self, case: Case, topic: str) -> None:
        """Take the case and the topic that its messages go to."""
        self._form = case.data.get("encoding", "json-schema")
        self._numbers = False
        self._nullables = case.data.get("nullables", "optional")
        self._topic = topic
        self._key = types_of(case.data["key"])
        columns = case.data.get("schemas") or {1: case.data["columns"]}
        self._columns = {version: types_of(one) for version, one in columns.items()}
        self._ids = case.number * 100
        self._first = next(iter(self._columns))
        self._source = types_of(case.data["source"]) if "source" in case.data else None
        # In JSON each message has its schema with it; in Avro all fields that some message has are in one.
        self._more = _more_fields(case) if "avro" in case.data.get("also", []) else {}
        self._builders: dict[str, TopicBuilder] = {}
        self._sent = 0
        #: Where each message of the step went.
        self._went: list[TopicBuilder] = []
        self.unregistered = set(case.data.get("unregistered", []))
        #: By whose number the registry has another one's schema.
        self.replaced: Mapping[int, int] = {}
        self._others: dict[str, tuple[int, dict[str, Any]]] = {}
        self._other_kinds: dict[int, dict[str, Any]] = case.data.get("other_schemas", {})
        self._framing = case.data.get("framing", "id")
        self._headers: list[tuple[str, bytes | None]] = []
        self._rows = case.data.get("values") == "rows"
        self._aliases: dict[int, dict[str, list[str]]] = case.data.get("aliases", {})

    def schemas(self) -> dict[int, dict[str, Any]]:
        """The schemas that the registry knows by now, by id."""
        if self._form != "avro":
            return {}
        known = {self._ids + 90 + version: self._avro_key(version) for version in range(10)}
        known |= dict(self._others.values())
        for version in self._columns:
            if version not in self.unregistered:
                columns = self._columns[self.replaced.get(version, version)]
                schema = self._row_schema(columns) if self._rows else self._avro_schema(columns)
                known[self._ids + version] = _with_aliases(schema, self._aliases.get(version, {}))
        return known

    def other_schemas(self) -> dict[int, dict[str, Any]]:
        """The registry's schemas of other kinds than Avro, by id."""
        found = {self._ids + number: schema for number, schema in self._other_kinds.items()}
        if self._form == "protobuf":
            texts = {self._ids + 90: self._proto(self._connect_key())}
            for version, columns in self._columns.items():
                if version not in self.unregistered:
                    texts[self._ids + version] = self._proto(self._connect_schema(columns))
            found |= {number: {"kind": "PROTOBUF", "schema": text} for number, text in texts.items()}
        return found

    def begin_again(self) -> None:
        """Go on with a topic of that name which was made again: its offsets start anew."""
        self._builders.clear()

    def messages(self) -> list[Message]:
        """All that its topics have."""
        return [message for builder in self._builders.values() for message in builder.messages]

    def forget(self, count: int) -> None:
        """Lose the oldest messages, as a topic does whose time to keep them is over."""
        for builder in self._builders.values():
            del builder.messages[:count]

    def add(self, message: Mapping[str, Any]) -> None:
        """Append a message as the case describes it."""
        columns = self._columns[message.get("schema", self._first)]
        key = self._key_of(message)
        self._numbers = message.get("decimals", "bytes") == "numbers"
        if "skip" in message:
            self._builder(message).skip(message["skip"], partition=message.get("partition", 0))
            return
        self._headers = [(name, str(text).encode()) for name, text in message.get("headers", {}).items()]
        is_timed = not {"topic", "written"}.isdisjoint(message)
        self._builder(message).add(
            _replaced(_damaged(self._encoded_key(message, key), message.get("append_key", ""), 0), message),
            _replaced(
                _damaged(
                    self._value(message, columns, key, 100 * (self._sent + 1)),
                    message.get("append", ""),
                    message.get("cut_off", 0),
                ),
                message,
            ),
            partition=message.get("partition", 0),
            # One clock for all topics.
            timestamp=EPOCH + timedelta(milliseconds=message.get("written", self._sent)) if is_timed else None,
            headers=self._headers or None,
        )
        self._sent += 1
        self._went.append(self._builder(message))

    def _connect_key(self) -> dict[str, Any]:
        return connect_key_schema(self._topic, connect_types(self._key))

    def _proto(self, schema: Mapping[str, Any]) -> str:
        return proto_text(schema, self._nullables)

    def _in_protobuf(
        self, side: str, message: Mapping[str, Any], number: int, schema: Mapping[str, Any], datum: Row
    ) -> bytes:
        octets = proto_bytes(self._proto(schema), schema, datum)
        framing, name = message.get("framing", self._framing), proto_name(schema).rpartition(".")[2]
        return self._with_headers(framed_protobuf(framing, side, number, octets, name))

    def _framed(self, side: str, message: Mapping[str, Any], number: int, schema: dict[str, Any], datum: Any) -> bytes:  # noqa: ANN401 - JSON
        return self._with_headers(framed_avro(message.get("framing", self._framing), side, number, schema, datum))

    def _with_headers(self, framed: Framed) -> bytes:
        octets, headers = framed
        self._headers += headers
        return octets

    def begin_step(self) -> None:
        """Begin a step: what is repeated is what was added since."""
        self._went = []

    def repeat(self) -> None:
        """Append the step's messages once more, each to its topic, as a connector does after a crash."""
        for builder in dict.fromkeys(self._went):
            for message in builder.messages[-self._went.count(builder) :]:
                builder.add(message.key, message.value, partition=message.partition, headers=message.headers)

    def write(self, folder: Path) -> None:
        """Write the topic, or the topics, into a folder."""
        for builder in self._builders.values() or (TopicBuilder(self._topic),):
            builder.write(folder)

    def _builder(self, message: Mapping[str, Any]) -> TopicBuilder:
        """The topic that a message goes to: the case's, or one of its several."""
        topic = f"{self._topic}.{message['topic']}" if "topic" in message else self._topic
        return self._builders.setdefault(topic, TopicBuilder(topic))

    def _avro_schema(self, columns: Mapping[str, ColumnType]) -> dict[str, Any]:
        schema = avro_envelope_schema(self._topic, avro_types(columns))
        for field in schema["fields"] if self._source is not None else ():
            if field["name"] == "source":
                fields = [{"name": name, "type": kind} for name, kind in avro_types(self._source or {}).items()]
                field["type"] = {**field["type"], "fields": fields}
        for field in schema["fields"] if self._more else ():
            if field["name"] in self._more:
                record = field["type"][-1] if isinstance(field["type"], list) else field["type"]
                known = {one["name"] for one in record["fields"]}
                more = avro_types(self._more[field["name"]])
                record["fields"] += [
                    {"name": name, "type": kind, "default": None} for name, kind in more.items() if name not in known
                ]
        return schema

    def _connect_schema(self, columns: Mapping[str, ColumnType]) -> dict[str, Any]:
        schema = connect_envelope_schema(self._topic, connect_types(columns))
        for field in schema["fields"] if self._source is not None else ():
            if field["field"] == "source":
                field["fields"] = [{**kind, "field": name} for name, kind in connect_types(self._source or {}).items()]
        return schema

    def _key_of(self, message: Mapping[str, Any]) -> Row | None:
        if "key" in message:
            given = message["key"]
            return given if given is None or isinstance(given, dict) else {next(iter(self._key)): given}
        row = message.get("after") or message.get("before") or message.get("row")
        return None if row is None else {name: row[name] for name in self._key}

    def _encoded_key(self, message: Mapping[str, Any], key: Row | None) -> bytes | None:
        if "key_text" in message or "key_hex" in message:
            octets = str(message.get("key_text", "")).encode() + bytes.fromhex(message.get("key_hex", ""))
            number = message.get("key_framed")
            return octets if number is None else MAGIC_ID + (self._ids + number).to_bytes(4) + octets
        if "key_record" in message:
            return self._record(message["key_record"])
        if key is None:
            return None
        datum = {name: kind.wire(key[name], self._values) for name, kind in self._key.items()}
        if self._form == "protobuf":
            return self._in_protobuf("key", message, self._ids + 90, self._connect_key(), datum)
        if self._form == "avro":
            version = message.get("key_schema", 0)
            return self._framed("key", message, self._ids + 90 + version, self._avro_key(version), datum)
        return _with_numbers(debezium_json(datum, self._connect_key() if self._wrapped else None))

    def _avro_key(self, version: int) -> dict[str, Any]:
        """The key's schema; each version has another id, and so gives a key other bytes, and differs in words only."""
        schema = avro_key_schema(self._topic, avro_types(self._key))
        return {**schema, "doc": f"version {version}"} if version else schema

    @property
    def _values(self) -> str:
        """How values are given: Protobuf takes what Avro takes."""
        if self._form == "json-schema" and self._numbers:
            return "numbers"
        return "avro" if self._form == "protobuf" else str(self._form)

    @property
    def _wrapped(self) -> bool:
        return bool(self._form == "json-schema")

    def _value(
        self, message: Mapping[str, Any], columns: dict[str, ColumnType], key: Row | None, lsn: int
    ) -> bytes | None:
        if message.get("tombstone"):
            return None
        if {"text", "hex", "json"} & message.keys():
            octets = _bytes_of(message)
            return MAGIC_ID + (self._ids + message["framed"]).to_bytes(4) + octets if "framed" in message else octets
        if "record" in message:
            return self._record(message["record"])
        return self._row(message, columns) if "row" in message else self._changed(message, columns, key, lsn)

    def _changed(self, message: Mapping[str, Any], columns: dict[str, ColumnType], key: Row | None, lsn: int) -> bytes:
        """A value that is an envelope."""
        envelope = self._envelope(message, columns, key, lsn)
        if self._form == "avro":
            version = message.get("schema", self._first)
            return self._framed("value", message, self._ids + version, self._avro_schema(columns), envelope)
        if self._form == "protobuf":
            number = self._ids + message.get("schema", self._first)
            return self._in_protobuf("value", message, number, self._connect_schema(columns), envelope)
        if not self._wrapped:
            return debezium_json(envelope)
        schema = _with_fields(self._connect_schema(columns), "source", message.get("source", {}))
        return _with_numbers(
            debezium_json(envelope, _with_fields(schema, "transaction", message.get("transaction", {})))
        )

    def _row_schema(self, columns: Mapping[str, ColumnType]) -> dict[str, Any]:
        name = f"{self._topic}.Value"
        fields = [{"name": column, "type": kind} for column, kind in avro_types(columns).items()]
        return {"type": "record", "name": name, "fields": fields, "connect.name": name}

    def _row(self, message: Mapping[str, Any], columns: dict[str, ColumnType]) -> bytes:
        """A value that is the row itself."""
        row = self._image(message["row"], columns) or {}
        if self._form == "avro":
            version = message.get("schema", self._first)
            return self._framed("value", message, self._ids + version, self._row_schema(columns), row)
        # What Connect calls the schema of a key and that of a row differ in their names alone.
        schema = {**connect_key_schema(self._topic, connect_types(columns)), "name": f"{self._topic}.Value"}
        return debezium_json(row, schema if self._wrapped else None)

    def _envelope(
        self, message: Mapping[str, Any], columns: dict[str, ColumnType], key: Row | None, lsn: int
    ) -> dict[str, Any]:
        op = message["op"]
        before, after = message.get("before"), message.get("after")
        if op == "d" and before is None and key is not None:
            before = {name: kind.padding() for name, kind in columns.items()} | dict(key)
        place = {name: message[name] for name in ("lsn", "commit_lsn", "ts_ms", "snapshot") if name in message}
        if op == "r":
            place.setdefault("snapshot", "true")
        images = (self._image(before, columns), self._image(after, columns))
        envelope = debezium_envelope(op, *images, **{"lsn": lsn, **place})
        envelope["ts_ms"] = message.get("sent_ms", envelope["ts_ms"])
        envelope["source"] |= message.get("source", {})
        if self._source is not None:
            envelope["source"] = {name: envelope["source"].get(name) for name in self._source}
        block = message.get("transaction")
        if block is not None:
            kinds = {name: ColumnType.parse(kind) for name, kind in _OTHER_FIELDS.items()}
            block = {name: kinds[name].wire(v, self._form) if name in kinds else v for name, v in block.items()}
        return envelope | {"transaction": block}

    def _image(self, row: Row | None, columns: dict[str, ColumnType]) -> dict[str, Any] | None:
        if row is None:
            return None
        unknown = set(row) - set(columns)
        assert not unknown, f"columns {sorted(unknown)} are not in the schema of the message"
        if self._form == "json-plain":
            return {name: columns[name].wire(value, self._form) for name, value in row.items()}
        return {name: kind.wire(row.get(name), self._values) for name, kind in columns.items()}

    def _record(self, record: Mapping[str, Any]) -> bytes:
        """A message that is no change: `{name, columns, values}`, in the case's encoding, always with its schema."""
        columns = types_of(record["columns"])
        values = {name: kind.wire(record["values"].get(name), self._form) for name, kind in columns.items()}
        if self._form == "avro":
            fields = [{"name": name, "type": kind} for name, kind in avro_types(columns).items()]
            schema = {"type": "record", "name": record["name"], "fields": fields, "connect.name": record["name"]}
            number, _ = self._others.setdefault(record["name"], (self._ids + 50 + len(self._others), schema))
            return confluent_avro(number, schema, values)
        fields = [{**kind.connect(), "field": name} for name, kind in columns.items()]
        schema = {"type": "struct", "fields": fields, "optional": False, "name": record["name"]}
        return debezium_json(values, schema)


def _bytes_of(message: Mapping[str, Any]) -> bytes:
    """The bytes of a message that a case gives itself, in one of three ways."""
    if "hex" in message:
        return bytes.fromhex(message["hex"])
    text = message["text"] if "text" in message else json.dumps(message["json"], ensure_ascii=False)
    return str(text).encode()


def _damaged(octets: bytes | None, more: str, less: int) -> bytes | None:
    """Bytes with some behind them, in hexadecimal, or some cut off their end."""
    return octets if octets is None else octets[: len(octets) - less] + bytes.fromhex(more)


def _replaced(octets: bytes | None, message: Mapping[str, Any]) -> bytes | None:
    """Bytes in which some are others: `replace: {zz: "c32f"}`, a text and the hexadecimal bytes in its place."""
    for text, others in message.get("replace", {}).items():
        octets = octets if octets is None else octets.replace(text.encode(), bytes.fromhex(others))
    return octets


def _more_fields(case: Case) -> dict[str, dict[str, ColumnType]]:
    """The fields of `source` and `transaction` that only some connectors have, of all messages of a case."""
    found: dict[str, dict[str, ColumnType]] = {"source": {}, "transaction": {}}
    for message in (message for step in case.steps for message in step.get("messages", [])):
        for block, fields in found.items():
            fields |= {name: _other_field(name, value) for name, value in message.get(block, {}).items()}
    return found


def _other_field(name: str, value: object) -> ColumnType:
    return ColumnType.parse("optional int64" if isinstance(value, int) else _OTHER_FIELDS.get(name, "optional string"))


def _with_numbers(text: bytes) -> bytes:
    """JSON whose decimals are numbers, of any number of digits; `json` would write them as floating-point ones."""
    return re.sub(rb'"#([-+.0-9E]+)#"', rb"\1", text)


def _with_fields(schema: dict[str, Any], name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """An envelope's schema whose block (`source`, `transaction`) has the fields of another connector too."""
    block = next(field for field in schema["fields"] if field["field"] == name)
    known = {field["field"] for field in block["fields"]}
    for field, value in values.items():
        if field not in known:
            block["fields"].append({**_other_field(field, value).connect(), "field": field})
    return schema
