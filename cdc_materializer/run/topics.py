"""The tables of a run: what globs stand for when it begins, and what they come to stand for while it goes on and on."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cdc_materializer.catalog.catalog import open_tables
from cdc_materializer.config import Config, RefusedTopic, ResolvedTables, TableConfig, find_tables
from cdc_materializer.errors import (
    EXIT_DONE,
    CdcError,
    ConfigError,
    SourceUnavailable,
    TimeOver,
    TopicMissing,
    worst_exit_code,
)
from cdc_materializer.names import nearest, shown
from cdc_materializer.progress import Backlog
from cdc_materializer.report.models import ErrorInfo, RunReport, TableRun
from cdc_materializer.retry import NEVER, Deadline
from cdc_materializer.source import Source

_LOG = logging.getLogger(__name__)


def tables_of(config: Config, source: Source, names: Sequence[str], deadline: Deadline = NEVER) -> ResolvedTables:
    """All tables of a configuration, and where none is named, the topics that no table can be made of.

    Of several topics of globs that would go to one mirror, the one stays that its raw table was filled from.

    Args:
        config: from `load_config`.
        source: its source, which is asked for its topics where there are globs.
        names: the mirrors that are asked for; all for none.
        deadline: the catalog is waited for no longer.

    Raises:
        ConfigError: a table is asked for that there is not.
        CdcError: no table can be made of any topic, or the topics cannot be listed.
    """

    def is_kept(table: TableConfig) -> bool:
        try:
            raw = open_tables(config.catalog, deadline).marker_of(table.mirror.raw)
        except CdcError:
            return False
        return raw is not None and raw.topic == table.topic

    topics = source.topics() if any(table.is_glob for table in config.tables) else ()
    found = find_tables(config.tables, topics, is_kept)
    if found.refused and not found.tables:
        raise found.refused[0].error
    missing = sorted(set(names) - {str(table.mirror) for table in found.tables})
    # What a glob stands for once its topics are there, nobody knows.
    waited_for = next((one.error for one in found.refused if isinstance(one.error, TopicMissing)), None)
    if missing and waited_for is not None:
        raise waited_for
    if missing:
        known = [str(table.mirror) for table in found.tables]
        near = nearest(missing[0], known)
        do = f"Did you mean {near}?" if near else f"Its tables are: {', '.join(known)}."
        raise ConfigError(f"There is no table {', '.join(map(shown, missing))} in {config.path.name}.", do)
    return ResolvedTables(found.tables, () if names else found.refused)


def refused_runs(refused: Iterable[RefusedTopic]) -> list[tuple[TableRun, int]]:
    """An entry, with its exit code, for each topic or glob that no table can be made of."""
    return [
        (TableRun(table=one.topic, topic=one.topic, error=ErrorInfo.of(one.error)), one.error.exit_code)
        for one in refused
    ]


def with_runs(report: RunReport, more: Sequence[tuple[TableRun, int]]) -> RunReport:
    """The report, with more entries and their exit codes."""
    code = worst_exit_code((report.exit_code, *(code for _, code in more)))
    return report.model_copy(update={"tables": [*report.tables, *(run for run, _ in more)], "exit_code": code})


class ListedTopics:
    """The topics that globs were resolved with, and what they are resolved to.

    A topic that is not listed any more stays one: whoever asks for it learns what has become of it, and tells that.
    """

    def __init__(self, config: Config, source: Source, known: ResolvedTables) -> None:
        """Begin with the tables that were resolved when the run began."""
        self._entries, self._source, self._found = config.tables, source, known
        self._topics = {topic for table in known.tables for topic in (table.topics or (table.topic,))}
        self._told = ""
        self._untold = refused_runs(known.refused)

    @property
    def known(self) -> tuple[TableConfig, ...]:
        """The tables as of the last look."""
        return self._found.tables

    def news(self) -> list[tuple[TableRun, int]]:
        """Entries of what no table can be made of, and of what one can be made of by now, each once."""
        found, self._untold = self._untold, []
        return found

    def look(self) -> bool:
        """List the topics where there are globs; whether tables, or topics of tables, have come since the last look.

        Where that fails, the tables stay as they are, and that is told. So do those that a topic that came new would
        share a mirror with.
        """
        if not any(table.is_glob for table in self._entries):
            return False
        try:
            topics = {*self._topics, *self._source.topics()}
        except CdcError as failure:
            if str(failure) != self._told:
                _LOG.warning("The run goes on with the topics that it knows: %s", failure)
            self._told = str(failure)
            return False
        self._told = ""
        if topics == self._topics:
            return False
        before, kept = self._found, {table.topic for table in self.known}
        self._topics, self._found = topics, find_tables(self._entries, topics, lambda table: table.topic in kept)
        told, refused = ({one.topic for one in found.refused} for found in (before, self._found))
        self._untold += refused_runs(one for one in self._found.refused if one.topic not in told)
        self._untold += ((TableRun(table=topic, topic=topic), EXIT_DONE) for topic in sorted(told - refused))
        return [(table, table.topics) for table in self.known] != [(table, table.topics) for table in before.tables]


def not_asked(backlog: Backlog) -> Backlog:
    """A table whose time was over before its topic was asked: whoever gave no answer may have had no time for it."""
    if not isinstance(backlog.error, SourceUnavailable):
        return backlog
    what = f"The time was over before the topic of {backlog.table.mirror} was asked: {backlog.error.what}"
    return replace(backlog, error=TimeOver(what, "Run again, with more time if it is always so."))
