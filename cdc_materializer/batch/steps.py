"""What the steps of a batch hand on: the messages that were read, what was decided of them, and what was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cdc_materializer.errors import Code
from cdc_materializer.marker.sweeps import SweepPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cdc_materializer.batch.facts import Facts
    from cdc_materializer.decoders.decoders import Decoders
    from cdc_materializer.offsets import Offsets, Span
    from cdc_materializer.order.truncates import Truncate


@dataclass(frozen=True)
class Reading:
    """The messages of a batch, and who can decode them.

    Attributes:
        span: the messages that the mirror has not got yet.
        own: the span's messages, and those from before it that can be read only now.
        earlier: the other messages before the span; None where there are none.
        retried: where the messages from before the span lie; None where the batch has none.
        decoders: for the batch's own messages.
        limit: how many offsets the span could have had; 0 where that was not asked.
    """

    span: Span
    own: DataFrame
    earlier: DataFrame | None
    retried: Span | None
    decoders: Decoders
    limit: int = 0


@dataclass(frozen=True)
class Decided:
    """A batch ready to be published: its states with their outcomes, and the sums over them."""

    states: DataFrame
    decoders: Decoders
    facts: Facts
    truncates: tuple[Truncate, ...]
    span: Span
    counts: dict[str, int]
    violations: dict[str, int]
    blocked: tuple[str, ...]
    published: int
    marked: int = 0
    applied: int = 0
    #: Rows for the mirror; of how many keys there are two, and how many have no key: `tally.check_keys`.
    written: int = 0
    doubled: int = 0
    keyless: int = 0
    #: What its violations add up to: `tally.wrongs`.
    wrongs: str = "0"
    #: Rules about rows that are only tried, and that this batch could not judge: `judging.judge`.
    untried: tuple[str, ...] = ()
    snapshots: SweepPlan = field(default_factory=SweepPlan)
    #: How many messages from before its span it reads once more.
    again: int = 0

    @property
    def looks_back(self) -> bool:
        """Whether it reads messages once more that an earlier batch has read."""
        return self.span.is_empty or bool(self.again)

    def violations_with(self, of_table: int) -> dict[str, int]:
        """The violations by code, with so many rules about the table that only warn."""
        code = str(Code.CONTRACT)
        return self.violations | ({code: self.violations.get(code, 0) + of_table} if of_table else {})


@dataclass(frozen=True)
class Batch:
    """What one batch did: nothing but landing, where the mirror has no snapshot yet.

    Rows that a snapshot did not show are no message's; they are counted in `swept` alone. In `foreign` are the commits
    of other programs that it found in the tables. It has `covered` so many offsets of raw's, of `limit` that it could.
    """

    counts: dict[str, int]
    violations: dict[str, int]
    offsets: Offsets
    raw_snapshot: int
    mirror_snapshot: int | None
    swept: int = 0
    foreign: int = 0
    covered: int = 0
    limit: int = 0
