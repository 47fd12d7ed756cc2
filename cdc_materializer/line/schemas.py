"""What the names of schemas in a table's messages stood for, kept as a property of its raw table (decision 35)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cdc_materializer.lake.errors import translated
from cdc_materializer.lake.lake import MAIN
from cdc_materializer.merge import table_path
from cdc_materializer.registry.bound import PROPERTY, Bound, BoundRegistry

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
    known = _known(lake, mirror.raw)
    now = known.with_met(bound.place, bound.met)
    if now != known:
        with translated(mirror.raw):
            table: Any = lake.iceberg(mirror.raw)
            table.updateProperties().set(PROPERTY, now.text).commit()


def _known(lake: Lake, raw: TableName) -> Bound:
    with translated(raw):
        if not lake.spark.catalog.tableExists(table_path(lake.catalog, raw)):
            return Bound()
        return Bound.of(lake.iceberg(raw).properties().get(PROPERTY), str(raw))
