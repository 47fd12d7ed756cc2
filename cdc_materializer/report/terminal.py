"""Reports on a terminal: tables and panels that read well at 80 columns, with colour and without.

Colour only repeats what the words say. Times are ISO 8601 in UTC with their age beside them; the clock is passed in.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import singledispatch

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cdc_materializer.report.layout import (
    INDENT,
    Printable,
    fact_list,
    failure,
    heading,
    new_table,
    number,
    place_line,
)
from cdc_materializer.report.maintain_models import MaintainReport
from cdc_materializer.report.models import (
    AdoptReport,
    FileHealth,
    LintReport,
    MessagePlace,
    ReleaseReport,
    Report,
    RunReport,
    StatusReport,
    TableRun,
    TableStatus,
    VerifyReport,
)
from cdc_materializer.report.next_steps import NO_FILE, NextSteps
from cdc_materializer.report.plan_models import PlanReport
from cdc_materializer.report.query_models import AsOfReport, QueryReport
from cdc_materializer.report.replay_models import ReplayReport
from cdc_materializer.report.row_models import WhyReport
from cdc_materializer.report.setup_models import DoctorReport, InitReport
from cdc_materializer.report.terminal_maintain import maintain_view
from cdc_materializer.report.terminal_plan import plan_view
from cdc_materializer.report.terminal_proof import adopt_view, release_view, replay_view, verify_view
from cdc_materializer.report.terminal_query import as_of_view, query_view
from cdc_materializer.report.terminal_row import why_view
from cdc_materializer.report.terminal_setup import doctor_view, init_view
from cdc_materializer.report.terminal_trial import trial_view
from cdc_materializer.report.trial_models import TrialReport
from cdc_materializer.report.violation_models import (
    QuarantineDetails,
    QuarantineList,
    QuarantineRow,
    TableVerdict,
    TableViolations,
    ViolationGroup,
    ViolationReport,
)
from cdc_materializer.report.wording import (
    TREATMENTS,
    VERDICTS,
    End,
    age,
    at_words,
    contacts_line,
    contract_lines,
    done_words,
    duration,
    found_words,
    headline,
    masked_line,
    moment,
    printable,
    quantity,
    samples_line,
    schema_words,
    share,
    size,
    standing,
    time_of,
    worst_first,
)

_STYLES: Mapping[TableVerdict, str] = {
    TableVerdict.STOPPED: "bold red",
    TableVerdict.HELD: "yellow",
    TableVerdict.REPORTED: "cyan",
    TableVerdict.CLEAN: "green",
    TableVerdict.EMPTY: "dim",
}


def render(report: Report, *, now: datetime, steps: NextSteps = NO_FILE) -> RenderableType:
    """Return what a terminal shows of a report, with its commands as `steps` writes them.

    Args:
        report: what a command found or did.
        now: the time that ages are counted from, with a zone.
        steps: names the pipeline's file.
    """
    return Printable(_render(steps.in_report(report), now, steps))


@singledispatch
def _render(report: Report, now: datetime, steps: NextSteps) -> RenderableType:
    message = f"no view of {type(report).__name__}"
    raise NotImplementedError(message)


# --- run ----------------------------------------------------------------------------------------------------------


@_render.register
def _run(report: RunReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    table = new_table("table", "read", "upserted", "deleted", "held", "other", "seconds", numbers=_RUN_NUMBERS)
    for run in report.tables:
        other = run.unchanged + run.superseded + run.replayed + run.ignored
        name = Text(run.table, style="red" if run.error else "")
        counts = (run.read, run.upserted, run.deleted, run.quarantined, other)
        table.add_row(name, *map(number, counts), f"{run.seconds:.1f}")
    below = [failure(run.table, run.error) for run in report.tables if run.error]
    violations = _run_violations(report.tables, steps)
    nothing = not any(run.read or run.error for run in report.tables)
    done = [Text("Nothing new was read.", style="dim")] if nothing else []
    swept = [
        Text(f"{run.table}: {run.swept:,} rows that a snapshot did not show are deleted.")
        for run in report.tables
        if run.swept
    ]
    return Group(table, *done, *swept, *_meddled(report.tables, steps), *violations, *below)


def _meddled(tables: Iterable[TableRun | TableStatus], steps: NextSteps) -> list[Text]:
    """Which tables another program has written to."""
    found = [(one.table, quantity(one.foreign_commits, "commit")) for one in tables if one.foreign_commits]
    do = steps.in_text("compare with `cdcm verify`.")
    return [Text(f"{name}: changed by {commits} of another program; {do}", style="yellow") for name, commits in found]


_RUN_NUMBERS = ("read", "upserted", "deleted", "held", "other", "seconds")


def _run_violations(tables: Iterable[TableRun], steps: NextSteps) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for run in tables:
        if run.violations:
            found = ", ".join(f"{code} × {count}" for code, count in sorted(run.violations.items()))
            lines.append(Text.assemble((f"{run.table}: ", "bold"), (found, "yellow")))
    return [*lines, Text(steps.in_text("See `cdcm report`."), style="dim")] if lines else []


# --- status -------------------------------------------------------------------------------------------------------


@_render.register
def _status(report: StatusReport, now: datetime, steps: NextSteps) -> RenderableType:
    table = new_table("table", "rows", "lag", "behind", "held", "files", "published", numbers=("rows", "lag", "held"))
    for status in report.tables:
        files = _files(status.files)
        behind = "–" if status.lag_seconds is None else duration(status.lag_seconds) + (", late" if status.late else "")
        held = Text(number(status.held), style="yellow" if status.quarantine_open else "")
        published = age(now - status.last_publish) if status.last_publish else "never"
        table.add_row(
            Text(status.table, style="red" if status.error else ""),
            number(status.rows),
            number(status.lag_messages),
            behind,
            held,
            files,
            published,
        )
    legend = "lag and held in messages; files: data+deletes, size; as of " + moment(report.as_of, now)
    waiting = [line for status in report.tables if (line := _held(status, now))]
    failures = [failure(status.table, status.error) for status in report.tables if status.error]
    see = steps.in_text("see `cdcm maintain --plan`")
    hints = [
        Text(f"{status.table}: {status.files.hint}; {see}", style="dim")
        for status in report.tables
        if status.files is not None and status.files.hint is not None
    ]
    return Group(table, Text(legend, style="dim"), *waiting, *_meddled(report.tables, steps), *hints, *failures)


def _held(status: TableStatus, now: datetime) -> Text | None:
    """What a table holds back, beside all that it was sent, and for how long."""
    if not status.held:
        return None
    of_all = f" ({share(status.held_share)} of {status.messages:,})" if status.messages else ""
    oldest = f", the oldest for {duration((now - status.held_since).total_seconds())}" if status.held_since else ""
    return Text(f"{status.table}: {quantity(status.held, 'message')} held back{of_all}{oldest}", style="yellow")


def _files(files: FileHealth | None) -> str:
    return f"{files.data_files}+{files.delete_files}, {size(files.bytes)}" if files else "–"


# --- violations ---------------------------------------------------------------------------------------------------


@_render.register
def _violations(report: ViolationReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    is_well = all(table.verdict in {TableVerdict.CLEAN, TableVerdict.EMPTY} for table in report.tables)
    summary = Text(headline(report), style="green" if is_well else "")
    title = Text.assemble((f"Contract violations, pipeline {report.pipeline}", "bold"))
    as_of = Text(f"as of {moment(report.as_of, now)}", style="dim")
    parts: list[RenderableType] = [title, as_of, Padding(summary, (1, 0))]
    for table in worst_first(report.tables):
        parts += _table_violations(table, now)
    return Group(*parts)


def _table_violations(table: TableViolations, now: datetime) -> list[RenderableType]:
    style, note = _STYLES[table.verdict], VERDICTS[table.verdict]
    parts: list[RenderableType] = [heading(table.table, style, note)]
    if table.violations:
        parts.append(Padding(Text(standing(table), style="dim"), (0, 0, 0, INDENT)))
    said = (*contract_lines(table), contacts_line(table.contract), masked_line(table), samples_line(table))
    parts += [Padding(Text(line, style="dim"), (0, 0, 0, INDENT)) for line in said if line is not None]
    for group in table.violations:
        parts += [Text(""), _violation_group(group, now)]
        if group.samples and table.sample_columns is not None:
            parts.append(_samples(group, table.sample_columns.shown))
    return [*parts, Text("")]


def _violation_group(group: ViolationGroup, now: datetime) -> RenderableType:
    name = f"{group.code} {group.rule}" if group.rule else group.code
    facts: list[tuple[str, RenderableType]] = [
        *([("rule", group.states)] if group.states else []),
        ("found", found_words(group)),
        *([("column", group.column)] if group.column else []),
        ("done", done_words(group)),
        ("first", _place(group, "first", now)),
        *([("last", _place(group, "last", now))] if group.count > 1 else []),
        *([("schema", schema_words(group))] if group.first.written_with is not None else []),
        *([("open since", moment(group.since, now))] if group.since else []),
        ("means", group.explanation),
        ("do", group.remedy),
    ]
    style = _STYLES[TableVerdict(group.action)] if group.open or group.action == "reported" else "dim"
    return Padding(Group(Text(name, style=style), fact_list(facts)), (0, 0, 0, INDENT))


def _place(group: ViolationGroup, end: End, now: datetime) -> str:
    if group.about != "messages":
        return f"{at_words(group, end)}, {moment(time_of(group, end), now)}"
    return place_line(group.first if end == "first" else group.last, now)


def _samples(group: ViolationGroup, columns: Iterable[str]) -> RenderableType:
    """The public columns of a few rows, one below the other: what a message leaves out is left out here."""
    facts: list[tuple[str, RenderableType]] = []
    for row in group.samples:
        known = [(name, row.values[name]) for name in columns if name in row.values]
        # As plain text: a value is somebody's, and may hold what a terminal would follow.
        said = ", ".join(f"{name} {'NULL' if value is None else printable(value)}" for name, value in known)
        facts.append((f"sample {row.place.partition}/{row.place.offset}", said or "–"))
    return Padding(fact_list(facts), (0, 0, 0, INDENT))


# --- quarantine ---------------------------------------------------------------------------------------------------


@_render.register
def _quarantine(report: QuarantineList, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    if not report.rows:
        return Text("Nothing in quarantine that matches.", style="green")
    parts: list[RenderableType] = []
    widths = _widths(report.rows, now)
    for name in dict.fromkeys(row.table for row in report.rows):
        rows = [row for row in report.rows if row.table == name]
        parts += [Text(name, style="bold"), _rows(rows, widths, now), Text("")]
    shown = f"{len(report.rows):,} of {report.total:,} rows, newest first; place: partition/offset"
    return Group(*parts, Text(shown, style="dim"))


def _widths(rows: Iterable[QuarantineRow], now: datetime) -> dict[str, int]:
    """Widths that keep places, codes, states and ages whole, the same for all tables of a list."""
    widths = {name: len(name) for name in ("place", "code and rule", "status")}
    for row in rows:
        told = (f"{row.partition}/{row.offset}", row.code, max(row.status, _old(row, now), key=len))
        for name, text in zip(widths, told, strict=True):
            widths[name] = max(widths[name], len(text))
    return widths


def _old(row: QuarantineRow, now: datetime) -> str:
    return age(now - row.detected_at) if row.detected_at else "–"


def _rows(rows: Iterable[QuarantineRow], widths: Mapping[str, int], now: datetime) -> RenderableType:
    """Lay out the rows of one table, two lines each; what has no width of its own takes what is left, and folds."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("place", "code and rule", "column and key", "status"):
        table.add_column(name, width=widths.get(name), overflow="fold")
    for row in rows:
        code = Text(f"{row.code}\n{row.rule}" if row.rule else row.code)
        style = "yellow" if row.status == "open" else "dim"
        subject = Text("\n".join(filter(None, (row.column, printable(row.key or "")))) or "–")
        table.add_row(
            f"{row.partition}/{row.offset}", code, subject, Text.assemble((row.status, style), f"\n{_old(row, now)}")
        )
    return Padding(table, (0, 0, 0, INDENT))


@_render.register
def _details(report: QuarantineDetails, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    parts: list[RenderableType] = []
    for found in report.violations:
        status = ("yellow" if found.status == "open" else "dim", found.status)
        name = f"{found.code} {found.rule}" if found.rule else found.code
        place = MessagePlace(**{field: getattr(found, field) for field in MessagePlace.model_fields})
        facts: list[tuple[str, RenderableType]] = [
            ("table", found.table),
            ("topic", found.topic),
            ("message", place_line(place, now)),
            *([("schema", printable(place.written_with))] if place.written_with is not None else []),
            ("key", printable(found.key or "– (none that can be read)")),
            *([("column", found.column)] if found.column else []),
            ("done", TREATMENTS[found.done] + (f", severity {found.severity}" if found.severity else "")),
            ("detected", moment(found.detected_at, now) + (f", batch {found.batch_id}" if found.batch_id else "")),
            ("means", found.explanation),
            ("do", found.remedy),
        ]
        parts += [heading(name, *status), fact_list(facts), Text("")]
    return Group(*parts, Text(f"The message itself is in {report.table}__raw; values are never shown.", style="dim"))


_render.register(VerifyReport, verify_view)
_render.register(ReplayReport, replay_view)
_render.register(QueryReport, query_view)
_render.register(AsOfReport, as_of_view)
_render.register(AdoptReport, adopt_view)
_render.register(ReleaseReport, release_view)
_render.register(WhyReport, why_view)
_render.register(TrialReport, trial_view)
_render.register(PlanReport, plan_view)
_render.register(MaintainReport, maintain_view)
_render.register(InitReport, init_view)
_render.register(DoctorReport, doctor_view)


# --- lint ---------------------------------------------------------------------------------------------------------


@_render.register
def _lint(report: LintReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    parts: list[RenderableType] = []
    for file in report.files:
        if not file.problems:
            content = (
                f"{quantity(file.columns, 'column')}, {quantity(file.rules, 'rule')}, fingerprint {file.fingerprint}"
            )
            parts += [heading(file.path, "green", "valid"), fact_list([("", content)])]
            continue
        parts.append(heading(file.path, "red", quantity(len(file.problems), "problem")))
        for problem in file.problems:
            at = f"line {problem.line}" if problem.line else ""
            parts.append(fact_list([(at, Text.assemble(problem.message, " ", (problem.do, "italic")))]))
            if problem.line:
                parts.append(Padding(Text(problem.where, style="dim"), (0, 0, 0, INDENT * 2)))
    return Group(*parts) if parts else Text("No contract to check.", style="dim")
