"""Quarantine tables in memory, for tests of what is told about them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from cdc_materializer.catalog.local_table import SnapshotLine
from cdc_materializer.marker.marker import Marker
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CANARY = "ann@example.test"


#: What tells the schema of a key or value.
Told = int | str | bytes | None


@dataclass(frozen=True)
class Table:
    """A configured table, as far as the report looks."""

    topic: str
    mirror: TableName


ORDERS = Table("pga.shop.orders", TableName.parse("shop.orders"))
PAYMENTS = Table("pga.shop.payments", TableName.parse("shop.payments"))


@dataclass
class Lake:
    """Tables in memory.

    Attributes:
        tables: rows by the table's name, with `@` and the snapshot's id for those of an earlier snapshot.
        ran: mirrors that have been published to.
        messages: messages in raw, by the mirror's name.
        lines: snapshots by the table's name, newest first, where a test has more to say of them.
        schemas: what tells the schemas of key and value of messages, by partition and offset: an id, the name that a
            header gives, or the bytes.
    """

    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    ran: set[str] = field(default_factory=set)
    messages: dict[str, int] = field(default_factory=dict)
    lines: dict[str, Sequence[SnapshotLine]] = field(default_factory=dict)
    schemas: dict[tuple[int, int], tuple[Told, Told]] = field(default_factory=dict)

    def values_of(self, name: TableName, columns: Sequence[str], at: int | None = None) -> list[dict[str, Any]] | None:
        """Return the asked columns only, as the catalog's reader does."""
        rows = self.tables.get(f"{name}@{at}", self.tables.get(str(name)))
        return None if rows is None else [{column: row[column] for column in columns} for row in rows]

    def values_at(
        self, name: TableName, columns: Sequence[str], places: Collection[tuple[int, int]]
    ) -> list[dict[str, Any]]:
        """Return what the test gave that is of a column."""
        assert name.name.endswith("__raw")
        kinds = {"key": bytes, "value": bytes, "schema_id": int, "schema_name": str}
        found = []
        for place in self.schemas.keys() & set(places):
            row: dict[str, Any] = {"partition": place[0], "offset": place[1]}
            for column in columns:
                side, _, part = column.partition("_")
                told = self.schemas[place][side == "value"]
                row[column] = told if isinstance(told, kinds[part or side]) else None
            found.append(row)
        return found

    def lines_of(self, name: TableName) -> Sequence[SnapshotLine]:
        """Return the snapshots that the test gave, else one for each table that is there."""
        if str(name) in self.lines:
            return self.lines[str(name)]
        mirror = str(name).removesuffix("__raw")
        if mirror != str(name):
            messages = self.messages.get(mirror)
            return [SnapshotLine(1, None, 1, {"total-records": str(messages)})] if messages else []
        return [line(1, 60)] if str(name) in self.ran or str(name) in self.tables else []


def row(offset: int, **changes: object) -> dict[str, Any]:
    """One quarantine row: broken rule `known-status`, held, open, detected an hour after the message."""
    found: dict[str, Any] = {
        "topic": "pga.shop.orders",
        "partition": 0,
        "offset": offset,
        "timestamp": NOW - timedelta(days=1) + timedelta(minutes=offset),
        "key": f'{{"mail":"{CANARY}"}}',
        "code": "CONTRACT",
        "rule": "known-status",
        "severity": "error",
        "action": "quarantine",
        "status": "open",
        "column": "status",
        "detected_at": NOW - timedelta(hours=3) + timedelta(minutes=offset),
        "batch_id": "b1",
    }
    return found | changes


def line(
    number: int, minutes: int, batch: str | None = None, contract: str | None = None, **counts: int
) -> SnapshotLine:
    """A snapshot made some minutes before `NOW`, the child of the number before; a hundred messages each, if marked."""
    marker = Marker("shop", batch or "", "t", None, Offsets({0: 100 * number}), {}, None, contract, counts)
    summary = marker.to_summary() if batch is not None else {}
    at = int((NOW - timedelta(minutes=minutes)).timestamp() * 1000)
    return SnapshotLine(number, number - 1 or None, number, summary, at)
