"""What `import cdc_materializer` offers, and that it costs nothing until it is used."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import cdc_materializer
from cdc_materializer import testing

_PAGE = Path(__file__).parents[2] / "docs" / "api.md"
_PUBLIC = sorted(set(cdc_materializer.__all__) - {"__version__"})


@pytest.mark.parametrize("name", _PUBLIC)
def test_a_public_name_can_be_imported_is_documented_and_stays_what_it_is(name: str) -> None:
    """A module of its name would take its place as soon as anything imports that module."""
    assert getattr(cdc_materializer, name).__doc__
    assert name in _PAGE.read_text(encoding="utf-8")
    assert name in dir(cdc_materializer)
    assert find_spec(f"cdc_materializer.{name}") is None


def test_another_name_is_no_part_of_it() -> None:
    """As of any module, also for those who ask whether there is one."""
    with pytest.raises(AttributeError, match="has no attribute 'restore'"):
        getattr(cdc_materializer, "restore")  # noqa: B009 - a name that type checkers know is wrong


def test_importing_the_package_imports_nothing_heavy() -> None:
    """Nor does asking for what needs neither Spark nor Great Expectations."""
    program = (
        "import sys, cdc_materializer as c; c.load_config; c.parse_start; dir(c);"
        "print([name for name in ('pyspark', 'great_expectations') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "[]"


def test_what_is_exported_is_what_the_modules_have() -> None:
    """The home of each name is told once, and is right."""
    for module, attribute in cdc_materializer._HOMES.values():
        assert hasattr(import_module(module), attribute)


@pytest.mark.parametrize("name", testing.__all__)
def test_a_fake_can_be_imported_from_testing_and_is_documented(name: str) -> None:
    """Whichever module has it; what of them is imported late is told to completion too."""
    assert hasattr(testing, name)
    assert f"`{name}" in _PAGE.read_text(encoding="utf-8")
    assert name in dir(testing)


def test_every_public_fake_is_in_testing() -> None:
    """A module of it has nothing that is public and cannot be had there, but for what a fake is made of."""
    parts = {"JavaMap"}
    homes = sorted(set(Path(testing.__file__).parent.glob("*.py")) - {Path(testing.__file__)})
    found = {
        name
        for home in homes
        for name, value in vars(import_module(f"{testing.__name__}.{home.stem}")).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == f"{testing.__name__}.{home.stem}"
    }

    assert len(homes) > 4
    assert found - parts <= set(testing.__all__)


def test_another_name_is_no_fake() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="has no attribute 'MemoryBroker'"):
        getattr(testing, "MemoryBroker")  # noqa: B009 - a name that type checkers know is wrong


def test_building_topics_and_planning_faults_imports_no_spark() -> None:
    """Nor Py4J; the lake in memory does, where it is first asked for."""
    program = (
        "import sys; from cdc_materializer import testing as t; t.TopicBuilder('a').add(None, None);"
        "t.FaultPlan({1: 'late'}); t.FixedClock(); t.debezium_envelope('c', None, {}); dir(t);"
        "print([name for name in ('pyspark', 'py4j', 'great_expectations') if name in sys.modules]);"
        "t.memory_lake(t.MemoryCatalog()); print('pyspark' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert told.stdout.split("\n")[:2] == ["[]", "True"]
