"""The commands that work: `demo`, `run`, `verify`, `replay`, `adopt`, `why`, `contract test`.

They start Spark where there is work.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_materializer.cli.looks import contract
from cdc_materializer.cli.options import CONFIG_DEFAULT, AsJson, ConfigFile, Debug, TableNames
from cdc_materializer.cli.output import Output, load, now, program
from cdc_materializer.errors import EXIT_BLOCKED, EXIT_DONE, UsageError
from cdc_materializer.names import shown

if TYPE_CHECKING:
    from cdc_materializer.cli.progress import RunProgress
    from cdc_materializer.config import Config, TableConfig
    from cdc_materializer.line import Batch
    from cdc_materializer.run import RunOptions

#: Where the demo goes when nobody says.
DEMO_FOLDER = Path("demo")
#: Most messages of a row that `why` shows when nobody says.
WHY_MESSAGES = 200


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command()(demo)
    app.command()(run)
    app.command()(verify)
    app.command()(replay)
    app.command()(adopt)
    app.command()(why)
    contract.command("test")(contract_test)


def demo(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of its own; made if it is not there.")
    ] = DEMO_FOLDER,
    *,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Run the whole job on recorded data.

    The topics come from a real PostgreSQL and are part of the package: no server and no set-up is needed.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.demo import exit_code, run_demo

    with Steps(output) as steps:
        found = run_demo(folder, steps.begin, program())
    if as_json:
        output.show(found)
    else:
        from cdc_materializer.cli.tour import tour

        output.draw(tour(found, Path.cwd()))
    return exit_code(found)


def run(
    *,
    config: ConfigFile = CONFIG_DEFAULT,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until stopped.")] = False,
    table: TableNames = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Bring every mirror up to the end of its topic.

    The first SIGINT or SIGTERM lets the running batches end, the second abandons them; the tables are right either way.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import RunProgress
    from cdc_materializer.cli.stopping import stop_on_signals
    from cdc_materializer.run import RunOptions, run_once

    loaded = load(config)
    with RunProgress(output) as progress:
        options = RunOptions(tables=tuple(table or ()), on_batch=progress.advance)
        progress.expect(loaded, options)
        with stop_on_signals(options.stop, output) as in_background:
            if follow:
                return in_background(lambda: _follow(loaded, options, output, progress))
            found = in_background(lambda: run_once(loaded, options=options))
    output.show(found)
    return found.exit_code


def _follow(config: "Config", options: "RunOptions", output: Output, progress: "RunProgress") -> int:
    """Run for ever; each round is told on one line a table, and all of them together in the document."""
    from cdc_materializer.cli.following import Following
    from cdc_materializer.run import run_forever

    following = Following(config.name)
    for found in run_forever(config, options=options):
        following.add(found)
        if output.as_json:
            # The document comes at the end; whoever watches has to learn of a table that fails before that.
            for line in following.failures(found):
                output.note(line)
        else:
            progress.pause()
            for line in following.lines(found):
                output.draw(line)
    if output.as_json:
        output.show(following.report())
    return following.exit_code


def verify(
    *, config: ConfigFile = CONFIG_DEFAULT, table: TableNames = None, as_json: AsJson = False, debug: Debug = False
) -> int:
    """Fold every message again and compare with the mirrors.

    Key by key, value by value; ends with 8 if there is a difference.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.status import exit_code_of
    from cdc_materializer.verify import verify_tables

    loaded = load(config)
    with Steps(output) as steps:
        steps.begin("Folding every message again")
        found = verify_tables(loaded, tables=tuple(table or ()))
    output.show(found)
    return exit_code_of(found)


def adopt(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The mirror whose source lost or rewound data.")],
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why it is accepted; kept with the decision.")
    ] = None,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Go on after the source lost or rewound data, on the record.

    For a table that stopped with exit code 6: accepts what is lost, keeps who did so and why, and lets `run` go on.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.adopt import Decision, adopt_table
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.environment import user_name

    loaded = load(config)
    with Steps(output) as steps:
        steps.begin(f"Looking at what {table} lost")
        found = adopt_table(loaded, table, Decision(user_name(), now(), reason))
    output.show(found)
    return EXIT_DONE


def replay(  # noqa: PLR0913 - the options are the command's own
    tables: Annotated[list[str], typer.Argument(metavar="TABLE...", help="The mirrors to rebuild.")],
    *,
    start: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="`earliest`: raw's first message.")
    ] = "earliest",
    publish: Annotated[
        bool, typer.Option("--publish", help="Make the rebuilt mirror the one that readers see, in one commit.")
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Throw away what an earlier replay has left; else it is gone on with.")
    ] = False,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Give readers back what the last published replay has replaced.")
    ] = False,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Rebuild mirrors from their raw tables beside the live ones.

    Decodes and folds every message anew, with today's contract, and shows the difference; ends with 8 if there is one
    and nothing was published.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.replay import ReplayOptions, replay_tables, roll_back
    from cdc_materializer.status import exit_code_of_replay

    if start != "earliest":
        raise UsageError(f"`--from {shown(start)}` comes with a later version.", "This one has: `--from earliest`.")
    if rollback and (publish or restart):
        raise UsageError("`--rollback` goes with neither `--publish` nor `--restart`.", "Give one of them.")
    loaded = load(config)
    with Steps(output) as steps:
        if rollback:
            steps.begin("Going back to what was there before the replay")
            found = roll_back(loaded, tuple(tables))
        else:
            steps.begin("Folding every message again")
            read: dict[str, int] = {}

            def advance(table: "TableConfig", batch: "Batch") -> None:
                name = str(table.mirror)
                read[name] = read.get(name, 0) + sum(batch.counts.values())
                steps.begin(f"{name}: {read[name]:,} messages folded again")

            found = replay_tables(loaded, tuple(tables), ReplayOptions(publish, restart, advance))
    output.show(found)
    return exit_code_of_replay(found)


def why(
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
        int, typer.Option("--limit", min=1, metavar="MESSAGES", help="The most messages to show: the newest.")
    ] = WHY_MESSAGES,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Tell the life of one row: every message, what became of it, and why.

    Folds the messages of its key again, and says which columns each changed and why the row is as it is now; never
    their values. For example: `cdcm why shop.orders --key 42`.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.report.quarantined import parse_place

    if (key is None) == (place is None):
        raise UsageError("One of them says which row: --key, or --raw-offset.", "For example: --key '{\"id\": 42}'.")
    at = parse_place(place.replace(":", "/", 1)) if place is not None else None
    loaded = load(config)
    from cdc_materializer.why import Asked
    from cdc_materializer.why import why as explain

    with Steps(output) as steps:
        steps.begin(f"Looking for the row's messages in {table}__raw")
        found = explain(loaded, table, Asked(key, at, limit))
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
    nothing. Ends with 5 if a rule would have stopped batches, with 2 if the contract cannot be followed. For example:
    `cdcm contract test contracts/orders.yaml --table shop.orders`.
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
