"""A golden case's readable data to a recorded topic and its schemas. `README.md` here describes the files."""

import functools
import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fastavro.schema
import yaml

from cdc_materializer.decode.naming import LEGACY_ID_BYTES, MAGIC_GUID, MAGIC_ID, MAGIC_SINGLE_OBJECT
from cdc_materializer.testing import (
    EPOCH,
    TopicBuilder,
    avro_datum,
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.cases.protobuf import proto_bytes, proto_text

FOLDER = Path(__file__).parent
#: Ten times as fast as the one in Python, where PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Row = Mapping[str, Any]
#: Names of Connect's literal types, and the Avro types that carry them.
_AVRO = {
    "boolean": "boolean",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "bytes": "bytes",
}
#: Short names of Debezium's own types, with the literal that carries each.
_NAMED = {
    "date": ("int32", "io.debezium.time.Date"),
    "microtimestamp": ("int64", "io.debezium.time.MicroTimestamp"),
    "zonedtimestamp": ("string", "io.debezium.time.ZonedTimestamp"),
    "connectdate": ("int32", "org.apache.kafka.connect.data.Date"),
    "connecttime": ("int32", "org.apache.kafka.connect.data.Time"),
    "connecttimestamp": ("int64", "org.apache.kafka.connect.data.Timestamp"),
    "json": ("string", "io.debezium.data.Json"),
    "uuid": ("string", "io.debezium.data.Uuid"),
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
#: Fields of `source` and `transaction` that only some connectors have and that are neither numbers nor text.
_OTHER_FIELDS = {"transaction_rank": "optional decimal(38,0)"}
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_PADDING: dict[str, Any] = {"string": "", "boolean": False, "bytes": b"", "float32": 0.0, "float64": 0.0}


@dataclass(frozen=True)
class ColumnType:
    """A column's type as a case spells it: `int64`, `optional string` (may be null), `decimal(12,2)`, `date`."""

    literal: str
    optional: bool
    name: str = ""
    precision: int = 0
    scale: int = 0
    fields: "Mapping[str, ColumnType] | None" = None
    items: "ColumnType | None" = None
    default: str | None = None

    @classmethod
    def parse(cls, text: str) -> "ColumnType":
        """Read a type; KeyError for one that cases do not know."""
        text, _, default = text.partition(" default ")
        if default:
            return replace(cls.parse(text), default=default)
        plain = text.removeprefix("optional ")
        optional = plain != text
        if plain == "variabledecimal":
            scaled = {"scale": cls("int32", optional=False), "value": cls("bytes", optional=False)}
            return cls("struct", optional, _VARIABLE, fields=scaled)
        if plain.startswith("decimal("):
            precision, scale = (int(part) for part in plain.removeprefix("decimal(").rstrip(")").split(","))
            return cls("bytes", optional, _DECIMAL, precision, scale)
        if plain.startswith("struct<"):
            parts = (part.split(":") for part in plain.removeprefix("struct<").removesuffix(">").split(","))
            return cls("struct", optional, "test.Struct", fields={name: cls.parse(kind) for name, kind in parts})
        for literal in ("array", "map"):
            if plain.startswith(f"{literal}<"):
                items = plain.removeprefix(f"{literal}<").removesuffix(">")
                return cls(literal, optional, items=cls.parse(f"optional {items}"))
        literal, name = _NAMED.get(plain, (plain, ""))
        if literal not in _AVRO:
            raise KeyError(text)
        return cls(literal, optional, name)

    def connect(self) -> dict[str, Any]:
        """The type in Connect's JSON."""
        found: dict[str, Any] = {"type": self.literal.replace("float64", "double"), "optional": self.optional}
        if self.fields is not None:
            found["fields"] = [{**kind.connect(), "field": name} for name, kind in self.fields.items()]
        if self.items is not None:
            found["items" if self.literal == "array" else "values"] = self.items.connect()
            found |= {"keys": {"type": "string", "optional": False}} if self.literal == "map" else {}
        if self.name:
            found |= {"name": self.name, "version": 1}
        if self.name == _DECIMAL:
            found["parameters"] = {"scale": str(self.scale), "connect.decimal.precision": str(self.precision)}
        if self.default is not None:
            found["default"] = self.default
        return found

    def avro(self) -> Any:  # noqa: ANN401 - JSON
        """The type in Avro, as the Avro converter registers it."""
        if self.fields is not None:
            fields = [{"name": name, "type": kind.avro()} for name, kind in self.fields.items()]
            record = {"type": "record", "name": self.name, "fields": fields, "connect.name": self.name}
            return ["null", record] if self.optional else record
        if self.items is not None:
            items = self.items.avro()
            listed = {"type": self.literal, "items" if self.literal == "array" else "values": items}
            return ["null", listed] if self.optional else listed
        found: Any = _AVRO[self.literal]
        if self.name:
            found = {"type": found, "connect.name": self.name, "connect.version": 1}
        if self.name == _DECIMAL:
            found |= {"scale": self.scale, "precision": self.precision, "logicalType": "decimal"}
            found["connect.parameters"] = {"scale": str(self.scale), "connect.decimal.precision": str(self.precision)}
        if self.default is not None:
            # A default that is not null puts its type first.
            found = {**(found if isinstance(found, dict) else {"type": found}), "connect.default": self.default}
            return [found, "null"] if self.optional else found
        return ["null", found] if self.optional else found

    def padding(self) -> Any:  # noqa: ANN401 - JSON
        """What a connector writes into a `before` that it does not know (changelog-semantics §1.6)."""
        return None if self.optional else _PADDING.get(self.literal, 0)

    def wire(self, value: Any, form: str) -> Any:  # noqa: ANN401, PLR0911 - JSON; one line a type
        """A value as the encoding carries it."""
        if value is None:
            return None
        if self.name.endswith(".Date"):
            return value if isinstance(value, int) else (date.fromisoformat(str(value)) - date(1970, 1, 1)).days
        if self.name.endswith("MicroTimestamp") and not isinstance(value, int):
            since = datetime.fromisoformat(str(value)) - datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        if self.name == _VARIABLE:
            scale = -int(Decimal(value).as_tuple().exponent)
            octets = _unscaled(Decimal(value), scale)
            return {"scale": scale, "value": octets if form == "avro" else _base64(octets)}
        if self.name == _DECIMAL and form == "numbers":
            return f"#{value}#"
        if self.name == _DECIMAL:
            return Decimal(value) if form == "avro" else _base64(_unscaled(Decimal(value), self.scale))
        if self.literal == "bytes":
            octets = bytes.fromhex(value["hex"]) if isinstance(value, dict) else str(value).encode()
            return octets if form == "avro" else _base64(octets)
        if self.items is not None and self.literal == "array":
            return [self.items.wire(item, form) for item in value]
        if self.items is not None:
            return {name: self.items.wire(item, form) for name, item in value.items()}
        return value


def _unscaled(value: Decimal, scale: int) -> bytes:
    number = int(value.scaleb(scale))
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


def _base64(data: bytes) -> str:
    import base64

    return base64.b64encode(data).decode()


@dataclass(frozen=True)
class Case:
    """One folder of golden cases, read."""

    name: str
    number: int
    data: dict[str, Any]
    expected: tuple[dict[str, Any], ...]
    contract: Path | None

    @classmethod
    def load(cls, folder: Path) -> "Case":
        """Read a case's files."""
        number, _, name = folder.name.partition("_")
        expected = tuple(yaml.load_all((folder / "expected.yaml").read_text(encoding="utf-8"), _LOADER))
        contract = folder / "contract.yaml"
        data = yaml.load((folder / "case.yaml").read_text(encoding="utf-8"), _LOADER)  # noqa: S506 - a safe one
        return cls(name, int(number), data, expected, contract if contract.exists() else None)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What happens between the runs: the first messages, then each entry of `then`."""
        return [{"messages": self.data["messages"]}, *self.data.get("then", [])]

    @property
    def cut(self) -> int | None:
        """The most messages of a batch when the case also goes in small batches; None where it does not."""
        asked = self.data.get("cut_if_asked") if os.environ.get("CDCM_TESTS") == "all" else None
        return self.data.get("cut", asked)

    @property
    def registry_id(self) -> str:
        """What an id is in the registry of the case."""
        return str(self.data.get("registry_id", "confluent"))

    @property
    def stops(self) -> bool:
        """Whether a run of it fails."""
        return any(step.get("error") for step in self.expected)


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases, in order of their numbers."""
    found = [Case.load(path.parent) for path in sorted(FOLDER.glob("*/case.yaml"))]
    assert len({case.number for case in found}) == len(found), "two folders of tests/cases have one number"
    return tuple(found)


class Recorder:
    """Encodes the messages of one case."""

    def __init__(self, case: Case, topic: str) -> None:
        """Take the case and the topic that its messages go to."""
        self._form = case.data.get("encoding", "json-schema")
        self._numbers = False
        self._nullables = case.data.get("nullables", "optional")
        self._topic = topic
        self._key = _types(case.data["key"])
        columns = case.data.get("schemas") or {1: case.data["columns"]}
        self._columns = {version: _types(one) for version, one in columns.items()}
        self._ids = case.number * 100
        self._first = next(iter(self._columns))
        self._source = _types(case.data["source"]) if "source" in case.data else None
        self._builders: dict[str, TopicBuilder] = {}
        self._sent = 0
        self.unregistered = set(case.data.get("unregistered", []))
        self._others: dict[str, tuple[int, dict[str, Any]]] = {}
        self._other_kinds: dict[int, dict[str, Any]] = case.data.get("other_schemas", {})
        self._framing = case.data.get("framing", "id")
        self._headers: list[tuple[str, bytes | None]] = []
        self._rows = case.data.get("values") == "rows"

    def schemas(self) -> dict[int, dict[str, Any]]:
        """The schemas that the registry knows by now, by id."""
        if self._form != "avro":
            return {}
        known = {self._ids + 90 + version: self._avro_key(version) for version in range(10)}
        known |= dict(self._others.values())
        for version, columns in self._columns.items():
            if version not in self.unregistered:
                known[self._ids + version] = self._row_schema(columns) if self._rows else self._avro_schema(columns)
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
            timestamp=EPOCH + timedelta(milliseconds=self._sent) if "topic" in message else None,
            headers=self._headers or None,
        )
        self._sent += 1

    def _connect_key(self) -> dict[str, Any]:
        return connect_key_schema(self._topic, _connect(self._key))

    def _proto(self, schema: Mapping[str, Any]) -> str:
        return proto_text(schema, self._nullables)

    def _in_protobuf(
        self, side: str, message: Mapping[str, Any], number: int, schema: Mapping[str, Any], datum: Row
    ) -> bytes:
        """A Protobuf message that names its schema, and which message of it it is, as `framing` says."""
        octets = proto_bytes(self._proto(schema), schema, datum)
        named, index = MAGIC_ID + number.to_bytes(4), b"\0"
        match message.get("framing", self._framing):
            case "id":
                return named + index + octets
            case "guid":
                return MAGIC_GUID + guid_of(number).bytes + index + octets
            case "guid-header":
                named = MAGIC_GUID + guid_of(number).bytes
            case framing:
                assert framing == "id-header", f"cases know no framing {framing}"
        self._headers.append((f"__{side}_schema_id", named + index))
        return octets

    def _framed(self, side: str, message: Mapping[str, Any], number: int, schema: dict[str, Any], datum: Any) -> bytes:  # noqa: ANN401 - JSON
        """An Avro datum that names its schema as `framing` says, in its first bytes or in a header."""
        framing = message.get("framing", self._framing)
        octets = avro_datum(schema, datum)
        if framing == "legacy":
            return confluent_avro(number, schema, datum, id_bytes=LEGACY_ID_BYTES)
        if framing == "guid":
            return MAGIC_GUID + guid_of(number).bytes + octets
        if framing == "single-object":
            form = fastavro.schema.to_parsing_canonical_form(schema)
            named = bytes.fromhex(fastavro.schema.fingerprint(form, "CRC-64-AVRO"))
            return MAGIC_SINGLE_OBJECT + named + octets
        headers = {
            "guid-header": (f"__{side}_schema_id", MAGIC_GUID + guid_of(number).bytes),
            "id-header": (f"__{side}_schema_id", MAGIC_ID + number.to_bytes(4)),
            "content-header": (f"apicurio.{side}.contentId", number.to_bytes(8)),
            "global-header": (f"apicurio.{side}.globalId", number.to_bytes(8)),
            "json-header": (f"apicurio.{side}.encoding", b"JSON"),
        }
        if framing in headers:
            self._headers.append(headers[framing])
            return octets
        assert framing == "id", f"cases know no framing {framing}"
        return confluent_avro(number, schema, datum)

    def repeat(self, count: int) -> None:
        """Append the last so many messages once more, as a connector does after a crash."""
        for builder in self._builders.values():
            for message in builder.messages[-count:] if count else ():
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
        schema = avro_envelope_schema(self._topic, _avro(columns))
        for field in schema["fields"] if self._source is not None else ():
            if field["name"] == "source":
                fields = [{"name": name, "type": kind} for name, kind in _avro(self._source or {}).items()]
                field["type"] = {**field["type"], "fields": fields}
        return schema

    def _connect_schema(self, columns: Mapping[str, ColumnType]) -> dict[str, Any]:
        schema = connect_envelope_schema(self._topic, _connect(columns))
        for field in schema["fields"] if self._source is not None else ():
            if field["field"] == "source":
                field["fields"] = [{**kind, "field": name} for name, kind in _connect(self._source or {}).items()]
        return schema

    def _key_of(self, message: Mapping[str, Any]) -> Row | None:
        if "key" in message:
            given = message["key"]
            return given if given is None or isinstance(given, dict) else {next(iter(self._key)): given}
        row = message.get("after") or message.get("before") or message.get("row")
        return None if row is None else {name: row[name] for name in self._key}

    def _encoded_key(self, message: Mapping[str, Any], key: Row | None) -> bytes | None:
        if "key_text" in message:
            return str(message["key_text"]).encode()
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
        schema = avro_key_schema(self._topic, _avro(self._key))
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
        fields = [{"name": column, "type": kind} for column, kind in _avro(columns).items()]
        return {"type": "record", "name": name, "fields": fields, "connect.name": name}

    def _row(self, message: Mapping[str, Any], columns: dict[str, ColumnType]) -> bytes:
        """A value that is the row itself."""
        row = self._image(message["row"], columns) or {}
        if self._form == "avro":
            version = message.get("schema", self._first)
            return self._framed("value", message, self._ids + version, self._row_schema(columns), row)
        # What Connect calls the schema of a key and that of a row differ in their names alone.
        schema = {**connect_key_schema(self._topic, _connect(columns)), "name": f"{self._topic}.Value"}
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
        columns = _types(record["columns"])
        values = {name: kind.wire(record["values"].get(name), self._form) for name, kind in columns.items()}
        if self._form == "avro":
            fields = [{"name": name, "type": kind} for name, kind in _avro(columns).items()]
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


def _with_numbers(text: bytes) -> bytes:
    """JSON whose decimals are numbers, of any number of digits; `json` would write them as floating-point ones."""
    return re.sub(rb'"#([-+.0-9E]+)#"', rb"\1", text)


def _with_fields(schema: dict[str, Any], name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """An envelope's schema whose block (`source`, `transaction`) has the fields of another connector too."""
    block = next(field for field in schema["fields"] if field["field"] == name)
    known = {field["field"] for field in block["fields"]}
    for field, value in values.items():
        if field not in known:
            kind = ColumnType.parse(
                "optional int64" if isinstance(value, int) else _OTHER_FIELDS.get(field, "optional string")
            )
            block["fields"].append({**kind.connect(), "field": field})
    return schema


def _types(columns: Mapping[str, str]) -> dict[str, ColumnType]:
    return {name: ColumnType.parse(text) for name, text in columns.items()}


def _connect(columns: Mapping[str, ColumnType]) -> dict[str, dict[str, Any]]:
    return {name: kind.connect() for name, kind in columns.items()}


def _avro(columns: Mapping[str, ColumnType]) -> dict[str, Any]:
    return {name: kind.avro() for name, kind in columns.items()}


def write_schemas(
    folder: Path,
    schemas: Mapping[int, Mapping[str, Any]],
    others: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Write schemas, and those of other kinds than Avro, as recorded ones, beside those that are there."""
    ids, guids = folder / "ids", folder / "guids"
    ids.mkdir(parents=True, exist_ok=True)
    guids.mkdir(exist_ok=True)
    bodies = {number: {"schema": json.dumps(schema), "schemaType": "AVRO"} for number, schema in schemas.items()}
    for number, other in others.items():
        schema = other.get("schema", "")
        text = schema if isinstance(schema, str) else json.dumps(schema)
        bodies[number] = {"schema": text, "schemaType": other["kind"]}
    for number, body in bodies.items():
        for path in (ids / f"{number}.json", guids / f"{guid_of(number)}.json"):
            path.write_text(json.dumps(body), encoding="utf-8")


def guid_of(number: int) -> uuid.UUID:
    """The GUID that goes with an id in the registry of the cases."""
    return uuid.UUID(int=number)
