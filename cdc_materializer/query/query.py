"""`cdcm query`: an SQL query over the mirrors, with `--fresh` over what they would be after a run.

The query is Spark's; it can do nothing but read. With `--fresh` the mirrors that it names are replaced by views of
their fresh rows (`fresh`), so it is written the same either way.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as F

from cdc_materializer.decode.fit import ddl_of
from cdc_materializer.errors import LakeUnavailable, UsageError
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake
from cdc_materializer.lake.reads import readings
from cdc_materializer.line.line import Line
from cdc_materializer.merge import first_rows
from cdc_materializer.names import TableName, quote
from cdc_materializer.progress import backlogs
from cdc_materializer.query.fresh import Fresh, fresh_rows
from cdc_materializer.query.reads import check_reading
from cdc_materializer.query.values import VALUE, json_text
from cdc_materializer.report.query_models import Freshness, QueryColumn, QueryReport
from cdc_materializer.retry import NEVER, Deadline
from cdc_materializer.run.contracts import refuse_unreadable
from cdc_materializer.run.run import RunOptions, Work, open_work, session_for
from cdc_materializer.session.session import beside
from cdc_materializer.table_names import named_in, parts_of, renamed, view_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cdc_materializer.config import Config, TableConfig

#: What Spark puts around what it says: its condition before, the SQL state behind.
_CODES = re.compile(r"\A\[[\w.]+\] |(?<!\s)\s*SQLSTATE: \w+\Z")


def run_query(
    config: Config,
    query: str,
    limit: int,
    *,
    fresh: bool = False,
    spark: SparkSession | None = None,
    deadline: Deadline = NEVER,
) -> QueryReport:
    """Answer a query.

    Args:
        config: from `load_config`.
        query: SQL, with mirrors by the names that the configuration has for them.
        limit: most rows of the answer.
        fresh: whether messages count that are not published yet.
        spark: a session with Iceberg's extensions, where there is one.
        deadline: broker, registry and catalog are waited for no longer; Spark's reading has its own time.

    Raises:
        UsageError: the query cannot be understood, or names what is not there.
        ContractInvalid: the rows of a mirror that is asked for are masked otherwise than its contract says.
        CdcError: something cannot be read, or a run of a table that is asked for would stop.
    """
    work = open_work(config, RunOptions(deadline=deadline), refuse=False)
    asked = _named(work, query, [table.mirror for table in work.tables])
    # A history is masked as its mirror is.
    shown = [*asked, *_named(work, query, [table.mirror.history for table in work.tables])]
    refuse_unreadable(work.contracts, shown)
    waiting = {one.table.mirror: one for one in backlogs(config, work.source, asked, deadline)} if fresh else {}
    failed = next((backlog.error for backlog in waiting.values() if backlog.error is not None), None)
    if failed is not None:
        raise failed
    with session_for(work, spark, sum(backlog.messages for backlog in waiting.values())) as session:
        lake = Lake(beside(session, config, asks=True), config.catalog.name, read_only=True)
        lake.spark.catalog.setCurrentCatalog(config.catalog.name)
        found = {mirror: fresh_rows(_line(work, lake, one.table), one.topic) for mirror, one in waiting.items()}
        views = view_names(list(found), query)
        for name, one in found.items():
            one.rows.createOrReplaceTempView(quote(views[parts_of(name)]))
        asking = _Asking(work, lake, tuple(views.values()), fresh=fresh)
        columns, answer = _answer(asking, renamed(query, views, config.catalog.name), limit)
    return QueryReport(
        pipeline=config.name,
        columns=columns,
        rows=answer[:limit],
        more=len(answer) > limit,
        fresh=[_freshness(str(name), one) for name, one in found.items()],
    )


def _named(work: Work, query: str, names: Sequence[TableName]) -> list[TableConfig]:
    """The tables of a pipeline that a query names, by one name of each, in their order."""
    parts = [parts_of(name) for name in names]
    return [work.tables[parts.index(name)] for name in named_in(query, parts, work.config.catalog.name)]


def _line(work: Work, lake: Lake, table: TableConfig) -> Line:
    return Line(work.config.name, table, work.source, work.registry, work.contracts.get(str(table.mirror)), lake)


@dataclass(frozen=True)
class _Asking:
    """What a query is asked of, and which views stand for mirrors."""

    work: Work
    lake: Lake
    views: tuple[str, ...]
    fresh: bool

    def check(self, answer: DataFrame) -> None:
        """Refuse an answer with rows that the contracts hide by now, or with published ones in place of fresh ones.

        Raises:
            ContractInvalid, ConfigError: as `refuse_unreadable` and `check_reading`.
            UsageError: a mirror is named in a way that no view could take the place of.
        """
        found = list(dict.fromkeys(readings(answer, self.work.config.catalog.name, self.views)))
        every = [(table, name) for table in self.work.tables for name in (table.mirror, table.mirror.history)]
        for (table, name), reading in itertools.product(every, found):
            if reading.behind(name) is None:
                continue
            refuse_unreadable(self.work.contracts, [table])
            with translated(name):
                check_reading(_line(self.work, self.lake, table), name, reading)
            if self.fresh and name == table.mirror:
                what = f"The query reads {name} in a way that has no fresh rows, only published ones."
                raise UsageError(what, f"Name it as {name} and no otherwise, or leave out --fresh.")


def _answer(asking: _Asking, query: str, limit: int) -> tuple[list[QueryColumn], list[list[Any]]]:
    try:
        answer = asking.lake.answer(first_rows(query, limit + 1))
        asking.check(answer)
        return told_rows(answer)
    except (ParseException, AnalysisException) as error:
        what = f"The query cannot be answered: {_reason(error)}"
        raise UsageError(what, "It is one SELECT in Spark's SQL, over mirrors by their full names.") from error
    except (PySparkException, Py4JJavaError) as error:
        condition = error.getCondition() if isinstance(error, PySparkException) else None
        # Spark's own words have the value that it could not take.
        what = f"The query failed while it read ({condition or type(error).__name__})."
        do = "What Spark says of it may have values: for a value that a function refuses, try its `try_` form."
        raise LakeUnavailable(what, do) from error


def _reason(error: ParseException | AnalysisException) -> str:
    """Spark's first sentences about a query that it has not begun to run: words of the query and names of columns."""
    first = (error.getMessage() or "").strip().partition("\n")[0]
    return _CODES.sub("", first).strip() or f"{error.getCondition() or type(error).__name__}."


def told_rows(answer: DataFrame) -> tuple[list[QueryColumn], list[list[Any]]]:
    """A few rows as documents show them, with their columns."""
    columns = [QueryColumn(name=field.name, type=ddl_of(field.dataType)) for field in answer.schema]
    return columns, [json.loads(row[0]) for row in _as_json(answer).collect()]


def _as_json(answer: DataFrame) -> DataFrame:
    """Each row as a JSON array."""
    named = answer.toDF(*[f"c{at}" for at in range(len(answer.columns))])
    texts = [json_text(F.col(field.name), ddl_of(field.dataType)) for field in named.schema]
    inside = rf'(?s)^\{{"{VALUE}":(.*)\}}$'
    bare = [F.expr("1")] if not texts else [F.regexp_extract(text, inside, 1) for text in texts]
    return named.select(F.concat(F.lit("["), F.concat_ws(",", *bare), F.lit("]")))


def _freshness(table: str, found: Fresh) -> Freshness:
    return Freshness(table=table, messages=found.messages, held=found.held, newest=found.newest)
