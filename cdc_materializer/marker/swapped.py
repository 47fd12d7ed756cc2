"""What a swap or a rollback of a mirror leaves: the tag of what it was, and what it says of quarantine. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from cdc_materializer.strict_json import as_number, refuse

#: The tag of what a swap has replaced.
BEFORE_REPLAY = "cdcm-before-replay"


@dataclass(frozen=True)
class Swapped:
    """What quarantine is to become when a mirror was swapped in or taken back; no commit changes both tables.

    Attributes:
        held: the snapshot of quarantine that has what this state of the mirror holds.
        before: the one that has what the state before it held, and is kept with that; None where nothing more is kept.
    """

    held: int
    before: int | None = None

    def to_text(self) -> str:
        """Return it as markers have it."""
        return str(self.held) if self.before is None else f"{self.held} {self.before}"

    @classmethod
    def from_text(cls, text: str | None) -> Swapped | None:
        """Read what a marker has, one number or two; None where it has none.

        Raises InvariantBroken for anything else.
        """
        if text is None:
            return None
        numbers = [as_number(part, "swapped") for part in text.split(" ")]
        return cls(*numbers) if len(numbers) in (1, 2) else refuse("`swapped` that is none")
