"""A decoded message, as the reference fold takes it."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

#: In an image, a value that the connector did not know (§1.7).
UNAVAILABLE = object()
Key = Hashable
Row = Mapping[str, Any]
Position = tuple[Any, ...]
_One = TypeVar("_One")


@dataclass(frozen=True)
class Message:
    """A decoded message.

    Attributes:
        partition: of the topic.
        offset: in the partition.
        op: `c`, `u`, `d`, `r`, `t`, `tombstone`; None where the message is none of these and changes no row.
        key: from the Kafka key, or the configured columns; None for a truncate.
        image: `after`, as far as the writer's schema has columns; with UNAVAILABLE where the connector knew no value.
        position: in the database's log; None where the source gives none that can be compared.
        streaming: whether it comes from the log and not from a snapshot.
        time: the record's timestamp.
        source_ms: when the database says that the change was made.
        before: the old image, which is never a fact (§1.6); it tells two changes at one place apart.
        order: the number of the change in its transaction, where the connector tells it.
        held: whether it could not be understood, so that nobody knows what it set.
        table: the source table; None where the message does not say.
        reached: of a message that tells no place, how far its key had got by then, see `with_reached`.
        lowest: the place that it stands behind at least.
        transaction: the number that its transaction has in its log, whichever server sends it (GTID); None without.
    """

    partition: int
    offset: int
    op: str | None
    key: Key | None = None
    image: Row | None = None
    position: Position | None = None
    streaming: bool = True
    time: int = 0
    source_ms: int = 0
    before: Row | None = None
    held: bool = False
    table: str | None = None
    reached: Position | None = None
    lowest: tuple[Position, int] | None = None
    transaction: tuple[str, int] | None = None
    order: int | None = None


@dataclass(frozen=True)
class From:
    """A value that a key change left out: that of the row which its delete, at the same position, ended (§0.1)."""

    insert: Message
    column: str


def replace(one: _One, **changes: Any) -> _One:  # noqa: ANN401 - of any attribute
    """As that of `dataclasses`, which took two thirds of what random lives cost."""
    assert changes.keys() <= one.__dict__.keys()
    found = object.__new__(type(one))
    found.__dict__.update(one.__dict__, **changes)
    return found
