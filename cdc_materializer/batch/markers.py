"""What a marker says of how far the source has got: what a batch tells never takes any of it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from cdc_materializer.batch.facts import Facts, highest_of
from cdc_materializer.changes.positions import file_name
from cdc_materializer.changes.shards import server_of
from cdc_materializer.errors import BatchBlocked
from cdc_materializer.marker.gtids import GtidSets
from cdc_materializer.marker.marker import Marker
from cdc_materializer.order.epochs import EPOCHS_MAX
from cdc_materializer.order.truncates import Truncate

#: So many logs are kept in a marker. A database has one for each server that ever wrote to it, and a mirror of many
#: servers those of each.
LOGS_MAX = 5000


def reached(
    marker: Marker | None, facts: Facts, applied: Sequence[Truncate], ends: Mapping[int, int], truncate: str
) -> dict[str, Any]:
    """What a marker says of how far the source has got, by its attributes.

    Args:
        marker: the one before the batch; None where there is none.
        facts: the batch's.
        applied: its truncates that wipe rows.
        ends: where it ends in each partition.
        truncate: the table's setting.
    """
    alone = marker.alone if marker is not None else 0
    highest = ("positions", "times", "stamps", "readings", "deleted_at")
    known = {name: getattr(marker, name) if marker is not None else {} for name in highest}
    return {
        **{name: highest_of(chain(known[name].items(), getattr(facts, name).items())) for name in highest},
        "truncated": _last_truncates(marker, applied),
        "truncates": _count_truncates(marker, applied),
        "passing": marker.passing_under(truncate) if marker is not None else (),
        "unpaired": facts.unpaired,
        "epochs": _epochs_after(facts),
        "source_table": facts.table,
        "home": facts.home,
        "logs": _logs_after(marker, facts),
        "gtids": _gtids_after(marker, facts),
        "alone": max(alone, ends.get(0, 0)) if len(ends) == 1 else alone,
    }


def _epochs_after(facts: Facts) -> tuple[Mapping[int, int], ...]:
    """The epochs up to the end of a batch, no more of them than sort."""
    if len(facts.epochs) > EPOCHS_MAX:
        raise BatchBlocked(
            f"The source has gone back more than {EPOCHS_MAX:,} times, as far as its transactions' ids (`source.gtid`)"
            " tell. Nothing of the batch was published.",
            "The topic's messages are from several servers at a time, most likely: send those of each to a topic of"
            " its own, and say `shard`.",
        )
    return facts.epochs


def _gtids_after(marker: Marker | None, facts: Facts) -> GtidSets:
    """The numbered transactions that were read before the batch or in it.

    One that had been read when it came is not the last of its partition: what goes on with it was sent before, too.
    """
    known, before = (marker.gtids, marker.positions) if marker is not None else (GtidSets(), {})
    last = dict(known.last)
    for partition, position in facts.positions.items():
        earlier = before.get(partition, "")
        if position <= earlier:
            continue
        was, found = last.pop(partition, None), facts.gtids.last.get(partition)
        goes_on = found == was and file_name(position) == file_name(earlier)
        if found is not None and (goes_on or not known.may_have(*found, partition)):
            last[partition] = found
    return known.with_read(facts.gtids, last)


def _logs_after(marker: Marker | None, facts: Facts) -> dict[str, int]:
    """The logs that were read, each with the highest number before the batch or in it."""
    before = marker.logs if marker is not None else {}
    after = {log: max(before.get(log, 0), facts.logs.get(log, 0)) for log in {**before, **facts.logs}}
    if len(after) > max(LOGS_MAX, len(before)):
        raise BatchBlocked(
            f"The topic's messages are from more than {LOGS_MAX:,} logs (`source.gtid`, `source.file`), which no"
            " database has; the mirror would keep each of them. Nothing of the batch was published.",
            "Look for what else writes to the topic; once it has the database's own messages alone, run "
            "`cdcm replay TABLE --publish`.",
        )
    return after


def _count_truncates(marker: Marker | None, applied: Sequence[Truncate]) -> int | None:
    """How many were applied up to the end of a batch; None where an earlier marker does not say it."""
    return None if marker is None or marker.truncates is None else marker.truncates + len(applied)


def _last_truncates(marker: Marker | None, applied: Sequence[Truncate]) -> tuple[str, ...]:
    """The highest position of a truncate that was applied, before the batch or in it, of each server."""
    known = [*(marker.truncated if marker is not None else ()), *(truncate.position for truncate in applied)]
    return tuple({server_of(position): position for position in sorted(filter(None, known))}.values())
