"""`cdcm init --raw`: a contract for a table that has a mirror already, from what its raw table holds; without Spark.

A topic forgets, raw does not: its first messages are those of the table's first day, and there are more of them than
`cdcm init` looks at in a topic. pipeline.yaml is the user's by then; what to add to it is said and not written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from cdc_materializer.catalog.catalog import Tables, open_tables
from cdc_materializer.errors import UsageError
from cdc_materializer.init.contract import contract_text, is_personal
from cdc_materializer.init.init import contract_file, refuse_existing, told, write_files
from cdc_materializer.init.pipeline import Entry
from cdc_materializer.names import RESERVED_COLUMN_PREFIX, TableName
from cdc_materializer.observed import observe
from cdc_materializer.recognise import Recognised, recognise
from cdc_materializer.registry import Registry, open_registry
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.setup_models import InitReport
from cdc_materializer.report.wording import quantity
from cdc_materializer.schema.schema import Column, TableSchema
from cdc_materializer.source import Message
from cdc_materializer.status import configured_tables

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import Table

    from cdc_materializer.config import Config, TableConfig

#: How many messages are looked at, at each end of each partition. Each costs 30 to 60 µs to read with Python.
RAW_MESSAGES = 10_000
#: Of large messages fewer: they have at most so many bytes in all.
_BYTES_MAX = 256 * 1024 * 1024
_NESTED = ("array<", "map<", "struct<")


def draft_from_raw(
    config: Config, names: Sequence[str] = (), *, force: bool = False, tell: Callable[[str], object] = lambda _: None
) -> InitReport:
    """Draft contracts for tables of a pipeline from what raw holds of them.

    Args:
        config: the pipeline; contracts go into a folder beside its file.
        names: the mirrors; all that have no contract if there are none.
        force: replace files that are there.
        tell: is told which raw table is looked at.

    Raises:
        ConfigError: the configuration has no such table.
        UsageError: the tables have contracts, or a file is there already.
        LakeUnavailable: the catalog or a raw table cannot be read.
        RegistryUnavailable: messages name schemas, and the registry cannot be asked.
    """
    every = configured_tables(config, names)
    tables = [one for one in every if one.contract is None]
    if not tables or (names and len(tables) < len(every)):
        # A draft would have none of its masks, and might tell of columns that it hides.
        have = ", ".join(f"{one.mirror} ({one.contract})" for one in every if one.contract is not None)
        raise UsageError(
            f"There is a contract already of {have}.", "Name a table without one, or add to that contract."
        )
    lake, registry = open_tables(config.catalog), open_registry(config.registry)
    # The name of a contract that is in use is not for another table.
    taken = {one.contract.stem.lower() for one in config.tables if one.contract is not None}
    entries = [_entry(table, lake, registry, taken, tell) for table in tables]
    folder, option = config.path.absolute().parent, NextSteps(config.path).option
    files = {
        folder / (entry.contract or ""): contract_text(entry.found, entry.mirror, entry.observed, entry.origin, option)
        for entry in entries
        if entry.mirror is not None
    }
    drafted = ", ".join(f"{entry.mirror}: contract: {entry.contract}" for entry in entries if entry.mirror is not None)
    do = f"Give the table its contract under `tables` ({drafted}), or draft it anew with --force, over what is there."
    refuse_existing(files, force=force, do=do)
    write_files(files, folder)
    return InitReport(
        pipeline=config.name,
        config=str(config.path),
        read_from="raw",
        written=[str(file) for file in files],
        topics=[told(entry) for entry in entries],
    )


def _entry(
    table: TableConfig, lake: Tables, registry: Registry | None, taken: set[str], tell: Callable[[str], object]
) -> Entry:
    mirror, topic = table.mirror, table.topic
    tell(str(mirror.raw))
    stored = lake.load(mirror.raw)
    if stored is None:
        return Entry(Recognised(topic), reason=f"there is no {mirror.raw} yet: `cdcm run` makes it")
    messages = raw_messages(lake, stored, RAW_MESSAGES)
    found = _as_mirror(recognise(topic, messages, registry), lake, mirror)
    if found.reason is not None:
        return Entry(found, reason=found.reason)
    observed = observe(found, messages, registry, is_personal)
    origin = f"{quantity(len(messages), 'message')} of {mirror.raw}"
    return Entry(found, mirror, contract_file(mirror, taken), observed=observed, origin=origin)


def _as_mirror(found: Recognised, lake: Tables, mirror: TableName) -> Recognised:
    """The same, with the mirror's own columns where it is there: settings and messages between have made them.

    So is its key, which the messages need not tell; their rows have to.
    """
    there = lake.columns_of(mirror)
    if there is None or not found.rows:
        return found
    types, key = there
    read = {column.name: column for column in found.schema.columns}
    columns = []
    for name, ddl in types.items():
        seen = read.get(name)
        if name.startswith(RESERVED_COLUMN_PREFIX) or (seen is None and ddl.startswith(_NESTED)):
            continue
        # Of nested columns the catalog tells the kind alone.
        kind = seen.type if seen is not None and ddl.startswith(_NESTED) else ddl
        columns.append(Column(name, kind, seen.doc if seen is not None else None))
    order = (*[name for name in found.schema.key if name in key], *sorted(key - set(found.schema.key)))
    return replace(found, schema=TableSchema(tuple(columns), order), reason=None)


def raw_messages(lake: Tables, stored: Table, count: int) -> tuple[Message, ...]:
    """The first and the last `count` messages of each partition that a raw table holds, by offset and partition.

    Where these are too many bytes, as many fewer at each end: what is at one end alone would tell too little.
    """
    ends = _ends(lake, stored)
    found = _read(lake, stored, ends, count) if ends else []
    while found is None:
        count //= 10
        found = _read(lake, stored, ends, count) if count else []
    return tuple(sorted(found, key=lambda message: (message.offset, message.partition)))


def _read(lake: Tables, stored: Table, ends: Mapping[int, tuple[int, int]], count: int) -> list[Message] | None:
    found: list[Message] = []
    size = 0
    for batch in lake.batches(stored, ("partition", "offset", "key", "value"), _within(ends, count)):
        size += batch.nbytes
        if size > _BYTES_MAX:
            return None
        found += [Message(**row) for row in batch.to_pylist()]
    return found


def _ends(lake: Tables, stored: Table) -> Mapping[int, tuple[int, int]]:
    """The lowest and the highest offset of each partition; two columns of whole numbers are read for that."""
    import pyarrow as pa

    ends: dict[int, tuple[int, int]] = {}
    for batch in lake.batches(stored, ("partition", "offset")):
        sums = pa.Table.from_batches([batch]).group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
        for row in sums.to_pylist():
            low, high = ends.get(row["partition"], (row["offset_min"], row["offset_max"]))
            ends[row["partition"]] = min(low, row["offset_min"]), max(high, row["offset_max"])
    return ends


def _within(ends: Mapping[int, tuple[int, int]], count: int) -> BooleanExpression:
    from pyiceberg import expressions as e

    # The types that PyIceberg declares for these classes are not those of their constructors.
    is_in, is_below, is_above = cast("Any", e.EqualTo), cast("Any", e.LessThan), cast("Any", e.GreaterThan)
    parts: list[BooleanExpression] = [
        e.And(is_in("partition", partition), e.Or(is_below("offset", low + count), is_above("offset", high - count)))
        for partition, (low, high) in ends.items()
    ]
    # In halves: PyIceberg goes down a chain of hundreds by recursion, which Python ends.
    while len(parts) > 1:
        parts = [e.Or(*parts[at : at + 2]) if at + 1 < len(parts) else parts[at] for at in range(0, len(parts), 2)]
    return parts[0]
