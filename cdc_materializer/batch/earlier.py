"""The past of some keys, read back from raw: which messages are theirs, and what those changed.

Most of what raw has is of other keys. So a pass over all of it reads as little of each message as tells its key, and
whole messages are read only where the keys that are asked for have some.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch.facts import Facts, wants_history
from cdc_materializer.batch.past import Past, changes_of
from cdc_materializer.changes import model as m
from cdc_materializer.changes.messages import doubtful_keys
from cdc_materializer.decode.columns import UNSIGNED_DDL
from cdc_materializer.decoders.decoders import Decoders, Lookup, find_decoders
from cdc_materializer.fold import base
from cdc_materializer.fold.fold import CURRENT, HELD, REBUILT, Partial
from cdc_materializer.marker.sweeps import Sweep, SweepPlan
from cdc_materializer.marker.unpaired import Unpaired
from cdc_materializer.order import owners, sweeping, truncates
from cdc_materializer.order.truncates import Truncate, first_sent
from cdc_materializer.schema.schema import TableSchema

#: Up to so many messages are named to the scan of raw: Iceberg does not hold longer lists against its files.
NAMED_MAX = 200
#: Up to so many places, some 60 bytes each, go to every executor rather than the messages to them.
BROADCAST_MAX = 2_000_000
_WANTED = "__cdc_wanted"


@dataclass(frozen=True)
class History:
    """The past of some keys: which keys, their changes, what those may leave out, and all that has wiped rows since.

    `target` has the columns of the changes: those of the batch, unmasked ones in types that the past has, too. `doubts`
    tells whether deletes may be among them that do not say which row they end, `mended` of how many keys they are that
    have taken values from the others.
    """

    keys: DataFrame
    changes: DataFrame
    target: TableSchema
    partial: Partial
    truncates: tuple[Truncate, ...]
    snapshots: SweepPlan
    doubts: bool
    mended: int


def new_truncates(found: Sequence[Truncate], past: Past, own: Decoders) -> tuple[Truncate, ...]:
    """The truncates of a batch that wipe rows and were not there before; raw is asked where some may have been.

    Args:
        found: all of the batch.
        past: where the past is.
        own: what decodes the batch's own messages.
    """
    wiping = past.wiping(first_sent(found))
    if past.raw is None or not past.is_known(wiping):
        return wiping
    return past.wiping(first_sent(found, _Log(past, past.raw, own.folded).truncates()))


def history_of(
    states: DataFrame,
    facts: Facts,
    past: Past,
    own: Decoders,
    truncates: Sequence[Truncate] = (),
    sweeps: Sequence[Sweep] = (),
) -> History | None:
    """The changes of raw that a batch's states depend on; None where they depend on none.

    A row that came from another key needs that key's past as well, and where what came late may be what such a row has
    taken, it is needed with that: raw is asked once more for each link of a chain of key changes.

    Args:
        states: from `fold.states`, of the batch alone.
        facts: what they tell.
        past: where the past is.
        own: what decodes the batch's own messages.
        truncates: those of the batch that wipe rows.
        sweeps: the complete snapshots of the batch.
    """
    is_late = past.lives and (past.is_late(truncates) or past.has_begun(sweeps))
    if past.raw is None or not (facts.wants_history or facts.moved or facts.paired or is_late):
        return None
    wanted = _wanted(states, facts, past, sweeps, every=is_late)
    halves = base.key_changes_without_delete(states).localCheckpoint() if facts.moved else None
    if halves is not None and halves.isEmpty():
        halves = None
    # Of a row that waits for values itself the mirror has none for a key change that goes on from it.
    asks_unpaired = bool(facts.paired or (facts.moved and past.recorded.unpaired))
    # Whether the past of any key is wanted yet: where only the other halves of key changes are, none is at first.
    is_known = bool(facts.wants_history or asks_unpaired or is_late or (facts.moved and past.sees_plain))
    if halves is None and not is_known:
        return None
    log = _Log(past, past.raw, own.folded)
    if asks_unpaired:
        wanted = wanted.unionByName(log.keys_at(past.recorded.unpaired)).distinct().localCheckpoint()
    log, found = _found_of(log, wanted)
    asked: DataFrame | None = None
    wanted, log, found, mended = _with_heirs(wanted, log, found, states, own)
    while True:
        if is_known and found.decoders.partial.unavailable:
            # A key that is wanted for its own sake may itself have come from another one.
            further = base.links_of_inserts(found.changes(own.folded))
            halves = (further if halves is None else halves.unionByName(further)).distinct().localCheckpoint()
        if halves is not None and asked is not None:
            halves = halves.join(asked, base.LINK, "left_anti").localCheckpoint()
        if halves is None or halves.isEmpty():
            break
        ended = log.deleted_at(halves).join(wanted, m.KEY, "left_anti").distinct().localCheckpoint()
        if ended.isEmpty():
            break
        asked = halves if asked is None else asked.unionByName(halves)
        wanted, halves, is_known = wanted.unionByName(ended).localCheckpoint(), None, True
        log = log.doubting(ended, log.decoders)
        wanted = _with_inserts(wanted, states, asked, log)
        found = log.of(wanted)
    target = own.folded_with(found.decoders)
    return History(
        keys=wanted,
        changes=found.changes(target),
        target=target,
        partial=found.decoders.partial,
        truncates=past.wiped(first_sent(log.truncates())),
        snapshots=SweepPlan() if past.watch is None else log.follow(states),
        doubts=log.doubts,
        mended=mended,
    )


def _found_of(log: _Log, wanted: DataFrame) -> tuple[_Log, _Found]:
    """The messages of some keys, and the log that they are from: one that doubts where a key may be made up."""
    if not log.is_keyed:
        # What decodes them is what decodes all messages, so that nothing has to be read to tell.
        log = log.doubting(wanted, log.decoders)
        return log, log.of(wanted)
    found = log.of(wanted)
    doubting = log.doubting(wanted, found.decoders)
    return (log, found) if doubting is log else (doubting, doubting.of(wanted))


def _with_heirs(
    wanted: DataFrame, log: _Log, found: _Found, states: DataFrame, own: Decoders
) -> tuple[DataFrame, _Log, _Found, int]:
    """The wanted keys and those whose rows came from them by key changes, as `_found_of`; and how many these are.

    With some come all rows that wait for their other halves: what they lack is told anew with the others.
    """
    recorded, mended = log.past.recorded, 0
    if not (recorded.mends and recorded.keys_move and found.decoders.partial.unavailable):
        return wanted, log, found, mended
    here = states.join(F.broadcast(_named(wanted)), _is_wanted(), "left_semi")
    if here.where(F.col(CURRENT) & F.col(m.OP).isin("c", "r", "u")).isEmpty():
        return wanted, log, found, mended
    links = base.links_of_deletes(found.changes(own.folded)).unionByName(base.links_of_deletes(here)).distinct()
    while not links.isEmpty():
        inserted = log.of(log.inserted_at(links).join(wanted, m.KEY, "left_anti").distinct().localCheckpoint())
        changes = inserted.changes(own.folded)
        heirs = base.keys_of_partial_inserts(changes, links).localCheckpoint()
        count = heirs.count()
        if not count:
            break
        mended, wanted = mended + count, wanted.unionByName(heirs).localCheckpoint()
        links = base.links_of_deletes(changes)
    if not mended:
        return wanted, log, found, mended
    if recorded.unpaired:
        wanted = wanted.unionByName(log.keys_at(recorded.unpaired)).distinct().localCheckpoint()
    return wanted, *_found_of(log, wanted), mended


def _with_inserts(wanted: DataFrame, states: DataFrame, links: DataFrame, log: _Log) -> DataFrame:
    """The wanted keys, and those of a batch's inserts behind deletes that may not say which row they end.

    What such an insert leaves out is its own row's, and where rules see it unmasked the mirror's row has it masked.
    """
    if not (log.past.sees_plain and log.doubts):
        return wanted
    return wanted.unionByName(base.keys_of_inserts(states, links)).distinct().localCheckpoint()


def _wanted(states: DataFrame, facts: Facts, past: Past, sweeps: Sequence[Sweep], *, every: bool) -> DataFrame:
    """The keys (m.KEY) of which the batch's own messages ask for the past, or of all of them."""
    wants = wants_history(states, past.recorded, sweeps, lives=past.lives, plain=past.sees_plain)
    wanted = states.where(F.col(m.KEY).isNotNull() if every else wants).select(m.KEY)
    if past.sees_plain and facts.moved:
        wanted = wanted.unionByName(base.halves_seen_unmasked(states))
    # Materialised, so that the states' cache can be given back.
    return wanted.distinct().localCheckpoint()


def with_history(own: DataFrame, history: History) -> DataFrame:
    """A batch's own changes, and those of the past of the keys for which it is folded once more."""
    wanted = F.broadcast(_named(history.keys))
    joined = own.drop(REBUILT).join(wanted, _is_wanted(), "left")
    flagged = joined.withColumn(REBUILT, F.col(_WANTED).isNotNull()).drop(_WANTED)
    flags = {CURRENT: F.lit(False), HELD: F.lit(False), REBUILT: F.lit(True)}
    if owners.OWNER in own.columns:
        flagged = flagged.withColumn(owners.OWNER, F.when(~F.col(REBUILT), F.col(owners.OWNER)))
        flags[owners.OWNER] = F.lit(None)
    found = flagged.unionByName(history.changes.withColumns(flags))
    return base.with_updates(found) if history.doubts and history.partial.unavailable else found


@dataclass(frozen=True)
class _Log:
    """The messages of raw before a batch, decoded as far as is asked."""

    past: Past
    messages: DataFrame
    target: TableSchema

    @cached_property
    def decoders(self) -> Decoders:
        """Of all messages: a pass over the beginnings of their values."""
        return find_decoders(self.messages, self.past.lookup)

    @cached_property
    def changes(self) -> DataFrame:
        """All messages as changes. Which of their columns are used decides how much of them is read."""
        return changes_of(self.messages, self.decoders, self.target, self.past)

    @cached_property
    def is_keyed(self) -> bool:
        """Whether a message's Kafka key alone says which row it is about."""
        return names_rows_by_kafka_key(self.past.lookup)

    @cached_property
    def keys(self) -> DataFrame:
        """The same, of which key, partition and offset alone are to be used; without reading values, where they can."""
        return keys_of(self.messages, self.target, self.past) if self.is_keyed else self.changes

    def of(self, wanted: DataFrame) -> _Found:
        """The messages of some keys (m.KEY), and what decodes them."""
        found = self.keys.join(F.broadcast(_named(wanted)), _is_wanted())
        places = found.select(F.col(m.PARTITION).alias("partition"), F.col(m.OFFSET).alias("offset"))
        messages = lying_at(self.messages, places.localCheckpoint())
        decoders = find_decoders(messages, self.past.lookup) if self.is_keyed else self.decoders
        return _Found(self.past, wanted, messages, decoders)

    def keys_at(self, inserts: Sequence[Unpaired]) -> DataFrame:
        """The keys (m.KEY) of some inserts."""
        messages = self.messages.where(_is_at((one.partition, one.offset) for one in inserts))
        changes = changes_of(messages, find_decoders(messages, self.past.lookup), self.target, self.past)
        # Materialised: a filter would be pushed into the decoding, and write it out once more for each of its columns.
        keys = changes.select(F.when(F.col(m.OP) == "c", F.col(m.KEY)).alias(m.KEY)).localCheckpoint()
        return keys.where(F.col(m.KEY).isNotNull())

    @property
    def doubts(self) -> bool:
        """Whether deletes are held against their `before`, because their keys may be made up."""
        return self.past.lookup.options.doubtful_keys

    def doubting(self, keys: DataFrame, decoders: Decoders) -> _Log:
        """The same; where some keys (m.KEY) may be made up, one that holds deletes against their `before`.

        Such a delete is no half of a key change, and the row that has its key is none that it ended.

        Args:
            keys: those that deletes may have.
            decoders: of the messages that have them.
        """
        options = self.past.lookup.options
        known = doubtful_keys(decoders.writers, self.target, options)
        if self.doubts or not known:
            return self
        # A key alone does not tell the topic, by which a part of it is found that says which server it is of.
        may_be = options.shard is not None or not keys.where(F.col(m.KEY).isin(*known)).isEmpty()
        return replace(self, past=self.past.doubting()) if may_be else self

    def deleted_at(self, links: DataFrame) -> DataFrame:
        """The keys (m.KEY) of deletes with some links (base.LINK), and of those that do not say what they end."""
        # One null-safe comparison, as in `of`: a test of the operation alone would become a filter over the decoding.
        is_delete = F.when((F.col(m.OP) == "d") | F.col(m.NAMELESS), base.link()).eqNullSafe(F.col(base.LINK))
        known = F.broadcast(links.where(F.col(base.LINK).isNotNull()))
        return self.changes.join(known, is_delete, "left_semi").select(m.KEY)

    def inserted_at(self, links: DataFrame) -> DataFrame:
        """The keys (m.KEY) of inserts with some links (base.LINK): those of key changes, whose deletes have them."""
        is_insert = F.when(F.col(m.OP) == "c", base.link()).eqNullSafe(F.col(base.LINK))
        return self.changes.join(F.broadcast(links), is_insert, "left_semi").select(m.KEY)

    def truncates(self) -> tuple[Truncate, ...]:
        """All truncates; no message is read for them where the mirror's marker says that none was ever applied.

        One that was ignored matters where others are applied now: when it comes again, it is the same one.
        """
        recorded = self.past.recorded
        if recorded.truncates == 0 and not (recorded.passing and self.past.truncate == "apply"):
            return ()
        found = F.collect_list(F.when(F.col(m.OP) == m.TRUNCATE, truncates.fields())).alias("found")
        return tuple(Truncate(*row) for row in self.changes.agg(found).collect()[0]["found"])

    def follow(self, states: DataFrame) -> SweepPlan:
        """What all messages say of snapshots."""
        watch = self.past.watch
        return SweepPlan() if watch is None else sweeping.follow(states, self.changes, replace(watch, known=None))


@dataclass(frozen=True)
class _Found:
    """The messages of some keys, and what decodes them."""

    past: Past
    wanted: DataFrame
    messages: DataFrame
    decoders: Decoders

    def changes(self, target: TableSchema) -> DataFrame:
        """What they changed of the wanted keys."""
        changes = changes_of(self.messages, self.decoders, target, self.past)
        if self.past.lookup.options.key:
            # A message may speak of another key too, whose other messages are not here.
            changes = changes.join(F.broadcast(_named(self.wanted)), _is_wanted(), "left_semi")
        return changes


def _is_wanted() -> Column:
    """Whether a key is one of those that are wanted.

    Null-safe, though no wanted key is NULL: for a plain equality Spark would infer a NOT NULL filter on the key, push
    it through the projections and so write out the whole decoding of a message once more for each field.
    """
    return F.col(m.KEY).eqNullSafe(F.col(_WANTED))


def names_rows_by_kafka_key(lookup: Lookup) -> bool:
    """Whether a message's Kafka key alone says which row it is about.

    An unsigned integer of eight bytes in it is told from a negative one by the rows beside it (`decoders.keys`).
    """
    options, known = lookup.options, lookup.current
    has_sign = known is None or all(known.types[name] != UNSIGNED_DDL for name in known.key)
    return has_sign and not options.key and options.shard is None and not options.format.rows_name_themselves


def keys_of(messages: DataFrame, target: TableSchema, past: Past) -> DataFrame:
    """Messages whose Kafka keys name their rows, as changes of which key, partition and offset alone are told.

    No value is read: most of raw's bytes are values, and a key takes a small part of the decoding.
    """
    nothing = {"value": F.lit(None).cast("binary"), "value_writer": F.lit(None).cast("string")}
    plain = messages.withColumns(nothing)
    return changes_of(plain, find_decoders(plain, past.lookup), target, past)


def lying_at(messages: DataFrame, places: DataFrame) -> DataFrame:
    """The messages that lie at some places; files of raw that can have none of them are not read, if they are few.

    Args:
        messages: rows with `partition` and `offset`, as raw has them.
        places: each once, and at hand: cached or cut off from their plan.
    """
    few = places.limit(NAMED_MAX + 1).collect()
    if not few:
        return messages.where(F.lit(False))
    if len(few) > NAMED_MAX:
        # Spark does not know how few they are and would shuffle all messages, with their values.
        return at_places(messages, F.broadcast(places) if places.count() <= BROADCAST_MAX else places)
    return messages.where(_is_at((row["partition"], row["offset"]) for row in few))


def _is_at(places: Iterable[tuple[int, int]]) -> Column:
    """Whether a message lies at one of some places: partition and offset."""
    named: dict[int, list[int]] = {}
    for partition, offset in places:
        named.setdefault(partition, []).append(offset)
    found = F.lit(False)
    for partition, offsets in named.items():
        found = found | ((F.col("partition") == partition) & F.col("offset").isin(offsets))
    return found


def at_places(messages: DataFrame, places: DataFrame) -> DataFrame:
    """The messages that lie at some places (partition, offset)."""
    return messages.join(places, ["partition", "offset"], "left_semi")


def _named(wanted: DataFrame) -> DataFrame:
    return wanted.select(F.col(m.KEY).alias(_WANTED))
