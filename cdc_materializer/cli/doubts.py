"""The commands for rows and rules that somebody doubts: `why`, `contract test`, `quarantine release`."""

from pathlib import Path
from typing import Annotated

import typer

from cdc_materializer.cli.looks import contract, known_code, quarantine
from cdc_materializer.cli.options import CONFIG_DEFAULT, ROWS_DEFAULT, SHOWN_MAX, AsJson, ConfigFile, Debug, RowsShown
from cdc_materializer.cli.output import Output, load
from cdc_materializer.errors import EXIT_BLOCKED, EXIT_DONE, UsageError
from cdc_materializer.names import shown

#: Most messages of a row that `why` shows when nobody says.
WHY_MESSAGES = 200


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command()(why)
    app.command("as-of")(as_of)
    contract.command("test")(contract_test)
    quarantine.command("release")(quarantine_release)


def why(  # noqa: PLR0913 - the options are the command's own
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The mirror.")],
    *,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The row: its key as JSON, or the value of a key of one column."),
    ] = None,
    place: Annotated[
        str | None,
        typer.Option("--raw-offset", metavar="PLACE", help="The row that this message, partition:offset, is about."),
    ] = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit", min=1, max=SHOWN_MAX, metavar="MESSAGES", help="The most messages to show: the newest."
        ),
    ] = WHY_MESSAGES,
    values: Annotated[
        bool,
        typer.Option("--values", help="Show what the changed columns were and became, masked as the contract says."),
    ] = False,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Tell the life of one row: every message, what became of it, and why.

    Folds the messages of its key again, and says which columns each changed and why the row is as it is now; their
    values with `--values` alone. For example: `cdcm why shop.orders --key 42`.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.report.quarantined import parse_place

    if (key is None) == (place is None):
        raise UsageError("One of them says which row: --key, or --raw-offset.", "For example: --key '{\"id\": 42}'.")
    at = parse_place(place.replace(":", "/", 1)) if place is not None else None
    loaded = load(config)
    from cdc_materializer.explain.explain import Asked
    from cdc_materializer.explain.explain import why as explain

    with Steps(output) as steps:
        steps.begin(f"Looking for the row's messages in {table}__raw")
        found = explain(loaded, table, Asked(key, at, limit, values))
    output.show(found)
    return EXIT_DONE


def as_of(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The mirror.")],
    *,
    position: Annotated[
        str | None,
        typer.Option("--position", metavar="POSITION", help="A place in the source's log, as `cdcm why` shows it."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option("--time", metavar="TIME", help="A commit time of the source (ISO 8601)."),
    ] = None,
    limit: RowsShown = ROWS_DEFAULT,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show the rows of a table as its source had them.

    At a position of its log or a time: folds them from raw, names the snapshot that has them if there is one, and says
    how exact it is. Shows values, masked as the contract says. For example: `cdcm as-of shop.orders --time 2026-11-01`.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.report.past import parse_time

    at = parse_time(time) if time is not None else None
    if time is not None and at is None:
        raise UsageError(f"{shown(time)} is no time.", "Write one such as 2026-11-21T10:00Z.")
    loaded = load(config)
    from cdc_materializer.moments.moments import Moment
    from cdc_materializer.moments.moments import as_of as rows_as_of

    with Steps(output) as steps:
        steps.begin(f"Looking for what {table} was then")
        found = rows_as_of(loaded, table, Moment(position, at, limit))
    output.show(found)
    return EXIT_DONE


def contract_test(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The contract; the table's own if left out.")
    ] = None,
    *,
    table: Annotated[
        str | None,
        typer.Option("--table", "-t", metavar="NAME", help="The mirror; the one that names the file if left out."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Count only messages from then on (ISO 8601).")
    ] = None,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Try a contract on history before it goes live.

    Judges every state that the rows of a table have had in raw, or in the topic where there is no raw yet; writes
    nothing. Ends with 5 if a rule would have stopped batches, or `max_quarantined` all of history as one batch; with 2
    if the contract cannot be followed. For example: `cdcm contract test contracts/orders.yaml --table shop.orders`.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.report.past import parse_time

    at = parse_time(since) if since is not None else None
    if since is not None and at is None:
        raise UsageError(f"{shown(since)} is no time.", "Write one such as 2026-11-21T10:00Z.")
    loaded = load(config)
    from cdc_materializer.trial import choose, try_contract

    name, path = choose(loaded, file, table)
    with Steps(output) as steps:
        steps.begin(f"Judging the history of {name}")
        found = try_contract(loaded, name, path, at)
    output.show(found)
    return EXIT_BLOCKED if found.blocks else EXIT_DONE


def quarantine_release(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The mirror.")],
    place: Annotated[
        str | None, typer.Argument(metavar="PLACE", help="Only this message, partition/offset as the list shows it.")
    ] = None,
    *,
    code: Annotated[str | None, typer.Option("--code", metavar="CODE", help="Only messages with this code.")] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="NAME", help="Only messages that broke this rule of the contract.")
    ] = None,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Judge held messages again, after the contract or a setting was mended.

    Reads them from raw, publishes in their order what is good by now, and leaves the rest held. For example:
    `cdcm quarantine release shop.orders --rule known-status`.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.report.quarantined import parse_place

    at, known = parse_place(place) if place is not None else None, known_code(code)
    loaded = load(config)
    from cdc_materializer.release import Wanted, release_held

    with Steps(output) as steps:
        steps.begin(f"Judging what {table} holds back")
        found = release_held(loaded, table, Wanted(at, known, rule))
    output.show(found)
    return EXIT_DONE
