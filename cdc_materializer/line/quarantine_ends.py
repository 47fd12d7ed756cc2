"""Which violations a batch ends: those of messages that were overtaken, or that pass by now."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import verdict
from cdc_materializer.changes import model as m
from cdc_materializer.errors import Code
from cdc_materializer.fold import fold

#: What says which rows of quarantine are ended. A message that breaks two rules has a row for each.
ENDED = ("partition", "offset", "key", "code", "rule", "column")
#: Where a state's message lies, and how quarantine calls that.
_PLACE = {m.KEY: "key", m.PARTITION: "partition", m.OFFSET: "offset"}


def ended_by(states: DataFrame, held: DataFrame) -> DataFrame:
    """The violations that hold no more: superseded where a later message of the key was published, else released.

    A message is released when the batch read it once more and did not find the violation again: its schema is known by
    now, or the rule or setting that stopped its batch was changed.

    Args:
        states: the batch's, decided.
        held: the rows of quarantine that may be ended.

    Returns:
        Which of them (ENDED, each once), and the status that each gets, `to`.
    """
    held = held.where(F.col("status") != verdict.RELEASED)
    # What is only reported by now holds no more.
    standing = F.filter(verdict.VIOLATIONS, lambda found: found["status"] != verdict.RELEASED)
    broken = F.transform(standing, lambda found: F.struct(found["code"], found["rule"], found["column"])).alias(
        "broken"
    )
    place = [F.col(name).alias(short) for name, short in _PLACE.items()]
    # Cut off from its plan: Spark finds a cached frame only once in a plan, and would plan the other use from the
    # start.
    ends = F.coalesce(F.col(m.OP).isin(m.WIPE, m.SWEEP), F.lit(False)).alias("ends")
    told = states.select(*place, m.PART, ends, fold.CURRENT, verdict.PUBLISHED, verdict.OVERTAKEN, broken)
    told = told.localCheckpoint()
    is_past = F.col(verdict.PUBLISHED) & ~F.col(fold.CURRENT)
    # Of the changes that a message makes of one row the last one says whether it passes as a whole.
    fate = (F.min(verdict.OVERTAKEN).alias("overtaken"), F.max_by(is_past, m.PART).alias("passes"))
    # What a snapshot's last record ends of other rows is no change that a message makes.
    fates = told.where(~F.col("ends")).groupBy(*_PLACE.values()).agg(*fate)
    # A key with open messages is folded with its past, so they are all there, in their order.
    met = held.where(F.col("status") == verdict.OPEN).join(fates, list(_PLACE.values()))
    to = F.when(F.col("overtaken"), verdict.RESOLVED).when(F.col("passes"), verdict.RELEASED)
    ended = met.select(*ENDED, to.alias("to")).where(F.col("to").isNotNull())
    again = _broken_again(told)
    mended = held.join(again, ["partition", "offset"]).where(~_is_among("broken"))
    read = mended.select(*ENDED, F.lit(verdict.RELEASED).alias("to"))
    # A message that waited for its schema has been read, whatever came after it.
    is_overtaken = F.array_contains("found", verdict.RESOLVED) & (F.col("code") != str(Code.SCHEMA_UNKNOWN))
    to = F.when(is_overtaken, verdict.RESOLVED).otherwise(F.array_min("found")).alias("to")
    both = ended.unionByName(read).groupBy(*ENDED).agg(F.collect_set("to").alias("found"))
    return both.select(*ENDED, to)


def _broken_again(told: DataFrame) -> DataFrame:
    """What each message that was read again was found to break, in all of its changes together."""
    own = told.where(F.col(fold.CURRENT))
    return own.groupBy("partition", "offset").agg(F.flatten(F.collect_list("broken")).alias("broken"))


def _is_among(broken: str) -> Column:
    """Whether a quarantine row's code, rule and column are among those of a column; most codes have no rule."""
    own = {name: F.col(name) for name in ("code", "rule", "column")}

    def is_it(one: Column) -> Column:
        return (
            (one["code"] == own["code"]) & one["rule"].eqNullSafe(own["rule"]) & one["column"].eqNullSafe(own["column"])
        )

    return F.exists(broken, is_it)
