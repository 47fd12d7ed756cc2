"""Inserts of key changes that a mirror has published without the values which only their deletes tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cdc_materializer.strict_json import as_offset, as_text, refuse

#: A marker keeps so many, the newest ones: a snapshot's summary is no place for thousands.
UNPAIRED_MAX = 100


@dataclass(frozen=True)
class Unpaired:
    """An insert that has left values out, and whose other half, the delete of the old key, was not read with it.

    The two are in different partitions, or the delete was held.

    Attributes:
        position: the source position that both halves have.
        partition: where the insert is.
        offset: likewise, as raw counts it.
    """

    position: str
    partition: int
    offset: int

    def to_json(self) -> list[object]:
        """Return it as markers have it."""
        return [self.position, self.partition, self.offset]

    @classmethod
    def from_json(cls, found: object) -> Unpaired:
        """Read what `to_json` has written.

        Raises InvariantBroken for anything else.
        """
        if not isinstance(found, list) or len(found) != len(cls.__dataclass_fields__):
            return refuse("`unpaired` that are none")
        return cls(as_text(found[0]), as_offset(found[1]), as_offset(found[2]))


def newest(known: Iterable[Unpaired], found: Iterable[Unpaired]) -> tuple[Unpaired, ...]:
    """Those that a marker keeps of all that are known, and of what a batch has found in the order of its times."""
    return tuple(dict.fromkeys((*known, *found)))[-UNPAIRED_MAX:]
