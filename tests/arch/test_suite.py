"""The tests are where they are looked for, and kill what they say."""

import ast
from typing import TYPE_CHECKING

from cdc_materializer.crash_points import POINTS

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


def _killed_at(module: "Module") -> set[str]:
    """The points at which a module ends processes: named where it does, or else all of its ORDER."""
    given = [node.value for node in module.nodes if isinstance(node, ast.keyword) and node.arg == "CDCM_CRASH_AT"]
    points = {node.value for node in given if isinstance(node, ast.Constant)}
    if len(points) < len(given):
        (order,) = (
            n.value for n in module.tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "ORDER"
        )
        points |= {node.value for node in ast.walk(order) if isinstance(node, ast.Constant)}
    return {str(point) for point in points}


def test_a_process_is_killed_at_every_point_by_a_signal(suite: "tuple[Module, ...]") -> None:
    """On real tables: an exception in place of SIGKILL leaves a process that may still tidy up."""
    found = [m for m in suite if m.place.startswith("tests/spark/test_") and "CDCM_CRASH_AT=" in m.text]
    killed = {module.place: _killed_at(module) for module in found}
    unasked = [module.place for module in found if "-signal.SIGKILL" not in module.text]

    assert set().union(*killed.values()) == set(POINTS), (
        f"{killed}: add a test with a process of its own (run_process)."
    )
    assert not unasked, f"{unasked}: a process that ended otherwise was never at its point; ask for its exit code."
