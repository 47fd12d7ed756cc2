"""The topic that Debezium's PostgreSQL connector makes of a history: crashes, copies, partitions (§2.2)."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cdc_materializer.testing import kafka_partition
from tests.model import messages
from tests.model.history import UNAVAILABLE, Event


def sent(events: Sequence[Event], seed: int, reach: int = 25, *, alone: bool = False) -> Iterator[tuple[int, Event]]:
    """The events as a connector that crashes now and then sends them, each with its place in the history.

    After a crash it goes back to an offset that it had stored and sends the log from there once more, though not what
    it lost its place in. What was read for a snapshot it would read again, as it is by then, so that none of it comes
    twice; but whoever copies the topic, and crashes, brings all of it again as it was, in the order in which it came.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    eras: dict[int, int] = {}
    at, reached = 0, 0
    before: list[int] = []
    while at < len(events):
        event = events[at]
        if at >= reached or (event.op != "r" and event.era == eras.get(event.life, 0)):
            before.append(at)
            yield at, event
        eras[event.life] = max(event.era, eras.get(event.life, 0))
        at += 1
        reached = max(reached, at)
        if chance.random() < 1 / reach:
            if events[reached - 1].settled and chance.random() < 0.3:
                yield from ((again, events[again]) for again in _copied(events, before, chance, reach, alone=alone))
            else:
                at = max(0, at - chance.randint(1, reach))
                # A tombstone has the stored offset of its delete, so a connector never sends it again alone.
                at -= int(at < len(events) and events[at].op == "tombstone")


def _copied(
    events: Sequence[Event], before: Sequence[int], chance: random.Random, reach: int, *, alone: bool
) -> Iterator[int]:
    """The end of what was sent before, once more; the copy may crash itself, and begin again from further back."""
    start, crashes = len(before), True
    while crashes:
        further = max(0, min(start, len(before) - 1) - chance.randrange(reach))
        further -= int(not alone and events[before[further]].op == "tombstone")
        if not _reads_twice([events[at] for at in before[further:]]):
            start = further
        crashes = chance.random() < 0.2
        yield from before[start : chance.randint(start, len(before)) if crashes else None]


def _reads_twice(events: Sequence[Event]) -> bool:
    """Whether two snapshots read a row between which the log does not tell of it, from behind the first.

    Copied as they were, they show the earlier reading until the copy ends: no log tells that it is not a third one.
    """
    read: dict[int | None, int] = {}
    for event in events:
        _, place = event.position
        if event.op == "r" and event.key in read:
            return True
        if event.op == "r":
            read[event.key] = place
        elif place >= read.get(event.key, place):
            read.pop(event.key, None)
    return False


@dataclass(frozen=True)
class Sent:
    """A message of the topic: the event, its place there, and how many events have been sent by then."""

    event: Event
    partition: int
    offset: int
    time: int
    reached: int


def topic(
    events: Sequence[Event],
    seed: int,
    reach: int = 25,
    partitions: tuple[int, int] | None = None,
    key_of: Callable[[Event], bytes] | None = None,
    *,
    alone: bool = False,
    routed: float = 0,
) -> list[Sent]:
    """The events as messages of a topic with one partition or some, to which more may be added in mid-life.

    Args:
        events: of one life or several.
        seed: of partitions and crashes.
        reach: how many events a crash sends again at most, and after how many, on average, there is one.
        partitions: how many there are in the first half and in the second; left out, the seed decides.
        key_of: the key's bytes, by which Kafka's partitioner chooses; left out, the key's own number does.
        alone: whether a copy may begin with a tombstone; until its end a row that was made behind that is not there.
        routed: how probable it is that a column says where a row's changes go (PartitionRouting); tombstones go by
            their key.
    """
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    several, more = partitions or chance.choice(((1, 1), (1, 1), (3, 3), (1, 3), (2, 3)))
    grows_at, offsets, reached = len(events) // 2, dict.fromkeys(range(3), 0), 0
    routing = random.Random(f"{seed} routed")  # noqa: S311 - repeatable, not secret
    is_routed, routes = routing.random() < routed, dict[int, int]()
    found: list[Sent] = []
    for at, event in sent(events, seed, reach, alone=alone):
        reached = max(reached, at + 1)
        if reached > grows_at and events[reached - 1].settled:
            # What is sent from then on, also again, goes where its key belongs now.
            several = more
        partition = (event.key or 0) % several
        if key_of is not None and event.key is not None:
            partition = kafka_partition(key_of(event), several)
        if is_routed and event.op in {"c", "u", "d", "r"}:
            partition = routes.setdefault(at, routing.randrange(3)) % several
        found.append(Sent(event, partition, offsets[partition], len(found), reached))
        offsets[partition] += 1
    return found


def decoded(message: Sent) -> messages.Message:
    """A message as the reference fold reads it; of a deleted row it tells no more than that its columns were there."""
    event = message.event
    image = event.after
    if image is not None:
        image = {name: messages.UNAVAILABLE if value == UNAVAILABLE else value for name, value in image.items()}
    return messages.Message(
        partition=message.partition,
        offset=message.offset,
        op=event.op,
        key=event.key,
        image=image,
        position=None if event.op == "tombstone" else event.position,
        streaming=event.op != "r",
        time=message.time,
        source_ms=event.ts_ms,
        before={"id": 0, **dict.fromkeys(event.columns), "qty": 0} if event.op == "d" else None,
    )
