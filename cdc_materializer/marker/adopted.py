"""What someone accepted as lost or rewound, as the markers keep it (`cdcm adopt`). Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, Self, TypeAlias

from cdc_materializer.strict_json import as_offset, as_text, read_offsets, refuse

Accepted: TypeAlias = Literal["gap", "topic", "positions"]


@dataclass(frozen=True)
class Adoption:
    """What someone accepted as lost or rewound (`cdcm adopt`), as the markers keep it.

    Attributes:
        what: `gap` (messages left the topic unread), `topic` (it was made again, or lost its end), or `positions` (the
            database went back).
        offsets: where in each partition the table goes on after it.
        lost: at most so many messages were never read.
        at: when, ISO 8601 in UTC.
        by: the name of the user who ran the command.
        reason: what they said to it.
        began: where in each partition it had got before; empty for `positions`, and where a version that did not keep
            it has accepted it.
    """

    what: Accepted
    offsets: Mapping[int, int]
    lost: int
    at: str
    by: str
    reason: str | None = None
    began: Mapping[int, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """Return it as JSON has it."""
        told = {**asdict(self), "offsets": dict(self.offsets), "began": dict(self.began)}
        return {name: value for name, value in told.items() if name != "began" or value}

    @classmethod
    def from_json(cls, found: Mapping[str, object]) -> Self:
        """Read what `to_json` has written; raises InvariantBroken for anything else."""
        what, offsets, reason = found.get("what"), found.get("offsets"), found.get("reason")
        began = found.get("began", {})
        if what not in ("gap", "topic", "positions") or not isinstance(offsets, dict) or not isinstance(began, dict):
            refuse("an adoption that is none")
        return cls(
            what=what,
            offsets=read_offsets(offsets),
            lost=as_offset(found.get("lost")),
            at=as_text(found.get("at")),
            by=as_text(found.get("by")),
            reason=None if reason is None else as_text(reason),
            began=read_offsets(began),
        )
