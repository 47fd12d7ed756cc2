"""How often, and after what pauses, something is tried again: a policy is a value, and there are two.

Only what is the same when it is done twice may be tried again. A batch is: it is planned anew from the tables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cdc_materializer.errors import CdcError

Result = TypeVar("Result")


@dataclass(frozen=True)
class RetryPolicy:
    """A bounded number of attempts with growing pauses.

    Attributes:
        attempts: how often in all; None for as often as it takes.
        base_seconds: the first pause.
        cap_seconds: the longest one.
    """

    attempts: int | None
    base_seconds: float
    cap_seconds: float

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row (from 1): the base, doubled each time, up to the cap."""
        # Beyond 2 ** 30 any base is over its cap; without the bound a week of failures would overflow.
        return min(self.base_seconds * 2.0 ** min(failures - 1, 30), self.cap_seconds)

    def call(self, step: Callable[[], Result], stop: threading.Event) -> Result:
        """Do a step, and again where it fails with an error that is `retryable`.

        Args:
            step: safe to call again after any failure.
            stop: set it, and there is no further attempt.

        Raises:
            CdcError: the last attempt's, or one that is not to be tried again.
        """
        failures = 0
        while True:
            try:
                return step()
            except CdcError as error:
                failures += 1
                is_last = self.attempts is not None and failures >= self.attempts
                if not error.retryable or is_last or stop.wait(self.pause(failures)):
                    raise


#: A batch that lost a race is planned anew on the new head. Against maintenance or a replay it wins then; a second
#: pipeline on the same table goes on and on, and is told of with exit code 4.
REPLAN = RetryPolicy(attempts=3, base_seconds=0.2, cap_seconds=2.0)
#: A table that fails under `run --follow` is left alone for longer and longer.
FOLLOW = RetryPolicy(attempts=None, base_seconds=5.0, cap_seconds=300.0)
