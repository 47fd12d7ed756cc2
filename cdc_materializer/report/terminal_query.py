"""Terminal views of rows: `cdcm query`, `cdcm as-of`."""

import json
from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cdc_materializer.report.layout import new_table
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.query_models import AsOfReport, QueryColumn, QueryReport
from cdc_materializer.report.wording import printable, quantity

_NUMBERS = ("int", "bigint", "float", "double", "decimal")


def query_view(report: QueryReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """The rows as a table, and how fresh they are."""
    notes = [_counted(report.rows, more=report.more)]
    for one in report.fresh:
        news = f"{quantity(one.messages, 'message')} not published yet" if one.messages else "nothing newer"
        held = f", {one.held} of them would be held" if one.held else ""
        until = f", up to {one.newest:%Y-%m-%d %H:%M:%S} UTC" if one.newest else ""
        notes.append(Text(f"{one.table}: as published, and {news}{held}{until}.", style="dim"))
    return Group(_table(report.columns, report.rows), *notes)


def as_of_view(report: AsOfReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """The rows as a table, where they come from, and what is not certain of them."""
    snapshot = f" Snapshot {report.snapshot} holds just these rows." if report.snapshot else ""
    moment = Text(f"{report.table} as of {report.position}.{snapshot}", style="dim")
    parts = [_counted(report.rows, more=report.more), moment]
    parts += [Text(note, style="yellow") for note in report.notes]
    if report.exact:
        parts.append(Text("Exact: the log leaves nothing open.", style="green"))
    return Group(_table(report.columns, report.rows), *parts)


def _table(columns: Sequence[QueryColumn], rows: Sequence[Sequence[object]]) -> Table:
    names = [column.name for column in columns]
    table = new_table(*names, numbers=tuple(column.name for column in columns if column.type.startswith(_NUMBERS)))
    for row in rows:
        table.add_row(*[_shown(value) for value in row])
    return table


def _counted(rows: Sequence[object], *, more: bool) -> Text:
    count = quantity(len(rows), "row")
    return Text(f"The first {count}." if more else f"{count}.", style="dim")


def _shown(value: object) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    return Text(printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))
