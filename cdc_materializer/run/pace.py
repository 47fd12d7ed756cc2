"""How many messages a table's next batch reads: as many as fit into `batch_duration`, and into memory.

The process alone knows: a new one begins with `records_max`, and finds out anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc_materializer.session.few import ROWS_MAX
from cdc_materializer.session.watch import collecting_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.batch.steps import Batch
    from cdc_materializer.clocks import Clock
    from cdc_materializer.line.line import Line

#: A batch of fewer takes nearly as long as one of so many: what costs is to plan it.
OFFSETS_MIN = ROWS_MAX
#: Of a batch's seconds, the share in which Java may do nothing but collect garbage. Two batches of 500,000 orders in
#: Avro spent 4 and 7 % so with `spark.driver.memory: 4g`, 6 and 11 % with 1g, 12 and 22 % with 700m.
COLLECTING_MAX = 0.5


@dataclass
class Pace:
    """The batches of one table.

    Attributes:
        most: how many offsets they may cover (`records_max`).
        seconds: how long one is to take (`batch_duration`).
        limit: how many the next one covers.
    """

    most: int
    seconds: float
    limit: int
    _last: tuple[int, float] | None = field(default=None, init=False)
    _other: tuple[int, float] | None = field(default=None, init=False)
    _paced: tuple[Line, Line] | None = field(default=None, init=False)

    @classmethod
    def of(cls, line: Line) -> Pace:
        """The pace with which a table begins."""
        return cls(line.table.records_max, line.table.batch_duration.total_seconds(), line.table.records_max)

    def note(self, covered: int, seconds: float, collecting: float, limit: int = 0) -> None:
        """Learn from a batch.

        Args:
            covered: how many offsets it has covered. From one that could have covered twice as many nothing is learnt:
                there was no more, and what it costs is what each batch does.
            seconds: how long it took, landing included.
            collecting: for how many of them Java did nothing but collect garbage.
            limit: how many offsets it could have covered, where that was less than this pace's limit: messages are
                large, or a mirror had to be made.
        """
        if 2 * covered < (min(limit, self.limit) or self.limit):
            return
        if collecting > COLLECTING_MAX * seconds:
            self._last, self._other, wanted = None, None, covered / 2
        else:
            wanted = self._fitting(covered, seconds)
        self.limit = min(self.most, max(OFFSETS_MIN, min(int(wanted), 2 * self.limit)))

    def _fitting(self, covered: int, seconds: float) -> float:
        """How many offsets are covered in time, by this batch and the last one that was of another size.

        A part of what a batch takes is the same for any: the smaller ones are, the more of all work is that part. So it
        is at most half of each, whatever they take then.
        """
        if self._last is not None and self._last[0] != covered:
            self._other = self._last
        self._last = (covered, seconds)
        before, took = self._other or (covered, seconds)
        each = (seconds - took) / (covered - before) if before != covered else 0.0
        if each <= 0 or seconds == 0:
            # Not to be told from these two. The least is no place to stay where nobody knows what more would take.
            is_least = covered <= OFFSETS_MIN and self._other is None
            return 2 * covered if is_least or seconds == 0 else covered * max(self.seconds / seconds, 0.5)
        fixed = seconds - each * covered
        if fixed < 0:
            each, fixed = seconds / covered, 0.0
        return max(self.seconds - fixed, fixed) / each

    def advance(
        self, line: Line, advance: Callable[[Line], Batch | None], clock: Clock, spark: SparkSession
    ) -> Batch | None:
        """Bring a table forward by a batch of at most `limit` offsets, in its own pool of Spark, and learn from it."""
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", str(line.mirror))
        began, collecting = clock.monotonic(), collecting_seconds(spark)
        done = advance(self._at_pace(line))
        if done is not None:
            self.note(done.covered, clock.monotonic() - began, collecting_seconds(spark) - collecting, done.limit)
        return done

    def _at_pace(self, line: Line) -> Line:
        """The line with that limit, and with all that the batch before has found out of it."""
        known, paced = self._paced or (line, line)
        if known is not line:
            paced = line
        if paced.table.records_max != self.limit:
            paced = replace(line, table=line.table.model_copy(update={"records_max": self.limit}))
        self._paced = (line, paced)
        return paced
