"""What a command writes where: its result to standard output, everything else to standard error."""

import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from cdc_materializer import logs
from cdc_materializer.errors import UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cdc_materializer.config import Config
    from cdc_materializer.report.models import Report

#: The one redactor of the process.
REDACTOR = logs.Redactor()


@dataclass(frozen=True)
class Output:
    """Where a command's words go.

    Attributes:
        as_json: one JSON document on standard output and nothing else there.
    """

    as_json: bool = False

    @classmethod
    def begin(cls, *, as_json: bool, debug: bool) -> "Output":
        """Set logging up for a command and return its output."""
        output = cls(as_json)
        logs.set_up(REDACTOR, debug=debug, write=output.note)
        return output

    @cached_property
    def out(self) -> Console:
        """Standard output."""
        return Console(highlight=False, soft_wrap=False)

    @cached_property
    def err(self) -> Console:
        """Standard error."""
        return Console(stderr=True, highlight=False)

    @property
    def shows_progress(self) -> bool:
        """Whether somebody watches: standard error is a terminal."""
        return self.err.is_terminal and not self.as_json

    def note(self, text: str) -> None:
        """Write one plain text to standard error; above the progress display, if there is one."""
        self.err.print(text, markup=False, soft_wrap=True)

    def show(self, report: "Report") -> None:
        """Write a command's result to standard output."""
        if self.as_json:
            write_out(report.to_json() + "\n")
        else:
            from cdc_materializer.report.terminal import render

            self.draw(render(report, now=now()))

    def draw(self, *parts: "RenderableType") -> None:
        """Write parts of a result for people to standard output."""
        try:
            self.out.print(*parts, sep="\n", crop=False)
        except BrokenPipeError:
            close_out()


def load(path: Path) -> "Config":
    """Load the configuration, and mask its secrets in everything that is written from now on."""
    from cdc_materializer.config import load_config

    config = load_config(path)
    REDACTOR.hide(logs.secrets_of(config))
    if config.masks is not None:
        REDACTOR.hide(config.masks.spellings())
    return config


def write_out(text: str) -> None:
    """Write to standard output; a reader that has gone away (``cdcm … | head``) is no error."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        close_out()


def close_out() -> None:
    """Send what is still to be written to standard output nowhere, so that Python's exit does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_file(path: Path, text: str) -> None:
    """Write a report to a file, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", "Name another file with --output.") from error


def error_document(code: str, message: str) -> str:
    """Return the JSON document that stands for a command that failed."""
    return json.dumps({"error": {"code": code, "message": message}}, indent=2, ensure_ascii=False) + "\n"


def program() -> str:
    """How the user starts this program from the current folder, for commands that are printed to be copied."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{shlex.quote(_from_here(Path(sys.executable)))} -m cdc_materializer"
    on_path = shutil.which(started.name)
    if on_path is not None and Path(on_path).resolve() == started.resolve():
        return started.name
    return shlex.quote(_from_here(started))


def _from_here(path: Path) -> str:
    near = os.path.relpath(path)
    return str(path) if near.startswith("..") else near


def now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)
