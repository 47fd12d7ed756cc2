"""`cdcm adopt`: go on after the source lost or rewound data, by someone's decision and on the record.

What is accepted, by whom and why goes into the marker of the table that it concerns, and stays in every later one: on
raw for messages that are gone (the offsets go on behind the gap, or in the topic that was made again), on the mirror
for positions that cannot be compared with the earlier ones any more (a new epoch begins). Nothing is deleted: rows that
the source lost stay in the mirror until a complete snapshot with `snapshot_sweep` removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer.batch.batch import within
from cdc_materializer.changes.shards import SERVER
from cdc_materializer.errors import Code, UsageError
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake, LakeTable
from cdc_materializer.lanes import other_topics, topic_of
from cdc_materializer.line import quarantine, quarantine_retries
from cdc_materializer.line.checks import check_raw
from cdc_materializer.line.line import Line, Tables, marker_of
from cdc_materializer.marker.adopted import Accepted, Adoption
from cdc_materializer.marker.lost import skip_lost
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.order.epochs import NEVER as NOT_YET
from cdc_materializer.order.epochs import beginning_of
from cdc_materializer.pipeline import load
from cdc_materializer.progress import asked_again, check_servers
from cdc_materializer.report.models import Adopted, AdoptReport
from cdc_materializer.retry import NEVER, Deadline
from cdc_materializer.run.run import RunOptions, open_work, session_for
from cdc_materializer.session.session import beside
from cdc_materializer.source import as_raw_counts, state_of
from cdc_materializer.status import as_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config
    from cdc_materializer.source import TopicState

#: Whether a message waits for its schema.
_WAITS = "__cdc_waits"


@dataclass(frozen=True)
class Decision:
    """Who accepts what is lost, when, and why."""

    by: str
    at: datetime
    reason: str | None = None

    def adoption(self, marker: Marker, after: Marker) -> Adoption:
        """What changes from one marker to the next, as it is kept."""
        at = self.at.isoformat(timespec="seconds")
        if after.epochs != marker.epochs:
            began = {p: offset for p, offset in after.epochs[-1].items() if offset != NOT_YET}
            return Adoption("positions", began, 0, at, self.by, self.reason)
        lost = sum(after.offsets.values()) - sum(marker.offsets.values())
        is_other = after.bases != marker.bases or other_topics(marker.topic_id, after.topic_id)
        what: Accepted = "topic" if is_other else "gap"
        return Adoption(what, dict(after.offsets), lost, at, self.by, self.reason, dict(marker.offsets))


def adopt_table(
    config: Config, name: str, decision: Decision, spark: SparkSession | None = None, deadline: Deadline = NEVER
) -> AdoptReport:
    """Accept what the source of a table lost or rewound, so that the next run goes on.

    Args:
        config: from `load_config`.
        name: the mirror.
        decision: who accepts it, and why.
        spark: a session with Iceberg's extensions, where there is one.
        deadline: broker and registry are waited for no longer.

    Raises:
        UsageError: there is nothing to accept.
        ConfigError: its topics are others than those that filled it.
        LakeUnavailable: another program has dropped or renamed columns of raw.
        CdcError: the source or the lake cannot be used, or another writer was faster.
    """
    work = open_work(config, RunOptions(tables=(name,), deadline=deadline))
    table = work.tables[0]
    topic = state_of(work.source, table.topic, table.topics)
    with session_for(work, spark, messages=0) as session:
        lake = Lake(beside(session, config), config.catalog.name)
        line = Line(config.name, table, work.source, work.registry, work.contracts.get(name), lake)
        with translated(table.mirror):
            accepted = _adopt(line, load(line), topic, decision)
    return AdoptReport(
        pipeline=config.name, table=name, topic=table.topic, adopted=[_entry(adoption) for adoption in accepted]
    )


def _entry(adoption: Adoption) -> Adopted:
    told = {name: value for name, value in asdict(adoption).items() if name in Adopted.model_fields}
    return Adopted.model_validate(told | {"offsets": as_json(adoption.offsets)})


def _adopt(line: Line, tables: Tables, topic: TopicState, decision: Decision) -> list[Adoption]:
    accepted = []
    if tables.raw is not None:
        marker = marker_of(tables.raw)
        check_servers(line.table, marker)
        topic = as_raw_counts(asked_again(line.source, line.table, topic, marker), marker)
        rewound = quarantine.rewound_topics(line, tables.quarantine)
        after = skip_lost(marker, topic.topic_id, topic.beginnings, topic.ends, rewound)
        is_other = other_topics(marker.topic_id, topic.topic_id)
        if is_other or (after.bases, after.offsets) != (marker.bases, marker.offsets):
            # Later offsets move the tag that tells of a dropped column (`lake.commit.move`).
            check_raw(tables.raw)
            accepted.append(decision.adoption(marker, after))
            after = replace(after, topics=topic.topics, adopted=(*marker.adopted, accepted[-1]))
            line.lake.publish(tables.raw, after, lambda _: None)
    if tables.mirror is not None and tables.raw is not None:
        marker = marker_of(tables.mirror)
        beginning = _next_epoch(line, tables, marker)
        if beginning is not None:
            logs = _other_logs(line, tables.raw, marker, beginning)
            after = replace(marker, epochs=(*marker.epochs, beginning), logs=logs)
            accepted.append(decision.adoption(marker, after))
            line.lake.publish(tables.mirror, replace(after, adopted=(*marker.adopted, accepted[-1])), lambda _: None)
    # A contract that blocks, or a column that is there twice, is nothing that anyone can accept.
    if not accepted and not quarantine.has_losses(line, tables.quarantine):
        what = f"There is nothing to accept for {line.mirror}: neither its topic nor its database has lost anything."
        raise UsageError(what, "Nothing was written; `cdcm run` says when a decision is needed.")
    if tables.quarantine is not None:
        quarantine.release_stops(line, tables.quarantine)
    return accepted


def _other_logs(line: Line, raw: LakeTable, marker: Marker, beginning: Mapping[int, int]) -> Mapping[str, int]:
    """The logs of other servers than the one whose epoch begins; none where there is but one."""
    shard, topics = line.options.shard, marker_of(raw).topics
    if shard is None:
        return {}
    own = {shard.name_of(topics[topic_of(partition)]) for partition, at in beginning.items() if at != NOT_YET}
    return {log: last for log, last in marker.logs.items() if log.rpartition(SERVER)[2] not in own}


def _next_epoch(line: Line, tables: Tables, marker: Marker) -> Mapping[int, int] | None:
    """Where the new epoch begins in each partition of raw; None where no position went back.

    At the first change that stopped the table, and in the other partitions at the first message that was written no
    earlier; where there is none yet, behind all that is there.
    """
    if tables.raw is None or tables.quarantine is None:
        return None
    held = line.lake.rows(tables.quarantine)
    stops = held.where((F.col("code") == str(Code.POSITION_REGRESSION)) & (F.col("status") == quarantine.OPEN))
    # What was published since has only not been ended yet; but what waits for its schema is read in a later batch.
    read_up_to = Span(marker.topic, Offsets(dict.fromkeys(marker.offsets, 0)), marker.offsets)
    waiting = F.broadcast(quarantine_retries.waiting(line, tables.quarantine).withColumn(_WAITS, F.lit(True)))
    stops = stops.join(waiting, ["partition", "offset"], "left")
    stops = stops.where(F.col(_WAITS) | ~within(read_up_to, "partition", "offset"))
    found = stops.groupBy("partition").agg(F.min("offset").alias("offset"), F.min("timestamp").alias("at")).collect()
    if not found:
        return None
    since = min(row["at"] for row in found)
    raw = line.lake.rows(tables.raw).where(F.col("timestamp") >= F.lit(since))
    later = {
        row["partition"]: row["offset"]
        for row in raw.groupBy("partition").agg(F.min("offset").alias("offset")).collect()
    }
    read = marker.offsets
    beginning = {p: max(later.get(p, end), read.get(p, 0)) for p, end in marker_of(tables.raw).offsets.items()}
    beginning |= {row["partition"]: min(row["offset"], beginning[row["partition"]]) for row in found}
    own = beginning_of(beginning, line.recorded(tables.mirror, read), [row["partition"] for row in found])
    return own if not marker.epochs or own != marker.epochs[-1] else None
