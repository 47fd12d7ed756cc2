"""The options that several commands take, each written once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_materializer.cli.output import NEXT_STEPS
from cdc_materializer.errors import UsageError
from cdc_materializer.names import shown
from cdc_materializer.report.next_steps import PIPELINE_FILE

if TYPE_CHECKING:
    from cdc_materializer.retry import Deadline

#: The pipeline's file when nobody names one.
CONFIG_DEFAULT = PIPELINE_FILE


def _named(config: Path) -> Path:
    NEXT_STEPS.name_file(config)
    return config


ConfigFile = Annotated[
    Path, typer.Option("--config", "-c", metavar="FILE", callback=_named, help="The pipeline's file.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to standard output, and nothing else.")]
Debug = Annotated[bool, typer.Option("--debug", help="Say more on standard error, with stack traces.")]
TableNames = Annotated[
    list[str] | None,
    typer.Option("--table", "-t", metavar="NAME", help="Only this mirror; can be given more than once."),
]
PlainKeys = Annotated[
    bool, typer.Option("--keys", help="Show the first differing keys as they are; else hashes stand for them.")
]
#: The most rows or messages that a command shows: all of them are in memory at once, of Spark's driver and of ours.
SHOWN_MAX = 1_000_000
RowsShown = Annotated[int, typer.Option("--limit", min=1, max=SHOWN_MAX, metavar="ROWS", help="The most rows to show.")]


def deadline_of(given: str | None) -> "Deadline":
    """The deadline that `--for` asks for, counted from now; none where it is left out.

    Raises:
        UsageError: it is no length of time.
    """
    from cdc_materializer.config.values import parse_duration
    from cdc_materializer.retry import NEVER, Deadline

    if given is None:
        return NEVER
    duration = parse_duration(given)
    if not duration:
        raise UsageError(f"`--for {shown(given)}` says no length of time.", "Write it like `30s`, `10m` or `2h`.")
    return Deadline.after(duration.total_seconds())


#: So many rows are shown where nobody says.
ROWS_DEFAULT = 100
