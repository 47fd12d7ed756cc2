"""The table that benchmarks work on: orders in twelve columns, as changes that Debezium would send, from a fixed seed.

A topic of any size is written once and found again by the next benchmark; equal arguments give equal bytes.
"""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import fastavro

from cdc_materializer.testing import (
    MemoryRegistry,
    avro_envelope_schema,
    avro_key_schema,
    debezium_envelope,
    debezium_json,
    recorded_line,
)

Encoding = Literal["avro", "json"]

TOPIC = "shop.public.orders"
SEED = 20_261_121
#: Of so many changes one is of a row that was not there before; the others change or delete one that was.
CHANGES_A_ROW = 3
#: Share of the later changes that delete.
DELETED = 0.04

_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_STATES = ("new", "paid", "shipped", "returned")
_COUNTRIES = ("AT", "CZ", "DE", "ES", "FR", "IT", "NL", "PL", "PT", "SE")
_MICROSECONDS, _DAYS = "io.debezium.time.MicroTimestamp", "io.debezium.time.Date"
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}

#: The columns: ODCS physical type and Avro type.
COLUMNS: dict[str, tuple[str, Any]] = {
    "id": ("bigint", "long"),
    "customer_id": ("integer", "int"),
    "state": ("text", "string"),
    "amount": ("numeric(12,2)", _DECIMAL),
    "fee": ("numeric(12,2)", ["null", _DECIMAL]),
    "qty": ("integer", "int"),
    "country": ("text", "string"),
    "email": ("text", "string"),
    "note": ("text", ["null", "string"]),
    "placed_at": ("timestamp without time zone", {"type": "long", "connect.name": _MICROSECONDS, "connect.version": 1}),
    "due": ("date", ["null", {"type": "int", "connect.name": _DAYS, "connect.version": 1}]),
    "is_gift": ("boolean", "boolean"),
}


def write_orders(folder: Path, changes: int, encoding: Encoding = "avro", seed: int = SEED) -> Path:
    """Write a folder with the topic and, for Avro, its schemas, unless it is there; return it.

    Args:
        folder: where such folders go.
        changes: how many messages the topic has.
        encoding: how they are written; JSON is without a schema.
        seed: of the random numbers.
    """
    made = folder / f"orders-{encoding}-{changes}-{seed}"
    if made.exists():
        return made
    unfinished = made.with_suffix(".unfinished")
    (unfinished / "recorded").mkdir(parents=True, exist_ok=True)
    encode = _avro(unfinished / "schemas") if encoding == "avro" else _json
    with (unfinished / "recorded" / f"{TOPIC}.jsonl").open("w", encoding="utf-8") as file:
        for offset, (op, row) in enumerate(_changes(changes, random.Random(seed))):  # noqa: S311 - no secret
            after = None if op == "d" else row
            envelope = debezium_envelope(op, None, after, lsn=1_000 + offset, ts_ms=_millis(offset))
            key, value = encode({"id": row["id"]}, envelope)
            at = _BEGIN + timedelta(milliseconds=offset)
            file.write(recorded_line(TOPIC, 0, offset, key, value, at) + "\n")
    unfinished.rename(made)
    return made


def _millis(offset: int) -> int:
    return int(_BEGIN.timestamp() * 1_000) + offset


def _changes(count: int, numbers: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = max(1, count // CHANGES_A_ROW)
    for at in range(count):
        number = at if at < rows else numbers.randrange(rows)
        op = "c" if at < rows else "d" if numbers.random() < DELETED else "u"
        yield op, order(number, numbers)


def order(number: int, numbers: random.Random) -> dict[str, Any]:
    """An order by its number; times are microseconds and days, as Debezium writes them."""
    whole = numbers.randrange(10_000_000)
    customer = numbers.randrange(1, 50_000)
    placed = int(_BEGIN.timestamp()) + numbers.randrange(20_000_000)
    return {
        "id": number,
        "customer_id": customer,
        "state": numbers.choice(_STATES),
        "amount": Decimal(whole).scaleb(-2),
        "fee": Decimal(whole // 50).scaleb(-2) if whole % 3 else None,
        "qty": 1 + whole % 20,
        "country": numbers.choice(_COUNTRIES),
        "email": f"customer{customer}@example.com",
        "note": f"Leave at door {whole % 1_000}" if whole % 4 == 0 else None,
        "placed_at": placed * 1_000_000 + whole,
        "due": placed // 86_400 + 14 if whole % 5 else None,
        "is_gift": whole % 10 == 0,
    }


def _json(key: dict[str, Any], envelope: dict[str, Any]) -> tuple[bytes, bytes]:
    after = envelope["after"]
    if after is not None:
        # `decimal.handling.mode: string`, the one that loses nothing without a schema.
        envelope["after"] = {name: str(value) if isinstance(value, Decimal) else value for name, value in after.items()}
    return debezium_json(key), debezium_json(envelope)


def _avro(schemas: Path) -> Callable[[dict[str, Any], dict[str, Any]], tuple[bytes, bytes]]:
    """Write the schemas, and return what encodes with them."""
    key = avro_key_schema(TOPIC, {"id": "long"})
    value = avro_envelope_schema(TOPIC, {name: avro for name, (_, avro) in COLUMNS.items()})
    MemoryRegistry({1: key, 2: value}).write(schemas)
    parsed = {1: fastavro.parse_schema(key), 2: fastavro.parse_schema(value)}

    def encoded(number: int, datum: dict[str, Any]) -> bytes:
        buffer = BytesIO(b"\0" + number.to_bytes(4, "big"))
        buffer.seek(5)
        fastavro.schemaless_writer(buffer, parsed[number], datum)
        return buffer.getvalue()

    return lambda key, envelope: (encoded(1, key), encoded(2, envelope))
