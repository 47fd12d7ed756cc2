"""Raw's marker where its topic lost messages that nobody has read, or was made again.

Pure: what `cdcm adopt` accepts, once someone has decided it.
"""

from dataclasses import replace

from cdc_materializer.lanes import begun_late, other_topics, same_topics, topic_of
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets


def skip_lost(
    marker: Marker, topic_id: str | None, beginnings: Offsets, ends: Offsets, rewound: frozenset[int] = frozenset()
) -> Marker:
    """Raw's marker made to fit a topic as it is now; the same marker where nothing was lost.

    A topic that was made again is read from its beginning: its offsets follow on those of the earlier one. So is one
    that lost its end: nobody knows any more where it was cut, and what is read twice is known for a re-send. Where
    messages left the topic before they were read, the offsets go on behind the gap, also in partitions that were added.

    Args:
        marker: raw's, as it is.
        topic_id: the broker's id of the topic; None where there is none.
        beginnings: the first offset of each partition, as the topic counts.
        ends: one past the last offset of each partition.
        rewound: the numbers of the topics that ended before what was read, so that the table stopped.
    """
    own = marker.in_table(ends)
    cut = {topic_of(p) for p, offset in marker.next_of(own).items() if own.get(p, -1) < offset}
    again = other_topics(marker.topic_id, topic_id) | cut | rewound
    known = {p: offset for p, offset in marker.offsets.items() if topic_of(p) in again}
    bases = {**marker.bases, **{p: max(offset - beginnings.get(p, 0), 0) for p, offset in known.items()}}
    after = replace(marker, bases=bases, topic_id=topic_id or marker.topic_id)
    first = after.in_table(beginnings)
    late = begun_late(marker.offsets, again | same_topics(marker.topic_id, topic_id), first)
    known = {p: max(offset, first.get(p, 0)) for p, offset in marker.offsets.items()}
    return replace(after, offsets=Offsets({**known, **late}))
