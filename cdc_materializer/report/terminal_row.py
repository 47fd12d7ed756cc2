"""Terminal view of what `cdcm why` tells of one row."""

import json
from datetime import datetime

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cdc_materializer.report.layout import INDENT, fact_list, heading
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.row_models import Became, ColumnChange, RowMessage, RowViolation, WhyReport
from cdc_materializer.report.wording import moment, printable, quantity

_STYLES: dict[Became, str] = {"quarantined": "yellow", "upserted": "green", "deleted": "green", "waiting": "cyan"}

_VALUES = "values are shown with `--values` alone, masked as the contract says"


def why_view(report: WhyReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """The life of a row, the oldest message first, and why it is as it is."""
    parts: list[RenderableType] = [
        heading(report.table, "", printable(report.key or "a message without a key that can be read")),
        *[Padding(Text(sentence), (0, 0, 0, INDENT)) for sentence in report.summary],
    ]
    if report.total > len(report.messages):
        parts.append(Text(f"The newest {len(report.messages):,} of {quantity(report.total, 'message')}.", "dim"))
    for found in report.messages:
        parts += [Text(""), *_message(found, now)]
    return Group(*parts, Text(""), Text(f"The messages themselves are in {report.table}__raw; {_VALUES}.", "dim"))


def _message(found: RowMessage, now: datetime) -> list[RenderableType]:
    title = Text.assemble((f"{found.partition}/{found.offset}", "bold"), f"  {found.op or '–'}  ")
    title.append(found.outcome, _STYLES.get(found.outcome, "dim"))
    snapshot = f"snapshot {found.snapshot}, {moment(found.published_at, now)}" if found.snapshot is not None else ""
    facts: list[tuple[str, RenderableType]] = [
        ("why", found.reason),
        *([("columns", ", ".join(_changed(found)))] if found.columns else []),
        *([("values", "\n".join(map(_values, found.values)))] if found.values else []),
        *([("kept", ", ".join(found.kept))] if found.kept else []),
        ("written", moment(found.timestamp, now)),
        *([("changed", moment(found.source_ts, now))] if found.source_ts else []),
        *([("position", found.position)] if found.position else []),
        *([("schema", printable(found.schema_name))] if found.schema_name is not None else []),
        *([("batch", f"{found.batch}: {snapshot}" if snapshot else found.batch)] if found.batch else []),
        *[("quarantine", _violation(violation, now)) for violation in found.violations],
    ]
    return [title, fact_list(facts)]


def _changed(found: RowMessage) -> list[str]:
    """The columns that a message changed, with how a masked one is hidden."""
    return [f"{name} (masked: {found.masked[name]})" if name in found.masked else name for name in found.columns]


def _values(found: ColumnChange) -> str:
    before, after = (json.dumps(value, ensure_ascii=False) for value in (found.before, found.after))
    return printable(f"{found.column}: {before} → {after}")


def _violation(found: RowViolation, now: datetime) -> str:
    name = " ".join(filter(None, (found.code, found.rule)))
    column = f" ({found.column})" if found.column else ""
    return f"{name}{column}: {found.status}, detected {moment(found.detected_at, now)}"
