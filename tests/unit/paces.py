"""The pace of a table for tests of runs that have no Spark."""

from types import SimpleNamespace
from typing import Any

#: Its batches are as large as they are.
UNPACED: Any = SimpleNamespace(advance=lambda line, advance, *_: advance(line))
