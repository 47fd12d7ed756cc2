"""`types.yaml` read: each type of a column as Avro and as JSON with schema, and what its values become."""

import base64
import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_LITERALS = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "bytes",
}
#: The names that the Avro converter gives a logical type of Avro's own.
_LOGICAL = {"Decimal": "decimal", "Date": "date", "Time": "time-millis", "Timestamp": "timestamp-millis"}
_CONNECT = "org.apache.kafka.connect.data."


@dataclass(frozen=True)
class Value:
    """A value on the wire, and what its column says.

    Attributes:
        avro: as Avro's writer takes it.
        json: as JSON carries it.
        text: the column's text; None for NULL.
        clamp: the same under `special_values: clamp`.
        code: why the row is held; None where it is not.
    """

    avro: Any
    json: Any
    text: str | None
    clamp: str | None
    code: str | None


@dataclass(frozen=True)
class ColumnCase:
    """One column of `types.yaml`."""

    name: str
    connect: dict[str, Any]
    column: str
    values: tuple[Value, ...]
    own: Any = None

    def avro(self) -> Any:  # noqa: ANN401 - JSON
        """The type as the Avro converter registers it."""
        if isinstance(self.own, list):
            return ["null", *self.own]
        return ["null", self.own] if self.own is not None else _avro(self.connect, itertools.count(), self.name)

    def is_in(self, form: str) -> bool:
        """Whether an encoding, `avro` or `json`, has such a type."""
        return form == "avro" or self.own is None


@functools.cache
def columns() -> tuple[ColumnCase, ...]:
    """Every column, each of which may be NULL."""
    found = yaml.safe_load((Path(__file__).parent / "types.yaml").read_text(encoding="utf-8"))
    return tuple(
        ColumnCase(
            name,
            {**told["type"], "optional": True},
            told["column"],
            tuple(_value(told["type"], *one) for one in told["values"]),
            told.get("avro"),
        )
        for name, told in found.items()
    )


def _value(kind: Mapping[str, Any], wire: Any, text: str | None, more: Mapping[str, Any] | None = None) -> Value:  # noqa: ANN401
    more = more or {}
    written = more.get("json", _written(kind, wire, _json_bytes, pairs=lambda key, value: [key, value]))
    datum = _written(kind, wire, bytes, pairs=lambda key, value: {"key": key, "value": value})
    return Value(datum, written, text, more.get("clamp", text), more.get("code"))


def _json_bytes(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _written(
    kind: Mapping[str, Any],
    value: Any,  # noqa: ANN401 - JSON
    octets: Callable[[bytes], Any],
    pairs: Callable[[Any, Any], Any],
) -> Any:  # noqa: ANN401 - JSON
    """A value of types.yaml in one of the encodings."""
    if value is None:
        return None
    if kind["type"] == "bytes":
        return octets(bytes.fromhex(value["hex"]))
    if kind["type"] == "array":
        return [_written(kind["items"], item, octets, pairs) for item in value]
    if kind["type"] == "map":
        items = {key: _written(kind["values"], item, octets, pairs) for key, item in value.items()}
        return items if kind["keys"]["type"] == "string" else [pairs(key, item) for key, item in items.items()]
    if kind["type"] == "struct":
        return {part["field"]: _written(part, value[part["field"]], octets, pairs) for part in kind["fields"]}
    return value


def _avro(kind: Mapping[str, Any], numbers: "itertools.count[int]", name: str) -> Any:  # noqa: ANN401 - JSON
    """A Connect type as the Avro converter writes it."""
    told: dict[str, Any] = {}
    if kind["type"] == "struct":
        record = f"{name}_{next(numbers)}"
        fields = [{"name": part["field"], "type": _avro(part, numbers, name)} for part in kind["fields"]]
        told = {"type": "record", "name": record, "fields": fields}
    elif kind["type"] == "array":
        told = {"type": "array", "items": _avro(kind["items"], numbers, name)}
    elif kind["type"] == "map" and kind["keys"]["type"] == "string":
        told = {"type": "map", "values": _avro(kind["values"], numbers, name)}
    elif kind["type"] == "map":
        parts = [{"name": part, "type": _avro(kind[f"{part}s"], numbers, name)} for part in ("key", "value")]
        entry = {"type": "record", "name": f"{name}_{next(numbers)}", "fields": parts}
        told = {"type": "array", "items": entry, "connect.type": "map"}
    else:
        told = {"type": _LITERALS[kind["type"]]}
        told |= {"connect.type": kind["type"]} if kind["type"] in {"int8", "int16"} else {}
    if "name" in kind:
        told["connect.name" if "." in kind["name"] else "logicalType"] = kind["name"]
    if "parameters" in kind:
        told["connect.parameters"] = kind["parameters"]
    logical = _LOGICAL.get(kind.get("name", "").removeprefix(_CONNECT))
    if logical is not None and kind["type"] != "string":
        told["logicalType"] = logical
    if told.get("logicalType") == "decimal":
        # The converter writes 64 for a precision that it is not told.
        told["scale"] = int(kind["parameters"]["scale"])
        told["precision"] = int(kind["parameters"].get("connect.decimal.precision", 64))
    return ["null", told] if kind.get("optional") else told
