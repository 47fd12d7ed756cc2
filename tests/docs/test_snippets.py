"""Every command and every program that a page shows is run, after one run of the demo that all share."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demo_run import ROOT, cdcm, first_demo
from tests.docs.pages import Snippet, snippets
from tests.spark.marks import SECOND_TURN

pytestmark = pytest.mark.spark

_CONSOLE = list(snippets("console"))
_PYTHON = list(snippets("python"))
_COMMANDS = sorted({command for snippet in _CONSOLE for command in snippet.commands})


@pytest.fixture(scope="module")
def place() -> Path:
    """The folder that the demo was started from."""
    folder, ended = first_demo()
    assert ended.code == 0, ended.err
    return folder


@SECOND_TURN
@pytest.mark.parametrize("command", _COMMANDS)
def test_a_command_works_as_it_is_shown(place: Path, command: str) -> None:
    """It ends with 0 and says nothing on standard error."""
    words = shlex.split(command)
    assert words[0] == "cdcm"
    ended = cdcm(*words[1:], folder=place)

    assert (ended.code, ended.err) == (0, "")


@SECOND_TURN
@pytest.mark.parametrize("snippet", _PYTHON, ids=[f"{s.page.stem}-{at}" for at, s in enumerate(_PYTHON)])
def test_a_program_works_as_it_is_shown(place: Path, snippet: Snippet) -> None:
    """It runs to its end and prints something."""
    ended = subprocess.run(
        [sys.executable, "-c", snippet.text],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout


def test_every_command_in_a_console_block_is_ours() -> None:
    """What cannot be run by a test stands in a `sh` block."""
    assert _COMMANDS
    assert all(line.startswith("$ cdcm ") for s in _CONSOLE for line in s.text.splitlines())
