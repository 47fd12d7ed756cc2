"""How a table's messages are read: the writers of a batch, and what the table's settings say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cdc_materializer.changes.formats import Format, find, row_of
from cdc_materializer.changes.shards import Shard
from cdc_materializer.decode.merging import KEY_DEPTH, merged
from cdc_materializer.decode.reading import PLACEHOLDER, Form, Special
from cdc_materializer.decode.types import Reader
from cdc_materializer.decode.wire import WireType
from cdc_materializer.decode.writers import Writer
from cdc_materializer.masks import Masks
from cdc_materializer.schema.schema import Evolution


@dataclass(frozen=True)
class Writers:
    """The decoders of a batch.

    Attributes:
        values: those of values.
        keys: those of keys.
        unknown: the selectors of schemas that the registry does not know.
        refused: the selectors of messages that are recognised and not read, each with what they are.
        known_values: the selectors of values of which it is known what they are, be it that they are not read.
        known_keys: those of keys.
        format: the format of the values.
    """

    values: tuple[Writer, ...]
    keys: tuple[Writer, ...]
    unknown: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()
    known_values: tuple[str, ...] = ()
    known_keys: tuple[str, ...] = ()
    format: Format = field(default_factory=lambda: find("debezium"))

    @property
    def changes(self) -> tuple[Writer, ...]:
        """The value writers whose messages are changes of rows."""
        return tuple(writer for writer in self.values if row_of(self.format, writer.wire) is not None)

    def merged(self, options: Options) -> Writers:
        """The same, many writers of changes and keys merged: not where it matters which columns may be NULL."""
        values = self.changes if options.doubtful_keys else options.merged(self.changes, self.format.depth)
        return replace(self, values=values, keys=options.merged(self.keys, KEY_DEPTH))

    @property
    def others(self) -> tuple[str, ...]:
        """The selectors of messages that are known and change no row: heartbeats, transaction marks and the like."""
        return tuple(writer.selector for writer in self.values if self.format.is_other(writer.wire))


@dataclass(frozen=True)
class Options:
    """How messages are read: by the table's settings, and by what the batch turned out to need.

    Attributes:
        special_values: the table's setting.
        placeholders: its `unavailable_value`.
        key: its `key`, or where rows name themselves the contract's primary key.
        doubtful_keys: whether deletes are held against their `before`, because a key among them may be made of fillers.
        exact: whether all is read that tells two changes of a binlog apart which have one place; see `resends`.
        transactions: whether the table keeps the source's transactions.
        snapshots: whether records of snapshots are followed: the table sweeps.
        shard: how rows of several servers are told apart, where the mirror has them.
        masks: what the contract hides.
        evolution: how its columns change.
        format: its format.
        encoding: how values are written; None where each message says it itself.
        always_known: columns that are never left out, so that the placeholder is a value of theirs.
    """

    special_values: Special = "null"
    placeholders: tuple[str, ...] = (PLACEHOLDER,)
    key: tuple[str, ...] = ()
    doubtful_keys: bool = False
    exact: bool = False
    transactions: bool = False
    snapshots: bool = False
    shard: Shard | None = None
    masks: Masks = field(default_factory=Masks)
    evolution: Evolution = field(default_factory=Evolution)
    format: Format = field(default_factory=lambda: find("debezium"))
    encoding: Form | None = None
    always_known: tuple[str, ...] = ()

    @property
    def key_names(self) -> frozenset[str]:
        """The names that the configured key's columns have, and had."""
        return frozenset((*self.key, *(old for name in self.key for old in self.evolution.former(name))))

    def row(self, writer: Writer) -> WireType | None:
        """The type of a row in a writer's values; None where they carry none."""
        return row_of(self.format, writer.wire)

    def reader(self, writer: Writer) -> Reader:
        """The type readings for a writer's encoding."""
        return Reader(writer.form, self.special_values, self.placeholders)

    def merged(self, writers: Sequence[Writer], depth: int) -> tuple[Writer, ...]:
        """Writers put together that can be read as one; not those that have a renamed column under different names."""
        groups: dict[frozenset[str], list[Writer]] = {}
        for writer in writers:
            row = self.row(writer) or writer.wire
            names = frozenset(name for name, _ in row.fields if name in self.evolution.renames)
            groups.setdefault(names, []).append(writer)
        # A column beside another is named by the type of what its writer sends.
        parts = not self.evolution.new_columns
        return tuple(one for group in groups.values() for one in merged(group, depth, parts=parts))
