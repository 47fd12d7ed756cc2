"""How the states of a batch are judged: the contract's rules, the table's settings, and what its topic is like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F

from cdc_materializer.batch import doubts
from cdc_materializer.changes import model as m
from cdc_materializer.contract.judge import CompiledRule
from cdc_materializer.errors import Code
from cdc_materializer.order.epochs import Recorded


@dataclass(frozen=True)
class Judgement:
    """How states are judged: by the contract's compiled rules, the table's settings, and what its topic is like.

    Attributes:
        rules: the contract's, compiled.
        strict: the table's setting.
        truncate: the table's setting.
        recorded: how many partitions the topic has, and how far it had one.
        unreconciled: the messages at which a snapshot turned out to be of no use for a sweep: partition and offset.
        waiting: those at which one has ended that may yet be of use.
        partial: truncates beside which there are rows of other partitions that have no position.
        wiped: truncates that were applied before they were ignored.
        passed: those that were ignored before they were applied.
        routed: whether several source tables feed the mirror.
        has_past: whether the batch has the past of some keys, which may not all be those of its messages.
        mends: whether the batch tells what key changes of earlier ones have left out, so that rows may change of which
            it has no message.
        refused: rules of the contract's that are only tried and cannot be compiled, each with why.
    """

    rules: tuple[CompiledRule, ...] = ()
    strict: bool = False
    truncate: str = "apply"
    recorded: Recorded = field(default_factory=Recorded)
    unreconciled: tuple[tuple[int, int], ...] = ()
    waiting: tuple[tuple[int, int], ...] = ()
    partial: tuple[tuple[int, int], ...] = ()
    wiped: tuple[tuple[int, int], ...] = ()
    passed: tuple[tuple[int, int], ...] = ()
    routed: bool = False
    has_past: bool = False
    mends: bool = False
    refused: Mapping[str, str] = field(default_factory=dict)

    def is_unordered(self) -> Column:
        """Whether a message is a truncate of which nobody can say what comes before it."""
        if self.truncate != "apply" or self.recorded.partitions == 1:
            return F.lit(False)
        is_lost = (F.col(m.OP) == m.TRUNCATE) & F.col(m.POSITION).isNull()
        return F.coalesce(is_lost & ~self.recorded.was_alone(F.col(m.PARTITION), F.col(m.OFFSET)), F.lit(False))

    def is_applied(self) -> Column:
        """Whether a truncate ends rows."""
        return (F.lit(self.truncate == "apply") & ~_is_at(self.passed)) | _is_at(self.wiped)

    def is_unreconciled(self) -> Column:
        """Whether a message tells that rows which a snapshot did not show stay."""
        return _is_at(self.unreconciled)

    def is_waiting(self) -> Column:
        """Whether a message tells the same as long as the snapshot's other partitions have not been read."""
        return _is_at(self.waiting)

    def is_partial(self) -> Column:
        """Whether a message is a truncate that may have left rows which it ended in the source."""
        return _is_at(self.partial)

    def is_doubted(self) -> Column:
        """Whether a change is held because nothing but timestamps places it."""
        return F.col(doubts.DOUBTED) if self.strict else F.lit(False)

    def is_another_row(self) -> Column:
        """Whether a message was held because another table's row has its key, and that key is not its row's since."""
        if not self.routed:
            return F.lit(False)
        is_others = ~F.col(m.SOURCE_TABLE).eqNullSafe(F.col("__cdc_final_table"))
        return (F.col(m.CODE) == str(Code.KEY_COLLISION)) & is_others


def _is_at(places: Sequence[tuple[int, int]]) -> Column:
    found = F.lit(False)
    for partition, offset in places:
        found = found | ((F.col(m.PARTITION) == partition) & (F.col(m.OFFSET) == offset) & (F.col(m.PART) == 0))
    return found
