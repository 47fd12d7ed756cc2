"""Terminal view of what a run would change of the tables' columns: `cdcm run --plan`."""

from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from cdc_materializer.report.layout import fact_list, failure, heading
from cdc_materializer.report.next_steps import NextSteps
from cdc_materializer.report.plan_models import DeclaredPlan, MisfitPlan, PlanReport, TablePlan
from cdc_materializer.report.wording import quantity

_NOTES = {"create": ("green", "would be made"), "change": ("yellow", "would change"), "none": ("dim", "stays as it is")}
_APPLY = {
    "append": "appended, as there are no earlier rows",
    "merge_on_read": "earlier rows of the keys are marked deleted, the new ones appended",
    "copy_on_write": "files with earlier rows of the keys are written anew, the new ones appended",
}
_HANDLING = {"hold": "what does not fit is held", "stop": "what does not fit stops the table"}


def plan_view(report: PlanReport, now: datetime, steps: NextSteps) -> RenderableType:  # noqa: ARG001 - one signature for all
    """Each table with what would be added, changed, renamed or refused."""
    parts: list[RenderableType] = []
    for table in report.tables:
        if table.error is not None:
            parts.append(failure(table.table, table.error))
            continue
        style, note = _NOTES.get(table.action, ("", ""))
        read = f"{note} ({quantity(table.messages, 'message')} looked at)"
        parts += [Text(""), heading(table.table, style, read), fact_list(_facts(table, steps))]
    return Group(*parts, Text(""), Text("Nothing was written. Values are looked at only by the run.", style="dim"))


def _facts(table: TablePlan, steps: NextSteps) -> list[tuple[str, RenderableType]]:
    key = [("key", ", ".join(table.key))] if table.action == "create" else []
    renamed = [("rename", f"{one.old} → {one.new}") for one in table.renamed]
    added = [
        ("add", f"{one.name} {one.type}" + (f", for what does not fit {one.beside}" if one.beside else ""))
        for one in table.added
    ]
    types = [
        ("change" if one.old else "add", f"{one.path} {one.old} → {one.new}" if one.old else f"{one.path} {one.new}")
        for one in table.types
    ]
    comments = [("comment", ", ".join(table.comments))] if table.comments else []
    misfits = [("misfit", _misfit(one)) for one in table.misfits]
    declared = [("contract", _declared(one, table.table, steps)) for one in table.declared]
    unknown = [("unknown", quantity(table.unknown_schemas, "schema"))] if table.unknown_schemas else []
    refused = [("refused", what) for what in table.refused]
    return [*key, *renamed, *added, *types, *comments, *misfits, *declared, *unknown, *refused, *_rows(table)]


def _rows(table: TablePlan) -> list[tuple[str, RenderableType]]:
    if table.apply is None:
        return []
    pruned = f"; files are left out by {table.pruned_by}" if table.pruned_by else ""
    return [("rows", f"{quantity(table.batches, 'batch', 'batches')}: {_APPLY[table.apply]}{pruned}")]


def _declared(found: DeclaredPlan, mirror: str, steps: NextSteps) -> str:
    remedy = steps.in_text(f"`cdcm replay {mirror} --publish` rebuilds it")
    return f"{found.column} is {found.table_type}, the contract says {found.declared_type}: {remedy}"


def _misfit(found: MisfitPlan) -> str:
    handling = f"what does not fit goes to {found.beside}" if found.beside else _HANDLING[found.handling]
    return f"{found.column} is {found.table_type}, messages have {found.writer_type}: {handling}"
