"""Connect's schemas and values in Protobuf, as Confluent's converter writes them."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from tests.protobufs import message_class

_CONNECT = "org.apache.kafka.connect.data."
_SCALARS = {
    "boolean": "bool",
    "int16": "int32",
    "int32": "int32",
    "int64": "int64",
    "float32": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
_WRAPPERS = {
    "bool": "Bool",
    "int32": "Int32",
    "int64": "Int64",
    "float": "Float",
    "double": "Double",
    "string": "String",
    "bytes": "Bytes",
}
_MESSAGES = {
    _CONNECT + "Decimal": "confluent.type.Decimal",
    _CONNECT + "Date": "google.type.Date",
    _CONNECT + "Time": "google.type.TimeOfDay",
    _CONNECT + "Timestamp": "google.protobuf.Timestamp",
}
_IMPORTS = (
    "confluent/meta.proto",
    "confluent/type/decimal.proto",
    "google/protobuf/timestamp.proto",
    "google/protobuf/wrappers.proto",
    "google/type/date.proto",
    "google/type/timeofday.proto",
)


def proto_text(schema: Mapping[str, Any], nullables: str = "optional") -> str:
    """The text that is registered for a struct.

    Args:
        schema: in Connect's JSON.
        nullables: how NULL is told: `optional` (`optional.for.nullables`), `wrapper` (`wrapper.for.nullables`), or
            `none`, which is the converter's default.
    """
    package, _, name = schema["name"].rpartition(".")
    lines = ['syntax = "proto3";', f"package {package};" if package else ""]
    lines += [f'import "{path}";' for path in _IMPORTS]
    return "\n".join([*lines, *_message(name, schema, nullables)]) + "\n"


def proto_name(schema: Mapping[str, Any]) -> str:
    """The full name of a struct's message."""
    return str(schema["name"])


def _message(name: str, schema: Mapping[str, Any], nullables: str) -> list[str]:
    lines, nested = [f"message {name} {{"], dict[str, list[str]]()
    for number, field in enumerate(schema["fields"], 1):
        part = field["items"] if field["type"] == "array" else field
        kind = _kind(part, nullables)
        label = "repeated " if field["type"] == "array" else _label(part, kind, nullables)
        lines.append(f"  {label}{kind} {field['field']} = {number}{_meta(part)};")
        if part["type"] == "struct":
            nested[kind] = _message(kind, part, nullables)
    return [*lines, *[f"  {line}" for one in nested.values() for line in one], "}"]


def _kind(schema: Mapping[str, Any], nullables: str) -> str:
    if schema.get("name") in _MESSAGES:
        return _MESSAGES[schema["name"]]
    if schema["type"] == "struct":
        return str(schema["name"]).rpartition(".")[2]
    if schema["type"] == "map":
        return f"map<string, {_kind({**schema['values'], 'optional': False}, nullables)}>"
    plain = _SCALARS[schema["type"]]
    return f"google.protobuf.{_WRAPPERS[plain]}Value" if nullables == "wrapper" and schema["optional"] else plain


def _label(schema: Mapping[str, Any], kind: str, nullables: str) -> str:
    return "optional " if nullables == "optional" and schema["optional"] and kind in _SCALARS.values() else ""


def _meta(schema: Mapping[str, Any]) -> str:
    parameters = schema.get("parameters") or {}
    if schema.get("name") == _CONNECT + "Decimal":
        told = {"precision": parameters.get("connect.decimal.precision"), "scale": parameters["scale"]}
    else:
        told = {"connect.type": "int16" if schema["type"] == "int16" else None}
    params = ", ".join(f'{{key: "{name}", value: "{value}"}}' for name, value in told.items() if value is not None)
    return f" [(confluent.field_meta) = {{params: [{params}]}}]" if params else ""


@functools.lru_cache(maxsize=256)
def _class(text: str, name: str) -> Any:  # noqa: ANN401 - a class
    return message_class(text, name)


def proto_bytes(text: str, schema: Mapping[str, Any], datum: Mapping[str, Any]) -> bytes:
    """A datum, with values as Avro's writer takes them, as a message of a struct's text (`proto_text`)."""
    message = _class(text, proto_name(schema))()
    _fill(message, schema, datum)
    octets: bytes = message.SerializeToString()
    return octets


def _fill(message: Any, schema: Mapping[str, Any], datum: Mapping[str, Any]) -> None:  # noqa: ANN401 - a message
    for field in schema["fields"]:
        name, value = field["field"], datum.get(field["field"])
        if value is None:
            continue
        if field["type"] == "array":
            getattr(message, name).extend(value)
        elif field["type"] == "map":
            getattr(message, name).update(value)
        elif field.get("name") in _MESSAGES:
            _meaning(getattr(message, name), field, value)
        elif field["type"] == "struct":
            getattr(message, name).SetInParent()
            _fill(getattr(message, name), field, value)
        elif message.DESCRIPTOR.fields_by_name[name].message_type is not None:
            getattr(message, name).value = value
            getattr(message, name).SetInParent()
        else:
            setattr(message, name, value)


def _meaning(message: Any, schema: Mapping[str, Any], value: Any) -> None:  # noqa: ANN401 - a message, a value
    message.SetInParent()
    if schema["name"] == _CONNECT + "Decimal":
        scale = int(schema["parameters"]["scale"])
        message.value = value if isinstance(value, bytes) else _unscaled(value, scale)
        message.precision, message.scale = int(schema["parameters"]["connect.decimal.precision"]), scale
    elif schema["name"] == _CONNECT + "Date":
        day = dt.date(1970, 1, 1) + dt.timedelta(days=value)
        message.year, message.month, message.day = day.year, day.month, day.day
    elif schema["name"] == _CONNECT + "Time":
        message.hours, message.minutes = divmod(value // 60_000, 60)
        message.seconds, message.nanos = value // 1000 % 60, value % 1000 * 1_000_000
    else:
        message.seconds, message.nanos = value // 1000, value % 1000 * 1_000_000


def _unscaled(value: Any, scale: int) -> bytes:  # noqa: ANN401 - a number, or its text
    number = int(Decimal(value).scaleb(scale))
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
