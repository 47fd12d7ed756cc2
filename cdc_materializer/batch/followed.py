"""What a batch and all before it say of snapshots, for tables that end the rows which a complete one does not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_materializer.batch.past import Past, changes_of
from cdc_materializer.decoders.decoders import find_decoders
from cdc_materializer.marker.sweeps import Sweep, SweepPlan
from cdc_materializer.order import sweeping
from cdc_materializer.order.sweeping import Watch
from cdc_materializer.schema.schema import TableSchema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def located(sweeps: Sequence[Sweep], own: DataFrame, past: Past, target: TableSchema) -> tuple[Sweep, ...]:
    """The sweeps with the last records of their snapshots, from the batch or from raw."""
    found = sweeping.located(sweeps, own)
    if past.raw is None or all(sweep.end is not None for sweep in found):
        return found
    ends = past.raw.where(sweeping.is_at_end(found, "partition", "offset"))
    return sweeping.located(found, changes_of(ends, find_decoders(ends, past.lookup), target, past))


def follow(states: DataFrame, past: Past, watch: Watch, target: TableSchema) -> SweepPlan:
    """What the batch says of snapshots; of all before it too, where the marker does not tell enough."""
    earlier = None
    if watch.known is None and past.raw is not None:
        earlier = changes_of(past.raw, find_decoders(past.raw, past.lookup), target, past)
    plan = sweeping.follow(states, earlier, watch)
    if plan.is_unsure and earlier is None and past.raw is not None:
        return follow(states, past, replace(watch, known=None), target)
    return plan
