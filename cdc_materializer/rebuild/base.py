"""What a replay that does not begin at raw's first message goes on from: the mirror and its quarantine as they were.

The base is the newest state of the mirror that has none of the messages which are read again. What was wrong in it
stays wrong: only a replay from the earliest message takes nothing over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from cdc_materializer.batch import batch, life
from cdc_materializer.batch.verdict import RELEASED
from cdc_materializer.decode.fit import conformed, ddl_of
from cdc_materializer.errors import UsageError
from cdc_materializer.lake.columns import is_of_other_columns
from cdc_materializer.lake.lake import LakeTable
from cdc_materializer.lake.line import heads, snapshot_line, summaries
from cdc_materializer.line.checks import masked_otherwise
from cdc_materializer.line.line import Line, Tables, marker_of
from cdc_materializer.line.then import at_snapshot
from cdc_materializer.marker.marker import GENESIS_TAG, Marker
from cdc_materializer.merge import CDC, cdc_struct
from cdc_materializer.offsets import Offsets, Span
from cdc_materializer.rebuild.start import Start, is_before, wanted_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

_EARLIEST = "`--from earliest` rebuilds all of it."


@dataclass(frozen=True)
class Base:
    """A state of a mirror and of its quarantine that a replay goes on from.

    Attributes:
        mirror: the mirror as it was.
        quarantine: its quarantine as it was then; None where there was none.
    """

    mirror: LakeTable
    quarantine: LakeTable | None

    def rows(self, line: Line, now: LakeTable) -> DataFrame:
        """The mirror's rows then, in the columns that it has now."""
        found = line.lake.rows(self.mirror)
        ours = cdc_struct(soft=now.keeps_deleted, routed=now.routed)
        cdc = conformed(F.col(CDC), ddl_of(found.schema[CDC].dataType), ours).alias(CDC)
        return found.select(*life.in_columns(found, now.schema), cdc)

    def held(self, line: Line) -> DataFrame | None:
        """What was in quarantine then; of later messages a batch, or the attempt at one, may have held some already."""
        if self.quarantine is None:
            return None
        read = batch.whole(Offsets(), marker_of(self.mirror).offsets, line.table.topic)
        # What the table as a whole broke is no message's, and lies where its batch has ended. Remarks of a batch that
        # was not published then are told anew; stops stay until somebody ends them.
        ended = Span(read.topic, read.start, Offsets({number: end + 1 for number, end in read.end.items()}))
        is_told = (F.col("status") != RELEASED) | batch.within(ended, "partition", "offset")
        is_then = batch.within(read, "partition", "offset") | ((F.col("batch_id") == "") & is_told)
        return line.lake.rows(self.quarantine).where(is_then)


def find_base(line: Line, live: Tables, start: Start, retypes: Mapping[str, str]) -> Base | None:
    """What a replay goes on from; None where it begins with nothing.

    Raises:
        UsageError: no such state is left, or it cannot be gone on with; says why.
    """
    if live.raw is None or live.mirror is None or start.kind in ("earliest", "kafka"):
        return None
    if retypes:
        what = f"Columns of {line.mirror} would get other types: {', '.join(sorted(retypes))}."
        raise UsageError(what, f"Rows from before have the old ones; {_EARLIEST}")
    if live.mirror.dropped:
        # Begun anew they would be NULL in all rows that are not read again.
        what = f"Columns of {line.mirror} were dropped or renamed: {', '.join(live.mirror.dropped)}."
        raise UsageError(what, f"Its rows of then do not have them; {_EARLIEST}")
    wanted = wanted_offsets(start, marker_of(live.mirror).offsets, _first_since(line, live.raw, start))
    mirror, until = _newest_before(line, live.mirror, wanted)
    reached = marker_of(mirror).offsets
    if not reached:
        return None
    if is_of_other_columns(line.lake.iceberg(mirror.name), mirror.head):
        what = f"Columns of {line.mirror} were rebuilt with other types since then."
        raise UsageError(what, f"Its rows of then do not have them; {_EARLIEST}")
    changed = masked_otherwise(line, mirror)
    if changed:
        what = f"The rows of {line.mirror} were masked otherwise then: {', '.join(changed)}."
        raise UsageError(what, _EARLIEST)
    return Base(mirror, _held_then(line, live.quarantine, until) if live.quarantine is not None else None)


def _newest_before(line: Line, mirror: LakeTable, wanted: Mapping[int, int]) -> tuple[LakeTable, int | None]:
    """The mirror as readers last saw it without anything from the wanted offsets on, and until when they did.

    Raises:
        UsageError: no such state is left, or it is from before what a replay has put in the place of all.
    """
    table, until = line.lake.iceberg(mirror.name), None
    # A replay's batches are among the ancestors of what it has published, and nobody has seen them.
    seen = heads(table)
    for number, made_at, _, summary in summaries(table, mirror.head):
        marker = Marker.from_summary(summary)
        if marker is None or number not in seen:
            continue
        if is_before(marker.offsets, wanted):
            return at_snapshot(line, mirror, number), until
        if marker.swapped is not None:
            what = f"{line.mirror} was swapped in by a replay, or taken back, since it had none of these messages."
            raise UsageError(what, f"Going on from before that would undo it; {_EARLIEST}")
        until = made_at
    what = f"No snapshot of {line.mirror} is left from before these messages: expiry has removed them."
    raise UsageError(what, _EARLIEST)


def _held_then(line: Line, held: LakeTable, until: int | None) -> LakeTable | None:
    """Quarantine as it was when readers saw a state of the mirror: told of what ended with it, and of nothing later.

    By time, because its offsets tell of what was only tried as well.

    Args:
        line: the table's way.
        held: quarantine as it is.
        until: when the next state of the mirror was published, in milliseconds since 1970; None where there is none.

    Raises:
        UsageError: that snapshot is gone.
    """
    table = line.lake.iceberg(held.name)
    found = summaries(table, held.head)
    for number, made_at, _, summary in found:
        if Marker.from_summary(summary) is not None and (until is None or made_at < until):
            return at_snapshot(line, held, number)
    if found and _is_whole(table, found):
        return None
    what = f"No snapshot of {held.name} is left from then, so nothing tells what was held."
    raise UsageError(what, _EARLIEST)


def _is_whole(table: Any, line: Sequence[tuple[int, int, bool, Mapping[str, str]]]) -> bool:  # noqa: ANN401 - Java's
    """Whether a line of snapshots (`summaries`) goes back to when the table was made."""
    number, _, is_first, summary = line[-1]
    genesis = table.snapshot(GENESIS_TAG)
    if genesis is not None:
        return int(genesis.snapshotId()) == number
    # A table of an earlier version has no such tag. PyIceberg's expiry makes a first one of any, but for its rows.
    return is_first and Marker.from_summary(summary) is not None and summary.get("total-records", "0") == "0"


def _first_since(line: Line, raw: LakeTable, start: Start) -> dict[int, int]:
    """The first message of each partition that was written at a time or later."""
    if start.at is None:
        return {}
    since = line.lake.rows(raw).where(F.col("timestamp") >= F.lit(start.at))
    found = since.groupBy("partition").agg(F.min("offset").alias("offset")).collect()
    return {row["partition"]: row["offset"] for row in found}


def beginning(line: Line, mirror: LakeTable, base: Base | None) -> tuple[Marker, DataFrame | None]:
    """What a replay's branch of a mirror begins with: a marker of no batch, and rows; None for no row.

    Args:
        line: the table's way.
        mirror: the mirror as readers see it.
        base: what is gone on from; None for nothing.
    """
    now = marker_of(mirror)
    start = Marker.begin(now) if base is None else carried(marker_of(base.mirror), now)
    start = replace(start, batch="", counts={}, masks=line.masks.told(), settles=None, warned=(), swapped=None)
    start = replace(start, unkept=now.unkept, alone=now.alone)
    return start, base.rows(line, mirror) if base is not None else None


def is_of_other_raw(line: Line, begun: LakeTable) -> bool:
    """Whether a branch was folded from what raw is not any more: from another table, or from what was taken back since.

    At the same offsets other messages may have landed. A state of raw that has expired is taken for one of its past: a
    replay that takes longer than snapshots are kept would come to no end.
    """
    raw, marker = line.lake.iceberg(line.mirror.raw), marker_of(begun)
    if marker.raw_table not in (None, raw.uuid().toString()):
        return True
    then, now = marker.source_snapshot, raw.currentSnapshot()
    if then is None or now is None or raw.snapshot(then) is None:
        return False
    return then not in snapshot_line(raw, int(now.snapshotId()), then)


def carried(old: Marker, now: Marker) -> Marker:
    """The marker of an earlier state as it has to be now: what was accepted since stays accepted.

    How long the topic had one partition is of the topic, and not of a state.

    Logs from before that are not held against those from after it.
    """
    logs = old.logs if old.epochs == now.epochs else {}
    return replace(old, epochs=now.epochs, adopted=now.adopted, logs=logs, alone=max(old.alone, now.alone))
