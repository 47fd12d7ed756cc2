"""The commands that work: `demo`, `run`, `verify`, `replay`, `adopt`, `query`. They start Spark where there is work."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_materializer.cli.options import (
    CONFIG_DEFAULT,
    ROWS_DEFAULT,
    AsJson,
    ConfigFile,
    Debug,
    PlainKeys,
    RowsShown,
    TableNames,
    deadline_of,
)
from cdc_materializer.cli.output import NEXT_STEPS, Output, load, now, program
from cdc_materializer.errors import EXIT_DONE, UsageError
from cdc_materializer.names import printable_lines

if TYPE_CHECKING:
    from cdc_materializer.batch.steps import Batch
    from cdc_materializer.cli.progress import RunProgress, Steps
    from cdc_materializer.config import Config, TableConfig
    from cdc_materializer.rebuild.rebuild import ReplayOptions
    from cdc_materializer.report.replay_models import ReplayReport
    from cdc_materializer.run.run import RunOptions

#: Where the demo goes when nobody says.
DEMO_FOLDER = Path("demo")


def add_to(app: typer.Typer) -> None:
    """Register the commands of this module."""
    app.command()(demo)
    app.command()(run)
    app.command()(verify)
    app.command()(replay)
    app.command()(adopt)
    app.command()(query)


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

    NEXT_STEPS.name_file(folder / CONFIG_DEFAULT)
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
    plan: Annotated[
        bool, typer.Option("--plan", help="Write nothing; tell what a run would change of the tables' columns.")
    ] = False,
    table: TableNames = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="Begin no batch after so long (`10m`, `2h`); what is left is the next run's, and this ends with 0, or "
            "with 3 where not all topics could be asked.",
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Bring every mirror up to the end of its topic.

    The first SIGINT or SIGTERM lets the running batches end, the second abandons them; the tables are right either way.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import RunProgress
    from cdc_materializer.cli.stopping import stop_on_signals
    from cdc_materializer.run.run import RunOptions, run_once

    deadline = deadline_of(time)
    if plan and (follow or time is not None):
        raise UsageError("`--plan` goes with neither `--follow` nor `--for`.", "Give one of them.")
    loaded = load(config)
    if plan:
        return _plan(loaded, tuple(table or ()), output)
    with RunProgress(output) as progress:
        options = RunOptions(tables=tuple(table or ()), deadline=deadline, on_batch=progress.advance)
        progress.expect(loaded, options)
        with stop_on_signals(options.stop, output) as in_background:
            if follow:
                return in_background(lambda: _follow(loaded, options, output, progress))
            found = in_background(lambda: run_once(loaded, options=options))
    output.show(found)
    return found.exit_code


def _plan(config: "Config", tables: tuple[str, ...], output: Output) -> int:
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.plan import plan_tables

    with Steps(output) as steps:
        steps.begin("Looking at the schemas of what a run would read")
        found = plan_tables(config, tables)
    output.show(found)
    return found.exit_code


def _follow(config: "Config", options: "RunOptions", output: Output, progress: "RunProgress") -> int:
    """Run for ever; each round is told on one line a table, and all of them together in the document."""
    from cdc_materializer.cli.following import Following, maintaining
    from cdc_materializer.run.run import run_forever

    following = Following(config.name)
    for found in run_forever(config, options=maintaining(config, options)):
        following.add(found)
        if output.as_json:
            # The document comes at the end; whoever watches has to learn of a table that fails before that.
            for line in following.failures(found):
                output.note(line)
        else:
            progress.pause()
            for line in following.lines(found):
                output.draw(printable_lines(line))
    if output.as_json:
        output.show(following.report())
    return following.exit_code


def verify(  # noqa: PLR0913 - the options are the command's own
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Only these mirrors; all if none is named.")
    ] = None,
    *,
    repair: Annotated[
        bool, typer.Option("--repair", help="Put the differing rows right, and no other, in one commit.")
    ] = False,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Hold the mirrors against their ledgers alone: one scan, whatever raw has.")
    ] = False,
    source: Annotated[
        bool, typer.Option("--source", help="Hold the mirrors against the databases themselves (`source_database`).")
    ] = False,
    keys: PlainKeys = False,
    config: ConfigFile = CONFIG_DEFAULT,
    table: TableNames = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="Begin with no table after so long (`10m`, `2h`), and end with 3 where some were not compared.",
        ),
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Fold every message again and compare with the mirrors.

    Key by key, value by value; ends with 8 if there is a difference that was not repaired.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.proof.proof import VerifyOptions, verify_tables
    from cdc_materializer.status import exit_code_of

    wanted = (*(tables or ()), *(table or ()))
    deadline = deadline_of(time)
    options = VerifyOptions(wanted, repair, ledger, plain_keys=keys, source=source, deadline=deadline)
    loaded = load(config)
    step = "Reading the databases" if source else "Folding every message again"
    with Steps(output) as steps:
        steps.begin("Adding up the mirrors' rows" if ledger else step)
        found = verify_tables(loaded, options=options)
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
        str,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="`earliest`: raw's first message; `offset:1200`, `offset:0/1200,1/900`: an offset of all or of named "
            "partitions; `time:2026-11-01T00:00Z`: the first message from then on; `kafka`: the topic's first message.",
        ),
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
    forget: Annotated[
        bool, typer.Option("--forget", help="Keep no longer what the last published replay has replaced.")
    ] = False,
    keys: PlainKeys = False,
    time: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="Begin no batch after so long (`10m`, `2h`), and end with 3 where some are left: what was rebuilt is "
            "kept, and the next replay goes on with it.",
        ),
    ] = None,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Rebuild mirrors from their raw tables beside the live ones.

    Decodes and folds every message anew, with today's contract, and shows the difference; ends with 8 if publishing
    would change rows, columns or what is held, and nothing was published.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.rebuild.rebuild import ReplayOptions, let_go, roll_back
    from cdc_materializer.rebuild.start import EARLIEST, parse_start
    from cdc_materializer.status import exit_code_of_replay

    begin, deadline = parse_start(start), deadline_of(time)
    others = publish or restart or time is not None
    if (rollback or forget) and sum((others, rollback, forget, begin != EARLIEST)) > 1:
        what = (
            "`--rollback` and `--forget` go with none of `--from`, `--publish`, `--restart` and `--for`, nor with each "
            "other."
        )
        raise UsageError(what, "Give one of them.")
    loaded = load(config)
    with Steps(output) as steps:
        if rollback:
            steps.begin("Going back to what was there before the replay")
            found = roll_back(loaded, tuple(tables))
        elif forget:
            steps.begin("Forgetting what was there before the replay")
            found = let_go(loaded, tuple(tables))
        else:
            options = ReplayOptions(publish, restart, begin, plain_keys=keys, deadline=deadline)
            found = _rebuild(loaded, tuple(tables), options, steps)
    output.show(found)
    return exit_code_of_replay(found)


def _rebuild(config: "Config", tables: tuple[str, ...], options: "ReplayOptions", steps: "Steps") -> "ReplayReport":
    """Rebuild mirrors, and show how far each is."""
    from cdc_materializer.rebuild.rebuild import replay_tables

    steps.begin("Folding every message again")
    read: dict[str, int] = {}

    def advance(table: "TableConfig", batch: "Batch") -> None:
        name = str(table.mirror)
        read[name] = read.get(name, 0) + sum(batch.counts.values())
        steps.begin(f"{name}: {read[name]:,} messages folded again")

    return replay_tables(config, tables, replace(options, on_batch=advance))


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, in Spark's SQL.")],
    *,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="As if a run had brought the mirrors up to the ends of their topics.")
    ] = False,
    limit: RowsShown = ROWS_DEFAULT,
    config: ConfigFile = CONFIG_DEFAULT,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Ask the mirrors, with what is not published yet if you like.

    Shows values, masked as the contract says. For example: `cdcm query "SELECT count(*) FROM shop.orders" --fresh`.
    """
    output = Output.begin(as_json=as_json, debug=debug)
    from cdc_materializer.cli.progress import Steps
    from cdc_materializer.query.query import run_query

    loaded = load(config)
    with Steps(output) as steps:
        steps.begin("Asking")
        found = run_query(loaded, sql, limit, fresh=fresh)
    output.show(found)
    return EXIT_DONE
