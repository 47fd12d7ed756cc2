"""Generated values of all kinds that databases have: how the wire carries each, and what a table shows of it."""

import base64
import datetime as dt
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from cdc_materializer.testing import (
    avro_envelope_schema,
    avro_key_schema,
    confluent_avro,
    connect_envelope_schema,
    connect_key_schema,
    debezium_envelope,
    debezium_json,
)
from tests.cases.types import ColumnCase

TOPIC = "shop.public.values"
ROWS = 400
_TIME, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_DAY = dt.date(1970, 1, 1)
# Columns without a time zone, and the ends of what they hold.
_EPOCH, _FIRST, _LAST = dt.datetime(1970, 1, 1), dt.datetime.min, dt.datetime.max  # noqa: DTZ001, DTZ901
_MICRO = dt.timedelta(microseconds=1)
_DIGITS = Context(prec=60)
_LETTERS = "aZ0 ß😀\\\"'\n\t,{}[]\x00_é"
_EIGHTHS = 8
BINARY = frozenset({"octets", "bits"})
Chance = random.Random


@dataclass(frozen=True)
class Kind:
    """A type: how the database's values are made, what the wire has of one, and what the column's text is.

    What JSON has may be something else (`json`), and a number of any number of digits (`number`).
    """

    connect: dict[str, Any]
    given: Callable[[Chance], Any]
    wire: Callable[[Any], Any]
    text: Callable[[Any], str | None]
    json: Callable[[Any], Any] | None = None
    number: Callable[[Any], Any] | None = None

    def written(self, value: Any, form: str) -> Any:  # noqa: ANN401 - any value
        """A value in Avro, in JSON, or there with its decimals as numbers."""
        write = self.wire if form == "avro" else self.json or self.wire
        write = self.number or write if form == "numbers" else write
        return write(value) if value is not None else None

    def shown(self, value: Any) -> str | None:  # noqa: ANN401 - any value
        """The text of a value; NULL has none."""
        return self.text(value) if value is not None else None

    def avro(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """The type as the Avro converter registers it."""
        return ColumnCase(name, {**self.connect, "optional": True}, "", ()).avro()


def _same(value: Any) -> Any:  # noqa: ANN401 - any value
    return value


def _integer(bits: int) -> Callable[[Chance], int]:
    """Integers of all sizes, and the ends."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return lambda chance: chance.choice([low, high, 0, -1, max(low, min(high, chance.getrandbits(bits) - high))])


def _decimal(precision: int, scale: int) -> Kind:
    """Decimals of up to so many digits, by their unscaled numbers."""

    def given(chance: Chance) -> int:
        return chance.choice([1, -1]) * chance.randrange(10 ** chance.randrange(precision + 1))

    def octets(unscaled: int) -> bytes:
        return unscaled.to_bytes((unscaled.bit_length() + 8) // 8, "big", signed=True)

    def text(unscaled: int) -> str:
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        sign = "-" if unscaled < 0 else ""
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"

    def written(unscaled: int) -> str:
        return _coded(octets(unscaled))

    def number(unscaled: int) -> str:
        # As Java writes it: with an exponent where six zeros follow the point.
        return f"#{Decimal(unscaled).scaleb(-scale, _DIGITS)}#"

    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    kind = {"type": "bytes", "name": f"{_CONNECT}Decimal", "version": 1, "parameters": parameters}
    return Kind(kind, given, octets, text, written, number)


def _text(chance: Chance) -> str:
    return "".join(chance.choices(_LETTERS, k=chance.randrange(12)))


def _octets(chance: Chance) -> bytes:
    return chance.randbytes(chance.randrange(12))


def _moment(chance: Chance) -> dt.datetime:
    ends = [_FIRST, _LAST, _EPOCH, _EPOCH - _MICRO]
    return chance.choice([*ends, _FIRST + _MICRO * chance.randrange(315_537_897_599_999_999)])


def _millis(chance: Chance) -> dt.datetime:
    found = _moment(chance)
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


def _day(chance: Chance) -> dt.date:
    return _moment(chance).date()


def _shown_day(value: dt.date) -> str:
    return f"{value.year:04}-{value:%m-%d}"


def _micros(value: dt.datetime) -> int:
    return (value - _EPOCH) // _MICRO


def _clock(value: dt.datetime) -> str:
    return str(_micros(value) % 86_400_000_000)


def _hex(octets: bytes) -> str:
    return octets.hex().upper()


def _coded(octets: bytes) -> str:
    return base64.b64encode(octets).decode()


def _shown(value: dt.datetime) -> str:
    """A moment as Spark writes it: a fraction only where there is one."""
    fraction = f".{value.microsecond:06}".rstrip("0").rstrip(".")
    return f"{value.year:04}-{value:%m-%d %H:%M:%S}{fraction}"


def _zoned(value: dt.datetime) -> str:
    """In one of the zones of the world, as connectors of databases that keep them do."""
    minutes = (value.microsecond % 27 - 13) * 60 if 1 < value.year < 9999 else 0
    there = value + dt.timedelta(minutes=minutes)
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:00" if minutes else "Z"
    return f"{there.year:04}-{there:%m-%dT%H:%M:%S}.{there.microsecond:06}{zone}"


def _parts(value: dt.datetime) -> dict[str, Any]:
    names = ("year", "month", "day", "hour", "minute", "second")
    told = dict(zip(names, value.timetuple()[:6], strict=True))
    return {**told, "picoseconds": value.microsecond * 10**6 + 999_999, "specialValue": None}


def _named(kind: str, name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"type": kind, "name": name, "version": 1, **more}


def _fraction(parts: int, limit: int) -> Kind:
    """Binary fractions whose digits are few, so that their text is plain to see, and what is no number."""

    def given(chance: Chance) -> float:
        special = chance.choice([float("nan"), float("inf"), float("-inf")])
        return special if chance.random() < 0.1 else chance.randrange(-limit, limit) / parts

    def text(value: float) -> str:
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), str(value))

    kind = {"type": "float" if parts == _EIGHTHS else "double"}
    return Kind(kind, given, _same, text, lambda value: value if math.isfinite(value) else text(value))


def _variable() -> Kind:
    """Numbers with a scale each, by their unscaled numbers and scales."""

    def given(chance: Chance) -> tuple[int, int]:
        return chance.choice([1, -1]) * chance.randrange(10 ** chance.randrange(1, 20)), chance.randrange(-5, 12)

    def wire(value: tuple[int, int]) -> dict[str, Any]:
        return {"scale": value[1], "value": _unscaled(value[0])}

    def text(value: tuple[int, int]) -> str:
        shown = f"{Decimal(value[0]).scaleb(-value[1], _DIGITS):f}"
        return "0" if not value[0] else shown.rstrip("0").rstrip(".") if "." in shown else shown

    fields = [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}]
    kind = _named("struct", "io.debezium.data.VariableScaleDecimal", fields=fields)
    return Kind(kind, given, wire, text, lambda value: {**wire(value), "value": _coded(_unscaled(value[0]))})


def _unscaled(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)


def _count(kind: str, name: str, limit: int, per_micro: int = 1, per_count: int = 1) -> Kind:
    """Counts up to a limit whose column has microseconds: so many of a count, or so many counts of one."""
    return Kind(
        _named(kind, name),
        lambda chance: chance.randrange(-limit, limit),
        _same,
        lambda value: str(value * per_count // per_micro),
    )


# --- what has parts


def _optional(kind: Kind) -> dict[str, Any]:
    return {**kind.connect, "optional": True}


def _some(kind: Kind, chance: Chance) -> Any:  # noqa: ANN401 - any value
    return kind.given(chance) if chance.random() < 0.8 else None


def _told(kind: Kind, value: Any) -> str:  # noqa: ANN401 - any value
    text = kind.shown(value)
    return text if text is not None else "null"


def _parted(connect: dict[str, Any], given: Callable[[Chance], Any], write: Any, text: Any) -> Kind:  # noqa: ANN401
    """A kind with parts: `write` takes a value and its form."""
    return Kind(
        connect,
        given,
        lambda value: write(value, "avro"),
        text,
        lambda value: write(value, "json"),
        lambda value: write(value, "numbers"),
    )


def _listed(kind: Kind) -> Kind:
    """Lists of up to three values."""
    return _parted(
        {"type": "array", "items": _optional(kind)},
        lambda chance: [_some(kind, chance) for _ in range(chance.randrange(4))],
        lambda value, form: [kind.written(one, form) for one in value],
        lambda value: f"[{', '.join(_told(kind, one) for one in value)}]",
    )


def _keyed(kind: Kind) -> Kind:
    """Maps of at most one entry, for their order is nobody's."""
    return _parted(
        {"type": "map", "keys": {"type": "string"}, "values": _optional(kind)},
        lambda chance: {"k": _some(kind, chance)} if chance.random() < 0.8 else {},
        lambda value, form: {key: kind.written(one, form) for key, one in value.items()},
        lambda value: "{" + ", ".join(f"{key} -> {_told(kind, one)}" for key, one in value.items()) + "}",
    )


def _paired(kind: Kind) -> Kind:
    """Maps of other keys than texts."""

    def write(value: dict[int, Any], form: str) -> list[Any]:
        told = [(key, kind.written(one, form)) for key, one in value.items()]
        return [{"key": key, "value": one} if form == "avro" else [key, one] for key, one in told]

    return _parted(
        {"type": "map", "keys": {"type": "int32"}, "values": _optional(kind)},
        lambda chance: {chance.getrandbits(31): _some(kind, chance) for _ in range(chance.randrange(3))},
        write,
        lambda value: "[" + ", ".join(f"{{{key}, {_told(kind, one)}}}" for key, one in value.items()) + "]",
    )


def _grouped(**kinds: Kind) -> Kind:
    """Structs."""
    return _parted(
        {
            "type": "struct",
            "name": "shop.Group",
            "fields": [{**_optional(kind), "field": n} for n, kind in kinds.items()],
        },
        lambda chance: {name: _some(kind, chance) for name, kind in kinds.items()},
        lambda value, form: {name: kind.written(value[name], form) for name, kind in kinds.items()},
        lambda value: "{" + ", ".join(_told(kind, value[name]) for name, kind in kinds.items()) + "}",
    )


def _field(kind: str, name: str) -> dict[str, Any]:
    return {"type": kind, "field": name, "optional": True}


_STRUCTURED = [
    _field("int32", "year"),
    *[_field("int8", name) for name in ("month", "day", "hour", "minute", "second")],
    _field("int64", "picoseconds"),
    _field("string", "specialValue"),
]
KINDS: dict[str, Kind] = {
    "boolean": Kind({"type": "boolean"}, lambda chance: chance.random() < 0.5, _same, lambda value: str(value).lower()),
    "int16": Kind({"type": "int16"}, _integer(16), _same, str),
    "int32": Kind({"type": "int32"}, _integer(32), _same, str),
    "int64": Kind({"type": "int64"}, _integer(64), _same, str),
    "unsigned": Kind(
        {"type": "int64", "parameters": {"__debezium.source.column.type": "BIGINT UNSIGNED"}},
        lambda chance: chance.choice([0, 2**63, 2**64 - 1, chance.getrandbits(64)]),
        lambda value: value - 2**64 if value >= 2**63 else value,
        str,
    ),
    "text": Kind({"type": "string"}, _text, _same, _same),
    "octets": Kind(
        {"type": "bytes"},
        _octets,
        _same,
        _hex,
        _coded,
    ),
    "money": _decimal(10, 2),
    "long_decimal": _decimal(18, 18),
    "longer_decimal": _decimal(19, 0),
    "longest_decimal": _decimal(38, 12),
    "day": Kind(
        _named("int32", f"{_TIME}Date"),
        _day,
        lambda value: (value - _DAY).days,
        _shown_day,
    ),
    "millis": Kind(_named("int64", f"{_TIME}Timestamp"), _millis, lambda value: _micros(value) // 1000, _shown),
    "micros": Kind(_named("int64", f"{_TIME}MicroTimestamp"), _moment, _micros, _shown),
    "zoned": Kind(_named("string", f"{_TIME}ZonedTimestamp"), _moment, _zoned, _shown),
    "iso": Kind(
        _named("string", f"{_TIME}IsoTimestamp"),
        _moment,
        lambda value: f"{value.year:04}-{value:%m-%dT%H:%M:%S}.{value.microsecond:06}Z",
        _shown,
    ),
    "in_parts": Kind(_named("struct", f"{_TIME}StructuredTimestamp", fields=_STRUCTURED), _moment, _parts, _shown),
    "clock": Kind(
        _named("int64", f"{_TIME}NanoTime"),
        lambda chance: chance.randrange(86_400_000_000),
        lambda value: value * 1000 + 999,
        str,
    ),
    "float32": _fraction(_EIGHTHS, 2**20),
    "float64": _fraction(64, 2**29),
    "variable": _variable(),
    "bits": Kind(_named("bytes", "io.debezium.data.Bits", parameters={"length": "64"}), _octets, _same, _hex, _coded),
    "clock_millis": _count("int32", f"{_TIME}Time", 86_400_000, per_count=1000),
    "clock_micros": _count("int64", f"{_TIME}MicroTime", 3_020_399_000_000),
    "connect_clock": _count("int32", f"{_CONNECT}Time", 86_400_000, per_count=1000),
    "span_micros": _count("int64", f"{_TIME}MicroDuration", 2**63),
    "span_nanos": _count("int64", f"{_TIME}NanoDuration", 2**63, per_micro=1000),
    "span_double": Kind(
        _named("double", f"{_TIME}MicroDuration"),
        lambda chance: chance.randrange(-(2**45), 2**45),
        # As the connectors make it.
        lambda value: value / 1_000_000 * 1_000_000,
        str,
    ),
    "connect_day": Kind(_named("int32", f"{_CONNECT}Date"), _day, lambda value: (value - _DAY).days, _shown_day),
    "connect_millis": Kind(_named("int64", f"{_CONNECT}Timestamp"), _millis, lambda v: _micros(v) // 1000, _shown),
    "nanos": Kind(
        _named("int64", f"{_TIME}NanoTimestamp"),
        lambda chance: _EPOCH + _MICRO * chance.randrange(-(2**63) // 1000 + 1, 2**63 // 1000),
        lambda value: _micros(value) * 1000 + 999,
        _shown,
    ),
    "iso_day": Kind(_named("string", f"{_TIME}IsoDate"), _day, lambda value: f"{_shown_day(value)}Z", _shown_day),
    "iso_clock": Kind(
        _named("string", f"{_TIME}IsoTime"), _moment, lambda value: f"{value:%H:%M:%S}.{value.microsecond:06}Z", _clock
    ),
}
KINDS |= {
    "decimals": _listed(_decimal(20, 4)),
    "fractions": _listed(KINDS["float64"]),
    "spans": _listed(KINDS["span_double"]),
    "variables_by_name": _keyed(KINDS["variable"]),
    "days_by_number": _paired(KINDS["day"]),
    "texts_by_number": _paired(KINDS["text"]),
    "decimals_by_number": _paired(_decimal(38, 12)),
    "lists_by_number": _paired(_listed(KINDS["zoned"])),
    "group": _grouped(
        day=KINDS["iso_day"],
        amount=_decimal(19, 0),
        at=KINDS["nanos"],
        spans=_keyed(KINDS["clock"]),
        f=KINDS["float32"],
    ),
}


def generated_rows(chance: Chance) -> list[dict[str, Any]]:
    """What the database was given; NULL now and then."""
    return [
        {name: kind.given(chance) if chance.random() < 0.9 else None for name, kind in KINDS.items()}
        for _ in range(ROWS)
    ]


def messages_of(rows: list[dict[str, Any]], form: str) -> list[tuple[bytes, bytes]]:
    """The messages of rows that are made: `avro`, `json`, or `numbers`, JSON whose decimals are numbers."""
    avro_key = avro_key_schema(TOPIC, {"id": "long"})
    avro = avro_envelope_schema(TOPIC, {"id": "long", **{name: kind.avro(name) for name, kind in KINDS.items()}})
    key_kinds = {"id": {"type": "int64", "optional": False}}
    kinds = key_kinds | {name: {**kind.connect, "optional": True} for name, kind in KINDS.items()}
    blocks = connect_key_schema(TOPIC, key_kinds), connect_envelope_schema(TOPIC, kinds)
    found = []
    for at, row in enumerate(rows):
        wire: dict[str, Any] = {"id": at}
        for name, kind in KINDS.items():
            wire[name] = kind.written(row[name], form)
        envelope = debezium_envelope("c", None, wire, lsn=100 + at)
        if form == "avro":
            found.append((confluent_avro(1, avro_key, {"id": at}), confluent_avro(2, avro, envelope)))
        else:
            value = re.sub(rb'"#([-+.0-9E]+)#"', rb"\1", debezium_json(envelope, blocks[1]))
            found.append((debezium_json({"id": at}, blocks[0]), value))
    return found


def schemas() -> dict[int, dict[str, Any]]:
    """The schemas of keys and of values in Avro, by their ids."""
    value = avro_envelope_schema(TOPIC, {"id": "long", **{name: kind.avro(name) for name, kind in KINDS.items()}})
    return {1: avro_key_schema(TOPIC, {"id": "long"}), 2: value}
