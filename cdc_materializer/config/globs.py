"""The tables of pipeline.yaml with their globs made into topics, and the topics that no table can be made of."""

import fnmatch
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cdc_materializer.config.tables import TableConfig
from cdc_materializer.errors import CdcError, ConfigError, InvalidName, TopicMissing
from cdc_materializer.names import is_table_topic, shown


@dataclass(frozen=True)
class RefusedTopic:
    """A glob that no topic of a table matches, or a topic that no table can be made of, and why."""

    topic: str
    error: CdcError


@dataclass(frozen=True)
class ResolvedTables:
    """The tables that globs and topics stand for, and what no table can be made of."""

    tables: tuple[TableConfig, ...]
    refused: tuple[RefusedTopic, ...] = ()


def check_mirrors(tables: Iterable[TableConfig]) -> None:
    """Check that each glob is there once and each other table has a mirror of its own; raise ConfigError otherwise.

    Names that differ only in case count as one: they would share a folder on some file systems.
    """
    topic_by_mirror: dict[str, str] = {}
    entry_by_glob: dict[str, int] = {}
    for at, table in enumerate(tables):
        first = entry_by_glob.setdefault(table.topic, at) if table.is_glob else at
        if first != at:
            what = f"The glob {shown(table.topic)} has two entries, tables[{first}] and tables[{at}]."
            raise ConfigError(what, "Leave one of them out: the first takes all topics that it matches.")
        if table.is_glob and table.given_mirror is None:
            continue
        mirror = _folded(table)
        if mirror in topic_by_mirror:
            raise _one_mirror(topic_by_mirror[mirror], table)
        topic_by_mirror[mirror] = table.topic


def resolve_tables(tables: Iterable[TableConfig], topics: Iterable[str]) -> tuple[TableConfig, ...]:
    """Return ``tables`` with each glob replaced by the topics it matches, as `find_tables`; all of them or none.

    Raises:
        TopicMissing: a glob matches no table's topic.
        ConfigError: two topics would go to one mirror.
        InvalidName: a matched topic's name gives no table name.
    """
    found = find_tables(tables, topics)
    if found.refused:
        raise found.refused[0].error
    return found.tables


def find_tables(
    tables: Iterable[TableConfig], topics: Iterable[str], is_kept: Callable[[TableConfig], bool] = lambda _: False
) -> ResolvedTables:
    """Replace each glob by the topics it matches, in order of name.

    A glob with a `mirror` stays one table, of all that it matches. A topic that has an entry of its own is no glob's,
    and the first of two globs takes a topic, with its settings. Only a table's topics are taken (`is_table_topic`).
    Anybody who makes a table in a source's database may make a topic that none can be made of: the others stay.

    Args:
        tables: the entries of the configuration.
        topics: those of the source.
        is_kept: of the topics of globs that would go to one mirror, whether it is this table's; asked only of those.
    """
    entries, existing = tuple(tables), sorted(set(topics))
    taken = {entry.topic for entry in entries}
    candidates = [topic for topic in existing if is_table_topic(topic, existing)]
    resolved: list[TableConfig] = []
    named: set[str] = set()
    refused: list[RefusedTopic] = []
    for entry in entries:
        if not entry.is_glob:
            resolved.append(entry)
            named.add(entry.topic)
            continue
        matched = [topic for topic in candidates if fnmatch.fnmatchcase(topic, entry.topic)]
        if not matched and entry.given_mirror is None:
            what = f"No topic of a table matches `{shown(entry.topic)}`; the source has {len(candidates)} such topics."
            do = "Correct the glob in `tables:`, or name the topic and its `mirror` exactly."
            refused.append(RefusedTopic(entry.topic, TopicMissing(what, do)))
        own = [topic for topic in matched if topic not in taken]
        if entry.given_mirror is not None:
            resolved += [entry.of_topics(own, taken)] if own or not matched else []
            named.add(entry.topic)
        else:
            found = [_table_or_refusal(entry, topic) for topic in own]
            resolved += (one for one in found if isinstance(one, TableConfig))
            refused += (one for one in found if isinstance(one, RefusedTopic))
        taken.update(matched)
    shared = list(_shared(resolved, lambda table: table.topic in named, is_kept))
    without = {one.topic for one in shared}
    return ResolvedTables(tuple(table for table in resolved if table.topic not in without), (*refused, *shared))


def _table_or_refusal(entry: TableConfig, topic: str) -> TableConfig | RefusedTopic:
    table = entry.model_copy(update={"topic": topic})
    try:
        _ = table.mirror
    except InvalidName as error:
        return RefusedTopic(topic, error)
    return table


def _shared(
    tables: Iterable[TableConfig], is_named: Callable[[TableConfig], bool], is_kept: Callable[[TableConfig], bool]
) -> Iterator[RefusedTopic]:
    """Refuse the topics that would go to one mirror; not the one that the file names, or else that is kept."""
    by_mirror: dict[str, list[TableConfig]] = {}
    for table in tables:
        by_mirror.setdefault(_folded(table), []).append(table)
    for group in by_mirror.values():
        if len(group) == 1:
            continue
        stays = next((table for table in group if is_named(table)), None) or next(filter(is_kept, group), None)
        for table in group:
            if table is not stays:
                other = stays or next(one for one in group if one is not table)
                yield RefusedTopic(table.topic, _one_mirror(other.topic, table))


def _folded(table: TableConfig) -> str:
    return str(table.mirror).lower()


def _one_mirror(other: str, table: TableConfig) -> ConfigError:
    if other == table.topic:
        what = f"The topic {other} has two entries in `tables:`, both of the mirror `{table.mirror}`."
        return ConfigError(what, "Leave one of them out, or give one another `mirror`.")
    return ConfigError(
        f"The topics {other} and {table.topic} would both go to the mirror `{table.mirror}`.",
        "Give one of them another `mirror`, or name both by one glob with that `mirror`, if it is one table.",
    )
