"""What terminal views are made of: tables, facts under headings, numbers, places."""

from collections.abc import Iterable
from datetime import datetime

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from cdc_materializer.names import printable_lines
from cdc_materializer.report.models import ErrorInfo, MessagePlace
from cdc_materializer.report.wording import moment, printable

INDENT = 2


class Printable:
    """A view of which a terminal follows nothing: names, descriptions and errors in it are anybody's.

    Rich's own control codes (styles among them) stay.
    """

    def __init__(self, view: RenderableType) -> None:
        self._view = view

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give what the view shows, with a sign for each character that does not print."""
        for segment in console.render(self._view, options):
            yield segment if segment.control else Segment(printable_lines(segment.text), segment.style)


def number(count: int | None) -> str:
    """A count with its thousands apart; a dash for none."""
    return "–" if count is None else f"{count:,}"


def new_table(*names: str, numbers: Iterable[str] = ()) -> Table:
    """An empty table; columns of numbers stand to the right. Names may be anybody's: nothing in them is markup."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1))
    right = set(numbers)
    for name in names:
        table.add_column(Text(printable(name)), justify="right" if name in right else "left", overflow="fold")
    return table


def fact_list(pairs: Iterable[tuple[str, RenderableType]]) -> RenderableType:
    """Lay out names and values under a heading."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in pairs:
        grid.add_row(name, value if not isinstance(value, str) else Text(value))
    return Padding(grid, (0, 0, 0, INDENT))


def heading(text: str, style: str, note: str = "") -> Text:
    """A name and what is said of it."""
    return Text.assemble((text, "bold"), ("  ", ""), (note, style))


def failure(table: str, error: ErrorInfo) -> RenderableType:
    """What went wrong with a table."""
    return Group(Text(""), heading(table, "bold red", error.code), Padding(Text(error.message), (0, 0, 0, INDENT)))


def place_line(place: MessagePlace, now: datetime) -> str:
    """A place in a topic, and when its message was written."""
    return f"partition {place.partition}, offset {place.offset}, {moment(place.timestamp, now)}"
