"""`cdcm report`: the violation report in the form that is asked for, with samples and Data Docs if wanted."""

import io
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_materializer.cli.options import CONFIG_DEFAULT, AsJson, ConfigFile, Debug, TableNames
from cdc_materializer.cli.output import NEXT_STEPS, Output, load, now, write_file, write_out
from cdc_materializer.errors import EXIT_DONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cdc_materializer.config import Config
    from cdc_materializer.report.samples import Sampling
    from cdc_materializer.report.violation_models import ViolationReport

#: Most rows of a violation that a report shows samples of.
SAMPLES_MAX = 100
#: Width of a report for people that goes to a file.
FILE_COLUMNS = 100


class ReportFormat(StrEnum):
    """Forms of the violation report."""

    TERMINAL = "terminal"
    JSON = "json"
    HTML = "html"
    MARKDOWN = "markdown"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(report)


def report(  # noqa: PLR0913 - the parts are the command's options
    *,
    config: ConfigFile = CONFIG_DEFAULT,
    table: TableNames = None,
    form: Annotated[
        ReportFormat,
        typer.Option("--format", "-f", help="The form; html is one page to send on.", case_sensitive=False),
    ] = ReportFormat.TERMINAL,
    to: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file instead.")
    ] = None,
    when: Annotated[
        str | None,
        typer.Option("--as-of", metavar="WHEN", help="The report as it was: a time (ISO 8601) or a batch's id."),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            min=0,
            max=SAMPLES_MAX,
            metavar="N",
            help="Show values of N rows of each violation, of columns that the contract classifies as public;"
            " starts Spark.",
        ),
    ] = 0,
    data_docs: Annotated[
        Path | None,
        typer.Option(
            "--data-docs", metavar="DIR", help="Write Great Expectations' Data Docs to this folder beside it."
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what broke the contract, and what to do about it.

    Everything that is held back or was published with a remark. Needs no Spark and shows no value of a row, unless
    --samples asks for public ones.
    """
    wanted = ReportFormat.JSON if as_json else form
    output = Output.begin(as_json=wanted is ReportFormat.JSON, debug=debug)
    from cdc_materializer.review import review, reviewed_contracts

    loaded = load(config)
    with _sampling(loaded, table or (), samples) as sampling:
        found = review(loaded, now(), table or (), when, sampling)
    if data_docs is not None:
        from cdc_materializer.data_docs import write_data_docs

        write_data_docs(found, reviewed_contracts(loaded, table or ()), data_docs)
    if to is not None:
        write_file(to, _written(found, wanted))
    elif wanted is ReportFormat.TERMINAL:
        output.show(found)
    else:
        write_out(_written(found, wanted))
    return EXIT_DONE


@contextmanager
def _sampling(config: "Config", names: "Sequence[str]", rows_max: int) -> "Iterator[Sampling | None]":
    """Give what reads samples, if any are wanted."""
    if not rows_max:
        yield None
        return
    from cdc_materializer.report.samples import Sampling
    from cdc_materializer.sampling import open_sampler

    with open_sampler(config, names) as read:
        yield Sampling(rows_max, read)


def _written(found: "ViolationReport", form: ReportFormat) -> str:
    """Return a report as the text of a file."""
    if form is ReportFormat.JSON:
        return NEXT_STEPS.in_report(found).to_json() + "\n"
    if form is ReportFormat.HTML:
        from cdc_materializer.report.html import to_html

        return to_html(found, NEXT_STEPS)
    if form is ReportFormat.MARKDOWN:
        from cdc_materializer.report.markdown import to_markdown

        return to_markdown(found, NEXT_STEPS)
    return _as_text(found)


def _as_text(found: "ViolationReport") -> str:
    from rich.console import Console

    from cdc_materializer.report.terminal import render

    text, view = io.StringIO(), render(found, now=found.as_of, steps=NEXT_STEPS)
    Console(file=text, width=FILE_COLUMNS, highlight=False, no_color=True).print(view)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())
