"""Docstrings where they are needed, and names that say something."""

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.arch.conftest import Module

_EMPTY_WORDS = re.compile(r"(?:^|_)(utils?|helpers?|managers?|handlers?)(?:_|$)|(?:Util|Helper|Manager|Handler)s?$")

#: A command that needs a table, or SQL, without it; `contract test` needs one where there are several.
_INCOMPLETE = re.compile(
    r"`cdcm (?:adopt|as-of|contract test|quarantine (?:release|show)|query|replay|why)(?: …)?(?: --(?!table )[\w-]+)*`"
)
#: Where a table's name comes into the sentences afterwards (`remedies.remedy`).
_COMPLETED_LATER = {"cdc_materializer.report.remedies", "cdc_materializer.decode.refusals"}


def _public(node: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Give every public class and function of a module, and every public method of its public classes."""
    for child in node.body:
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and not child.name.startswith("_"):
            yield prefix + child.name, child
            if isinstance(child, ast.ClassDef):
                yield from _public(child, f"{child.name}.")


def test_public_names_are_documented(modules: "tuple[Module, ...]") -> None:
    """Every module and every public class, function and method of the package has a docstring."""
    bare = [module.place for module in modules if not ast.get_docstring(module.tree)]
    bare += [
        f"{module.place}:{node.lineno} {name}"
        for module in modules
        for name, node in _public(module.tree)
        if not ast.get_docstring(node)
    ]

    assert not bare, (
        f"{bare} have no docstring: say what a caller can rely on (shapes, units, errors, source of the rule)."
    )


def test_tests_say_what_they_show(suite: "tuple[Module, ...]") -> None:
    """Every test has a docstring that states the behaviour."""
    silent = [
        f"{module.place}:{node.lineno} {node.name}"
        for module in suite
        for node in module.nodes
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]

    assert not silent, f"{silent} have no docstring: a test states, in one sentence, the behaviour that it shows."


def test_names_say_something(modules: "tuple[Module, ...]") -> None:
    """No module, class or function is named utils, helper, manager or handler."""
    named = [(module.place, module.name.rpartition(".")[2]) for module in modules]
    named += [
        (f"{module.place}:{node.lineno}", node.name)
        for module in modules
        for node in module.nodes
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]
    empty = [f"{place} {name}" for place, name in named if _EMPTY_WORDS.search(name)]

    assert not empty, f"{empty}: these words fit any code; name what it is (a noun of the glossary) or does (a verb)."


def test_commands_that_are_printed_run_as_they_stand(modules: "tuple[Module, ...]") -> None:
    """What tells a user to type a command names the table that it needs, or TABLE, as its help does."""
    incomplete = []
    for module in modules:
        if module.name in _COMPLETED_LATER:
            continue
        # Docstrings, and what options and fields are for, name commands without telling anyone to type them.
        names = [
            *(node.value for node in module.nodes if isinstance(node, ast.Expr)),
            *(one.value for one in module.nodes if isinstance(one, ast.keyword) and one.arg in {"description", "help"}),
        ]
        spared = {id(part) for node in names for part in ast.walk(node)}
        texts = [
            node
            for node in module.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spared
        ]
        incomplete += [
            f"{module.place}:{node.lineno} {found}" for node in texts for found in _INCOMPLETE.findall(str(node.value))
        ]

    assert not incomplete, f"{incomplete}: name the table, or write TABLE (SQL) where it is not known."
