"""The reference pages say what the code says."""

import importlib.util
import re
import sys
from collections.abc import Collection
from pathlib import Path
from types import ModuleType

import pytest
import typer

from cdc_materializer.cli import app
from cdc_materializer.config import config_json_schema
from cdc_materializer.contract.types import INTEGER_FORMATS, PLAIN
from cdc_materializer.errors import EXIT_CODES_WORST_FIRST, Code
from tests.docs.pages import DOCS


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """docs/generate.py, which is a program and no part of the package."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _page(name: str) -> str:
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def test_the_pages_are_those_that_the_code_gives(generator: ModuleType) -> None:
    """`make docs` was run after the last change."""
    stale = [
        place
        for place, text in generator.pages().items()
        if not (DOCS / place).exists() or (DOCS / place).read_text(encoding="utf-8") != text
    ]

    assert not stale, f"{stale} differ from the code: run `make docs` and commit what it writes."


def test_help_of_the_generator_is_no_folder(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option is none either; what is named is."""
    monkeypatch.chdir(tmp_path)
    for word in ("--help", "--folder"):
        monkeypatch.setattr(sys, "argv", ["generate.py", word])
        with pytest.raises(SystemExit):
            generator.main()
    assert list(tmp_path.iterdir()) == []

    monkeypatch.setattr(sys, "argv", ["generate.py", "pages"])
    generator.main()
    assert (tmp_path / "pages" / "reference" / "commands.md").exists()


def test_every_command_has_help_and_a_place_in_the_reference() -> None:
    """Groups and their commands, each option with a sentence."""
    root = typer.main.get_command(app)
    commands = {"": root, **getattr(root, "commands", {})}
    for group in ("quarantine", "contract"):
        commands |= {f"{group} {name}": command for name, command in commands[group].commands.items()}
    bare = [name for name, command in commands.items() if not command.help]
    options = [f"{n} {p.name}" for n, c in commands.items() for p in c.params if not getattr(p, "help", "")]
    absent = [
        n for n, c in commands.items() if not hasattr(c, "commands") and f"## cdcm {n}\n" not in _page("commands.md")
    ]

    assert not bare
    assert not options
    assert not absent


def test_every_exit_code_is_explained(generator: ModuleType) -> None:
    """Each code that an error can end with, and 0."""
    assert set(generator._EXIT_MEANINGS) == {0, *EXIT_CODES_WORST_FIRST}
    for code in EXIT_CODES_WORST_FIRST:
        assert f"| `{code}` |" in _page("exit-codes.md")


def test_every_violation_code_is_explained() -> None:
    """With what happened and what to do."""
    missing = [code for code in Code if f"| `{code}` |" not in _page("codes.md")]

    assert not missing


def test_every_key_of_the_configuration_is_described() -> None:
    """In its model, and so in the reference and in editors."""
    schema = config_json_schema()
    parts = {"": schema, **schema["$defs"]}
    bare = [f"{n}.{k}" for n, part in parts.items() for k, v in part["properties"].items() if not v.get("description")]
    absent = [k for part in parts.values() for k in part["properties"] if f"| `{k}` |" not in _page("configuration.md")]

    assert not bare
    assert not absent


def test_every_type_that_a_contract_can_name_stands_in_the_reference() -> None:
    """By the names that the code knows."""
    page = _page("contract-types.md")

    assert [name for name in PLAIN if f"`{name.replace('_', ' ')}`" not in page] == []
    assert [name for name in INTEGER_FORMATS if f"`format: {name}`" not in page] == []
    assert "None" not in page


def test_pages_that_the_package_names_are_there() -> None:
    """In what it tells users, and in what it tells who reads it."""
    named = {
        (module.name, found[0])
        for module in (DOCS.parent / "cdc_materializer").rglob("*.py")
        for found in re.finditer(r"(?<![/\w])docs/[\w./-]*\w", module.read_text(encoding="utf-8"))
    }
    assert named
    there = {str(page.relative_to(DOCS.parent)) for page in DOCS.rglob("*") if page.is_file()}

    assert [(module, page) for module, page in named if not {page, *_decision(page, there)} & there] == []


def _decision(page: str, there: Collection[str]) -> set[str]:
    """A decision is named by its number alone."""
    return {one for one in there if one.startswith(f"{page}-")} if page.startswith("docs/adr/") else set()
