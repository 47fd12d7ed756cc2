"""What gives away a message that has something around its row, as tools write it that no format reads in this form.

Any record may be a row (`Format.is_last_resort`). Taken for rows, such messages would make columns of what stands
around them, and rows of what they delete; so a format that is told by nothing of its own is not told by these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cdc_materializer.decode.wire import WireType

_IMAGES = ("before", "after", "beforeData")
#: What tools call the field that says what happened.
_OPERATIONS = ("op", "op_type", "operation", "operationType", "optype", "op_code", "event_type", "eventType")
_SENT_AS_JSON = ": send its JSON without a schema, with `format: {}`"
_GOLDENGATE = ("op_type", "op_ts", "before", "after", "current_ts")
_STREAM = ("fullDocument", "documentKey", "ns", "clusterTime")


def stranger(wire: WireType | None, value: Mapping[str, Any] | None) -> str | None:
    """What a message has around its row, and whose it is, in words; None where it may be a row itself.

    Args:
        wire: the schema of the value; None for JSON without one.
        value: the value, where it is JSON without a schema: its fields as JSON has them.
    """
    fields: Mapping[str, Any] = dict(wire.fields) if wire is not None else value or {}
    for tool, told, name in _TOOLS:
        found = told(fields)
        if found:
            hint = _SENT_AS_JSON.format(name) if name and wire is not None else ""
            return f"{' and '.join(f'`{one}`' for one in found)}, as {tool} has them{hint}"
    images = [name for name in _IMAGES if name in fields]
    named = [name for name in _OPERATIONS if name in fields]
    if any(_is_record(fields[name]) for name in images) or (images and named):
        return " and ".join(f"`{one}`" for one in (*named[:1], *images[:1]))
    return None


def _is_record(given: object) -> bool:
    return given.literal == "record" if isinstance(given, WireType) else isinstance(given, Mapping)


def _inside(fields: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The fields of a record in the message; none where there is no record."""
    for name in path:
        found = fields.get(name)
        fields = dict(found.fields) if isinstance(found, WireType) else found if isinstance(found, Mapping) else {}
    return fields


def _beside(name: str, *others: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    """A field, with the first of some others that stands beside it."""

    def found(fields: Mapping[str, Any]) -> tuple[str, ...]:
        other = next((one for one in others if one in fields and one != name), None)
        return (name, other) if name in fields and other is not None else ()

    return found


def _all(*names: str) -> Callable[[Mapping[str, Any]], tuple[str, ...]]:
    return lambda fields: names if fields.keys() >= set(names) else ()


def _qlik(fields: Mapping[str, Any]) -> tuple[str, ...]:
    for path in (("message", "headers"), ("headers",)):
        if "operation" in _inside(fields, *path) and "data" in _inside(fields, *path[:-1]):
            return ("data", "headers")
    return ()


def _with_metadata(fields: Mapping[str, Any]) -> tuple[str, ...]:
    return ("data", "metadata") if _is_record(fields.get("data")) and _is_record(fields.get("metadata")) else ()


#: Tools, by what tells them; with the format that reads what they send without a schema.
_TOOLS: tuple[tuple[str, Callable[[Mapping[str, Any]], tuple[str, ...]], str], ...] = (
    ("GoldenGate", _beside(*_GOLDENGATE), "goldengate"),
    ("MongoDB's own connector", _beside("operationType", *_STREAM), ""),
    ("OpenCDC", _all("operation", "payload", "position"), "opencdc"),
    ("Maxwell", _all("database", "table", "type", "data"), "maxwell"),
    ("Canal", _all("isDdl", "type"), "canal"),
    ("Qlik Replicate", _qlik, ""),
    ("DynamoDB's streams", _all("eventName", "dynamodb"), ""),
    ("AWS DMS", _with_metadata, "dms"),
)
