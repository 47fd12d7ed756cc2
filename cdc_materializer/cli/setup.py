"""The commands that set up: `init`, `doctor`. None of them starts Spark, but for `doctor --fold`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_materializer.cli.options import CONFIG_DEFAULT, AsJson, ConfigFile, Debug
from cdc_materializer.cli.output import Output, load
from cdc_materializer.errors import EXIT_DONE, EXIT_USAGE

if TYPE_CHECKING:
    from cdc_materializer.config import Config
    from cdc_materializer.report.models import VerifyReport


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command()(init)
    app.command()(doctor)


def init(  # noqa: PLR0913 - where to look is the command's options
    *,
    files: Annotated[
        Path | None, typer.Option("--files", metavar="FOLDER", help="Look at a folder of recorded topics.")
    ] = None,
    schemas: Annotated[
        Path | None,
        typer.Option("--schemas", metavar="FOLDER", help="Recorded schemas; `schemas` in that folder if left out."),
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="Look at the topics of this Kafka cluster.")
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL", help="The schema registry of its messages.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="GLOB", help="Only topics like this; can be given more than once."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Draft contracts for tables of the pipeline from their raw tables.")
    ] = False,
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table", "-t", metavar="NAME", help="With --raw: this mirror; all that have no contract if left out."
        ),
    ] = None,
    config: ConfigFile = CONFIG_DEFAULT,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Write a pipeline's file and a contract a table, from what the topics show.

    Looks at the first and last messages of every table's topic and at their schemas; never replaces a file unasked.
    With --raw it drafts contracts alone, of tables that `cdcm run` has filled, and leaves the pipeline's file as it is.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.errors import UsageError
    from cdc_materializer.init.init import Origin, initialise

    origin = Origin(files, schemas, bootstrap, registry, tuple(topic or ("*",)))
    if raw and origin != Origin():
        raise UsageError("--raw looks at tables of the pipeline's file, and at no topics.", "Give --table alone.")
    if table and not raw:
        raise UsageError("--table is for --raw; topics are chosen by their names.", "Give --topic, or add --raw.")
    with Steps(output) as steps:
        steps.begin("Looking at the raw tables" if raw else "Looking at the topics")

        def tell(name: str) -> None:
            steps.begin(f"Looking at {name}")

        if raw:
            from cdc_materializer.init.raw import draft_from_raw

            found = draft_from_raw(load(config), table or (), force=force, tell=tell)
        else:
            found = initialise(origin, config, force=force, tell=tell)
    output.show(found)
    return EXIT_DONE if found.written else EXIT_USAGE


def doctor(
    *,
    config: ConfigFile = CONFIG_DEFAULT,
    rows: Annotated[
        bool,
        typer.Option("--rows", help="Also read the keys of all rows, into memory: each has one, and one of its own."),
    ] = False,
    fold: Annotated[
        bool,
        typer.Option("--fold", help="Also compare all mirrors with the fold of raw, as `cdcm verify`: starts Spark."),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Check the set-up, and say how to mend it.

    Java, its libraries, the configuration, contracts, source, registry, catalog, and each table's markers beside its
    topic. Ends with 0 without a problem, else with the code of a run that would meet the worst.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.doctor.doctor import examine, exit_code

    with Steps(output) as steps:
        steps.begin("Looking at the set-up")
        found = examine(config, load, rows=rows, fold=_verified if fold else None)
    output.show(found)
    return exit_code(found)


def _verified(config: "Config") -> "VerifyReport":
    from cdc_materializer.proof.proof import verify_tables

    return verify_tables(config)
