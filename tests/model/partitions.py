"""The order of a key's messages where several partitions have them (changelog-semantics §2.2, §2.3; ADR 7)."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from tests.model.messages import Message, Position, replace

#: Operations that say something of a row.
_TELLING = ("c", "u", "d", "r", "tombstone")


def in_order(messages: Iterable[Message]) -> list[Message]:
    """The messages of a key, and truncates, in one order, in which each partition stays in that of its offsets (§2.2).

    The source's positions decide between partitions; what has none follows the message before it in its partition.
    """
    reached: dict[int, tuple[tuple[Position, int], int]] = {}
    placed = []
    for message in sorted(messages, key=lambda one: (one.partition, one.offset)):
        lane, told = message.partition, message.reached or message.position or ()
        place, time = reached.get(lane, (((), 0), 0))
        # At one position a delete comes before what another partition makes of the row (§0.2, §2.4).
        rank = 4 if message.reached else {"r": 1, "c": 2, "u": 3}.get(message.op or "", 0)
        place, time = max(place, (told, rank if told else 0), message.lowest or ((), 0)), max(time, message.time)
        reached[lane] = place, time
        placed.append((*place, time, message.offset, message.partition, message))
    return [message for *_, message in sorted(placed, key=lambda place: place[:5])]


def with_deletes(messages: Iterable[Message]) -> list[tuple[Message, bool]]:
    """Messages, and whether each is the tombstone right behind its delete; others at the places of theirs (§0 rule 6).

    A tombstone in another partition belongs to the last delete that was written no later and has none right behind it.
    """
    by_lane: dict[tuple[Any, int], list[Message]] = {}
    for message in sorted(messages, key=lambda one: (one.partition, one.offset)):
        by_lane.setdefault((message.key, message.partition), []).append(message)
    own, parted, alone = [], list[Message](), list[Message]()
    for lane in by_lane.values():
        for before, message, behind in zip([None, *lane], lane, [*lane[1:], None], strict=False):
            is_own = message.op == "tombstone" and before is not None and before.op == "d"
            if message.op == "d" and (behind is None or behind.op != "tombstone"):
                parted.append(message)
            if message.op == "tombstone" and not is_own:
                alone.append(message)
            else:
                own.append((message, is_own))
    for message in alone:
        ahead = [one for one in parted if one.key == message.key and one.time <= message.time]
        last = max(ahead, key=lambda one: (one.time, one.partition, one.offset), default=message)
        # In its own partition the order of offsets tells: that delete had no tombstone.
        told = last.position if last.partition != message.partition else message.position
        own.append((replace(message, position=told), False))
    return own


def with_reached(told_of: Iterable[tuple[Message, bool]]) -> list[Message]:
    """Messages, with how far their key had got in all partitions when one that tells no place was written.

    What is written behind such a one stands behind it, in whatever partition: `lowest`.
    """
    found = [
        (message, message.position is None and message.op in _TELLING and not is_own) for message, is_own in told_of
    ]
    highest, lowest, told = dict[Any, Position](), dict[Any, tuple[Position, int]](), []
    for _, together in groupby(sorted(found, key=lambda one: one[0].time), key=lambda one: one[0].time):
        written, behind = list(together), dict[Any, tuple[Position, int]]()
        # Of the same millisecond deletes alone count: a tombstone may be parted from its own.
        ended = [message for message, _ in written if message.op == "d"]
        for message, is_unplaced in written:
            key, reached, low = message.key, None, lowest.get(message.key)
            if is_unplaced:
                deleted = [one.position or () for one in ended if one.key == key]
                reached = max([highest.get(key, ()), *deleted])
                behind[key] = max(behind.get(key, ((), 0)), (reached, 4 if reached else 0))
            low = low if message.op in _TELLING else None
            told.append(message if reached is low is None else replace(message, reached=reached, lowest=low))
        for message, _ in written:
            highest[message.key] = max(highest.get(message.key, ()), message.position or ())
        lowest |= {key: max(lowest.get(key, ((), 0)), place) for key, place in behind.items()}
    return told
