"""The names of tables in a query's text: which it names, and the query with views in their places. Pure."""

import itertools
import re
from collections.abc import Mapping, Sequence

from cdc_materializer.names import TableName, quote

#: What may stand around the dots of a name. A comment ends in one place alone: no text of them takes long to look at.
_COMMENT = r"--[^\n]*(?:\n|\Z)|/\*(?:[^*]|\*(?!/))*\*/"
_GAP = rf"(?:\s|{_COMMENT})*"
#: A string or comment, which is left alone, or a name of one or several parts. Of a raw string no sign escapes another.
_PIECE = re.compile(
    rf"""(?P<other>[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|{_COMMENT})"""
    rf"""|(?P<name>(?:`(?:[^`]|``)*`|\w+)(?:{_GAP}\.{_GAP}(?:`(?:[^`]|``)*`|\w+))*)""",
    re.DOTALL,
)
_PART = re.compile(rf"{_COMMENT}|`((?:[^`]|``)*)`|(\w+)")


def parts_of(name: TableName) -> tuple[str, ...]:
    """The parts of a table's name, as a query writes them."""
    return (*name.namespace, name.name)


def view_names(names: Sequence[TableName], query: str) -> dict[tuple[str, ...], str]:
    """Names of views, each for one table: its own last one, by which a query may call its columns, where that is free.

    A query with `WITH` may name a part of itself like that, which would stand in the view's place.
    """
    last = [name.name.casefold() for name in names]
    every_name = [_split(match["name"]) for match in _PIECE.finditer(query) if match["name"]]
    plain = {parts[0].casefold() for parts in every_name if len(parts) == 1}
    named = plain if "with" in plain else set()
    views = {parts_of(name): name.name for name in names if last.count(name.name.casefold()) == 1}
    views = {parts: view for parts, view in views.items() if view.casefold() not in named}
    taken = named | {view.casefold() for view in views.values()}
    for parts in (parts for parts in map(parts_of, names) if parts not in views):
        joined = "_".join(parts)
        every = itertools.chain([joined], (f"{joined}_{number}" for number in itertools.count(2)))
        views[parts] = next(view for view in every if view.casefold() not in taken)
        taken.add(views[parts].casefold())
    return views


def named_in(query: str, names: Sequence[tuple[str, ...]], catalog: str) -> list[tuple[str, ...]]:
    """Those of some tables that a query names, each once."""
    found = [_table_of(match["name"], names, catalog) for match in _PIECE.finditer(query) if match["name"]]
    return list(dict.fromkeys(name for name, _ in filter(None, found)))


def renamed(query: str, views: Mapping[tuple[str, ...], str], catalog: str) -> str:
    """A query with views in the places of tables; columns behind a table's name stay behind the view's.

    Args:
        query: the query.
        views: names of views by those of tables, in their parts.
        catalog: the catalog that the tables may be named with.
    """

    def put(match: re.Match[str]) -> str:
        found = _table_of(match["name"], list(views), catalog) if match["name"] else None
        if found is None:
            return match[0]
        name, behind = found
        return ".".join(map(quote, (views[name], *behind)))

    return _PIECE.sub(put, query)


def _table_of(
    name: str, tables: Sequence[tuple[str, ...]], catalog: str
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The table that a name begins with, and the parts behind; None where it begins with none of them."""
    parts = _split(name)
    if len(parts) > 1 and parts[0].casefold() == catalog.casefold():
        parts = parts[1:]
    folded = tuple(part.casefold() for part in parts)
    found = next((one for one in tables if folded[: len(one)] == tuple(part.casefold() for part in one)), None)
    return (found, parts[len(found) :]) if found is not None else None


def _split(name: str) -> tuple[str, ...]:
    return tuple(plain or quoted.replace("``", "`") for quoted, plain in _PART.findall(name) if quoted or plain)
