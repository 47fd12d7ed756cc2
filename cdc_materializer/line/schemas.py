"""What the names of schemas in a table's messages stood for, kept as a property of its raw table (decision 35)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import MAIN
from cdc_materializer.merge import table_path
from cdc_materializer.registry.bound import PROPERTY, Bound, BoundRegistry
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
    place, met = bound.place, bound.met

    def write() -> None:
        with translated(mirror.raw):
            table: Any = lake.iceberg(mirror.raw)
            state = table.operations().current()
            known = Bound.of(table.properties().get(PROPERTY), str(mirror.raw))
            now = known.with_met(place, met)
            if now == known:
                return
            change = table.newTransaction()
            change.updateProperties().set(PROPERTY, now.text).commit()
            # On that state or not at all: Iceberg would write over what another process has met meanwhile. A REST
            # catalog is asked to compare no properties, and writes over it all the same.
            table.operations().commit(state, change.table().operations().current())

    COMMIT.call(write)


def _known(lake: Lake, raw: TableName) -> Bound:
    with translated(raw):
        if not lake.spark.catalog.tableExists(table_path(lake.catalog, raw)):
            return Bound()
        return Bound.of(lake.iceberg(raw).properties().get(PROPERTY), str(raw))
