"""Renames that registered schemas tell by Avro's `aliases`, for tables that ask for it (ADR 32).

What the schemas of all messages in raw say together holds for each of them, whichever came first: so no cut of the log
and no message that comes late or again makes another table. It is kept as a property of raw, with the offsets up to
which it was gathered, and is that of raw's messages alone: one that was lost, or never written, is gathered again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cdc_materializer.batch import batch
from cdc_materializer.changes.formats import Format, row_of
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.decode.wire import WireSchemaInvalid, parse_avro
from cdc_materializer.errors import RegistryUnavailable, SchemaRefused
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import MAIN, LakeTable
from cdc_materializer.names import same_name, shown
from cdc_materializer.offsets import Offsets, Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.decoders.decoders import Lookup
    from cdc_materializer.lake.lake import Lake

PROPERTY = "cdcm.aliases"
#: So many schemas that nobody knows are remembered. Each is 14 bytes in every version of the table's metadata, and a
#: message of garbage can name any of 2^32.
_UNKNOWN_MAX = 1_000
#: The kinds of schemas that have no aliases.
_OTHERS = frozenset({"JSON", "PROTOBUF"})

#: A name that a column had, and one that it got.
Pair = tuple[str, str]


@dataclass(frozen=True)
class Aliases:
    """What the schemas of raw's messages say.

    Attributes:
        offsets: the next message of each partition that was not looked at.
        pairs: the names that columns had, each with one that it got.
        unknown: the selectors of schemas that the registry did not know, or could not be asked for.
        refilled: how many offsets behind them raw had been filled up with (ADR 31).
    """

    offsets: Offsets
    pairs: frozenset[Pair] = frozenset()
    unknown: frozenset[str] = frozenset()
    refilled: int = 0

    @classmethod
    def of(cls, text: str | None) -> Aliases:
        """What a property says; nothing where it is none."""
        if text is None:
            return cls(Offsets())
        told = json.loads(text)
        pairs = frozenset((old, new) for old, new in told["pairs"])
        offsets = Offsets.from_json(json.dumps(told["offsets"]))
        return cls(offsets, pairs, frozenset(told["unknown"]), told["refilled"])

    @property
    def text(self) -> str:
        """The property; equal ones are one text. Where too many schemas are unknown, raw is to be looked at again."""
        kept = self if len(self.unknown) <= _UNKNOWN_MAX else replace(self, offsets=Offsets(), unknown=frozenset())
        told = {"offsets": json.loads(kept.offsets.to_json()), "pairs": sorted(kept.pairs)}
        return json.dumps({**told, "unknown": sorted(kept.unknown), "refilled": kept.refilled})

    def with_writers(self, selectors: Iterable[str], lookup: Lookup, format_: Format) -> Aliases:
        """With what more schemas say."""
        pairs, unknown = set(self.pairs), set[str]()
        for selector in sorted({*selectors, *self.unknown}):
            found = _pairs(selector, lookup, format_)
            pairs |= found or frozenset()
            unknown |= {selector} if found is None else set()
        return replace(self, pairs=frozenset(pairs), unknown=frozenset(unknown))


def gather(lake: Lake, raw: LakeTable, lookup: Lookup, format_: Format, id_bytes: int) -> Aliases:
    """What the schemas of all messages say that raw has.

    Args:
        lake: where raw is.
        raw: the raw table, with its marker.
        lookup: where schemas are found.
        format_: where messages have their row.
        id_bytes: how many bytes a schema's id has.
    """
    with translated(raw.name):
        before = Aliases.of(lake.iceberg(raw.name).properties().get(PROPERTY))
    if raw.marker is None:
        return before
    end, refilled = raw.marker.offsets, raw.marker.refilled
    if refilled != before.refilled:
        # Messages have come that stand behind what was looked at.
        before = replace(before, offsets=Offsets(), refilled=refilled)
    # Another process may have landed, and remembered, since raw was loaded.
    start = Offsets({partition: min(before.offsets.get(partition, 0), at) for partition, at in end.items()})
    beyond = Span("", start, end)
    met = set[str]()
    if not beyond.is_empty:
        rows = lake.rows(raw).where(batch.within(beyond, "partition", "offset"))
        met = selectors(rows.select(batch.writer(rows, "value", id_bytes).alias("value_writer")))
    return replace(before, offsets=end).with_writers(met, lookup, format_)


def remember(lake: Lake, raw: LakeTable, found: Aliases) -> None:
    """Keep what was gathered with raw, unless that has moved since: whoever has landed there remembers more."""
    with translated(raw.name):
        table: Any = lake.iceberg(raw.name)
        now = table.snapshot(MAIN)
        is_as_gathered = now is not None and now.snapshotId() == raw.head
        if is_as_gathered and table.properties().get(PROPERTY) != found.text:
            table.updateProperties().set(PROPERTY, found.text).commit()


def selectors(messages: DataFrame) -> set[str]:
    """The selectors of the value writers of messages: a handful, and dozens after much DDL."""
    found = messages.select("value_writer").distinct().collect()
    return {row["value_writer"] for row in found if row["value_writer"] is not None}


def _pairs(selector: str, lookup: Lookup, format_: Format) -> frozenset[Pair] | None:
    """What one schema says; None where it cannot be known yet."""
    name = SchemaName.parse(selector)
    if name is None or not name.is_lookup:
        return frozenset()
    try:
        schema = lookup.registered("value", name)
        if schema is None:
            return None
        row = row_of(format_, parse_avro(schema.text)) if schema.kind not in _OTHERS else None
    except RegistryUnavailable:
        return None
    except WireSchemaInvalid:
        return frozenset()
    if row is None:
        return frozenset()
    # Of a schema that has both names they are two columns, and one that differs in case alone is no other name.
    names = (*dict(row.fields), *row.nulls)
    return frozenset(
        (alias, column)
        for column, kind in row.fields
        for alias in kind.aliases
        if not any(same_name(alias, known) for known in names)
    )


def final_names(pairs: Iterable[Pair], renames: Mapping[str, str]) -> dict[str, str]:
    """The name that a column has at last, by each that it had.

    Args:
        pairs: what schemas say.
        renames: what the table's settings say, each name with the last one; they win.

    Raises:
        SchemaRefused: schemas say that a column is called by several names at last, or by none.
    """
    later: dict[str, set[str]] = {old: {new} for old, new in renames.items()}
    for old, new in pairs:
        if old not in renames and old not in renames.values():
            later.setdefault(old, set()).add(renames.get(new, new))
    return {old: _last(old, later) for old in later}


def _last(name: str, later: Mapping[str, set[str]]) -> str:
    met, open_, ends = {name}, [name], set[str]()
    while open_:
        one = open_.pop()
        ends |= set() if one in later else {one}
        new = later.get(one, set()) - met
        met |= new
        open_ += new
    if len(ends) != 1:
        names = ", ".join(f"`{shown(one)}`" for one in sorted(met))
        what = f"By aliases of registered schemas these are one column, and nothing says which name is last: {names}."
        raise SchemaRefused(what, "Say it with `renames:` in pipeline.yaml, or set `aliases: ignore`.")
    return ends.pop()
