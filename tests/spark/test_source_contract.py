"""What Spark reads from a source: the one in memory is held to the tests of those that are real."""

from pathlib import Path

import pytest

from tests.model.source_benches import RecordedBench, ScriptedBench
from tests.model.source_contract import ReadContract

pytestmark = pytest.mark.spark


class TestRecordedSource(ReadContract):
    """A folder of files."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> RecordedBench:
        """An empty file."""
        return RecordedBench(tmp_path)


class TestScriptedSource(ReadContract):
    """The broker in memory."""

    @pytest.fixture
    def bench(self) -> ScriptedBench:
        """An empty topic."""
        return ScriptedBench()
