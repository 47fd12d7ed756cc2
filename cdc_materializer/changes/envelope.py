"""Debezium's envelope as its schema shows it: which row it carries, or that it carries none. Pure."""

from __future__ import annotations

from cdc_materializer.decode.wire import WireType

#: Ends of the schema names of messages that never change a row (changelog-semantics §1.4).
OTHER_MESSAGES = ("Heartbeat", "TransactionMetadataValue", "SchemaChangeValue", "Notification", "MessageValue")


def row_of(wire: WireType) -> WireType | None:
    """The type of a row in an envelope, None where the schema is no envelope."""
    if wire.get("op") is None:
        return None
    found = wire.get("after") or wire.get("before")
    return found if found is not None and found.literal == "record" else None


def is_other(wire: WireType) -> bool:
    """Whether the schema is that of a message which changes no row: a heartbeat, a transaction mark and the like."""
    return wire.name.endswith(OTHER_MESSAGES)
