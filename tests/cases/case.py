"""Golden cases as they lie in their folders. `README.md` here describes the files."""

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
#: Ten times as fast as the one in Python, where PyYAML was built with it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Case:
    """One folder of golden cases, read."""

    name: str
    number: int
    data: dict[str, Any]
    expected: tuple[dict[str, Any], ...]
    contract: Path | None

    @classmethod
    def load(cls, folder: Path) -> "Case":
        """Read a case's files."""
        number, _, name = folder.name.partition("_")
        expected = tuple(yaml.load_all((folder / "expected.yaml").read_text(encoding="utf-8"), _LOADER))
        contract = folder / "contract.yaml"
        data = yaml.load((folder / "case.yaml").read_text(encoding="utf-8"), _LOADER)  # noqa: S506 - a safe one
        return cls(name, int(number), data, expected, contract if contract.exists() else None)

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What happens between the runs: the first messages, then each entry of `then`."""
        return [{"messages": self.data["messages"]}, *self.data.get("then", [])]

    @property
    def cut(self) -> int | None:
        """The most messages of a batch when the case also goes in small batches; None where it does not."""
        asked = self.data.get("cut_if_asked") if os.environ.get("CDCM_TESTS") == "all" else None
        return self.data.get("cut", asked)

    @property
    def registry_id(self) -> str:
        """What an id is in the registry of the case."""
        return str(self.data.get("registry_id", "confluent"))

    @property
    def stops(self) -> bool:
        """Whether a run of it fails."""
        return any(step.get("error") for step in self.expected)


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases, in order of their numbers."""
    found = [Case.load(path.parent) for path in sorted(FOLDER.glob("*/case.yaml"))]
    assert len({case.number for case in found}) == len(found), "two folders of tests/cases have one number"
    return tuple(found)
