"""Several topics read as one: their partitions numbered through, so that partition and offset name a message.

Pure. A mirror that several topics feed has one raw table, one span a batch and one marker. Its topics are numbered in
the order in which raw first met them, which its marker remembers; partition p of topic n is partition n × 1,000,000 + p
of the whole. So the partitions of the first topic keep their numbers, and everything behind the source knows only one
kind of partition (ADR 17).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from cdc_materializer.errors import ConfigError
from cdc_materializer.offsets import Offsets, Span

#: What lies between the first partitions of two topics: far more than a topic has partitions.
WIDTH = 1_000_000
#: A partition is a 32-bit number in every table.
TOPICS_MAX = 2**31 // WIDTH
#: Between the ids of topics; no id has it (they are base64).
_BETWEEN = ","


def numbered(known: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
    """The topics in the order of their numbers: those that are known keep theirs, new ones follow by name.

    Raises:
        ConfigError: they are more than there are numbers.
    """
    topics = (*known, *sorted(set(there) - set(known)))
    if len(topics) > TOPICS_MAX:
        what = f"{len(topics)} topics would go to one mirror, and {TOPICS_MAX} are the most."
        raise ConfigError(what, "Narrow the glob in `tables:`.")
    return topics


def topic_of(partition: int) -> int:
    """The number of the topic that a partition is one of."""
    return partition // WIDTH


def joined(parts: Sequence[Mapping[int, int]]) -> Offsets:
    """Offsets of several topics, in the order of their numbers, as those of one."""
    return Offsets({number * WIDTH + p: offset for number, part in enumerate(parts) for p, offset in part.items()})


def split(span: Span, topics: Sequence[str]) -> tuple[tuple[int, Span], ...]:
    """A span over several topics as one of each topic that has something to read, with the topic's number."""
    found = []
    for number, topic in enumerate(topics):
        ranges = [one for one in span.ranges() if topic_of(one[0]) == number]
        start, end = (Offsets({one[0] - number * WIDTH: one[at] for one in ranges}) for at in (1, 2))
        if ranges:
            found.append((number, Span(topic, start, end)))
    return tuple(found)


def joined_ids(ids: Sequence[str | None]) -> str | None:
    """The broker's ids of several topics as one text; None where none has one."""
    return _BETWEEN.join(one or "" for one in ids) if any(ids) else None


def kept_ids(known: str | None, now: str | None) -> str | None:
    """The ids of topics as they are now; of one that was not asked, the one that is known. See `other_topics`."""
    pairs = zip_longest((known or "").split(_BETWEEN), (now or "").split(_BETWEEN), fillvalue="")
    return joined_ids([later or earlier for earlier, later in pairs])


def other_topics(known: str | None, now: str | None) -> frozenset[int]:
    """The numbers of the topics that are others than they were: made again under their names.

    Args:
        known: the id of one topic, or `joined_ids`; None where there is none.
        now: likewise, at a later time.
    """
    pairs = zip((known or "").split(_BETWEEN), (now or "").split(_BETWEEN), strict=False)
    return frozenset(number for number, (one, other) in enumerate(pairs) if one and other and one != other)


def same_topics(known: str | None, now: str | None) -> frozenset[int]:
    """The numbers of the topics that are those that they were, as their ids say; see `other_topics`."""
    pairs = zip((known or "").split(_BETWEEN), (now or "").split(_BETWEEN), strict=False)
    return frozenset(number for number, (one, other) in enumerate(pairs) if one and one == other)


def begun_late(known: Mapping[int, int], topics: frozenset[int], beginnings: Mapping[int, int]) -> dict[int, int]:
    """The partitions that topics were given later and whose first messages are gone, each with where it begins now.

    Args:
        known: the next offset of each partition that raw knows.
        topics: the numbers of those topics of which raw knew every partition: all partitions of a broker begin at 0.
        beginnings: the first offset of each partition that there is.
    """
    return {p: first for p, first in beginnings.items() if first > 0 and p not in known and topic_of(p) in topics}
