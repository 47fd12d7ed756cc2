"""How far each table is behind its topic, told by the tables' markers and the source alone, without Spark.

A run asks this first: when nothing has come since the last one there is no reason to start an engine (design §7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cdc_materializer.catalog.catalog import Tables, open_tables
from cdc_materializer.config import Config, TableConfig
from cdc_materializer.decode.refusals import MANY_SCHEMAS
from cdc_materializer.errors import (
    BrokerUnreachable,
    CdcError,
    Code,
    ConfigError,
    LakeUnavailable,
    OffsetGap,
    OffsetRegression,
)
from cdc_materializer.lanes import begun_late, other_topics, same_topics, split, topic_of
from cdc_materializer.marker.marker import Marker, is_unsettled
from cdc_materializer.names import TableName
from cdc_materializer.offsets import Offsets, Span, plan_span
from cdc_materializer.retry import NEVER, Deadline
from cdc_materializer.source import Source, TopicState, as_raw_counts, state_of


@dataclass(frozen=True)
class Backlog:
    """Where one table stands.

    Attributes:
        table: the table's settings.
        topic: the topic's beginnings and ends; None where it cannot be asked, and `error` says why.
        raw: the marker of the raw table; None where there is none, or where only Spark can open the catalog.
        mirror: likewise of the mirror.
        retries: whether messages wait for a schema that the registry did not know, and there is a registry, or for one
            of those that a batch had too many of.
        unsettled: whether a run was killed before it told quarantine what follows from the mirror's newest commit.
        rewound: whether the topic ended before what was read, and nobody has accepted that yet: where it has grown to
            that length again, it does not show it.
        error: why the topic cannot be asked, or how far its tables are cannot be told.
    """

    table: TableConfig
    topic: TopicState | None
    raw: Marker | None = None
    mirror: Marker | None = None
    retries: bool = False
    unsettled: bool = False
    rewound: bool = False
    error: CdcError | None = None

    @property
    def published(self) -> Offsets | None:
        """The next offset of each partition that the mirror has not got, as the topic counts."""
        if self.mirror is None or self.raw is None:
            return None
        return self.raw.in_topic(self.mirror.offsets)

    @property
    def messages(self) -> int:
        """At most so many messages wait to be published."""
        if self.topic is None:
            return 0
        start = self.published or self.topic.beginnings
        ends = self.topic.ends.items()
        return sum(max(end - start.get(partition, self.topic.beginnings[partition]), 0) for partition, end in ends)

    @property
    def only_retries(self) -> bool:
        """Whether all that a run could do is to read what waits for a schema."""
        return self.retries and replace(self, retries=False).is_done

    @property
    def is_done(self) -> bool:
        """Whether a run would find nothing to do."""
        if self.topic is None or self.raw is None or self.retries or self.unsettled or self.rewound:
            return False
        ends, known = self.raw.in_table(self.topic.ends), self.raw.next_of(self.topic.ends)
        is_read = all(end == known.get(p, self.topic.beginnings[p]) for p, end in ends.items())
        if other_topics(self.raw.topic_id, self.topic.topic_id) or not is_read or not known.keys() <= ends.keys():
            return False
        if _begun_late(self.topic, self.raw):
            return False
        # A topic without a message has no schema yet to make a mirror from.
        return self.raw.offsets == self.mirror.offsets if self.mirror is not None else ends == self.topic.beginnings


class Topics:
    """The tables' topics as they are now; brokers that cannot be reached are asked once, not once a table."""

    def __init__(self, source: Source) -> None:
        """Ask nothing yet."""
        self.source = source
        self._unreachable: BrokerUnreachable | None = None

    def state(self, table: TableConfig) -> TopicState:
        """Return a table's topic; raise what the source says of it, or said of an earlier one and means all."""
        if self._unreachable is not None:
            raise self._unreachable
        try:
            return state_of(self.source, table.topic, table.topics)
        except BrokerUnreachable as error:
            self._unreachable = error
            raise


def backlogs(
    config: Config, source: Source, tables: Iterable[TableConfig], deadline: Deadline = NEVER
) -> list[Backlog]:
    """Where each table stands; a topic that cannot be asked, or a marker that can't be read, is that table's own error.

    Markers stay unknown (None) where the catalog is of a kind that only Spark can open.
    """
    try:
        lake = open_tables(config.catalog, deadline)
    except LakeUnavailable:
        lake = None
    topics = Topics(source)
    return [_backlog(lake, topics, table, has_registry=config.registry is not None) for table in tables]


def plan_reading(
    table: TableConfig, topic: TopicState, raw: Marker | None, rewound: frozenset[int] = frozenset()
) -> Span:
    """The messages of the topic that raw has not got yet, at most a batch of them, in raw's own offsets.

    Args:
        table: the table's settings.
        topic: its beginnings and ends.
        raw: raw's marker; None where there is none yet.
        rewound: the numbers of the topics because of which the table stopped. One that has grown to its earlier length
            again does not show it any more.

    Raises:
        OffsetRegression, OffsetGap: the topic was made again, or lost messages before they were read.
        ConfigError: raw was filled from another topic.
    """
    if raw is None:
        return plan_span(topic.topic, None, topic.beginnings, topic.ends, table.records_max)
    topic = as_raw_counts(topic, raw)
    check_servers(table, raw)
    again = rewound | other_topics(raw.topic_id, topic.topic_id)
    if again:
        named = topic.topics[min(again)] if topic.topics else topic.topic
        place = next(((p, at) for p, at in raw.offsets.items() if topic_of(p) in again), None)
        raise _made_again(table, named, place)
    for partition, first in _begun_late(topic, raw).items():
        what = f"Partition {partition} was added to the topic {topic.topic}, and its first {first} messages are gone."
        raise OffsetGap(f"{what} Nothing was written.", f"Accept it with `cdcm adopt {table.mirror}`.", (partition, 0))
    beginnings, ends = raw.in_table(topic.beginnings), raw.in_table(topic.ends)
    return plan_span(topic.topic, raw.next_of(ends), beginnings, ends, table.records_max)


def asked_again(source: Source, table: TableConfig, topic: TopicState, raw: Marker | None) -> TopicState:
    """The topic as it is now, where it was asked before another process landed more of it; else as it was asked.

    Taken for all that there is, its earlier ends would tell that it has lost its end; one that has does so still.

    Args:
        source: where the topic is.
        table: the table's settings.
        topic: its beginnings and ends, as they were asked.
        raw: raw's marker, which may have been read since; None where there is none.
    """
    if raw is None:
        return topic
    ends = raw.in_table(as_raw_counts(topic, raw).ends)
    is_passed = any(ends.get(partition, -1) < offset for partition, offset in raw.next_of(ends).items())
    if not is_passed:
        return topic
    # A topic of a glob that was made, and landed by another process, since this one listed them is no lost one.
    made_since = [one for one in raw.topics if one not in table.topics and table.would_take(one)]
    return state_of(source, table.topic, table.topics, made_since)


def plan_up_to(
    source: Source, table: TableConfig, topic: TopicState, raw: Marker | None, rewound: frozenset[int] = frozenset()
) -> Span:
    """As `plan_reading`, on a topic that is asked again where that is needed, and no further than it was asked first.

    Another process may have landed more of it since: who followed that would not end as long as messages come.
    """
    now = asked_again(source, table, topic, raw)
    span = plan_reading(table, now, raw, rewound)
    if raw is None or now is topic:
        return span
    asked = raw.in_table(as_raw_counts(topic, raw).ends)
    ends = {p: min(end, max(start, asked.get(p, start))) for p, start, end in span.ranges()}
    return replace(span, end=Offsets({**span.start, **ends}))


def _begun_late(topic: TopicState, raw: Marker) -> dict[int, int]:
    return begun_late(raw.offsets, same_topics(raw.topic_id, topic.topic_id), topic.beginnings)


def check_unchanged(source: Source, table: TableConfig, planned: TopicState, span: Span) -> None:
    """Ask, once a span was read and before it is kept, whether its topics are still those that it was planned on.

    A run asks for their ends once. One that is made again meanwhile, and has grown past what was read, gives messages
    of its middle for the old topic's.

    Args:
        source: where the topics are.
        table: the table's settings.
        planned: what the span was planned on.
        span: what was read.

    Raises:
        OffsetRegression: one of them was made again.
    """
    read = [(number, planned.parts[number]) for number, _ in split(span, planned.topics)] or [(0, planned)]
    for number, part in read:
        if part.topic_id is not None and other_topics(part.topic_id, source.state(part.topic).topic_id):
            place = next(((p, start) for p, start, _ in span.ranges() if topic_of(p) == number), None)
            raise _made_again(table, part.topic, place)


def _made_again(table: TableConfig, topic: str, place: tuple[int, int] | None) -> OffsetRegression:
    what = f"Topic {topic} was made again, or lost its end, since it was last read; its offsets start anew."
    do = f"Nothing was written. Accept it with `cdcm adopt {table.mirror}`, best after the connector's new snapshot."
    return OffsetRegression(what, do, place)


def check_servers(table: TableConfig, raw: Marker) -> None:
    """Raise ConfigError where another glob than the one that filled raw would give rows other servers (`shard`)."""
    if table.shard is not None and raw.topics and raw.topic != table.topic:
        what = f"{table.mirror} was filled from the topics `{raw.topic}`, and pipeline.yaml says `{table.topic}`"
        do = "Write the glob as it was, or name another `mirror`."
        raise ConfigError(f"{what}, which would give its rows other servers. Nothing was written.", do)


def _backlog(lake: Tables | None, topics: Topics, table: TableConfig, *, has_registry: bool) -> Backlog:
    try:
        topic = topics.state(table)
    except CdcError as error:
        return Backlog(table, None, error=error)
    try:
        raw = lake.marker_of(table.mirror.raw) if lake is not None else None
        mirror = lake.marker_of(table.mirror) if lake is not None and raw is not None else None
        unreleased = _unreleased(lake, table.mirror) if mirror is not None and lake is not None else set()
        is_to_end = mirror is not None and (mirror.settles, mirror.warned, mirror.swapped) != (None, (), None)
        held = lake.marker_of(table.mirror.quarantine) if lake is not None and is_to_end else None
    except LakeUnavailable:
        # Spark will say what is wrong with the catalog, if it can't open it either.
        return Backlog(table, topic)
    except CdcError as error:
        return Backlog(table, None, error=error)
    codes, has_more = {code for code, _ in unreleased}, (Code.SCHEMA_UNKNOWN, MANY_SCHEMAS) in unreleased
    retries = has_more or (has_registry and Code.SCHEMA_UNKNOWN in codes)
    rewound = Code.OFFSET_REGRESSION in codes
    try:
        return Backlog(table, as_raw_counts(topic, raw), raw, mirror, retries, is_unsettled(mirror, held), rewound)
    except ConfigError as error:
        return Backlog(table, None, error=error)


def _unreleased(lake: Tables, mirror: TableName) -> set[tuple[str, str | None]]:
    """The codes and rules of what quarantine holds and was not released; what was only superseded is among them."""
    quarantine = lake.values_of(mirror.quarantine, ["code", "rule", "status"]) or []
    return {(str(row["code"]), row["rule"]) for row in quarantine if row["status"] != "released"}


def landed(config: Config, tables: Iterable[TableConfig], deadline: Deadline = NEVER) -> int | None:
    """At most so many messages raw tables have, 0 where there are none; None where only Spark can tell."""
    found = 0
    try:
        lake = open_tables(config.catalog, deadline)
        for raw in (table.mirror.raw for table in tables):
            marker = lake.marker_of(raw)
            if marker is None and lake.uuid_of(raw) is not None:
                return None
            found += sum(marker.offsets.values()) if marker is not None else 0
    except CdcError:  # only Spark can open this catalog, or it tells what is wrong with which table
        return None
    return found
