"""The namespaces of the tables that a run works on: each is made once, and stops only those tables that are in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.errors import CdcError, SparkEnded
from cdc_materializer.progress import Backlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_materializer.lake.lake import Lake


def prepared(spark: SparkSession, open_lake: Callable[[], Lake], waiting: Sequence[Backlog]) -> list[Backlog]:
    """The same tables, with an error those whose namespace cannot be made; see `Lake.prepare`.

    A catalog that cannot be reached is asked once, for each question takes as long as it is waited for; tables in other
    namespaces are told so in the words of the one that was asked for.

    Args:
        spark: any session of the Spark that is used.
        open_lake: gives that through which they are made, before several sessions use the catalog.
        waiting: where the tables stand; what has nothing to do, or has failed, needs none.
    """
    asked: dict[tuple[str, ...], CdcError | None] = {}
    away: CdcError | None = None
    found = []
    for backlog in waiting:
        name = backlog.table.mirror
        if backlog.is_done or backlog.error is not None:
            found.append(backlog)
            continue
        if name.namespace not in asked:
            asked[name.namespace] = away or _failure(spark, open_lake, backlog)
        failure = asked[name.namespace]
        away = failure if failure is not None and _concerns_all(failure) else away
        found.append(backlog if failure is None else replace(backlog, error=failure))
    return found


def _failure(spark: SparkSession, open_lake: Callable[[], Lake], backlog: Backlog) -> CdcError | None:
    """Why the namespace of a table cannot be made; None where it is there."""
    from cdc_materializer.session.watch import watched

    try:
        with watched(spark):
            open_lake().prepare(backlog.table.mirror)
    except CdcError as failure:
        return failure
    return None


def _concerns_all(failure: CdcError) -> bool:
    """Whether it would be the same for any other namespace."""
    from cdc_materializer.lake.errors import is_unreached

    return isinstance(failure, SparkEnded) or is_unreached(failure)
