"""Rows of several servers in one mirror: the topic says which server's a row is, and that is part of its key.

Two servers know nothing of each other. Their keys may be equal, their tables have the same names, and their positions
are in no order. With a key of its own each row has one server, so positions of two are never held against each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_materializer.changes import model as m
from cdc_materializer.errors import SchemaRefused
from cdc_materializer.schema.schema import Column as TableColumn
from cdc_materializer.schema.schema import TableSchema

#: What stands between the name of a log or a position and that of its server; no topic has it.
SERVER = "@"
#: The server of a position, whatever epoch it is of.
_OF_POSITION = re.compile(f"^(?:~\\d+/)?([^{SERVER}]*){SERVER}.*")


def server_of(position: str) -> str:
    """The server of a position; nothing where a mirror has one alone."""
    match = _OF_POSITION.fullmatch(position)
    return match[1] if match is not None else ""


def told_server(position: Column) -> Column:
    """The server of a position; an empty text where a mirror has one alone."""
    return F.regexp_extract(position, _OF_POSITION.pattern, 1)


def same_server(position: Column, other: str) -> Column:
    """Whether a position is of the server of another one; in a mirror of one server all are."""
    server = server_of(other)
    return told_server(position) == server if server else F.lit(True)


@dataclass(frozen=True)
class Shard:
    """The key column that says which server a row is from, and the glob whose `*` stands for the server's name."""

    column: str
    topics: str

    def of(self, topic: Column) -> Column:
        """The name of a topic's server."""
        return F.regexp_extract(topic, self._pattern(), 1)

    def name_of(self, topic: str) -> str:
        """The same of a topic's name."""
        match = re.fullmatch(self._pattern(), topic)
        return match[1] if match is not None else ""

    def _pattern(self) -> str:
        before, after = (re.escape(part) for part in self.topics.split("*"))
        return f"^{before}(.*){after}$"

    def within(self, schema: TableSchema) -> TableSchema:
        """A schema with the column, first, and in its key where it has one.

        Raises:
            SchemaRefused: the rows have a column of that name.
        """
        if self.column.lower() in {name.lower() for name in schema.types}:
            what = f"The rows have a column `{self.column}`, the name that `shard` gives to the server's."
            raise SchemaRefused(what, "Give `shard` another name.")
        key = (self.column, *schema.key) if schema.key else ()
        return TableSchema((TableColumn(self.column, "string"), *schema.columns), key)

    def without(self, schema: TableSchema) -> TableSchema:
        """A schema of the mirror's as the messages have it."""
        columns = tuple(column for column in schema.columns if column.name != self.column)
        return replace(schema, columns=columns, key=tuple(name for name in schema.key if name != self.column))

    def key_parts(self) -> Mapping[str, Column]:
        """What the topic of a change adds to its key."""
        return {self.column: self.of(F.col(m.TOPIC))}

    def told(self, changes: DataFrame, target: TableSchema) -> DataFrame:
        """Changes with the column, and with all that tells rows, tables and logs apart made the server's own.

        Args:
            changes: in the columns of the target without this one.
            target: the mirror's columns.
        """
        server = self.of(F.col(m.TOPIC))
        parts = {name: server if name == self.column else m.column(name) for name in target.key}
        key = F.struct(*[column.alias(name) for name, column in parts.items()])
        own = {
            self.column: server,
            m.KEY: F.when(F.col(m.KEY).isNotNull(), m.key_json(key, target)),
            m.POSITION: F.concat(server, F.lit(SERVER), F.col(m.POSITION)),
            m.SOURCE_TABLE: F.concat(server, F.lit("."), F.col(m.SOURCE_TABLE)),
            m.LOG: F.concat(F.col(m.LOG), F.lit(SERVER), server),
        }
        return changes.withColumns(own)
