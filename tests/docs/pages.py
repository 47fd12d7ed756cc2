"""The Markdown pages of the repository, taken apart for the tests."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A fenced block of a page."""

    page: Path
    kind: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The command lines of a console block, or of a shell block, without prompts and comments."""
        lines = [line.removeprefix("$ ") for line in self.text.splitlines()]
        return [line.partition(" #")[0].strip() for line in lines if line.strip()]


def snippets(*kinds: str) -> Iterator[Snippet]:
    """Give the blocks of these kinds, page by page."""
    for page in PAGES:
        for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
            if found[1] in kinds:
                yield Snippet(page, found[1], found[2])


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))
