"""How long a run that goes on and on leaves alone what came to nothing: longer each time in a row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.retry import FOLLOW

if TYPE_CHECKING:
    from cdc_materializer.clocks import Clock
    from cdc_materializer.progress import Backlog
    from cdc_materializer.report.models import RunReport


class Pauses:
    """Until when a table is not worked on, where it failed, and until when only for news, where a schema is missing."""

    def __init__(self, poll: float, clock: Clock) -> None:
        """Begin with none; the first is `poll` seconds long."""
        self._way, self._clock = replace(FOLLOW, base_seconds=poll), clock
        self._failed: dict[str, tuple[float, int]] = {}
        self._retried: dict[str, tuple[float, int]] = {}

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
            self._count(self._failed, run.table, again=run.error is not None)
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
