"""`cdcm quarantine release`: judge held messages again, after a contract or a setting was mended.

Nothing is let through that today's rules hold. The messages are read again from raw as a batch of their own, by the
steps of the line: their keys are folded from the first message on, so what is good by now is published in its order,
and what a later change has overtaken is told so. What still breaks a rule stays held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.batch import batch, verdict
from cdc_materializer.batch.earlier import at_places
from cdc_materializer.errors import UsageError
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.line import judging, quarantine
from cdc_materializer.line.line import Line, Tables, marker_of, reload
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.pipeline import decide, load, publish, reading_of, settle
from cdc_materializer.progress import landed
from cdc_materializer.report.models import ReleaseReport
from cdc_materializer.run.run import RunOptions, open_work, session_for
from cdc_materializer.session.session import beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config

#: Actions that hold a message of a batch that was published; the last one where an earlier version was refused to
#: release it by a rule that blocks.
_HOLDING = ("hold", "quarantine", "block")


@dataclass(frozen=True)
class Wanted:
    """Which held messages are judged again; all for nothing.

    Attributes:
        place: one message, by partition and offset.
        code: those with this violation code.
        rule: those that broke this rule of the contract.
    """

    place: tuple[int, int] | None = None
    code: str | None = None
    rule: str | None = None

    def takes(self) -> Column:
        """Whether a quarantine row is meant."""
        named = {"code": self.code, "rule": self.rule}
        if self.place is not None:
            named |= dict(zip(("partition", "offset"), map(str, self.place), strict=True))
        found = F.col("status") == verdict.OPEN
        for name, value in named.items():
            found = found if value is None else found & (F.col(name).cast("string") == value)
        return found & F.col("action").isin(*_HOLDING)


def release_held(config: Config, table: str, wanted: Wanted, spark: SparkSession | None = None) -> ReleaseReport:
    """Judge held messages of a table again, and publish what is good by now.

    Args:
        config: from `load_config`.
        table: the mirror.
        wanted: which of its held messages. Others of the same rows are judged with them.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        UsageError: there is no such mirror.
        ContractBlocked: a rule that blocks is broken by them; nothing was published.
        CdcError: the tables, the registry or the contract cannot be used.
    """
    work = open_work(config, RunOptions(tables=(table,)))
    (found,) = work.tables
    with session_for(work, spark, landed(config, work.tables)) as session:
        lake = Lake(beside(session, config), config.catalog.name)
        line = Line(config.name, found, work.source, work.registry, work.contracts.get(table), lake)
        with translated(found.mirror):
            return _release(line, load(line), wanted)


def _release(line: Line, tables: Tables, wanted: Wanted) -> ReleaseReport:
    raw, mirror = tables.raw, tables.mirror
    if raw is None or mirror is None:
        raise UsageError(f"There is no mirror {line.mirror} yet, so nothing to release.", "`cdcm run` makes it.")
    tables = settle(line, raw, tables)
    nothing = ReleaseReport(pipeline=line.pipeline, table=str(line.mirror), topic=line.table.topic)
    if tables.quarantine is None:
        return nothing
    here = marker_of(mirror).offsets
    places = _places(line, tables.quarantine, here, wanted)
    tried = places.count()
    if tried == 0:
        return nothing
    stored = line.lake.rows(raw)
    again = at_places(stored, places)
    reading = reading_of(line, stored, Span(line.table.topic, here, here), again, tables)
    decided = decide(line, tables, reading)
    try:
        done = publish(line, raw, tables, decided)
    finally:
        judging.release(decided.states)
    return nothing.model_copy(
        update={
            "tried": tried,
            "counts": {name: count for name, count in decided.counts.items() if count},
            "mirror_snapshot": done.mirror_snapshot if done is not None else None,
            **_standing(line, places),
        }
    )


def _places(line: Line, held: LakeTable, reached: Offsets, wanted: Wanted) -> DataFrame:
    """Where the wanted messages lie, and the other held ones of their keys: all are judged, or the order is lost."""
    read = Span(line.table.topic, Offsets(dict.fromkeys(reached, 0)), reached)
    is_held = Wanted().takes() & batch.within(read, "partition", "offset")
    every = line.lake.rows(held).where(is_held)
    chosen = every.where(wanted.takes()).select("partition", "offset", "key").localCheckpoint()
    keys = chosen.where(F.col("key").isNotNull()).select("key").distinct()
    with_them = every.join(F.broadcast(keys), "key", "left_semi").select("partition", "offset")
    return chosen.select("partition", "offset").unionByName(with_them).distinct().localCheckpoint()


def _standing(line: Line, places: DataFrame) -> dict[str, object]:
    """What has become of the messages: still held, with which codes, or not."""
    rows = at_places(line.lake.rows(reload(line, line.mirror.quarantine)), places)
    rows = rows.where(F.col("action").isin(*_HOLDING))
    is_open = F.col("status") == quarantine.OPEN
    by_message = rows.groupBy("partition", "offset").agg(
        F.count_if(is_open).alias("open"), F.count_if(F.col("status") == verdict.RELEASED).alias("released")
    )
    sums = by_message.agg(
        F.count_if(F.col("open") > 0).alias("held"),
        F.count_if((F.col("open") == 0) & (F.col("released") > 0)).alias("released"),
        F.count_if((F.col("open") == 0) & (F.col("released") == 0)).alias("superseded"),
    )
    named = rows.where(is_open).select(F.concat_ws(" ", "code", "rule").alias("name")).groupBy("name").count()
    codes = {row["name"]: row["count"] for row in named.orderBy("name").collect()}
    return {**sums.collect()[0].asDict(), "codes": codes}
