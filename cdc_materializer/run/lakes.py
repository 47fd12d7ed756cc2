"""What the tables of a run have each for themselves, for as long as its process goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config
    from cdc_materializer.lake.lake import Lake
    from cdc_materializer.line.line import Line
    from cdc_materializer.run.pace import Pace


class Lakes:
    """The lake of each table, opened at its first batch and kept: each has a Spark session and a catalog of its own.

    So is the pace of each.
    """

    def __init__(self, spark: SparkSession, config: Config) -> None:
        """Open none yet."""
        self.spark, self._config = spark, config
        self._opened: dict[str, Lake] = {}
        self._paces: dict[str, Pace] = {}

    def pace(self, line: Line) -> Pace:
        """The pace of a table."""
        from cdc_materializer.run.pace import Pace

        return self._paces.setdefault(str(line.mirror), Pace.of(line))

    def of(self, name: str) -> Lake:
        """The lake of a table."""
        from cdc_materializer.lake.lake import Lake
        from cdc_materializer.session.session import beside

        if name not in self._opened:
            self._opened[name] = Lake(beside(self.spark, self._config), self._config.catalog.name)
        return self._opened[name]
