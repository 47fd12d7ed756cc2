"""What became of a batch's messages: counted in one pass over its states, and held against what raw says it has.

Raw's own counters come from the files that Iceberg wrote, or its rows are counted, and a batch's come from its fold; so
a message that the fold loses or doubles shows as a difference between the two before anything is published.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, life, rows, verdict
from cdc_materializer.batch.steps import Decided
from cdc_materializer.changes import model as m
from cdc_materializer.errors import Code, InvariantBroken
from cdc_materializer.fold import fold
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.line import landed
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.offsets import Offsets, Span

#: What `sums` says of the states and the rows for the mirror, by the names that `Decided` has; and what no sum says,
#: which rules could not be judged (`judging.judge`).
OF_ROWS = ("written", "doubled", "keyless", "wrongs", "untried")
#: How far back raw's snapshots are looked through; a batch is nearly always what the last one landed.
_SNAPSHOTS_MAX = 20


def outcomes() -> list[Column]:
    """How many messages of a batch came to each outcome."""
    own = F.col(fold.CURRENT)
    return [F.count_if(own & (F.col(verdict.OUTCOME) == outcome)).alias(outcome) for outcome in verdict.OUTCOMES]


def sums(key: Sequence[str], *, soft: bool, lives: bool) -> list[Column]:
    """What else a batch's states add up to: violations by code, rules that block, rows to write.

    Args:
        key: the mirror's key columns.
        soft: whether the mirror keeps deleted rows.
        lives: whether more than the last state of a row is kept.
    """
    found = F.col(verdict.VIOLATIONS)
    # Nearly all messages have none: their empty lists are not gone through.
    of_code = {code: F.when(F.size(found) > 0, verdict.count_of(found, code)) for code in Code}
    codes = [F.sum(count).alias(f"code_{code}") for code, count in of_code.items()]
    own = F.col(fold.CURRENT)
    wrong = F.coalesce(F.sum(wrongs()).cast("string"), F.lit("0")).alias("wrongs")
    blocked = F.array_distinct(F.flatten(F.collect_set(F.when(own, F.col(verdict.BLOCKED))))).alias("blocked")
    of_lives = {"marked": life.is_mark(), "applied": own & F.col(life.APPLIED)} if lives else {}
    written = rows.is_written(soft=soft)
    keyless = functools.reduce(operator.or_, (m.column(name).isNull() for name in key), F.lit(False))
    faults = {"doubled": F.col(verdict.DOUBLED), "keyless": written & keyless}
    counts = {"published": F.col(verdict.PUBLISHED), "written": written, **faults, **of_lives}
    return [*codes, wrong, blocked, *[F.count_if(test).alias(name) for name, test in counts.items()]]


def wrongs() -> Column:
    """A number for what is wrong with a state, NULL for nothing: as a sum, which batch has found just these faults.

    It goes by partition, offset, code, rule and status of each violation, and into the mirror's marker.
    """
    told = F.transform(F.col(verdict.VIOLATIONS), lambda found: F.struct(found["code"], found["rule"], found["status"]))
    number = F.xxhash64(F.col(m.PARTITION), F.col(m.OFFSET), told)
    # A sum of 64 bits would overflow.
    return F.when(F.size(F.col(verdict.VIOLATIONS)) > 0, number.cast("decimal(20,0)"))


def check(
    line: Line, raw: LakeTable, reached: Offsets, decided: Decided, count: Callable[[LakeTable, Span], int]
) -> int:
    """Assert that each message of a batch has one outcome, and say how many raw has: a number that no fold has made.

    Raw's snapshots tell it where the batch ends where a landing ended and begins where one did; that is, unless
    `records_max` was changed in between, or the mirror lags far behind. Raw's rows are counted then.

    Args:
        line: the table's way.
        raw: as the batch was read from it.
        reached: how far the mirror has got; empty where it has nothing yet.
        decided: the batch.
        count: counts raw's rows, as `stored` does.

    Raises:
        InvariantBroken: a message is lost, or counted twice.
    """
    known = landed(line.lake.iceberg(raw.name), raw.head, _SNAPSHOTS_MAX)
    # Where raw was refilled, messages may be counted that another program has deleted: from nothing on, rows are.
    from_nothing = not reached and not marker_of(raw).refilled
    expected = expected_messages(known, decided, from_nothing=from_nothing)
    there = (count(raw, decided.span) if expected is None else expected) + decided.again
    counted = sum(decided.counts.values())
    if counted == there:
        return there
    what = f"{raw.name} has {there} messages for this batch, and it accounts for {counted}. Nothing was published."
    do = "See with `cdcm doctor` whether another program has written to raw; if none has, please report this as a bug."
    raise InvariantBroken(what, do)


def stored(line: Line, raw: LakeTable, span: Span) -> int:
    """How many messages raw has in a span; of its columns only their places are read."""
    return line.lake.rows(raw).where(batch.within(span, "partition", "offset")).count()


def check_keys(line: Line, decided: Decided) -> None:
    """Assert that a batch gives each key one row, and no row without a key.

    Iceberg's counters say later whether just these rows were written (`Stage.append`).

    Raises:
        InvariantBroken: it does not.
    """
    for count, fault in ((decided.doubled, "more than one row of a key"), (decided.keyless, "rows without a key")):
        if count:
            what = f"The batch would give {line.mirror} {fault} ({count} such). Nothing was published."
            raise InvariantBroken(what, "Please report this as a bug, with what `--debug` says.")


def expected_messages(known: list[tuple[Offsets, int]], decided: Decided, *, from_nothing: bool) -> int | None:
    """How many messages raw has for a batch; None where its snapshots do not tell.

    Args:
        known: raw's snapshots, newest first: how far each went, and how many messages it had.
        decided: the batch.
        from_nothing: whether it begins with the first message that raw has, and raw had none before that.
    """
    start, end = decided.span.start, decided.span.end
    after = next((total for offsets, total in known if offsets == end), None)
    before = next((total for offsets, total in known if _is_at(offsets, start)), 0 if from_nothing else None)
    return None if after is None or before is None else after - before


def _is_at(offsets: Offsets, start: Offsets) -> bool:
    """Whether raw went as far as the start of a span; of a partition that it did not know it had nothing.

    Where the span begins further on in such a partition, part of what landed after these offsets lies before the span.
    """
    return all(offsets.get(partition, 0) == first for partition, first in start.items())
