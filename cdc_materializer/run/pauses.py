"""How long a run that goes on and on works on a table at a time, and leaves alone what came to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc_materializer.retry import FOLLOW, NEVER, Deadline

if TYPE_CHECKING:
    from cdc_materializer.clocks import Clock
    from cdc_materializer.progress import Backlog
    from cdc_materializer.report.models import RunReport


#: Seconds after which a table that is catching up under `--follow` ends its turn with its batch: all wait for the
#: longest turn of a round, and so does what has come to the tables that are done.
TURN_SECONDS = 30.0


@dataclass
class Turn:
    """How long a table is worked on before the others have to wait for it.

    Attributes:
        end: after it no further batch is begun.
        is_cut: whether it has come while a table that stopped had messages to land.
    """

    end: Deadline = NEVER
    is_cut: bool = False

    def lands_no_more(self) -> bool:
        """Whether a table that stopped leaves the rest of its topic to its next turn."""
        self.is_cut = self.end.is_over
        return self.is_cut


TurnOf = Callable[[str], Turn]


def endless(_: str) -> Turn:
    """The turn of a table for which no other waits."""
    return Turn()


class Pauses:
    """Until when a table is not worked on, where it failed, and until when only for news, where a schema is missing.

    A table that stopped and has messages to land has its next turn at once: the topic may lose them one day.
    """

    def __init__(self, poll: float, clock: Clock) -> None:
        """Begin with none; the first is `poll` seconds long."""
        self._turns: dict[str, Turn] = {}
        self._way, self._clock = replace(FOLLOW, base_seconds=poll), clock
        self._failed: dict[str, tuple[float, int]] = {}
        self._retried: dict[str, tuple[float, int]] = {}

    def turn(self, mirror: str) -> Turn:
        """Begin a table's turn."""
        turn = self._turns[mirror] = Turn(Deadline.after(TURN_SECONDS, self._clock.monotonic))
        return turn

    def end(self, mirror: str) -> None:
        """Work on a table again, as what it failed for was changed."""
        self._failed.pop(mirror, None)

    def is_over(self, mirror: str) -> bool:
        """Whether a table may be looked at: it has not failed, or long enough ago."""
        return self._is_over(self._failed, mirror)

    def is_to_do(self, backlog: Backlog) -> bool:
        """Whether there is something to do; what waits for a schema alone is tried less and less often."""
        return not backlog.is_done and (
            not backlog.only_retries or self._is_over(self._retried, str(backlog.table.mirror))
        )

    def note(self, waiting: Iterable[Backlog], report: RunReport) -> None:
        """Note which tables failed, and which tried in vain to read what waits for a schema."""
        retries = {str(one.table.mirror) for one in waiting if one.only_retries}
        for run in report.tables:
            is_cut = self._turns.pop(run.table, Turn()).is_cut
            self._count(self._failed, run.table, again=run.error is not None and not is_cut)
            if run.error is None:
                self._count(self._retried, run.table, again=run.table in retries and not run.batches)

    def _is_over(self, pauses: dict[str, tuple[float, int]], mirror: str) -> bool:
        return pauses.get(mirror, (0.0, 0))[0] <= self._clock.monotonic()

    def _count(self, pauses: dict[str, tuple[float, int]], mirror: str, *, again: bool) -> None:
        if not again:
            pauses.pop(mirror, None)
            return
        times = pauses.get(mirror, (0.0, 0))[1] + 1
        pauses[mirror] = (self._clock.monotonic() + self._way.pause(times), times)
