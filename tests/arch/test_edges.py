"""The edges stay where they are: environment, clock, SQL, Spark's driver, this machine's paths."""

import ast
import re
from collections import Counter
from typing import TYPE_CHECKING

from cdc_materializer.environment import VARIABLES

if TYPE_CHECKING:
    from tests.arch.conftest import Module

#: Where each thing may be: files and folders of the package, as `Module.is_in` takes them.
ENVIRONMENT = {"config.pipeline", "environment"}
CLOCK = {
    *("batch.batch", "cli", "clocks", "demo", "line.line", "pipeline"),
    *("retry", "session.session", "status", "testing"),
}
SQL = {"lake.lake", "lake.stage", "merge", "merge_quarantine", "session.session", "testing", "versions"}
SPARK_FREE = {"config", "environment", "errors", "jars", "names", "offsets"}


def _uses(modules: "tuple[Module, ...]", pattern: str, allowed: set[str]) -> list[str]:
    """Return where code outside `allowed` names something that matches; text and comments do not count."""
    return [
        f"{module.place}:{line} {name}"
        for module in modules
        if not module.is_in(allowed)
        for line, name in module.uses
        if re.search(pattern, name)
    ]


def test_environment_is_read_in_two_files(modules: "tuple[Module, ...]") -> None:
    """Only config.py and environment.py look at environment variables."""
    found = _uses(modules, r"(^|\.)(environ|getenv|putenv)$", ENVIRONMENT)

    assert not found, (
        f"{found}: what a run depends on comes from config.py or environment.py, so it can be found and tested."
    )


#: What `getpass.getuser` and `Path.expanduser` look at.
_READ_BY_PYTHON = {"HOME", "LOGNAME", "USER", "LNAME", "USERNAME"}


def test_every_variable_that_is_read_is_told(modules: "tuple[Module, ...]") -> None:
    """In the one map that the reference is written from; of the two files only config.py takes names from elsewhere."""
    (module,) = (module for module in modules if module.unit == "environment")
    named = Counter(
        node.value
        for node in module.nodes
        if isinstance(node, ast.Constant) and re.fullmatch(r"_?[A-Z]+(_[A-Z]+)*", str(node.value))
    )

    assert named.keys() == VARIABLES.keys()
    assert {name for name, count in named.items() if count == 1} == _READ_BY_PYTHON, "told, and not read"
    assert len([name for _, name in module.uses if name.endswith("environ.get")]) == 1


def test_commands_load_the_configuration_in_one_place(modules: "tuple[Module, ...]") -> None:
    """Only cli/output.py does, which has its secrets masked from then on; init and demo load what they have written."""
    found = _uses(modules, r"(^|\.)load_config$", {"config", "demo", "init"})
    others = [
        place
        for place in found
        if not place.startswith(("cdc_materializer/cli/output.py", "cdc_materializer/__init__.py"))
    ]

    assert not others, f"{others}: a secret of a configuration that was loaded elsewhere is not known to the redactor."


def test_clock_is_read_at_the_top(modules: "tuple[Module, ...]") -> None:
    """Only the modules that run things ask what time it is; the rest are told."""
    pattern = r"(^|\.)(datetime|date)\.(now|today|utcnow)$|(^|\.)time\.(time|time_ns|sleep)$|uuid\.uuid[14]$"
    found = _uses(modules, pattern, CLOCK)

    assert not found, (
        f"{found}: a function that reads the clock (or chance) gives two answers to one question; pass it in."
    )


def test_nothing_is_tried_again_but_by_a_policy(modules: "tuple[Module, ...]") -> None:
    """Only retry.py pauses, and nothing else counts attempts: how often and after what pauses is a policy's to say."""
    found = _uses(modules, r"(^|\.)sleep$", {"retry"})
    found = [use for use in found if not use.endswith(" deadline.sleep")]
    found += _uses(modules, r"(^|_)(ATTEMPTS|RETRIES|TRIES)(_|$)", set())

    assert not found, f"{found}: add a RetryPolicy to retry.py, and let its `call` try; `Deadline.sleep` waits."


def test_javas_causes_are_walked_in_one_place(modules: "tuple[Module, ...]") -> None:
    """Only causes.py knows where PySpark and Py4J keep what Java has thrown; the fake catalog throws it."""
    allowed = {"causes", "testing.catalog"}
    found = _uses(modules, r"(^|\.)(getCause|java_exception)$", allowed)
    found += [
        f"{module.place}:{node.lineno}"
        for module in modules
        if not module.is_in(allowed)
        for node in module.nodes
        if isinstance(node, ast.Constant) and node.value in ("java_exception", "_origin")
    ]

    assert not found, f"{found} walk Java's causes themselves: `causes.java_causes` gives the chain."


def test_sql_is_sent_from_the_lake(modules: "tuple[Module, ...]") -> None:
    """Only lake.py with its stage, and versions.py, hand SQL to Spark."""
    found = _uses(modules, r"\.sql$(?<!pyspark\.sql)", SQL)

    assert not found, f"{found}: merge.py builds SQL and lake.py sends it, so every name in it is parsed and quoted."


def test_sql_is_built_in_three_places(modules: "tuple[Module, ...]") -> None:
    """Only merge.py, also for quarantine, versions.py for its one query, and dialects/ put values into SQL."""
    statement = re.compile(
        r"\b(MERGE INTO|INSERT INTO|DELETE FROM|CREATE TABLE|ALTER TABLE|DROP TABLE|SELECT .* FROM|CALL )"
    )
    found = [
        f"{module.place}:{node.lineno}"
        for module in modules
        if not module.is_in({"merge", "merge_quarantine", "versions", "dialects"})
        for node in module.nodes
        if isinstance(node, ast.JoinedStr)
        and statement.search("".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)))
    ]

    assert not found, f"{found} build SQL: only merge.py, versions.py and dialects/ do, from parsed and quoted names."


def test_rows_stay_in_the_jvm(modules: "tuple[Module, ...]") -> None:
    """No Python runs per row but for JSON schemas, and no table is pulled into the driver as pandas."""
    found = _uses(modules, r"(^|\.)(toPandas|pandas_udf|udf|mapInPandas|applyInPandas|foreachBatch)$", set())
    # Nothing in the JVM knows JSON schemas. Great Expectations' own function is one in Python too, and raises.
    found = [use for use in found if not use.startswith("cdc_materializer/contract/gx.py:")]

    assert not found, (
        f"{found}: per-row Python is five times slower than the same on the JVM; use columns and SQL functions."
    )


def test_rows_are_kept_in_one_place(modules: "tuple[Module, ...]") -> None:
    """Only session/caching.py keeps rows: plans on what `persist` keeps have all in them that made the rows."""
    found = _uses(modules, r"\.(persist|unpersist|cache)$(?<!functools\.cache)", set())

    assert not found, f"{found}: `caching.cached` keeps rows, and plans on them begin with what is kept."


def test_pure_modules_know_no_spark(modules: "tuple[Module, ...]") -> None:
    """The modules that fast commands need do not import pyspark or great_expectations when they are imported."""
    heavy = ("pyspark", "great_expectations", "pandas", "pyiceberg")
    found = [
        f"{module.place}:{node.lineno}"
        for module in modules
        if module.is_in(SPARK_FREE)
        for node in module.tree.body
        if (isinstance(node, ast.Import) and node.names[0].name.startswith(heavy))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith(heavy))
    ]

    assert not found, f"{found}: `cdcm --help` and `cdcm report` answer within a second because these imports wait."


def test_nothing_names_this_machine(modules: "tuple[Module, ...]") -> None:
    """No file of the package names a folder that only its author has."""
    found = [
        f"{module.place}:{number}"
        for module in modules
        for number, line in enumerate(module.text.splitlines(), start=1)
        if re.search(r"""["'\s=(]/(?:work|root|home|Users)/""", line)
    ]

    assert not found, f"{found}: the package runs on other machines; take the folder from the configuration."


def test_no_error_is_logged_with_its_text(modules: "tuple[Module, ...]") -> None:
    """What is told of errors to a log goes through `without_texts`."""
    found = [
        f"{module.place}:{node.value.lineno}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.keyword) and node.arg == "exc_info" and "without_texts(" not in ast.unparse(node.value)
    ]
    found += _uses(modules, r"_LOG\.exception$", set())

    assert not found, f"{found}: the text of a failed cast has a row's value, also under --debug; use `without_texts`."
