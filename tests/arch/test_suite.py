"""The tests are where they are looked for."""

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.arch.conftest import Module


def _marks(module: "Module") -> str:
    """Return what a module says of all its tests."""
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            return ast.unparse(node.value)
    return ""


def test_all_of_tests_spark_is_marked(suite: "tuple[Module, ...]") -> None:
    """Each module of tests in tests/spark has the mark `spark`."""
    found = [module for module in suite if module.place.startswith("tests/spark/test_")]
    bare = [module.place for module in found if "pytest.mark.spark" not in _marks(module)]

    assert found
    assert not bare, (
        f"{bare}: a run without Spark leaves this folder unread (tests/conftest.py), so everything in it has to need"
        " Spark; set `pytestmark = pytest.mark.spark`, or move the file to tests/unit."
    )
