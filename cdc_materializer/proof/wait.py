"""When a mirror has all that its database had: what is known of how far a connector is (docs/adr/0027)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_materializer.dialects import Position
from cdc_materializer.errors import SourceBehind
from cdc_materializer.marker.marker import Marker
from cdc_materializer.offsets import Offsets
from cdc_materializer.order.epochs import within

if TYPE_CHECKING:
    from cdc_materializer.config import TableConfig
    from cdc_materializer.line.line import Line

#: How long what shows a position has to have shown it, where no slot says what Kafka has: a connector hands messages
#: over in the order of the log, and its producer sends them to each partition on its own.
SETTLE_SECONDS = 5.0


def siblings_of(table: TableConfig, tables: Sequence[TableConfig]) -> list[TableConfig]:
    """The tables whose topics the connector of a table writes too: those of the same prefix and database."""
    prefix = table.topic.rsplit(".", 2)[0]
    return [
        one
        for one in tables
        if not one.topics and one.source_database == table.source_database and one.topic.rsplit(".", 2)[0] == prefix
    ]


@dataclass
class Reached:
    """Whether a connector has sent everything up to a position, from what is known of what it sent.

    It reads transactions in the order of their commits. So what comes from behind the position says that all before it
    was read, and after a while that it was sent. The last transaction says so only once nothing of it can be missing.

    Attributes:
        at: the position.
    """

    at: Position
    _later_since: float | None = None
    _equal_since: float | None = None
    _seen: tuple[Mapping[int, int], ...] = ()

    def by(self, markers: Iterable[Marker], ends: Offsets, now: float) -> bool:
        """Whether mirrors that the connector feeds have had something from behind it for long enough.

        Args:
            markers: theirs; no more are taken than are needed.
            ends: of the topic that is waited for.
            now: seconds of any clock.
        """
        if self._later_since is None:
            met = []
            for marker in markers:
                if self._is_later(marker):
                    self._later_since = now
                    break
                met.append(marker)
            else:
                return self._is_still(met, ends, now)
        return now - self._later_since >= SETTLE_SECONDS

    def short(self, confirmed: Mapping[str, int]) -> list[str]:
        """The slots that have not confirmed PostgreSQL's log up to it, which they do when Kafka has the messages."""
        return sorted(name for name, at in confirmed.items() if at < self.at.number)

    def _is_later(self, marker: Marker) -> bool:
        if self.at.log is not None:
            return marker.logs.get(self.at.log, -1) > self.at.number
        # Positions from before a restore say nothing of the log as it is now.
        told = [within(position, len(marker.epochs)) for position in marker.positions.values()]
        return any(_lsn(position) >= self.at.number for position in told if position is not None)

    def _is_still(self, markers: Sequence[Marker], ends: Offsets, now: float) -> bool:
        """Whether the last transaction is the position's own, and nothing has come since for a while.

        A transaction of many rows has one number as long as they come.
        """
        if self.at.log is None:
            return False
        last = max((marker.logs.get(self.at.log, -1) for marker in markers), default=-1)
        seen = (ends, *[marker.offsets for marker in markers])
        if last < self.at.number:
            self._equal_since = None
        elif self._equal_since is None or seen != self._seen:
            self._equal_since = now
        self._seen = seen
        return self._equal_since is not None and now - self._equal_since >= SETTLE_SECONDS


def _lsn(position: str) -> int:
    """The higher of both places of a change in PostgreSQL's log: of the commit before it, and its own."""
    parts = [part for part in position.split("/") if part.isdigit()]
    return max(map(int, parts), default=-1)


def behind(line: Line, database: str, seconds: float, *, delivered: bool, slots: Sequence[str]) -> SourceBehind:
    """The error of a mirror that did not come up in time.

    Args:
        line: the table's way.
        database: its name in pipeline.yaml.
        seconds: how long was waited.
        delivered: whether the topic has all, and only the mirror is behind.
        slots: those that have not confirmed what the database had.
    """
    waited = f"{seconds:.0f} seconds (`wait` of `databases: {database}`)"
    if delivered:
        what = f"{line.mirror} has not got in {waited} what its topic has."
        return SourceBehind(what, "Let `cdcm run --follow` run beside it, or `cdcm run` first; nothing was compared.")
    what = f"Nothing came in {waited} that shows that {line.mirror} has all that the database had."
    do = "See that `cdcm run --follow` and the connector work; a quiet database needs its heartbeat queries."
    if slots:
        what = f"{what} These replication slots have not confirmed it: {', '.join(slots)}."
        do = f"{do} Where other connectors have slots too, name this one's with `slot`."
    return SourceBehind(what, do)
