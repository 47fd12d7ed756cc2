"""Samples for a report: values of a few rows, of columns that the contract classifies as public and does not mask.

Pure. Which messages are looked at is decided here; who reads them is passed in, and reads each table at most once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cdc_materializer.names import TableName
from cdc_materializer.report.groups import OPEN, Row, is_of_table
from cdc_materializer.report.models import MessagePlace
from cdc_materializer.report.violation_models import Sample, SampleColumns, ViolationGroup

Place = tuple[int, int]


@dataclass(frozen=True)
class Sampled:
    """What was read of a table's messages: its columns by whether they may be shown, and the values by place."""

    shown: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    rows: Mapping[Place, Mapping[str, str | None]] = field(default_factory=dict)


class Sampler(Protocol):
    """Reads messages."""

    def __call__(self, name: TableName, places: Collection[Place]) -> Sampled:
        """Return the public values of a mirror's messages at (partition, offset); places without any are left out."""


@dataclass(frozen=True)
class Sampling:
    """How many rows of each violation are shown at most, and who reads them."""

    rows_max: int
    read: Sampler


def choose(rows: Sequence[Row], limit: int) -> list[Place]:
    """Return the places of the messages to show, at most so many: the first that are open, else the first.

    Args:
        rows: quarantine rows of one group, in the order of their messages.
        limit: the most places.
    """
    waiting = [row for row in rows if row["status"] == OPEN] or rows
    places = dict.fromkeys((row["partition"], row["offset"]) for row in waiting if not is_of_table(row))
    return list(places)[:limit]


def with_samples(
    name: TableName, groups: Sequence[ViolationGroup], chosen: Sequence[Sequence[Place]], sampling: Sampling
) -> tuple[list[ViolationGroup], SampleColumns]:
    """Add to each group the values of its chosen messages, and say which columns are shown and which are not."""
    wanted = {place for places in chosen for place in places}
    found = sampling.read(name, wanted)
    sampled = [
        group.model_copy(update={"samples": [_sample(group, place, found) for place in places if place in found.rows]})
        for group, places in zip(groups, chosen, strict=True)
    ]
    return sampled, SampleColumns(shown=list(found.shown), left_out=list(found.left_out))


def _sample(group: ViolationGroup, place: Place, found: Sampled) -> Sample:
    partition, offset = place
    # Cut to the columns that may be shown, whatever was read.
    values = {column: value for column, value in found.rows[place].items() if column in found.shown}
    return Sample(place=MessagePlace(topic=group.first.topic, partition=partition, offset=offset), values=values)
