"""The tables of a run that goes on and on: topics that its globs match are taken up between two rounds."""

from __future__ import annotations

import logging

from cdc_materializer.config import Config, TableConfig, resolve_tables
from cdc_materializer.errors import CdcError
from cdc_materializer.source import Source

_LOG = logging.getLogger(__name__)


class ListedTopics:
    """The topics that globs were resolved with, and what they are resolved to.

    A topic that is not listed any more stays one: whoever asks for it learns what has become of it, and tells that.
    """

    def __init__(self, config: Config, source: Source, known: tuple[TableConfig, ...]) -> None:
        """Begin with the tables that were resolved when the run began."""
        self._entries, self._source, self.known = config.tables, source, known
        self._topics = {topic for table in known for topic in (table.topics or (table.topic,))}
        self._told = ""

    def look(self) -> bool:
        """List the topics where there are globs; whether tables, or topics of tables, have come since the last look.

        Where that fails, or a topic that came new makes the tables impossible, they stay as they are, and that is told.
        """
        if not any(table.is_glob for table in self._entries):
            return False
        try:
            topics = {*self._topics, *self._source.topics()}
            if topics == self._topics:
                return False
            found = resolve_tables(self._entries, topics)
        except CdcError as failure:
            if str(failure) != self._told:
                _LOG.warning("The run goes on with the topics that it knows: %s", failure)
            self._told = str(failure)
            return False
        before, self._topics, self._told = self.known, topics, ""
        self.known = found
        return [(table, table.topics) for table in found] != [(table, table.topics) for table in before]
