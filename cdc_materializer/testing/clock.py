"""A clock that stands still until it is told to go on, for tests of what reads the time.

Public, as `testing`, which has it under its own name. It is what `RunOptions.clock` takes, `Deadline`
(`clock.monotonic`), `Line.now` (`clock.now`) and the catalog in memory.
"""

from datetime import UTC, datetime, timedelta

#: When a clock begins that was told nothing, and when the first message of a topic was written.
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class FixedClock:
    """A clock in a test's hand; see `cdc_materializer.clocks.Clock`.

    >>> clock = FixedClock()
    >>> clock.advance(90)
    >>> clock.monotonic(), clock.now().isoformat()
    (90.0, '2026-01-01T00:01:30+00:00')
    """

    def __init__(self, at: datetime = EPOCH) -> None:
        """Stand at a date and time, which has a zone."""
        self._now, self._passed = at.astimezone(UTC), 0.0

    def monotonic(self) -> float:
        """Seconds that have passed since it was made."""
        return self._passed

    def now(self) -> datetime:
        """The date and time, in UTC."""
        return self._now

    def ms(self) -> int:
        """The same in milliseconds since 1970, as Iceberg dates commits."""
        return (self._now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)

    def advance(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            ValueError: it would go back; see `put`.
        """
        if seconds < 0:
            message = f"Time cannot pass by {seconds} seconds."
            raise ValueError(message)
        self._passed += seconds
        self._now += timedelta(seconds=seconds)

    def put(self, seconds: float) -> None:
        """Put its hands forward, or back if negative: the date changes, and no time has passed."""
        self._now += timedelta(seconds=seconds)
