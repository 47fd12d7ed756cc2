"""Which commits to the catalog in memory go wrong, and how.

Public, as `testing`, which has it under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

#: What becomes of a commit. `refused`: nothing happened, and the catalog says so. `lost`: nothing happened, and nobody
#: answers. `unanswered`: it happened, and nobody answers. `contradicted`: it happened, and the client, which asked
#: twice, is told that it lost. `late`: nobody answers, and it happens at `deliver`, if it still can. `killed`: the
#: process ends before it; `killed after`: right after it.
Fault: TypeAlias = Literal["refused", "lost", "unanswered", "contradicted", "late", "killed", "killed after"]
FAULTS: tuple[Fault, ...] = get_args(Fault)
#: What a client throws when nobody answers a commit: classes, outermost first.
NO_ANSWER = ("CommitStateUnknownException", "ServiceFailureException")


class Killed(BaseException):
    """The end of the process that was committing; only a test catches it."""


@dataclass(frozen=True)
class FaultPlan:
    """What becomes of the commits to come: `MemoryCatalog.follow` takes it. Those that it does not name go well.

    Attributes:
        faults: by the number of the commit, from 1. The making of a table is one too.
        table: the table whose commits count, by its quoted name, as `MemoryCatalog.tables` has it; None: those of all.
        falls_silent: whether nobody answers a question either, from the first of the faults on.
        no_answer: what the client throws when nobody answers: classes, outermost first.

    Raises:
        ValueError: a commit has a number below 1, or there is no such fault.

    >>> FaultPlan({3: "refused"}).faults[3]
    'refused'
    """

    faults: Mapping[int, Fault] = field(default_factory=dict)
    table: str | None = None
    falls_silent: bool = False
    no_answer: tuple[str, ...] = NO_ANSWER

    def __post_init__(self) -> None:
        """Keep the faults as they are now, if there are such."""
        for number, fault in self.faults.items():
            if number < 1 or fault not in FAULTS:
                message = f"Commit {number} cannot be {fault!r}: commits count from 1, and faults are {FAULTS}."
                raise ValueError(message)
        object.__setattr__(self, "faults", MappingProxyType(dict(self.faults)))
