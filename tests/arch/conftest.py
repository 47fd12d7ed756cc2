"""The package's modules, parsed once, for the tests of its shape."""

import ast
import gc
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "cdc_materializer"


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its place for messages, its text and its syntax tree."""

    name: str
    place: str
    text: str
    tree: ast.Module

    @property
    def unit(self) -> str:
        """The part of the package it belongs to: `decode` for cdc_materializer.decode.wire; empty for the package."""
        return self.name.partition(".")[2].partition(".")[0]

    def is_in(self, places: Collection[str]) -> bool:
        """Whether it is one of these files or in one of these folders: `run` has `run.pace`, `run.run` itself alone."""
        below = self.name.partition(".")[2]
        return any(below == place or below.startswith(f"{place}.") for place in places)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of its tree, found once for all tests."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def uses(self) -> tuple[tuple[int, str], ...]:
        """Every name that its code uses, dotted as it stands there, with its line; text and comments do not count."""
        return tuple((node.lineno, _dotted(node)) for node in self.nodes if isinstance(node, (ast.Attribute, ast.Name)))


def _dotted(node: ast.AST) -> str:
    """Return `a.b.c` for an attribute of an attribute of a name, and what is known of it for anything else."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def parse(path: Path) -> Module:
    """Read one source file of the package or of the tests."""
    place = path.relative_to(ROOT)
    parts = place.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Module(name, place.as_posix(), text, ast.parse(text))


def parse_all(folder: str) -> tuple[Module, ...]:
    """Read every source file of a folder."""
    # The trees are half a million things that stay to the end; the garbage collector would look at them all the time.
    gc.disable()
    try:
        return tuple(parse(path) for path in sorted((ROOT / folder).rglob("*.py")))
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    return parse_all(PACKAGE)


@pytest.fixture(scope="session")
def suite() -> tuple[Module, ...]:
    """Every module of the tests."""
    return parse_all("tests")
