"""The package's modules, parsed once, for the tests of its shape."""

import ast
from dataclasses import dataclass
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


def parse(path: Path) -> Module:
    """Read one source file of the package or of the tests."""
    place = path.relative_to(ROOT)
    parts = place.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Module(name, place.as_posix(), text, ast.parse(text))


@pytest.fixture(scope="session")
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    return tuple(parse(path) for path in sorted((ROOT / PACKAGE).rglob("*.py")))


@pytest.fixture(scope="session")
def suite() -> tuple[Module, ...]:
    """Every module of the tests."""
    return tuple(parse(path) for path in sorted((ROOT / "tests").rglob("*.py")))
