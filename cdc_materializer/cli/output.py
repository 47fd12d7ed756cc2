"""What a command writes where: its result to standard output, everything else to standard error.

Nothing that cannot be written ends a command, nor decides what it ends with: that is for `main` to say at the end.
"""

import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rich.console import Console

from cdc_materializer import logs
from cdc_materializer.errors import UsageError
from cdc_materializer.names import printable_lines
from cdc_materializer.report.next_steps import NextSteps

if TYPE_CHECKING:
    from rich.console import RenderableType

    from cdc_materializer.config import Config
    from cdc_materializer.report.models import Report

#: The one redactor of the process.
REDACTOR = logs.Redactor()
#: What names the pipeline's file in the commands that the process prints.
NEXT_STEPS = NextSteps()
#: Why standard output has not taken all that it was given; that nobody reads it any more is no reason.
_NOT_TAKEN: list[OSError] = []


class _Console(Console):
    """A console whose reader may go away: Rich ends the process then, and closes standard output whichever it was."""

    def on_broken_pipe(self) -> None:
        """Write nothing more."""
        self.quiet = True
        _to_nowhere(self.file)

    def drop(self) -> None:
        """Forget what could not be written: Rich would write it once more, before the next text."""
        del self._buffer[:]


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
    def out(self) -> _Console:
        """Standard output."""
        return _Console(highlight=False, soft_wrap=False, markup=False, emoji=False)

    @cached_property
    def err(self) -> _Console:
        """Standard error."""
        return _Console(stderr=True, highlight=False, markup=False, emoji=False)

    @property
    def shows_progress(self) -> bool:
        """Whether somebody watches: standard error is a terminal."""
        return self.err.is_terminal and not self.as_json

    def note(self, text: str) -> None:
        """Write one plain text to standard error; above the progress display, if there is one."""
        try:
            self.err.print(printable_lines(NEXT_STEPS.in_text(text)), soft_wrap=True)
        except OSError:  # there is no other place to tell it
            self.err.drop()

    def show(self, report: "Report") -> None:
        """Write a command's result to standard output."""
        if self.as_json:
            write_out(NEXT_STEPS.in_report(report).to_json() + "\n")
        else:
            from cdc_materializer.report.terminal import render

            self.draw(render(report, now=now(), steps=NEXT_STEPS))

    def draw(self, *parts: "RenderableType") -> None:
        """Write parts of a result for people to standard output."""
        try:
            self.out.print(*parts, sep="\n", crop=False)
        except OSError as error:
            self.out.drop()
            note_not_taken(error)

    def end(self) -> bool:
        """Write what is left to be written, so that Python's exit does not complain.

        Returns:
            Whether standard output has taken all that it was given, or its reader did not want it.
        """
        write_out("")
        reasons = [error.strerror for error in _NOT_TAKEN]
        _NOT_TAKEN.clear()
        if reasons:
            self.note(f"error: Standard output cannot be written: {reasons[0]}. Send it to where there is room.")
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                _to_nowhere(stream)
        return not reasons


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
    except OSError as error:
        note_not_taken(error)


def note_not_taken(error: OSError) -> None:
    """Keep why standard output did not take something, for `Output.end` to tell."""
    if isinstance(error, BrokenPipeError):
        _to_nowhere(sys.stdout)
    else:
        _NOT_TAKEN.append(error)


def _to_nowhere(stream: IO[str]) -> None:
    """Send what a stream still has to write, and all that comes, nowhere."""
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


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
