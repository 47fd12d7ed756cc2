"""The command that keeps tables fast: `maintain`."""

from typing import Annotated

import typer

from cdc_materializer.cli.options import CONFIG_DEFAULT, AsJson, ConfigFile, Debug, TableNames
from cdc_materializer.cli.output import Output, load, now


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command()(maintain)


def maintain(
    *,
    config: ConfigFile = CONFIG_DEFAULT,
    plan: Annotated[
        bool, typer.Option("--plan", help="Change nothing; tell what would be done and what it costs.")
    ] = False,
    table: TableNames = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Rewrite small files and deleted rows, expire old snapshots, remove orphans.

    Where that pays, as `maintenance:` in pipeline.yaml says. Never loses a message, a marker or a row; a batch that is
    published at the same time wins.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.maintain import MaintainOptions, maintain_tables

    loaded = load(config)
    with Steps(output) as steps:
        steps.begin("Looking at the files of the tables")

        def advance(name: str, what: str) -> None:
            steps.begin(f"{name}: {what}")

        found = maintain_tables(loaded, MaintainOptions(now, tuple(table or ()), plan, advance))
    output.show(found)
    return found.exit_code
