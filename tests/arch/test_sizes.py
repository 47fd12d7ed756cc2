"""Files and functions stay small enough to read in one go."""

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.arch.conftest import Module

FILE_LINES_MAX = 400
#: A file of tests is a list of cases, each read alone.
TEST_FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70


def _longer(modules: "tuple[Module, ...]", lines_max: int) -> dict[str, int]:
    return {m.place: lines for m in modules if (lines := len(m.text.splitlines())) > lines_max}


def test_files_are_short(modules: "tuple[Module, ...]", suite: "tuple[Module, ...]") -> None:
    """No file of the package has more than 400 lines, no file of tests more than 800."""
    long = _longer(modules, FILE_LINES_MAX) | _longer(suite, TEST_FILE_LINES_MAX)

    assert not long, (
        f"{long}: a file holds one idea in at most {FILE_LINES_MAX} lines ({TEST_FILE_LINES_MAX} for tests);"
        " give the second idea its own file."
    )


def test_functions_are_short(modules: "tuple[Module, ...]", suite: "tuple[Module, ...]") -> None:
    """No function has more than 70 lines, its docstring included."""
    long = {
        f"{module.place}:{node.lineno} {node.name}": lines
        for module in (*modules, *suite)
        for node in module.nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    }

    assert not long, (
        f"{long}: a function does one thing in at most {FUNCTION_LINES_MAX} lines; name its parts and split it."
    )
