"""What time it is: read by what runs things, and handed to it, so that a test can say what time it is.

Correctness never rests on a clock (`lake.commit.check_clock`): pauses, leases and what people are told do.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A clock; `testing.clock.FixedClock` is another one."""

    def monotonic(self) -> float:
        """Seconds from anywhere, which never go back."""
        ...

    def now(self) -> datetime:
        """The date and time, with a zone."""
        ...


class SystemClock:
    """This machine's."""

    def monotonic(self) -> float:
        """Seconds since the machine began, or so; nobody sets them."""
        return time.monotonic()

    def now(self) -> datetime:
        """The date and time, in UTC."""
        return datetime.now(UTC)
