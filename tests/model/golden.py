"""A golden case as the reference fold reads it: decoded by hand, without Spark and without the product's decoders."""

import base64
import hashlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from cdc_materializer.testing import debezium_envelope
from tests.cases.case import Case
from tests.cases.columns import ColumnType
from tests.model.messages import UNAVAILABLE, Message, Row
from tests.model.positions import position, transaction
from tests.model.reference import Table

#: Table settings that the reference knows; a case with another one is about something else.
_SETTINGS = {"truncate", "key", "records_max", "unavailable_value", "position_regression_tolerance"}
_STEPS = {"messages", "register"}
_IGNORED = ("Heartbeat", "TransactionMetadataValue", "SchemaChangeValue", "Notification", "MessageValue")
#: Types whose values the mirror shows as the case writes them, or nearly so.
_PLAIN = {"boolean", "int16", "int32", "int64", "string", "bytes", "array", "map"}
#: Names of types that are texts, and shown as they are.
_TEXTS = tuple(f".data.{name}" for name in ("Uuid", "Json", "Xml", "Ltree", "Tsvector", "Enum", "EnumSet"))


def unread_because(case: Case) -> str | None:
    """Why a case is none of the reference's business, being about types, contracts, stops or settings; else None."""
    columns = list((case.data.get("schemas") or {1: case.data["columns"]}).values())
    types = {name: {one[name] for one in columns if name in one} for one in columns for name in one}
    kinds = [_typed(text) for one in columns for text in one.values()]
    reasons = {
        "a contract judges its rows": case.contract is not None or case.data.get("encoding") == "json-plain",
        "it is about a setting of its own": not set(case.data.get("table", {})) <= _SETTINGS,
        "something else than a run happens in it": any(not set(step) <= _STEPS for step in case.steps),
        "a run of it stops": case.stops,
        "a column has types that do not go into one another": any(len(found) > 1 for found in types.values()),
        "its values are written in another way than they are shown": not all(map(_is_plain, kinds)),
        "it is not passed yet": "xfail" in case.data,
        str(case.data.get("reference")): "reference" in case.data,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _typed(text: str) -> ColumnType:
    return ColumnType.parse(text)


def _is_plain(kind: ColumnType) -> bool:
    return kind.literal in _PLAIN and (not kind.name or kind.name.endswith(_TEXTS))


class Reading:
    """The messages of a case, as far as they have been sent."""

    def __init__(self, case: Case) -> None:
        """Read nothing yet."""
        self.case = case
        self._key = list(case.data["key"])
        versions = case.data.get("schemas") or {1: case.data["columns"]}
        self._columns = {
            version: {name: _typed(text) for name, text in one.items()} for version, one in versions.items()
        }
        self._first = next(iter(self._columns))
        self._settings = case.data.get("table", {})
        self._unregistered = set(case.data.get("unregistered", []))
        self._next: dict[int, int] = {}
        self._sent: list[tuple[int, int, int, Mapping[str, Any]]] = []

    def steps(self) -> Iterator[list[Message]]:
        """For each step all messages that have been sent by then."""
        for step in self.case.steps:
            self._unregistered -= set(step.get("register", []))
            for message in step.get("messages", []):
                self._send(message)
            yield [part for sent in self._sent for part in self._parts(*sent)]

    def table(self, messages: list[Message]) -> Table:
        """An empty table with the case's settings, for a topic that has these messages."""
        partitions = len({message.partition for message in messages})
        return Table(partitions=partitions, truncate=self._settings.get("truncate", "apply"))

    def shown(self, table: Table) -> list[dict[str, Any]]:
        """The table's rows as expected.yaml writes them."""
        read = {sent.get("schema", self._first) for *_, sent in self._sent} - self._unregistered
        names = list(dict.fromkeys(name for one in sorted(read) for name in self._columns[one]))
        names += [name for name in self._key if name not in names]
        found = []
        for key, row in table.rows().items():
            assert isinstance(key, tuple)
            whole = {**row, **dict(zip(self._key, key, strict=True))}
            found.append({name: _shown(whole.get(name), self._kind(name)) for name in names})
        return found

    def _kind(self, name: str) -> ColumnType | None:
        return next((one[name] for one in reversed(self._columns.values()) if name in one), None)

    def _send(self, message: Mapping[str, Any]) -> None:
        partition = message.get("partition", 0)
        offset = self._next.get(partition, 0)
        self._next[partition] = offset + message.get("skip", 1)
        if "skip" not in message:
            self._sent.append((partition, offset, len(self._sent), message))

    def _parts(self, partition: int, offset: int, at: int, message: Mapping[str, Any]) -> list[Message]:
        """One change; or two, where an update changes the configured key."""
        found = self._read(partition, offset, at, message)
        if "key" not in self._settings or found.op != "u" or found.image is None:
            return [found]
        new = tuple(found.image[name] for name in self._settings["key"])
        if new == found.key:
            return [found]
        return [replace(found, op="d", image=None, held=False), replace(found, op="c", key=new, held=False)]

    def _read(self, partition: int, offset: int, at: int, message: Mapping[str, Any]) -> Message:
        bare = Message(partition, offset, None, time=message.get("written", at))
        if "record" in message:
            assert message["record"]["name"].endswith(_IGNORED), message["record"]["name"]
            return bare
        key = self._key_of(message)
        if message.get("tombstone"):
            has_key = key is not None and "key" not in self._settings
            return replace(bare, op="tombstone" if has_key else None, key=key)
        is_longer = bool(bytes.fromhex(message.get("append", "")).strip())
        if "text" in message or "hex" in message or is_longer:
            return replace(bare, key=key, held=True)
        op = str(message["op"]).lower()
        if op == "m":
            return bare
        version = message.get("schema", self._first)
        image = self._image(message.get("after"), version)
        is_known = op in {"c", "u", "d", "r", "t"} and version not in self._unregistered
        is_whole = image is not None or op in {"d", "t"}
        named = {**dict(zip(self._key, key or (), strict=False)), **(image or {})}
        is_one_row = key is None or key == tuple(named[name] for name in self._key)
        source = self._source(message, at)
        return replace(
            bare,
            op=op,
            key=key,
            image=image,
            position=position(source),
            streaming=op != "r" and str(source.get("snapshot") or "false").lower() == "false",
            source_ms=source.get("ts_ms") or 0,
            table=".".join(str(source[name]) for name in ("db", "schema", "table") if source.get(name)) or None,
            before=self._image(message.get("before"), version),
            held=not (is_known and is_whole and is_one_row),
            transaction=transaction(source),
            order=message.get("transaction", {}).get("total_order"),
        )

    def _key_of(self, message: Mapping[str, Any]) -> tuple[Any, ...] | None:
        if "key_text" in message or message.get("op") == "t":
            return None
        given: Any = message.get("after") or message.get("before")
        if "key" in self._settings:
            old = message.get("before") if message.get("op") in {"u", "d"} else None
            row = old or message.get("after")
            return None if row is None else tuple(row[name] for name in self._settings["key"])
        if "key" in message:
            given = message["key"]
            given = given if given is None or isinstance(given, dict) else {self._key[0]: given}
        forms = placeholders(self._settings.get("unavailable_value", PLACEHOLDER))
        is_known = given is not None and all(given[name] not in forms for name in self._key)
        return tuple(given[name] for name in self._key) if is_known else None

    def _source(self, message: Mapping[str, Any], at: int) -> dict[str, Any]:
        place = {name: message[name] for name in ("lsn", "commit_lsn", "ts_ms", "snapshot") if name in message}
        if message["op"] == "r":
            place.setdefault("snapshot", "true")
        source: dict[str, Any] = debezium_envelope("c", None, None, **{"lsn": 100 * (at + 1), **place})["source"]
        source |= message.get("source", {})
        if "source" in self.case.data:
            source = {name: source.get(name) for name in self.case.data["source"]}
        order: dict[str, Any] = message.get("transaction", {})  # which Vitess tells beside the source
        return source | order

    def _image(self, row: Mapping[str, Any] | None, version: int) -> Row | None:
        if row is None:
            return None
        columns, placeholder = self._columns[version], self._settings.get("unavailable_value", PLACEHOLDER)
        wire = {name: row.get(name) for name in columns}
        forms = placeholders(placeholder)
        return {name: UNAVAILABLE if value in forms else value for name, value in wire.items()}


PLACEHOLDER = "__debezium_unavailable_value"


def placeholders(setting: str | list[str]) -> list[Any]:
    """Every form of a placeholder on the wire, or of some, as a case writes it (changelog-semantics §1.7)."""
    if isinstance(setting, list):
        return [form for one in setting for form in placeholders(one)]
    octets = bytes.fromhex(setting.removeprefix("hex:")) if setting.startswith("hex:") else setting.encode()
    text = octets.decode(errors="replace")
    encoded = [octets.hex(), base64.b64encode(octets).decode(), base64.urlsafe_b64encode(octets).decode()]
    # Java's UUID.nameUUIDFromBytes: version 3 without a name space.
    hashed = uuid.UUID(bytes=hashlib.md5(octets, usedforsecurity=False).digest(), version=3)
    return [
        text,
        {"hex": octets.hex()},
        *encoded,
        [text],
        [{"hex": octets.hex()}],
        [octet - 256 if octet > 127 else octet for octet in octets],
        [str(hashed)],
        {text: text},
        f'{{"{text}":"{text}"}}',
    ]


def _shown(value: Any, kind: ColumnType | None) -> Any:  # noqa: ANN401 - any value of a row
    if value is None or kind is None:
        return value
    if kind.literal == "bytes" and not kind.name:
        return value["hex"] if isinstance(value, dict) else str(value).encode().hex()
    if kind.scale:
        return str(Decimal(value))
    if kind.literal == "array" and kind.items is not None:
        return [_shown(item, kind.items) for item in value]
    return value
