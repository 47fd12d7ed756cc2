"""Samples for `cdcm report --samples`: a few messages of raw, decoded, of columns that the contract calls public.

A column is shown only where the contract classifies it as `public` and does not mask it; the values of all others are
not even collected. Each table is read at most once, and no more of it than the messages that are asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from cdc_materializer.batch import batch
from cdc_materializer.batch.past import Past, changes_of
from cdc_materializer.changes import model as m
from cdc_materializer.contract import Contract
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import Lake
from cdc_materializer.line.line import Line
from cdc_materializer.names import TableName
from cdc_materializer.report.samples import Place, Sampled, Sampler
from cdc_materializer.run.contracts import readable
from cdc_materializer.run.run import SMALL_RUN_MESSAGES, RunOptions, Work, open_work, session_for
from cdc_materializer.session.session import beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.config import Config

#: Characters of a value that are shown; what is longer is cut, with a sign for it.
VALUE_CHARACTERS = 200
_ROW_OPS = frozenset({"c", "r", "u"})


@contextmanager
def open_sampler(config: Config, names: Sequence[str], spark: SparkSession | None = None) -> Iterator[Sampler]:
    """Give what reads samples; Spark is started when the first message is asked for, and stopped at the end.

    Args:
        config: from `load_config`.
        names: the mirrors that may be asked for; all for none.
        spark: a session with Iceberg's extensions, where there is one.

    Raises:
        CdcError: as `open_work`; what is read later raises it then.
    """
    work = open_work(config, RunOptions(tables=tuple(names)))
    with ExitStack() as held:
        sessions: list[SparkSession] = []

        def read(name: TableName, places: Collection[Place]) -> Sampled:
            contract = readable(work.contracts).get(str(name))
            if not places or contract is None or not contract.public:
                return Sampled(left_out=_declared(contract))
            if not sessions:
                # Without contracts: nothing is judged here, so Great Expectations need not be imported.
                without = replace(work, contracts={})
                sessions.append(held.enter_context(session_for(without, spark, SMALL_RUN_MESSAGES)))
            with translated(name):
                return _read(_line(work, name, sessions[0]), contract, places)

        yield read


def _declared(contract: Contract | None) -> tuple[str, ...]:
    return tuple(column.name for column in contract.columns) if contract is not None else ()


def _line(work: Work, name: TableName, session: SparkSession) -> Line:
    (table,) = (table for table in work.tables if table.mirror == name)
    lake = Lake(beside(session, work.config), work.config.catalog.name, read_only=True)
    return Line(work.config.name, table, work.source, work.registry, work.contracts.get(str(name)), lake)


def _read(line: Line, contract: Contract, places: Collection[Place]) -> Sampled:
    raw, mirror = line.lake.load(line.mirror.raw), line.lake.load(line.mirror)
    if raw is None:
        return Sampled(left_out=_declared(contract))
    # Literals, so that Iceberg opens the files alone that may have them.
    stored = line.lake.rows(raw).where(_lies_at(places))
    messages = batch.messages(stored, None, line.id_bytes).localCheckpoint()
    decoders = find_decoders(messages, line.lookup(mirror.schema if mirror is not None else None))
    target = decoders.plan.target
    public = {name.casefold() for name in contract.public}
    shown = tuple(name for name in target.types if name.casefold() in public)
    named = dict.fromkeys((*target.types, *_declared(contract)))
    left_out = tuple(name for name in named if name.casefold() not in public)
    if not shown:
        return Sampled(left_out=left_out)
    changes = changes_of(messages, decoders, decoders.folded, Past(line.lookup(target)))
    known = (m.PARTITION, m.OFFSET, m.PART, m.OP, m.ABSENT, m.UNAVAILABLE, m.PROBLEMS)
    values = [_text(m.column(name), target.types[name]).alias(f"__cdc_shown_{at}") for at, name in enumerate(shown)]
    # Which of them are rows is decided here: Spark would push a filter through the decoding.
    rows = changes.select(*known, *values).collect()
    found = {
        (row[m.PARTITION], row[m.OFFSET]): dict(_values(row, shown))
        for row in sorted(rows, key=lambda row: int(row[m.PART]))
        if row[m.OP] in _ROW_OPS
    }
    return Sampled(shown, left_out, found)


def _lies_at(places: Collection[Place]) -> Column:
    partitions = {partition for partition, _ in places}
    tests = [
        (F.col("partition") == partition) & F.col("offset").isin(sorted(o for p, o in places if p == partition))
        for partition in sorted(partitions)
    ]
    return reduce(or_, tests)


def _text(value: Column, ddl: str) -> Column:
    whole = F.hex(value) if ddl == "binary" else value.cast("string")
    cut = F.concat(F.substring(whole, 1, VALUE_CHARACTERS), F.lit("…"))
    return F.when(F.length(whole) > VALUE_CHARACTERS, cut).otherwise(whole)


def _values(row: Row, shown: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """The values that the message has: what it leaves out, or what does not fit the column, is none."""
    missing = {*row[m.ABSENT], *row[m.UNAVAILABLE], *(problem["column"] for problem in row[m.PROBLEMS])}
    for at, name in enumerate(shown):
        if name not in missing:
            yield name, row[f"__cdc_shown_{at}"]
