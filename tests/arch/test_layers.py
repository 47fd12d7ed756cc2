"""Imports go one way, so that each part can be read knowing only the parts below it."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.arch.conftest import Module

PACKAGE = "cdc_materializer"

#: From the top down. A module may import from its own line and from lines below it. The names are files and folders of
#: the package.
LAYERS = (
    ("__main__",),
    ("cli",),
    (
        *("plan", "status", "adopt", "rebuild", "proof", "explain", "moments", "query", "trial", "release", "maintain"),
        *("maintenance", "doctor", "init", "review", "sampling", "data_docs", "demo", "truth"),
    ),
    ("run", "testing", "differences"),
    ("pipeline",),
    ("line", "table_errors"),
    ("batch", "decoders", "recognise", "observed", "invariants", "source_settings"),
    ("source", "registry", "lake", "contract", "report", "session", "progress", "lease"),
    (
        *("decode", "changes", "order", "fold", "merge", "merge_quarantine", "versions", "digests", "dialects"),
        *("schema", "masks", "catalog"),
    ),
    ("config",),
    ("jars", "java_options"),
    (
        *("built_once", "causes", "clocks", "crash_points", "environment", "retry", "marker", "lanes", "holes"),
        *("offsets", "strict_json", "logs", "table_names"),
    ),
    ("names",),
    ("errors",),
)
_DEPTH = {unit: depth for depth, layer in enumerate(LAYERS) for unit in layer}
RULE = "Imports go one way (design, section 8): " + " -> ".join(", ".join(layer) for layer in LAYERS) + "."


def _imports(module: "Module") -> Iterator[tuple[int, str]]:
    """Give the line and the unit of everything that a module imports from the package, at its top or inside."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names = [f"{PACKAGE}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        yield from ((node.lineno, name.split(".")[1]) for name in names if name.startswith(f"{PACKAGE}."))


def test_every_module_has_a_layer(modules: "tuple[Module, ...]") -> None:
    """A new file of the package is given its place in LAYERS, so that the rule covers it."""
    homeless = sorted({module.place for module in modules if module.unit and module.unit not in _DEPTH})

    assert not homeless, f"{homeless} have no layer: decide what they may import and add them to LAYERS in this file."


def test_imports_go_down_only(modules: "tuple[Module, ...]") -> None:
    """A module imports from its own layer and from those below, never from above."""
    wrong = [
        f"{module.place}:{line} imports {unit}"
        for module in modules
        if module.unit in _DEPTH
        for line, unit in _imports(module)
        if _DEPTH.get(unit, 0) < _DEPTH[module.unit]
    ]

    assert not wrong, f"{wrong}. {RULE} Move what is needed down, or pass it in as an argument."


def test_no_imports_in_a_circle(modules: "tuple[Module, ...]") -> None:
    """Of two parts, at most one knows the other, in one layer too."""
    known: dict[str, set[str]] = {}
    for module in modules:
        if module.unit:  # the package itself only passes names on
            used = {unit for _, unit in _imports(module)} - {module.unit}
            known.setdefault(module.unit, set()).update(used)
    try:
        TopologicalSorter(known).prepare()
        circle = []
    except CycleError as error:
        circle = error.args[1]

    assert not circle, f"{circle} import each other in a circle: none of them can be understood or tested alone. {RULE}"


def test_relative_imports_are_not_used(modules: "tuple[Module, ...]") -> None:
    """An import says in full where a name comes from; the layer test relies on it."""
    relative = [
        f"{module.place}:{node.lineno}"
        for module in modules
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.level
    ]

    assert not relative, f"{relative} import relatively: write `from {PACKAGE}.… import …`, as everywhere else."
