"""How producers whose JSON has no types lay out a model history: what `layouts` is for the others.

These tools name rows by themselves, send no tombstones, and know a change of the key as one update. Where one has a
position, it is the event's place in the history, spelled as the tool spells it.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from tests.model.history import UNAVAILABLE, Event
from tests.model.layouts import Laid, Layout
from tests.model.topics import Sent

#: The columns of every history, as a contract declares them.
TYPES: Mapping[str, str] = {"id": "bigint", "note": "text", "qty": "bigint"}
#: The last of three.
_LAST = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """One change as such a tool tells it.

    Attributes:
        op: `c`, `u`, `d`, `r`, or `t`.
        row: the whole row after it; of a delete, as it was, of which the history knows the key alone.
        old_key: of an update, the key before it.
        untouched: whether the row's text is as it was before an update.
        place: where in the history it happened.
        partition: of the message.
        event: what it was made of.
    """

    op: str
    row: Mapping[str, Any]
    old_key: int | None
    untouched: bool
    place: int
    partition: int
    event: Event

    @property
    def changed_key(self) -> bool:
        """Whether it is an update of the key."""
        return self.old_key is not None and self.old_key != self.row["id"]


def changes(events: Sequence[Event], messages: Sequence[Sent]) -> Iterator[Change]:
    """What is sent, as changes: the delete and the insert of a key that changed are one update."""
    places = {id(event): at for at, event in enumerate(events)}
    left = {event.lsn: event.key for event in events if event.op == "d"}
    arrived = {event.lsn for event in events if event.op == "c"}
    for message in messages:
        event = message.event
        is_half = event.op == "d" and event.lsn in arrived
        if event.op == "tombstone" or is_half:
            continue
        old_key = left.get(event.lsn) if event.op == "c" else None
        op = "u" if old_key is not None else event.op
        yield Change(
            op,
            {"id": event.key, **(event.shown or {})},
            event.key if event.op == "u" else old_key,
            event.after is not None and event.after["note"] == UNAVAILABLE,
            places[id(event)],
            message.partition,
            event,
        )


def _readings(messages: Sequence[Sent]) -> Mapping[int, Sequence[Mapping[str, Any]]]:
    """Rows of snapshots, by key, where nothing says where these are.

    One that is copied again comes over later changes, as one does that is read behind them in another partition.
    """
    sent = Counter(id(message.event) for message in messages)
    places: dict[int | None, set[int]] = {}
    for message in messages:
        places.setdefault(message.event.key, set()).add(message.partition)
    found: dict[int, list[Mapping[str, Any]]] = {}
    for event in {id(message.event): message.event for message in messages}.values():
        is_unplaced = sent[id(event)] > 1 or len(places[event.key]) > 1
        if event.op == "r" and is_unplaced and event.key is not None and event.shown is not None:
            found.setdefault(event.key, []).append(event.shown)
    return found


class Untyped(Layout):
    """A message for each change."""

    def laid(self, topic: str, events: Sequence[Event], messages: Sequence[Sent]) -> Iterator[Laid]:
        """Those of the changes."""
        for change in changes(events, messages):
            yield change.partition, self.named(topic, change), json.dumps(self.told(change)).encode()

    def named(self, topic: str, change: Change) -> bytes | None:
        """The Kafka key, which nothing is taken from."""
        del topic, change
        return None

    def told(self, change: Change) -> dict[str, Any]:
        """The message's value."""
        raise NotImplementedError


class Maxwell(Untyped):
    """With `output_binlog_position`, `output_commit_info` and `output_xoffset`; the binlog's files change.

    Three rows an event of the binlog, which is a transaction: the last of them says so, and has no row number.
    """

    def named(self, topic: str, change: Change) -> bytes | None:
        """Database, table and primary key."""
        del topic
        return json.dumps({"database": "model", "table": "t", "pk.id": change.row["id"]}).encode()

    def told(self, change: Change) -> dict[str, Any]:
        """The whole row, and of an update what it was."""
        block, row = divmod(change.place, 3)
        file, at = divmod(block, 40)
        old = {"id": change.old_key} if change.changed_key else {"qty": 0}
        return {
            "database": "model",
            "table": "t",
            "type": {"c": "insert", "u": "update", "d": "delete", "r": "bootstrap-insert"}[change.op],
            "ts": change.event.ts_ms // 1000,
            "position": f"bin.{999_998 + file}:{90 + at}",
            "xid": block,
            **({"commit": True} if row == _LAST else {"xoffset": row}),
            "data": change.row,
            **({"old": old} if change.op == "u" else {}),
        }

    def gone_back(self, messages: Sequence[Sent]) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        """Bootstrapped rows."""
        return _readings(messages)


class Canal(Untyped):
    """Flat messages: neighbours of one kind in one, all values texts."""

    def laid(self, topic: str, events: Sequence[Event], messages: Sequence[Sent]) -> Iterator[Laid]:
        """Up to three rows a message."""
        del topic
        told = list(enumerate(changes(events, messages)))
        for (partition, kind, _), found in groupby(
            told, lambda one: (one[1].partition, self._kind(one[1]), one[0] // 3)
        ):
            rows = [change for _, change in found]
            is_update = kind == "UPDATE"
            value = {
                "data": [{name: None if v is None else str(v) for name, v in row.row.items()} for row in rows],
                "old": [{"id": str(row.old_key)} if row.changed_key else {"qty": "0"} for row in rows]
                if is_update
                else None,
                "database": "model",
                "table": "t",
                "es": rows[0].event.ts_ms,
                "ts": rows[0].event.ts_ms + 5,
                "isDdl": False,
                "pkNames": ["id"],
                "mysqlType": TYPES,
                "type": kind,
            }
            yield partition, None, json.dumps(value).encode()

    def _kind(self, change: Change) -> str:
        return {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE"}[change.op]


class Dms(Untyped):
    """Of PostgreSQL, with transaction details and before images; LSNs grow a digit on the way."""

    def named(self, topic: str, change: Change) -> bytes | None:
        """Schema and table, as it is by default."""
        del topic, change
        return b"model.t"

    def told(self, change: Change) -> dict[str, Any]:
        """The row without its NULLs."""
        high, low = divmod(0xFFFF_FF00 + change.place, 1 << 32)
        lsn = f"{high:08X}/{low:08X}"
        metadata = {
            "timestamp": _iso(change.event.ts_ms),
            "record-type": "data",
            "operation": {"c": "insert", "u": "update", "d": "delete", "r": "load"}[change.op],
            "partition-key-type": "schema-table",
            "schema-name": "model",
            "table-name": "t",
        }
        if change.op != "r":
            metadata |= {"commit-timestamp": _iso(change.event.ts_ms), "stream-position": f"{lsn}.3.{lsn}"}
        old = {"before-image": {"id": change.old_key}} if change.op == "u" else {}
        return {"data": {name: v for name, v in change.row.items() if v is not None}, **old, "metadata": metadata}

    def gone_back(self, messages: Sequence[Sent]) -> Mapping[int, Sequence[Mapping[str, Any]]]:
        """Rows of the full load."""
        return _readings(messages)


class GoldenGate(Untyped):
    """Compressed updates: a text that was not touched is left out, or called missing."""

    def told(self, change: Change) -> dict[str, Any]:
        """Images before and after."""
        after: dict[str, Any] = dict(change.row)
        if change.untouched:
            del after["note"]
            after |= {"note": None, "note_isMissing": True} if change.place % 2 else {}
        before = {"id": change.row["id"] if change.old_key is None else change.old_key}
        return {
            "table": "MODEL.T",
            "op_type": {"c": "I", "r": "I", "u": "U", "d": "D"}[change.op],
            "op_ts": _iso(change.event.ts_ms).replace("T", " ").rstrip("Z"),
            "pos": f"{change.place:020}",
            **({"before": before} if change.op in "ud" else {}),
            **({"after": after} if change.op != "d" else {}),
        }


class OpenCdc(Untyped):
    """Records, half of them with raw keys and payloads."""

    def told(self, change: Change) -> dict[str, Any]:
        """Operation, key and payload."""
        as_is = change.place % 2
        before = {"id": change.old_key} if change.op == "u" else None
        after = None if change.op == "d" else change.row
        return {
            "position": base64.b64encode(str(change.place % 7).encode()).decode(),
            "operation": {"c": "create", "u": "update", "d": "delete", "r": "snapshot"}[change.op],
            "metadata": {"opencdc.createdAt": str(change.event.ts_ms * 1_000_000), "opencdc.collection": "t"},
            "key": {"id": change.row["id"]} if as_is else _raw({"id": change.row["id"]}),
            "payload": {
                "before": before if as_is or before is None else _raw(before),
                "after": after if as_is or after is None else _raw(after),
            },
        }


class MadeUp(Untyped):
    """The format that tests/data/made_up_format.py adds."""

    def laid(self, topic: str, events: Sequence[Event], messages: Sequence[Sent]) -> Iterator[Laid]:
        """Its rows have no update of the key: a drop and a put."""
        del topic
        for change in changes(events, messages):
            if change.changed_key:
                yield self._said(change, "drop", {"id": change.old_key})
            yield self._said(change, "drop" if change.op == "d" else "put", change.row)

    def _said(self, change: Change, verb: str, cells: Mapping[str, Any]) -> Laid:
        value = {"verb": verb, "at": change.place, "cells": cells}
        return change.partition, None, json.dumps(value).encode()


def _iso(milliseconds: int) -> str:
    return (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _raw(given: Mapping[str, Any]) -> str:
    return base64.b64encode(json.dumps(given).encode()).decode()
