"""What a query reads, by the plan that Spark has made of it: a text can name a table in ways that no pattern finds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_materializer.errors import ContractInvalid
from cdc_materializer.line import marker_of
from cdc_materializer.line_checks import check_masks, check_masks_then

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.line import Line
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


def check_reading(line: Line, name: TableName, reading: Reading) -> None:
    """Refuse rows that were masked otherwise than the contract says, those of a mirror's earlier states too.

    Args:
        line: the way of the table that is read.
        name: the table: the mirror, or its history, which has what was published.
        reading: how it is read.

    Raises:
        ContractInvalid: says which columns.
    """
    check_masks(line, line.load_mirror())
    is_of_all = any(part.casefold().startswith("all_") for part in reading.behind(name) or ())
    if name == line.mirror:
        check_masks_then(line, None if is_of_all else reading.snapshot)
    else:
        _check_history(line)


def _check_history(line: Line) -> None:
    """Refuse a history with rows that were not masked as the contract says; what it once had, it has."""
    history = line.lake.load(line.mirror.history)
    if history is None:
        return
    columns = line.lake.fields(history, "after").types
    shown = line.masks.unhidden(marker_of(history).masks, columns, line.evolution.renames)
    if shown:
        what = f"{line.mirror.history} has rows from before {', '.join(shown)} was masked as the contract says now."
        raise ContractInvalid(
            what, "Ask the mirror; or drop the history, which then begins anew with the next changes."
        )
