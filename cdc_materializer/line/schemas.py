"""What the names of schemas in a table's messages stood for, kept as properties of its raw table (decision 35)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from cdc_materializer.batch import batch, verdict
from cdc_materializer.changes import model as m
from cdc_materializer.decode.naming import SchemaName
from cdc_materializer.fold import fold
from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import MAIN
from cdc_materializer.merge import table_path
from cdc_materializer.registry.bound import Bound, BoundRegistry
from cdc_materializer.retry import COMMIT

if TYPE_CHECKING:
    from cdc_materializer.batch.steps import Decided
    from cdc_materializer.lake.lake import Lake, LakeTable
    from cdc_materializer.line.line import Line
    from cdc_materializer.names import TableName
    from cdc_materializer.registry import Registry


def bound_to(lake: Lake, mirror: TableName, registry: Registry | None) -> BoundRegistry | None:
    """The registry, which is to have the schemas that messages of a mirror were decoded by; None without one."""
    return BoundRegistry(registry, lambda: _known(lake, mirror.raw), str(mirror)) if registry is not None else None


def remember_batch(line: Line, raw: LakeTable, decided: Decided) -> None:
    """Keep which schemas a batch that is about to be published was decoded by; as a rule these are known.

    Those of messages that are held bind nothing: nobody has seen a value of theirs, and a schema may be mended.
    """
    bound = line.bound
    if bound is None or not decided.published:
        return
    writers = decided.decoders.writers
    # A name may have been looked up for the past of a key, and none of the batch's own messages has it.
    fresh = (bound.met.keys() - bound.used) & _names((*writers.known_values, *writers.known_keys))
    if fresh:
        # Of messages that are read once more nothing is looked up here: all count as used.
        is_clear = decided.again or not decided.counts[verdict.QUARANTINED]
        bound.used |= fresh if is_clear else fresh & _told(line, raw, decided)
    remember(line.lake, line.mirror, bound)


def _names(selectors: Iterable[str]) -> set[str]:
    """Schemas' names as they are remembered, of those selectors that have one."""
    parsed = (SchemaName.parse(selector) for selector in selectors)
    return {f"{name.kind}:{name.text}" for name in parsed if name is not None}


def _told(line: Line, raw: LakeTable, decided: Decided) -> set[str]:
    """The names that a batch's messages carry which are not held."""
    messages = batch.messages(line.lake.rows(raw), decided.span, line.id_bytes)
    is_told = F.col(fold.CURRENT) & (F.col(verdict.OUTCOME) != verdict.QUARANTINED)
    told = decided.states.where(is_told).select(m.PARTITION, m.OFFSET).distinct()
    places = [F.col("partition") == F.col(m.PARTITION), F.col("offset") == F.col(m.OFFSET)]
    names = F.array_compact(F.array("value_writer", "key_writer"))
    found = messages.join(told, places, "left_semi").select(F.explode(names).alias("name")).distinct().collect()
    return _names(row["name"] for row in found)


def remember(lake: Lake, mirror: TableName, bound: BoundRegistry | None) -> None:
    """Keep the schemas that were used.

    What is published to no reader, on a replay's branch, binds nothing yet.
    """
    if bound is None or not bound.kept or lake.branch != MAIN:
        return

    def write() -> None:
        with translated(mirror.raw):
            table: Any = lake.iceberg(mirror.raw)
            state = table.operations().current()
            known = Bound.of(table.properties(), str(mirror.raw))
            bound.hold_against(known)
            news = known.with_met(bound.place, bound.kept).beyond(known)
            if not news:
                return
            change = table.newTransaction()
            update = change.updateProperties()
            for key, text in news.items():
                update.set(key, text)
            update.commit()
            # On that state or not at all, so that of two that have met different schemas by one name one is told. A
            # REST catalog is asked to compare no properties, and the later one's stands: so it is read again.
            table.operations().commit(state, change.table().operations().current())
            table.refresh()
            bound.hold_against(Bound.of(table.properties(), str(mirror.raw)))

    COMMIT.call(write)


def _known(lake: Lake, raw: TableName) -> Bound:
    with translated(raw):
        if not lake.spark.catalog.tableExists(table_path(lake.catalog, raw)):
            return Bound()
        return Bound.of(lake.iceberg(raw).properties(), str(raw))
