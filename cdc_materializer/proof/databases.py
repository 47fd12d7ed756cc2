"""A source database as Spark's JDBC reads it: small questions, and the rows of a table over several connections.

Nothing is written there. What a driver says when it fails is never passed on: it may quote values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from cdc_materializer.causes import java_causes, java_classes
from cdc_materializer.config import DatabaseConfig, reveal
from cdc_materializer.dialects import (
    DIALECTS,
    RANGE,
    SERVER,
    Dialect,
    MariaDB,
    Position,
    PostgreSQL,
    Wanted,
    position_of,
)
from cdc_materializer.errors import ConfigError, DatabaseUnavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows that a connection fetches at one time; without a number PostgreSQL's driver reads a whole table into memory.
_FETCH_ROWS = 10_000
#: How long a small question may take, and how long nothing may come of a table's rows. Without numbers both drivers
#: wait for ever for a server that has gone away.
_ASK_SECONDS, _SILENT_SECONDS = 60, 900
_WHOLE = re.compile(r"-?\d+")


@dataclass(frozen=True)
class Database:
    """A database of pipeline.yaml.

    Attributes:
        name: what it is called there.
        config: where it is.
        spark: the session that reads it.
    """

    name: str
    config: DatabaseConfig
    spark: SparkSession

    @property
    def dialect(self) -> Dialect:
        """Its SQL."""
        return DIALECTS[self.config.kind]

    @cached_property
    def _server(self) -> Dialect:
        """The SQL of the server that answers: MariaDB's and MySQL's logs are asked for in different words."""
        if isinstance(self.dialect, PostgreSQL):
            return self.dialect
        return MariaDB() if "mariadb" in (self.ask(SERVER)[0]["at"] or "").lower() else self.dialect

    def ask(self, query: str, seconds: int = _ASK_SECONDS) -> list[dict[str, str | None]]:
        """The rows of a query that has few of them, each value as text; an error after so many seconds.

        Raises:
            DatabaseUnavailable: it does not answer, or refuses.
        """
        with self.told():
            return [row.asDict() for row in self._frame(query, seconds=seconds).collect()]

    def position(self) -> Position:
        """How far its log has got by now.

        Raises:
            ConfigError: it keeps no log that says so.
            DatabaseUnavailable: it does not answer, or refuses.
        """
        found = position_of(self.ask(self._server.position())[0]["at"] or "")
        if found is None:
            what = f"The database `{self.name}` has no GTIDs of its own, so nothing says how far its log has got."
            raise ConfigError(what, "`verify --source` needs a primary with GTIDs (MySQL: gtid_mode=ON).")
        return found

    def slots(self) -> dict[str, int]:
        """Up to where each replication slot has confirmed PostgreSQL's log, -1 for nothing yet; none elsewhere.

        Raises:
            ConfigError: there is no slot of the name that is configured.
            DatabaseUnavailable: it does not answer, or refuses.
        """
        if not isinstance(self.dialect, PostgreSQL):
            return {}
        found = self.ask(self.dialect.slots(self.config.slot))
        if self.config.slot is not None and not found:
            what = f"The database `{self.name}` has no logical replication slot `{self.config.slot}`."
            raise ConfigError(what, "Set `slot` to the connector's `slot.name`, or leave it out: then all slots count.")
        return {row["name"] or "": int(row["at"]) if row["at"] is not None else -1 for row in found}

    def rows(self, wanted: Wanted, buckets: Sequence[int] | None = None) -> DataFrame:
        """The rows of a table, every value as text; read when the DataFrame is used, under `told`."""
        conditions = ["1 = 1"]
        if wanted.range is not None and self.config.partitions > 1:
            low, high = self.ask(self.dialect.ends(wanted), _SILENT_SECONDS)[0].values()
            # Times of day are whole numbers in the mirror alone; such a table is read over one connection.
            if all(end is not None and _WHOLE.fullmatch(end) for end in (low, high)):
                conditions = self.dialect.ranges(int(low or 0), int(high or 0), self.config.partitions)
        # Spark asks the database for the columns at once.
        with self.told():
            return self._frame(self.dialect.rows(wanted, buckets), conditions).drop(RANGE)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Turn what the driver and Spark throw into our errors, without their texts.

        Raises:
            ConfigError: there is no driver among the Java libraries.
            DatabaseUnavailable: everything else.
        """
        try:
            yield
        except (Py4JJavaError, PySparkException) as error:
            raise self._failure(error) from error

    def _frame(self, query: str, conditions: Sequence[str] = ("1 = 1",), *, seconds: int | None = None) -> DataFrame:
        """What a query gives; with ``seconds``, an error after so many."""
        config = self.config
        own = {**self.dialect.timeouts(seconds or _SILENT_SECONDS), **reveal(config.properties)}
        properties = {
            **({"queryTimeout": str(seconds)} if seconds is not None else {}),
            **own,
            "user": config.user,
            **({"password": config.password.get_secret_value()} if config.password is not None else {}),
            "driver": self.dialect.driver,
            "fetchsize": str(_FETCH_ROWS),
            "sessionInitStatement": self.dialect.session,
        }
        table = f"({query}) cdcm"
        url = self.dialect.address(config.url, own)
        return self.spark.read.jdbc(url, table, predicates=list(conditions), properties=properties)

    def _failure(self, error: Exception) -> ConfigError | DatabaseUnavailable:
        classes = java_classes(error)
        if "ClassNotFoundException" in classes:
            what = f"There is no {self.dialect.driver} among the Java libraries."
            return ConfigError(what, "Take those of cdc_materializer/ivy.xml: unset CDCM_JARS, or add it there.")
        state = _state(error)
        meaning = next((text for begin, text in _STATES.items() if (state or "").startswith(begin)), "refuses")
        cause = f"SQLSTATE {state}" if state else (classes[-1] if classes else type(error).__name__)
        do = "Check the entry under `databases:`, and what its user may read; --debug shows the cause."
        return DatabaseUnavailable(f"The database `{self.name}` {meaning} ({cause}).", do)


#: What the first signs of an SQLSTATE mean.
_STATES = {
    "08": "does not answer",
    "28": "does not let this user in",
    "3D": "is not on that server",
    "42": "lacks the table or a column, or does not let this user read it",
    "57": "is stopping, or ended the query",
}


def _state(error: Exception) -> str | None:
    """The SQLSTATE of the innermost SQLException of an error; None where there is none."""
    found = None
    for name, cause in zip(java_classes(error), java_causes(error), strict=True):
        if name == "PSQLException" or name.startswith("SQL"):
            found = str(cause.getSQLState())
    return found
