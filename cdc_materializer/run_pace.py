"""How many messages a table's next batch reads: as many as fit into `batch_duration`, and into memory.

The process alone knows: a new one begins with `records_max`, and finds out anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc_materializer.few import ROWS_MAX
from cdc_materializer.session_watch import collecting_seconds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.batch_steps import Batch
    from cdc_materializer.clocks import Clock
    from cdc_materializer.line import Line

#: A batch of fewer takes nearly as long as one of so many: what costs is to plan it.
MESSAGES_MIN = ROWS_MAX
#: Of a batch's seconds, the share in which Java may do nothing but collect garbage. Two batches of 500,000 orders in
#: Avro spent 4 and 7 % so with `spark.driver.memory: 4g`, 6 and 11 % with 1g, 12 and 22 % with 700m.
COLLECTING_MAX = 0.5


@dataclass
class Pace:
    """The batches of one table.

    Attributes:
        most: how many messages they may read (`records_max`).
        seconds: how long one is to take (`batch_duration`).
        limit: how many the next one reads.
    """

    most: int
    seconds: float
    limit: int

    @classmethod
    def of(cls, line: Line) -> Pace:
        """The pace with which a table begins."""
        return cls(line.table.records_max, line.table.batch_duration.total_seconds(), line.table.records_max)

    def note(self, read: int, seconds: float, collecting: float) -> None:
        """Learn from a batch.

        Args:
            read: how many messages it has read; of one that read none nothing is learnt.
            seconds: how long it took, landing included.
            collecting: for how many of them Java did nothing but collect garbage.
        """
        if read == 0:
            return
        fitting = read * self.seconds / seconds if seconds > self.seconds else None
        if collecting > COLLECTING_MAX * seconds:
            fitting = min(read / 2, fitting or read)
        if fitting is not None:
            # No more than it was: a batch can be small because there is no more to read.
            self.limit = min(self.limit, max(int(fitting), MESSAGES_MIN))
        elif seconds < self.seconds / 2 and self.limit <= read:
            self.limit = min(self.most, 2 * self.limit)

    def advance(
        self, line: Line, advance: Callable[[Line], Batch | None], clock: Clock, spark: SparkSession
    ) -> Batch | None:
        """Bring a table forward by a batch of at most `limit` messages, in its own pool of Spark, and learn from it."""
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", str(line.mirror))
        began, collecting = clock.monotonic(), collecting_seconds(spark)
        done = advance(self._paced(line))
        if done is not None:
            read = sum(done.counts.values())
            self.note(read, clock.monotonic() - began, collecting_seconds(spark) - collecting)
        return done

    def _paced(self, line: Line) -> Line:
        if line.table.records_max == self.limit:
            return line
        return replace(line, table=line.table.model_copy(update={"records_max": self.limit}))
