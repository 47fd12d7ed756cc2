"""How producers lay out the events of a model history (`history`): one small faithful encoder a format."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from cdc_materializer.testing import connect_envelope_schema, connect_key_schema, debezium_envelope, debezium_json
from tests.model.history import CHANGING, UNAVAILABLE, Event
from tests.model.topics import Sent

#: A message to be: its partition, key and value.
Laid: TypeAlias = tuple[int, bytes | None, bytes | None]

_KEY = {"id": {"type": "int64", "optional": False}}
_TEXT = {"type": "string", "optional": True}
_LONG = {"type": "int64", "optional": True}
COLUMNS: dict[str, dict[str, Any]] = {**_KEY, "note": _TEXT, "qty": _LONG}


@dataclass(frozen=True)
class Layout:
    """Debezium's envelope in JSON with its schema, and what other layouts do otherwise.

    Attributes:
        format: the table's `format`.
        settings: its other settings.
        is_placed: whether messages say where in the source they happened. Otherwise what a crash sends again is
            applied again, and nothing orders the messages of several partitions.
        contract: the columns of the table's contract with their types, where it needs one.
        doubts: codes that the report may tell: what is read by a snapshot may have no place of its own.
    """

    format: str = "debezium"
    settings: Mapping[str, Any] = field(default_factory=dict)
    is_placed: bool = True
    contract: Mapping[str, str] = field(default_factory=dict)
    doubts: frozenset[str] = frozenset()

    def laid(self, topic: str, events: Sequence[Event], messages: Sequence[Sent]) -> Iterator[Laid]:
        """The messages of a topic: here one for each that is sent; `events` is the history that they are from."""
        del events
        for message in messages:
            yield message.partition, self.key(topic, message.event), self.value(topic, message.event)

    def key(self, topic: str, event: Event) -> bytes | None:
        """The Kafka key."""
        return None if event.key is None else debezium_json({"id": event.key}, connect_key_schema(topic, _KEY))

    def value(self, topic: str, event: Event) -> bytes | None:
        """The value, with the schema of its time; None for no value."""
        if event.op == "tombstone":
            return None
        columns = {**COLUMNS, "memo": _TEXT} if "memo" in event.columns else COLUMNS
        return debezium_json(envelope(event), connect_envelope_schema(topic, columns))

    def shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row of the mirror, without its key, as the history has it."""
        return {name: row[name] for name in CHANGING if name in row}

    def gone_back(self, messages: Sequence[Sent]) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        """Earlier rows that a key may show in the end, because the producer does not say that they are: none."""
        del messages
        return {}


def envelope(event: Event) -> dict[str, Any]:
    """The envelope of an event."""
    before = {"id": event.key, **dict.fromkeys(event.columns)} if event.op == "d" else None
    after = None if event.after is None else {"id": event.key, **event.after}
    found = debezium_envelope(
        event.op,
        before,
        after,
        lsn=event.lsn,
        commit_lsn=event.commit,
        ts_ms=event.ts_ms,
        snapshot=event.snapshot,
    )
    if event.snapshot == "incremental":
        found["source"]["sequence"] = f'["{event.commit}","{event.read_at}"]'
    return found


class Flat(Layout):
    """Behind ExtractNewRecordState with `rewrite-with-tombstone` and what makes a position added."""

    _added = ("connector", "sequence", "lsn", "ts_ms", "snapshot")

    def value(self, topic: str, event: Event) -> bytes | None:
        """The row of `after`, or of `before` where it was deleted."""
        if event.op == "tombstone":
            return None
        whole = envelope(event)
        row = {**(whole["after"] or whole["before"]), "__deleted": str(event.op == "d").lower(), "__op": event.op}
        row |= {f"__source_{name}": whole["source"].get(name) for name in self._added}
        numbers = {"__source_lsn", "__source_ts_ms"}
        columns = {name: _LONG if name in numbers else COLUMNS.get(name, _TEXT) for name in row}
        return debezium_json(row, {**connect_key_schema(topic, columns), "name": f"{topic}.Value"})


class BareFlat(Flat):
    """The same with `tombstone` as mode of deletes, so that nothing says where in the source one happened.

    A key change is told whole: of the old key's row, which it may take values from, nothing tells either.
    """

    def laid(self, topic: str, events: Sequence[Event], messages: Sequence[Sent]) -> Iterator[Laid]:
        """The transform drops the connector's own tombstones."""
        return super().laid(topic, events, [one for one in messages if one.event.op != "tombstone"])

    def value(self, topic: str, event: Event) -> bytes | None:
        """Of a delete, the converter's text for a schema without a value."""
        if event.op == "d":
            schema = {**connect_key_schema(topic, COLUMNS), "name": f"{topic}.Value"}
            return json.dumps({"schema": schema, "payload": None}).encode()
        return super().value(topic, replace(event, after=event.shown) if event.op == "c" else event)


class PlainFlat(Layout):
    """The same without added fields or schemas, `tombstone` as mode of deletes."""

    def key(self, topic: str, event: Event) -> bytes | None:
        """The plain key."""
        del topic
        return json.dumps({"id": event.key}).encode()

    def value(self, topic: str, event: Event) -> bytes | None:
        """The row, without the second message of a delete."""
        del topic
        return None if event.shown is None else json.dumps({"id": event.key, **event.shown}).encode()


class Upsert(Layout):
    """A compacted topic whose values have no key."""

    def value(self, topic: str, event: Event) -> bytes | None:
        """The row's other columns."""
        columns = {"note": _TEXT, "qty": _LONG}
        if event.shown is None:
            return None
        return debezium_json(event.shown, {**connect_key_schema(topic, columns), "name": "rows"})


class BareKeys(Layout):
    """A compacted topic whose keys are one value each, half of them with a schema, and its values the whole rows."""

    def key(self, topic: str, event: Event) -> bytes | None:
        """The id alone."""
        del topic
        if event.key is None or event.key % 2:
            return str(event.key).encode()
        return json.dumps({"schema": {"type": "int64", "optional": False}, "payload": event.key}).encode()

    def value(self, topic: str, event: Event) -> bytes | None:
        """The row with its key."""
        if event.shown is None:
            return None
        row = {"id": event.key, **event.shown}
        return debezium_json(row, {**connect_key_schema(topic, COLUMNS), "name": "rows"})


class IcebergCdc(Layout):
    """Behind the transform of Iceberg's sink."""

    def value(self, topic: str, event: Event) -> bytes | None:
        """The row with the block."""
        if event.op == "tombstone":
            return None
        row = {"id": event.key, **(event.shown or {"note": None, "qty": None})}
        block = {"op": {"u": "U", "d": "D"}.get(event.op, "I"), "ts": event.ts_ms}
        kinds = {"type": "struct", "optional": True, "name": "cdc"}
        fields = [{**_TEXT, "field": "op"}, {**_LONG, "field": "ts"}]
        columns = {**COLUMNS, "_cdc": {**kinds, "fields": fields}}
        return debezium_json({**row, "_cdc": block}, {**connect_key_schema(topic, columns), "name": "rows"})


_JSON = {**_TEXT, "name": "io.debezium.data.Json", "version": 1}


class Mongo(Layout):
    """MongoDB's connector with `change_streams_update_full`."""

    def key(self, topic: str, event: Event) -> bytes | None:
        """The document's id as text."""
        return debezium_json({"id": str(event.key)}, connect_key_schema(topic, {"id": _TEXT}))

    def value(self, topic: str, event: Event) -> bytes | None:
        """The document."""
        if event.op == "tombstone":
            return None
        images, kinds_of_images = self.images(event)
        streaming = event.op != "r"
        commit, change = event.position if streaming else (0, 0)
        source: dict[str, Any] = {
            "connector": "mongodb",
            "version": "3.3.1.Final",
            "snapshot": event.snapshot,
            "collection": "t",
        }
        source |= {"ts_ms": commit, "ord": change}
        kinds = {name: _LONG if name in {"ts_ms", "ord"} else _TEXT for name in source}
        columns = {
            **kinds_of_images,
            "op": _TEXT,
            "source": {
                "type": "struct",
                "optional": False,
                "name": "source",
                "fields": [{**kind, "field": name} for name, kind in kinds.items()],
            },
        }
        schema = {**connect_key_schema(topic, columns), "name": f"{topic}.Envelope"}
        return debezium_json({**images, "op": event.op, "source": source}, schema)

    def images(self, event: Event) -> tuple[dict[str, Any], dict[str, Any]]:
        """What an envelope shows of the document, and its types."""
        document = None if event.shown is None else json.dumps({"_id": event.key, **event.shown})
        return {"after": document}, {"after": _JSON}

    def shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """What the document says."""
        document = json.loads(row["document"])
        assert str(document.pop("_id")) == row["id"]
        return dict(document)


class MongoUpdates(Mongo):
    """The same with `change_streams`: an update tells what it changed and shows no document."""

    def images(self, event: Event) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of an update the fields that it set."""
        images, kinds = super().images(event)
        update = None
        if event.op == "u" and event.after is not None:
            fields = {name: value for name, value in event.after.items() if value != UNAVAILABLE}
            images, update = {"after": None}, {"updatedFields": json.dumps(fields)}
        name, cut = (
            {"type": "string", "optional": False},
            {"type": "struct", "optional": False, "name": "truncatedarray"},
        )
        size = {"type": "int32", "optional": False, "field": "size"}
        parts = [
            {"type": "array", "optional": True, "items": name, "field": "removedFields"},
            {**_JSON, "field": "updatedFields"},
            {
                "type": "array",
                "optional": True,
                "items": cut | {"fields": [{**name, "field": "field"}, size]},
                "field": "truncatedArrays",
            },
        ]
        told = {"type": "struct", "optional": True, "name": "updatedescription", "fields": parts}
        return {**images, "updateDescription": update}, {**kinds, "updateDescription": told}


class PlainMongo(MongoUpdates):
    """The same in JSON without a schema."""

    def key(self, topic: str, event: Event) -> bytes | None:
        """The plain key."""
        del topic
        return json.dumps({"id": str(event.key)}).encode()

    def value(self, topic: str, event: Event) -> bytes | None:
        """The envelope without its schema."""
        whole = super().value(topic, event)
        return None if whole is None else json.dumps(json.loads(whole)["payload"]).encode()


class MongoColumns(MongoUpdates):
    """With `change_streams_with_pre_image`: an update shows the document before it, and a contract declares columns."""

    def images(self, event: Event) -> tuple[dict[str, Any], dict[str, Any]]:
        """Of an update what the document was, where it differs in all that the update sets."""
        images, kinds = super().images(event)
        before = None
        if event.op == "u" and event.shown is not None:
            was = {name: "was" for name, value in (event.after or {}).items() if value != UNAVAILABLE}
            before = json.dumps({"_id": event.key, **event.shown, **was})
        return {**images, "before": before}, {**kinds, "before": _JSON}

    def shown(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns."""
        return Layout.shown(self, row)
