"""The program: which commands there are, and how each way to end becomes an exit code and one sentence."""

import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

import cdc_materializer
from cdc_materializer import crash_points
from cdc_materializer.cli import doubts, looks, reporting, runs, setup, upkeep
from cdc_materializer.cli.commands import Commands
from cdc_materializer.cli.output import NEXT_STEPS, REDACTOR, Output, error_document, note_not_taken, write_out
from cdc_materializer.errors import EXIT_BUG, EXIT_DONE, EXIT_USAGE, CdcError
from cdc_materializer.logs import without_texts

#: How shells count a program that was interrupted: 128 and the number of SIGINT.
EXIT_INTERRUPTED = 130

_LOG = logging.getLogger(__name__)
_HELP = ["-h", "--help"]

# Typer has a copy of click of its own in some versions, so its errors are found by way of one that it passes on.
_ARGUMENTS_WRONG: type[Exception] = next(
    cls for cls in typer.BadParameter.__mro__ if cls.__name__ == "ClickException" and issubclass(cls, Exception)
)

app = typer.Typer(
    name="cdcm",
    cls=Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": _HELP, "max_content_width": 100},
)


def _version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        write_out(f"cdcm {cdc_materializer.__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def cdcm(
    ctx: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 - its callback does all there is to do
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Keep Apache Iceberg tables equal to database tables, from change events, under a data contract.

    New here? `cdcm demo` shows the whole job on recorded data, without any server.
    """
    if ctx.invoked_subcommand is None:
        write_out(ctx.get_help() + "\n")
        raise typer.Exit(EXIT_USAGE)


runs.add_to(app)
setup.add_to(app)
looks.add_to(app)
reporting.add_to(app)
doubts.add_to(app)
upkeep.add_to(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (design section 4.1).

    Args:
        arguments: those of the command line, without the program's name; the process's own if left out.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Looked for here already, because arguments that are wrong have to be told in the form that was asked for.
    output = Output.begin(as_json="--json" in given, debug="--debug" in given)
    NEXT_STEPS.name_file(None)
    try:
        crash_points.check()
        ended = typer.main.get_command(app)(given, prog_name="cdcm", standalone_mode=False)
        code = ended if isinstance(ended, int) else EXIT_DONE
    except _ARGUMENTS_WRONG as error:
        code = _tell(output, "UsageError", _arguments_wrong(error), EXIT_USAGE)
    except CdcError as error:
        _LOG.debug("the command ended with an error", exc_info=without_texts(error))
        code = _tell(output, error.code or type(error).__name__, str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        code = _tell(output, "Interrupted", "Interrupted; what was published stays.", EXIT_INTERRUPTED)
    except (SystemExit, Exception) as error:  # noqa: BLE001 - the last resort: a bug is told as one, without a stack trace
        # Typer ends the process itself where a pipe breaks: that of its help, or one of the work's own.
        cause = error.__context__ or error if isinstance(error, SystemExit) else error
        if isinstance(cause, OSError) and not set(_HELP).isdisjoint(given):
            note_not_taken(cause)
            code = EXIT_DONE
        else:
            _LOG.debug("the command ended with a bug", exc_info=without_texts(cause))
            code = _tell(output, "BUG", _bug(cause), EXIT_BUG)
    is_told = output.end()
    return code if is_told or code != EXIT_DONE else EXIT_USAGE


def _tell(output: Output, code: str, message: str, exit_code: int) -> int:
    text = NEXT_STEPS.in_text(REDACTOR.redact(message))
    if output.as_json:
        write_out(error_document(code, text))
    output.note(f"error: {text}")
    return exit_code


def _arguments_wrong(error: Exception) -> str:
    say: Callable[[], str] = getattr(error, "format_message", error.__str__)
    context = getattr(error, "ctx", None)
    what = say().strip().rstrip(".")
    return f"{what}. See `{context.command_path if context is not None else 'cdcm'} --help`."


def _bug(error: BaseException) -> str:
    """Say where it happened; what the error itself says may hold a row's values."""
    package = Path(__file__).parents[1]
    own = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(package)]
    place = f" in {Path(own[-1].filename).relative_to(package)}, line {own[-1].lineno}" if own else ""
    return f"An unexpected {type(error).__name__}{place}: this is a bug. Please report what --debug says of it."
