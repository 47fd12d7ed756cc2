"""Reports on a terminal: tables and panels that read well at 80 columns, with colour and without.

Colour only repeats what the words say. Times are ISO 8601 in UTC with their age beside them; the clock is passed in.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import singledispatch

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cdc_materializer.report.models import (
    ErrorInfo,
    FileHealth,
    LintReport,
    MessagePlace,
    QuarantineList,
    Report,
    RunReport,
    StatusReport,
    TableRun,
    TableVerdict,
    TableVerify,
    TableViolations,
    VerifyReport,
    ViolationGroup,
    ViolationReport,
)

_VERDICTS: Mapping[TableVerdict, tuple[str, str]] = {
    TableVerdict.STOPPED: ("bold red", "stopped, waits for you"),
    TableVerdict.HELD: ("yellow", "published, some messages held back"),
    TableVerdict.REPORTED: ("cyan", "all published, with remarks"),
    TableVerdict.CLEAN: ("green", "clean"),
    TableVerdict.EMPTY: ("dim", "not run yet"),
}
_TREATMENTS = {"held": "held back", "reported": "published, reported", "stopped": "stopped the table"}
_INDENT = 2

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
#: Below each of these ages, in seconds, an age is told in the unit beside it.
_AGE_UNITS = ((2 * _MINUTE, 1, "s"), (2 * _HOUR, _MINUTE, "min"), (2 * _DAY, _HOUR, "h"), (None, _DAY, "d"))
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
_THOUSAND = 1_000


def render(report: Report, *, now: datetime) -> RenderableType:
    """Return what a terminal shows of a report; ``now`` (with a zone) is what ages are counted from."""
    return _render(report, now)


@singledispatch
def _render(report: Report, now: datetime) -> RenderableType:
    message = f"no view of {type(report).__name__}"
    raise NotImplementedError(message)


def moment(at: datetime | None, now: datetime) -> str:
    """Write a time as ``2026-11-21T10:00:00Z (3 h ago)``; a dash for none."""
    if at is None:
        return "–"
    utc = at.astimezone(UTC).replace(microsecond=0, tzinfo=None)
    return f"{utc.isoformat()}Z ({age(now - at)})"


def age(passed: timedelta) -> str:
    """Write how long ago something was, in one unit: ``45 s ago``, ``3 h ago``."""
    seconds = int(passed.total_seconds())
    if seconds < 0:
        return "in the future"
    return f"{_duration(seconds)} ago"


def _duration(seconds: float) -> str:
    for limit, size, unit in _AGE_UNITS:
        if limit is None or seconds < limit:
            return f"{int(seconds // size)} {unit}"
    return ""


def _number(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def _size(count: float) -> str:
    for unit in _BYTE_UNITS:
        if count < _THOUSAND or unit == _BYTE_UNITS[-1]:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _THOUSAND
    return ""


def _table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1))
    right = set(numbers)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return table


def _facts(pairs: Iterable[tuple[str, RenderableType]]) -> RenderableType:
    """Lay out names and values under a heading."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, value if not isinstance(value, str) else Text(value))
    return Padding(grid, (0, 0, 0, _INDENT))


def _heading(text: str, style: str, note: str = "") -> Text:
    return Text.assemble((text, "bold"), ("  ", ""), (note, style))


def _failure(table: str, error: ErrorInfo) -> RenderableType:
    return Group(Text(""), _heading(table, "bold red", error.code), Padding(Text(error.message), (0, 0, 0, _INDENT)))


def _place(place: MessagePlace, now: datetime) -> str:
    return f"partition {place.partition}, offset {place.offset}, {moment(place.timestamp, now)}"


# --- run ----------------------------------------------------------------------------------------------------------


@_render.register
def _run(report: RunReport, now: datetime) -> RenderableType:  # noqa: ARG001 - one signature for all
    table = _table("table", "read", "upserted", "deleted", "held", "other", "seconds", numbers=_RUN_NUMBERS)
    for run in report.tables:
        other = run.unchanged + run.superseded + run.replayed + run.ignored
        name = Text(run.table, style="red" if run.error else "")
        counts = (run.read, run.upserted, run.deleted, run.quarantined, other)
        table.add_row(name, *map(_number, counts), f"{run.seconds:.1f}")
    below = [_failure(run.table, run.error) for run in report.tables if run.error]
    violations = _run_violations(report.tables)
    nothing = not any(run.read or run.error for run in report.tables)
    done = [Text("Nothing new to read.", style="dim")] if nothing else []
    return Group(table, *done, *violations, *below)


_RUN_NUMBERS = ("read", "upserted", "deleted", "held", "other", "seconds")


def _run_violations(tables: Iterable[TableRun]) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for run in tables:
        if run.violations:
            found = ", ".join(f"{code} × {count}" for code, count in sorted(run.violations.items()))
            lines.append(Text.assemble((f"{run.table}: ", "bold"), (found, "yellow")))
    return [*lines, Text("See: cdcm report", style="dim")] if lines else []


# --- status -------------------------------------------------------------------------------------------------------


@_render.register
def _status(report: StatusReport, now: datetime) -> RenderableType:
    table = _table("table", "rows", "lag", "behind", "held", "files", "published", numbers=("rows", "lag", "held"))
    for status in report.tables:
        files = _files(status.files)
        behind = "–" if status.lag_seconds is None else _duration(status.lag_seconds)
        held = Text(_number(status.quarantine_open), style="yellow" if status.quarantine_open else "")
        published = age(now - status.last_publish) if status.last_publish else "never"
        table.add_row(
            Text(status.table, style="red" if status.error else ""),
            _number(status.rows),
            _number(status.lag_messages),
            behind,
            held,
            files,
            published,
        )
    legend = "lag and held in messages; files: data+deletes, size; as of " + moment(report.as_of, now)
    failures = [_failure(status.table, status.error) for status in report.tables if status.error]
    return Group(table, Text(legend, style="dim"), *failures)


def _files(files: FileHealth | None) -> str:
    return f"{files.data_files}+{files.delete_files}, {_size(files.bytes)}" if files else "–"


# --- violations ---------------------------------------------------------------------------------------------------


@_render.register
def _violations(report: ViolationReport, now: datetime) -> RenderableType:
    totals = report.totals
    if not totals.held_open and not totals.reported and not totals.tables_with_open:
        summary = Text("Nothing is held back.", style="green")
    else:
        summary = Text(f"{_count(totals.held_open, 'message')} held back, {totals.reported:,} published with a remark.")
    title = Text.assemble((f"Contract violations, pipeline {report.pipeline}", "bold"))
    as_of = Text(f"as of {moment(report.as_of, now)}", style="dim")
    parts: list[RenderableType] = [title, as_of, Padding(summary, (1, 0))]
    for table in sorted(report.tables, key=lambda found: list(_VERDICTS).index(found.verdict)):
        parts += _table_violations(table, now)
    return Group(*parts)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _table_violations(table: TableViolations, now: datetime) -> list[RenderableType]:
    style, note = _VERDICTS[table.verdict]
    parts: list[RenderableType] = [_heading(table.table, style, note)]
    if table.violations:
        of_all = f" of {_count(table.messages, 'message')}" if table.messages is not None else ""
        counts = (
            f"{table.held_open:,} held{of_all}, {table.superseded:,} overtaken since, {table.released:,} released, "
        )
        parts.append(Padding(Text(f"{counts}{table.reported:,} reported", style="dim"), (0, 0, 0, _INDENT)))
    for group in table.violations:
        parts += [Text(""), _violation_group(group, now)]
    return [*parts, Text("")]


def _violation_group(group: ViolationGroup, now: datetime) -> RenderableType:
    name = f"{group.code} {group.rule}" if group.rule else group.code
    share = f" ({group.share:.2%} of all messages)" if group.share is not None else ""
    still = "" if group.action == "reported" else f", {group.open:,} open"
    facts: list[tuple[str, RenderableType]] = [
        ("found", f"{group.count:,}{still}{share}"),
        *([("column", group.column)] if group.column else []),
        ("done", _TREATMENTS[group.action] + (f", severity {group.severity}" if group.severity else "")),
        ("first", _place(group.first, now)),
        *([("last", _place(group.last, now))] if group.count > 1 else []),
        *([("open since", moment(group.since, now))] if group.since else []),
        ("means", group.explanation),
        ("do", group.remedy),
    ]
    style = _VERDICTS[TableVerdict(group.action)][0] if group.open or group.action == "reported" else "dim"
    return Padding(Group(Text(name, style=style), _facts(facts)), (0, 0, 0, _INDENT))


# --- quarantine ---------------------------------------------------------------------------------------------------


@_render.register
def _quarantine(report: QuarantineList, now: datetime) -> RenderableType:
    if not report.rows:
        return Text("Nothing in quarantine that matches.", style="green")
    table = _table("table", "place", "code and rule", "column", "status", "key", "age")
    for row in report.rows:
        rule = f"\n{row.rule}" if row.rule else ""
        detected = age(now - row.detected_at).removesuffix(" ago") if row.detected_at else "–"
        status = Text(row.status, style="yellow" if row.status == "open" else "dim")
        place = f"{row.partition}/{row.offset}"
        plain = (row.table, place, row.code + rule, row.column or "–")
        table.add_row(*map(Text, plain), status, Text(row.key or "–"), detected)
    shown = f"{len(report.rows):,} of {report.total:,} rows, newest first; place: partition/offset"
    return Group(table, Text(shown, style="dim"))


# --- verify -------------------------------------------------------------------------------------------------------


@_render.register
def _verify(report: VerifyReport, now: datetime) -> RenderableType:
    table = _table("table", "rows", "missing", "unexpected", "different", "held", "verdict", numbers=_VERIFY_NUMBERS)
    for found in report.tables:
        counts = (found.found, found.missing, found.unexpected, found.different, found.held)
        table.add_row(Text(found.table), *map(_number, counts), _verify_verdict(found))
    parts: list[RenderableType] = [table]
    for found in report.tables:
        if found.error:
            parts.append(_failure(found.table, found.error))
        elif not found.equal:
            parts += [Text(""), _heading(found.table, "red", "differs from raw"), _verify_facts(found, now)]
    if report.equal:
        parts.append(Text("Every mirror equals the fold of its raw table.", style="green"))
    return Group(*parts)


_VERIFY_NUMBERS = ("rows", "missing", "unexpected", "different", "held")


def _verify_verdict(found: TableVerify) -> Text:
    if found.error:
        return Text("not verified", style="red")
    return Text("equal", style="green") if found.equal else Text("differs", style="red")


def _verify_facts(found: TableVerify, now: datetime) -> RenderableType:
    columns = ", ".join(f"{name} × {count}" for name, count in found.columns.items())
    facts: list[tuple[str, RenderableType]] = [("columns", columns)] if columns else []
    facts += [("last written", _place(place, now)) for place in found.places]
    return _facts(facts)


# --- lint ---------------------------------------------------------------------------------------------------------


@_render.register
def _lint(report: LintReport, now: datetime) -> RenderableType:  # noqa: ARG001 - one signature for all
    parts: list[RenderableType] = []
    for file in report.files:
        if not file.problems:
            content = f"{_count(file.columns, 'column')}, {_count(file.rules, 'rule')}, fingerprint {file.fingerprint}"
            parts += [_heading(file.path, "green", "valid"), _facts([("", content)])]
            continue
        parts.append(_heading(file.path, "red", _count(len(file.problems), "problem")))
        for problem in file.problems:
            at = f"line {problem.line}" if problem.line else "file"
            parts.append(_facts([(at, Text.assemble(problem.message, " ", (problem.do, "italic")))]))
            parts.append(Padding(Text(problem.where, style="dim"), (0, 0, 0, _INDENT * 2)))
    return Group(*parts) if parts else Text("No contract to check.", style="dim")
