"""What becomes of each message: published, superseded, held, and with which violations (design §4.5, §4.6, §5).

The last state of a key that may be published is the one that is, so that any cut of the log into batches ends in the
same table. Held states stand in no one's way: the row keeps its last good version until a later state is good again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from cdc_materializer.batch import doubts
from cdc_materializer.batch.judgement import Judgement
from cdc_materializer.built_once import built_once
from cdc_materializer.changes import masking
from cdc_materializer.changes import model as m
from cdc_materializer.contract.judge import CompiledRule
from cdc_materializer.errors import Code
from cdc_materializer.fold import fold
from cdc_materializer.fold.fold import CURRENT, OPEN_COLUMNS, effective, is_delete
from cdc_materializer.fold.swept import WIPED
from cdc_materializer.order.epochs import REGRESSED
from cdc_materializer.order.key_order import AMBIGUOUS, GROUP, ORDER
from cdc_materializer.order.resends import REPLAYED

OUTCOME = "__cdc_outcome"
#: Whether the state may be published: a good row, or the end of one.
PASSES = "__cdc_passes"
#: Whether the state is the one of its key that goes into the mirror.
PUBLISHED = "__cdc_published"
#: Of a batch that has the past of rows (`Judgement.has_past`), whether this one's may change.
MAY_CHANGE = "__cdc_may_change"
#: Whether a later state of the row is PUBLISHED, so that nothing waits for this one's message any more.
OVERTAKEN = "__cdc_overtaken"
#: Whether another state of the key stands in the place of the PUBLISHED one, which must never be: both would be.
DOUBLED = "__cdc_doubled"
#: Whether the row was gone already.
_PREVIOUS_DELETE = "__cdc_previous_delete"
VIOLATIONS = "__cdc_violations"
BLOCKED = "__cdc_blocked"
#: Names of the holding rules that the state breaks, and of those that only warn or are only tried.
FAILED, WARNED = "__cdc_failed", "__cdc_warned"

UPSERTED, DELETED, UNCHANGED, SUPERSEDED = "upserted", "deleted", "unchanged", "superseded"
REPLAYED_OUTCOME, IGNORED, QUARANTINED = "replayed", "ignored", "quarantined"
OUTCOMES = (UPSERTED, DELETED, UNCHANGED, SUPERSEDED, REPLAYED_OUTCOME, IGNORED, QUARANTINED)

#: What a message is counted as when its changes have several outcomes: the first of these.
_WEIGHT = (QUARANTINED, UPSERTED, DELETED, SUPERSEDED, UNCHANGED, REPLAYED_OUTCOME, IGNORED)

OPEN, RESOLVED, RELEASED = "open", "superseded", "released"
_VIOLATION = "struct<code:string,rule:string,severity:string,action:string,status:string,column:string>"


@dataclass(frozen=True)
class Cuts:
    """How states of several batches are told apart.

    Attributes:
        column: the number of the batch that each state belongs to; each publishes its own, unless an earlier one has
            published a later state. Those of no number are a batch of their own.
        lives: whether truncates and snapshots end rows in the batches as deletes do (`life.with_endings`).
        forgets: as `Recorded.forgets`.
    """

    column: str
    lives: bool = False
    forgets: bool = False


def decide(states: DataFrame, judgement: Judgement, cuts: Cuts | None = None) -> DataFrame:
    """Add OUTCOME, PUBLISHED, DOUBLED, VIOLATIONS (rows for quarantine) and BLOCKED (blocking rules that failed).

    Args:
        states: from `batch.fold_batch`.
        judgement: how they are judged.
        cuts: how states of several batches are told apart; None where they are of one.
    """
    holding, warning = _by_action(judgement.rules)
    broken = {FAILED: _names(holding), WARNED: _names(warning)}
    lists = (m.ABSENT, m.UNAVAILABLE, OPEN_COLUMNS, fold.MISSING_COLUMNS)
    judged = _with_previous_delete(masking.judged(states, broken, lists, fold.CARRIED), cuts)
    stands = F.col(fold.STANDS) if fold.STANDS in states.columns else F.lit(False)
    if judgement.strict:
        judged = doubts.with_ends(doubts.with_doubted(judged, stands), _PREVIOUS_DELETE)
    passes = _passes(judgement, stands)
    of_key = _so_far(cuts) if cuts else Window.partitionBy(GROUP)
    last, own = (F.max(F.when(test, F.col(ORDER))).over(of_key) for test in (passes, passes & F.col(CURRENT)))
    if cuts:
        # A delete that comes late behind a truncate is its own row's end, and no truncate supersedes it.
        is_wipe = F.coalesce(F.col(m.OP) == m.WIPE, F.lit(False))
        told = F.max(F.when(passes & ~is_wipe, F.col(ORDER))).over(of_key)
        last = F.when(is_delete() & ~is_wipe, told).otherwise(last)
    placed = judged.withColumns({PASSES: passes, "__cdc_final": last, "__cdc_final_own": own})
    if judgement.routed:
        table = F.max_by(F.col(m.SOURCE_TABLE), F.when(F.col(PASSES), F.col(ORDER))).over(of_key)
        placed = placed.withColumn("__cdc_final_table", table)
    here = F.col(ORDER)
    after_final = F.col("__cdc_final").isNull() | (here > F.col("__cdc_final"))
    published, overtaken = F.col(PASSES) & (here == F.col("__cdc_final")), here < F.col("__cdc_final")
    if judgement.has_past:
        waits = F.col(fold.WAITS) if fold.WAITS in states.columns else F.lit(False)
        placed = placed.withColumn(MAY_CHANGE, _may_change(of_key, waits, mends=judgement.mends))
        published, overtaken = (test & F.col(MAY_CHANGE) for test in (published, overtaken))
    stays = judgement.is_another_row() | judgement.is_doubted()
    return placed.withColumns(
        {
            PUBLISHED: published,
            OVERTAKEN: F.coalesce(overtaken, F.lit(False)) & ~stays,
            # The last state is one alone as long as no two stand in one place, so nothing has to be counted.
            DOUBLED: published & F.col(fold.TWIN),
            OUTCOME: _outcome(after_final, judgement),
            VIOLATIONS: _violations(after_final, judgement),
            BLOCKED: _blocked(after_final, judgement.rules),
        }
    )


def _may_change(of_key: WindowSpec, waits: Column, *, mends: bool) -> Column:
    """Whether a row has a message in the batch, or is ended.

    Others are there for the values that key changes have taken from them, and stay as readers see them: a contract that
    was changed may let pass what they are held for. A batch that mends rows tells more of some. Of these the last state
    that is not held already counts if it is a good one; otherwise the one before it would be shown in its place. One
    that is held may lack nothing but what a key change left out, and be good by now.
    """
    is_end = F.col(m.OP).isin(m.WIPE, m.SWEEP) & (F.col(ORDER) == F.col("__cdc_final"))
    found = F.max(F.col(CURRENT) | F.coalesce(is_end, F.lit(False))).over(of_key)
    if mends:
        is_mended = F.col(PASSES) & F.col(fold.OPENER).isNotNull()
        last = F.max(F.when(effective() & (~waits | is_mended), F.col(ORDER))).over(of_key)
        found = found | (F.col("__cdc_final") == last)
    return F.coalesce(found, F.lit(False))


def _so_far(cuts: Cuts) -> WindowSpec:
    """The states of a row in a batch and in those before it: what comes late takes no row back (§2.2)."""
    of_batches = Window.partitionBy(GROUP, F.col(cuts.column).isNull()).orderBy(cuts.column)
    return of_batches.rangeBetween(Window.unboundedPreceding, Window.currentRow)


def by_message(decided: DataFrame) -> DataFrame:
    """One OUTCOME a message, with its coordinates and CURRENT.

    Where a message is several changes, it is the outcome of the one that weighs most.
    """
    weights = F.array(*[F.lit(outcome) for outcome in _WEIGHT])
    weight = F.min(F.array_position(weights, F.col(OUTCOME)).cast("int"))
    found = decided.where(F.col(CURRENT)).groupBy(m.TOPIC, m.PARTITION, m.OFFSET).agg(weight.alias("weight"))
    outcome = F.element_at(weights, F.col("weight")).alias(OUTCOME)
    return found.select(m.TOPIC, m.PARTITION, m.OFFSET, outcome, F.lit(True).alias(CURRENT))


def _names(rules: Sequence[CompiledRule]) -> Column:
    if not rules:
        return F.array().cast("array<string>")
    # Nearly all rows keep all rules: to go through a list for each of them costs three times what the rules do.
    is_broken = _any([rule.failed for rule in rules])
    failed = F.array_compact(F.array(*[F.when(rule.failed, F.lit(rule.rule.name)) for rule in rules]))
    return F.when(effective() & ~is_delete() & is_broken, failed).otherwise(F.array().cast("array<string>"))


def _any(tests: Sequence[Column]) -> Column:
    """Whether one of some tests is true; in halves, because a chain of thousands is too deep for Spark."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return _any(tests[:half]) | _any(tests[half:])


def _with_previous_delete(judged: DataFrame, cuts: Cuts | None) -> DataFrame:
    """Add whether the row was already gone: a tombstone behind its delete, say, which changes nothing.

    A batch knows that of its own changes. What came before it is looked up for a tombstone, which may belong to a
    delete from then, and for keys with open held messages (`facts.wants_history`).
    """
    if cuts is None:
        return judged.withColumn(_PREVIOUS_DELETE, F.col(fold.GONE))
    window = Window.partitionBy(GROUP).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, -1)
    ends = is_delete() if cuts.lives else is_delete() & ~F.col(m.OP).isin(m.WIPE, m.SWEEP)
    told = F.struct(F.col(cuts.column).alias("cut"), ends.alias("ends"), F.col(m.POSITION).alias("position"))
    judged = judged.withColumn("__cdc_delete_before", F.last(F.when(effective(), told), ignorenulls=True).over(window))
    previous = F.col("__cdc_delete_before")
    is_looked_up = (F.col(m.OP) == m.TOMBSTONE) & (previous["position"].isNotNull() | F.lit(not cuts.forgets))
    is_known = previous["cut"].eqNullSafe(F.col(cuts.column)) | is_looked_up
    known = judged.withColumn(_PREVIOUS_DELETE, F.coalesce(previous["ends"] & is_known, F.lit(False)))
    return _with_held_since(known, cuts).drop("__cdc_delete_before")


def _with_held_since(judged: DataFrame, cuts: Cuts) -> DataFrame:
    """Let _PREVIOUS_DELETE hold, too, where an earlier batch has held a message of the row since it was gone.

    Such a message is open until a state behind it is published: by its own batch a first delete, and by a later one
    none, because that finds the row gone.
    """
    previous, here, gone = F.col("__cdc_delete_before"), F.col(ORDER), "__cdc_rows_before"
    until_here = Window.partitionBy(GROUP).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    judged = judged.withColumn(gone, F.count_if(effective() & ~is_delete()).over(until_here))
    is_published = effective() & is_delete() & ~F.col(_PREVIOUS_DELETE)
    ended = F.max(F.when(is_published, here)).over(Window.partitionBy(GROUP, gone, cuts.column))
    judged = judged.withColumn("__cdc_end_published", ended)
    is_held = F.col(m.CODE).isNotNull() & ~F.col(m.NAMELESS) & previous["ends"]
    is_open = is_held & (F.col("__cdc_end_published").isNull() | (here > F.col("__cdc_end_published")))
    held = F.struct(here.alias("at"), F.col(cuts.column).alias("cut"))
    judged = judged.withColumn("__cdc_first_held", F.min(F.when(is_open, held)).over(Window.partitionBy(GROUP, gone)))
    first = F.col("__cdc_first_held")
    is_since = previous["ends"] & (first["at"] < here) & ~first["cut"].eqNullSafe(F.col(cuts.column))
    found = F.col(_PREVIOUS_DELETE) | F.coalesce(is_since, F.lit(False))
    return judged.withColumn(_PREVIOUS_DELETE, found).drop(gone, "__cdc_end_published", "__cdc_first_held")


def count_of(found: Column, code: Code) -> Column:
    """How many elements of an array of structs carry a code.

    Without a function of each element: Spark interprets those, and resolves them anew at each step of a plan.
    """
    codes = found["code"]
    return F.size(codes) - F.size(F.array_remove(codes, str(code)))


@built_once
def misfits() -> Column:
    """Problems of the state's own values and of those that it carries."""
    return F.concat(F.col(m.PROBLEMS), F.col(fold.CARRIED))


@built_once
def is_misfit() -> Column:
    """Whether there are any of these; the arrays are not joined for that."""
    return (F.size(m.PROBLEMS) + F.size(fold.CARRIED)) > 0


@built_once
def is_judged() -> Column:
    """Whether a message leaves a whole row behind, which rules can speak about."""
    return effective() & ~is_delete() & ~is_misfit()


@built_once
def broken_rules() -> Column:
    """Names of the rules that a judged row breaks, those that only warn too, whatever comes after it."""
    return F.when(is_judged(), F.concat(FAILED, WARNED)).otherwise(F.array().cast(fold.NO_NAMES))


def _passes(judgement: Judgement, stands: Column) -> Column:
    breaks = F.size(FAILED) > 0
    if judgement.strict:
        breaks = breaks | _is_unsure(judgement)
    bad = is_misfit() | (breaks & ~stands)
    return effective() & ~judgement.is_doubted() & F.when(is_delete(), ~F.col(_PREVIOUS_DELETE)).otherwise(~bad)


def _is_unsure(judgement: Judgement) -> Column:
    return (F.size(OPEN_COLUMNS) > 0) | judgement.is_unreconciled()


def _outcome(after_final: Column, judgement: Judgement) -> Column:
    held = F.col(m.CODE).isNotNull() | (is_misfit() & effective() & ~is_delete())
    broken = (F.size(FAILED) > 0) & after_final
    if judgement.strict:
        broken = broken | (_is_unsure(judgement) & effective() & ~is_delete() & after_final) | judgement.is_doubted()
    truncate = F.when(judgement.is_applied() & ~judgement.is_unordered(), DELETED).otherwise(IGNORED)
    if judgement.strict:
        held = held | judgement.is_unordered()
    return (
        F.when(held, QUARANTINED)
        .when(F.col(m.OP).isNull(), IGNORED)
        .when(F.col(REPLAYED), REPLAYED_OUTCOME)
        .when(F.col(m.OP) == m.TRUNCATE, truncate)
        .when(broken, QUARANTINED)
        .when(is_delete() & F.col(_PREVIOUS_DELETE) & effective(), UNCHANGED)
        .when(
            ~F.col(PASSES) | F.col(WIPED) | (F.col(ORDER) != F.col("__cdc_final")),
            SUPERSEDED,
        )
        .when(is_delete(), DELETED)
        .otherwise(UPSERTED)
    )


def _violations(after_final: Column, judgement: Judgement) -> Column:
    """The quarantine rows of a message, one a code and rule; none for messages that an earlier batch accounted for."""
    status = F.when(after_final, OPEN).otherwise(RESOLVED)
    is_final = F.col(PASSES) & (F.col(ORDER) == F.col("__cdc_final"))
    lasting = F.when(F.col(m.NAMELESS) | judgement.is_another_row(), OPEN).otherwise(status)
    message = F.when(
        F.col(m.CODE).isNotNull(), F.array(_violation(F.col(m.CODE), status=lasting, rule=F.col(m.REASON)))
    )
    is_row = effective() & ~is_delete()
    codes = [
        Code.SCHEMA_INCOMPATIBLE,
        Code.OUT_OF_RANGE,
        Code.UNDECODABLE,
        Code.SCHEMA_UNKNOWN,
        Code.KEY_VALUE_MISMATCH,
        Code.UNKNOWN_OP,
    ]
    unfit = []
    for code in codes:
        at = F.array_position(misfits()["code"], str(code))
        column = F.get(misfits(), at.cast("int") - 1)["column"]
        unfit.append(F.when(at > 0, _violation(F.lit(str(code)), status=status, column=column)))
    # Nearly all rows fit; their empty lists are not gone through.
    own = F.when(is_row & is_misfit(), F.array_compact(F.array(*unfit)))
    # What was published before may be what follows it, by the same doubtful times.
    is_last = F.col(PASSES) & (F.col(ORDER) == F.col("__cdc_final_own"))
    # A value that does not fit is NULL here, and no rule can speak about a row that is not whole.
    is_unseen = is_row & after_final & ~is_misfit()
    tried = [one for one in judgement.rules if one.rule.shadow]
    holding, warning = _by_action([one for one in judgement.rules if not one.rule.shadow])
    is_told, lenient = after_final if judgement.strict else is_final, replace(judgement, strict=False)
    stop = _violation(F.lit(str(Code.POSITION_REGRESSION)), "stop", status=F.lit(OPEN))
    found = [
        message,
        own,
        F.when(F.col(REGRESSED), F.array(stop)),
        F.when(judgement.is_unordered(), _reported(Code.TRUNCATE_UNORDERED, judgement)),
        # Never held, however strict: it has ended the rows of which it is known that they are from before it.
        F.when(judgement.is_partial(), _reported(Code.TRUNCATE_UNORDERED, lenient)),
        F.when(judgement.is_doubted(), _reported(Code.ORDER_AMBIGUOUS, judgement)),
        F.when(is_last & F.col(AMBIGUOUS), _reported(Code.ORDER_AMBIGUOUS, lenient)),
        F.when(judgement.is_unreconciled(), _reported(Code.SNAPSHOT_UNRECONCILED, judgement)),
        # Never held, however strict: another cut of the log would have read on.
        F.when(judgement.is_waiting(), _reported(Code.SNAPSHOT_UNRECONCILED, lenient)),
        F.when(is_unseen, _rules(holding)),
        F.when(is_told & is_row & (F.size(OPEN_COLUMNS) > 0), _reported(Code.UNAVAILABLE_NO_BASE, judgement)),
        F.when(is_final, _rules(warning)),
        # It is tried on what other rules hold, too: whoever takes its action up wants to know what it would hold.
        F.when(is_final | is_unseen, _rules(tried)),
    ]
    empty = F.array().cast(f"array<{_VIOLATION}>")
    return F.when(F.col(CURRENT), F.concat(*[F.coalesce(part, empty) for part in found])).otherwise(empty)


def _reported(code: Code, judgement: Judgement) -> Column:
    """A row for a code of the second class (design §4.5), or for each value that is not known: held if strict."""
    status, action = (OPEN, "hold") if judgement.strict else (RELEASED, "report")
    names = F.col(OPEN_COLUMNS) if code is Code.UNAVAILABLE_NO_BASE else F.array(F.lit(None).cast("string"))
    return F.transform(names, lambda name: _violation(F.lit(str(code)), action, status=F.lit(status), column=name))


def _by_action(rules: Sequence[CompiledRule]) -> tuple[list[CompiledRule], list[CompiledRule]]:
    """Rules that hold what breaks them, and others."""
    return [one for one in rules if one.rule.enforces], [one for one in rules if not one.rule.enforces]


def _rules(rules: Sequence[CompiledRule]) -> Column:
    """One row for each of some rules that the state breaks: all of them hold, or none does."""
    held = any(one.rule.enforces for one in rules)
    found = []
    for compiled in rules:
        rule = compiled.rule
        named = F.array_contains(FAILED if held else WARNED, rule.name)
        status = F.lit(OPEN if held else RELEASED)
        row = _violation(
            F.lit(str(Code.CONTRACT)),
            rule.told_action,
            status=status,
            column=F.lit(rule.column),
            rule=F.lit(rule.name),
            severity=rule.severity,
        )
        found.append(F.when(named, row))
    empty = F.array().cast(f"array<{_VIOLATION}>")
    if not found:
        return empty
    # Nearly all rows break nothing.
    return F.when(F.size(FAILED if held else WARNED) > 0, F.array_compact(F.array(*found))).otherwise(empty)


def _violation(
    code: Column,
    action: str = "hold",
    *,
    status: Column,
    column: Column | None = None,
    rule: Column | None = None,
    severity: str = "error",
) -> Column:
    nothing = F.lit(None).cast("string")
    parts = {
        "code": code,
        "rule": nothing if rule is None else rule,
        "severity": F.lit(severity),
        "action": F.lit(action),
        "status": status,
        "column": nothing if column is None else column,
    }
    return F.struct(*[part.alias(name) for name, part in parts.items()]).cast(_VIOLATION)


def _blocked(after_final: Column, rules: Sequence[CompiledRule]) -> Column:
    names = [rule.rule.name for rule in rules if rule.rule.blocks]
    blocking = F.array(*[F.lit(name) for name in names]) if names else F.array().cast("array<string>")
    judged = after_final & ~is_misfit()
    return F.when(judged, F.array_intersect(FAILED, blocking)).otherwise(F.array().cast("array<string>"))
