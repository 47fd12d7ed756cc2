"""One batch of raw messages to decided states: which writers, which schema, which history, which verdicts.

The cheap way is tried first: fold the span alone. Its facts say what it could not know, and only then is more read: the
mirror's rows for values that were left out, and raw from its first message for keys whose past matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import followed, life
from cdc_materializer.batch.earlier import history_of, new_truncates, with_history
from cdc_materializer.batch.facts import Facts, facts_of, unpaired_after
from cdc_materializer.batch.past import Past, changes_of
from cdc_materializer.batch.standing import with_standing
from cdc_materializer.built_once import built_once
from cdc_materializer.changes import model as m
from cdc_materializer.changes.home import PLACED
from cdc_materializer.changes.messages import doubtful_keys
from cdc_materializer.decode.framing import datum, selector
from cdc_materializer.decode.partitioner import is_placed
from cdc_materializer.decoders.decoders import Decoders
from cdc_materializer.fold import base, fold, updates
from cdc_materializer.fold.fold import CURRENT, HELD, REBUILT, Partial
from cdc_materializer.marker.marker import Marker
from cdc_materializer.marker.sweeps import SweepPlan
from cdc_materializer.merge import CDC
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.order.epochs import MOVES, Recorded, next_epoch
from cdc_materializer.order.truncates import Truncate, beside, in_order, is_wiped
from cdc_materializer.schema.schema import TableSchema
from cdc_materializer.session import caching
from cdc_materializer.session.few import planned_for


def messages(raw: DataFrame, span: Span | None, id_bytes: int, partitions: int = 1) -> DataFrame:
    """The messages of a span, with the selectors of their writers, keys and values without what names their schemas.

    Args:
        raw: rows of a raw table.
        span: which of them; None for all.
        id_bytes: how many bytes a schema's id has in the registry of the table.
        partitions: of several, PLACED is told too.
    """
    rows = raw if span is None else raw.where(within(span, "partition", "offset"))
    return rows.select(
        *("topic", "partition", "offset", "timestamp"),
        *[_datum(side, _has_names(raw, side), id_bytes).alias(side) for side in ("key", "value")],
        *[writer(raw, side, id_bytes).alias(f"{side}_writer") for side in ("key", "value")],
        *(["headers"] if "headers" in raw.columns else []),
        *([_placed(raw, partitions).alias(PLACED)] if partitions > 1 else []),
    )


def writer(raw: DataFrame, side: str, id_bytes: int) -> Column:
    """The selector of the writer of a raw table's keys or values."""
    return _selector(side, _has_names(raw, side), id_bytes)


@built_once
def _selector(side: str, has_names: bool, id_bytes: int) -> Column:  # noqa: FBT001 - an argument by which it is kept
    return selector(F.col(side), _schema_name(side, has_names=has_names), id_bytes)


@built_once
def _datum(side: str, has_names: bool, id_bytes: int) -> Column:  # noqa: FBT001 - as above
    return datum(F.col(side), _schema_name(side, has_names=has_names), id_bytes)


def _placed(raw: DataFrame, partitions: int) -> Column:
    """PLACED: with a schema that a header names a key has other bytes than with one that its own bytes name."""
    name = _schema_name("key", has_names=_has_names(raw, "key"))
    by = F.when(name.isNotNull(), F.lit("header ")).otherwise(F.lit(""))
    return F.when(is_placed(F.col("key"), F.col("partition"), partitions), by)


def _has_names(raw: DataFrame, side: str) -> bool:
    """Whether rows tell schemas' names from the headers; a raw table of an earlier version has no such column."""
    return f"{side}_schema_name" in raw.columns


def _schema_name(side: str, *, has_names: bool) -> Column:
    return F.col(f"{side}_schema_name") if has_names else F.lit(None).cast("string")


def within(span: Span, partition: str, offset: str) -> Column:
    """Whether a row lies in a span."""
    found = F.lit(False)
    for number, start, end in span.ranges():
        here = (F.col(partition) == number) & (F.col(offset) >= start) & (F.col(offset) < end)
        found = found | here
    return found


# --- the fold, with as much of the past as it needs ---


#: What a batch's own messages tell of the source, whatever they are folded with.
_KEPT_FACTS = (
    *("positions", "times", "stamps", "readings", "deleted_at", "held", "logs", "gtids", "epochs"),
    *("table", "routed", "home", "paired", "unpaired"),
)


@dataclass
class Folded:
    """The states of a batch, complete, with their facts; `release` gives back what was cached on the way.

    `target` has the columns of their rows, `has_past` tells whether the past of some keys is among them. `truncates`
    are those of the batch that wipe rows, `partial` those of them (partition and offset) that may have left some, see
    `_partial`, `passed` those that were ignored when they were read, and `ended` all that its rows know of.
    """

    states: DataFrame
    target: TableSchema
    cached: list[DataFrame] = field(default_factory=list)
    facts: Facts = field(default_factory=Facts)
    snapshots: SweepPlan = field(default_factory=SweepPlan)
    has_past: bool = False
    truncates: tuple[Truncate, ...] = ()
    partial: tuple[tuple[int, int], ...] = ()
    passed: tuple[tuple[int, int], ...] = ()
    ended: tuple[Truncate, ...] = ()

    def keep(self, states: DataFrame) -> None:
        """Go on with other states, cached until the batch is done."""
        self.states = caching.cached(states)
        self.cached.append(self.states)

    def release(self) -> None:
        """Give the caches back."""
        while self.cached:
            caching.release(self.cached.pop())


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
        past = past.forgetting()
    target = decoders.folded
    with planned_for(current.sparkSession, past.rows):
        own = _own(current, decoders, target, past)
        folded = _first(fold.states(own, target, decoders.partial, past.recorded), decoders, past)
    try:
        anew = _anew(folded, past)
        if anew is None:
            anew = _complete(folded, current, own, decoders, past)
            # Not before: which change is the first that is new, the past of its key may have to tell.
            anew = anew or _without_places(folded, past) or _in_next_epoch(folded, past)
        if anew is None:
            return folded
    except BaseException:
        folded.release()
        raise
    folded.release()
    return fold_batch(current, decoders, anew)


def _own(current: DataFrame, decoders: Decoders, target: TableSchema, past: Past) -> DataFrame:
    """The changes of the batch's own messages."""
    own = _with_flags(changes_of(current, decoders, target, past), past)
    if past.lookup.options.doubtful_keys and decoders.partial.unavailable:
        own = base.with_updates(own)
    return base.with_owners(own, _live(past, target), target, past.recorded.table) if past.recorded.routed else own


def _first(states: DataFrame, decoders: Decoders, past: Past) -> Folded:
    """What a batch alone tells, with the facts that say whether this is enough."""
    states = caching.cached(states)
    folded = Folded(states, decoders.folded, [states])
    try:
        doubtful = doubtful_keys(decoders.writers, decoders.folded, past.lookup.options)
        folded.facts = _facts(folded, doubtful, past)
        if past.asks_where and (folded.facts.placeless or (folded.facts.tells_places and past.may_lack_places)):
            folded.keep(base.with_elsewhere(states, _live(past, decoders.folded), decoders.folded))
            folded.facts = _facts(folded, doubtful, past)
    except BaseException:
        folded.release()
        raise
    return folded


def _facts(folded: Folded, doubtful: Sequence[Column], past: Past) -> Facts:
    found = facts_of(folded.states, past.recorded, doubtful, lives=past.lives, plain=past.sees_plain)
    # A key of which the batch itself has nothing may be made up as well.
    return replace(found, doubtful=1) if found.paired and doubtful and not found.doubtful else found


def _anew(folded: Folded, past: Past) -> Past | None:
    """With what a batch is to be folded once more, because its facts are not what was assumed; None if they are."""
    facts, recorded = folded.facts, past.recorded
    if facts.home == MOVES and recorded.keys_stay:
        # Before anything else is concluded from an order that was none.
        return past.moving()
    # One that another takes the place of in the batch itself stops the table, as it does in the next one.
    if (beginning := past.beginning_with(facts.files)) is not None:
        return beginning
    if facts.routed and not recorded.routed:
        return past.routed()
    if facts.doubtful and not past.lookup.options.doubtful_keys:
        return past.doubting()
    if facts.unplaced and _has_places(folded, past):
        return past.forgetting()
    # Before any are held against their past, which is read once.
    is_asked = facts.unsure or ((facts.wants_history or facts.paired) and facts.may_share_places(recorded))
    # A reading that was there before a truncate may come again behind it.
    is_asked = is_asked or any(truncate.position for truncate in past.wiping(facts.truncates))
    return past.exactly() if is_asked and not recorded.exact else None


def _without_places(folded: Folded, past: Past) -> Past | None:
    """For changes and truncates of which no place is known, where places tell what was sent before; None without such.

    A copy of a topic may begin with a tombstone, which then ends what its own delete never did. And a truncate that
    comes again ends what came behind it, which then comes again, too.
    """
    if not _has_places(folded, past):
        return None
    if any(one.position is None for one in folded.ended):
        return past.forgetting().living()
    is_parted = past.recorded.keys_move and (folded.facts.leading or folded.facts.placeless)
    return past.forgetting() if folded.facts.unplaced or is_parted else None


def _has_places(folded: Folded, past: Past) -> bool:
    """Whether places tell what was sent before, and deletes without them are not thought of yet."""
    told = [folded.facts.positions, past.recorded.positions]
    told += [folded.facts.readings, past.recorded.readings] if past.recorded.keys_move else []
    return any(told) and not past.recorded.forgets


def _in_next_epoch(folded: Folded, past: Past) -> Past | None:
    """With one more epoch, where the source goes on with another log; None where it does not."""
    recorded = past.recorded
    if past.span is None or not folded.facts.continued:
        return None
    first_read = folded.states.where(F.col(CURRENT) & within(past.span, m.PARTITION, m.OFFSET))
    beginning = next_epoch(first_read, past.span.end, recorded)
    if beginning is None or beginning in recorded.epochs:
        return None
    return replace(past, recorded=replace(recorded, epochs=(*recorded.epochs, beginning)))


def _complete(folded: Folded, current: DataFrame, own: DataFrame, decoders: Decoders, past: Past) -> Past | None:
    """Find out what the batch alone could not tell, and fold once more with it.

    Returns:
        With what it is to be folded anew; None where it is complete.
    """
    target, partial, states, facts = decoders.folded, decoders.partial, folded.states, folded.facts
    if past.watch is not None:
        folded.snapshots = followed.follow(states, past, past.watch, target)
        folded.facts = facts = _facts_of_sweeps(folded, past)
    sweeps = folded.snapshots.sweeps
    folded.truncates, folded.passed = new_truncates(facts.truncates, past, decoders), past.passed_over(facts.truncates)
    history = history_of(states, facts, past, decoders, folded.truncates, sweeps)
    folded.has_past = history is not None
    if history is not None and history.target.types != target.types:
        # What rules see unmasked has come in other types before.
        folded.target = target = history.target
        own = _own(current, decoders, target, past)
    earlier, truncates = history.truncates if history is not None else (), folded.truncates
    if truncates or sweeps or history is not None:
        changes, recorded = own, past.recorded
        if history is not None:
            # What could not be read when it came, and so told nothing of where keys are, can be among them.
            changes = with_history(own, history)
            recorded = replace(recorded, exact=True, has_past=True, home=MOVES)
            partial, sweeps = partial.union(history.partial), history.snapshots.since(sweeps)
            facts = replace(facts, paired=facts.paired + history.mended)
            unreconciled = folded.snapshots.unreconciled + history.snapshots.unreconciled
            folded.snapshots = replace(folded.snapshots, unreconciled=unreconciled)
        folded.ended = truncates = in_order((*earlier, *truncates))
        if past.lives:
            # Here truncates and snapshots end each row at their place; otherwise they leave out what it was before.
            sweeps = followed.located(sweeps, own, past, target)
            folded.snapshots = replace(folded.snapshots, sweeps=tuple(one for one in sweeps if not one.is_past))
            is_sharded = past.lookup.options.shard is not None
            live = _live(past, target)
            changes = life.with_endings(changes, target, truncates, earlier, sweeps, live=live, sharded=is_sharded)
            recorded = replace(recorded, truncated=())
        folded.release()
        folded.keep(fold.states(changes, target, partial, recorded, truncates, sweeps, lives=past.lives))
        read = past.recorded.positions if past.mirror is not None else None
        if not past.lives and life.outlives(folded.states, folded.truncates, earlier, read):
            return past.living()
        anew = facts_of(folded.states, Recorded(partitions=past.recorded.partitions))
        folded.facts = facts = replace(anew, **{name: getattr(facts, name) for name in _KEPT_FACTS})
        if sweeps and facts.unsure and not recorded.exact:
            return past.exactly()
    _fill(folded, past, target, partial, () if past.lives else truncates)
    if facts.patched:
        folded.states = updates.applied(folded.states, target)
    if history is not None and past.mirror is not None and past.judges:
        # Last: by value, so that the states have to be whole.
        folded.states = with_standing(folded.states, past.mirror, target, past.held)
    folded.partial = _partial(folded, past, target)
    return None


def _facts_of_sweeps(folded: Folded, past: Past) -> Facts:
    """The facts, with what complete snapshots that began before the batch ask of the past."""
    sweeps = folded.snapshots.sweeps
    if not sweeps or past.raw is None:
        return folded.facts
    return facts_of(folded.states, past.recorded, sweeps=sweeps, lives=past.lives, plain=past.sees_plain)


def _partial(folded: Folded, past: Past, target: TableSchema) -> tuple[tuple[int, int], ...]:
    """The truncates beside which other partitions have rows without a position: nobody knows which of these it ended.

    Such may be the rows of incremental snapshots. Those that are there when the batch begins count, ended or not.
    """
    wiping = tuple(one for one in folded.truncates if not past.recorded.is_alone(one.partition, one.offset))
    if not wiping:
        return ()
    is_row = F.col(CURRENT) & F.col(m.OP).isin(*m.CHANGE_OPS) & ~fold.is_delete() & fold.effective()
    placeless = folded.states.where(is_row & F.col(m.POSITION).isNull()).select(m.PARTITION, m.SOURCE_TABLE)
    live = _live(past, target)
    if live is not None:
        table = base.source_table_of(live, past.recorded.table)
        shown = live.where(F.col(CDC)["position"].isNull()).select(F.col(CDC)["partition"], table)
        placeless = placeless.union(shown)
    return beside(wiping, [tuple(row) for row in placeless.distinct().collect()])


def _fill(folded: Folded, past: Past, target: TableSchema, partial: Partial, truncates: Sequence[Truncate]) -> None:
    """Fill what the batch's messages left out from other rows, as far as those are known by now."""
    if past.mirror is not None and (folded.facts.wants_base or folded.facts.moved):
        known = _base(past.mirror, folded.states, target, truncates)
        folded.states = base.attach_base(folded.states, known, target, partial)
    if (_graft(folded, target, partial, past.recorded) and past.recorded.mends) or folded.facts.paired:
        folded.facts = replace(folded.facts, unpaired=unpaired_after(folded.states, folded.facts))


def _graft(folded: Folded, target: TableSchema, partial: Partial, recorded: Recorded) -> int:
    """Fill what key changes left out; once more for each link of a chain of them, until nothing more is found.

    Returns:
        How many inserts lack values after that.
    """
    left = waiting = folded.facts.moved
    while waiting:
        folded.keep(base.graft(folded.states, target, partial, recorded))
        left = folded.states.agg(F.count_if(base.is_moved())).collect()[0][0]
        waiting = left if left < waiting else 0
    return left


def _with_flags(changes: DataFrame, past: Past) -> DataFrame:
    flagged = changes.withColumns({CURRENT: F.lit(True), REBUILT: F.lit(False)})
    again = within(past.retried, m.PARTITION, m.OFFSET) if past.retried is not None else F.lit(False)
    if past.held is None:
        return flagged.withColumn(HELD, again)
    held = F.broadcast(past.held.select(F.col("key").alias("__cdc_held_key")).distinct())
    joined = flagged.join(held, F.col(m.KEY) == F.col("__cdc_held_key"), "left")
    return joined.withColumn(HELD, F.col("__cdc_held_key").isNotNull() | again).drop("__cdc_held_key")


def _live(past: Past, target: TableSchema) -> DataFrame | None:
    return None if past.mirror is None else life.live_rows(past.mirror, target)


def _base(mirror: DataFrame, states: DataFrame, target: TableSchema, truncates: Sequence[Truncate]) -> DataFrame:
    asked = base.of_keys(life.live_rows(mirror, target), states.where(base.wants_base()), target)
    placed = asked.withColumns(
        {
            m.KEY: m.row_key(target),
            m.OP: F.col("__cdc.op"),
            m.POSITION: F.col("__cdc.position"),
            m.PARTITION: F.col("__cdc.partition"),
            m.OFFSET: F.col("__cdc.offset"),
        }
    )
    return placed.where(~is_wiped(truncates))


def published(marker: Marker) -> Column:
    """Whether a row of raw or of quarantine is about a message that a mirror with this marker has got.

    Of a batch that stopped before it was published, quarantine has rows as well.
    """
    return within(whole(Offsets(), marker.offsets, marker.topic), "partition", "offset")


def whole(start: Offsets, end: Offsets, topic: str) -> Span:
    """The span between two sets of offsets, partitions that only the end has from their first message."""
    return Span(topic, Offsets({partition: start.get(partition, 0) for partition in end}), end)
