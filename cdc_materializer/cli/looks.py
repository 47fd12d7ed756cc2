"""The commands that look: `status`, `quarantine`, `contract lint`. None of them starts Spark."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_materializer.cli.commands import Commands
from cdc_materializer.cli.options import CONFIG_DEFAULT, ROWS_DEFAULT, AsJson, ConfigFile, Debug, RowsShown, TableNames
from cdc_materializer.cli.output import Output, load, now
from cdc_materializer.errors import EXIT_DONE, EXIT_USAGE, CdcError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cdc_materializer.config import Config
    from cdc_materializer.names import TableName
    from cdc_materializer.report.models import LintReport


class Standing(StrEnum):
    """How a quarantine row stands, or any."""

    OPEN = "open"
    SUPERSEDED = "superseded"
    RELEASED = "released"
    ALL = "all"


quarantine = typer.Typer(name="quarantine", cls=Commands, no_args_is_help=False, help="What is held back, and why.")
contract = typer.Typer(name="contract", cls=Commands, no_args_is_help=False, help="Contract files.")


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command()(status)
    quarantine.command("list")(quarantine_rows)
    quarantine.command("show")(quarantine_show)
    contract.command("lint")(contract_lint)
    app.add_typer(quarantine)
    app.add_typer(contract)


def status(
    *, config: ConfigFile = CONFIG_DEFAULT, table: TableNames = None, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Show where each table stands.

    Lag, last publish, what is held, its files; needs no Spark.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.status import exit_code, read_status

    found = read_status(load(config), now(), table or ())
    output.show(found)
    return exit_code(found)


def quarantine_rows(  # noqa: PLR0913 - the filters are the command's options
    *,
    config: ConfigFile = CONFIG_DEFAULT,
    table: TableNames = None,
    code: Annotated[
        str | None, typer.Option("--code", metavar="CODE", help="Only this violation code, such as CONTRACT.")
    ] = None,
    rule: Annotated[str | None, typer.Option("--rule", metavar="NAME", help="Only this rule of a contract.")] = None,
    standing: Annotated[
        Standing, typer.Option("--status", help="Only rows that stand so.", case_sensitive=False)
    ] = Standing.OPEN,
    limit: RowsShown = ROWS_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List quarantine rows, newest first.

    Which message, which row, why; never a row's values beyond its key.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.catalog.catalog import open_tables
    from cdc_materializer.report.quarantined import QuarantineFilter, quarantine_list
    from cdc_materializer.status import configured_tables

    loaded = load(config)
    wanted = QuarantineFilter(
        code=known_code(code), rule=rule, status=None if standing is Standing.ALL else standing.value
    )
    tables = configured_tables(loaded, table or (), refuse=False)
    lake = open_tables(loaded.catalog)
    output.show(quarantine_list(loaded.name, tables, lake, as_of=now(), limit=limit, wanted=wanted))
    return EXIT_DONE


def quarantine_show(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The mirror.")],
    place: Annotated[
        str | None, typer.Argument(metavar="PLACE", help="The message, partition/offset as the list shows it.")
    ] = None,
    *,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The row: its key as the list shows it, or a single column's value."),
    ] = None,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Tell all about the violations of one message or one row.

    Code, rule, column, where and when, schema, and what to do: everything but values.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.catalog.catalog import open_tables
    from cdc_materializer.report.quarantined import parse_place, quarantine_details
    from cdc_materializer.status import configured_tables

    if place is None and key is None:
        raise UsageError("Nothing says which violation.", "Name a message (such as 0/9), or a row with --key.")
    at = parse_place(place) if place is not None else None
    loaded = load(config)
    (found,) = configured_tables(loaded, [table])
    output.show(quarantine_details(loaded.name, found, open_tables(loaded.catalog), as_of=now(), place=at, key=key))
    return EXIT_DONE


def known_code(given: str | None) -> str | None:
    """A violation code as it was given, in capitals.

    Raises:
        UsageError: there is none of that name.
    """
    from cdc_materializer.errors import Code
    from cdc_materializer.names import nearest, shown

    if given is None or given.upper() in set(Code):
        return given and given.upper()
    near = nearest(given.upper(), [str(code) for code in Code])
    do = f"Did you mean {near}?" if near else f"The codes are {', '.join(Code)}."
    raise UsageError(f"There is no violation code {shown(given)}.", do)


def contract_lint(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Contract files; those of the pipeline's file if left out.")
    ] = None,
    *,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Check contract files.

    Tells everything that is wrong with each, by line; ends with 2 if there is anything. Those of the pipeline's file
    are held to the columns that the mirrors have, too.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    found = _linted(files) if files else _linted_of(config, output)
    output.show(found)
    return EXIT_DONE if found.valid else EXIT_USAGE


def _linted(files: list[Path]) -> "LintReport":
    from cdc_materializer.contract import lint
    from cdc_materializer.report.models import LintReport

    return LintReport(files=[found for path in files for found in lint(path).files])


def _linted_of(config: Path, output: Output) -> "LintReport":
    """Check the contracts that the configuration names, each for its table and the columns that it has."""
    from cdc_materializer.contract import lint
    from cdc_materializer.contract.relations import columns_elsewhere
    from cdc_materializer.report.models import LintReport
    from cdc_materializer.status import configured_tables

    loaded = load(config)
    known = configured_tables(loaded, ())
    tables = [table for table in known if table.contract is not None]
    stored = _stored(loaded, [table.mirror for table in tables], output)
    elsewhere = columns_elsewhere(loaded, [table.mirror for table in known])
    linted = [
        lint(
            table.contract,
            columns,
            str(table.mirror),
            loaded.root,
            table.known_key(key),
            table.final_names,
            elsewhere,
        )
        for table, (columns, key) in [(table, stored.get(table.mirror, (None, ()))) for table in tables]
        if table.contract is not None
    ]
    return LintReport(files=[found for part in linted for found in part.files])


def _stored(
    config: "Config", mirrors: "Sequence[TableName]", output: Output
) -> "dict[TableName, tuple[dict[str, str], Collection[str]]]":
    """The columns and the keys of the mirrors that are there; it is told where the catalog cannot be asked for all."""
    from cdc_materializer.catalog.catalog import open_tables
    from cdc_materializer.names import RESERVED_COLUMN_PREFIX

    known: dict[TableName, tuple[dict[str, str], Collection[str]]] = {}
    try:
        lake = open_tables(config.catalog)
        for mirror in mirrors:
            found = lake.columns_of(mirror)
            if found is not None:
                own = [name for name in found[0] if not name.startswith(RESERVED_COLUMN_PREFIX)]
                known[mirror] = {name: found[0][name] for name in own}, found[1]
    except CdcError as error:
        output.note(f"warning: Not all contracts were held to the columns of their mirrors. {error}")
    return known
