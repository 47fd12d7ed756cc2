"""Who is at work on a table, told by its newest commit: a follower leaves a table to another that has just written it.

This only avoids work that would be lost. Correctness never rests on it: of two that work on a table all the same, one
loses the race for the commit (`lake.commit`). Nothing is written for it, so there is nothing to renew, and nothing is
left over from a process that was killed: after a few seconds without a commit a table is anybody's.
"""

from datetime import datetime

from cdc_materializer.catalog.catalog import Tables
from cdc_materializer.names import TableName

#: For so many seconds a commit keeps other followers away. A batch of a follower that keeps up takes less, and its
#: first commit, to raw, stands at its beginning; a longer one is raced for, once.
LEASE_SECONDS = 20.0


def worked_on_by(lake: Tables, mirror: TableName, own: str, now: datetime) -> str | None:
    """The Spark application that is at work on a mirror; None where nobody else is, as far as its commits tell.

    Args:
        lake: the catalog.
        mirror: the mirror.
        own: the id of our own application.
        now: the time, with a zone. A commit that is dated after it counts by how far it is from it.

    Raises:
        LakeUnavailable: a table cannot be read.
    """
    newest = [line for name in (mirror.raw, mirror) for line in lake.lines_of(name)[:1]]
    for line in sorted(newest, key=lambda line: line.timestamp_ms, reverse=True)[:1]:
        other = line.summary.get("app-id")
        if other not in (None, own) and abs((now - line.at).total_seconds()) < LEASE_SECONDS:
            return other
    return None
