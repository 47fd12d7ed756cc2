"""The ledger of a mirror: what its rows' hashes add up to, kept in the summary of each snapshot that a batch publishes.

A table with `ledger: true` pays for it in each batch: the rows that the batch replaces are read whole, of which its own
MERGE reads no more than the keys, and what it has written is read back before it is published. So a scan of the mirror
alone tells whether another program has changed it, however long its log is. What is written is never taken from what
was found: rows that others have changed stay a difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from cdc_materializer.batch import life, rows
from cdc_materializer.changes import model as m
from cdc_materializer.digests import BUCKETS, Digest, turned_over
from cdc_materializer.errors import InvariantBroken, UsageError
from cdc_materializer.fold.truncated import is_ended
from cdc_materializer.line.line import Line, marker_of
from cdc_materializer.merge import Origin
from cdc_materializer.report.models import TableVerify
from cdc_materializer.schema.schema import renamed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.batch.steps import Decided
    from cdc_materializer.lake.lake import LakeTable
    from cdc_materializer.lake.stage import Stage
    from cdc_materializer.schema.schema import TableSchema

_TOUCHED = "__cdc_touched"


@dataclass(frozen=True)
class Ledger:
    """A ledger as a batch will leave it.

    Attributes:
        text: as the marker has it; None where none is kept, or where nobody knows what it was before.
        added: of the rows that the batch puts in.
    """

    text: str | None = None
    added: Digest = field(default_factory=Digest)

    def check(self, stage: Stage, target: TableSchema) -> None:
        """Assert that what a batch has written is, read back, what it decided, value by value.

        Args:
            stage: the branch; the batch's rows are the newest that were appended to it.
            target: the mirror's columns.

        Raises:
            InvariantBroken: it is something else.
        """
        if not self.added.rows:
            return
        rows_written = stage.appended_rows()
        written = rows_written.select(*life.in_columns(rows_written, target))
        differing = self.added.differing(turned_over(written, None, target)[0])
        if differing:
            what = f"Rows of {stage.base.name} that were written are not those that the batch decided."
            where = f"{len(differing)} of {BUCKETS} buckets of keys differ; nothing was published."
            do = "Run again. If it stays so, please report this as a bug, with what `--debug` says."
            raise InvariantBroken(f"{what} {where}", do)


def ledger_after(
    line: Line, mirror: LakeTable, decided: Decided, unseen: DataFrame | None, before: LakeTable | None
) -> Ledger:
    """The ledger as a batch will leave it.

    Args:
        line: the table's way.
        mirror: the mirror as the batch was planned on it, in the columns that it needs.
        decided: the batch.
        unseen: the keys of rows that a snapshot did not show; None where it sweeps nothing.
        before: the mirror as it was before the batch; None where there was none. Where its columns have got other names
            just now nobody knows, because hashes are of values with their names; `marker_at` says of other parts.
    """
    known = marker_of(mirror).ledger
    is_renamed = before is not None and (before.pending or marker_of(before).ledger is None)
    if not line.table.ledger or (not mirror.is_empty and (known is None or is_renamed)):
        return Ledger()
    wipes = decided.truncates if not mirror.keeps_deleted else ()
    if decided.published == 0 and not wipes and unseen is None:
        return Ledger(known or Digest().to_text())
    target, soft, routed = decided.decoders.plan.target, mirror.keeps_deleted, mirror.routed
    added = rows.final_rows(decided.states, target, soft=soft, routed=routed)
    removed = None if mirror.is_empty else _removed(line, mirror, decided, unseen)
    more, less = turned_over(added, removed, target)
    return Ledger((Digest.from_text(known) if known else Digest()).plus(more).less(less).to_text(), more)


def _removed(line: Line, mirror: LakeTable, decided: Decided, unseen: DataFrame | None) -> DataFrame:
    """The rows that a batch deletes, or deletes to write them anew; marks of deletes change no value."""
    target, soft = decided.decoders.plan.target, mirror.keeps_deleted
    keys = rows.published_keys(decided.states, target, soft=soft)
    keys = keys if unseen is None or soft else keys.unionByName(unseen.select(*map(m.column, keys.columns))).distinct()
    found = line.lake.rows(mirror)
    if soft or not decided.truncates:
        gone = found.join(keys, list(target.key), "left_semi")
        return gone.select(*life.in_columns(gone, target))
    origin = Origin(marker_of(mirror).source_table) if mirror.routed else None
    is_gone = F.col(_TOUCHED).isNotNull()
    for truncate in decided.truncates:
        is_gone = is_gone | is_ended(truncate, origin)
    gone = found.alias("t").join(keys.withColumn(_TOUCHED, F.lit(True)), list(target.key), "left").where(is_gone)
    return gone.select(*life.in_columns(found, target))


def of_rows(found: DataFrame, target: TableSchema) -> str:
    """The ledger of a table that has these rows."""
    return turned_over(found.select(*life.in_columns(found, target)), None, target)[0].to_text()


def compare(line: Line, mirror: LakeTable) -> TableVerify:
    """Hold a mirror against its ledger: one scan, whatever raw has.

    Raises:
        UsageError: it keeps none.
    """
    kept = marker_of(mirror).ledger
    if kept is None:
        what = f"{line.mirror} keeps no ledger."
        do = f"Set `ledger: true` for it; a mirror that has rows gets one by `cdcm verify --repair -t {line.mirror}`."
        raise UsageError(what, do)
    known = Digest.from_text(kept)
    # Under the names that columns have, where others are asked for and no batch has given them those yet.
    back = [(new, old) for old, new in mirror.pending]
    there = line.lake.rows(mirror).withColumnsRenamed(dict(back))
    found = Digest.from_text(of_rows(there, renamed(mirror.schema, back)))
    buckets = known.differing(found)
    return TableVerify(
        table=str(line.mirror),
        topic=line.table.topic,
        method="ledger",
        equal=not buckets,
        expected=known.rows,
        found=found.rows,
        buckets=len(buckets),
        mirror_snapshot=mirror.head,
    )
