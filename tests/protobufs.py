"""Protobuf as its own library for Python reads and writes it, which is the tests' oracle."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor

from cdc_materializer.decode.proto_files import bundle, compiled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

_EPOCH = dt.date(1970, 1, 1)
#: The values at which a number's encoding changes, by the library's name of its type in Python.
_NUMBERS: dict[int, list[Any]] = {
    FieldDescriptor.CPPTYPE_INT32: [0, 1, -1, 127, 128, 2**31 - 1, -(2**31)],
    FieldDescriptor.CPPTYPE_INT64: [0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)],
    FieldDescriptor.CPPTYPE_UINT32: [0, 1, 300, 2**32 - 1],
    FieldDescriptor.CPPTYPE_UINT64: [0, 1, 2**63, 2**64 - 1],
    FieldDescriptor.CPPTYPE_DOUBLE: [0.0, -0.0, 0.1, float("inf"), 5e-324],
    FieldDescriptor.CPPTYPE_FLOAT: [0.0, 0.5, float("-inf")],
    FieldDescriptor.CPPTYPE_BOOL: [False, True],
}


def message_class(text: str, name: str, others: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - a class
    """The class of a message of a schema, by its full name."""
    pool = descriptor_pool.DescriptorPool()
    for file in compiled(bundle(text, others or {})):
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def fill(message: Message, chosen: random.Random, depth: int = 0) -> Any:  # noqa: ANN401 - the message
    """Put random values into a message: of each field none, or some at which an encoding changes."""
    for field in message.DESCRIPTOR.fields:
        if chosen.random() < 0.3 or (depth > 4 and field.message_type is not None):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(getattr(message, field.name), field, chosen, depth)
        elif field.is_repeated:
            _fill_array(getattr(message, field.name), field, chosen, depth)
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            _fill_message(getattr(message, field.name), chosen, depth)
        else:
            setattr(message, field.name, _scalar(field, chosen))
    return message


def _fill_map(held: Any, field: Any, chosen: random.Random, depth: int) -> None:  # noqa: ANN401
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    for _ in range(chosen.randrange(3)):
        if value.message_type is not None:
            _fill_message(held[_scalar(key, chosen)], chosen, depth)
        else:
            held[_scalar(key, chosen)] = _scalar(value, chosen)


def _fill_array(held: Any, field: Any, chosen: random.Random, depth: int) -> None:  # noqa: ANN401
    for _ in range(chosen.randrange(4)):
        if field.message_type is not None:
            _fill_message(held.add(), chosen, depth)
        else:
            held.append(_scalar(field, chosen))


def _fill_message(message: Any, chosen: random.Random, depth: int) -> None:  # noqa: ANN401 - a message
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds, message.nanos = chosen.choice([0, -1, 1_767_225_600]), chosen.choice([0, 1999, 10**9 - 1])
    elif name == "google.type.Date":
        message.year, message.month, message.day = chosen.choice([(1, 1, 1), (2024, 2, 29), (9999, 12, 31)])
    elif name == "google.type.TimeOfDay":
        message.hours, message.minutes, message.nanos = chosen.choice([(0, 0, 0), (23, 59, 10**9 - 1), (24, 0, 0)])
    elif name == "confluent.type.Decimal":
        message.value, message.scale, message.precision = bytes.fromhex(chosen.choice(["00", "ff", "3039"])), 2, 10
    else:
        fill(message, chosen, depth + 1)


def _scalar(field: Any, chosen: random.Random) -> Any:  # noqa: ANN401 - a number, a text or bytes
    if field.type == FieldDescriptor.TYPE_STRING:
        return chosen.choice(["", "a", "ü\U0001f600", "x" * 200])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return chosen.choice([b"", b"\0\xff", b"y" * 130])
    if field.type == FieldDescriptor.TYPE_ENUM:
        return chosen.choice(field.enum_type.values).number
    return chosen.choice(_NUMBERS[field.cpp_type])


def told(message: Message) -> dict[str, Any]:
    """What a message says, as its Avro datum has to say it."""
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:  # noqa: ANN401 - JSON and bytes
    held = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        pairs = [(_plain(one, key), _plain(held[one], value)) for one in held]
        if key.type == FieldDescriptor.TYPE_STRING:
            return dict(pairs)
        return [{"key": one, "value": other} for one, other in pairs]
    if field.is_repeated:
        return [_plain(one, field) for one in held]
    return None if field.has_presence and not message.HasField(field.name) else _plain(held, field)


def _plain(value: Any, field: Any) -> Any:  # noqa: ANN401, PLR0911 - one line a type
    descriptor = field.message_type
    if field.type == FieldDescriptor.TYPE_ENUM:
        return field.enum_type.values_by_number[value].name
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        return value - 2**64 if value >= 2**63 else value
    if descriptor is None:
        return value
    if descriptor.full_name == "google.protobuf.Timestamp":
        ends = -(2**63), 2**63 - 1
        is_far = abs(value.seconds) > ends[1] // 1_000_000 - 1
        return ends[value.seconds > 0] if is_far else value.seconds * 1_000_000 + value.nanos // 1000
    if descriptor.full_name == "google.type.Date":
        try:
            return (dt.date(value.year, value.month, value.day) - _EPOCH).days
        except (ValueError, OverflowError):
            return -(2**31)  # no day
    if descriptor.full_name == "google.type.TimeOfDay":
        return (value.hours * 60 + value.minutes) * 60_000_000 + value.seconds * 1_000_000 + value.nanos // 1000
    if descriptor.full_name == "confluent.type.Decimal":
        return value.value
    if descriptor.file.name == "google/protobuf/wrappers.proto":
        return _plain(value.value, descriptor.fields_by_name["value"])
    return told(value)
