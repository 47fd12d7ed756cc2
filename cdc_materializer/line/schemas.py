"""What the names of schemas in a table's messages stood for, kept as properties of its raw table (decision 35)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import MAIN
from cdc_materializer.merge import table_path
from cdc_materializer.registry.bound import Bound, BoundRegistry
from cdc_materializer.retry import COMMIT

if TYPE_CHECKING:
    from cdc_materializer.lake.lake import Lake
    from cdc_materializer.names import TableName
    from cdc_materializer.registry import Registry


def bound_to(lake: Lake, mirror: TableName, registry: Registry | None) -> BoundRegistry | None:
    """The registry, which is to have the schemas that messages of a mirror were decoded by; None without one."""
    return BoundRegistry(registry, lambda: _known(lake, mirror.raw), str(mirror)) if registry is not None else None


def remember(lake: Lake, mirror: TableName, bound: BoundRegistry | None) -> None:
    """Keep which schemas what is about to be published was decoded by; as a rule that is known, and nothing is written.

    What is published to no reader, on a replay's branch, binds nothing yet.
    """
    if bound is None or not bound.met or lake.branch != MAIN:
        return

    def write() -> None:
        with translated(mirror.raw):
            table: Any = lake.iceberg(mirror.raw)
            state = table.operations().current()
            known = Bound.of(table.properties(), str(mirror.raw))
            bound.hold_against(known)
            news = known.with_met(bound.place, bound.met).beyond(known)
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
