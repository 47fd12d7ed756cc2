"""Which transactions were read of logs whose servers number them: GTID sets, as MySQL and MariaDB keep them.

Pure. A server that takes over from another has the same transactions at places of its own, so that what it sends again
looks new by its place. Only a transaction's number tells then, and only one that was read can come again. A set has
numbers between two that were read too: whether such a transaction was read is for the log itself to say (`resends`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self, TypeAlias

from cdc_materializer.strict_json import as_number, as_offset, as_text, read_object, refuse, write_json

#: Two runs of numbers that are no further apart are one. Members of a group (MySQL's group replication) take numbers
#: from blocks of a million each, so that a set of one run would have what another member is yet to write.
NEAR = 100_000
#: So many runs are kept of a log in a partition; of more the two nearest are taken for one.
_RUNS_MAX = 8
_PAIR = 2

#: The first and the last number.
Run: TypeAlias = tuple[int, int]
Runs: TypeAlias = tuple[Run, ...]


@dataclass(frozen=True)
class GtidSets:
    """The transactions that were read.

    Attributes:
        sets: by log (`changes.positions.log`) and partition, the runs of numbers that were read, in order.
        last: the transaction of each partition's highest position, its log and its number, if it was new when it came.
    """

    sets: Mapping[str, Mapping[int, Runs]] = field(default_factory=dict)
    last: Mapping[int, tuple[str, int]] = field(default_factory=dict)

    def of(self, log: str, partition: int | None) -> Runs:
        """The runs of a log in a partition; in any, where none is given."""
        found = self.sets.get(log, {})
        if partition is not None:
            return found.get(partition, ())
        return joined(run for runs in found.values() for run in runs)

    def may_have(self, log: str | None, number: int | None, partition: int | None) -> bool:
        """Whether a transaction may have been read."""
        if log is None or number is None:
            return False
        return any(first <= number <= last for first, last in self.of(log, partition))

    def with_read(self, other: Self, last: Mapping[int, tuple[str, int]]) -> Self:
        """These and what a batch has read.

        Args:
            other: the batch's.
            last: the transactions of the highest positions after it.
        """
        sets = {log: dict(by_partition) for log, by_partition in self.sets.items()}
        for log, by_partition in other.sets.items():
            known = sets.setdefault(log, {})
            for partition, runs in by_partition.items():
                known[partition] = joined((*known.get(partition, ()), *runs))
        return type(self)(sets, last)

    def to_json(self) -> str:
        """Return them as text; equal ones give equal text."""
        sets = {
            log: {str(partition): [list(run) for run in runs] for partition, runs in sorted(by_partition.items())}
            for log, by_partition in sorted(self.sets.items())
        }
        last = {str(partition): list(found) for partition, found in sorted(self.last.items())}
        return write_json({"sets": sets, "last": last})

    @classmethod
    def from_json(cls, text: str | None) -> Self:
        """Read what `to_json` has written; nothing where there is nothing.

        Raises:
            InvariantBroken: it is something else.
        """
        found = read_object(text) if text else {}
        sets, last = _object(found.get("sets", {})), _object(found.get("last", {}))
        return cls(
            {
                log: {as_number(partition, "partition"): _runs(runs) for partition, runs in _object(known).items()}
                for log, known in sets.items()
            },
            {as_number(partition, "partition"): _transaction(one) for partition, one in last.items()},
        )


def joined(runs: Iterable[Run]) -> Runs:
    """The runs in order, those that are near made one."""
    found: list[Run] = []
    for first, last in sorted(runs):
        if found and first - found[-1][1] <= NEAR:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    while len(found) > _RUNS_MAX:
        at = min(range(len(found) - 1), key=lambda at: found[at + 1][0] - found[at][1])
        found[at : at + 2] = [(found[at][0], found[at + 1][1])]
    return tuple(found)


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else refuse("a set of transactions that is none")


def _runs(value: object) -> Runs:
    found = [_pair(one) for one in value] if isinstance(value, list) else refuse("a set of transactions that is none")
    runs = tuple((as_offset(first), as_offset(last)) for first, last in found)
    is_ordered = all(first <= last for first, last in runs) and all(one[1] < two[0] for one, two in pairwise(runs))
    return runs if is_ordered else refuse("a set of transactions that is in no order")


def _transaction(value: object) -> tuple[str, int]:
    log, number = _pair(value)
    return as_text(log), as_offset(number)


def _pair(value: object) -> tuple[object, object]:
    if not isinstance(value, list) or len(value) != _PAIR:
        refuse("a transaction that is none")
    return value[0], value[1]
