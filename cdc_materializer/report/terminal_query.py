"""Terminal view of an answer: `cdcm query`."""

import json
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from cdc_materializer.report.layout import new_table
from cdc_materializer.report.query_models import QueryReport
from cdc_materializer.report.wording import quantity

_NUMBERS = ("int", "bigint", "float", "double", "decimal")


def query_view(report: QueryReport, now: datetime) -> RenderableType:  # noqa: ARG001 - one signature for all
    """The rows as a table, and how fresh they are."""
    names = [column.name for column in report.columns]
    numbers = [column.name for column in report.columns if column.type.startswith(_NUMBERS)]
    table = new_table(*names, numbers=tuple(numbers))
    for row in report.rows:
        table.add_row(*[_shown(value) for value in row])
    said = f"The first {quantity(len(report.rows), 'row')}." if report.more else f"{quantity(len(report.rows), 'row')}."
    notes = [Text(said, style="dim")]
    for one in report.fresh:
        news = f"{quantity(one.messages, 'message')} not published yet" if one.messages else "nothing newer"
        held = f", {one.held} of them would be held" if one.held else ""
        until = f", up to {one.newest:%Y-%m-%d %H:%M:%S} UTC" if one.newest else ""
        notes.append(Text(f"{one.table}: as published, and {news}{held}{until}.", style="dim"))
    return Group(table, *notes)


def _shown(value: object) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    return Text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
