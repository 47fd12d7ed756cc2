"""How often, after what pauses and until when something is tried: policies and deadlines are values.

Only what is the same when it is done twice may be tried again. A batch is: it is planned anew from the tables.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeVar

from cdc_materializer.errors import CdcError

Result = TypeVar("Result")


#: No time at all would mean for ever to many a client.
_SECONDS_MIN = 0.01


@dataclass(frozen=True)
class Deadline:
    """Until when something has to be done; handed down to whatever waits, which takes what is left of it.

    What is being written when it comes is ended: a deadline keeps work from being begun, and shortens waits.

    Attributes:
        at: the moment, in seconds of the clock; infinity for none.
        clock: what time it is, in seconds from anywhere.
    """

    at: float = math.inf
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, clock: Callable[[], float] = time.monotonic) -> Self:
        """The one that comes in so many seconds."""
        return cls(clock() + seconds, clock)

    @property
    def left(self) -> float:
        """Seconds until then, never below zero."""
        return max(self.at - self.clock(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether it has come."""
        return self.left == 0

    def within(self, seconds: float) -> float:
        """So many seconds, or what is left if that is less; never quite zero."""
        return max(min(seconds, self.left), _SECONDS_MIN)

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds, or until then if that is sooner."""
        time.sleep(self.within(seconds))


#: Takes as long as it takes.
NEVER = Deadline()


def is_retryable(error: Exception) -> bool:
    """Whether an error of ours says that the same step can succeed at once; errors of others say nothing."""
    return isinstance(error, CdcError) and error.retryable


@dataclass(frozen=True)
class RetryPolicy:
    """A bounded number of attempts with growing pauses.

    Attributes:
        attempts: how often in all; None for as often as it takes.
        base_seconds: the first pause; none for what was lost to a commit that takes some milliseconds.
        cap_seconds: the longest one.
        is_spread: whether a pause is of any length up to that, so that not all clients of a server come at once.
    """

    attempts: int | None
    base_seconds: float = 0.0
    cap_seconds: float = 0.0
    is_spread: bool = False

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row (from 1): the base, doubled each time, up to the cap."""
        # Beyond 2 ** 30 any base is over its cap; without the bound a week of failures would overflow.
        return min(self.base_seconds * 2.0 ** min(failures - 1, 30), self.cap_seconds)

    def call(
        self,
        step: Callable[[], Result],
        stop: threading.Event | None = None,
        deadline: Deadline = NEVER,
        may_pass: Callable[[Exception], bool] = is_retryable,
    ) -> Result:
        """Do a step, and again where it fails with an error that may be no more the next time.

        Args:
            step: safe to call again after such a failure.
            stop: set it, and there is no further attempt.
            deadline: nor is there one if its pause would end no sooner than this.
            may_pass: tells such errors from others; asked only while there are attempts left.

        Raises:
            Exception: the last attempt's, or one that is not to be tried again.
        """
        failures = 0
        while True:
            try:
                return step()
            except Exception as error:
                failures += 1
                is_last = self.attempts is not None and failures >= self.attempts
                if is_last or not may_pass(error) or not self._has_waited(failures, stop, deadline):
                    raise

    def _has_waited(self, failures: int, stop: threading.Event | None, deadline: Deadline) -> bool:
        """Wait for the next attempt; False where there is to be none."""
        pause = self.pause(failures)
        pause *= random.random() if self.is_spread else 1.0  # noqa: S311 - no secret
        if pause >= deadline.left:
            return False
        if stop is not None:
            return not stop.wait(pause)
        if pause:
            time.sleep(pause)
        return True


#: A batch that lost a race is planned anew on the new head. Against maintenance or a replay it wins then; a second
#: pipeline on the same table goes on and on, and is told of with exit code 4.
REPLAN = RetryPolicy(attempts=3, base_seconds=0.2, cap_seconds=2.0)
#: Other commits to a table, as to its other branches, are in the way of one for some milliseconds each.
COMMIT = RetryPolicy(attempts=4)
#: Raw is filled while runs land in it, and any of their commits may come between; to read it all again takes hours.
REFILL = RetryPolicy(attempts=10)
#: What a registry answers with 429 or 5xx, or a connection that breaks. Its clients all see that at the same moment.
REGISTRY = RetryPolicy(attempts=3, base_seconds=0.2, cap_seconds=1.0, is_spread=True)
#: A table that fails under `run --follow` is left alone for longer and longer.
FOLLOW = RetryPolicy(attempts=None, base_seconds=5.0, cap_seconds=300.0)
