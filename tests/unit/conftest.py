"""What unit tests share: processes of their own, a lake that PyIceberg writes, and a contract file."""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.demo_run import ROOT, Ended

if TYPE_CHECKING:
    from tests.unit.contracts import Write
    from tests.unit.lakes import Lake

#: Runs each piece of code that it is asked for in a fork of itself, and tells how that ended.
_FORKS = """
import gc, json, os, signal, sys
import cdc_materializer.cli, cdc_materializer.config, cdc_materializer.report.terminal, cdc_materializer.status

gc.freeze()  # a fork then leaves the memory that it shares as it is, and ends sooner
for line in sys.stdin:
    code, arguments, folder, outputs = json.loads(line)
    child = os.fork()
    if not child:
        signal.alarm(60)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, path in enumerate(outputs, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.chdir(folder)
        sys.argv[1:] = arguments
        exec(code, {})
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Fresh:
    """A process that has imported the command line and what shows a report, and no more; code runs in forks of it.

    So a piece of code has a process of its own, with its own modules, signals and exit code, and what takes long when
    a process starts is done once.
    """

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def run(self, code: str, *arguments: str, folder: Path = ROOT) -> Ended:
        """Run Python code with these arguments of the command line; a minute is the most that it may take."""
        out, err = self._folder / "out", self._folder / "err"
        asked = json.dumps([code, arguments, str(folder), [str(out), str(err)]])
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{asked}\n")
        self._process.stdin.flush()
        ended = int(self._process.stdout.readline())
        return Ended(ended, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    """Runs code in processes of their own."""
    command = [sys.executable, "-c", _FORKS]
    # Without buffers nothing is left to be written when a process ends, which is where a broken pipe tells.
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Fresh(process, tmp_path_factory.mktemp("fresh"))


@pytest.fixture
def lake(tmp_path: Path) -> Iterator["Lake"]:
    """An empty lake whose folder's name has signs that mean something in addresses."""
    from tests.unit import lakes  # PyIceberg takes seconds to import, and few tests need it

    root = tmp_path / "my lake"
    writer = lakes.open_writer(root / "lake")
    yield lakes.Lake(root, writer)
    writer.engine.dispose()


@pytest.fixture
def write_contract(tmp_path: Path) -> "Write":
    """Write a contract with an `id` column (line 9) and the given properties, which begin at line 10."""
    from tests.unit import contracts

    return functools.partial(contracts.write, tmp_path)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for one pipeline.yaml after another."""
    return tmp_path_factory.mktemp("pipeline")
