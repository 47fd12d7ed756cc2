"""The violation report as one HTML page: no script, no link that leaves it, readable in light and dark.

Every text that goes into the page is escaped by the template engine, and characters that do not print are shown as
such: names come from contracts, topics and schemas, and anybody may have made those.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING

from cdc_materializer.names import printable_lines
from cdc_materializer.report import wording
from cdc_materializer.report.next_steps import NO_FILE, NextSteps
from cdc_materializer.report.trend import TrendPoint
from cdc_materializer.report.violation_models import TableViolations, ViolationReport

if TYPE_CHECKING:
    from markupsafe import Markup

#: Size of a strip of bars in its own units; the page stretches it.
_WIDTH, _HEIGHT = 600, 48
#: With fewer points than this, bars keep the width that they have with this many.
_SLOTS_MIN = 12
#: Part of its slot that a bar fills, and the least height of a bar that stands for more than nothing.
_FILLED, _VISIBLE = 0.8, 2.0


@dataclass(frozen=True)
class Bar:
    """One bar of a strip; `words` is what it stands for."""

    x: float
    y: float
    width: float
    height: float
    words: str
    stopped: bool = False


@dataclass(frozen=True)
class Strip:
    """One number over the batches, as bars."""

    name: str
    most: int
    bars: tuple[Bar, ...]


def to_html(report: ViolationReport, steps: NextSteps = NO_FILE) -> str:
    """Return the report as the text of one HTML file, with its commands as `steps` writes them."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_printable
    )
    environment.filters |= {
        "utc": _moment,
        "share": wording.share,
        "quantity": wording.quantity,
        "breakable": _breakable,
        "with_code": _with_code,
    }
    page = environment.from_string((files(__package__) / "page.html.jinja").read_text(encoding="utf-8"))
    report = steps.in_report(report)
    return page.render(
        report=report,
        option=steps.option,
        tables=wording.worst_first(report.tables),
        words=wording,
        strips=strips,
        open_for=lambda since: wording.duration((report.as_of - since).total_seconds()),
        size=(_WIDTH, _HEIGHT),
    )


def strips(table: TableViolations) -> list[Strip]:
    """Return the trend of a table as strips of bars, one below the other; remarks only where there are any."""
    numbers = {"messages": "read", "held back": "quarantined", "with a remark": "reported"}
    found = [_strip(name, field, table.trend) for name, field in numbers.items()]
    return [strip for strip in found if strip.name != "with a remark" or strip.most]


def _strip(name: str, field: str, points: Sequence[TrendPoint]) -> Strip:
    most = max((getattr(point, field) for point in points), default=0)
    return Strip(name, most, tuple(_bars(name, field, points, most)))


def _bars(name: str, field: str, points: Sequence[TrendPoint], most: int) -> Iterator[Bar]:
    slot = _WIDTH / max(len(points), _SLOTS_MIN)
    for at, point in enumerate(points):
        number = getattr(point, field)
        batches = "" if point.batches == 1 else f" in {point.batches} batches"
        words = f"{_moment(point.until)}: {number:,} {name}{batches}"
        x, width = round(at * slot + slot * (1 - _FILLED) / 2, 2), round(slot * _FILLED, 2)
        if field == "quarantined" and point.stopped:
            stopped = f"{words}; {wording.quantity(point.stopped, 'batch', 'batches')} stopped"
            yield Bar(x, 0.5, width, _HEIGHT - 1.0, stopped, stopped=True)
        if number:
            height = max(round(number / most * _HEIGHT, 2), _VISIBLE)
            yield Bar(x, round(_HEIGHT - height, 2), width, height, words)


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _breakable(name: str) -> "Markup":
    """Let a long name break after its dots and underscores."""
    from markupsafe import Markup

    parts = re.split(r"(?<=[._])", str(_printable(name)))
    return Markup("<wbr>").join(parts)


def _with_code(sentence: str) -> "Markup":
    """Show what stands in backticks as code."""
    from markupsafe import Markup

    parts = str(_printable(sentence)).split("`")
    shown = [Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts)]
    return Markup("").join(shown)


def _printable(value: object) -> object:
    """Show characters that do not print (controls, changes of the writing's direction) as the sign for such."""
    # Exactly text: what a macro of the page returns is a kind of text too, and is escaped already.
    if type(value) is not str or value.isprintable():
        return value
    return printable_lines(value)
