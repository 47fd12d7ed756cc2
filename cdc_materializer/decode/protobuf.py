"""Protobuf messages as Avro says them: the schema in Avro, and the program by which `ProtobufToAvro` writes it. Pure.

Everything behind the bytes is then as for Avro (ADR 25): the type table, several writers in one batch, an end behind
each datum. Logical types are those that Connect's converters mean by Google's and Confluent's messages.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_materializer.decode.columns import DECIMALS, VARIABLE_SCALE, decimal_number
from cdc_materializer.decode.proto_files import compiled, confluent_meta
from cdc_materializer.decode.wire import WireSchemaInvalid

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

#: Of each scalar type of Protobuf, by its number in `FieldDescriptorProto.Type`, what the program calls it and what it
#: is in Avro. Groups (10) are not read.
_SCALARS: Mapping[int, tuple[str, str]] = {
    1: ("d", "double"),
    2: ("f", "float"),
    3: ("I", "long"),
    4: ("U", "long"),
    5: ("i", "int"),
    6: ("X", "long"),
    7: ("x", "long"),
    8: ("b", "boolean"),
    9: ("t", "string"),
    12: ("o", "bytes"),
    13: ("u", "long"),
    15: ("y", "int"),
    16: ("Y", "long"),
    17: ("s", "int"),
    18: ("S", "long"),
}
_UNSIGNED_64 = frozenset({4, 6})
_STRING, _MESSAGE, _ENUM = 9, 11, 14
_REPEATED, _REQUIRED = 3, 2
_INTEGERS = frozenset({3, 5})
#: How the program calls messages that stand for one value, with the order of their fields and what they are in Avro.
_VALUES: Mapping[str, tuple[str, tuple[str, ...], Any]] = {
    ".google.protobuf.Timestamp": (
        "T",
        ("seconds", "nanos"),
        {"type": "long", "logicalType": "timestamp-micros"},
    ),
    ".google.type.Date": ("D", ("year", "month", "day"), {"type": "int", "logicalType": "date"}),
    ".google.type.TimeOfDay": (
        "O",
        ("hours", "minutes", "seconds", "nanos"),
        {"type": "long", "logicalType": "time-micros"},
    ),
}
#: How it calls those with parts of a microsecond that are in a key: such parts are refused, and not cut.
_EXACT: Mapping[str, str] = {"T": "E", "O": "K"}
_DECIMAL = ".confluent.type.Decimal"
_WRAPPERS = frozenset(
    f".google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
#: The fields of Debezium's `source` in which zero and the empty text say that there was none.
_NEVER_ZERO = frozenset({"lsn"})
#: The seven bits of each byte of a varint, and the one that says that more follow.
_BITS, _MORE = 0x7F, 0x80
#: The tag of a text that is the first field of its message.
_REF_NAME = b"\x0a"
#: The second form of a message: one in which zeros and empty texts stand for NULL.
_TOLD = "__told"


@dataclass(frozen=True, slots=True)
class Translation:
    """A Protobuf message as Avro.

    Attributes:
        avro: its Avro schema, as text.
        program: what `ProtobufToAvro` reads and writes: how a message begins, then a line a type, the message's first.
    """

    avro: str
    program: str


def translation(bundled: str, index: bytes | None = None, exact: Container[str] | None = frozenset()) -> Translation:
    """How a message of a registered schema is read.

    Args:
        bundled: the schema's text and those that it imports (`proto_files.bundle`).
        index: the message's index array, where it stands elsewhere than before the message; None where the message
            begins with it, or with Apicurio's `Ref`. Which message of the file it is, is then told by the file: the
            one that is an envelope, or else the first.
        exact: the names of fields that are in a key, of whose moments nothing is cut; None for all.

    Raises:
        WireSchemaInvalid: the text is no Protobuf schema, it has no such message, or no Avro schema says the same.
    """
    files = compiled(bundled)
    messages = files[-1].message_type
    try:
        path = _envelope(messages) if index is None else _path(index)
        names = _names(messages, path)
        writing = _Writing(files, exact)
        _, avro = writing.message(".".join(["", *filter(None, [files[-1].package]), *names]))
    except (IndexError, KeyError, RecursionError) as error:
        message = "the Protobuf schema has no such message, or types nested too deep"
        raise WireSchemaInvalid(message) from error
    begins = [one.hex() for one in (*_spellings(path), _ref(names[-1]))] if index is None else []
    return Translation(json.dumps(avro), "\n".join([" ".join(["begin", *begins]), *writing.lines]))


# --- which message of a file
# --------------------------------------------------------------------------------------------


def _envelope(messages: Sequence[DescriptorProto]) -> tuple[int, ...]:
    for at, message in enumerate(messages):
        if {"op", "after"} <= {one.name for one in message.field}:
            return (at,)
    return (0,)


def _names(messages: Sequence[DescriptorProto], path: Sequence[int]) -> list[str]:
    """The names of the messages that a path leads through."""
    found = []
    for at in path:
        if at < 0:
            raise IndexError(at)
        found.append(messages[at].name)
        messages = messages[at].nested_type
    return found


def _spellings(path: Sequence[int]) -> list[bytes]:
    """The index arrays that lead to a message; of the first message's there is a short one."""
    whole = b"".join(_zigzag(number) for number in (len(path), *path))
    return [b"\x00", whole] if tuple(path) == (0,) else [whole]


def _ref(name: str) -> bytes:
    """Apicurio's `Ref`, which its serializer writes where Confluent's has the index: a message of one name.

    No index array of a message that is no part of another begins like it: their counts are spelled 00 or 02.
    """
    text = name.encode()
    ref = _REF_NAME + _varint(len(text)) + text
    return _varint(len(ref)) + ref


def _zigzag(number: int) -> bytes:
    return _varint(number << 1)


def _varint(number: int) -> bytes:
    left, found = number, bytearray()
    while left > _BITS:
        found.append(left & _BITS | _MORE)
        left >>= 7
    return bytes([*found, left])


def _path(index: bytes) -> tuple[int, ...]:
    """The path of an index array; IndexError for bytes that are none."""
    numbers, left, shift = [], 0, 0
    for octet in index:
        left |= (octet & _BITS) << shift
        shift += 7
        if octet < _MORE:
            numbers.append((left >> 1) ^ -(left & 1))
            left, shift = 0, 0
    count, *path = numbers or [0]
    if shift or count != len(path):
        raise IndexError(count)
    return tuple(path) or (0,)


# --- the schema and the program, side by side
# ---------------------------------------------------------------------------


class _Writing:
    """Writes each type once: as a line of the program, and as a named type of Avro's."""

    def __init__(self, files: Sequence[FileDescriptorProto], exact: Container[str] | None) -> None:
        self._exact = exact
        self.lines: list[str] = []
        self._messages: dict[str, tuple[DescriptorProto, str]] = {}
        self._enums: dict[str, EnumDescriptorProto] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._has_variable = False
        for file in files:
            space = f".{file.package}" if file.package else ""
            self._enums |= {f"{space}.{one.name}": one for one in file.enum_type}
            for message in file.message_type:
                self._note(space, message, file.syntax or "proto2")

    def _note(self, space: str, message: DescriptorProto, syntax: str) -> None:
        name = f"{space}.{message.name}"
        self._messages[name] = (message, syntax)
        self._enums |= {f"{name}.{one.name}": one for one in message.enum_type}
        for inner in message.nested_type:
            self._note(name, inner, syntax)

    def message(self, name: str, *, told: bool = False) -> tuple[int, Any]:
        """The number of a message's line, and its record: its definition, or its name where that was given before.

        Args:
            name: its full name, with a dot before it.
            told: whether zeros and empty texts stand for NULL in it, as where a converter has no other way to say it.
        """
        full = name[1:] + _TOLD * told
        known = self._numbers.get((name, _TOLD * told))
        if known is not None:
            return known, full
        descriptor, syntax = self._messages[name]
        is_root = not self._numbers
        number = self._reserve(name, _TOLD * told)
        slots, fields = [], []
        for one in descriptor.field:
            nulls = told and (one.type == _STRING or one.name in _NEVER_ZERO)
            inside = is_root and one.name == "source" and self._loses_nulls(one)
            slot, avro = self._field(one, syntax, nulls=nulls, told=inside)
            slots.append(slot)
            fields.append({"name": one.name, "type": avro} | _doc(one))
        self.lines[number] = " ".join(["m", *slots])
        record: dict[str, Any] = {"type": "record", "name": full, "fields": fields}
        if is_root:
            record["connect.name"] = full
        elif descriptor.name == VARIABLE_SCALE.rpartition(".")[2]:
            record["connect.name"] = VARIABLE_SCALE
        return number, record

    def _reserve(self, name: str, form: str = "") -> int:
        self._numbers[name, form] = number = len(self.lines)
        self.lines.append("")
        return number

    def _loses_nulls(self, field: FieldDescriptorProto) -> bool:
        """Whether the converter that wrote a `source` writes NULL as zero: its `sequence` may always be NULL."""
        descriptor, syntax = self._messages.get(field.type_name, (None, ""))
        parts = descriptor.field if descriptor is not None else ()
        return any(one.name == "sequence" and not _has_presence(one, syntax) for one in parts)

    def _field(self, field: FieldDescriptorProto, syntax: str, *, nulls: bool, told: bool) -> tuple[str, Any]:
        """A field's part of its message's line, and its type in Avro."""
        entry = self._entry(field)
        if entry is not None:
            return self._map(field, entry)
        kind, number, scale, avro = self._type(field, told=told)
        choice = -1
        if field.label == _REPEATED:
            mode, avro = "a", {"type": "array", "items": avro}
        elif field.label == _REQUIRED:
            mode = "q"
        elif nulls or _has_presence(field, syntax):
            mode, avro = "o", ["null", avro]
            choice = field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else -1
        else:
            mode = "r"
        return f"{field.number},{kind},{mode},{number},{choice},{scale}", avro

    def _entry(self, field: FieldDescriptorProto) -> DescriptorProto | None:
        found = self._messages.get(field.type_name)
        return found[0] if found is not None and found[0].options.map_entry else None

    def _map(self, field: FieldDescriptorProto, entry: DescriptorProto) -> tuple[str, Any]:
        key, value = sorted(entry.field, key=lambda one: one.number)
        number = self._reserve(field.type_name)
        parts = [self._type(one, told=False) for one in (key, value)]
        slots = [
            f"{one.number},{kind},r,{at},-1,{scale}"
            for one, (kind, at, scale, _) in zip((key, value), parts, strict=True)
        ]
        self.lines[number] = " ".join(["m", *slots])
        avro: Any = {"type": "map", "values": parts[1][3]}
        if key.type != _STRING:
            fields = [{"name": name, "type": part[3]} for name, part in zip(("key", "value"), parts, strict=True)]
            avro = {"type": "array", "items": {"type": "record", "name": field.type_name[1:], "fields": fields}}
        return f"{field.number},m,{'p' if key.type == _STRING else 'k'},{number},-1,0", avro

    def _type(self, field: FieldDescriptorProto, *, told: bool) -> tuple[str, int, int, Any]:
        """What the program calls a value, the number of its line, its scale, and its type in Avro."""
        if field.type == _ENUM:
            return "e", self._enum(field.type_name), 0, "string"
        if field.type != _MESSAGE:
            return self._scalar(field.type)
        name = field.type_name
        if name in _VALUES:
            kind, order, avro = _VALUES[name]
            if self._is_of_integers(name, order):
                is_exact = self._exact is None or field.name in self._exact
                return _EXACT.get(kind, kind) if is_exact else kind, self._ordered(name, order), 0, avro
        if name == _DECIMAL:
            return self._decimal(field)
        if name in _WRAPPERS:
            kind, _, _, avro = self._scalar(self._messages[name][0].field[0].type)
            return "w", self._ordered(name, ("value",)), 0, avro
        number, avro = self.message(name, told=told)
        return "m", number, 0, avro

    def _scalar(self, kind: int) -> tuple[str, int, int, Any]:
        if kind not in _SCALARS:
            message = "Protobuf's groups have no table form"
            raise WireSchemaInvalid(message)
        word, avro = _SCALARS[kind]
        if kind in _UNSIGNED_64:
            told = {"__debezium.source.column.type": "BIGINT UNSIGNED"}
            return word, -1, 0, {"type": avro, "connect.parameters": told}
        return word, -1, 0, avro

    def _is_of_integers(self, name: str, order: Sequence[str]) -> bool:
        """Whether a message is what its name says: a registry may hold another text under the name of Google's."""
        parts = {one.name: one.type for one in self._messages[name][0].field}
        return set(parts) == set(order) and set(parts.values()) <= _INTEGERS

    def _ordered(self, name: str, order: Sequence[str]) -> int:
        """The number of the line of a message whose fields come in this order."""
        form = ",".join(order)
        if (name, form) not in self._numbers:
            parts = {one.name: one for one in self._messages[name][0].field}
            slots = [f"{parts[one].number},{self._scalar(parts[one].type)[0]},r,-1,-1,0" for one in order]
            self.lines[self._reserve(name, form)] = " ".join(["m", *slots])
        return self._numbers[name, form]

    def _decimal(self, field: FieldDescriptorProto) -> tuple[str, int, int, Any]:
        """Confluent's decimal: by the scale that is told beside the field, else each with a scale of its own."""
        params = dict(_meta(field).params)
        if "scale" in params:
            scale = decimal_number(params["scale"])
            return "N", self._ordered(_DECIMAL, ("value", "scale", "precision")), scale, _avro_decimal(params, scale)
        number, name = self._ordered(_DECIMAL, ("scale", "value", "precision")), f"{_DECIMAL[1:]}__variable"
        if self._has_variable:
            return "m", number, 0, name
        self._has_variable = True
        parts = {"scale": "int", "value": "bytes", "precision": "long"}
        fields = [{"name": part, "type": kind} for part, kind in parts.items()]
        return "m", number, 0, {"type": "record", "name": name, "fields": fields, "connect.name": VARIABLE_SCALE}

    def _enum(self, name: str) -> int:
        if (name, "") not in self._numbers:
            values = [f"{one.number}={one.name}" for one in self._enums[name].value]
            self.lines[self._reserve(name)] = " ".join(["e", *values])
        return self._numbers[name, ""]


def _avro_decimal(params: Mapping[str, str], scale: int) -> Any:  # noqa: ANN401 - JSON
    """A decimal as the Avro converter registers it."""
    precision = decimal_number(params.get("precision", "0"))
    told = {"scale": str(scale)} | ({"connect.decimal.precision": str(precision)} if precision > 0 else {})
    found: dict[str, Any] = {"type": "bytes", "connect.name": DECIMALS[0], "connect.parameters": told}
    if 0 <= scale <= precision:
        found |= {"logicalType": "decimal", "scale": scale, "precision": precision}
    return found


def _has_presence(field: FieldDescriptorProto, syntax: str) -> bool:
    """Whether a field tells that it is not there from that it has its type's default (a map or an array never does)."""
    if syntax not in {"proto2", "proto3"}:
        message = "an edition of Protobuf that is not read"
        raise WireSchemaInvalid(message)
    return syntax == "proto2" or field.type == _MESSAGE or field.HasField("oneof_index")


def _meta(field: FieldDescriptorProto) -> Any:  # noqa: ANN401 - a generated class
    return field.options.Extensions[confluent_meta().field_meta]


def _doc(field: FieldDescriptorProto) -> dict[str, str]:
    doc = _meta(field).doc
    return {"doc": doc} if doc else {}
