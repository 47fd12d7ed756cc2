"""One batch of raw messages to decided states: which writers, which schema, which history, which verdicts.

The cheap way is tried first: fold the span alone. Its facts say what it could not know, and only then is more read: the
mirror's rows for values that were left out, and raw from its first message for keys whose past matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer import base, fold, life, owners, sweeping, updates
from cdc_materializer.changes import model as m
from cdc_materializer.changes.messages import doubtful_keys, to_changes
from cdc_materializer.changes.shards import server_of
from cdc_materializer.decode.framing import datum, selector
from cdc_materializer.decoders import Decoders, Lookup, find_decoders
from cdc_materializer.epochs import Recorded, in_epochs, next_epoch
from cdc_materializer.facts import Facts, facts_of, truncate_fields, wants_history
from cdc_materializer.fold import CURRENT, HELD, REBUILT, Partial, Truncate
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.schema import TableSchema
from cdc_materializer.snapshots import Sweep, SweepPlan
from cdc_materializer.sweeping import Watch


def messages(raw: DataFrame, span: Span | None, id_bytes: int) -> DataFrame:
    """The messages of a span, with the selectors of their writers, keys and values without what names their schemas.

    Args:
        raw: rows of a raw table.
        span: which of them; None for all.
        id_bytes: how many bytes a schema's id has in the registry of the table.
    """
    rows = raw if span is None else raw.where(within(span, "partition", "offset"))
    return rows.select(
        *("topic", "partition", "offset", "timestamp"),
        *[datum(F.col(side), _schema_name(raw, side), id_bytes).alias(side) for side in ("key", "value")],
        *[writer(raw, side, id_bytes).alias(f"{side}_writer") for side in ("key", "value")],
        *(["headers"] if "headers" in raw.columns else []),
    )


def writer(raw: DataFrame, side: str, id_bytes: int) -> Column:
    """The selector of the writer of a raw table's keys or values."""
    return selector(F.col(side), _schema_name(raw, side), id_bytes)


def _schema_name(raw: DataFrame, side: str) -> Column:
    """The schema's name from the headers; a raw table of an earlier version has no such column."""
    name = f"{side}_schema_name"
    return F.col(name) if name in raw.columns else F.lit(None).cast("string")


def within(span: Span, partition: str, offset: str) -> Column:
    """Whether a row lies in a span."""
    found = F.lit(False)
    for number, start, end in span.ranges():
        here = (F.col(partition) == number) & (F.col(offset) >= start) & (F.col(offset) < end)
        found = found | here
    return found


# --- the fold, with as much of the past as it needs
# ---------------------------------------------------------------------


@dataclass(frozen=True)
class Past:
    """What a batch may have to look up.

    Attributes:
        lookup: where the writers of raw's messages are found.
        raw: all messages of raw before the batch, as `messages` gives them; None where there are none.
        mirror: the mirror's rows; None where it is empty.
        held: the keys (m.KEY) with open held messages; None where there are none.
        recorded: how far the source's positions had got.
        retried: the span behind which the batch has messages again that could not be read before; None where it has
            none.
        truncate: the table's setting; only under `apply` do truncates wipe rows.
        span: the messages that are read for the first time; None where epochs are not looked for.
        lives: whether all states of a row matter, and not the last alone (see `life`). Whose row a key is, of
            several source tables, is one that does.
        watch: how snapshots are followed; None where the table does not sweep.
    """

    lookup: Lookup
    raw: DataFrame | None = None
    mirror: DataFrame | None = None
    held: DataFrame | None = None
    recorded: Recorded = field(default_factory=Recorded)
    retried: Span | None = None
    truncate: str = "apply"
    span: Span | None = None
    lives: bool = False
    watch: Watch | None = None

    @property
    def sees_plain(self) -> bool:
        """Whether rules see columns unmasked, of which the mirror's rows have the masked values only."""
        return bool(self.lookup.options.masks.judged)

    def routed(self) -> Past:
        """The same, for a fold of changes from several source tables."""
        return replace(self, recorded=replace(self.recorded, routed=True), lives=True)

    def doubting(self) -> Past:
        """The same, for a fold that holds deletes against their `before`."""
        return replace(self, lookup=replace(self.lookup, options=replace(self.lookup.options, doubtful_keys=True)))

    def wiping(self, truncates: Sequence[Truncate]) -> tuple[Truncate, ...]:
        """Those truncates that wipe rows; without a position one is in no order with the rows of other partitions."""
        is_ordered = self.recorded.partitions == 1
        return tuple(found for found in truncates if self.truncate == "apply" and (is_ordered or found.position))

    def is_late(self, truncates: Sequence[Truncate]) -> bool:
        """Whether a truncate is no later than what was read: which rows it is about, only their keys' past tells."""
        read = self.recorded.positions.values()
        places = [found.position for found in truncates if found.position is not None]
        return any(own <= other and server_of(own) == server_of(other) for own in places for other in read)

    def has_begun(self, sweeps: Sequence[Sweep]) -> bool:
        """Whether the batch has no more than the rest of some snapshot: what it showed, only the past tells."""
        return self.span is not None and any(sweep.begins_before(self.span.start) for sweep in sweeps)


@dataclass
class Folded:
    """The states of a batch, complete, with their facts; `release` gives back what was cached on the way."""

    states: DataFrame
    cached: list[DataFrame] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    snapshots: SweepPlan = field(default_factory=SweepPlan)

    def keep(self, states: DataFrame) -> None:
        """Go on with other states, cached until the batch is done."""
        self.states = states.persist()
        self.cached.append(self.states)

    def release(self) -> None:
        """Give the caches back."""
        while self.cached:
            self.cached.pop().unpersist()


def fold_batch(current: DataFrame, decoders: Decoders, past: Past) -> Folded:
    """The states of a batch, complete, and its facts.

    Args:
        current: the batch's messages, from `messages`.
        decoders: from `find_decoders`, for these messages.
        past: what may have to be looked up.
    """
    if past.recorded.routed:
        past = past.routed()
    if past.lookup.options.format.tombstones_delete:
        past = replace(past, recorded=replace(past.recorded, forgets=True))
    target = decoders.folded
    own = _with_flags(changes_of(current, decoders, target, past), past)
    if past.recorded.routed:
        own = base.with_owners(own, _live(past, target), target, past.recorded.table)
    states = fold.states(own, target, decoders.partial, past.recorded).persist()
    folded = Folded(states, [states])
    try:
        doubtful = doubtful_keys(decoders.writers, target, past.lookup.options)
        folded.facts = facts_of(states, past.recorded, doubtful, lives=past.lives, plain=past.sees_plain)
        beginning = None
        if past.span is not None and folded.facts.continued:
            first_read = states.where(F.col(CURRENT) & within(past.span, m.PARTITION, m.OFFSET))
            beginning = next_epoch(first_read, past.span.end, past.recorded)
        if beginning is not None:
            # The source goes on with another log: the batch is folded anew, with one more epoch.
            past = replace(past, recorded=replace(past.recorded, epochs=(*past.recorded.epochs, beginning)))
        elif folded.facts.routed and not past.recorded.routed:
            past = past.routed()
        elif folded.facts.doubtful and not past.lookup.options.doubtful_keys:
            past = past.doubting()
        elif folded.facts.unsure and not past.recorded.exact:
            past = replace(past, recorded=replace(past.recorded, exact=True))
        else:
            _complete(folded, own, decoders, past)
            return folded
    except BaseException:
        folded.release()
        raise
    folded.release()
    return fold_batch(current, decoders, past)


def changes_of(found: DataFrame, decoders: Decoders, target: TableSchema, past: Past) -> DataFrame:
    """Messages as changes of the target's columns, each in its epoch."""
    changes = to_changes(found, decoders.writers, target, past.lookup.options)
    return in_epochs(changes, past.recorded.epochs)


def _complete(folded: Folded, own: DataFrame, decoders: Decoders, past: Past) -> None:
    """Find out what the batch alone could not tell, and fold once more with it."""
    target, partial, states, facts = decoders.folded, decoders.partial, folded.states, folded.facts
    if past.watch is not None:
        folded.snapshots = _follow(states, past, past.watch, target)
    sweeps = folded.snapshots.sweeps
    if sweeps and past.raw is not None:
        folded.facts = facts = facts_of(states, past.recorded, sweeps=sweeps, lives=past.lives, plain=past.sees_plain)
    truncates, earlier = past.wiping(facts.truncates), past.wiping(())
    history = _history(states, facts, past, target, sweeps)
    if truncates or sweeps or history is not None:
        changes, recorded = own, past.recorded
        if history is not None:
            changes, recorded = _with_history(own, history), replace(recorded, exact=True)
            partial = partial.union(history.partial)
            earlier, sweeps = past.wiping(history.truncates), history.snapshots.since(sweeps)
            unreconciled = folded.snapshots.unreconciled + history.snapshots.unreconciled
            folded.snapshots = replace(folded.snapshots, unreconciled=unreconciled)
        truncates = (*earlier, *truncates)
        if past.lives:
            # Here truncates and snapshots end each row at their place; otherwise they leave out what it was before.
            sweeps = _located(sweeps, own, past, target)
            folded.snapshots = replace(folded.snapshots, sweeps=tuple(one for one in sweeps if not one.is_past))
            changes = life.with_endings(changes, target, truncates, earlier, sweeps)
            recorded = replace(recorded, truncated=())
            truncates = ()
        folded.release()
        folded.keep(fold.states(changes, target, partial, recorded, truncates, sweeps, lives=past.lives))
        again = facts_of(folded.states, Recorded())
        kept = ("positions", "times", "held", "logs", "epochs", "table", "routed")
        folded.facts = facts = replace(again, **{name: getattr(facts, name) for name in kept})
    if past.mirror is not None and (facts.wants_base or facts.moved):
        known = _base(past.mirror, target, truncates)
        folded.states = base.attach_base(folded.states, known, target, partial)
    _graft(folded, target, partial)
    if facts.patched:
        folded.states = updates.applied(folded.states, target)


def _located(sweeps: Sequence[Sweep], own: DataFrame, past: Past, target: TableSchema) -> tuple[Sweep, ...]:
    """The sweeps with the last records of their snapshots, from the batch or from raw."""
    found = sweeping.located(sweeps, own)
    if past.raw is None or all(sweep.end is not None for sweep in found):
        return found
    ends = past.raw.where(sweeping.is_at_end(found, "partition", "offset"))
    return sweeping.located(found, changes_of(ends, find_decoders(ends, past.lookup), target, past))


def _follow(states: DataFrame, past: Past, watch: Watch, target: TableSchema) -> SweepPlan:
    """What the batch says of snapshots; of all before it too, where the marker does not tell enough."""
    earlier = None
    if watch.known is None and past.raw is not None:
        earlier = changes_of(past.raw, find_decoders(past.raw, past.lookup), target, past)
    plan = sweeping.follow(states, earlier, watch)
    if plan.is_unsure and earlier is None and past.raw is not None:
        return _follow(states, past, replace(watch, known=None), target)
    return plan


def _graft(folded: Folded, target: TableSchema, partial: Partial) -> None:
    """Fill what key changes left out; once more for each link of a chain of them, until nothing more is found."""
    waiting = folded.facts.moved
    while waiting:
        folded.keep(base.graft(folded.states, target, partial))
        left = folded.states.agg(F.count_if(base.is_moved())).collect()[0][0]
        waiting = left if left < waiting else 0


def _with_flags(changes: DataFrame, past: Past) -> DataFrame:
    flagged = changes.withColumns({CURRENT: F.lit(True), REBUILT: F.lit(False)})
    again = within(past.retried, m.PARTITION, m.OFFSET) if past.retried is not None else F.lit(False)
    if past.held is None:
        return flagged.withColumn(HELD, again)
    held = F.broadcast(past.held.select(F.col(m.KEY).alias("__cdc_held_key")).distinct())
    joined = flagged.join(held, F.col(m.KEY) == F.col("__cdc_held_key"), "left")
    return joined.withColumn(HELD, F.col("__cdc_held_key").isNotNull() | again).drop("__cdc_held_key")


@dataclass(frozen=True)
class _History:
    """The past of some keys: which keys, their changes, what those may leave out, and all that has wiped rows since."""

    keys: DataFrame
    changes: DataFrame
    partial: Partial
    truncates: tuple[Truncate, ...]
    snapshots: SweepPlan


def _history(
    states: DataFrame, facts: Facts, past: Past, target: TableSchema, sweeps: Sequence[Sweep] = ()
) -> _History | None:
    """The changes of raw that the batch's states depend on; None where they depend on none.

    A pass over raw decodes keys, operations and positions, and no rows. It is made again for each link of a chain of
    key changes: a row that came from another key needs that key's past as well.
    """
    is_late = past.lives and (past.is_late(past.wiping(facts.truncates)) or past.has_begun(sweeps))
    if past.raw is None or not (facts.wants_history or facts.moved or is_late):
        return None
    wants = wants_history(past.recorded, sweeps, lives=past.lives, plain=past.sees_plain)
    wants = F.col(m.KEY).isNotNull() if is_late else wants
    # Materialised, so that the states' cache can be given back.
    wanted = states.where(wants).select(m.KEY).distinct().localCheckpoint()
    halves = base.key_changes_without_delete(states).localCheckpoint() if facts.moved else None
    if halves is not None and halves.isEmpty():
        halves = None
    # Whether the past of any key is wanted yet: where only the other halves of key changes are, none is at first.
    is_known = facts.wants_history or is_late
    if halves is None and not is_known:
        return None
    earlier = find_decoders(past.raw, past.lookup)
    everything = changes_of(past.raw, earlier, target, past)
    places = _places(everything, wanted)
    while True:
        changes = changes_of(at_places(past.raw, places), earlier, target, past)
        if past.lookup.options.key:
            # A message may speak of another key too, whose other messages are not here.
            is_wanted = F.col(m.KEY).eqNullSafe(F.col("__cdc_wanted"))
            changes = changes.join(F.broadcast(_named(wanted)), is_wanted, "left_semi")
        if is_known and earlier.partial.unavailable:
            # A key that is wanted for its own sake may itself have come from another one.
            further = base.inserts_without_delete(changes)
            halves = (further if halves is None else halves.unionByName(further)).localCheckpoint()
        if halves is None or halves.isEmpty():
            break
        ended = _deleted_at(everything, halves).join(wanted, m.KEY, "left_anti").distinct().localCheckpoint()
        if ended.isEmpty():
            break
        wanted, halves, is_known = wanted.unionByName(ended).localCheckpoint(), None, True
        places = _places(everything, wanted)
    truncated = F.collect_list(F.when(F.col(m.OP) == m.TRUNCATE, truncate_fields())).alias("found")
    return _History(
        keys=wanted,
        changes=changes,
        partial=earlier.partial,
        truncates=tuple(Truncate(*row) for row in everything.agg(truncated).collect()[0]["found"]),
        snapshots=SweepPlan()
        if past.watch is None
        else sweeping.follow(states, everything, replace(past.watch, known=None)),
    )


def _places(everything: DataFrame, wanted: DataFrame) -> DataFrame:
    """Where the messages of some keys are: partition and offset."""
    # Null-safe, though no wanted key is NULL: for a plain equality Spark would infer a NOT NULL filter on the key, push
    # it through the projections and so write out the whole decoding of a message once more for each field it reads.
    found = everything.join(F.broadcast(_named(wanted)), F.col(m.KEY).eqNullSafe(F.col("__cdc_wanted")))
    places = found.select(F.col(m.PARTITION).alias("partition"), F.col(m.OFFSET).alias("offset"))
    return places.localCheckpoint()


def at_places(raw: DataFrame, places: DataFrame) -> DataFrame:
    """The messages of raw that lie at some places (partition, offset)."""
    return raw.join(places, ["partition", "offset"], "left_semi")


def _deleted_at(everything: DataFrame, links: DataFrame) -> DataFrame:
    """The keys (m.KEY) of deletes with some links (base.LINK)."""
    # One null-safe comparison, as in `_places`: a test of the operation alone would become a filter over the decoding.
    is_delete = F.when(F.col(m.OP) == "d", fold.link()).eqNullSafe(F.col(base.LINK))
    known = F.broadcast(links.where(F.col(base.LINK).isNotNull()))
    return everything.join(known, is_delete, "left_semi").select(m.KEY)


def _named(wanted: DataFrame) -> DataFrame:
    return wanted.select(F.col(m.KEY).alias("__cdc_wanted"))


def _with_history(own: DataFrame, history: _History) -> DataFrame:
    wanted = F.broadcast(_named(history.keys))
    joined = own.drop(REBUILT).join(wanted, F.col(m.KEY).eqNullSafe(F.col("__cdc_wanted")), "left")
    flagged = joined.withColumn(REBUILT, F.col("__cdc_wanted").isNotNull()).drop("__cdc_wanted")
    flags = {CURRENT: F.lit(False), HELD: F.lit(False), REBUILT: F.lit(True)}
    if owners.OWNER in own.columns:
        flagged = flagged.withColumn(owners.OWNER, F.when(~F.col(REBUILT), F.col(owners.OWNER)))
        flags[owners.OWNER] = F.lit(None)
    return flagged.unionByName(history.changes.withColumns(flags))


def _live(past: Past, target: TableSchema) -> DataFrame | None:
    return None if past.mirror is None else life.live_rows(past.mirror, target)


def _base(mirror: DataFrame, target: TableSchema, truncates: Sequence[Truncate]) -> DataFrame:
    key = F.struct(*[m.column(name).alias(name) for name in target.key])
    placed = life.live_rows(mirror, target).withColumns(
        {
            m.KEY: m.key_json(key, target),
            m.OP: F.col("__cdc.op"),
            m.POSITION: F.col("__cdc.position"),
            m.PARTITION: F.col("__cdc.partition"),
            m.OFFSET: F.col("__cdc.offset"),
        }
    )
    return placed.where(~fold.is_wiped(truncates))


def whole(start: Offsets, end: Offsets, topic: str) -> Span:
    """The span between two sets of offsets, partitions that only the end has from their first message."""
    return Span(topic, Offsets({partition: start.get(partition, 0) for partition in end}), end)
