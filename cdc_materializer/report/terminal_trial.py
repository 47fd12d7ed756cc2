"""Terminal view of a contract that was tried on history: `cdcm contract test`."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from cdc_materializer.report.layout import fact_list, heading, new_table, number, place_line
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.trial_models import LimitTrial, RuleTrial, TrialReport
from cdc_materializer.report.wording import quantity, share, utc

_NUMBERS = ("broken", "share", "rows", "held")


def trial_view(report: TrialReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """Every rule with how often history breaks it, and where the first message is that does."""
    style, note = ("green", "nothing breaks it") if not report.broken else ("yellow", _broken(report))
    since = f" since {utc(report.since)}" if report.since else ""
    where = f"{report.table}__raw" if report.read_from == "raw" else f"the topic {report.topic}"
    judged = f"{quantity(report.messages, 'message')} of {where}{since}, {report.judged:,} with a row to judge."
    title = heading(f"{report.name} {report.version}", style, note)
    parts: list[RenderableType] = [title, Text(report.path, "dim"), Text(judged, "dim")]
    if report.rules:
        table = new_table("rule", "action", *_NUMBERS, numbers=_NUMBERS)
        for rule in report.rules:
            name = Text(rule.rule, style="yellow" if rule.messages else "")
            table.add_row(
                name,
                rule.action,
                *map(number, (rule.messages,)),
                share(rule.share),
                number(rule.keys),
                number(rule.held),
            )
        parts += [
            table,
            Text("broken: messages; rows: of the source; held: messages that nothing good came after.", "dim"),
        ]
    for rule in report.rules:
        if rule.why is not None:
            parts += [Text(""), heading(rule.rule, "red", f"cannot be judged ({rule.why})")]
            parts.append(fact_list([("rule", rule.states or rule.expectation)]))
        if rule.messages:
            parts += [Text(""), heading(rule.rule, "", rule.expectation), fact_list(_facts(rule, now))]
    for of_table in report.table_rules:
        said = of_table.states or of_table.expectation
        if of_table.holds is not True:
            style = "yellow" if of_table.holds is False else "red"
            outcome = f"cannot be judged ({of_table.why})" if of_table.holds is None else "does not hold for the table"
            parts += [Text(""), heading(of_table.rule, style, outcome), fact_list([("rule", said)])]
    for code in report.codes:
        parts += [Text(""), heading(code.code, "yellow", quantity(code.messages, "message"))]
        parts.append(fact_list([("first", place_line(code.first, now))]))
    parts += _stops(report)
    done = (
        "It is the contract in force." if report.in_force else "It is not the contract in force. Nothing was written."
    )
    return Group(*parts, Text(""), Text(done, style="dim"))


def _broken(report: TrialReport) -> str:
    return f"broken after {quantity(report.broken, 'message')}"


def _stops(report: TrialReport) -> Iterator[RenderableType]:
    limit = report.limit
    if limit is not None:
        yield from (Text(""), heading("max_quarantined", "red" if limit.blocked else "", _limit(limit)))
    if report.blocks:
        yield from (Text(""), Text(f"Would have stopped batches: {', '.join(report.blocks)}.", style="red"))


def _limit(limit: LimitTrial) -> str:
    of_all = f" ({share(limit.share)})" if limit.share is not None else ""
    held = f"{limit.held:,} of {quantity(limit.messages, 'message')}{of_all}"
    return f"as one batch, {held} would be held; at most {limit.allows} may be"


def _facts(rule: RuleTrial, now: datetime) -> list[tuple[str, RenderableType]]:
    schemas = ", ".join(f"{schema} × {count:,}" for schema, count in rule.schemas.items())
    return [
        *([("rule", rule.states)] if rule.states else []),
        *([("column", rule.column)] if rule.column else []),
        *([("first", place_line(rule.first, now))] if rule.first else []),
        *([("last", place_line(rule.last, now))] if rule.last and rule.messages > 1 else []),
        *([("schema", schemas)] if schemas else []),
    ]
