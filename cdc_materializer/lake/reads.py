"""What a query reads, by the plan that Spark has made of it: a text can name a table in ways that no pattern finds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.names import TableName


@dataclass(frozen=True)
class Reading:
    """One table that a query reads.

    Attributes:
        parts: its name in the catalog, with what stands behind that: a state of it, or a table that Iceberg has of it.
        snapshot: the state that is read; None where it is not one.
    """

    parts: tuple[str, ...]
    snapshot: int | None

    def behind(self, name: TableName) -> tuple[str, ...] | None:
        """What stands behind the name of a table; None where it is another table."""
        own = (*name.namespace, name.name)
        is_it = [part.casefold() for part in self.parts[: len(own)]] == [part.casefold() for part in own]
        return self.parts[len(own) :] if is_it else None


def readings(answer: DataFrame, catalog: str, views: Collection[str]) -> Iterator[Reading]:
    """The tables of a catalog that a query reads, wherever in it, less what is behind some temporary views.

    Args:
        answer: the query, of which nothing was read yet.
        catalog: the catalog.
        views: the views' names.
    """
    plans: list[Any] = [answer._jdf.queryExecution().analyzed()]  # noqa: SLF001 - PySpark has no public way to it
    while plans:
        plan = plans.pop()
        kind = plan.getClass().getSimpleName()
        if kind == "View" and plan.isTempView() and plan.desc().identifier().unquotedString() in views:
            continue
        if kind == "DataSourceV2Relation" and plan.catalog().isDefined() and plan.catalog().get().name() == catalog:
            identifier, table = plan.identifier().get(), plan.table()
            # What has changed between snapshots is in no single one of them.
            one = table.snapshotId() if table.getClass().getSimpleName() == "SparkTable" else None
            yield Reading((*identifier.namespace(), identifier.name()), one)
        for found in (plan.children(), plan.subqueries()):
            plans += [found.apply(at) for at in range(found.size())]
