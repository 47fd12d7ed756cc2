"""What a terminal shows of `cdcm init` and `cdcm doctor`; registered in `terminal`."""

import shlex
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.setup_models import DoctorCheck, DoctorReport, InitReport, InitTopic
from cdc_materializer.report.wording import quantity

_INDENT = 2
_OUTCOMES = {"ok": "green", "warning": "yellow", "problem": "bold red"}
_STEPS = (("doctor", "checks the set-up"), ("run", "brings the mirrors up to the ends of the topics"))


def init_view(report: InitReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """Return what `cdcm init` shows: each topic, what was written, and what to do next."""
    parts: list[RenderableType] = []
    for topic in report.topics:
        parts += [_topic_heading(topic), *(_below(line, "dim") for line in _topic_lines(topic))]
    if not report.written:
        what = "No contract could be drafted" if report.read_from == "raw" else "No topic can be mirrored"
        return Group(*parts, Text(""), Text(f"{what}, so nothing was written.", style="yellow"))
    at = NextSteps(Path(report.config)).option
    parts += [Text(""), Text("Written:", style="bold"), *(_below(path) for path in report.written)]
    parts += [Text(""), Text("Next:", style="bold")]
    commands = _steps_from_raw(report) if report.read_from == "raw" else _STEPS
    for command, why in commands:
        parts.append(_below(Text.assemble((f"cdcm {command}{at}", "bold cyan"), (f"  {why}", "dim"))))
    if report.read_from == "raw":
        said = "Then give the table its contract in pipeline.yaml; the next run judges by it:"
        parts += [_below(said), *(_below(f"  {one.mirror}: contract: {one.contract}") for one in _drafted(report))]
    return Group(*parts)


def _steps_from_raw(report: InitReport) -> list[tuple[str, str]]:
    why = "tries it on all that raw holds, once you have switched rules on"
    root = Path(report.config).parent
    return [
        (f"contract test {shlex.quote(str(root / (one.contract or '')))} --table {one.mirror}", why)
        for one in _drafted(report)
    ]


def _drafted(report: InitReport) -> list[InitTopic]:
    return [topic for topic in report.topics if topic.contract is not None]


def doctor_view(report: DoctorReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """Return what `cdcm doctor` shows: a line a check, how to mend what is wrong, and the sum."""
    parts: list[RenderableType] = []
    about: str | None = None
    for check in report.checks:
        if check.table != about and check.table is not None:
            parts += [Text(""), Text(check.table, style="bold")]
        about = check.table
        parts += _check_lines(check)
    return Group(*parts, Text(""), _sum(report))


def _check_lines(check: DoctorCheck) -> Iterator[RenderableType]:
    yield Text.assemble((f"{check.outcome:<9}", _OUTCOMES[check.outcome]), (f"{check.name}: ", "bold"), check.message)
    if check.do is not None:
        yield Padding(Text(check.do, style="italic"), (0, 0, 0, len("problem  ")))


def _sum(report: DoctorReport) -> Text:
    problems, warnings = (sum(check.outcome == kind for check in report.checks) for kind in ("problem", "warning"))
    if not problems and not warnings:
        return Text("Everything is as it should be.", style="green")
    words = f"{quantity(problems, 'problem')}, {quantity(warnings, 'warning')}."
    return Text(words, style="red" if problems else "yellow")


def _topic_heading(topic: InitTopic) -> Text:
    if topic.mirror is None:
        return Text.assemble((topic.topic, "bold"), ("  not taken", "yellow"))
    return Text.assemble((topic.topic, "bold"), (f"  → {topic.mirror}", "green"))


def _topic_lines(topic: InitTopic) -> Iterator[str]:
    if topic.reason is not None:
        yield f"{topic.reason}."
        return
    yield f"{topic.why}; {quantity(len(topic.columns), 'column')}, key {', '.join(topic.key)}"
    yield from (f"{remark}." for remark in topic.remarks)


def _below(text: str | Text, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style) if isinstance(text, str) else text, (0, 0, 0, _INDENT))
